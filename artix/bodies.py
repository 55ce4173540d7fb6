"""From an articulation's parameters to those of its bodies: joint geometry and lumped inertias.

The frame of a body is the child joint frame of the joint that moves it, turned so that the free axes come first; a
body's DOFs are then the first columns of its rotation. The frame of body 0 is the root link's. Everything here depends on
parameters alone, so under ``vmap`` over states it is computed once.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix import spatial
from artix.articulation import Articulation
from artix.tree import masked_sum, take

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
    """Inertias of bodies: mass [B], first moment [3, B] and rotational inertia [3, 3, B] about one point."""

    mass: Array
    first_moment: Array
    rotational: Array


class JointGeometry(NamedTuple):
    """How bodies 1 .. B-1 sit on their parents.

    ``rest`` and ``turns[k]`` are right-product matrices [4, 4, B-1]: the joint's quaternion is
    ``rest cos(angle / 2) + turns[k] sin(angle / 2)`` for a rotation about the k-th free axis. ``offset`` [3, B-1] is
    the joint's origin in the parent's frame and ``slide`` [3, B-1] the direction of a translation there.
    """

    rest: Array
    turns: tuple[Array, ...]
    offset: Array
    slide: Array


def link_placements(articulation: Articulation) -> Placement:
    """The frame of each link in the frame of its body (L items)."""
    tree = articulation.topology
    # Row 0 of the joint frames is unused by definition: the root's frame is its body's.
    child = articulation.joint_child_pose.at[0].set(jnp.zeros(7, articulation.dtype).at[6].set(1))
    rigid = jnp.asarray(tree.link_is_rigid)
    parent = Placement.from_poses(articulation.joint_parent_pose)
    turned = spatial.conjugate(take(jnp.asarray(tree.body_axes, articulation.dtype), tree.link_body))
    joint = Placement(
        jnp.where(rigid, parent.rotation, turned), jnp.where(rigid, parent.position, jnp.zeros_like(parent.position))
    )
    placement = joint @ Placement.from_poses(child).inverse()
    unit = Placement(jnp.zeros_like(placement.rotation, shape=(4, 1)).at[3].set(1), jnp.zeros_like(parent.position[:, :1]))
    for pointer in tree.rigid_pointers:
        padded = Placement(*(jnp.concatenate(pair, axis=-1) for pair in zip(unit, placement, strict=True)))
        placement = padded.take(pointer) @ placement
    return placement


def joint_geometry(articulation: Articulation, placements: Placement) -> JointGeometry:
    """The joints of bodies 1 .. B-1, from the placements of the links in their bodies."""
    tree = articulation.topology
    links = tree.body_link[1:]
    frames = Placement.from_poses(articulation.joint_parent_pose).take(links)
    turn = jnp.asarray(tree.body_axes, articulation.dtype)[:, 1:]
    joint = placements.take(tree.body_parent_link[1:]) @ frames @ Placement(turn, jnp.zeros_like(frames.position))
    matrix = spatial.right_product_matrix(joint.rotation)
    turns = []
    for k in range(3 if tree.has_spherical else 1):
        unit = jnp.zeros_like(joint.rotation).at[k].set(1)
        turns.append(spatial.right_product_matrix(spatial.quaternion_product(joint.rotation, unit)))
    slide = spatial.rotate(joint.rotation, jnp.zeros_like(joint.position).at[0].set(1))
    return JointGeometry(matrix, tuple(turns), joint.position, slide)


def body_inertias(articulation: Articulation, placements: Placement, *, weights: Array | None = None) -> Inertias:
    """Lumps the links of each body: inertias about the origin of the body's frame, in its axes.

    Args:
      articulation: the articulation.
      placements: the frames of the links in their bodies.
      weights: a factor per link [L], such as ``gravity_scale``; the rotational part ignores it.
    """
    tree = articulation.topology
    mass = articulation.link_mass
    frame = placements @ Placement.from_poses(articulation.link_com_pose)
    center = frame.position
    rotation = spatial.rotation_matrix(frame.rotation)
    inertia = jnp.moveaxis(articulation.link_inertia, 0, -1)
    about_center = spatial.multiply_transposed(spatial.multiply(rotation, inertia), rotation)
    shift = spatial.dot(center, center)[None, None] * spatial.identity_like(center) - center[:, None] * center[None]
    rotational = about_center + mass[None, None] * shift
    weighted = mass if weights is None else mass * weights
    rows = jnp.concatenate([weighted[None], weighted[None] * center, rotational.reshape(9, -1)])
    if tree.num_bodies < tree.num_links:
        rows = masked_sum(rows, tree.link_in_body)
    return Inertias(rows[0], rows[1:4], rows[4:].reshape(3, 3, -1))
