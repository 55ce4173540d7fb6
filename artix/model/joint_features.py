"""Drives, performance envelopes and friction of joints: descriptors of one axis, and the arrays of all DOFs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from artix.math import struct
from artix.model.validation import check_fields

Array = jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drive:
    """A spring and damper towards targets on one joint axis, PhysX's ``PxArticulationDrive``.

    The effort is ``stiffness (target - q) + damping (target_velocity - qd)``, limited to ``max_force``; an acceleration
    drive multiplies it by the inertia that the axis feels.

    Attributes:
      stiffness: spring [N m/rad or N/m; per unit of inertia for an acceleration drive].
      damping: damper [N m s/rad or N s/m; per unit of inertia for an acceleration drive].
      max_force: largest effort [N m or N], ``inf`` for none.
      acceleration: whether the drive is of PhysX's type ``eACCELERATION`` rather than ``eFORCE``.
      target: target position [rad or m].
      target_velocity: target velocity [rad/s or m/s].

    Raises:
      ValueError: a gain or limit is negative, a number is not finite (``max_force`` may be infinite).

    Examples:
      >>> servo = artix.Drive(stiffness=100.0, damping=10.0, max_force=50.0, target=0.5)
      >>> joint = artix.Joint.revolute(artix.Axis.SWING1, drive=servo)
      >>> print(joint.drive.stiffness, joint.drive.max_force)
      100.0 50.0
    """

    stiffness: float = 0.0
    damping: float = 0.0
    max_force: float = np.inf
    acceleration: bool = False
    target: float = 0.0
    target_velocity: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, "drive", not_negative=("stiffness", "damping"), bounds=("max_force",))
        check_fields(self, "drive", finite=("target", "target_velocity"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriveEnvelope:
    """What the motor behind a joint axis can do, PhysX's ``PxPerformanceEnvelope``.

    It replaces the drive's ``max_force``: drive and commanded force together stay within
    ``|effort| <= max_effort - velocity_dependent_resistance |qd|`` and the speed within
    ``|qd| <= max_actuator_velocity - speed_effort_gradient |effort|``.

    Attributes:
      max_effort: largest effort [N m or N].
      max_actuator_velocity: largest speed at which the actuator delivers effort [rad/s or m/s], ``inf`` for none.
      velocity_dependent_resistance: effort lost per speed [N m s/rad or N s/m].
      speed_effort_gradient: speed lost per effort [rad/s/(N m) or m/s/N].

    Raises:
      ValueError: a number is negative, or anything but ``max_actuator_velocity`` is infinite.

    Examples:
      >>> motor = artix.DriveEnvelope(max_effort=30.0, max_actuator_velocity=20.0, velocity_dependent_resistance=0.5)
      >>> joint = artix.Joint.revolute(envelope=motor)  # 30 N m at rest, 25 N m at 10 rad/s
      >>> print(joint.envelope.max_effort - 10.0 * joint.envelope.velocity_dependent_resistance)
      25.0
    """

    max_effort: float
    max_actuator_velocity: float = np.inf
    velocity_dependent_resistance: float = 0.0
    speed_effort_gradient: float = 0.0

    def __post_init__(self) -> None:
        gradients = ("velocity_dependent_resistance", "speed_effort_gradient")
        check_fields(self, "envelope", not_negative=("max_effort", *gradients), bounds=("max_actuator_velocity",))


@dataclasses.dataclass(frozen=True, kw_only=True)
class JointFriction:
    """Friction on one joint axis, PhysX's ``PxJointFrictionParams``.

    Attributes:
      static: effort up to which the axis sticks [N m or N].
      dynamic: dry friction while the axis moves, at most ``static`` [N m or N].
      viscous: friction per speed while the axis moves [N m s/rad or N s/m].

    Raises:
      ValueError: a number is negative or not finite, or ``dynamic`` exceeds ``static``.

    Examples:
      >>> friction = artix.JointFriction(static=1.0, dynamic=0.8, viscous=0.1)
      >>> joint = artix.Joint.revolute(friction=friction)
      >>> print(joint.friction.static)
      1.0
    """

    static: float = 0.0
    dynamic: float = 0.0
    viscous: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, "friction", not_negative=("static", "dynamic", "viscous"))
        if self.dynamic > self.static:
            raise ValueError(
                f"friction: dynamic friction ({self.dynamic}) must not exceed static friction ({self.static})"
            )


class Drives(struct.PyTreeNode):
    """The drives of all DOFs, each array [n]; see :class:`Drive`.

    Attributes:
      stiffness: springs, 0 for none.
      damping: dampers, 0 for none.
      max_force: effort limits, ``inf`` for none.
      is_acceleration: 1 for acceleration drives, 0 for force drives, in the articulation's dtype.
      target_position: default target positions, for steps without a target [rad or m].
      target_velocity: default target velocities [rad/s or m/s].
    """

    stiffness: Array
    damping: Array
    max_force: Array
    is_acceleration: Array
    target_position: Array
    target_velocity: Array

    @classmethod
    def of(cls, drives: Sequence[Drive | None]) -> Drives:
        """NumPy arrays from one descriptor per DOF; ``None`` means no drive."""
        table = np.array([dataclasses.astuple(drive or Drive()) for drive in drives], float).reshape(-1, 6)
        return cls(*table.T)


class DriveEnvelopes(struct.PyTreeNode):
    """The performance envelopes of all DOFs, each array [n]; an infinite ``max_effort`` means no envelope."""

    max_effort: Array
    max_actuator_velocity: Array
    velocity_dependent_resistance: Array
    speed_effort_gradient: Array

    @classmethod
    def of(cls, envelopes: Sequence[DriveEnvelope | None]) -> DriveEnvelopes:
        """NumPy arrays from one descriptor per DOF; ``None`` means no envelope."""
        none = (np.inf, np.inf, 0.0, 0.0)
        rows = [none if envelope is None else dataclasses.astuple(envelope) for envelope in envelopes]
        table = np.array(rows, float).reshape(-1, 4)
        return cls(*table.T)


class JointFrictions(struct.PyTreeNode):
    """The friction of all DOFs, each array [n]; see :class:`JointFriction`."""

    static: Array
    dynamic: Array
    viscous: Array

    @classmethod
    def of(cls, frictions: Sequence[JointFriction]) -> JointFrictions:
        """NumPy arrays from one descriptor per DOF."""
        table = np.array([dataclasses.astuple(friction) for friction in frictions], float).reshape(-1, 3)
        return cls(*table.T)
