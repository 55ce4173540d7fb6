"""Parameters of the bodies, from those of the links: joint geometry and lumped inertias.

The frame of a body is the child frame of the joint that moves it, rotated so that the free axes come first; the axes of
a body's DOFs are then the first columns of its rotation matrix. The frame of body 0 is the root link's. Everything here
depends on parameters only, not on the state.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.kinematics.tree import by_body
from artix.math import spatial
from artix.math.arrays import masked_sum, take
from artix.model.articulation import Articulation

Array = jax.Array


class Placement(NamedTuple):
    """Rigid transforms as unit quaternions [4, n] and positions [3, n]."""

    rotation: Array
    position: Array

    def __matmul__(self, other: Placement) -> Placement:
        rotation = spatial.quaternion_product(self.rotation, other.rotation)
        return Placement(rotation, self.position + spatial.rotate(self.rotation, other.position))

    def inverse(self) -> Placement:
        """The inverse transforms."""
        inverse = spatial.conjugate(self.rotation)
        return Placement(inverse, -spatial.rotate(inverse, self.position))

    def take(self, index) -> Placement:
        """The transforms at ``index``."""
        return Placement(take(self.rotation, index), take(self.position, index))

    @classmethod
    def from_poses(cls, poses: Array) -> Placement:
        """From poses [n, 7]: positions, then quaternions xyzw of any non-zero length."""
        return cls(spatial.normalize(poses[:, 3:].T), poses[:, :3].T)

    def poses(self) -> Array:
        """As poses [n, 7]."""
        return jnp.concatenate([self.position, self.rotation]).T


class Inertias(NamedTuple):
    """Mass moments of bodies about one point: the blocks of their 4 x 4 pseudo-inertias.

    ``mass`` is the integral of dm [B], ``first`` that of r dm [3, B], ``second`` that of r r^T dm [3, 3, B]. The
    rotational inertia is ``trace(second) 1 - second``. The second moments are stored instead because they transform to
    another frame (R, p) as points do: ``R second R^T`` plus products with p (Wensing, Kim and Slotine, RA-L 2018).
    """

    mass: Array
    first: Array
    second: Array


class JointGeometry(NamedTuple):
    """How bodies 1 .. B-1 are attached to their parents.

    ``basis`` holds right-product matrices [2 or 4, 4, 4, B-1]: the joint's quaternion is ``basis[0] cos(angle / 2) +
    basis[1 + k] sin(angle / 2)`` for a rotation about the k-th free axis. ``offset`` [3, B-1] is the joint's origin in
    the parent's frame and ``slide`` [3, B-1] its translation there per unit of its position.
    """

    basis: Array
    offset: Array
    slide: Array


def link_placements(articulation: Articulation) -> Placement:
    """The frame of each link in the frame of its body (L items)."""
    tree = articulation.topology
    child = articulation.joint_child_pose
    unit = jnp.asarray([[0, 0, 0, 0, 0, 0, 1]], child.dtype)
    # Row 0 of the joint frames is unused: the root link's frame is its body's.
    child = jnp.concatenate([unit, child[1:]])
    rigid = jnp.asarray(tree.link_is_rigid)
    parent = Placement.from_poses(articulation.joint_parent_pose)
    to_joint_axes = spatial.conjugate(take(jnp.asarray(tree.body_axes, child.dtype), tree.link_body))
    joint = Placement(
        jnp.where(rigid, parent.rotation, to_joint_axes),
        jnp.where(rigid, parent.position, jnp.zeros_like(parent.position)),
    )
    placement = joint @ Placement.from_poses(child).inverse()
    root = Placement(unit[:, 3:].T, unit[:, :3].T)
    for pointer in tree.rigid_pointers:
        padded = Placement(*(jnp.concatenate(pair, axis=-1) for pair in zip(root, placement, strict=True)))
        placement = padded.take(pointer) @ placement
    return placement


def joint_geometry(articulation: Articulation, placements: Placement) -> JointGeometry:
    """The joints of bodies 1 .. B-1, from the placements of the links in their bodies."""
    tree = articulation.topology
    frames = Placement.from_poses(articulation.joint_parent_pose).take(tree.body_link[1:])
    free_axes_first = jnp.asarray(tree.body_axes, articulation.dtype)[:, 1:]
    rotation = spatial.quaternion_product(frames.rotation, free_axes_first)
    joint = placements.take(tree.body_parent_link[1:]) @ Placement(rotation, frames.position)
    rest = spatial.right_product_matrix(joint.rotation)
    basis = jnp.stack([rest, *(spatial.times_unit(rest, k) for k in range(3 if tree.has_spherical else 1))])
    first_axis = jnp.broadcast_to(jnp.asarray([[1], [0], [0]], rotation.dtype), joint.position.shape)
    axis = spatial.rotate(joint.rotation, first_axis)
    slide = axis * jnp.asarray(tree.body_is_prismatic[1:], axis.dtype)[None]
    if tree.has_helical:
        slide = slide + axis * by_body(tree, screw_pitches(articulation))[:1]
    return JointGeometry(basis, joint.position, slide)


def screw_pitches(articulation: Articulation) -> Array:
    """Translation per angle of each DOF, zero unless its joint is helical, [n]."""
    tree, pitch = articulation.topology, articulation.joint_pitch
    return jnp.where(take(jnp.asarray(tree.body_is_helical), tree.dof_body), pitch, jnp.zeros_like(pitch))


def mass_frames(articulation: Articulation, placements: Placement) -> Placement:
    """The mass frames of the links in the frames of their bodies (L items)."""
    return placements @ Placement.from_poses(articulation.link_com_pose)


def body_inertias(articulation: Articulation, placements: Placement) -> Inertias:
    """Lumps the links of each body: mass moments about the origin of the body's frame, in its axes."""
    tree = articulation.topology
    mass, first, second = link_inertias(articulation, placements)
    rows = jnp.concatenate([mass[None], first, second.reshape(9, tree.num_links)])
    if tree.has_rigid_links:
        rows = masked_sum(rows, tree.link_in_body)
    return Inertias(rows[0], rows[1:4], rows[4:].reshape(3, 3, tree.num_bodies))


def link_inertias(articulation: Articulation, placements: Placement) -> Inertias:
    """Mass moments of the links about the origins of their bodies' frames, in those axes (L items)."""
    frame = mass_frames(articulation, placements)
    mass, center = articulation.link_mass, frame.position
    inertia = jnp.moveaxis(articulation.link_inertia, 0, -1)
    # Symmetrised so that the gradient with respect to the inertia is symmetric.
    inertia = 0.5 * (inertia + inertia.swapaxes(0, 1))
    half_trace = 0.5 * spatial.trace(inertia)
    at_center = half_trace[None, None] * spatial.identity_like(center) - inertia
    rotation = spatial.rotation_matrix(frame.rotation)
    first = mass[None] * center
    second = spatial.multiply_transposed(spatial.multiply(rotation, at_center), rotation)
    return Inertias(mass, first, spatial.symmetric_from_upper(second + first[:, None] * center[None]))


def lumped_masses(articulation: Articulation, placements: Placement, mass: Array) -> tuple[Array, Array]:
    """Lumps masses [L] of the links: masses [B] and first moments [3, B] of the bodies, in the bodies' frames."""
    tree = articulation.topology
    center = mass_frames(articulation, placements).position
    rows = jnp.concatenate([mass[None], mass[None] * center])
    if tree.has_rigid_links:
        rows = masked_sum(rows, tree.link_in_body)
    return rows[0], rows[1:4]
