"""The velocity of an implicit step within the bounds of its DOFs, and its derivative.

The derivative is that of the equation it solves, ``M (nu' - nu) = impulses``, at the velocity found: as for forward
dynamics, that takes the derivatives of inverse dynamics and neither those of the mass matrix nor of its inverse.
"""

from __future__ import annotations

import functools
from typing import TypeAlias

import jax
import jax.numpy as jnp

from artix.kinematics.velocities import generalized_velocity
from artix.math.arrays import matmul
from artix.math.tangents import value_and_change
from artix.model.articulation import Articulation, State
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_bounds import Touching, contact_impulse, contact_rows
from artix.simulation.implicit.laws import Bounds
from artix.simulation.implicit.response import Response
from artix.simulation.implicit.rows import bound_rows
from artix.simulation.implicit.sweeps import Swept, follow_bounds, sweep_over_bounds
from artix.simulation.implicit.system import Acting, ImplicitSystem, impulse_lacking
from artix.simulation.implicit.touches import Touches

Array = jax.Array


def bounded_velocity(
    articulation: Articulation,
    state: State,
    acting: Acting,
    system: ImplicitSystem,
    touching: Touching | None,
    options: SolverOptions,
) -> Swept:
    """What sweeps leave of the velocity at the end of a step without hard relations."""
    remembered = None if touching is None else touching.remembered
    given = (articulation, state, acting, None if touching is None else touching.touches)
    return _swept(options, system.velocity, system.response, remembered, given)


_Given: TypeAlias = tuple[Articulation, State, Acting, Touches | None]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _swept(
    options: SolverOptions, velocity: Array, response: Response, remembered: ContactMemory | None, given: _Given
) -> Swept:
    topology, dt = given[0].topology, given[2].dt
    bounds = _bounds(options, response, given)
    if response.left is None:
        return sweep_over_bounds(topology, bounds, velocity, dt, options, remembered)
    bounds = bounds.in_coordinates(response, velocity, topology.num_base_dofs + topology.depth_first_dofs)
    found = sweep_over_bounds(topology, bounds, jnp.zeros_like(velocity), dt, options, remembered)
    return found._replace(velocity=velocity + response.velocity(found.velocity))


@functools.partial(_swept.defjvp, symbolic_zeros=True)
def _swept_jvp(options: SolverOptions, primals, tangents):
    """Changes of the unbounded velocity and of the response do not count: the equation knows them."""
    (velocity, response, remembered, given), d_given = primals, tangents[3]
    found = _swept(options, velocity, response, remembered, given)

    def lacking(now: _Given) -> Array:
        articulation, state, acting, contacts = now
        change = found.velocity - generalized_velocity(articulation, state)
        taken = impulse_lacking(articulation, state, acting, change)
        return (
            taken
            if contacts is None
            else taken - contact_impulse(articulation, state, contacts, found.impulses.contacts)
        )

    matrix = response.matrix

    def bounds(now: _Given) -> tuple[Bounds, Array]:
        return _bounds(options, Response(None, matrix), now), now[2].dt

    d_velocity = -matmul(matrix, value_and_change(lacking, given, d_given)[1])
    (rows, dt), (d_rows, d_dt) = value_and_change(bounds, given, d_given)
    return found, follow_bounds(given[0].topology, rows, dt, options, found, d_rows, d_dt, d_velocity)


def _bounds(options: SolverOptions, response: Response, given: _Given) -> Bounds:
    articulation, state, acting, contacts = given
    rows = bound_rows(articulation, state, acting, response, response)
    if contacts is None:
        return Bounds(rows)
    return Bounds(rows, None, contact_rows(articulation, state, contacts, response, acting, options))
