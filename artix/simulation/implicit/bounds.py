"""The velocity of an implicit step within its bounds, and its derivative.

The derivative comes from the equation ``M (nu' - nu) = impulses`` at the solution. As in forward dynamics, this needs
the derivatives of inverse dynamics, but neither those of the mass matrix nor those of its inverse.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from artix.kinematics.velocities import generalized_velocity
from artix.math.arrays import joined
from artix.math.tangents import value_and_change
from artix.model.articulation import Articulation, State
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_bounds import Touching, contact_impulse, contact_rows
from artix.simulation.implicit.dof_rows import all_bound_rows
from artix.simulation.implicit.laws import Bounds, Impulses, Swept
from artix.simulation.implicit.members import dof_places, parted, side_by_side
from artix.simulation.implicit.sweep_derivatives import follow_bounds, follow_contacts
from artix.simulation.implicit.sweeps import sweep_over_bounds
from artix.simulation.implicit.system import Acting, Prepared, Response, missing_impulse
from artix.simulation.implicit.touches import Touches

Array = jax.Array


class Bounded(NamedTuple):
    """Velocities of one articulation that satisfy all bounds."""

    moving_velocity: Array
    """Velocity that moves the positions, [nv]; it also corrects position errors of hard mimic joints."""
    velocity: Array
    """Velocity at the end of the step, [nv]."""
    loop_impulse: Array
    """Impulses on all rows of the loop joints' anchors."""


class AllBounded(NamedTuple):
    """The result of the sweeps over the rows of all articulations."""

    each: list[Bounded]
    velocity: Array
    """Velocity of all articulations at the end of the step, [nv]."""
    moving_corrections: Array
    """Corrections of the last sweep to the velocities of DOFs and distances, and remaining errors of hard relations."""
    corrections: Array
    """The same for the velocity at the end."""
    impulses: Impulses
    """Impulses of all bounds at the end of the step; those of DOFs in their order."""
    newton_steps: Array | None = None
    """Number of Newton steps of the solver ``"newton"``."""


def bounded(parts: Sequence[Prepared], touching: Touching | None, options: SolverOptions) -> AllBounded:
    """Sweeps over all bounds of articulations without hard relations."""
    remembered = None if touching is None else touching.remembered
    articulations, states, acting = zip(*((one.articulation, one.state, one.acting) for one in parts), strict=True)
    given = (articulations, states, acting, None if touching is None else touching.touches)
    velocity, responses = joined([one.system.velocity for one in parts]), tuple(one.system.response for one in parts)
    matrix = side_by_side([one.system.matrix for one in parts], [len(one.system.velocity) for one in parts])
    at_start = joined([one.system.start for one in parts])
    velocity, impulses, corrections = _swept(options, velocity, responses, remembered, given, matrix, at_start)
    none = jnp.zeros_like(velocity, shape=0)
    each = [Bounded(own, own, none) for own in parted(velocity, [len(one.system.velocity) for one in parts])]
    return AllBounded(each, velocity, corrections, corrections, impulses)


_Given: TypeAlias = tuple[tuple[Articulation, ...], tuple[State, ...], tuple[Acting, ...], Touches | None]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _swept(
    options: SolverOptions,
    velocity: Array,
    responses: tuple[Response, ...],
    remembered: ContactMemory | None,
    given: _Given,
    matrix: Array,
    at_start: Array,
) -> Swept:
    """The result of the sweeps, with the ``matrix`` of the linear system and coordinates of the initial velocity."""
    trees, dt = [one.topology for one in given[0]], given[2][0].dt
    bounds, response = _bounds(options, responses, given), Response.joined(responses)
    if response.left is None:
        return sweep_over_bounds(trees, bounds, velocity, dt, options, remembered)
    bounds = bounds.in_coordinates(response, velocity, dof_places(trees), matrix, at_start)
    found = sweep_over_bounds(trees, bounds, jnp.zeros_like(velocity), dt, options, remembered)
    return found._replace(velocity=velocity + response.velocity(found.velocity))


@functools.partial(_swept.defjvp, symbolic_zeros=True)
def _swept_jvp(options: SolverOptions, primals, tangents):
    """Tangents of the unbounded velocity and the response are not used: the equation accounts for them."""
    (_, responses, _, given, matrix, _), d_given = primals, tangents[3]
    found = _swept(options, *primals)
    trees = [one.topology for one in given[0]]
    sizes = [tree.nv for tree in trees]
    velocities = parted(found.velocity, sizes)

    def missing_at(now: _Given) -> Array:
        articulations, states, acting, contacts = now
        taken = []
        for k, (articulation, state) in enumerate(zip(articulations, states, strict=True)):
            change = velocities[k] - generalized_velocity(articulation, state)
            taken.append(missing_impulse(articulation, state, acting[k], change))
        if contacts is None:
            return joined(taken)
        return joined(taken) - contact_impulse(articulations, states, contacts, found.impulses.contacts)

    missing = value_and_change(missing_at, given, d_given)[1]
    if given[3] is not None:
        follow = functools.partial(follow_contacts, trees, options, found, matrix, -missing)
    else:
        # Sweeps find the change; they need the effects of rows as changes of the velocity.
        responses = tuple(Response(None, response.matrix) for response in responses)
        parts = zip(responses, parted(missing, sizes), strict=True)
        follow = functools.partial(follow_bounds, trees, options, found, joined([-one.to(part) for one, part in parts]))

    def bounds(now: _Given) -> tuple[Bounds, Array]:
        return _bounds(options, responses, now), now[2][0].dt

    return found, follow(*value_and_change(bounds, given, d_given))


def _bounds(options: SolverOptions, responses: tuple[Response, ...], given: _Given) -> Bounds:
    articulations, states, acting, contacts = given
    rows = all_bound_rows(articulations, states, acting, responses, responses)
    if contacts is None:
        return Bounds(rows)
    response = Response.joined(responses)
    return Bounds(rows, None, contact_rows(articulations, states, contacts, response, acting, options))
