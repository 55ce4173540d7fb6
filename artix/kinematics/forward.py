"""Forward kinematics: where all bodies are, how their DOFs move them, their velocities and
accelerations.

The frame of a body is the child frame of the joint that moves it; the frame of body 0 is the root
link's. The first half depends on parameters only: where the links lie in their bodies and how the
joints attach the bodies.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.kinematics.tree import body_frames, by_body, joint_quaternions, path_sum
from artix.math import spatial
from artix.math.arrays import identity, take
from artix.math.spatial import Motion, Transforms
from artix.math.traces import shared
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state
from artix.model.topology import Topology

Array = jax.Array


class JointGeometry(NamedTuple):
    """How bodies 1 .. B-1 are attached to their parents.

    ``basis`` holds right-product matrices [2 or 4, 4, 4, B-1]: the joint's quaternion is
    ``basis[0] cos(angle / 2) + basis[1 + k] sin(angle / 2)`` for a rotation about the k-th axis of
    a spherical joint, or with k = 0 about the only axis of another. ``offset`` [3, B-1] is the
    joint's origin in the parent's frame and ``slide`` [3, B-1] its translation there per unit of
    its position.
    """

    basis: Array
    offset: Array
    slide: Array


def link_placements(articulation: Articulation) -> Transforms:
    """The frame of each link in the frame of its body (L items)."""
    tree = articulation.topology
    child = articulation.joint_child_pose
    unit = jnp.asarray([[0, 0, 0, 0, 0, 0, 1]], child.dtype)
    # Row 0 of the joint frames is unused: the root link's frame is its body's.
    child = jnp.concatenate([unit, child[1:]])
    root = Transforms(unit[:, 3:].T, unit[:, :3].T)
    parent = Transforms.from_poses(articulation.joint_parent_pose)
    joint = Transforms(
        *(jnp.where(tree.link_is_rigid, *pair) for pair in zip(parent, root, strict=True))
    )
    placement = joint.times_inverse(Transforms.from_poses(child))
    for pointer in tree.rigid_pointers:
        with_root = Transforms(
            *(jnp.concatenate(pair, axis=-1) for pair in zip(root, placement, strict=True))
        )
        placement = with_root.take(pointer) @ placement
    return placement


def joint_geometry(articulation: Articulation, placements: Transforms) -> JointGeometry:
    """The joints of bodies 1 .. B-1, from the placements of the links in their bodies."""
    tree = articulation.topology
    frames = Transforms.from_poses(articulation.joint_parent_pose).take(tree.body_link[1:])
    joint = placements.take(tree.body_parent_link[1:]) @ frames
    rest = spatial.right_product_matrix(joint.rotation)
    turned = jnp.stack([spatial.times_unit(rest, k) for k in range(3)])
    axes = jnp.asarray(tree.body_axis, articulation.dtype)[:, 1:]
    first = jnp.sum(axes[:, None, None] * turned, axis=0)
    basis = jnp.stack([rest, first, *(turned[1:] if tree.has_spherical else ())])
    axis = spatial.apply(joint.matrix, axes)
    slide = axis * jnp.asarray(tree.body_is_prismatic[1:], axis.dtype)[None]
    if tree.has_helical:
        slide = slide + axis * by_body(tree, screw_pitches(articulation))[:1]
    return JointGeometry(basis, joint.position, slide)


def screw_pitches(articulation: Articulation) -> Array:
    """Translation per angle of each DOF, zero unless its joint is helical, [n]."""
    tree = articulation.topology
    pitch = articulation.joint_pitch
    return jnp.where(tree.body_is_helical[tree.dof_body], pitch, jnp.zeros_like(pitch))


def joint_efforts(articulation: Articulation, wrench: Array) -> Array:
    """The power of wrenches through the joints per velocity of each DOF: the sum of drives, limits
    and loads, [n].

    Args:
      wrench: force [N], then torque [N m], that each link's joint transmits, in the joint's frame,
        [L, 6].
    """
    tree = articulation.topology
    torque_first = jnp.roll(wrench, 3, axis=1)
    efforts = torque_first[tree.dof_link, tree.dof_axis]
    if not tree.has_helical:
        return efforts
    return (
        efforts + screw_pitches(articulation) * torque_first[tree.dof_link, tree.dof_axis % 3 + 3]
    )


class Kinematics(NamedTuple):
    """The configuration of all bodies, relative to the root link's centre of mass and in world
    axes.

    Positions relative to the root make float32 results as accurate a kilometre from the world's
    origin as at it.
    """

    placements: Transforms
    """Link frames in their bodies' frames (L items)."""
    reference: Array
    """World position of the root link's centre of mass, [3]."""
    quaternion: Array
    """Orientations of the bodies, [4, B]."""
    rotation: Array
    """The same as matrices, [3, 3, B]."""
    position: Array
    """Origins of the bodies relative to ``reference``, [3, B]."""
    pitch: Array | None
    """Translation per angle of each DOF, [n]; ``None`` where no joint is helical."""


