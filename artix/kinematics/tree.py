"""The tree operations from which every algorithm is built.

*Propagate*: compose transforms from the root outwards. *Path sum*: add up over the DOFs above each
body. *Subtree sum*: add up over the bodies below each DOF. Only transforms recurse; both sums are
products with a constant 0/1 matrix, so no algorithm loops over links.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import spatial
from artix.math.arrays import masked_sum, take
from artix.model.topology import Topology

Array = jax.Array


def path_sum(tree: Topology, x: Array) -> Array:
    """Sums x [k, n] over the DOFs that move each body: [k, B]."""
    return masked_sum(x, tree.dof_moves_body)


def subtree_sums(tree: Topology, x: Array) -> tuple[Array, Array]:
    """Sums x [k, B] over all bodies, [k, 1], and over the bodies that each DOF moves, [k, n]."""
    sums = masked_sum(x, tree.bodies_below)
    return sums[:, :1], sums[:, 1:]


def link_subtree_sums(tree: Topology, x: Array) -> Array:
    """Sums x [..., L] over each link and all links below it: [..., L]."""
    return masked_sum(x, tree.link_ancestors.T)


def by_body(tree: Topology, q: Array) -> Array:
    """Joint values [n] sorted by body, see :attr:`~artix.Topology.body_dofs`; zero where there is
    no DOF.

    Shape [3, B-1], or [1, B-1] where no joint has several DOFs.
    """
    values = jnp.concatenate([q, jnp.zeros_like(q, shape=(1,))])
    return jnp.stack(
        [take(values, row[1:]) for row in tree.body_dofs[: 3 if tree.has_spherical else 1]]
    )


def where_spherical(tree: Topology, vectors: Array, other: Array) -> Array:
    """Joint values [n]: for spherical joints from vectors [3, B-1], for all others from ``other``
    [n].
    """
    width = tree.num_bodies - 1
    values = take(vectors.reshape(-1), tree.dof_column * width + tree.dof_body - 1)
    return jnp.where(tree.dof_is_spherical, values, other)


def spherical_vectors(tree: Topology, q: Array) -> Array:
    """The rotation vectors of spherical joints, from joint values [n]; zero for other joints,
    [3, B-1].
    """
    values = by_body(tree, q)
    return jnp.where(tree.body_is_spherical[1:], values, jnp.zeros_like(values))


# --- propagation --------------------------------------------------------------------------------


def joint_quaternions(basis: Array, weights: Array) -> Array:
    """Quaternions as right-product matrices [4, 4, n]: sums of basis matrices [k, 4, 4, n] with
    weights [k, n].
    """
    return jnp.sum(basis * weights[:, None, None], axis=0)


def _by_levels(tree: Topology, root: Array, local: Array) -> Array:
    """Quaternions [4, B] of all bodies, level by level from the root [4, 1] and local right-product
    matrices.
    """
    levels = [root]
    parents = root
    parent_bodies = np.array([0])
    for level in tree.body_levels:
        above = take(parents, np.searchsorted(parent_bodies, tree.body_parent[level]), 1)
        parents = spatial.apply(take(local, level - 1, 2), above)
        parent_bodies = level
        levels.append(parents)
    order = np.argsort(np.concatenate([[0], *tree.body_levels]))
    return take(jnp.concatenate(levels, axis=1), order, 1)


def body_frames(
    tree: Topology, root_rotation: Array, root_position: Array, local: Array, offset: Array
) -> tuple[Array, Array, Array]:
    """Composes the frames of all bodies from the root outwards.

    Only the quaternions recurse; given them, each origin is the path sum of rotated offsets.

    Args:
      tree: the tree.
      root_rotation: unit quaternion of body 0, [4, 1].
      root_position: origin of body 0, [3, 1].
      local: unit quaternions of bodies 1 .. B-1 in their parents' frames, as right-product matrices
        [4, 4, B-1].
      offset: origins of bodies 1 .. B-1 in their parents' frames, [3, B-1].

    Returns:
      Quaternions [4, B], rotation matrices [3, 3, B] and origins [3, B].
    """
    quaternion = _by_levels(tree, root_rotation, local)
    rotation = spatial.rotation_matrix(quaternion)
    step = spatial.apply(take(rotation, tree.body_parent[1:]), offset)
    position = masked_sum(jnp.concatenate([root_position, step], axis=-1), tree.body_ancestors)
    return quaternion, rotation, position
