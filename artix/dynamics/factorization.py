"""Factorising the mass matrix along the tree, ``M = U D U^T``.

Three algorithms, of which the topology chooses. Where paths have up to ``DEEPEST_PATH`` entries, the elimination goes
from level to level (:mod:`artix.dynamics.elimination`) and follows the tree's sparsity. Deeper trees are articulated
bodies (:mod:`artix.dynamics.articulated_bodies`). Trees of padded fleets, which are data, and matrices of other
patterns are halved (:mod:`artix.dynamics.halving`).
"""

from __future__ import annotations

import functools
from typing import NamedTuple, TypeAlias, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from artix.bodies import Inertias
from artix.dynamics import articulated_bodies
from artix.dynamics.articulated_bodies import ArticulatedFactors
from artix.dynamics.elimination import (
    Paths,
    eliminate,
    full_matrix,
    inverse_on_paths,
    invert,
    joined,
    numbers_of,
    rows_of_product,
    solve_on_paths,
    substitute,
)
from artix.dynamics.halving import FullFactors, halve
from artix.lanes import batch_last
from artix.tangents import times
from artix.topology import Topology
from artix.tree import Tree, take

Array = jax.Array

# Beside each other, without and with the inverse of U (float32, batch 4096, two CPU cores, jaxlib 0.12, in us; in
# brackets LAPACK's Cholesky decomposition, which jaxlib 0.10 cannot run twice at the same time without waiting for
# ever). A tree of 29 DOFs and depth 10: elimination 0.8 and 1.2, halving 7.6 (4.3). Full matrices of 12: 0.3 and 2.1,
# halving 2.8 (0.5); of 18: 0.7 and 4.9, 6.1 (0.9); of 24: 1.9 and 10.5, 6.3 (1.5); of 35: 8.3 and 31, 13 (5.3); of 64:
# 48 and 206, 40 (19). Full matrices are halved nevertheless: elimination makes programs twice as large with jaxlib
# 0.12, and four times with 0.10, whose XLA drops the barriers between levels. Also measured: rank-one updates need
# 34,024 instructions.
# Forward dynamics by articulated bodies and by elimination: arm of 7 DOFs 0.35 and 0.23, quadruped 0.52 and 0.41,
# humanoids of 29 and 44 DOFs 1.3 and 1.3, 3.6 and 2.6 (and up to twice as long to compile), chain of 16 0.8 and 0.7.
# Chains of 32 and 64 by halving: 2.2 and 23 instead of 1.3 and 3.4, wrong in float32 by 1e-3 and 2e-2 instead of 2e-4
# and 5e-4.
DEEPEST_PATH = 20


class MassProduct(NamedTuple):
    """A tree's mass matrix, not multiplied out: its upper half is that of ``motions^T momenta``."""

    motions: Array
    """Unit motions of the generalised velocity, [6, nv]."""
    momenta: Array
    """The momenta that these give to all that they move, [6, nv]."""
    inertias: Inertias
    """Those of the bodies, about the same point."""
    added: Array
    """What the matrix has on its diagonal besides, [nv]."""


@struct.dataclass
class PathFactors:
    """The factors of ``M = U D U^T`` along the paths of a tree."""

    numbers: Array
    """U's numbers on the paths."""
    inverse_numbers: Array
    """Those of U^-1."""
    inverse_diagonal: Array
    """1 / D, [n]."""
    paths: Paths = struct.field(pytree_node=False)

    @property
    def upper(self) -> Array:
        """U, unit upper triangular, [n, n]."""
        return full_matrix(self.paths, self.numbers, 1)

    @property
    def inverse_upper(self) -> Array:
        """U^-1, [n, n]."""
        return _full_inverse(self.paths, self.inverse_numbers)


Factors: TypeAlias = PathFactors | ArticulatedFactors | FullFactors


def factorize_product(tree: Tree, product: MassProduct) -> Factors:
    """The factors of a tree's mass matrix."""
    motions, momenta, inertias, added = product
    if not _has_paths(tree):
        # Not a sum of six outer products, which would be computed again in each of its consumers: forward dynamics of a
        # 29-DOF humanoid had 1,966 instructions with the matrix product instead of 6,428.
        upper_half = jnp.asarray(tree.mass_matrix_halves[0], motions.dtype) * times(motions.T, momenta)
        return halve(upper_half, added)
    if _is_deep(tree):
        return articulated_bodies.factorize(tree, motions, inertias, added)
    paths = Paths.of(tree)
    return PathFactors(*_eliminate_product(paths, motions, momenta, added), paths)


def solve_product(tree: Tree, product: MassProduct, force: Array) -> Array:
    """The solution x [nv] of ``M x = force``; not to be differentiated.

    Where nothing else is to be solved, half of the kernels of a factorisation and a solution suffice.
    """
    motions, momenta, inertias, added = product
    if not _has_paths(tree):
        return solve(factorize_product(tree, product), force)
    if _is_deep(tree):
        return articulated_bodies.factorize_and_solve(tree, motions, inertias, added, force)
    return batch_last(_solution_of_product, Paths.of(tree))(motions.T, momenta.T, added, force)


