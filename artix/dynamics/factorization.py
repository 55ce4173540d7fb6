"""Factorising the mass matrix along the tree, ``M = U D U^T``.

Two algorithms, of which the pattern chooses. Where paths have up to ``DEEPEST_PATH`` entries, the elimination goes from
level to level (:mod:`artix.dynamics.elimination`), which follows the tree's sparsity and never forms the inverse of U
unless it is asked for. Longer ones are halved (:mod:`artix.dynamics.halving`), which gives the inverse of U as well.
"""

from __future__ import annotations

import functools
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from artix.dynamics.elimination import Paths, eliminate, full_matrix, invert_upper, substitute
from artix.dynamics.halving import FullFactors, halve
from artix.lanes import batch_last
from artix.tangents import times
from artix.topology import Topology
from artix.tree import Tree

Array = jax.Array

# Beside each other, without and with the inverse of U (float32, batch 4096, two CPU cores, jaxlib 0.12, in us; in
# brackets LAPACK's Cholesky decomposition, which jaxlib 0.10 cannot run twice at the same time without waiting for
# ever). A tree of 29 DOFs and depth 10: elimination 0.8 and 2.9, halving 7.6 (4.3). Full matrices of 12: 0.3 and 2.1,
# halving 2.8 (0.5); of 18: 0.7 and 4.9, 6.1 (0.9); of 24: 1.9 and 10.5, 6.3 (1.5); of 35: 8.3 and 31, 13 (5.3); of 64:
# 48 and 206, 40 (19). Also measured: rank-one updates need 34,024 instructions; articulated bodies level by level with
# the batch first were as fast as halving, with 800 instructions more.
DEEPEST_PATH = 20

Pattern: TypeAlias = "Paths | tuple[int, ...]"


@struct.dataclass
class PathFactors:
    """The factors of ``M = U D U^T`` along the paths of a tree."""

    numbers: Array
    """U's numbers on the paths, above the diagonal."""
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
        return _inverse_upper(self.paths, self.numbers)


Factors: TypeAlias = PathFactors | FullFactors


def factorize_matrix(tree: Tree, matrix: Array, added: Array) -> Factors:
    """The factors of a tree's mass matrix, or of another matrix with its pattern.

    Args:
      tree: the tree.
      matrix: the matrix, [nv, nv], of which only the upper half counts.
      added: what to add to its diagonal, [nv].
    """
    return _factorize(_pattern(tree), matrix, added)


def factorize_dense(matrix: Array, added: Array) -> Factors:
    """The factors of any symmetric positive definite matrix [n, n], ``added`` [n] to its diagonal."""
    return _factorize(_full_pattern(len(matrix)), matrix, added)


def inverse_of_matrix(tree: Tree | None, matrix: Array, added: Array) -> Array:
    """The inverse of a matrix as :func:`factorize_matrix` takes it, of any symmetric one without a tree, [n, n].

    All of the matrix counts in derivatives.
    """
    return _inverse(_full_pattern(len(matrix)) if tree is None else _pattern(tree), matrix, added)


def solve(factors: Factors, right: Array) -> Array:
    """The solution x [n] of ``U D U^T x = right``."""
    if isinstance(factors, PathFactors):
        return _solve_on_paths(factors.paths, factors.numbers, factors.inverse_diagonal, right)
    return _solve_rows(factors, right)


def solve_columns(factors: Factors, right: Array) -> Array:
    """:func:`solve` for right sides [n, m]."""
    inverse = factors.inverse_upper
    return times(inverse.T, times(inverse, right) * factors.inverse_diagonal[:, None])


def half_solve(factors: Factors, rights: Array) -> Array:
    """``D^-1/2 U^-1 right`` for the R rows of ``rights``, [R, n]; products of two are ``left . M^-1 right``."""
    return times(rights, factors.inverse_upper.T) * jnp.sqrt(factors.inverse_diagonal)[None]


def finish_solve(factors: Factors, half: Array) -> Array:
    """``M^-1 right`` from its half solve, [n]."""
    return times(half * jnp.sqrt(factors.inverse_diagonal), factors.inverse_upper)


def inverse_of(factors: Factors) -> Array:
    """The inverse of a factorised matrix, [n, n]."""
    inverse = factors.inverse_upper
    return times(inverse.T * factors.inverse_diagonal[None], inverse)


# --- patterns -------------------------------------------------------------------------------------------------------


def _pattern(tree: Tree) -> Pattern:
    return _pattern_of(tree) if isinstance(tree, Topology) else _full_pattern(tree.nv)


@functools.lru_cache(maxsize=256)
def _full_pattern(size: int) -> Pattern:
    return Paths(tuple(range(-1, size - 1))) if 0 < size <= DEEPEST_PATH else (1,) * size


