"""The first guess of a step: sweeps over all rows, each of which is solved by itself (block
Gauss-Seidel).

Newton's method takes one step for each round of changes of what sticks, slides,
pushes and is open. Sweeps find most of these changes at a fifth of a Newton step's cost. Where they
leave loads to be shared, they share them by the order of the rows, so Newton's method takes no more
from them than the sets: see :func:`artix.simulation.implicit.solver.solve_system`.

Sweeps carry coordinates of the change of velocity, in which a row reads and writes only entries
between its link and the root, see :class:`artix.simulation.implicit.system.Response`.

Jean, *The non-smooth contact dynamics method*, 1999; Cryer, *The solution of a quadratic
programming problem using systematic overrelaxation*, 1971.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import matmul, take, with_rows
from artix.math.traces import shared, while_loop
from artix.simulation.common.drives import Sweep
from artix.simulation.implicit.resolvents import (
    BoundImpulses,
    BoundRow,
    ContactRow,
    drive_impulse,
    resolve_friction,
    resolve_normal,
)
from artix.simulation.implicit.rows import ContactRows, Impulses, Rates, StepRows
from artix.simulation.implicit.system import Response

Array = jax.Array
_Tree = TypeVar("_Tree")

#: Sweeps with contacts, and over the rows of DOFs alone. More find few further changes of sets;
#: with 3, swinging quadrupeds on rough ground have 1.8 times as many unsolved steps.
_SWEEPS, _DOF_SWEEPS = 4, 2

#: Changes of velocities [m/s or rad/s] below which a sweep is the last one, as at rest.
_SETTLED = 1e-4

#: By how much dry friction of DOFs is over-relaxed. Where a foot sticks, a joint of its leg yields
#: to friction far less than by itself, which sweeps see too slowly: with 1, five of them leave the
#: slowest of 16 walking quadrupeds 1.9 Newton steps, with this 1.6. It must be below 2.
_OVER_RELAXED = 1.9

#: A contact holds directions in which its own velocity per impulse is above this share of the
#: largest, and friction if that is below this share of its bound. The response of a DOF is at least
#: this share of its own.
_FREE, _INSIDE, _LEAST_RESPONSE = 1e-4, 0.999, 0.01

#: How often a sweep solves for the normal impulse and the friction of a contact, one after the
#: other. A foot that a leg presses down as it slides needs some: with one of each, one sweep more
#: leaves the slowest of 16 walking quadrupeds 2.1 instead of 1.7 Newton steps.
_TURNS = 3


class _Reach(NamedTuple):
    """How rows and the coordinates of the change of velocity act on each other."""

    reading: Array
    """Velocities of rows by the coordinates, [rows, nv]."""
    effect: Array
    """Changes of the coordinates per impulse, [rows, nv]."""

    @classmethod
    def of(cls, response: Response, direction: Array) -> _Reach:
        return cls(response.reading(direction), response.effect(direction))

    def part(self, index: Any) -> _Reach:
        """Some of the rows."""
        return _Reach(self.reading[index], self.effect[index])

    def rate(self, start: Array, change: Array) -> Array:
        """The velocities of the rows for coordinates of the change of velocity, [rows]."""
        return start + matmul(self.reading, change)

    def moved(self, change: Array, impulse: Array) -> Array:
        """The coordinates after impulses on the rows, [nv]."""
        return change + matmul(impulse, self.effect)


def first_guess(
    rows: StepRows,
    response: Response,
    groups: Sequence[np.ndarray],
    push: Array,
    rates: Rates,
    start: Impulses,
    budget: Array,
    is_solved: Array,
) -> tuple[Array, Impulses]:
    """The change of the velocity [nv] and the impulses after a few sweeps.

    Args:
      rows: the rows.
      response: the response to impulses.
      groups: the DOFs, in groups that hardly couple.
      push: the impulse of forces, [nv].
      rates: velocities of the rows at the start of the step.
      start: impulses from which to start.
      budget: the largest friction impulse of each DOF, [n].
      is_solved: whether no sweep is needed.
    """
    unit = np.eye(len(push), dtype=push.dtype)[rows.places]
    dofs = _Reach.of(response, jnp.asarray(unit))
    parts = [_entries((rows.dofs, budget, rates.dofs), group) for group in groups]
    reaches = [_entries(dofs, group) for group in groups]
    most = _DOF_SWEEPS if rows.contacts is None else _SWEEPS

    def sweep(state: tuple[Array, Impulses, Array]) -> tuple[Array, Impulses, Array]:
        before, (on_dofs, distances, on_contacts), done = state
        change = before
        for group, reach, (row, largest, rate) in zip(groups, reaches, parts, strict=True):
            old = _entries(on_dofs, group)
            new = _on_dofs(row, rows.sweep, old, reach.rate(rate, change), largest)
            change = reach.moved(change, new.total - old.total)
            on_dofs = jax.tree.map(
                lambda all_, some, group=group: with_rows(all_, group, some), on_dofs, new
            )
        if rows.contacts is not None:
            change, on_contacts = _on_contacts(
                response, rows.contacts, rates.contacts, on_contacts, change
            )
        is_settled = jnp.max(jnp.abs(change - before), initial=0) < _SETTLED
        done = jnp.where(is_settled, most, done + 1)
        return change, Impulses(on_dofs, distances, on_contacts), done

    begin = response.effect((push + rows.force(start))[None])[0]
    done = jnp.where(is_solved, jnp.int32(most), jnp.int32(0))
    change, impulses, _ = while_loop(lambda state: state[2] < most, sweep, (begin, start, done))
    return response.velocity(change), impulses


def held_response(rows: StepRows, response: Response, moved: np.ndarray, impulses: Array) -> Array:
    """The velocities of DOFs per impulse on them [n] while contacts hold the links that they move:
    those that push hold the normal direction, those that stick all three.

    Args:
      rows: the rows.
      response: the response to impulses.
      moved: which contacts each DOF moves, [K, n].
      impulses: impulses of contacts, [K, 3].
    """
    alone, each, count = rows.dofs.response, rows.contacts.each, len(impulses)
    unit = np.eye(len(rows.still), dtype=impulses.dtype)[rows.places]
    axes = _axes(response, rows.contacts)
    reading, effect = (part.reshape(count, 3, -1) for part in axes)
    block = matmul(reading, jnp.swapaxes(effect, 1, 2)).at[:, 2, 2].set(each.normal)
    rate = matmul(reading, response.effect(jnp.asarray(unit)).T)
    least = _FREE * jnp.maximum(each.normal, each.tangential)
    taken = []
    for axis in (2, 0, 1):  # Elimination, the normal first.
        pivot = block[:, axis, axis]
        is_free = pivot > least
        inverse = jnp.where(is_free, 1 / jnp.where(is_free, pivot, 1), 0)
        along = inverse[:, None] * block[:, :, axis]
        taken.append(inverse[:, None] * rate[:, axis] ** 2)
        rate = rate - along[:, :, None] * rate[:, axis, None]
        block = block - along[:, :, None] * block[:, axis, None]
    normal = impulses[:, 2, None]
    reach = _INSIDE * each.friction[:, None] * normal
    sticks = impulses[:, 0, None] ** 2 + impulses[:, 1, None] ** 2 < reach**2
    lost = jnp.where(sticks, taken[0] + taken[1] + taken[2], taken[0])
    lost = jnp.where(normal > 0, lost, 0)
    # The largest over the contacts of each DOF, for all by the same operations, so that legs can
    # be computed side by side.
    which, dofs = _contacts_of_dofs(moved)
    most = jnp.max(take(lost.reshape(-1), which * lost.shape[1] + dofs, axis=0), axis=0)
    free = take(alone, dofs, axis=0)
    return with_rows(alone, dofs, jnp.maximum(free - most, _LEAST_RESPONSE * free))


def _contacts_of_dofs(moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The contacts that a DOF moves [most, m], some of them repeated, and the DOFs that move any
    [m].
    """
    dofs = np.flatnonzero(moved.any(axis=0))
    each = [np.flatnonzero(moved[:, dof]) for dof in dofs]
    most = max(map(len, each), default=1)
    which = [np.resize(contacts, most) for contacts in each]
    return np.array(which, int).reshape(-1, most).T, dofs


