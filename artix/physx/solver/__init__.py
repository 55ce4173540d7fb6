"""PhysX's step: Gauss-Seidel sweeps (PGS, TGS) with friction anchors, sleeping, and the drift of spherical joints."""

from artix.physx.solver.friction_anchors import FrictionAnchors
from artix.physx.solver.positions import with_joint_drift
from artix.physx.solver.sleeping import SleepState, is_sleeping, put_to_sleep, step_with_sleep, wake_up
from artix.physx.solver.step import step_with_joint_drift

__all__ = [
    "FrictionAnchors",
    "SleepState",
    "is_sleeping",
    "put_to_sleep",
    "step_with_joint_drift",
    "step_with_sleep",
    "wake_up",
    "with_joint_drift",
]
