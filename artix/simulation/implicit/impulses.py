"""Bounds of a DOF in the implicit solver: actuator limits, dry friction, position and velocity limits.

Springs and dampers are already in the solver's matrix, so that inequalities are left here, and drives beyond their
limits. Each is an impulse that one projected Gauss-Seidel sweep after another corrects.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.model.joint_features import JointFrictions
from artix.simulation.common.drives import DriveRow, within_envelope, within_limit
from artix.simulation.common.sweep import Sweep

Array = jax.Array


class BoundRow(NamedTuple):
    """One DOF (or all, with a leading axis [n])."""

    effect: Array
    """Change of the coordinates by a unit impulse, [nv]; see :mod:`artix.simulation.implicit.response`."""
    response: Array
    """Velocity per impulse."""
    drive: DriveRow
    gain: Array
    """Impulse that the drive takes back per velocity."""
    push: Array
    """The drive's impulse at zero velocity."""
    in_matrix: Array
    """1 if the solver's matrix contains the drive, 0 if all of its impulse is here."""
    friction: JointFrictions
    lower_velocity: Array
    """Least velocity that the lower limit allows."""
    upper_velocity: Array
    """Largest velocity that the upper limit allows."""
    max_velocity: Array
    reading: Array | None = None
    """Change of its velocity by the coordinates, [nv]; ``None`` where these are the generalised velocity."""
    start: Array | None = None
    """Its velocity where the coordinates are zero."""


class BoundImpulses(NamedTuple):
    """Accumulated impulses of one DOF (or of all, [n])."""

    drive: Array
    """Of the drive; of one in the matrix, what its bounds take from it."""
    friction: Array
    lower: Array
    upper: Array
    velocity: Array

    @property
    def total(self) -> Array:
        """Of the whole DOF."""
        return self.drive + self.friction + self.lower + self.upper + self.velocity


class DistanceRow(NamedTuple):
    """The distance of a loop joint's two origins (or all, with a leading axis [D])."""

    direction: Array
    """Change of the distance's rate by the generalised velocity, [nv]; also the generalised force of a unit impulse."""
    effect: Array
    """Change of the generalised velocity by a unit impulse, [nv]."""
    response: Array
    """Rate per impulse."""
    lower_velocity: Array
    """Least rate that the least distance allows."""
    upper_velocity: Array
    """Largest rate that the largest distance allows."""


def solve_bounds(row: BoundRow, old: BoundImpulses, velocity: Array, sweep: Sweep) -> tuple[BoundImpulses, Array]:
    """Solves one DOF in a sweep: the new impulses, and the sum of their changes."""
    # A drive in the matrix that loses some of its impulse makes its joint softer, and what other rows did is wrong
    # then. Sweeps that give such rows everything at once can grow (joints at their limits beside limited drives: 1e43
    # rad/s after 60 sweeps). This share is safe, though slow; drives known to reach their limits are not in the matrix.
    wanted = _drive_impulse(row, velocity - row.response * old.drive, sweep)
    drive = old.drive + (1 - row.in_matrix * row.gain * row.response) * (wanted - old.drive)
    velocity = velocity + row.response * (drive - old.drive)
    stopping = old.friction - velocity / row.response
    sliding = jnp.clip(stopping, -row.friction.dynamic * sweep.dt, row.friction.dynamic * sweep.dt)
    friction = jnp.where(jnp.abs(stopping) > row.friction.static * sweep.dt, sliding, stopping)
    # Without friction a DOF that stands still does not stick: its derivatives would be those of a locked one.
    friction = jnp.where((row.friction.static > 0) | (row.friction.dynamic > 0), friction, old.friction)
    velocity = velocity + row.response * (friction - old.friction)
    free = velocity - row.response * old.velocity
    limited = jnp.isfinite(row.max_velocity)
    bound = _finite(row.max_velocity)
    capped = jnp.where(limited, (jnp.clip(free, -bound, bound) - free) / row.response, 0)
    velocity = velocity + row.response * (capped - old.velocity)
    lower = _stopped(old.lower, row.lower_velocity, velocity, row.response, 1)
    velocity = velocity + row.response * (lower - old.lower)
    upper = _stopped(old.upper, row.upper_velocity, velocity, row.response, -1)
    new = BoundImpulses(drive, friction, lower, upper, capped)
    return new, sum(after - before for after, before in zip(new, old, strict=True))  # type: ignore[return-value]


