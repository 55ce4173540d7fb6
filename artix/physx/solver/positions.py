"""Velocities before constraints act, and positions after: spherical joints and the root move as
free rotations.

PhysX rotates a link on a spherical joint by the link's own angular velocity and locks axes in
velocity only. Steps of finite length therefore leave the set of rotations ``exp(sum_k q_k e_k)``
that positions q can express. The drift D is the remainder: the child's joint frame relative to the
parent's is ``D exp(sum_k q_k e_k)``. This equals a rotation of the joint frame on the parent's
link, which is a parameter of the articulation. No other function needs to know of it.
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
from artix.math.arrays import smallest, take
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology
from artix.simulation.common.momentum_end import Momentum, turn_to_momentum
from artix.simulation.common.step_start import (
    StepStart,
    generalized_force,
    inertial_wrenches,
    link_motion,
    response,
)

Array = jax.Array


def with_joint_drift(articulation: Articulation, drift: Array) -> Articulation:
    """The articulation with joint frames rotated on their parents' links by a drift.

    Use it with the results of :func:`artix.step_with_joint_drift`:
    ``frame_pose(with_joint_drift(a, drift), state)``.

    Args:
      drift: rotation vectors [rad] of the inbound joint frames in their own axes (twist, swing1,
        swing2), shape [L, 3]; zero for links without such a joint.

    Returns:
      The articulation with a new ``joint_parent_pose``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> drift = jnp.zeros((9, 3)).at[1, 0].set(0.1)
      >>> turned = artix.with_joint_drift(arm, drift)
      >>> # the frames that turned
      >>> print((turned.joint_parent_pose != arm.joint_parent_pose).any(axis=1).sum())
      1
    """
    check_vector(
        "drift",
        drift,
        (articulation.topology.num_links, 3),
        articulation.dtype,
        "L, rotation vectors",
    )
    pose = articulation.joint_parent_pose
    rotation = spatial.quaternion_product(pose[:, 3:].T, spatial.quaternion_exp(drift.T))
    return articulation.replace(
        joint_parent_pose=jnp.concatenate([pose[:, :3], rotation.T], axis=1)
    )


def drift_by_body(tree: Topology, drift: Array) -> Array:
    """Drifts [L, 3] as quaternions [4, B-1] in the axes of the frames of bodies 1 .. B-1."""
    return spatial.quaternion_exp(drift[tree.body_link[1:]].T)


def drift_by_link(topology: Topology, quaternion: Array) -> Array:
    """The inverse of :func:`drift_by_body`; zero for links without a spherical joint."""
    vector = spatial.quaternion_log(quaternion)
    vector = jnp.where(topology.body_is_spherical[1:], vector, jnp.zeros_like(vector))
    return (
        jnp.zeros_like(vector, shape=(topology.num_links, 3))
        .at[topology.body_link[1:]]
        .set(vector.T)
    )


class Configuration(NamedTuple):
    """The configuration of an articulation within a step."""

    root_center: Array
    """Displacement of the root's centre of mass since the start of the step, [3, 1]."""
    root_rotation: Array
    """Orientation of the root link's frame, [4, 1]."""
    joint_position: Array
    """Joint positions, [n]; spherical joints keep theirs."""
    orientation: Array
    """Orientations of the links, [4, L]; only links on spherical joints get new ones."""


def start_configuration(at_start: StepStart, state: State) -> Configuration:
    """The configuration at the start of the step."""
    rotation = at_start.frame.rotation
    zero = jnp.zeros_like(state.root_pose[:3, None])
    return Configuration(zero, rotation[:, :1], state.joint_position, rotation)


def advance(
    topology: Topology,
    configuration: Configuration,
    joint_velocity: Array,
    motion: Array,
    time: Array,
) -> Configuration:
    """Moves with joint velocities [n] and link velocities [L, 6] for a time.

    As in PhysX, links on spherical joints rotate by their own angular velocity in world axes,
    whatever parents do.
    """
    turn = (time * motion[:, 3:]).T
    root_center = configuration.root_center
    root_rotation = configuration.root_rotation
    if not topology.fixed_base:
        root_center = root_center + time * motion[0, :3, None]
        root_rotation = _turn(turn[:, :1], root_rotation)
    orientation = configuration.orientation
    if topology.has_spherical:
        orientation = _turn(turn, orientation)
    joint_position = configuration.joint_position + time * joint_velocity
    return Configuration(root_center, root_rotation, joint_position, orientation)


def to_state(
    articulation: Articulation, topology: Topology, configuration: Configuration, state: State
) -> State:
    """The state with the configuration's positions and the velocities of ``state``, from which the
    step started.
    """
    q = wrap_angles(articulation, configuration.joint_position)
    if topology.has_spherical:
        turned = spatial.quaternion_log(_joint_rotations(articulation, topology, configuration))
        q = where_spherical(topology, turned, q)
    root = state.root_pose
    if not topology.fixed_base:
        center = articulation.link_com_pose[0, :3, None]
        old = spatial.normalize(root[3:, None])
        new = configuration.root_rotation
        moved = (
            spatial.rotate(old, center) - spatial.rotate(new, center) + configuration.root_center
        )
        root = jnp.concatenate([root[:3] + moved[:, 0], new[:, 0]])
    return state.replace(root_pose=root, joint_position=q)


