"""A Gauss-Seidel sweep, and PhysX's laws of one DOF in it: drive, friction, position limits and velocity limits."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from artix.model.joints import JointFrictions
from artix.simulation.common.drives import DriveRow, within_limit

Array = jax.Array


class Sweep(NamedTuple):
    """What all rows of a sweep share: its kind (static) and its times (arrays of shape [])."""

    temporal: bool
    """Whether the solver is the temporal one (TGS), whose positions move from sweep to sweep."""
    moves_positions: bool
    """Whether this is a position sweep rather than a velocity sweep."""
    restarts: bool
    """Whether friction and envelopes account for this sweep only instead of the whole step."""
    drive_limits_are_forces: bool
    """Whether drive limits are forces instead of impulses per step."""
    dt: Array
    """The step [s]."""
    h: Array
    """The time that a sweep covers [s]: the whole step for PGS."""
    elapsed: Array
    """Time since the start of the step [s]; 0 for PGS."""
    error_reduction: Array
    """Fraction of a position error that one sweep removes."""

    @property
    def budget_time(self) -> Array:
        """The time over which friction and envelopes accumulate [s]."""
        return self.h if self.restarts else self.dt


class Gaps(Protocol):
    """The gaps of a row (or of all) to its two limits."""

    @property
    def lower_gap(self) -> Array:
        """Position minus lower limit at the start of the step; ``inf`` without a limit."""
        ...

    @property
    def upper_gap(self) -> Array:
        """Upper limit minus position; ``inf`` without a limit."""
        ...

    @property
    def softened(self) -> Array:
        """Impulse per velocity."""
        ...


class LimitRow(NamedTuple):
    """Friction and limits of one DOF (or of all, [n]): everything that their impulses depend on, except velocity."""

    friction: JointFrictions
    lower_gap: Array
    """Position minus lower limit at the start of the step [rad or m]; ``inf`` without a limit."""
    upper_gap: Array
    """Upper limit minus position; ``inf`` without a limit."""
    max_velocity: Array
    softened: Array
    """Impulse per velocity with the link's constraint-force mixing."""


def drive_impulse(row: DriveRow, accumulated: Array, velocity: Array, displacement: Array, sweep: Sweep) -> Array:
    """The accumulated impulse of an implicit spring and damper after one more sweep.

    Converged PGS sweeps are one step of implicit Euler; TGS sweeps are explicit-in-order steps of ``dt / N``.

    Args:
      row: the drive.
      accumulated: impulse so far in this step.
      velocity: velocity of the DOF now.
      displacement: displacement of the DOF since the start of the step.
      sweep: the sweep.

    Returns:
      The new accumulated impulse.
    """
    drive, h = row.drive, sweep.h
    accelerates = drive.is_acceleration > 0
    gain = h * (h * drive.stiffness + drive.damping)
    share = 1 / (1 + gain * jnp.where(accelerates, 1, row.response))
    scale = jnp.where(accelerates, row.softened, 1)
    drift = (sweep.elapsed - sweep.dt + h) * row.target_velocity
    error = row.position_error - displacement + drift
    push = -gain * velocity + h * drive.damping * row.target_velocity + h * drive.stiffness * error
    kept = accumulated if sweep.temporal else (1 - share) * accumulated
    impulse = kept + scale * share * push
    return within_limit(row, impulse, sweep)


def friction_impulse(row: LimitRow, accumulated: Array, velocity: Array, sweep: Sweep) -> Array:
    """The accumulated friction impulse: it stops the DOF, or is the sliding friction if that is less."""
    friction, time = row.friction, sweep.budget_time
    stopping = accumulated - row.softened * velocity
    sliding = (friction.dynamic + friction.viscous * jnp.abs(velocity)) * time
    slides = jnp.abs(stopping) > friction.static * time
    impulse = jnp.where(slides, jnp.clip(stopping, -sliding, sliding), stopping)
    return jnp.where((friction.static > 0) | (friction.viscous > 0), impulse, accumulated)


def limit_impulses(
    row: Gaps, lower: Array, upper: Array, velocity: Array, displacement: Array, sweep: Sweep
) -> tuple[Array, Array]:
    """The accumulated impulses of the lower (never negative) and upper (never positive) position limit.

    A limit acts if the DOF is beyond it or would be at the end of the sweep. Limits do not bounce.

    Args:
      row: the limits.
      lower: impulse of the lower limit so far.
      upper: impulse of the upper limit so far.
      velocity: velocity of the DOF now.
      displacement: displacement of the DOF since the start of the step.
      sweep: the sweep.
    """
    has_lower, has_upper = jnp.isfinite(row.lower_gap), jnp.isfinite(row.upper_gap)
    gap_below = jnp.where(has_lower, row.lower_gap, 1) + displacement
    gap_above = jnp.where(has_upper, row.upper_gap, 1) - displacement
    at_lower = has_lower & ((gap_below < 0) | (gap_below + velocity * sweep.h < 0))
    at_upper = ~at_lower & has_upper & ((gap_above < 0) | (gap_above - velocity * sweep.h < 0))
    stopped_below = jnp.maximum(lower + (_wanted(gap_below, velocity, 1, sweep) - velocity) * row.softened, 0)
    stopped_above = jnp.minimum(upper + (_wanted(gap_above, velocity, -1, sweep) - velocity) * row.softened, 0)
    # If the DOF leaves faster than required, the limit takes back impulse.
    returned_below = lower + jnp.where(velocity > 0, jnp.maximum(-velocity * row.softened, -lower), 0)
    returned_above = upper + jnp.where(velocity > 0, 0, jnp.minimum(-velocity * row.softened, -upper))
    apart = ~at_lower & ~at_upper
    # A limit that has not pushed takes nothing back; otherwise derivatives at rest would be half those of a stop.
    lower = jnp.where(at_lower, stopped_below, jnp.where(apart & (lower > 0), returned_below, lower))
    upper = jnp.where(at_upper, stopped_above, jnp.where(apart & (upper < 0), returned_above, upper))
    return lower, upper


def _wanted(gap: Array, velocity: Array, sign: int, sweep: Sweep) -> Array:
    """The velocity that a limit with this gap requires; ``sign`` is the direction away from the limit."""
    back = velocity if not sweep.moves_positions else -sign * sweep.error_reduction * gap / sweep.h
    return jnp.where(gap < 0, back, -sign * gap / sweep.h)


def velocity_limit_impulse(row: LimitRow, velocity: Array) -> Array:
    """The impulse that brings the DOF back to its speed limit."""
    limited = jnp.isfinite(row.max_velocity)
    bound = jnp.where(limited, row.max_velocity, 0)
    return jnp.where(limited, (jnp.clip(velocity, -bound, bound) - velocity) * row.softened, 0)
