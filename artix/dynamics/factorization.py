"""Factorising the mass matrix along the tree, ``M = U D U^T``, together with the inverse of U.

Eliminating the DOFs from the leaves upwards keeps the ancestor pattern of M, so DOFs that do not move each other (one
level of the tree, as a rule) are eliminated as one diagonal block (Featherstone 2005, *Efficient factorization of the
joint-space inertia matrix for branched kinematic trees*). Between the blocks the elimination halves the matrix: with A
above and C below,

    [A  B ]   [U_A  W  ] [D_A    ]   [U_A  W  ]^T     W = B U_C^-T D_C^-1
    [B' C ] = [     U_C] [    D_C] . [     U_C]       U_A D_A U_A^T = A - W D_C W^T

so that a handful of matrix products per block is all there is, and a solve is two of them.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.tangents import times
from artix.topology import Topology
from artix.tree import Tree

Array = jax.Array


class Factors(NamedTuple):
    """The factors of ``M = U D U^T``."""

    upper: Array
    """U, unit upper triangular, [nv, nv]."""
    inverse_upper: Array
    """U^-1, [nv, nv]."""
    inverse_diagonal: Array
    """1 / D, [nv]."""


def factorize_matrix(tree: Tree, matrix: Array, added: Array) -> Factors:
    """The factors of a tree's mass matrix, or of another matrix with its pattern.

    Args:
      tree: the tree.
      matrix: the matrix, [nv, nv], of which only the upper half counts.
      added: what to add to its diagonal, [nv].
    """
    # Measured beside this, which takes 5 us and 551 instructions with one solve (29 DOFs, float32, batch 4096, two CPU
    # cores). LAPACK's Cholesky and triangular solves: 1.9 us, but in jaxlib 0.10 two LAPACK calls of one program that
    # run at the same time wait for each other for ever (two batched Cholesky decompositions on two cores are enough),
    # and every further solve costs as much again. Articulated bodies level by level: forward dynamics as fast to a few
    # per cent from 18 to 43 DOFs, but 800 instructions more, 1,200 more with a gradient, and an inverse in 40 us.
    # Products of up to four terms summed term by term: 3.4 us and 887 instructions. Rank-one updates: 34,024
    # instructions. With jaxlib 0.12 this takes 8.6 us, half of forward dynamics, as each of the small products runs on
    # one core alone; LAPACK, which does not hang there, takes 4.3 us, and sums of up to four terms save 1.5 us.
    return _factorize(matrix, added, _blocks(tree))


def solve(factors: Factors, right: Array) -> Array:
    """The solution x [nv] of ``U D U^T x = right``."""
    _, inverse, diagonal = factors
    return times(times(inverse, right) * diagonal, inverse)


def factorize_dense(matrix: Array, added: Array) -> Factors:
    """The factors of any symmetric positive definite matrix [n, n], ``added`` [n] to its diagonal."""
    return _factorize(matrix, added, (1,) * len(matrix))


def solve_columns(factors: Factors, right: Array) -> Array:
    """:func:`solve` for right sides [n, m]."""
    _, inverse, diagonal = factors
    return times(inverse.T, times(inverse, right) * diagonal[:, None])


def half_solve(factors: Factors, rights: Array) -> Array:
    """``D^-1/2 U^-1 right`` for the R rows of ``rights``, [R, n]; products of two are ``left . M^-1 right``."""
    _, inverse, diagonal = factors
    return times(rights, inverse.T) * jnp.sqrt(diagonal)[None]


def finish_solve(factors: Factors, half: Array) -> Array:
    """``M^-1 right`` from its half solve, [n]."""
    _, inverse, diagonal = factors
    return times(half * jnp.sqrt(diagonal), inverse)


def _blocks(tree: Tree) -> tuple[int, ...]:
    """Sizes of runs of entries of the generalised velocity that do not move each other."""
    return _blocks_of(tree) if isinstance(tree, Topology) else (1,) * tree.nv


@functools.lru_cache(maxsize=256)
def _blocks_of(tree: Topology) -> tuple[int, ...]:
    coupled = np.asarray(tree.mass_matrix_halves[0])
    sizes: list[int] = []
    for entry in range(tree.nv):
        if sizes and not coupled[entry - sizes[-1] : entry, entry].any():
            sizes[-1] += 1
        else:
            sizes.append(1)
    return tuple(sizes)


def _factorize(matrix: Array, added: Array, blocks: tuple[int, ...]) -> Factors:
    size = sum(blocks)
    if len(blocks) <= 1:
        eye = jnp.asarray(np.eye(size), matrix.dtype)
        return Factors(eye, eye, 1 / (jnp.sum(eye * matrix, axis=0) + added))
    ends = np.cumsum(blocks)[:-1]
    place = int(np.argmin(np.abs(2 * ends - size)))
    above, below, cut = blocks[: place + 1], blocks[place + 1 :], int(ends[place])
    lower = _factorize(matrix[cut:, cut:], added[cut:], below)
    # The U of a single block is the identity.
    coupling = matrix[:cut, cut:]
    if len(below) > 1:
        coupling = times(coupling, lower.inverse_upper.T)
    corner = coupling * lower.inverse_diagonal[None]
    rest = matrix[:cut, :cut] - times(corner, coupling.T)
    upper = _factorize(rest, added[:cut], above)
    inverse = corner if len(below) == 1 else times(corner, lower.inverse_upper)
    inverse = inverse if len(above) == 1 else times(upper.inverse_upper, inverse)
    zero = jnp.zeros_like(matrix, shape=(size - cut, cut))
    return Factors(
        _assemble(upper.upper, corner, zero, lower.upper),
        _assemble(upper.inverse_upper, -inverse, zero, lower.inverse_upper),
        jnp.concatenate([upper.inverse_diagonal, lower.inverse_diagonal]),
    )


def _assemble(a: Array, b: Array, c: Array, d: Array) -> Array:
    return jnp.concatenate([jnp.concatenate([a, b], axis=1), jnp.concatenate([c, d], axis=1)])
