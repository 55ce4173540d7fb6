"""Where links are and how they move."""

from typing import TYPE_CHECKING

from artix.kinematics.columns import JointMotionDerivatives as JointMotionDerivatives
from artix.kinematics.columns import joint_jacobians as joint_jacobians
from artix.kinematics.columns import joint_jacobians_rate as joint_jacobians_rate
from artix.kinematics.columns import joint_jacobians_second_rate as joint_jacobians_second_rate
from artix.kinematics.columns import joint_kinematic_hessians as joint_kinematic_hessians
from artix.kinematics.columns import joint_motion_derivatives as joint_motion_derivatives
from artix.kinematics.configuration import difference as difference
from artix.kinematics.configuration import distance as distance
from artix.kinematics.configuration import generalized_velocity as generalized_velocity
from artix.kinematics.configuration import integrate as integrate
from artix.kinematics.configuration import interpolate as interpolate
from artix.kinematics.configuration import is_normalized as is_normalized
from artix.kinematics.configuration import is_same_configuration as is_same_configuration
from artix.kinematics.configuration import joint_rate_from_velocity as joint_rate_from_velocity
from artix.kinematics.configuration import joint_velocity_from_rate as joint_velocity_from_rate
from artix.kinematics.configuration import normalize as normalize
from artix.kinematics.configuration import squared_distance as squared_distance
from artix.kinematics.configuration import with_generalized_velocity as with_generalized_velocity
from artix.kinematics.configuration_derivatives import (
    DifferenceDerivatives as DifferenceDerivatives,
)
from artix.kinematics.configuration_derivatives import IntegrateDerivatives as IntegrateDerivatives
from artix.kinematics.configuration_derivatives import (
    configuration_rate_map as configuration_rate_map,
)
from artix.kinematics.configuration_derivatives import (
    difference_derivatives as difference_derivatives,
)
from artix.kinematics.configuration_derivatives import (
    integrate_derivatives as integrate_derivatives,
)
from artix.kinematics.configuration_derivatives import transport as transport
from artix.kinematics.frame_derivatives import (
    FrameAccelerationDerivatives as FrameAccelerationDerivatives,
)
from artix.kinematics.frame_derivatives import FrameVelocityDerivatives as FrameVelocityDerivatives
from artix.kinematics.frame_derivatives import (
    frame_acceleration_derivatives as frame_acceleration_derivatives,
)
from artix.kinematics.frame_derivatives import frame_kinematic_hessian as frame_kinematic_hessian
from artix.kinematics.frame_derivatives import (
    frame_kinematic_regressor as frame_kinematic_regressor,
)
from artix.kinematics.frame_derivatives import (
    frame_velocity_derivatives as frame_velocity_derivatives,
)
from artix.kinematics.frames import LinkStates as LinkStates
from artix.kinematics.frames import forward_kinematics as forward_kinematics
from artix.kinematics.frames import frame_acceleration as frame_acceleration
from artix.kinematics.frames import frame_jacobian as frame_jacobian
from artix.kinematics.frames import frame_jacobian_rate as frame_jacobian_rate
from artix.kinematics.frames import frame_pose as frame_pose
from artix.kinematics.frames import frame_velocity as frame_velocity
from artix.kinematics.frames import joint_placements as joint_placements
from artix.math.deprecated import exports as _exports

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)