def factorize_dense(matrix: Array, added: Array) -> Factors:
    """The factors of any symmetric positive definite matrix [n, n], ``added`` [n] to its diagonal."""
    return halve(matrix, added)


def inverse_of_product(tree: Tree, matrix: Array, product: MassProduct) -> Array:
    """The inverse [nv, nv] of a tree's mass matrix, which is also given multiplied out and without what is added to it.

    Derivatives look at that alone, and nothing else does where the product serves better.
    """
    if not _has_paths(tree):
        return inverse_of_matrix(matrix, product.added)
    return _product_inverse(tree, matrix, jax.lax.stop_gradient(product), product.added)


def solve(factors: Factors, right: Array) -> Array:
    """The solution x [n] of ``U D U^T x = right``."""
    if isinstance(factors, ArticulatedFactors):
        return articulated_bodies.solve(factors, right)
    if isinstance(factors, PathFactors):
        return _solve_on_paths(factors.paths, factors.inverse_numbers, factors.inverse_diagonal, right)
    return _solve_rows(factors.inverse_upper, factors.inverse_diagonal, right)


def solve_columns(factors: Factors, right: Array) -> Array:
    """:func:`solve` for right sides [n, m]."""
    if isinstance(factors, ArticulatedFactors):
        return articulated_bodies.solve_columns(factors, right)
    inverse = factors.inverse_upper
    return times(inverse.T, times(inverse, right) * factors.inverse_diagonal[:, None])


def half_solve(factors: Factors, rights: Array) -> Array:
    """``D^-1/2 U^-1 right`` for the R rows of ``rights``, [R, n]; products of two are ``left . M^-1 right``."""
    if isinstance(factors, ArticulatedFactors):
        return articulated_bodies.relative_columns(factors, rights.T).T / jnp.sqrt(factors.inverse_diagonal)[None]
    return times(rights, factors.inverse_upper.T) * jnp.sqrt(factors.inverse_diagonal)[None]


def finish_solve(factors: Factors, half: Array) -> Array:
    """``M^-1 right`` from its half solve, [n]."""
    relative = half * jnp.sqrt(factors.inverse_diagonal)
    if isinstance(factors, ArticulatedFactors):
        return articulated_bodies.absolute_columns(factors, relative[:, None])[:, 0]
    return times(relative, factors.inverse_upper)


def inverse_of(factors: Factors) -> Array:
    """The inverse of a factorised matrix, [n, n]; not to be differentiated where the factors are those of paths."""
    if isinstance(factors, PathFactors):
        paths, found = factors.paths, jax.lax.stop_gradient(factors)
        diagonal = take(found.inverse_diagonal, paths.by_level)
        return batch_last(inverse_on_paths, paths)(found.inverse_numbers, diagonal)
    if isinstance(factors, ArticulatedFactors):
        eye = np.eye(len(factors.paths.parent), dtype=factors.motions[0].dtype)
        return articulated_bodies.solve_columns(factors, jnp.asarray(eye))
    inverse = factors.inverse_upper
    return times(inverse.T * factors.inverse_diagonal[None], inverse)


def _has_paths(tree: Tree) -> TypeGuard[Topology]:
    """Whether the tree is known while JAX traces, and has entries."""
    return isinstance(tree, Topology) and tree.nv > 0


@functools.lru_cache(maxsize=256)
def _is_deep(tree: Topology) -> bool:
    return len(Paths.of(tree).levels) > DEEPEST_PATH


# --- evaluation -----------------------------------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _eliminate_product(paths: Paths, left: Array, right: Array, added: Array) -> tuple[Array, Array, Array]:
    """The numbers of U and of U^-1, and 1 / D, of ``left^T right``."""
    return _in_order(paths, *batch_last(_factors_of_product, paths)(left.T, right.T, added))


@_eliminate_product.defjvp
def _eliminate_product_jvp(paths: Paths, primals, tangents):
    factors = _eliminate_product(paths, *primals)
    (left, right, _), (d_left, d_right, d_added) = primals, tangents
    return factors, _changes(paths, factors, times(d_left.T, right) + times(left.T, d_right), d_added)


def _factors_of_product(paths: Paths, left: Array, right: Array, added: Array) -> tuple[Array, Array, Array]:
    lower, inverse_diagonal = eliminate(paths, rows_of_product(paths, left, right), added)
    return joined(lower), joined(invert(paths, lower)), joined(inverse_diagonal)


