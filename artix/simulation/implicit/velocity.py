"""The velocity of an implicit step within the bounds of its DOFs, and its derivative.

The derivative is that of the equation it solves, ``M (nu' - nu) = impulses``, at the velocity found: as for forward
dynamics, that takes the derivatives of inverse dynamics and neither those of the mass matrix nor of its inverse.
"""

from __future__ import annotations

import functools

import jax

from artix.kinematics.velocities import generalized_velocity
from artix.math.arrays import matmul
from artix.math.tangents import value_and_change
from artix.model.articulation import Articulation, State
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.impulses import BoundRow
from artix.simulation.implicit.rows import bound_rows
from artix.simulation.implicit.sweeps import Swept, follow_bounds, sweep_over_bounds
from artix.simulation.implicit.system import Acting, ImplicitSystem, impulse_lacking

Array = jax.Array


def bounded_velocity(
    articulation: Articulation, state: State, acting: Acting, system: ImplicitSystem, options: SolverOptions
) -> tuple[Array, Array]:
    """The velocity [nv] at the end of a step without hard relations, and the last sweep's corrections."""
    found = _swept(options, system.velocity, system.response, (articulation, state, acting))
    return found.velocity, found.corrections


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _swept(
    options: SolverOptions, velocity: Array, response: Array, given: tuple[Articulation, State, Acting]
) -> Swept:
    articulation, state, acting = given
    rows = bound_rows(articulation, state, acting, response, response)
    return sweep_over_bounds(articulation.topology, rows, None, velocity, acting.dt, options)


@functools.partial(_swept.defjvp, symbolic_zeros=True)
def _swept_jvp(options: SolverOptions, primals, tangents):
    """Changes of the unbounded velocity and of the response do not count: the equation knows them."""
    (velocity, response, given), d_given = primals, tangents[2]
    found = _swept(options, velocity, response, given)

    def lacking(now: tuple[Articulation, State, Acting]) -> Array:
        articulation, state, acting = now
        change = found.velocity - generalized_velocity(articulation, state)
        return impulse_lacking(articulation, state, acting, change)

    def rows(now: tuple[Articulation, State, Acting]) -> tuple[BoundRow, Array]:
        return bound_rows(*now, response, response), now[2].dt

    d_velocity = -matmul(response, value_and_change(lacking, given, d_given)[1])
    (bounds, dt), (d_bounds, d_dt) = value_and_change(rows, given, d_given)
    return found, follow_bounds(given[0].topology, bounds, dt, options, found, d_bounds, d_dt, d_velocity)
