"""Friction, position limits and velocity limits of one DOF."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from artix.model.joint_features import JointFrictions
from artix.simulation.common.sweep import Sweep

Array = jax.Array


class Gaps(Protocol):
    """What a row (or all) with two limits knows of them."""

    @property
    def lower_gap(self) -> Array:
        """Position less lower limit at the start of the step, ``inf`` for none."""
        ...

    @property
    def upper_gap(self) -> Array:
        """Upper limit less position, likewise."""
        ...

    @property
    def softened(self) -> Array:
        """Impulse per velocity."""
        ...


class LimitRow(NamedTuple):
    """What friction and limits of one DOF (or of all, [n]) need besides its velocity."""

    friction: JointFrictions
    lower_gap: Array
    """Position less lower limit at the start of the step [rad or m], ``inf`` for none."""
    upper_gap: Array
    """Upper limit less position, likewise."""
    max_velocity: Array
    softened: Array
    """Impulse per velocity with the link's constraint-force mixing."""


def friction_impulse(row: LimitRow, accumulated: Array, velocity: Array, sweep: Sweep) -> Array:
    """The accumulated friction impulse: what stops the DOF, or that of sliding where it is too much."""
    friction, time = row.friction, sweep.budget_time
    stopping = accumulated - row.softened * velocity
    sliding = (friction.dynamic + friction.viscous * jnp.abs(velocity)) * time
    slides = jnp.abs(stopping) > friction.static * time
    impulse = jnp.where(slides, jnp.clip(stopping, -sliding, sliding), stopping)
    return jnp.where((friction.static > 0) | (friction.viscous > 0), impulse, accumulated)


def room(limit: Array, position: Array, sign: int) -> Array:
    """How far positions are from a limit, above (1) or below (-1) them: negative beyond it, infinite without one."""
    limited = jnp.isfinite(limit)
    return jnp.where(limited, sign * (jnp.where(limited, limit, 0) - position), jnp.inf)


def limit_impulses(
    row: Gaps, lower: Array, upper: Array, velocity: Array, displacement: Array, sweep: Sweep
) -> tuple[Array, Array]:
    """The accumulated impulses of the lower (not negative) and upper (not positive) position limit.

    A limit acts when the DOF is beyond it or would be at the end of the sweep. Neither bounces.

    Args:
      row: the limits.
      lower: impulse of the lower limit so far.
      upper: impulse of the upper limit so far.
      velocity: of the DOF now.
      displacement: of the DOF since the start of the step.
      sweep: the sweep.
    """
    has_lower, has_upper = jnp.isfinite(row.lower_gap), jnp.isfinite(row.upper_gap)
    gap_below = jnp.where(has_lower, row.lower_gap, 1) + displacement
    gap_above = jnp.where(has_upper, row.upper_gap, 1) - displacement
    at_lower = has_lower & ((gap_below < 0) | (gap_below + velocity * sweep.h < 0))
    at_upper = ~at_lower & has_upper & ((gap_above < 0) | (gap_above - velocity * sweep.h < 0))
    stopped_below = jnp.maximum(lower + (_wanted(gap_below, velocity, 1, sweep) - velocity) * row.softened, 0)
    stopped_above = jnp.minimum(upper + (_wanted(gap_above, velocity, -1, sweep) - velocity) * row.softened, 0)
    # A DOF that leaves faster than it must gives back what pushed it.
    returned_below = lower + jnp.where(velocity > 0, jnp.maximum(-velocity * row.softened, -lower), 0)
    returned_above = upper + jnp.where(velocity > 0, 0, jnp.minimum(-velocity * row.softened, -upper))
    apart = ~at_lower & ~at_upper
    # Nothing comes back from a limit that has not pushed, whose derivatives at rest would be half those of a stop.
    lower = jnp.where(at_lower, stopped_below, jnp.where(apart & (lower > 0), returned_below, lower))
    upper = jnp.where(at_upper, stopped_above, jnp.where(apart & (upper < 0), returned_above, upper))
    return lower, upper


def _wanted(gap: Array, velocity: Array, sign: int, sweep: Sweep) -> Array:
    """The velocity that a limit with this gap asks for; ``sign`` is the direction away from the limit."""
    back = velocity if not sweep.moves_positions else -sign * sweep.error_reduction * gap / sweep.h
    return jnp.where(gap < 0, back, -sign * gap / sweep.h)


def velocity_limit_impulse(row: LimitRow, velocity: Array) -> Array:
    """The impulse that brings the DOF back to its speed limit."""
    limited = jnp.isfinite(row.max_velocity)
    bound = jnp.where(limited, row.max_velocity, 0)
    return jnp.where(limited, (jnp.clip(velocity, -bound, bound) - velocity) * row.softened, 0)
