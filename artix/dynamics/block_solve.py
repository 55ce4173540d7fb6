"""Solves with small symmetric positive definite matrices by elimination of 3 x 3 blocks.

Made for the R x R matrices of constraints. LAPACK takes longer for so small a matrix (see the benchmarks), and with
jaxlib 0.10 two of its calls in one program may wait for each other for ever.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix import spatial
from artix.tangents import times

Array = jax.Array
_BLOCK = 3


class BlockFactors(NamedTuple):
    """What the elimination leaves of each block."""

    inverses: tuple[Array, ...]
    """Inverses of the pivots, [3, 3] each."""
    multipliers: tuple[Array, ...]
    """Columns below the pivots times these inverses, [R - 3 k, 3] each."""


def factorize_blocks(matrix: Array) -> BlockFactors:
    """Eliminates the blocks of a symmetric positive definite matrix [R, R] in turn."""
    rest = _padded(matrix)
    inverses, multipliers = [], []
    while rest.shape[0]:
        pivot, below = rest[:_BLOCK, :_BLOCK], rest[_BLOCK:, :_BLOCK]
        inverse = spatial.inverse(pivot[..., None])[..., 0]
        multiplier = times(below, inverse)
        rest = rest[_BLOCK:, _BLOCK:] - times(multiplier, below.T)
        inverses.append(inverse)
        multipliers.append(multiplier)
    return BlockFactors(tuple(inverses), tuple(multipliers))


def solve_blocks(factors: BlockFactors, right: Array) -> Array:
    """The solution of ``matrix x = right``, for right sides [R] or [R, m]."""
    size = right.shape[0]
    padding = -size % _BLOCK
    rest = jnp.pad(right, [(0, padding)] + [(0, 0)] * (right.ndim - 1))
    parts = []
    for multiplier in factors.multipliers:
        part, rest = rest[:_BLOCK], rest[_BLOCK:]
        rest = rest - times(multiplier, part)
        parts.append(part)
    solution = rest
    for part, inverse, multiplier in list(zip(parts, *factors, strict=True))[::-1]:
        solution = jnp.concatenate([times(inverse, part) - times(multiplier.T, solution), solution])
    return solution[:size]


def _padded(matrix: Array) -> Array:
    """With ones on the diagonal up to whole blocks."""
    size = matrix.shape[0]
    padding = -size % _BLOCK
    if not padding:
        return matrix
    ones = jnp.diag((jnp.arange(size + padding) >= size).astype(matrix.dtype))
    return jnp.pad(matrix, ((0, padding), (0, padding))) + ones
