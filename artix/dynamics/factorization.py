"""Factorisation of the mass matrix along the tree: ``M = U D U^T`` with U unit upper triangular and as sparse as M.

DOFs are eliminated from the leaves to the root, all DOFs of one depth at once, because those of different branches do
not touch each other's rows (Featherstone, *Efficient factorization of the joint-space inertia matrix for branched
kinematic trees*, IJRR 2005). There is no fill-in, and no library call on small matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.topology import Topology
from artix.tree import Tree, stage

Array = jax.Array


class Factors(NamedTuple):
    """``M = U D U^T`` by level: ``levels[k]`` is the block of U [a_k, w_k] above the DOFs of a level.

    ``diagonal`` is D in elimination order, [nv].
    """

    levels: tuple[Array, ...]
    diagonal: Array


def elimination_levels(tree: Topology) -> tuple[np.ndarray, np.ndarray]:
    """Order of elimination of the generalised velocities and the first position of each level in it.

    Returns:
      The permutation [nv] that sorts the entries by depth, the root's six entries first and one per level, and the
      boundaries [number of levels + 1].
    """
    base = tree.num_base_dofs
    depth = np.zeros(tree.nv, int)
    depth[:base] = np.arange(base)
    above = np.triu(tree.dof_ancestors, 1)
    depth[base:] = base + above.sum(axis=0)
    order = np.argsort(depth, kind="stable")
    _, first = np.unique(depth[order], return_index=True)
    return order, np.append(first, tree.nv)


def factorize(tree: Topology, matrix: Array) -> Factors:
    """Factorises a mass matrix [nv, nv], with or without armature, in one pass per level."""
    order, bounds = elimination_levels(tree)
    left = _ordered(_ordered(matrix, order).T, order)
    blocks, diagonals = [], []
    for first, last in reversed(list(zip(bounds[:-1], bounds[1:], strict=True))):
        diagonal, block = jnp.diagonal(left[first:last, first:last]), left[:first, first:last]
        scaled = block / diagonal[None]
        blocks.append(scaled)
        diagonals.append(diagonal)
        left = left[:first, :first]
        if first:
            left = stage(left - sum(scaled[:, k, None] * block[None, :, k] for k in range(last - first)))
    return Factors(tuple(reversed(blocks)), jnp.concatenate(diagonals[::-1]))


def solve_factored(tree: Topology, factors: Factors, right: Array) -> Array:
    """Solves ``M x = right`` for right-hand sides [nv, k] by the factors of M."""
    order, bounds = elimination_levels(tree)
    spans = list(zip(bounds[:-1], bounds[1:], factors.levels, strict=True))
    rest, parts = _ordered(right.T, order).T, []
    for first, last, block in reversed(spans):
        part = rest[first:last]
        parts.append(part)
        rest = rest[:first]
        if first:
            rest = stage(rest - sum(block[:, k, None] * part[None, k] for k in range(last - first)))
    scaled = jnp.concatenate(parts[::-1]) / factors.diagonal[:, None]
    found = scaled[:0]
    for first, last, block in spans:
        part = scaled[first:last] - jnp.sum(block[:, :, None] * found[:, None], axis=0)
        found = stage(jnp.concatenate([found, part]))
    return _ordered(found.T, np.argsort(order)).T


def solve_mass_matrix(tree: Tree, matrix: Array, right: Array) -> Array:
    """Solves ``M x = right`` for right-hand sides [nv, k]; rows of padded entries give zero."""
    if isinstance(tree, Topology):
        return solve_factored(tree, factorize(tree, matrix), right)
    # The tree of a padded topology is data, so its sparsity cannot be followed.
    live = jnp.diagonal(matrix) != 0
    matrix = matrix + jnp.diag(jnp.where(live, 0, 1).astype(matrix.dtype))
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(matrix), True), right)


def _ordered(x: Array, order: np.ndarray) -> Array:
    """Columns in the given order; nothing is moved where they are in it already."""
    return x if np.array_equal(order, np.arange(len(order))) else x[:, order]
