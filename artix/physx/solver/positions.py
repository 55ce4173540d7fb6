"""Integrates positions within a step. Spherical joints and the root move as free rotations.

PhysX rotates a link on a spherical joint by the link's own angular velocity and locks axes in velocity only. Steps of
finite length therefore leave the set of rotations ``exp(sum_k q_k e_k)`` that positions q can express. The drift D is
the remainder: the child's joint frame relative to the parent's is ``D exp(sum_k q_k e_k)``. This equals a rotation of
the joint frame on the parent's link, which is a parameter of the articulation. No other function needs to know of it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.configuration import wrap_angles
from artix.kinematics.forward import joint_geometry, joint_transforms, link_placements
from artix.kinematics.tree import by_body, joint_quaternions, where_spherical
from artix.math import spatial
from artix.math.arrays import take
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology
from artix.simulation.common.step_start import StepStart

Array = jax.Array


def with_joint_drift(articulation: Articulation, drift: Array) -> Articulation:
    """The articulation with joint frames rotated on their parents' links by a drift.

    Use it with the results of :func:`artix.step_with_joint_drift`:
    ``frame_pose(with_joint_drift(a, drift), state)``.

    Args:
      articulation: the articulation.
      drift: rotation vectors [rad] of the inbound joint frames in their own axes (twist, swing1, swing2), shape [L, 3];
        zero for links without such a joint.

    Returns:
      The articulation with a new ``joint_parent_pose``.

    Raises:
      ValueError: ``drift`` has another shape.
      TypeError: ``drift`` has another dtype than the articulation.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> drift = jnp.zeros((9, 3)).at[1, 0].set(0.1)
      >>> turned = artix.with_joint_drift(arm, drift)
      >>> print((turned.joint_parent_pose != arm.joint_parent_pose).any(axis=1).sum())  # the frames that turned
      1
    """
    check_vector("drift", drift, (articulation.topology.num_links, 3), articulation.dtype, "L, rotation vectors")
    pose = articulation.joint_parent_pose
    rotation = spatial.quaternion_product(pose[:, 3:].T, spatial.quaternion_exp(drift.T))
    return articulation.replace(joint_parent_pose=jnp.concatenate([pose[:, :3], rotation.T], axis=1))


def drift_by_body(tree: Topology, drift: Array) -> Array:
    """Drifts [L, 3] as quaternions [4, B-1] in the axes of the frames of bodies 1 .. B-1."""
    return spatial.quaternion_exp(drift[tree.body_link[1:]].T)


def drift_by_link(topology: Topology, quaternion: Array) -> Array:
    """The inverse of :func:`drift_by_body`; zero for links without a spherical joint."""
    vector = spatial.quaternion_log(quaternion)
    vector = jnp.where(topology.body_is_spherical[1:], vector, jnp.zeros_like(vector))
    return jnp.zeros_like(vector, shape=(topology.num_links, 3)).at[topology.body_link[1:]].set(vector.T)


class Configuration(NamedTuple):
    """The configuration of an articulation within a step."""

    root_center: Array
    """Displacement of the root's centre of mass since the start of the step, [3, 1]."""
    root_rotation: Array
    """Orientation of the root link's frame, [4, 1]."""
    joint_position: Array
    """Joint positions, [n]; those of spherical joints are not updated."""
    orientation: Array
    """Orientations of the links, [4, L]; only those of links on spherical joints are updated."""


def start_configuration(at_start: StepStart, state: State) -> Configuration:
    """The configuration at the start of the step."""
    rotation = at_start.frame.rotation
    zero = jnp.zeros_like(state.root_pose[:3, None])
    return Configuration(zero, rotation[:, :1], state.joint_position, rotation)


