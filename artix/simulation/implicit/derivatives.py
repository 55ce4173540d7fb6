"""Derivatives of the implicit solver's sweeps, by the implicit function theorem.

Once the sweeps have converged, impulses x and velocities ``u = start + W x`` satisfy one equation per row. As long as
the same bounds are active, it is linear in their changes: ``(1 - slope r) dx + slope du = db``, with the row's response
r and its slope, which is 1/r where a bound holds the velocity and zero where no bound is active. Therefore::

    A dx = db - slope d start,   A = 1 - diag(slope r) + diag(slope) W

with ones on the diagonal of A. The equation is solved with the step's number of sweeps: forwards for a tangent, and
backwards with the transpose for a gradient. The two therefore agree to rounding even if the sweeps have not converged.

The three rows of a contact are coupled, and matrices replace ``slope`` and ``1 - slope r``. Sweeps may not converge for
sliding contacts, and converge too slowly for many feet on stiff legs. So where there are both contacts and hard
relations, A is factorised. Contacts without hard relations have sparse equations instead, see
:mod:`artix.simulation.implicit.contact_derivatives`. A is singular if rows are redundant (four feet of a table). A
small regularisation, removed by proximal iterations, then finds a solution.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.compiler.jax_internals import match_varying_axes, scan
from artix.math.arrays import matmul
from artix.math.gaussian_elimination import lu_factorize_regularized, refined
from artix.simulation.implicit.blocks import block_diagonal, product

Array = jax.Array


class ActingBounds(NamedTuple):
    """The linear equation for the impulses of R rows, the last 3 K of which belong to contacts."""

    coupling: Array
    """W transposed: changes of all rows' velocities per unit impulse of each row, [R, R]."""
    slope: Array
    """Change of a row's impulse per change of its velocity, with opposite sign, [R - 3 K]."""
    response: Array
    """Velocity per impulse of each row, [R - 3 K]."""
    by_contact: tuple[Array, Array] | None
    """See :func:`artix.simulation.implicit.contact_newton.law_derivatives`; ``None`` without contacts."""

    def matrix(self) -> Array:
        """A, [R, R]."""
        count, by_row = len(self.slope), self.coupling.T
        matrix = self.slope[:, None] * by_row[:count] + _padded(jnp.diag(1 - self.slope * self.response), by_row)
        if self.by_contact is None:
            return matrix
        by_impulse, by_rate = self.by_contact
        answers = product(by_rate, by_row[count:].reshape(len(by_rate), 3, -1)).reshape(by_row[count:].shape)
        own = jnp.pad(block_diagonal(by_impulse), ((0, 0), (count, 0)))
        return jnp.concatenate([matrix, -answers - own])


def impulse_changes(acting: ActingBounds, missing: Array, repetitions: int) -> Array:
    """Solves for the changes of all impulses [R], given the ``missing`` impulses [R] of the rows' laws."""
    if acting.by_contact is not None:
        return _eliminated_changes(acting, missing)
    if not len(missing):  # A body without joints.
        return missing
    own = 1 - acting.slope * acting.response

    def needed(x: Array) -> Array:
        return own * x + acting.slope * matmul(x, acting.coupling)

    def sweeps(_, b: Array) -> Array:
        return _relaxed(repetitions, False, own, acting.slope, jnp.ones_like(own), acting.coupling, b)

    def transposed_sweeps(_, b: Array) -> Array:
        return _relaxed(repetitions, True, own, jnp.ones_like(own), acting.slope, acting.coupling.T, b)

    return jax.lax.custom_linear_solve(needed, missing, sweeps, transposed_sweeps)


def _eliminated_changes(acting: ActingBounds, missing: Array) -> Array:
    """The same, by elimination."""
    matrix = acting.matrix()
    factors = lu_factorize_regularized(jax.lax.stop_gradient(matrix))

    def needed(x: Array) -> Array:
        return matmul(matrix, x)

    def solve(_, b: Array) -> Array:
        return refined(needed, factors.solve, b)

    def solve_transposed(_, b: Array) -> Array:
        return refined(lambda x: matmul(x, matrix), factors.solve_transposed, b)

    return jax.lax.custom_linear_solve(needed, missing, solve, solve_transposed)


def _padded(diagonal: Array, rows: Array) -> Array:
    return jnp.pad(diagonal, ((0, 0), (0, rows.shape[1] - diagonal.shape[1])))


def _relaxed(
    repetitions: int, backwards: bool, own: Array, left: Array, right: Array, coupling: Array, b: Array
) -> Array:
    """Solves ``own x + left (right x) coupling = b``, with ones on the diagonal, by sweeps."""

    def turn(seen: Array, row: tuple[Array, ...]):
        x, own, left, right, effect, b, place = row
        change = b - own * x - left * jax.lax.dynamic_index_in_dim(seen, place, keepdims=False)
        change = change / jnp.maximum(own, 1)  # Underrelaxed like the sweeps; see solve_bounds.
        return seen + effect * (right * change), x + change

    def once(carry: tuple[Array, Array], _) -> tuple[tuple[Array, Array], None]:
        seen, x = carry
        rows = (x, own, left, right, coupling, b, jnp.arange(len(b)))
        return scan(turn, seen, rows, reverse=backwards), None

    zero = match_varying_axes(jnp.zeros_like(b), own, left, right, coupling)
    return scan(once, (zero, zero), length=repetitions)[0][1]
