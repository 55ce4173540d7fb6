"""Where links are and how they move."""

from artix.kinematics.configuration import (
    difference,
    distance,
    integrate,
    interpolate,
    is_normalized,
    is_same_configuration,
    normalize,
    squared_distance,
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
from artix.kinematics.frames import frame_acceleration, frame_jacobian, frame_jacobian_rate, frame_pose, frame_velocity
from artix.kinematics.joint_jacobians import (
    JointMotionDerivatives,
    joint_jacobians,
    joint_jacobians_rate,
    joint_jacobians_second_rate,
    joint_kinematic_hessians,
    joint_motion_derivatives,
)
from artix.kinematics.link_derivatives import (
    LinkAccelerationDerivatives,
    LinkVelocityDerivatives,
    link_acceleration_derivatives,
    link_velocity_derivatives,
)
from artix.kinematics.link_frame_motion import joint_placements, link_frame_accelerations, link_frame_velocities
from artix.kinematics.links import (
    LinkStates,
    dense_jacobian,
    forward_kinematics,
    link_accelerations,
    link_poses,
    link_velocities,
)
from artix.kinematics.velocities import (
    generalized_velocity,
    joint_rate_from_velocity,
    joint_velocity_from_rate,
    with_generalized_velocity,
)

__all__ = [
    "DifferenceDerivatives",
    "FrameAccelerationDerivatives",
    "FrameVelocityDerivatives",
    "IntegrateDerivatives",
    "JointMotionDerivatives",
    "LinkAccelerationDerivatives",
    "LinkStates",
    "LinkVelocityDerivatives",
    "configuration_rate_map",
    "dense_jacobian",
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
    "link_acceleration_derivatives",
    "link_accelerations",
    "link_frame_accelerations",
    "link_frame_velocities",
    "link_poses",
    "link_velocities",
    "link_velocity_derivatives",
    "normalize",
    "squared_distance",
    "transport",
    "with_generalized_velocity",
]
