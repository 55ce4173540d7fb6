"""Bounds of a DOF in the implicit solver: actuator limits, dry friction, position and velocity limits.

Springs and dampers are already in the solver's matrix. What remains are inequalities, and drives beyond their limits.
Each is an impulse that projected Gauss-Seidel sweeps correct.
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
    """Changes of the coordinates per unit impulse, [nv]; see :mod:`artix.simulation.implicit.response`."""
    response: Array
    """Velocity per impulse."""
    drive: DriveRow
    gain: Array
    """Decrease of the drive's impulse per velocity."""
    push: Array
    """The drive's impulse at zero velocity."""
    in_matrix: Array
    """1 if the solver's matrix contains the drive, 0 if the row has all of its impulse."""
    friction: JointFrictions
    lower_velocity: Array
    """Smallest velocity that the lower limit allows."""
    upper_velocity: Array
    """Largest velocity that the upper limit allows."""
    max_velocity: Array
    reading: Array | None = None
    """Derivative of its velocity by the coordinates, [nv]; ``None`` if these are the generalised velocity."""
    start: Array | None = None
    """Its velocity at zero coordinates."""


class BoundImpulses(NamedTuple):
    """Accumulated impulses of one DOF (or of all, [n])."""

    drive: Array
    """Impulse of the drive; for a drive in the matrix, the part that its bounds take away."""
    friction: Array
    lower: Array
    upper: Array
    velocity: Array

    @property
    def total(self) -> Array:
        """Total impulse of the DOF."""
        return self.drive + self.friction + self.lower + self.upper + self.velocity


class DistanceRow(NamedTuple):
    """The distance of a loop joint's two origins (or all, with a leading axis [D])."""

    direction: Array
    """Derivative of the rate by the generalised velocity, [nv]; also the generalised force of a unit impulse."""
    effect: Array
    """Change of the generalised velocity per unit impulse, [nv]."""
    response: Array
    """Rate per impulse."""
    lower_velocity: Array
    """Smallest rate that the lower bound allows."""
    upper_velocity: Array
    """Largest rate that the upper bound allows."""


def solve_bounds(row: BoundRow, old: BoundImpulses, velocity: Array, sweep: Sweep) -> tuple[BoundImpulses, Array]:
    """Solves one DOF in a sweep: the new impulses, and the sum of their changes."""
    # A drive in the matrix that loses some of its impulse makes its joint softer, which invalidates the impulses of
    # other rows. Full corrections of such rows can diverge (joints at their limits beside limited drives: 1e43 rad/s
    # after 60 sweeps). This fraction is safe but slow; drives known to reach their limits are not in the matrix.
    wanted = _drive_impulse(row, velocity - row.response * old.drive, sweep)
    drive = old.drive + (1 - row.in_matrix * row.gain * row.response) * (wanted - old.drive)
    velocity = velocity + row.response * (drive - old.drive)
    stopping = old.friction - velocity / row.response
    sliding = jnp.clip(stopping, -row.friction.dynamic * sweep.dt, row.friction.dynamic * sweep.dt)
    friction = jnp.where(jnp.abs(stopping) > row.friction.static * sweep.dt, sliding, stopping)
    # Without friction a DOF at rest must not stick: its derivatives would be those of a locked DOF.
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
    """The residual of a DOF's laws with its active bounds, as an impulse; zero once the sweeps have converged.

    The laws are one equation for the DOF's velocity and total impulse, which together determine how both change. If a
    bound holds the DOF (sticking friction counts as one), its velocity equals the bound. Otherwise its impulse is that
    of the drive at this velocity plus that of sliding friction.

    Args:
      row: the DOF.
      found: its impulses, which tell which bounds are active.
      velocity: its velocity with these impulses.
      sweep: the sweep.
    """
    budget, friction = row.friction.dynamic * sweep.dt, found.friction
    sticks = _sticks(row, found, velocity, sweep)
    slides = jnp.where(sticks, 0, jnp.sign(friction)) * budget
    held = sticks | (found.velocity != 0) | (found.lower != 0) | (found.upper != 0)
    # If several bounds are active, the last that solve_bounds applies counts.
    bound = jnp.where(found.velocity != 0, -jnp.sign(found.velocity) * _finite(row.max_velocity), 0)
    bound = jnp.where(found.lower != 0, _finite(row.lower_velocity), bound)
    bound = jnp.where(found.upper != 0, _finite(row.upper_velocity), bound)
    drive = found.drive + friction - slides
    wanted = _drive_impulse(row, velocity - row.response * drive, sweep)
    return jnp.where(held, (bound - velocity) / row.response, wanted - drive)


def distance_imbalance(row: DistanceRow, found: tuple[Array, Array], rate: Array) -> Array:
    """The same for a distance: its rate equals a bound that pushes; otherwise its impulse is zero."""
    bound = jnp.where(found[1] != 0, _finite(row.upper_velocity), _finite(row.lower_velocity))
    return (bound - rate) * distance_slope(row, found)


def distance_slope(row: DistanceRow, found: tuple[Array, Array]) -> Array:
    """Decrease of the residual of a distance per rate."""
    return jnp.where((found[0] != 0) | (found[1] != 0), 1 / row.response, 0)


def solve_distance(row: DistanceRow, old: tuple[Array, Array], rate: Array) -> tuple[tuple[Array, Array], Array]:
    """Solves one distance in a sweep: the impulses of its lower and upper bound, and the sum of their changes."""
    lower = _stopped(old[0], row.lower_velocity, rate, row.response, 1)
    rate = rate + row.response * (lower - old[0])
    upper = _stopped(old[1], row.upper_velocity, rate, row.response, -1)
    return (lower, upper), lower - old[0] + upper - old[1]


def _drive_impulse(row: BoundRow, velocity: Array, sweep: Sweep) -> Array:
    """The drive's impulse within its bounds, or what they take away; ``velocity`` is that without this impulse."""
    inside = row.in_matrix * row.gain
    unlimited = row.push - row.gain * velocity
    wanted = unlimited / (1 + (row.gain - inside) * row.response)
    there = velocity + (1 - row.in_matrix) * row.response * wanted
    given = within_envelope(row.drive, within_limit(row.drive, wanted, sweep), wanted, there, sweep)
    # A drive in the matrix responds to the change of velocity, so less than the whole impulse is lost.
    return (given - row.in_matrix * unlimited) / (1 - inside * row.response)


def _sticks(row: BoundRow, found: BoundImpulses, velocity: Array, sweep: Sweep) -> Array:
    """Whether dry friction holds a DOF."""
    stops = jnp.abs(found.friction - velocity / row.response) <= row.friction.static * sweep.dt
    return stops & ((row.friction.static > 0) | (row.friction.dynamic > 0))


def _finite(bound: Array) -> Array:
    """A bound, or zero without one."""
    return jnp.where(jnp.isfinite(bound), bound, 0)


def _stopped(old: Array, bound: Array, velocity: Array, response: Array, sign: int) -> Array:
    """The one-sided impulse that keeps the velocity on its side of a bound; zero for an infinite bound."""
    needed = sign * (old + (_finite(bound) - velocity) / response)
    return sign * jnp.where(jnp.isfinite(bound), jnp.maximum(needed, 0), 0)
