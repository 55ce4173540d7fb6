"""The tree operations from which every algorithm is built.

*Propagate*: compose transforms from the root outwards. *Path sum*: add up over the DOFs above each body. *Subtree sum*:
add up over the bodies below each DOF. On a static :class:`~artix.Topology`, only transforms recurse, and both sums are
products with a constant 0/1 matrix, so no algorithm loops over links. On a :class:`~artix.PaddedTopology`, whose arrays
are data, all three are recursions (:mod:`artix.kinematics.recursions`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.recursions import inwards, outwards
from artix.math import spatial
from artix.math.arrays import masked_sum, take
from artix.model.articulation import State
from artix.model.padded_topology import PaddedTopology, Tree
from artix.model.topology import Topology

Array = jax.Array


def path_sum(tree: Tree, x: Array) -> Array:
    """Sums x [k, n] over the DOFs that move each body: [k, B]."""
    if isinstance(tree, Topology):
        return masked_sum(x, tree.dof_moves_body)

    def step(above: Array, own: Array) -> tuple[Array, Array]:
        return above + own, above + own

    root = jnp.zeros_like(x, shape=x.shape[:-1])
    return jnp.concatenate(
        [root[..., None], outwards(tree, step, root, jnp.sum(rows_by_body(tree, x), axis=0))], axis=-1
    )


def subtree_sums(tree: Tree, x: Array) -> tuple[Array, Array]:
    """Sums x [k, B] over all bodies, [k, 1], and over the bodies that each DOF moves, [k, n].

    Entries of padded bodies must be zero.
    """
    if isinstance(tree, Topology):
        sums = masked_sum(x, tree.bodies_below)
        return sums[:, :1], sums[:, 1:]
    sums = _subtree_sums_of_data(tree, x)
    return sums[:, :1], take(sums, tree.dof_body)


def link_subtree_sums(tree: Tree, x: Array) -> Array:
    """Sums x [..., L] over each link and all links below it: [..., L]."""
    if isinstance(tree, Topology):
        return masked_sum(x, tree.link_ancestors.T)
    return _subtree_sums_of_data(tree, jnp.where(tree.link_is_live, x, jnp.zeros_like(x)))


def _subtree_sums_of_data(tree: PaddedTopology, x: Array) -> Array:
    """Sums x [..., L] over each link, each of which is a body, and all links below it: [..., L]."""

    def step(below: Array, own: Array) -> tuple[Array, Array]:
        return below + own, below + own

    root, sums = inwards(tree, step, jnp.zeros_like(x[..., 0]), x[..., 1:])
    return jnp.concatenate([(x[..., 0] + root)[..., None], sums], axis=-1)


def where_live(tree: Tree, x: Array) -> Array:
    """Sets the entries [n] of padded DOFs to zero."""
    return x if tree.dof_is_live is None else jnp.where(tree.dof_is_live, x, jnp.zeros_like(x))


def of_live_dofs(tree: Tree, state: State) -> State:
    """The state with zeros for padded DOFs."""
    if tree.dof_is_live is None:
        return state
    return state.replace(
        joint_position=where_live(tree, state.joint_position), joint_velocity=where_live(tree, state.joint_velocity)
    )


def free_root(tree: Tree, rows: Array) -> Array:
    """Rows of the root's six entries, zero for the members of a padded fleet whose base is fixed."""
    return rows if tree.base_is_free is None else jnp.where(tree.base_is_free, rows, jnp.zeros_like(rows))


def by_body(tree: Tree, q: Array) -> Array:
    """Joint values [n] sorted by body, see :attr:`~artix.Topology.body_dofs`; zero where there is no DOF.

    Shape [3, B-1], or [1, B-1] where no joint has several DOFs.
    """
    rows = slice(3 if tree.has_spherical else 1)
    if isinstance(tree, Topology):
        padded = jnp.concatenate([q, jnp.zeros_like(q, shape=(1,))])
        return jnp.stack([take(padded, row[1:]) for row in tree.body_dofs[rows]])
    return _rows_of_data(tree, q)


def rows_by_body(tree: PaddedTopology, x: Array) -> Array:
    """Values [..., n], zero for DOFs that a member lacks, sorted by body, [3 or 1, ..., B-1]; see :func:`by_body`."""
    return x[None, ..., : tree.num_bodies - 1] if tree.has_one_dof_each else _rows_of_data(tree, x)


