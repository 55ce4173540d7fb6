"""A quadruped that follows velocity commands."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import artix
from artix.envs import rewards, terminations
from artix.envs.tasks.legged import LeggedRobot, LeggedVelocity, by_joint, solver_options

Array = jax.Array

#: The terms of the reward and their weights: Playground's Go1 joystick, and two for the gait. The
#: feet follow a clock, as in a trot, and all of them stay down while the command is to stand still.
#: Since a step earns at least zero, ``alive`` makes up for these costs while a robot has yet to
#: learn.
REWARDS: dict[str, float] = {
    "tracking_lin_vel": 1.0,
    "tracking_ang_vel": 0.5,
    "lin_vel_z": -0.5,
    "ang_vel_xy": -0.05,
    "orientation": -5.0,
    "dof_pos_limits": -1.0,
    "pose": 0.5,
    "termination": -1.0,
    "stand_still": -1.0,
    "torques": -0.0002,
    "action_rate": -0.01,
    "energy": -0.001,
    "feet_clearance": -2.0,
    "feet_height": -0.2,
    "feet_slip": -0.1,
    "feet_air_time": 0.1,
    "feet_on_time": 0.5,
    "feet_down": -0.5,
    "alive": 0.25,
}

#: Strides per second. Without the clock, a symmetric policy would not know which feet to lift
#: first.
GAIT_FREQUENCY = 2.5

#: The feet: names of the links and of the spheres on them.
FEET = ("front_left_foot", "front_right_foot", "rear_left_foot", "rear_right_foot")

#: Height of the trunk's centre in the default pose [m]: two leg segments of 0.21 m at 0.9 rad, and
#: the foot's radius.
HEIGHT = 0.42 * float(np.cos(0.9)) + 0.02

#: Walking takes one Newton step, and the slowest of 16 robots two. One that tumbles can need
#: many, for which all robots of its vector wait.
SOLVER_OPTIONS = artix.SolverOptions(max_newton_steps=8)


class QuadrupedVelocity(LeggedVelocity):
    """A quadruped follows velocity commands on level ground: Playground's Go1 joystick with artix's
    or your robot.

    The drives of artix's have 35 N m/rad and 0.5 N m s/rad. Observations (``"state"`` [50],
    ``"privileged_state"`` [121], for twelve joints) and all options are those of
    :class:`LeggedVelocity`. The feet trot to a clock of :data:`GAIT_FREQUENCY`. An episode ends
    when the robot is upside down or its trunk touches the ground.

    Args:
      robot: any robot with legs (:meth:`artix.envs.LeggedRobot.of`); artix's quadruped by default.
      rewards: terms and weights, see :func:`artix.envs.rewards.weighted_terms`.
      ground: the ground; level with friction 0.8 by default.
      name: name of the task.
      dtype: floating-point type; JAX's default when ``None``.
      **options: as for :class:`LeggedVelocity`. Playground's ``randomization`` is
        :data:`artix.envs.randomization.QUADRUPED`.

    Raises:
      ValueError: as :class:`LeggedVelocity`.

    Examples:
      >>> from artix import envs
      >>> environment = envs.make("quadruped_velocity", noise_scales={})
      >>> environment.action_size, environment.dt
      (12, 0.02)
    """

    def __init__(
        self,
        *,
        robot: LeggedRobot | None = None,
        rewards: rewards.Weights = REWARDS,
        ground: artix.Ground | None = None,
        name: str = "quadruped_velocity",
        dtype: Any = None,
        **options: Any,
    ) -> None:
        robot = quadruped(dtype) if robot is None else robot
        ground = (
            artix.Ground.flat(friction=0.8, dtype=robot.articulation.dtype)
            if ground is None
            else ground
        )
        usual: dict[str, Any] = {"gait_frequency": GAIT_FREQUENCY}
        usual |= {"solver_options": solver_options(robot, SOLVER_OPTIONS), **options}
        super().__init__(name, robot, rewards=rewards, ground=ground, **usual)


def quadruped(dtype: Any = None) -> LeggedRobot:
    """The quadruped in ``dtype``, with drives, and with a sensor around its trunk."""
    robot = artix.robots.load("quadruped", dtype=dtype)
    box = artix.Geometry.box((0.21, 0.1, 0.06), sensor=True)
    robot = terminations.with_sensor(robot, "trunk", box, "trunk")
    drive = robot.drive.replace(
        stiffness=by_joint(robot, {"": 35.0}),
        damping=by_joint(robot, {"": 0.5}),
        max_force=robot.max_joint_force,
    )
    return LeggedRobot(
        articulation=robot.replace(drive=drive),
        imu="imu",
        feet=FEET,
        trunk=("trunk",),
        default_position=by_joint(robot, {"hip_pitch": 0.9, "knee": -1.8, "": 0.0}),
        pose_weight=by_joint(robot, {"knee": 0.1, "": 1.0}),
        height=HEIGHT,
    )
