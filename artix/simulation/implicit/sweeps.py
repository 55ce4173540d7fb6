"""Sweeps of the implicit solver over the bounds of DOFs, loop joints' distances and contacts, row by row."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from artix.evaluation.devices import scan
from artix.math.arrays import matmul, take
from artix.math.tangents import directional_derivative, is_zero, value_and_change
from artix.model.padded_topology import Tree
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_derivatives import Changes, elimination_order
from artix.simulation.implicit.contact_newton import newton_change
from artix.simulation.implicit.contact_rows import (
    ContactRow,
    ContactRows,
    contact_imbalance,
    contact_rates,
    solve_contact_row,
)
from artix.simulation.implicit.derivatives import impulse_changes
from artix.simulation.implicit.distance_rows import DistanceRow, solve_distance
from artix.simulation.implicit.dof_rows import BoundImpulses, BoundRow, solve_bounds
from artix.simulation.implicit.laws import Bounds, Impulses, Sweeps, acting_bounds, contact_equations, imbalances
from artix.simulation.implicit.members import dof_order, dof_places

Array = jax.Array
_Remembered: TypeAlias = tuple[Array, Array]
"""Impulses of contacts [K, 3], and of the DOFs' friction in the order of the sweep [n]."""


#: Sweeps before Newton's method, which tell it roughly what sticks, slides and separates.
_MIN_SWEEPS = 2


class Swept(NamedTuple):
    """The result of the sweeps."""

    velocity: Array
    """The generalised velocity, or coordinates of its change, [nv]."""
    impulses: Impulses
    """The impulses, in the order of the rows."""
    corrections: Array
    """Corrections of the rows' velocities in the last sweep."""


def sweep_over_bounds(
    trees: Sequence[Tree],
    bounds: Bounds,
    velocity: Array,
    dt: Array,
    options: SolverOptions,
    remembered: ContactMemory | None = None,
) -> Swept:
    """Projects a velocity onto its bounds.

    Args:
      trees: the topologies of the articulations.
      bounds: the bounds.
      velocity: the generalised velocity without bounds, or coordinates of its change, [nv].
      dt: the step [s].
      options: how many sweeps.
      remembered: initial impulses, which only exist with contacts; zero if ``None``.
    """
    order, sweeps = _order(trees, options)
    start, given = velocity if order is None else velocity[order], None
    if remembered is not None:
        given = remembered.impulse, take(remembered.joint_friction, dof_order(trees))
    found = _sweeps_with_jvp(sweeps, _ordered(order, bounds), start, dt, given)
    return found if order is None else found._replace(velocity=jnp.zeros_like(velocity).at[order].set(found.velocity))


def follow_bounds(
    trees: Sequence[Tree],
    options: SolverOptions,
    found: Swept,
    d_velocity: Array,
    now: tuple[Bounds, Array],
    change: tuple[Bounds, Array],
) -> Swept:
    """The tangent of the result of the sweeps.

    Args:
      trees: the topologies of the articulations.
      options: options of the solver.
      found: the result of the sweeps.
      d_velocity: tangent of the velocity at fixed impulses, [nv].
      now: the bounds, and the length of the step [s].
      change: tangents of both.
    """
    (bounds, dt), (d_bounds, d_dt) = now, change
    order, sweeps = _order(trees, options)
    if order is None:
        return _followed(sweeps, bounds, dt, found, d_bounds, d_dt, d_velocity)
    in_order = found._replace(velocity=found.velocity[order])
    tangent = _followed(sweeps, _ordered(order, bounds), dt, in_order, d_bounds, d_dt, d_velocity[order])
    return tangent._replace(velocity=jnp.zeros_like(d_velocity).at[order].set(tangent.velocity))


