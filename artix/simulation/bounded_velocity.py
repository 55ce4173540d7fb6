"""The velocity of an implicit step within the bounds of its DOFs, and its derivative.

The derivative is that of the equation it solves, ``M (nu' - nu) = impulses``, at the velocity found: as for forward
dynamics, that takes the derivatives of inverse dynamics and neither those of the mass matrix nor of its inverse. The
gradient of a quadruped's step took 65 us and 16,235 instructions when its stages were differentiated one by one.
"""

from __future__ import annotations

import functools

import jax

from artix.articulation import Articulation, State
from artix.configuration import generalized_velocity
from artix.constants import split_known
from artix.simulation.bound_rows import bound_rows
from artix.simulation.bound_sweeps import Swept, follow_bounds, sweep_over_bounds
from artix.simulation.implicit_system import Acting, ImplicitSystem, impulse_lacking
from artix.simulation.options import SolverOptions
from artix.tangents import times, value_and_change

Array = jax.Array


def bounded_velocity(
    articulation: Articulation, state: State, acting: Acting, system: ImplicitSystem, options: SolverOptions
) -> tuple[Array, Array]:
    """The velocity [nv] at the end of a step without hard relations, and the last sweep's corrections."""
    known, traced = split_known(articulation)
    found = _ruled_velocity(options, known, system.velocity, system.response, (traced, state, acting))
    return found.velocity, found.corrections


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _ruled_velocity(options: SolverOptions, known, velocity: Array, response: Array, given) -> Swept:
    return _swept(options, known, velocity, response, given)


@functools.partial(_ruled_velocity.defjvp, symbolic_zeros=True)
def _velocity_jvp(options: SolverOptions, known, primals, tangents):
    """Changes of the unbounded velocity and of the response do not count: the equation knows them."""
    (velocity, response, given), d_given = primals, tangents[2]
    found = _swept(options, known, velocity, response, given)

    def lacking(now) -> Array:
        articulation, state, acting = _whole(known, now)
        change = found.velocity - generalized_velocity(articulation, state)
        return impulse_lacking(articulation, state, acting, change)

    def rows(now):
        return bound_rows(*_whole(known, now), response, response), now[2].dt

    d_velocity = -times(response, value_and_change(lacking, given, d_given)[1])
    (bounds, dt), (d_bounds, d_dt) = value_and_change(rows, given, d_given)
    topology = _whole(known, given)[0].topology
    return found, follow_bounds(topology, bounds, dt, options, found, d_bounds, d_dt, d_velocity)


def _swept(options: SolverOptions, known, velocity: Array, response: Array, given) -> Swept:
    articulation, state, acting = _whole(known, given)
    rows = bound_rows(articulation, state, acting, response, response)
    return sweep_over_bounds(articulation.topology, rows, None, velocity, acting.dt, options)


def _whole(known, given) -> tuple[Articulation, State, Acting]:
    return (given[0] if known is None else known), *given[1:]