def bound_imbalance(row: BoundRow, found: BoundImpulses, velocity: Array, sweep: Sweep) -> Array:
    """The residual of a DOF's laws, as an impulse, for its bounds that are active; zero once the sweeps have converged.

    The law is an equation of the DOF's velocity and the sum of its impulses, from which both follow a change of the
    row: where a bound holds the DOF (friction that sticks is one), the bound is its velocity; elsewhere the impulse is
    the drive's at that velocity, and that of friction that slides.

    Args:
      row: the DOF.
      found: its impulses, which say how its bounds act.
      velocity: its velocity with them.
      sweep: the sweep.
    """
    budget, friction = row.friction.dynamic * sweep.dt, found.friction
    sticks = _sticks(row, found, velocity, sweep)
    slides = jnp.where(sticks, 0, jnp.sign(friction)) * budget
    held = sticks | (found.velocity != 0) | (found.lower != 0) | (found.upper != 0)
    # Of several bounds the last that solve_bounds applies decides.
    bound = jnp.where(found.velocity != 0, -jnp.sign(found.velocity) * _finite(row.max_velocity), 0)
    bound = jnp.where(found.lower != 0, _finite(row.lower_velocity), bound)
    bound = jnp.where(found.upper != 0, _finite(row.upper_velocity), bound)
    drive = found.drive + friction - slides
    wanted = _drive_impulse(row, velocity - row.response * drive, sweep)
    return jnp.where(held, (bound - velocity) / row.response, wanted - drive)


def distance_imbalance(row: DistanceRow, found: tuple[Array, Array], rate: Array) -> Array:
    """The same of a distance: a bound that pushes is its rate; elsewhere there is no impulse."""
    bound = jnp.where(found[1] != 0, _finite(row.upper_velocity), _finite(row.lower_velocity))
    return (bound - rate) * distance_slope(row, found)


def distance_slope(row: DistanceRow, found: tuple[Array, Array]) -> Array:
    """How much less a distance lacks the faster it grows."""
    return jnp.where((found[0] != 0) | (found[1] != 0), 1 / row.response, 0)


def solve_distance(row: DistanceRow, old: tuple[Array, Array], rate: Array) -> tuple[tuple[Array, Array], Array]:
    """Solves one distance in a sweep: the impulses of its lower and upper bound, and the sum of their changes."""
    lower = _stopped(old[0], row.lower_velocity, rate, row.response, 1)
    rate = rate + row.response * (lower - old[0])
    upper = _stopped(old[1], row.upper_velocity, rate, row.response, -1)
    return (lower, upper), lower - old[0] + upper - old[1]


def _drive_impulse(row: BoundRow, velocity: Array, sweep: Sweep) -> Array:
    """The drive's impulse within its bounds, or what these take from it; ``velocity`` is the one without this."""
    inside = row.in_matrix * row.gain
    unlimited = row.push - row.gain * velocity
    wanted = unlimited / (1 + (row.gain - inside) * row.response)
    there = velocity + (1 - row.in_matrix) * row.response * wanted
    given = within_envelope(row.drive, within_limit(row.drive, wanted, sweep), wanted, there, sweep)
    # A drive in the matrix answers a change of velocity, so that less than all of an impulse is lost.
    return (given - row.in_matrix * unlimited) / (1 - inside * row.response)


def _sticks(row: BoundRow, found: BoundImpulses, velocity: Array, sweep: Sweep) -> Array:
    """Whether dry friction holds a DOF."""
    stops = jnp.abs(found.friction - velocity / row.response) <= row.friction.static * sweep.dt
    return stops & ((row.friction.static > 0) | (row.friction.dynamic > 0))


def _finite(bound: Array) -> Array:
    """A bound, or zero where there is none."""
    return jnp.where(jnp.isfinite(bound), bound, 0)


def _stopped(old: Array, bound: Array, velocity: Array, response: Array, sign: int) -> Array:
    """The impulse, of one sign only, that keeps the velocity on its side of a bound; none if the bound is infinite."""
    needed = sign * (old + (_finite(bound) - velocity) / response)
    return sign * jnp.where(jnp.isfinite(bound), jnp.maximum(needed, 0), 0)