def advance(
    topology: Topology, configuration: Configuration, joint_velocity: Array, motion: Array, time: Array
) -> Configuration:
    """Moves with joint velocities [n] and link velocities [L, 6] for a time.

    As in PhysX, links on spherical joints rotate by their own angular velocity in world axes, whatever parents do.
    """
    turn = (time * motion[:, 3:]).T
    root_center, root_rotation = configuration.root_center, configuration.root_rotation
    if not topology.fixed_base:
        root_center = root_center + time * motion[0, :3, None]
        root_rotation = _turned(turn[:, :1], root_rotation)
    orientation = configuration.orientation
    if topology.has_spherical:
        orientation = _turned(turn, orientation)
    joint_position = configuration.joint_position + time * joint_velocity
    return Configuration(root_center, root_rotation, joint_position, orientation)


def to_state(articulation: Articulation, topology: Topology, configuration: Configuration, state: State) -> State:
    """The state with the configuration's positions and the velocities of ``state``, from which the step started."""
    q = wrap_angles(articulation, configuration.joint_position)
    if topology.has_spherical:
        turned = spatial.quaternion_log(_joint_rotations(articulation, topology, configuration))
        q = where_spherical(topology, turned, q)
    root = state.root_pose
    if not topology.fixed_base:
        center = articulation.link_com_pose[0, :3, None]
        old = spatial.normalize(root[3:, None])
        new = configuration.root_rotation
        moved = spatial.rotate(old, center) - spatial.rotate(new, center) + configuration.root_center
        root = jnp.concatenate([root[:3] + moved[:, 0], new[:, 0]])
    return state.replace(root_pose=root, joint_position=q)


def with_drift_of(
    articulation: Articulation, topology: Topology, configuration: Configuration, end: State
) -> tuple[Articulation, Array]:
    """The articulation whose state ``end`` puts the links in this configuration, and its drift [L, 3]."""
    drift = jnp.zeros_like(articulation.joint_parent_pose[:, :3])
    if topology.has_spherical:
        named = spatial.quaternion_exp(by_body(topology, end.joint_position))
        rotations = _joint_rotations(articulation, topology, configuration)
        drift = drift_by_link(topology, spatial.quaternion_product(rotations, spatial.conjugate(named)))
    return with_joint_drift(articulation, drift), drift


def _turned(vector: Array, quaternion: Array) -> Array:
    return spatial.normalize(spatial.quaternion_product(spatial.quaternion_exp(vector), quaternion))


def _joint_rotations(articulation: Articulation, topology: Topology, configuration: Configuration) -> Array:
    """Rotations of the joints of bodies 1 .. B-1 in the axes of the bodies' frames, [4, B-1]."""
    # Used for spherical joints only.
    placements = link_placements(articulation)
    geometry = joint_geometry(articulation, placements)
    amounts, _ = joint_transforms(topology, geometry, configuration.joint_position)
    local = joint_quaternions(geometry.basis, amounts)
    moved = placements.take(topology.body_link)
    # A link's world frame is its body's frame times the link's frame in the body.
    absolute = spatial.quaternion_product(
        take(configuration.orientation, topology.body_link), spatial.conjugate(moved.rotation)
    )
    root = spatial.quaternion_product(configuration.root_rotation, spatial.conjugate(moved.rotation[:, :1]))
    above = _parent_orientations(topology, root, local, absolute)
    relative = spatial.quaternion_product(spatial.conjugate(above), absolute[:, 1:])
    return spatial.quaternion_product(spatial.conjugate(geometry.basis[0, :, 3]), relative)


def _parent_orientations(topology: Topology, root: Array, local: Array, absolute: Array) -> Array:
    """Orientations [4, B-1] of the parents of bodies 1 .. B-1, where the bodies on spherical joints are known."""
    current = [root]
    place = {0: 0}
    for level in topology.body_levels:
        previous = jnp.concatenate(current, axis=1)
        above = previous[:, np.array([place[int(body)] for body in topology.body_parent[level]])]
        turned = spatial.apply(local[..., level - 1], above)
        known = jnp.asarray(topology.body_is_spherical[level])
        place |= {int(body): previous.shape[1] + k for k, body in enumerate(level)}
        current.append(jnp.where(known, absolute[:, level], turned))
    everything = jnp.concatenate(current, axis=1)
    return everything[:, np.array([place[int(body)] for body in topology.body_parent[1:]], int)]