def _rows_of_data(tree: PaddedTopology, x: Array) -> Array:
    rows = slice(3 if tree.has_spherical else 1)
    if tree.num_dofs == 0:
        return jnp.zeros_like(x, shape=(rows.stop, *x.shape[:-1], tree.num_bodies - 1))
    values = jnp.stack([take(x, row[1:]) for row in tree.nearest_body_dofs[rows]])
    has_dof = jnp.expand_dims(tree.body_has_dof[rows, 1:], tuple(range(1, x.ndim)))
    return jnp.where(has_dof, values, jnp.zeros_like(values))


def where_spherical(tree: Tree, vectors: Array, other: Array) -> Array:
    """Joint values [n]: for spherical joints from vectors [3, B-1], for all others from ``other`` [n]."""
    width = tree.num_bodies - 1
    values = take(vectors.reshape(-1), tree.dof_column * width + tree.dof_body - 1)
    return jnp.where(jnp.asarray(tree.dof_is_spherical), values, other)


def spherical_vectors(tree: Tree, q: Array) -> Array:
    """The rotation vectors of spherical joints, from joint values [n]; zero for other joints, [3, B-1]."""
    values = by_body(tree, q)
    return jnp.where(jnp.asarray(tree.body_is_spherical)[1:], values, jnp.zeros_like(values))


# --- propagation ----------------------------------------------------------------------------------------------------


def joint_quaternions(basis: Array, weights: Array) -> Array:
    """Quaternions as right-product matrices [4, 4, n]: sums of basis matrices [k, 4, 4, n] with weights [k, n]."""
    return jnp.sum(basis * weights[:, None, None], axis=0)


def _by_levels(tree: Topology, root: Array, local: Array) -> Array:
    """Quaternions [4, B] of all bodies, level by level from the root [4, 1] and local right-product matrices."""
    levels, parents, parent_bodies = [root], root, np.array([0])
    for level in tree.body_levels:
        above = take(parents, np.searchsorted(parent_bodies, tree.body_parent[level]), 1)
        parents, parent_bodies = spatial.apply(take(local, level - 1, 2), above), level
        levels.append(parents)
    order = np.argsort(np.concatenate([[0], *tree.body_levels]))
    return take(jnp.concatenate(levels, axis=1), order, 1)


def body_frames(tree: Tree, root_rotation: Array, root_position: Array, local: Array, offset: Array):
    """Composes the frames of all bodies from the root outwards.

    On a static tree only the quaternions recurse; given them, each origin is the path sum of rotated offsets.

    Args:
      tree: the tree.
      root_rotation: unit quaternion of body 0, [4, 1].
      root_position: origin of body 0, [3, 1].
      local: unit quaternions of bodies 1 .. B-1 in their parents' frames, as right-product matrices [4, 4, B-1].
      offset: origins of bodies 1 .. B-1 in their parents' frames, [3, B-1].

    Returns:
      Quaternions [4, B], rotation matrices [3, 3, B] and origins [3, B].
    """
    if isinstance(tree, Topology):
        quaternion = _by_levels(tree, root_rotation, local)
        rotation = spatial.rotation_matrix(quaternion)
        step = spatial.apply(take(rotation, tree.body_parent[1:]), offset)
        position = masked_sum(jnp.concatenate([root_position, step], axis=-1), tree.body_ancestors)
        return quaternion, rotation, position
    root = root_rotation[:, 0], spatial.rotation_matrix(root_rotation)[..., 0], root_position[:, 0]
    others = outwards(tree, _next_frame, root, (local, offset))
    return tuple(jnp.concatenate([first[..., None], rest], axis=-1) for first, rest in zip(root, others, strict=True))


def _next_frame(parent: tuple[Array, Array, Array], item: tuple[Array, Array]) -> tuple[Any, Any]:
    """A body's quaternion [4], rotation matrix [3, 3] and origin [3] from its parent's, twice."""
    (quaternion, rotation, position), (local, offset) = parent, item
    quaternion = spatial.apply(local, quaternion)
    frame = quaternion, spatial.rotation_matrix(quaternion), position + spatial.apply(rotation, offset)
    return frame, frame
