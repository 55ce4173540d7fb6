"""Sweeps of the implicit solver over the bounds of DOFs, loop joints' distances and contacts, row by row."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp

from artix.compiler.jax_internals import scan
from artix.math.arrays import chosen, matmul
from artix.math.tangents import is_zero
from artix.model.topology import Topology
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_newton import newton_change
from artix.simulation.implicit.contact_rows import (
    ContactRow,
    ContactRows,
    contact_rates,
    contact_residuals,
    solve_contact_row,
)
from artix.simulation.implicit.dissipation import without_added_energy
from artix.simulation.implicit.distance_rows import DistanceRow
from artix.simulation.implicit.dof_rows import BoundImpulses, BoundRow, limit_impulse, solve_bounds
from artix.simulation.implicit.laws import Bounds, Impulses, Sweeps, Swept, sweeps_of
from artix.simulation.implicit.newton import Residuals, newton_step, residuals
from artix.simulation.implicit.sweep_derivatives import change_by_effects, followed

Array = jax.Array
_Remembered: TypeAlias = tuple[Array, Array]
"""Impulses of contacts [K, 3], and of the DOFs' friction [n]."""

#: Newton steps must leave less than this share of the residual. Rounding errors alone would make robots at rest jitter.
_IMPROVED = 0.5

#: Residual of a step's laws [m/s or rad/s] below which a step may add the energy that undoing a penetration takes.
_CONVERGED = 1e-3

#: Sweeps before Newton's method on contacts alone, which tell it roughly what sticks, slides and separates.
_MIN_SWEEPS = 2