def follow_contacts(
    trees: Sequence[Tree],
    options: SolverOptions,
    found: Swept,
    matrix: Array,
    given: Array,
    now: tuple[Bounds, Array],
    change: tuple[Bounds, Array],
) -> Swept:
    """The same where there are contacts and no hard relations, by equations that have the pattern of the tree.

    Args:
      trees: as for :func:`follow_bounds`.
      options: as for :func:`follow_bounds`.
      found: as for :func:`follow_bounds`.
      matrix: of the step's linear system, [nv, nv].
      given: change of the generalised impulse [nv] besides those of the bounds.
      now: as for :func:`follow_bounds`.
      change: as for :func:`follow_bounds`.
    """
    (bounds, dt), (d_bounds, d_dt) = now, change
    sweeps = _order(trees, options)[1]

    def missing(now: tuple[Bounds, Array]) -> Array:
        return imbalances(sweeps, found.impulses, now[0], found.velocity, now[1])

    d_dofs, none, d_contacts = _parts(bounds, value_and_change(missing, now, (d_bounds.laws(), d_dt))[1])
    equations = contact_equations(sweeps, found.impulses, bounds, found.velocity, dt, matrix)
    static: Any = trees
    tangent = equations.solve(elimination_order(static), Changes(given, d_dofs, d_contacts))
    return _tangent(found, tangent.velocity, tangent.dofs, none, tangent.contacts)


def _order(trees: Sequence[Tree], options: SolverOptions) -> tuple[Array | None, Sweeps]:
    """The order of the velocity in the sweeps if it is data, and the static parameters of the sweeps."""
    places, order = dof_places(trees), None
    if not isinstance(places, np.ndarray):
        base = trees[0].num_base_dofs
        order = jnp.concatenate([np.arange(base, dtype=np.int32), jnp.asarray(places, np.int32)])
        places = base + np.arange(trees[0].num_dofs)
    counts = (options.position_iterations, options.contact_iterations)
    return order, Sweeps(tuple(places.tolist()), *counts, options.drive_limits_are_forces)


def _ordered(order: Array | None, bounds: Bounds) -> Bounds:
    # If the tree is data, there are only DOFs.
    dofs = bounds.dofs
    return bounds if order is None else bounds._replace(dofs=dofs._replace(effect=dofs.effect[:, order]))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _sweeps_with_jvp(
    sweeps: Sweeps, bounds: Bounds, velocity: Array, dt: Array, remembered: _Remembered | None
) -> Swept:
    return _sweeps(sweeps, bounds, velocity, dt, remembered)


@functools.partial(_sweeps_with_jvp.defjvp, symbolic_zeros=True)
def _sweeps_jvp(sweeps: Sweeps, primals, tangents):
    """The tangent does not depend on the start of the sweeps."""
    found = _sweeps_with_jvp(sweeps, *primals)
    bounds, velocity, dt, _ = primals
    d_bounds, d_velocity, d_dt, _ = tangents
    d_velocity = jnp.zeros_like(velocity) if is_zero(d_velocity) else d_velocity
    if not is_zero(d_bounds.dofs.effect):
        d_velocity = d_velocity + matmul(found.impulses.dofs.total, d_bounds.dofs.effect)
    if bounds.distances is not None and not is_zero(d_bounds.distances.effect):
        d_velocity = d_velocity + matmul(jnp.add(*found.impulses.distances), d_bounds.distances.effect)
    if bounds.contacts is not None:
        d_velocity = d_velocity + _change_by_effects(bounds.contacts, d_bounds.contacts, found.impulses.contacts)
    return found, _followed(sweeps, bounds, dt, found, d_bounds, d_dt, d_velocity)


def _change_by_effects(contacts: ContactRows, d_contacts: ContactRows, impulse: Array) -> Array | int:
    """The change of the velocity [nv] due to a change of the contacts' effects, at fixed impulses [K, 3]."""

    def given(reach: Array, effect: Array) -> Array:
        return matmul(matmul(impulse.reshape(-1), reach.reshape(-1, reach.shape[-1])), effect)

    now = contacts.each.reach, contacts.links.effect
    change = directional_derivative(lambda x: given(*x), now, (d_contacts.each.reach, d_contacts.links.effect))
    return 0 if change is None else change


