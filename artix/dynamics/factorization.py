"""Factorises the mass matrix along the tree, ``M = U D U^T``.

The topology decides between three algorithms. Where paths have up to ``DEEPEST_PATH`` entries, elimination proceeds
level by level (:mod:`artix.dynamics.elimination`) and follows the tree's sparsity. Deeper trees use articulated bodies
(:mod:`artix.dynamics.articulated_bodies`). Matrices with other patterns are split in halves
(:mod:`artix.dynamics.halving`).
"""

from __future__ import annotations

import functools
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from artix.dynamics import articulated_bodies
from artix.dynamics.articulated_bodies import ArticulatedFactors
from artix.dynamics.elimination import PathFactors, Paths, eliminate
from artix.dynamics.halving import DenseFactors, factorize_dense
from artix.kinematics.bodies import Inertias
from artix.math import spatial
from artix.math.arrays import matmul
from artix.math.gaussian_elimination import inverse_with_pivoting
from artix.model.topology import Topology

Array = jax.Array

# The longest paths, for one and for many right-hand sides, for which elimination takes fewer scalar operations than
# articulated bodies. Elimination / articulated bodies take, for forward dynamics of chains of 4, 8, 12, 16, 20 and 32
# joints, 1,998 / 2,233, 4,342 / 4,573, 7,198 / 6,913, 10,694 / 9,253, 14,958 / 11,593 and 33,638 / 18,613; for a
# floating humanoid with paths of 13 entries 18,907 / 17,712; for the derivatives of forward dynamics of chains of 12,
# 16 and 20 joints 24,605 / 32,185, 44,031 / 52,645 and 72,209 / 78,097. In float32 the error for chains of 64 entries
# is 2e-2 by elimination and 5e-4 by articulated bodies.
DEEPEST_PATH, DEEPEST_PATH_OF_MANY = 11, 20

Factors: TypeAlias = PathFactors | ArticulatedFactors | DenseFactors


class MassProduct(NamedTuple):
    """A tree's mass matrix as a product: its upper half is that of ``motions^T momenta``."""

    motions: Array
    """Unit motions of the generalised velocity, [6, nv]."""
    momenta: Array
    """Momenta of the composite bodies for these motions, [6, nv]."""
    inertias: Inertias
    """Mass moments of the bodies about the same point."""
    added: Array
    """Added to the matrix's diagonal, such as armature, [nv]."""


def factorize_product(tree: Topology, product: MassProduct, *, many: bool = False) -> Factors:
    """The factors of a tree's mass matrix; ``many`` if there will be about as many right-hand sides as DOFs."""
    motions, momenta, inertias, added = product
    if tree.nv == 0:
        return factorize_dense(matmul(motions.T, momenta), added)
    if _is_deep(tree, many):
        return articulated_bodies.factorize(tree, motions, inertias, added)
    return eliminate(Paths.of(tree), matmul(motions.T, momenta), added)


def solve(factors: Factors, right: Array) -> Array:
    """The solution x [n] of ``U D U^T x = right``."""
    return solve_columns(factors, right[:, None])[:, 0]


def solve_columns(factors: Factors, rights: Array) -> Array:
    """:func:`solve` for right-hand sides [n, m]."""
    return factors.solve_upper_transposed(factors.solve_upper(rights) * factors.inverse_diagonal[:, None])


def half_solve(factors: Factors, rights: Array) -> Array:
    """``D^-1/2 U^-1 right`` for the rows of ``rights``, [R, n]; the dot product of two is ``left . M^-1 right``."""
    return factors.solve_upper(rights.T).T * jnp.sqrt(factors.inverse_diagonal)[None]


def finish_solve(factors: Factors, half: Array) -> Array:
    """``M^-1 right`` from its half solve, [n]."""
    return factors.solve_upper_transposed((half * jnp.sqrt(factors.inverse_diagonal))[:, None])[:, 0]


def inverse_of(factors: Factors) -> Array:
    """The inverse of a factorised matrix, [n, n]."""
    diagonal = factors.inverse_diagonal
    half = factors.solve_upper(jnp.eye(len(diagonal), dtype=diagonal.dtype))
    return spatial.symmetric_from_upper(matmul(half.T, half * diagonal[:, None]))


def split_inverse(tree: Topology, product: MassProduct) -> tuple[Array, Array]:
    """The matrix ``left`` [nv, nv] and weights [nv] of a tree's inverse mass matrix ``left diag(weight) left^T``.

    ``left`` is as sparse as the tree: a row is zero except for the entries on the path from its own to the root.
    """
    factors = factorize_product(tree, product, many=True)
    left = factors.solve_upper(jnp.eye(len(product.added), dtype=product.added.dtype)).T
    return left, factors.inverse_diagonal


def inverse_of_matrix(matrix: Array, added: Array) -> Array:
    """The inverse of any symmetric positive definite matrix [n, n], with ``added`` [n] on its diagonal."""
    return _inverse_from_factors(matrix, added, factorize_dense(*jax.lax.stop_gradient((matrix, added))))


def inverse_of_unsymmetric(matrix: Array) -> Array:
    """The inverse of any matrix [n, n], by elimination with pivoting."""
    return _known_inverse(matrix, inverse_with_pivoting(jax.lax.stop_gradient(matrix)))


def inverse_of_product(tree: Topology, matrix: Array, product: MassProduct) -> Array:
    """The inverse [nv, nv] of a tree's mass matrix; derivatives use ``matrix``, the product multiplied out."""
    return _inverse_from_factors(
        matrix, product.added, factorize_product(tree, jax.lax.stop_gradient(product), many=True)
    )


def _inverse_from_factors(matrix: Array, added: Array, factors: Factors) -> Array:
    """The inverse from constant factors; its derivative is that of the inverse of ``matrix + diag(added)``."""
    return _known_inverse(matrix + jnp.diag(added), inverse_of(factors))


@jax.custom_jvp
def _known_inverse(matrix: Array, inverse: Array) -> Array:
    """The constant ``inverse``, with the derivative of the inverse of ``matrix``."""
    return inverse


@_known_inverse.defjvp
def _known_inverse_jvp(primals, tangents):
    inverse = _known_inverse(*primals)
    return inverse, -matmul(matmul(inverse, tangents[0]), inverse)


@functools.lru_cache(maxsize=256)
def _is_deep(tree: Topology, many: bool) -> bool:
    return len(Paths.of(tree).levels) > (DEEPEST_PATH_OF_MANY if many else DEEPEST_PATH)
