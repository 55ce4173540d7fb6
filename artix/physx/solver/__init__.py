"""PhysX's step: Gauss-Seidel sweeps (PGS, TGS) with friction anchors, sleeping, and the drift of spherical joints."""

from typing import TYPE_CHECKING

from artix.math.deprecated import old_names
from artix.physx.solver.positions import with_joint_drift
from artix.physx.solver.sleeping import SleepState, is_sleeping, put_to_sleep, wake_up
from artix.physx.solver.step import step_with_joint_drift, step_with_sleep

__all__ = [
    "SleepState",
    "is_sleeping",
    "put_to_sleep",
    "step_with_joint_drift",
    "step_with_sleep",
    "wake_up",
    "with_joint_drift",
]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