def _followed(sweeps: Sweeps, bounds: Bounds, dt, found: Swept, d_bounds: Bounds, d_dt, d_velocity) -> Swept:
    """The tangent, from the equations that converged impulses satisfy. Its corrections are zero.

    ``d_velocity`` is the tangent of the velocity at fixed impulses.
    """

    def missing(now: tuple[Bounds, Array, Array]) -> Array:
        return imbalances(sweeps, found.impulses, *now)

    now, d_now = (bounds, found.velocity, dt), (d_bounds.laws(), d_velocity, d_dt)
    acting, effects = acting_bounds(sweeps, found.impulses, *now)
    change = impulse_changes(acting, value_and_change(missing, now, d_now)[1], sweeps.repetitions)
    return _tangent(found, d_velocity + matmul(change, effects), *_parts(bounds, change))


def _tangent(found: Swept, velocity: Array, dofs: Array, distances: Array, contacts: Array) -> Swept:
    """The tangent of the result, from the changes of the velocity and of the impulses."""
    zero, none = jnp.zeros_like(dofs), jnp.zeros_like(distances)
    # The equations determine only the total of a DOF's impulses, and nothing else is used.
    impulses = Impulses(BoundImpulses(dofs, zero, zero, zero, zero), (distances, none), contacts)
    return Swept(velocity, impulses, jnp.zeros_like(found.corrections))


def _sweeps(sweeps: Sweeps, bounds: Bounds, velocity: Array, dt: Array, remembered: _Remembered | None) -> Swept:
    start = _started(bounds, velocity, remembered)
    if bounds.contacts is None or not sweeps.newton_steps:
        return scan(lambda now, _: (_swept_once(sweeps, bounds, dt, now), None), start, length=sweeps.repetitions)[0]
    first = max(sweeps.repetitions - sweeps.newton_steps, _MIN_SWEEPS)
    found, _ = scan(lambda now, _: (_swept_once(sweeps, bounds, dt, now), None), start, length=first)
    best = found, _missed(bounds.contacts, found)
    for _ in range(sweeps.newton_steps):
        found = _improved(sweeps, bounds, dt, found)
        missed = _missed(bounds.contacts, found)
        # A Newton step can fail to improve; such a step is not accepted.
        best = jax.tree.map(functools.partial(jnp.where, missed <= best[1]), (found, missed), best)
    return _swept_over_contacts(bounds.contacts, best[0])


def _started(bounds: Bounds, velocity: Array, remembered: _Remembered | None) -> Swept:
    zero = jnp.zeros_like(bounds.dofs.response)
    counts = [
        0 if bounds.distances is None else len(bounds.distances.effect),
        0 if bounds.contacts is None else bounds.contacts.num_contacts,
    ]
    none = jnp.zeros(counts[0], zero.dtype)
    contacts = jnp.zeros((counts[1], 3), zero.dtype)
    corrections = jnp.zeros(len(zero) + counts[0] + 3 * counts[1], zero.dtype)

    def started(velocity: Array, contacts: Array, friction: Array) -> Swept:
        impulses = Impulses(BoundImpulses(zero, friction, zero, zero, zero), (none, none), contacts)
        return Swept(velocity, impulses, corrections)

    cold = started(velocity, contacts, zero)
    if bounds.contacts is None or remembered is None:
        return cold
    contacts, friction = remembered
    velocity = velocity + matmul(bounds.contacts.on_links(contacts), bounds.contacts.links.effect)
    warm = started(velocity + matmul(friction, bounds.dofs.effect), contacts, friction)
    # After an impact, the last impulses are far too large, and few iterations cannot undo them.
    is_nearer = _missed(bounds.contacts, warm) <= _missed(bounds.contacts, cold)
    return jax.tree.map(functools.partial(jnp.where, is_nearer), warm, cold)