def _entries(arrays: _Tree, index: np.ndarray) -> _Tree:
    return jax.tree.map(lambda array: take(array, index, axis=0), arrays)


@shared
def _on_dofs(
    row: BoundRow, sweep: Sweep, old: BoundImpulses, rate: Array, budget: Array
) -> BoundImpulses:
    """The impulses of drives, friction and limits, one after the other, for velocities [n]."""
    drive = drive_impulse(row, rate - row.response * old.drive, sweep)
    rate = rate + row.response * (drive - old.drive)
    free = rate - row.response * (old.friction + old.limit)
    friction = old.friction - _OVER_RELAXED * (free / row.response + old.friction)
    friction = jnp.clip(friction, -budget, budget)
    rubbed = free + row.response * friction
    limit = (jnp.clip(rubbed, row.lower_velocity, row.upper_velocity) - rubbed) / row.response
    return BoundImpulses(drive, friction, limit)


def _axes(response: Response, rows: ContactRows) -> _Reach:
    """The axes of all contacts as rows, [3 K]."""
    reach = rows.each.reach
    return _Reach.of(response, matmul(reach.reshape(-1, reach.shape[2]), rows.motions))


def _on_contacts(
    response: Response, rows: ContactRows, start: Array, impulses: Array, change: Array
) -> tuple[Array, Array]:
    """The coordinates and the impulses of contacts, one after the other."""
    axes = _axes(response, rows)
    structure: Any
    arrays, structure = jax.tree.flatten((rows.each, start, impulses))
    new = []
    for k, parts in enumerate(zip(*map(jnp.unstack, arrays), strict=True)):
        row, rate, old = structure.unflatten(parts)
        three = axes.part(slice(3 * k, 3 * k + 3))
        change, impulse = _on_contact(three, row, rate, old, change)
        new.append(impulse)
    return change, jnp.stack(new)


@shared
def _on_contact(
    axes: _Reach, row: ContactRow, start: Array, old: Array, change: Array
) -> tuple[Array, Array]:
    """The impulse of a contact: normal and friction in turns, without what is beyond it."""
    rate, block = axes.rate(start, change), matmul(axes.reading, axes.effect.T)
    impulse = old
    for _ in range(_TURNS):
        normal = resolve_normal(row, impulse[2], rate[2])
        rate = rate + block[:, 2] * (normal - impulse[2])
        friction = resolve_friction(row, impulse[:2], rate[:2], normal)
        rate = rate + matmul(block[:, :2], friction - impulse[:2])
        impulse = jnp.append(friction, normal)
    return axes.moved(change, impulse - old), impulse