def _solution_of_product(paths: Paths, left: Array, right: Array, added: Array, force: Array) -> Array:
    """The force is one more row above the matrix: what is left of it is ``D^-1 U^-1 force``."""
    whole, one = paths.below_one, np.zeros((len(left) + 1, left.shape[1] + 1), left.dtype)
    one[0, -1] = 1
    left = jnp.pad(left, ((1, 0), (0, 1))) + one
    right = jnp.pad(jnp.concatenate([right, force[:, None]], axis=1), ((1, 0), (0, 0)))
    rows = rows_of_product(whole, left, right)
    lower, _ = eliminate(whole, rows, jnp.pad(added, (1, 0)), first_level=1, kept=False)
    return substitute(whole, lower)


def _in_order(paths: Paths, numbers: Array, inverse_numbers: Array, inverse_diagonal: Array):
    return numbers, inverse_numbers, take(inverse_diagonal, np.argsort(paths.by_level))


def _changes(paths: Paths, values: tuple[Array, Array, Array], d_matrix: Array, d_added: Array):
    """With ``S = U^-1 dM U^-T``, ``dU = U`` (S above its diagonal) ``D^-1`` and dD is S's diagonal."""
    factors = PathFactors(*values, paths)
    above = full_matrix(paths, numbers_of(paths, d_matrix), 0)
    moved = above + above.T + jnp.diag(jnp.diagonal(d_matrix) + d_added)
    seen = times(times(factors.inverse_upper, moved), factors.inverse_upper.T)
    relative = jnp.triu(seen, 1) * factors.inverse_diagonal[None]
    d_upper, d_inverse = times(factors.upper, relative), -times(relative, factors.inverse_upper)
    d_diagonal = -jnp.diagonal(seen) * factors.inverse_diagonal**2
    return numbers_of(paths, d_upper), numbers_of(paths, d_inverse), d_diagonal


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _full_inverse(paths: Paths, inverse_numbers: Array) -> Array:
    return batch_last(_unit_triangle, paths)(inverse_numbers)


def _unit_triangle(paths: Paths, numbers: Array) -> Array:
    return full_matrix(paths, numbers, 1)


@_full_inverse.defjvp
def _full_inverse_jvp(paths: Paths, primals, tangents):
    return _full_inverse(paths, *primals), full_matrix(paths, tangents[0], 0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solve_on_paths(paths: Paths, inverse_numbers: Array, inverse_diagonal: Array, right: Array) -> Array:
    one = jax.jit(functools.partial(solve_on_paths, paths))

    @jax.custom_batching.custom_vmap
    def solution(*arrays: Array) -> Array:
        return one(*arrays)

    @solution.def_vmap
    def solutions(size: int, mapped: list[bool], *arrays: Array):
        if mapped == [False, False, True]:  # Many right sides of one matrix: two products with the inverse.
            return _solve_rows(_full_inverse(paths, arrays[0]), *arrays[1:]), True
        return jax.vmap(one, [0 if is_mapped else None for is_mapped in mapped])(*arrays), True

    return solution(inverse_numbers, inverse_diagonal, right)


@_solve_on_paths.defjvp
def _solve_on_paths_jvp(paths: Paths, primals, tangents):
    x = _solve_on_paths(paths, *primals)
    return x, jax.jvp(functools.partial(solve_on_paths, paths), primals, tangents)[1]


def _solve_rows(inverse_upper: Array, inverse_diagonal: Array, rights: Array) -> Array:
    """The solutions for right sides [..., n]."""
    return times(times(rights, inverse_upper.T) * inverse_diagonal, inverse_upper)


@jax.custom_jvp
def inverse_of_matrix(matrix: Array, added: Array) -> Array:
    """The inverse of any symmetric positive definite matrix [n, n], ``added`` [n] to its diagonal."""
    return inverse_of(factorize_dense(matrix, added))


@inverse_of_matrix.defjvp
def _inverse_jvp(primals, tangents):
    inverse = inverse_of_matrix(*primals)
    return inverse, _inverse_change(inverse, *tangents)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _product_inverse(tree: Topology, matrix: Array, product: MassProduct, added: Array) -> Array:
    motions, momenta, inertias, _ = product
    if _is_deep(tree):
        return inverse_of(articulated_bodies.factorize(tree, motions, inertias, added))
    return batch_last(_inverse_of_product, Paths.of(tree))(motions.T, momenta.T, added)


def _inverse_of_product(paths: Paths, left: Array, right: Array, added: Array) -> Array:
    return inverse_on_paths(paths, *_factors_of_product(paths, left, right, added)[1:])


@_product_inverse.defjvp
def _product_inverse_jvp(tree: Topology, primals, tangents):
    inverse = _product_inverse(tree, *primals)
    return inverse, _inverse_change(inverse, tangents[0], tangents[2])


def _inverse_change(inverse: Array, d_matrix: Array, d_added: Array) -> Array:
    return -times(times(inverse, d_matrix + jnp.diag(d_added)), inverse)