@shared
def kinematics(articulation: Articulation, state: State) -> Kinematics:
    """Solves forward kinematics for all bodies; every other function starts here.

    Functions call it again rather than pass its result around: a program carries out equal
    operations once.
    """
    check_state(articulation, state)
    tree = articulation.topology
    placements = link_placements(articulation)
    geometry = joint_geometry(articulation, placements)
    root_rotation = spatial.normalize(state.root_pose[3:, None])
    root_center = spatial.apply(
        spatial.rotation_matrix(root_rotation), articulation.link_com_pose[0, :3, None]
    )
    weights, offset = joint_transforms(tree, geometry, state.joint_position)
    local = joint_quaternions(geometry.basis, weights)
    quaternion, rotation, position = body_frames(tree, root_rotation, -root_center, local, offset)
    reference = state.root_pose[:3] + root_center[:, 0]
    pitch = screw_pitches(articulation) if tree.has_helical else None
    return Kinematics(placements, reference, quaternion, rotation, position, pitch)


def joint_transforms(tree: Topology, geometry: JointGeometry, q: Array) -> tuple[Array, Array]:
    """The weights of ``geometry.basis``, [2 or 4, B-1], and the origins [3, B-1] of bodies 1 ..
    B-1.
    """
    values = by_body(tree, q)
    first = values[0]
    revolute = jnp.asarray(tree.body_is_revolute[1:], q.dtype)
    spherical = jnp.asarray(tree.body_is_spherical[1:], q.dtype)
    half = 0.5 * first * revolute if tree.has_prismatic or tree.has_spherical else 0.5 * first
    weights = [jnp.cos(half), jnp.sin(half)]
    if tree.has_spherical:
        x, y, z, w = spatial.quaternion_exp(values * spherical[None])
        weights = [
            jnp.where(spherical > 0, w, weights[0]),
            jnp.where(spherical > 0, x, weights[1]),
            y,
            z,
        ]
    slides = tree.has_prismatic or tree.has_helical
    offset = geometry.offset + geometry.slide * first[None] if slides else geometry.offset
    return jnp.stack(weights), jnp.broadcast_to(offset, (3, *first.shape))


def dof_motions(tree: Topology, kin: Kinematics) -> Motion:
    """The motion that a unit velocity of each DOF gives to everything below it, linear and angular
    part [3, n].
    """
    axis = spatial.apply(kin.rotation, jnp.asarray(tree.body_axis, kin.rotation.dtype))
    if tree.has_spherical:
        columns = jnp.concatenate([axis, kin.rotation[:, 1], kin.rotation[:, 2]], axis=1)
        axis = take(columns, tree.dof_column * tree.num_bodies + tree.dof_body)
    else:
        axis = take(axis, tree.dof_body)
    moment = spatial.cross(take(kin.position, tree.dof_body), axis)
    if kin.pitch is not None:
        moment = moment + kin.pitch[None] * axis
    if not tree.has_prismatic:
        return Motion(moment, axis)
    linear = tree.dof_is_linear[None]
    return Motion(jnp.where(linear, axis, moment), jnp.where(linear, jnp.zeros_like(axis), axis))