def sweep_over_bounds(
    trees: Sequence[Topology],
    bounds: Bounds,
    velocity: Array,
    dt: Array,
    options: SolverOptions,
    remembered: ContactMemory | None,
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
    given = None if remembered is None else (remembered.impulse, remembered.joint_friction)
    return _sweeps(sweeps_of(trees, options), bounds, velocity, dt, given)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _sweeps(sweeps: Sweeps, bounds: Bounds, velocity: Array, dt: Array, remembered: _Remembered | None) -> Swept:
    def swept(now: Swept, count: int) -> Swept:
        return scan(lambda now, _: (_swept_once(sweeps, bounds, dt, now), None), now, length=count)[0]

    start = _started(bounds, velocity, remembered)
    if bounds.system is not None:
        return _improved(sweeps, bounds, dt, swept(start, sweeps.repetitions))
    if bounds.contacts is not None and remembered is not None:
        # After an impact, the last impulses are far too large, and few sweeps cannot undo them.
        cold = _started(bounds, velocity, None)
        is_nearer = _missed(bounds.contacts, start) <= _missed(bounds.contacts, cold)
        start = chosen(is_nearer, start, cold)
    if bounds.contacts is None or not sweeps.newton_steps:
        return swept(start, sweeps.repetitions)
    return _alternated(sweeps, bounds, dt, swept(start, max(sweeps.repetitions - sweeps.newton_steps, _MIN_SWEEPS)))


@functools.partial(_sweeps.defjvp, symbolic_zeros=True)
def _sweeps_jvp(sweeps: Sweeps, primals, tangents):
    """The tangent does not depend on the start of the sweeps."""
    found = _sweeps(sweeps, *primals)
    bounds, velocity, dt, _ = primals
    d_bounds, d_velocity, d_dt, _ = tangents
    d_velocity = jnp.zeros_like(velocity) if is_zero(d_velocity) else d_velocity
    if not is_zero(d_bounds.dofs.effect):
        d_velocity = d_velocity + matmul(found.impulses.dofs.total, d_bounds.dofs.effect)
    if bounds.distances is not None and not is_zero(d_bounds.distances.effect):
        d_velocity = d_velocity + matmul(found.impulses.distances, d_bounds.distances.effect)
    if bounds.contacts is not None:
        d_velocity = d_velocity + change_by_effects(bounds.contacts, d_bounds.contacts, found.impulses.contacts)
    return found, followed(sweeps, bounds, dt, found, d_bounds, d_dt, d_velocity)


def _improved(sweeps: Sweeps, bounds: Bounds, dt: Array, found: Swept) -> Swept:
    """The best of the sweeps' result and the iterates of Newton's method, then a sweep over the contacts."""
    assert bounds.contacts is not None
    left = residuals(sweeps, bounds, dt, found)

    def step(now: tuple[Swept, Residuals, tuple[Swept, Array]], _: None):
        found, left, best = now
        found = newton_step(sweeps, bounds, dt, found, left)
        left = residuals(sweeps, bounds, dt, found)
        corrections = bounds.dofs.response * left.change
        found = found._replace(corrections=found.corrections.at[: len(corrections)].set(corrections))
        is_better = left.size <= _IMPROVED**2 * best[1]
        return (found, left, chosen(is_better, (found, left.size), best)), None

    size = left.size
    if sweeps.newton_steps:
        (_, _, best), _ = scan(step, (found, left, (found, size)), length=sweeps.newton_steps)  # JAX traces one step.
        found, size = _swept_over_contacts(bounds.contacts, best[0]), best[1]
    if bounds.contacts.each.smoothing is not None:  # Smoothed contacts push before they touch.
        return found
    converged = size <= _CONVERGED**2
    return chosen(converged, found, without_added_energy(bounds, found))


def _alternated(sweeps: Sweeps, bounds: Bounds, dt: Array, found: Swept) -> Swept:
    """Newton steps on the laws of the contacts, each followed by a sweep over the DOFs."""
    contacts = bounds.contacts
    assert contacts is not None

    def step(now: tuple[Swept, tuple[Swept, Array]], _: None):
        found, best = now
        found = _contacts_improved(sweeps, bounds, dt, found)
        missed = _missed(contacts, found)
        # A Newton step can fail to improve; such a step is not accepted.
        return (found, chosen(missed <= best[1], (found, missed), best)), None

    start = found, (found, _missed(contacts, found))
    (_, best), _ = scan(step, start, length=sweeps.newton_steps)
    return _swept_over_contacts(contacts, best[0])


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
        impulses = Impulses(BoundImpulses(zero, friction, zero), none, contacts)
        return Swept(velocity, impulses, corrections)

    if bounds.contacts is None or remembered is None:
        return started(velocity, contacts, zero)
    contacts, friction = remembered
    velocity = velocity + matmul(bounds.contacts.on_links(contacts), bounds.contacts.links.effect)
    return started(velocity + matmul(friction, bounds.dofs.effect), contacts, friction)


def _swept_once(sweeps: Sweeps, bounds: Bounds, dt: Array, now: Swept, with_contacts: bool = True) -> Swept:
    """One sweep over all rows. Contacts come last, or keep their impulses."""

    def turn(velocity: Array, inputs: tuple[Array, BoundRow, BoundImpulses]):
        place, row, old = inputs
        own, response = _item(velocity, place), _item(row.effect, place)
        if row.reading is not None and row.start is not None:
            own, response = row.start + jnp.sum(row.reading * velocity), row.response
        new, change = solve_bounds(row, old, own, sweeps.over(dt))
        return velocity + row.effect * change, (new, response * change)

    def turn_distance(velocity: Array, inputs: tuple[DistanceRow, Array]):
        row, old = inputs
        rate = jnp.sum(row.direction * velocity)
        new = limit_impulse(old, row.lower_velocity, row.upper_velocity, rate, row.response)
        return velocity + row.effect * (new - old), (new, jnp.sum(row.direction * row.effect) * (new - old))

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
    """One sweep over the contacts, link by link."""
    velocity, impulse = now.velocity, now.impulses.contacts
    corrected = jnp.zeros_like(impulse)
    for contacts, motions in rows.links.similar_links():
        velocity, (new, moved) = scan(_swept_over_link, velocity, (rows.of_links(contacts, motions), impulse[contacts]))
        impulse, corrected = impulse.at[contacts].set(new), corrected.at[contacts].set(moved)
    corrections = jnp.concatenate([now.corrections[: len(now.corrections) - corrected.size], corrected.reshape(-1)])
    return Swept(velocity, now.impulses._replace(contacts=impulse), corrections)


def _swept_over_link(velocity: Array, inputs: tuple[ContactRows, Array]) -> tuple[Array, tuple[Array, Array]]:
    """One sweep over the contacts of a link: the coordinates, and the impulses and what they correct, [m, 3] each."""
    rows, old = inputs
    links = rows.links

    def turn(motions: Array, inputs: tuple[ContactRow, Array]):
        row, old = inputs
        new = solve_contact_row(row, old, contact_rates(row, old, motions))
        return motions + matmul(links.coupling, matmul(new - old, row.reach)), (new, matmul(row.block, new - old))

    _, (new, corrected) = scan(turn, links.of(velocity), (rows.each, old))
    return velocity + matmul(rows.on_links(new - old), links.effect), (new, corrected)


def _contacts_improved(sweeps: Sweeps, bounds: Bounds, dt: Array, now: Swept) -> Swept:
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
    of_others = now.corrections[: len(now.corrections) - impulse.size]
    return jnp.sum(of_others**2) + jnp.sum(contact_residuals(rows, impulse, now.velocity)[2] ** 2)


def _item(x: Array, index: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(x, index, keepdims=False)
