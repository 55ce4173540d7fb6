"""Conversion between the units of a USD stage (its lengths and masses, degrees) and SI units and radians."""

from __future__ import annotations

import dataclasses
import math

DEGREE = math.pi / 180.0


@dataclasses.dataclass(frozen=True)
class AxisUnits:
    """SI values of the units in which a stage gives the numbers of one joint axis.

    Attributes:
      position: unit of positions and, per second, of velocities [rad or m].
      effort: unit of torques or forces [N m or N].
      inertia: unit of armatures [kg m^2 or kg].
      acceleration: unit of accelerations per unit of position, for acceleration drives [1/s^2].
      lever: unit of a ratio of this axis's effort to a force [m or 1].
    """

    position: float
    effort: float
    inertia: float
    acceleration: float
    lever: float

    @property
    def stiffness(self) -> float:
        """Unit of stiffnesses, and with a second of dampings, of force drives and viscous friction."""
        return self.effort / self.position

    @property
    def gradient(self) -> float:
        """Unit of velocities per effort."""
        return self.position / self.effort


@dataclasses.dataclass(frozen=True)
class StageUnits:
    """SI values of the units of a stage; time is in seconds.

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
