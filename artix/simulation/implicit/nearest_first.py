"""Steps with many points that may touch: first with the nearest few of them, and then, where others
turn out to push, with all.

Of the shapes all over a robot, few touch at a time. A contact at which nothing pushes has no part
in the solution of a step, so the solution with the nearest contacts is that of all if no other one
would close faster than it may. That is seen at once; otherwise the step is solved again with all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import joined
from artix.math.traces import if_needed
from artix.simulation.implicit.contact_motions import Touches
from artix.simulation.implicit.rows import Impulses, Rates, StepRows

Array = jax.Array


class Solution(NamedTuple):
    """The solution of a step."""

    change: Array
    """Change of the velocity, [nv]."""
    rates: Rates
    """The rows' velocities."""
    impulses: Impulses
    friction: Array
    """The largest friction impulse of each DOF, [n]."""
    steps: Array
    """Number of Newton steps."""
    is_solved: Array


def solve_nearest_first(
    rows: StepRows,
    touches: Touches,
    start: Impulses,
    solve_nearest: Callable[[Impulses], Solution],
    solve_all: Callable[[tuple[Array, Array]], Solution],
    start_of_all: tuple[Array, Array],
) -> Solution:
    """Solves a step with the nearest contacts, and with all where others push.

    Args:
      rows: all rows.
      touches: the nearest contacts.
      start: impulses from which to start, of all contacts.
      solve_nearest: solves it with the nearest contacts, from such impulses.
      solve_all: solves it with all, for the impulse of forces and the velocity at the start.
      start_of_all: what ``solve_all`` is called with.
    """
    few = solve_nearest(start._replace(contacts=_chosen(touches, start.contacts)))
    assert rows.contacts is not None
    rates = rows.rates(start_of_all[1] + few.change)
    closes = rates.contacts[:, 2] + rows.contacts.each.approach < 0
    impulses = few.impulses._replace(contacts=_spread(touches, few.impulses.contacts))

    def with_all(argument: tuple[Array, Array]) -> Solution:
        every = solve_all(argument)
        return every._replace(steps=few.steps + every.steps)

    is_needed = jnp.any(_not_nearest(touches) & closes)
    few = few._replace(rates=rates, impulses=impulses)
    return if_needed(is_needed, with_all, start_of_all, few)


def _chosen(touches: Touches, values: Array) -> Array:
    """The values [N, 3] of the nearest contacts among those of all, [K, 3]."""
    parts, first = [], 0
    for ground in touches.ground_contacts:
        if ground is None:
            continue
        source = ground.source or ground
        part = values[first : first + len(source.geometries)]
        first += len(source.geometries)
        parts.append(part if ground.source is None else ground.looked_up(part, part.dtype))
    return joined([*parts, values[first:]])


def _spread(touches: Touches, values: Array) -> Array:
    """Values [N, 3] of the nearest contacts for all, [K, 3], zero for the others."""
    parts, first = [], 0
    for ground in touches.ground_contacts:
        if ground is None:
            continue
        part = values[first : first + len(ground.contacts.gap)]
        first += len(ground.contacts.gap)
        parts.append(part if ground.source is None else ground.spread(part))
    return joined([*parts, values[first:]])


def _not_nearest(touches: Touches) -> Array:
    """Which of all contacts are not among the nearest, [K]."""
    parts = []
    for ground in touches.ground_contacts:
        if ground is not None and ground.source is None:
            parts.append(jnp.zeros(len(ground.geometries), bool))
        elif ground is not None:
            parts.append(ground.leaves_out)
    if touches.between is not None:
        parts.append(jnp.zeros(len(touches.between.gap), bool))
    return joined(parts)
