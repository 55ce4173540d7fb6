"""The time over which drives and dry friction act, and how their limits are meant."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax

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


class Sweep(NamedTuple):
    """The sweeps of the implicit solver, each over a whole step."""

    dt: Array
    drive_limits_are_forces: bool
    restarts: bool = False

    @property
    def budget_time(self) -> Array:
        """The whole step [s]."""
        return self.dt


def implicit_sweep(dt: Array, *, drive_limits_are_forces: bool) -> Sweep:
    """The sweeps of the implicit solver, each over a step of length ``dt``."""
    return Sweep(dt, drive_limits_are_forces)
