"""The impulse of a drive on one DOF, within its limit and its motor's envelope, over the time that
it acts.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from artix.math import struct
from artix.math.traces import shared
from artix.model.articulation import Articulation
from artix.model.joints import DriveEnvelopes, Drives

Array = jax.Array


class Budget(Protocol):
    """What the bounds of a drive's impulse depend on, for all rows of a sweep."""

    @property
    def dt(self) -> Array:
        """The step [s]."""
        ...

    @property
    def budget_time(self) -> Array:
        """The time over which envelopes accumulate [s]."""
        ...

    @property
    def restarts(self) -> bool:
        """Whether envelopes account for this sweep only instead of the whole step; static."""
        ...

    @property
    def drive_limits_are_forces(self) -> bool:
        """Whether drive limits are forces instead of impulses per step; static."""
        ...


class Sweep(struct.PyTreeNode):
    """The sweeps of the implicit solver, each over a whole step."""

    dt: Array
    drive_limits_are_forces: bool = struct.field(pytree_node=False)
    restarts: bool = struct.field(pytree_node=False, default=False)

    @property
    def budget_time(self) -> Array:
        """The whole step [s]."""
        return self.dt


class DriveRow(NamedTuple):
    """The drive of one DOF (or of all, [n]): everything that its impulse depends on, except
    velocity.
    """

    drive: Drives
    envelope: DriveEnvelopes | None
    """``None`` if no drive has one."""
    position_error: Array
    """Target minus position at the start of the step [rad or m]."""
    target_velocity: Array
    response: Array
    """Velocity per impulse."""
    softened: Array
    """Impulse per velocity with the link's constraint-force mixing."""
    joint_force: Array
    """The commanded force that shares the envelope."""


def has_envelopes(articulation: Articulation) -> bool:
    """Whether any drive has an envelope; most robots lack them, and what they cost is then never
    traced.
    """
    return "envelope.max_effort" not in articulation.absent


def within_limit(row: DriveRow, impulse: Array, sweep: Budget) -> Array:
    """Clips an accumulated impulse to the drive's limit. An envelope, if there is one, replaces the
    limit.
    """
    limited, bound = _limit(row, sweep)
    return jnp.where(limited, jnp.clip(impulse, -bound, bound), impulse)


def _limit(row: DriveRow, sweep: Budget) -> tuple[Array, Array]:
    """Whether there is a limit, and the largest impulse within it."""
    limited = jnp.isfinite(row.drive.max_force)
    if row.envelope is not None:
        limited = limited & ~jnp.isfinite(row.envelope.max_effort)
    return limited, jnp.where(limited, row.drive.max_force, 0) * (
        sweep.dt if sweep.drive_limits_are_forces else 1
    )


def within_envelope(
    row: DriveRow, impulse: Array, accumulated: Array, velocity: Array, sweep: Budget
) -> Array:
    """Cuts an accumulated impulse back until drive and commanded force together fit the motor's
    envelope.

    With the total impulse I and the velocity ``v(I)`` that it leaves, ``|I| <= (max_effort -
    velocity_dependent_resistance |v(I)|) t`` and ``|v(I)| <= max_actuator_velocity -
    speed_effort_gradient |I| / t``; the result is the impulse between zero and the desired one that
    satisfies both and is nearest to the latter, or zero if there is none.

    Args:
      row: the drive.
      impulse: the desired accumulated impulse.
      accumulated: impulse so far.
      velocity: velocity of the DOF now.
      sweep: the sweep.
    """
    if row.envelope is None:
        return impulse
    start = accumulated if sweep.restarts else jnp.zeros_like(accumulated)
    return _within_envelope(
        row,
        row.envelope,
        impulse,
        accumulated,
        start,
        velocity,
        jnp.asarray(sweep.budget_time, impulse.dtype),
    )


@shared
def _within_envelope(
    row: DriveRow,
    envelope: DriveEnvelopes,
    impulse: Array,
    accumulated: Array,
    start: Array,
    velocity: Array,
    time: Array,
) -> Array:
    """The impulse of :func:`within_envelope` where the envelope counts what exceeds ``start``, over
    ``time``.
    """
    active = jnp.isfinite(envelope.max_effort)
    commanded = row.joint_force * time
    wanted = impulse - start + commanded
    sign = jnp.where(wanted < 0, jnp.full_like(wanted, -1), 1)
    size = jnp.abs(wanted)
    at_zero = velocity - row.response * (accumulated - start + commanded)
    slope = row.response * sign
    resistance = envelope.velocity_dependent_resistance * time
    effort = jnp.where(active, envelope.max_effort, 0) * time
    gradient = envelope.speed_effort_gradient / time
    low, high = jnp.zeros_like(size), size
    # For magnitude x, a x + b |at_zero + slope x| <= bound defines two half-lines, one for each
    # sign of b.
    for a, b, bound in ((1, resistance, effort), (gradient, 1, envelope.max_actuator_velocity)):
        bounded = jnp.isfinite(bound)
        for side in (b, -b):
            rate, room = a + side * slope, jnp.where(bounded, bound, 0) - side * at_zero
            end = room / jnp.where(rate == 0, 1, rate)
            high = jnp.where(bounded & (rate > 0), jnp.minimum(high, end), high)
            low = jnp.where(bounded & (rate < 0), jnp.maximum(low, end), low)
            high = jnp.where(bounded & (rate == 0) & (room < 0), -1, high)
    allowed = jnp.where(low <= high, high, 0)
    return jnp.where(active, start + sign * allowed - commanded, impulse)