@functools.lru_cache(maxsize=256)
def _pattern_of(tree: Topology) -> Pattern:
    coupled = np.asarray(tree.mass_matrix_halves[0])
    if tree.nv > 0 and coupled.sum(axis=0).max() <= DEEPEST_PATH:
        above = [np.flatnonzero(coupled[:entry, entry]) for entry in range(tree.nv)]
        return Paths(tuple(int(path[-1]) if len(path) else -1 for path in above))
    sizes: list[int] = []
    for entry in range(tree.nv):
        if sizes and not coupled[entry - sizes[-1] : entry, entry].any():
            sizes[-1] += 1
        else:
            sizes.append(1)
    return tuple(sizes)


# --- evaluation -----------------------------------------------------------------------------------------------------


def _factorize(pattern: Pattern, matrix: Array, added: Array) -> Factors:
    if isinstance(pattern, Paths):
        return PathFactors(*_eliminate(pattern, matrix, added), pattern)
    return halve(matrix, added, pattern)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _eliminate(paths: Paths, matrix: Array, added: Array) -> tuple[Array, Array]:
    return batch_last(functools.partial(eliminate, paths))(matrix, added)


@_eliminate.defjvp
def _eliminate_jvp(paths: Paths, primals, tangents):
    """With ``S = U^-1 dM U^-T``, ``dU = U`` (S above its diagonal) ``D^-1`` and dD is S's diagonal."""
    numbers, inverse_diagonal = _eliminate(paths, *primals)
    inverse = _inverse_upper(paths, numbers)
    on_paths = paths.places.ravel() < len(numbers)
    above = jnp.where(on_paths.reshape(paths.places.shape), tangents[0], 0)
    moved = above + above.T + jnp.diag(jnp.diagonal(tangents[0]) + tangents[1])
    seen = times(times(inverse, moved), inverse.T)
    d_upper = times(full_matrix(paths, numbers, 1), jnp.triu(seen, 1) * inverse_diagonal[None])
    places = np.flatnonzero(on_paths)[np.argsort(paths.places.ravel()[on_paths])]
    d_numbers = d_upper.reshape(-1)[places]
    return (numbers, inverse_diagonal), (d_numbers, -jnp.diagonal(seen) * inverse_diagonal**2)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _inverse_upper(paths: Paths, numbers: Array) -> Array:
    return batch_last(lambda numbers: full_matrix(paths, invert_upper(paths, numbers), 1))(numbers)


@_inverse_upper.defjvp
def _inverse_upper_jvp(paths: Paths, primals, tangents):
    inverse = _inverse_upper(paths, *primals)
    return inverse, -times(times(inverse, full_matrix(paths, tangents[0], 0)), inverse)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solve_on_paths(paths: Paths, numbers: Array, inverse_diagonal: Array, right: Array) -> Array:
    by_substitution = batch_last(functools.partial(substitute, paths))

    @jax.custom_batching.custom_vmap
    def solution(numbers: Array, inverse_diagonal: Array, right: Array) -> Array:
        return by_substitution(numbers, inverse_diagonal, right)

    @solution.def_vmap
    def solutions(size: int, mapped: list[bool], *arrays: Array):
        if mapped == [False, False, True]:  # Many right sides of one matrix: two products with the inverse.
            return _solve_rows(PathFactors(arrays[0], arrays[1], paths), arrays[2]), True
        return jax.vmap(by_substitution, [0 if is_mapped else None for is_mapped in mapped])(*arrays), True

    return solution(numbers, inverse_diagonal, right)


@_solve_on_paths.defjvp
def _solve_on_paths_jvp(paths: Paths, primals, tangents):
    x = _solve_on_paths(paths, *primals)

    def by_rows(numbers: Array, inverse_diagonal: Array, right: Array) -> Array:
        return _solve_rows(PathFactors(numbers, inverse_diagonal, paths), right)

    return x, jax.jvp(by_rows, primals, tangents)[1]


def _solve_rows(factors: Factors, rights: Array) -> Array:
    """The solutions for right sides [..., n]."""
    inverse = factors.inverse_upper
    return times(times(rights, inverse.T) * factors.inverse_diagonal, inverse)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _inverse(pattern: Pattern, matrix: Array, added: Array) -> Array:
    return inverse_of(_factorize(pattern, matrix, added))


@_inverse.defjvp
def _inverse_jvp(pattern: Pattern, primals, tangents):
    inverse = _inverse(pattern, *primals)
    return inverse, -times(times(inverse, tangents[0] + jnp.diag(tangents[1])), inverse)
