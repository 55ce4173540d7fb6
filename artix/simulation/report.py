"""What a step tells besides the next state."""

from __future__ import annotations

import jax
from flax import struct

Array = jax.Array


class StepReport(struct.PyTreeNode):
    """What a step tells besides the next state.

    Attributes:
      joint_acceleration: mean accelerations of the joints during the step [rad/s^2 or m/s^2], shape [n].
      link_velocity: velocities of the links' centres of mass at the end of the step, linear [m/s], then angular
        [rad/s], world axes, shape [L, 6]. As in PhysX, those of a fixed base belong to the old poses.
      link_acceleration: mean accelerations of the links' centres of mass during the step, linear [m/s^2], then angular
        [rad/s^2], world axes, shape [L, 6].
      incoming_joint_force: the wrench that each link's parent exerts on it through their joint, force [N], then torque
        [N m], at the origin and in the axes of the child joint frame, shape [L, 6]; zero for the root. PhysX's
        ``eLINK_INCOMING_JOINT_FORCE``.
    """

    joint_acceleration: Array
    link_velocity: Array
    link_acceleration: Array
    incoming_joint_force: Array
