"""Parameters of the bodies, from those of the links: where the links lie and how the joints attach the bodies.

The frame of a body is the child frame of the joint that moves it; that of body 0 is the root link's. Everything here
depends on parameters only, not on the state.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.kinematics.tree import by_body
from artix.math import spatial
from artix.math.arrays import take
from artix.model.articulation import Articulation

Array = jax.Array


class Placement(NamedTuple):
    """Rigid transforms as unit quaternions [4, n] and positions [3, n]."""

    rotation: Array
    position: Array

    def __matmul__(self, other: Placement) -> Placement:
        rotation = spatial.quaternion_product(self.rotation, other.rotation)
        return Placement(rotation, self.position + spatial.apply(self.matrix, other.position))

    @property
    def matrix(self) -> Array:
        """The rotations as matrices, [3, 3, n]."""
        return spatial.rotation_matrix(self.rotation)

    def inverse_times(self, other: Placement) -> Placement:
        """The products of the inverse transforms, ``self^-1 @ other``."""
        inverse = spatial.conjugate(self.rotation)
        position = spatial.apply(spatial.rotation_matrix(inverse), other.position - self.position)
        return Placement(spatial.quaternion_product(inverse, other.rotation), position)

    def times_inverse(self, other: Placement) -> Placement:
        """The products with inverse transforms, ``self @ other^-1``."""
        rotation = spatial.quaternion_product(self.rotation, spatial.conjugate(other.rotation))
        return Placement(rotation, self.position - spatial.apply(spatial.rotation_matrix(rotation), other.position))

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
    basis[1 + k] sin(angle / 2)`` for a rotation about the k-th axis of a spherical joint, or with k = 0 about the only
    axis of another. ``offset`` [3, B-1] is the joint's origin in the parent's frame and ``slide`` [3, B-1] its
    translation there per unit of its position.
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
    root = Placement(unit[:, 3:].T, unit[:, :3].T)
    parent = Placement.from_poses(articulation.joint_parent_pose)
    joint = Placement(*(jnp.where(tree.link_is_rigid, *pair) for pair in zip(parent, root, strict=True)))
    placement = joint.times_inverse(Placement.from_poses(child))
    for pointer in tree.rigid_pointers:
        with_root = Placement(*(jnp.concatenate(pair, axis=-1) for pair in zip(root, placement, strict=True)))
        placement = with_root.take(pointer) @ placement
    return placement


def joint_geometry(articulation: Articulation, placements: Placement) -> JointGeometry:
    """The joints of bodies 1 .. B-1, from the placements of the links in their bodies."""
    tree = articulation.topology
    frames = Placement.from_poses(articulation.joint_parent_pose).take(tree.body_link[1:])
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
    tree, pitch = articulation.topology, articulation.joint_pitch
    return jnp.where(tree.body_is_helical[tree.dof_body], pitch, jnp.zeros_like(pitch))
