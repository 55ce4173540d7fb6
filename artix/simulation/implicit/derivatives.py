"""Derivatives of the implicit solver's sweeps, by the implicit function theorem.

Once the sweeps have converged, impulses x and velocities ``u = start + W x`` obey an equation for each row, which is
linear in their changes as long as the same bounds act: ``(1 - slope r) dx + slope du = db``, with the row's response r
and its slope, which is 1/r where a bound holds the velocity and zero where none acts. So::

    A dx = db - slope d start,   A = 1 - diag(slope r) + diag(slope) W

with ones on the diagonal of A. It is solved by as many sweeps as the step has, forwards for a derivative and backwards
with the transpose for a gradient, which so agree to rounding whatever the sweeps leave.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.evaluation.devices import scan, varying_alike
from artix.math.arrays import matmul

Array = jax.Array


class ActingBounds(NamedTuple):
    """The linear equation of the rows' impulses, R rows."""

    coupling: Array
    """W transposed: what a unit impulse of each row changes of all rows' velocities, [R, R]."""
    slope: Array
    """How a row's impulse answers its velocity, [R]."""
    response: Array
    """Velocity per impulse of each row, [R]."""


def impulse_changes(acting: ActingBounds, missing: Array, repetitions: int) -> Array:
    """The changes of all impulses [R] that make up for what is ``missing`` of them [R]."""
    own = 1 - acting.slope * acting.response

    def needed(x: Array) -> Array:
        return own * x + acting.slope * matmul(x, acting.coupling)

    def sweeps(_, b: Array) -> Array:
        return _relaxed(repetitions, False, own, acting.slope, jnp.ones_like(own), acting.coupling, b)

    def transposed_sweeps(_, b: Array) -> Array:
        return _relaxed(repetitions, True, own, jnp.ones_like(own), acting.slope, acting.coupling.T, b)

    return jax.lax.custom_linear_solve(needed, missing, sweeps, transposed_sweeps)


def _relaxed(
    repetitions: int, backwards: bool, own: Array, left: Array, right: Array, coupling: Array, b: Array
) -> Array:
    """Solves ``own x + left (right x) coupling = b``, ones on the diagonal, by sweeps."""

    def turn(seen: Array, row: tuple[Array, ...]):
        x, own, left, right, effect, b, place = row
        change = b - own * x - left * jax.lax.dynamic_index_in_dim(seen, place, keepdims=False)
        change = change / jnp.maximum(own, 1)  # As cautious as the sweeps, see solve_bounds.
        return seen + effect * (right * change), x + change

    def once(carry: tuple[Array, Array], _) -> tuple[tuple[Array, Array], None]:
        seen, x = carry
        rows = (x, own, left, right, coupling, b, jnp.arange(len(b)))
        return scan(turn, seen, rows, reverse=backwards), None

    zero = varying_alike(jnp.zeros_like(b), own, left, right, coupling)
    return scan(once, (zero, zero), length=repetitions)[0][1]