def _swept_once(sweeps: Sweeps, bounds: Bounds, dt: Array, now: Swept, with_contacts: bool = True) -> Swept:
    """One sweep over all rows. Contacts come last, or keep their impulses."""

    def turn(velocity: Array, inputs: tuple[Array, BoundRow, BoundImpulses]):
        place, row, old = inputs
        own, response = _item(velocity, place), _item(row.effect, place)
        if row.reading is not None and row.start is not None:
            own, response = row.start + jnp.sum(row.reading * velocity), row.response
        new, change = solve_bounds(row, old, own, sweeps.over(dt))
        return velocity + row.effect * change, (new, response * change)

    def turn_distance(velocity: Array, inputs: tuple[DistanceRow, tuple[Array, Array]]):
        row, old = inputs
        new, change = solve_distance(row, old, jnp.sum(row.direction * velocity))
        return velocity + row.effect * change, (new, jnp.sum(row.direction * row.effect) * change)

    velocity, (dofs, spans, contacts), _ = now
    corrections, count = [], 0 if bounds.contacts is None else contacts.size
    if sweeps.places:
        velocity, (dofs, corrected) = scan(turn, velocity, (jnp.array(sweeps.places, int), bounds.dofs, dofs))
        corrections.append(corrected)
    if bounds.distances is not None:
        velocity, (spans, corrected) = scan(turn_distance, velocity, (bounds.distances, spans))
        corrections.append(corrected)
    corrections.append(now.corrections[len(now.corrections) - count :])
    swept = Swept(velocity, Impulses(dofs, spans, contacts), jnp.concatenate(corrections))
    return swept if bounds.contacts is None or not with_contacts else _swept_over_contacts(bounds.contacts, swept)


def _swept_over_contacts(rows: ContactRows, now: Swept) -> Swept:
    """One sweep over the contacts."""
    links, old = rows.links, now.impulses.contacts

    def turn(motions: Array, inputs: tuple[ContactRow, Array]):
        row, old = inputs
        new = solve_contact_row(row, old, contact_rates(row, old, motions))
        return motions + matmul(links.coupling, matmul(new - old, row.reach)), (new, matmul(row.block, new - old))

    _, (contacts, corrected) = scan(turn, links.of(now.velocity), (rows.each, old))
    velocity = now.velocity + matmul(rows.on_links(contacts - old), links.effect)
    corrections = jnp.concatenate([now.corrections[: len(now.corrections) - corrected.size], corrected.reshape(-1)])
    return Swept(velocity, now.impulses._replace(contacts=contacts), corrections)


def _improved(sweeps: Sweeps, bounds: Bounds, dt: Array, now: Swept) -> Swept:
    """A Newton step on the laws of all contacts, then a sweep over all other rows."""
    rows, old = bounds.contacts, now.impulses.contacts
    assert rows is not None
    change = newton_change(rows, old, rows.links.of(now.velocity))
    velocity = now.velocity + matmul(rows.on_links(change), rows.links.effect)
    stepped = Swept(velocity, now.impulses._replace(contacts=old + change), now.corrections)
    return _swept_once(sweeps, bounds, dt, stepped, with_contacts=False)


def _missed(rows: ContactRows, now: Swept) -> Array:
    """How far the laws are from being satisfied: the last corrections of DOFs, and the residuals of contacts."""
    impulse = now.impulses.contacts
    rates = contact_rates(rows.each, impulse, rows.links.of(now.velocity))
    imbalance = jax.vmap(contact_imbalance)(rows.each, impulse, rates)
    of_contacts = imbalance[:, 2] * rows.each.normal, imbalance[:, :2] * rows.each.tangential[:, None]
    of_others = now.corrections[: len(now.corrections) - impulse.size]
    return sum((jnp.sum(x**2) for x in of_contacts), start=jnp.sum(of_others**2))


def _parts(bounds: Bounds, change: Array) -> tuple[Array, Array, Array]:
    """Splits changes of impulses [R] into those of DOFs, distances and contacts [K, 3]."""
    first = len(bounds.dofs.response)
    second = first + (0 if bounds.distances is None else len(bounds.distances.response))
    return change[:first], change[first:second], change[second:].reshape(-1, 3)


def _item(x: Array, index: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(x, index, keepdims=False)
