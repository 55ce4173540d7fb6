"""Linear systems that are not symmetric, by Gaussian elimination: they have a place in a compiled program of one robot.

Pivots are taken in their order, none is looked for: for matrices whose symmetric part dominates.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array

#: Added to the diagonal of matrices that may be singular, in units of the rounding error, where their diagonal is about
#: one.
_REGULARIZATION = 30


class Eliminated(NamedTuple):
    """A matrix [n, n] as L U, L with ones on its diagonal."""

    below: list[Array]
    """Of each column of L what is below the diagonal."""
    beside: list[Array]
    """Of each row of U what is right of the diagonal."""
    inverse_pivots: list[Array]

    def solve(self, right: Array) -> Array:
        """X of ``L U x = right``, [n]."""
        values = []
        for column in self.below:
            values.append(right[0])
            right = right[1:] - column * right[0]
        found = jnp.zeros_like(right)
        for value, row, inverse in zip(values[::-1], self.beside[::-1], self.inverse_pivots[::-1], strict=True):
            found = jnp.concatenate([((value - jnp.sum(row * found)) * inverse)[None], found])
        return found

    def solve_transposed(self, right: Array) -> Array:
        """X of ``U^T L^T x = right``, [n]."""
        values = []
        for row, inverse in zip(self.beside, self.inverse_pivots, strict=True):
            values.append(right[0] * inverse)
            right = right[1:] - row * values[-1]
        found = jnp.zeros_like(right)
        for value, column in zip(values[::-1], self.below[::-1], strict=True):
            found = jnp.concatenate([(value - jnp.sum(column * found))[None], found])
        return found


def eliminated(matrix: Array) -> Eliminated:
    """Factorises a matrix [n, n]."""
    below, beside, inverse_pivots = [], [], []
    for _ in range(len(matrix)):
        inverse_pivots.append(1 / matrix[0, 0])
        below.append(matrix[1:, 0] * inverse_pivots[-1])
        beside.append(matrix[0, 1:])
        matrix = matrix[1:, 1:] - below[-1][:, None] * beside[-1][None]
    return Eliminated(below, beside, inverse_pivots)


def eliminated_regularized(matrix: Array) -> Eliminated:
    """Factorises a matrix [n, n] with a diagonal of about one, and little added to that, as it may be singular."""
    least = _REGULARIZATION * jnp.finfo(matrix.dtype).eps
    return eliminated(matrix + least * jnp.eye(len(matrix), dtype=matrix.dtype))
