"""Small unsymmetric linear systems, solved by plain operations that a robot's scalar program can
contain.

LU factors without pivoting, for matrices with a dominant symmetric part, and an inverse with
pivoting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from artix.math.arrays import identity
from artix.math.traces import if_needed, shared

Array = jax.Array
_X = TypeVar("_X")


class LuFactors(NamedTuple):
    """A matrix [n, n] as ``L U``, with ones on the diagonal of L."""

    lower_columns: list[Array]
    """The columns of L below the diagonal."""
    upper_rows: list[Array]
    """The rows of U to the right of the diagonal."""
    inverse_pivots: list[Array]

    def solve(self, right: Array) -> Array:
        """The solution x of ``L U x = right``, [n]."""
        return _solution(self, right)

    def solve_transposed(self, right: Array) -> Array:
        """The solution x of ``U^T L^T x = right``, [n]."""
        return _transposed_solution(self, right)


@shared
def _solution(factors: LuFactors, right: Array) -> Array:
    """The solution x of ``L U x = right``, [n]."""
    values = []
    for column in factors.lower_columns:
        values.append(right[0])
        right = right[1:] - column * values[-1]
    x = jnp.zeros_like(right)
    for value, row, inverse in zip(
        values[::-1], factors.upper_rows[::-1], factors.inverse_pivots[::-1], strict=True
    ):
        x = jnp.concatenate([((value - jnp.sum(row * x)) * inverse)[None], x])
    return x


@shared
def _transposed_solution(factors: LuFactors, right: Array) -> Array:
    """The solution x of ``U^T L^T x = right``, [n]."""
    values = []
    for row, inverse in zip(factors.upper_rows, factors.inverse_pivots, strict=True):
        values.append(right[0] * inverse)
        right = right[1:] - row * values[-1]
    x = jnp.zeros_like(right)
    for value, column in zip(values[::-1], factors.lower_columns[::-1], strict=True):
        x = jnp.concatenate([(value - jnp.sum(column * x))[None], x])
    return x


@shared
def lu_factorize(matrix: Array) -> LuFactors:
    """Factorises a matrix [n, n] without pivoting."""
    lower_columns = []
    upper_rows = []
    inverse_pivots = []
    for _ in range(len(matrix)):
        inverse_pivots.append(1 / matrix[0, 0])
        lower_columns.append(matrix[1:, 0] * inverse_pivots[-1])
        upper_rows.append(matrix[0, 1:])
        matrix = matrix[1:, 1:] - lower_columns[-1][:, None] * upper_rows[-1][None]
    return LuFactors(lower_columns, upper_rows, inverse_pivots)


#: Columns of a matrix whose elimination is written out, those of twelve free bodies: one of more
#: takes minutes to compile.
MOST_WRITTEN_OUT = 72


def lu_solver(matrix: Array) -> Callable[[Array], Array]:
    """The function that gives the solution x of ``matrix x = right``, [n], by the same factors, as
    loops over the columns for XLA, whose program does not grow with n.

    LAPACK's are faster in batches, but JAX 0.10 loses how to call them in programs with many arrays
    without elements, such as the joints of free bodies.
    """
    size = len(matrix)
    index = jnp.arange(size)

    def eliminate(k: Array, x: Array) -> Array:
        column = jnp.where(index > k, x[:, k] / x[k, k], 0)
        x = x - column[:, None] * jnp.where(index > k, x[k], 0)[None]
        return x.at[:, k].set(jnp.where(index > k, column, x[:, k]))

    factors = jax.lax.fori_loop(0, size, eliminate, matrix)

    def solve(right: Array) -> Array:
        def forwards(k: Array, x: Array) -> Array:
            return x - jnp.where(index > k, factors[:, k], 0) * x[k]

        def backwards(i: Array, x: Array) -> Array:
            k = size - 1 - i
            x = x.at[k].set(x[k] / factors[k, k])
            return x - jnp.where(index < k, factors[:, k], 0) * x[k]

        return jax.lax.fori_loop(0, size, backwards, jax.lax.fori_loop(0, size, forwards, right))

    return solve


class PivotedFactors(NamedTuple):
    """The factors of an unsymmetric matrix with rows exchanged, ``P matrix = L U``."""

    both: Array
    """L below the diagonal, on which it has ones, and U, [n, n]."""
    order: Array
    """The rows in their new order, [n]."""

    def solve(self, right: Array) -> Array:
        """The solution x of ``matrix x = right``, [n]."""
        return self._half(self._half(right[self.order], lower=True), lower=False)

    def solve_transposed(self, right: Array) -> Array:
        """The solution x of ``matrix^T x = right``, [n]."""
        half = self._half(right, lower=False, transposed=True)
        half = self._half(half, lower=True, transposed=True)
        return jnp.zeros_like(right).at[self.order].set(half, unique_indices=True)

    def _half(self, right: Array, *, lower: bool, transposed: bool = False) -> Array:
        return jax.lax.linalg.triangular_solve(
            self.both,
            right[:, None],
            left_side=True,
            lower=lower,
            unit_diagonal=lower,
            transpose_a=transposed,
        )[:, 0]


def lu_by_library(matrix: Array, is_symmetric: Array | None = None) -> PivotedFactors:
    """The factors of a large matrix by XLA's own factorisation, LAPACK's on a CPU, of which a
    program does not grow with n.

    Args:
      matrix: the matrix, [n, n].
      is_symmetric: whether it is symmetric and positive definite, if that may be: Cholesky's
        factors take half of the operations, and exchange no rows, for which XLA loops over them.
    """
    if is_symmetric is None:
        return _by_rows(matrix)
    lower = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    pivots = jnp.diagonal(lower)
    lower_half = jnp.tril(lower / pivots, -1)
    order = jnp.arange(len(matrix), dtype=jnp.int32)
    factors = PivotedFactors(lower_half + pivots[:, None] * lower.T, order)
    is_definite = is_symmetric & jnp.all(jnp.isfinite(pivots))
    return if_needed(~is_definite, _by_rows, matrix, factors)


def _by_rows(matrix: Array) -> PivotedFactors:
    both, pivots, _ = jax.lax.linalg.lu(matrix)
    return PivotedFactors(both, _order(pivots))


def _order(pivots: Array) -> Array:
    """The order of rows after the exchanges of each one with its pivot, [n].

    XLA's own loop over the exchanges takes a turn of several kernels for each row. Here each row
    asks for the last exchange before its own that moved the same one: what comes there is what was
    in place of that exchange, which an earlier one may have moved, and so on. Chains of n are
    followed in log n turns.
    """
    index = jnp.arange(len(pivots), dtype=pivots.dtype)
    is_before = index < index[:, None]

    def last(rows: Array) -> Array:
        return jnp.max(jnp.where(is_before & (pivots == rows[:, None]), index, -1), axis=1)

    here, there = last(index), last(pivots)
    source = jnp.where(here >= 0, here, index)
    for _ in range(len(pivots).bit_length()):
        source = source[source]
    return jnp.where(there >= 0, source[there], pivots)


def refined(
    apply: Callable[[_X], _X], solve: Callable[[_X], _X], right: _X, iterations: int = 3
) -> _X:
    """The solution x of ``apply(x) = right`` by proximal iterations, for a ``solve`` of regularised
    equations.
    """
    x = solve(right)
    for _ in range(iterations - 1):
        missing = jax.tree.map(jnp.subtract, right, apply(x))
        x = jax.tree.map(jnp.add, x, solve(missing))
    return x


def inverse_with_pivoting(matrix: Array) -> Array:
    """The inverse of a matrix [n, n] by Gauss-Jordan elimination with partial pivoting.

    That of more than 72 columns is a loop over them, since one that is written out takes XLA
    minutes to compile.
    """
    size = len(matrix)
    rows = jnp.concatenate([matrix, identity(size, matrix.dtype)], axis=1)
    if size > MOST_WRITTEN_OUT:
        return jax.lax.fori_loop(0, size, _eliminate_column, rows)[:, size:]
    for column in range(size):
        pivot = rows[column]
        others = list(rows[:column])
        for row in rows[column + 1 :]:
            is_larger = jnp.abs(row[0]) > jnp.abs(pivot[0])
            others.append(jnp.where(is_larger, pivot, row))
            pivot = jnp.where(is_larger, row, pivot)
        pivot = pivot[1:] / pivot[0]
        reduced = [row[1:] - row[0] * pivot for row in others]
        rows = jnp.stack([*reduced[:column], pivot, *reduced[column:]])
    return rows


def _eliminate_column(column: Array, rows: Array) -> Array:
    """A turn of Gauss-Jordan elimination on a matrix beside the identity, [n, 2 n]."""
    index, values = jnp.arange(len(rows)), rows[:, column]
    best = jnp.argmax(jnp.where(index >= column, jnp.abs(values), -1))
    pivot = rows[best] / values[best]
    # The row of the pivot changes places with that of the column.
    rows = rows.at[best].set(rows[column])
    return (rows - rows[:, column][:, None] * pivot).at[column].set(pivot)
