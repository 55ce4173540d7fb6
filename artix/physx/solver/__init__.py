"""PhysX's step: Gauss-Seidel sweeps (PGS, TGS) with friction anchors, sleeping, and the drift of
spherical joints.
"""

from typing import TYPE_CHECKING

from artix.math.deprecated import exports as _exports
from artix.physx.solver.positions import with_joint_drift as with_joint_drift
from artix.physx.solver.sleeping import SleepState as SleepState
from artix.physx.solver.sleeping import is_sleeping as is_sleeping
from artix.physx.solver.sleeping import put_to_sleep as put_to_sleep
from artix.physx.solver.sleeping import wake_up as wake_up
from artix.physx.solver.step import step_with_joint_drift as step_with_joint_drift
from artix.physx.solver.step import step_with_sleep as step_with_sleep

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)
