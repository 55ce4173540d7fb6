"""Solves small unsymmetric linear systems in plain operations, which the compiled program of one robot can hold.

Gaussian elimination without pivoting, which suits matrices with a dominant symmetric part, and an inverse with it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array

#: Added to the diagonal of matrices that may be singular and have a diagonal of about one, in units of rounding error.
_REGULARIZATION = 30


class Eliminated(NamedTuple):
    """A matrix [n, n] as L U, L with ones on its diagonal."""

    below: list[Array]
    """The columns of L below the diagonal."""
    beside: list[Array]
    """The rows of U right of the diagonal."""
    inverse_pivots: list[Array]

    def solve(self, right: Array) -> Array:
        """The solution x of ``L U x = right``, [n]."""
        values = []
        for column in self.below:
            values.append(right[0])
            right = right[1:] - column * right[0]
        x = jnp.zeros_like(right)
        for value, row, inverse in zip(values[::-1], self.beside[::-1], self.inverse_pivots[::-1], strict=True):
            x = jnp.concatenate([((value - jnp.sum(row * x)) * inverse)[None], x])
        return x

    def solve_transposed(self, right: Array) -> Array:
        """The solution x of ``U^T L^T x = right``, [n]."""
        values = []
        for row, inverse in zip(self.beside, self.inverse_pivots, strict=True):
            values.append(right[0] * inverse)
            right = right[1:] - row * values[-1]
        x = jnp.zeros_like(right)
        for value, column in zip(values[::-1], self.below[::-1], strict=True):
            x = jnp.concatenate([(value - jnp.sum(column * x))[None], x])
        return x


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
    """Factorises a matrix [n, n] that may be singular and has a diagonal of about one, slightly regularised."""
    added = _REGULARIZATION * jnp.finfo(matrix.dtype).eps
    return eliminated(matrix + added * jnp.eye(len(matrix), dtype=matrix.dtype))


def inverse_with_pivoting(matrix: Array) -> Array:
    """The inverse of a matrix [n, n] by Gauss and Jordan's elimination, each column by its largest entry."""
    size = len(matrix)
    rows = jnp.concatenate([matrix, jnp.eye(size, dtype=matrix.dtype)], axis=1)
    for column in range(size):
        pivot, others = rows[column], list(rows[:column])
        for row in rows[column + 1 :]:
            is_larger = jnp.abs(row[0]) > jnp.abs(pivot[0])
            others.append(jnp.where(is_larger, pivot, row))
            pivot = jnp.where(is_larger, row, pivot)
        pivot = pivot[1:] / pivot[0]
        reduced = [row[1:] - row[0] * pivot for row in others]
        rows = jnp.stack([*reduced[:column], pivot, *reduced[column:]])
    return rows
