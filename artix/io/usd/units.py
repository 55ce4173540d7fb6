"""Converts between the units of a USD stage (its lengths and masses, degrees) and SI units with radians."""

from __future__ import annotations

import dataclasses
import math

DEGREE = math.pi / 180.0


@dataclasses.dataclass(frozen=True)
class AxisUnits:
    """SI values of a stage's units for one joint axis.

    Attributes:
      position: unit of positions and, per second, of velocities [rad or m].
      effort: unit of torques or forces [N m or N].
      inertia: unit of armature [kg m^2 or kg].
      acceleration: unit of the stiffness of acceleration drives: acceleration per position [1/s^2].
      lever: unit of the ratio of this axis's effort to a force [m or 1].
    """

    position: float
    effort: float
    inertia: float
    acceleration: float
    lever: float

    @property
    def stiffness(self) -> float:
        """Unit of stiffness and, times a second, of damping and viscous friction."""
        return self.effort / self.position

    @property
    def gradient(self) -> float:
        """Unit of velocity per effort."""
        return self.position / self.effort


@dataclasses.dataclass(frozen=True)
class StageUnits:
    """SI values of a stage's units; time is in seconds.

    Attributes:
      length: ``metersPerUnit`` [m].
      mass: ``kilogramsPerUnit`` [kg].
    """

    length: float = 1.0
    mass: float = 1.0

    @property
    def inertia(self) -> float:
        """Unit of rotational inertias [kg m^2]."""
        return self.mass * self.length**2

    @property
    def force(self) -> float:
        """Unit of forces [N]."""
        return self.mass * self.length

    def axis(self, angular: bool) -> AxisUnits:
        """The units of a rotational or a translational joint axis."""
        if angular:
            return AxisUnits(DEGREE, self.inertia, self.inertia, 1.0 / DEGREE, self.length)
        return AxisUnits(self.length, self.force, self.mass, 1.0, 1.0)