def with_drift_of(
    articulation: Articulation, topology: Topology, configuration: Configuration, end: State
) -> tuple[Articulation, Array]:
    """The articulation whose state ``end`` puts the links in this configuration, and its drift
    [L, 3].
    """
    drift = jnp.zeros_like(articulation.joint_parent_pose[:, :3])
    if topology.has_spherical:
        named = spatial.quaternion_exp(by_body(topology, end.joint_position))
        rotations = _joint_rotations(articulation, topology, configuration)
        drift = drift_by_link(
            topology, spatial.quaternion_product(rotations, spatial.conjugate(named))
        )
    return with_joint_drift(articulation, drift), drift


def _turn(vector: Array, quaternion: Array) -> Array:
    return spatial.normalize(spatial.quaternion_product(spatial.quaternion_exp(vector), quaternion))


def _joint_rotations(
    articulation: Articulation, topology: Topology, configuration: Configuration
) -> Array:
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
    root = spatial.quaternion_product(
        configuration.root_rotation, spatial.conjugate(moved.rotation[:, :1])
    )
    above = _parent_orientations(topology, root, local, absolute)
    relative = spatial.quaternion_product(spatial.conjugate(above), absolute[:, 1:])
    return spatial.quaternion_product(spatial.conjugate(geometry.basis[0, :, 3]), relative)


def _parent_orientations(topology: Topology, root: Array, local: Array, absolute: Array) -> Array:
    """Orientations [4, B-1] of the parents of bodies 1 .. B-1, where the bodies on spherical joints
    are known.
    """
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


class Unconstrained(NamedTuple):
    """Velocities after external and inertial forces, before constraints act."""

    acceleration: Array
    """Generalised acceleration, [nv]."""
    velocity: Array
    """Generalised velocity, [nv]."""
    motion: Array
    """Velocities of the links' centres of mass, [L, 6]; because of velocity products they differ
    from J velocity."""
    loaded_motion: Array
    """Velocities of the links if only the external forces had acted, [L, 6]."""


def clamp_joint_velocities(articulation: Articulation, state: State) -> State:
    """Scales all joint velocities by a common factor so that none exceeds its limit."""
    speed = jnp.abs(state.joint_velocity)
    limit = articulation.max_joint_velocity
    fast = speed > limit
    ratio = jnp.where(fast, limit, 1) / jnp.where(fast, speed, 1)
    return state.replace(joint_velocity=state.joint_velocity * smallest(ratio, 1))


def unconstrained_velocities(
    at_start: StepStart, velocity: Array, wrench: Array, joint_force: Array, dt: Array
) -> Unconstrained:
    """Advances velocities by external wrenches [L, 6], generalised forces of the joints [nv] and
    velocity products.
    """
    loaded = response(at_start, generalized_force(at_start, wrench))
    motion = link_motion(at_start, velocity)
    turning = inertial_wrenches(at_start, motion, at_start.velocity_product)
    acceleration = loaded + response(at_start, joint_force - generalized_force(at_start, turning))
    return Unconstrained(
        acceleration=acceleration,
        velocity=velocity + dt * acceleration,
        motion=motion + dt * (link_motion(at_start, acceleration) + at_start.velocity_product),
        loaded_motion=motion + dt * link_motion(at_start, loaded),
    )


def momentum_of(mass: Array, inertia: Array, center: Array, motion: Array) -> Momentum:
    """The momentum of links: masses [L], inertias [L, 3, 3], centres [L, 3] and velocities
    [L, 6].
    """
    linear = jnp.sum(mass[:, None] * motion[:, :3], axis=0)
    total = jnp.sum(mass)
    arm = center - jnp.sum(mass[:, None] * center, axis=0)[None] / total
    relative = motion[:, :3] - linear[None] / total
    # Not a matrix product, because products of many small matrices are slow.
    spin = jnp.sum(inertia * motion[:, None, 3:], axis=2)
    return Momentum(linear, jnp.sum(spin + mass[:, None] * jnp.cross(arm, relative), axis=0))


def restore_momentum(
    mass: Array,
    inertia: Array,
    center: Array,
    motion: Array,
    target: Momentum,
    *,
    magnitude_only: bool,
) -> Array:
    """Adds one rigid-body motion to all links so that they have a given momentum.

    Args:
      mass: masses of the links [kg], [L].
      inertia: inertias about their centres of mass in world axes [kg m^2], [L, 3, 3].
      center: centres of mass [m], [L, 3].
      motion: velocities of the links, [L, 6].
      target: the desired momentum.
      magnitude_only: whether to correct only the magnitude of the angular momentum, as PhysX does.

    Returns:
      The corrected velocities, [L, 6].
    """
    total = jnp.sum(mass)
    arm = center - jnp.sum(mass[:, None] * center, axis=0)[None] / total
    square = jnp.sum(arm**2, axis=1)[:, None, None] * jnp.eye(3, dtype=arm.dtype)[None]
    composite = jnp.sum(
        inertia + mass[:, None, None] * (square - arm[:, :, None] * arm[:, None, :]), axis=0
    )
    angular = momentum_of(mass, inertia, center, motion).angular
    turn = turn_to_momentum(
        composite[:, :, None],
        angular[:, None],
        target.angular[:, None],
        magnitude_only=magnitude_only,
    )[:, 0]
    turned = motion + jnp.concatenate(
        [jnp.cross(turn[None], arm), jnp.broadcast_to(turn[None], arm.shape)], axis=1
    )
    shift = (target.linear - jnp.sum(mass[:, None] * turned[:, :3], axis=0)) / total
    return turned + jnp.concatenate([shift, jnp.zeros_like(shift)])[None]
