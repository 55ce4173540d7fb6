"""Parameters shared by all rows of one Gauss-Seidel sweep."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array


class Sweep(NamedTuple):
    """The kind of sweep (static) and its times (arrays of shape [])."""

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


def implicit_sweep(dt: Array, *, drive_limits_are_forces: bool) -> Sweep:
    """The sweeps of the implicit solver, each over a step of length ``dt``."""
    return Sweep(
        temporal=False,
        moves_positions=True,
        restarts=False,
        drive_limits_are_forces=drive_limits_are_forces,
        dt=dt,
        h=dt,
        elapsed=jnp.zeros_like(dt),
        error_reduction=jnp.ones_like(dt),
    )