def generalized_motions(articulation: Articulation, kin: Kinematics) -> Array:
    """The unit motions S_j of the generalised velocity about the reference point, linear part
    first, [6, nv].
    """
    tree = articulation.topology
    motions = jnp.concatenate(dof_motions(tree, kin))
    if tree.num_base_dofs == 0:
        return motions
    return jnp.concatenate([identity(6, motions.dtype), motions], axis=1)


def root_motion(tree: Topology, root: Array) -> Motion:
    """A root velocity or acceleration [6] as [3, 1] parts; zero for a fixed base."""
    if tree.fixed_base:
        root = jnp.zeros_like(root)
    return Motion(root[:3, None], root[3:, None])


def body_velocities(tree: Topology, motions: Motion, root: Motion, qd: Array) -> Motion:
    """Velocities of all bodies about the reference point, [3, B] each."""
    return Motion.from_rows(
        jnp.concatenate(root) + path_sum(tree, jnp.concatenate(motions) * qd[None])
    )


def state_velocities(tree: Topology, kin: Kinematics, state: State) -> Motion:
    """Velocities of all bodies in a state about the reference point, [3, B] each."""
    return body_velocities(
        tree, dof_motions(tree, kin), root_motion(tree, state.root_velocity), state.joint_velocity
    )


def center_velocities(
    tree: Topology, motions: Motion, root: Motion, qd: Array, centers: Array
) -> Array:
    """Velocities of the links' centres of mass (see :func:`link_centers`), then angular velocities,
    [6, L].
    """
    linear, angular = body_velocities(tree, motions, root, qd).take(tree.link_body)
    return jnp.concatenate([linear + spatial.cross(angular, centers), angular])


def motion_cross(velocity: Motion, motion: Motion) -> Motion:
    """Rate of change of a motion carried along by a velocity: the spatial cross product
    ``velocity x motion``.
    """
    linear = spatial.cross(velocity.angular, motion.linear) + spatial.cross(
        velocity.linear, motion.angular
    )
    return Motion(linear, spatial.cross(velocity.angular, motion.angular))


def motion_rates(tree: Topology, velocity: Motion, motions: Motion) -> Motion:
    """Rates of change of the DOFs' motions, each carried along by its body."""
    return motion_cross(velocity.take(tree.dof_body), motions)


def body_accelerations(
    tree: Topology, motions: Motion, state: State, acceleration: Array | None
) -> tuple[Motion, Motion]:
    """Velocities and spatial accelerations of all bodies about the reference point, [3, B] each.

    Both are relative to the inertial frame that moves with the root's centre of mass, as Galilean
    invariance allows. The reference point is then at rest, and float32 loses no digits when the
    whole articulation moves fast. An acceleration of ``None`` is zero.
    """
    root = root_motion(tree, state.root_velocity)
    root = Motion(jnp.zeros_like(root.linear), root.angular)
    velocity = body_velocities(tree, motions, root, state.joint_velocity)
    moving = Motion.from_rows(jnp.concatenate(motions) * state.joint_velocity[None])
    rows = jnp.concatenate(motion_rates(tree, velocity, moving))
    if acceleration is None:
        return velocity, Motion.from_rows(path_sum(tree, rows))
    base = tree.num_base_dofs
    sums = path_sum(tree, rows + jnp.concatenate(motions) * acceleration[None, base:])
    root = root_motion(tree, acceleration[:base] if base else jnp.zeros_like(state.root_velocity))
    return velocity, Motion.from_rows(jnp.concatenate(root) + sums)


def link_centers(articulation: Articulation, kin: Kinematics) -> Array:
    """Centres of mass of the links relative to the reference point, [3, L]."""
    centers = kin.placements @ Transforms.from_poses(articulation.link_com_pose)
    body = articulation.topology.link_body
    return take(kin.position, body) + spatial.apply(take(kin.rotation, body), centers.position)
