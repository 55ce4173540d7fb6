"""Where links are and how they move."""

from typing import TYPE_CHECKING

from artix.kinematics.columns import (
    JointMotionDerivatives,
    joint_jacobians,
    joint_jacobians_rate,
    joint_jacobians_second_rate,
    joint_kinematic_hessians,
    joint_motion_derivatives,
)
from artix.kinematics.configuration import (
    difference,
    distance,
    generalized_velocity,
    integrate,
    interpolate,
    is_normalized,
    is_same_configuration,
    joint_rate_from_velocity,
    joint_velocity_from_rate,
    normalize,
    squared_distance,
    with_generalized_velocity,
)
from artix.kinematics.configuration_derivatives import (
    DifferenceDerivatives,
    IntegrateDerivatives,
    configuration_rate_map,
    difference_derivatives,
    integrate_derivatives,
    transport,
)
from artix.kinematics.frame_derivatives import (
    FrameAccelerationDerivatives,
    FrameVelocityDerivatives,
    frame_acceleration_derivatives,
    frame_kinematic_hessian,
    frame_kinematic_regressor,
    frame_velocity_derivatives,
)
from artix.kinematics.frames import (
    LinkStates,
    forward_kinematics,
    frame_acceleration,
    frame_jacobian,
    frame_jacobian_rate,
    frame_pose,
    frame_velocity,
    joint_placements,
)
from artix.math.deprecated import old_names

__all__ = [
    "DifferenceDerivatives",
    "FrameAccelerationDerivatives",
    "FrameVelocityDerivatives",
    "IntegrateDerivatives",
    "JointMotionDerivatives",
    "LinkStates",
    "configuration_rate_map",
    "difference",
    "difference_derivatives",
    "distance",
    "forward_kinematics",
    "frame_acceleration",
    "frame_acceleration_derivatives",
    "frame_jacobian",
    "frame_jacobian_rate",
    "frame_kinematic_hessian",
    "frame_kinematic_regressor",
    "frame_pose",
    "frame_velocity",
    "frame_velocity_derivatives",
    "generalized_velocity",
    "integrate",
    "integrate_derivatives",
    "interpolate",
    "is_normalized",
    "is_same_configuration",
    "joint_jacobians",
    "joint_jacobians_rate",
    "joint_jacobians_second_rate",
    "joint_kinematic_hessians",
    "joint_motion_derivatives",
    "joint_placements",
    "joint_rate_from_velocity",
    "joint_velocity_from_rate",
    "normalize",
    "squared_distance",
    "transport",
    "with_generalized_velocity",
]

if not TYPE_CHECKING:  # Old names, for one release.
    __getattr__ = old_names(__name__)
