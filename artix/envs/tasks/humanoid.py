"""A humanoid that stands against pushes, and one that follows commanded velocities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import artix
from artix.envs import commands, disturbances, observations, rewards, starts, terminations
from artix.envs.tasks import legged
from artix.envs.tasks.legged import LeggedRobot, LeggedVelocity, by_joint, solver_options

#: The terms of the reward for walking and their weights: Playground's G1 joystick, with more weight
#: on tracking. Its feet follow a clock, which is what makes a humanoid step instead of hop.
VELOCITY_REWARDS: dict[str, float] = {
    "tracking_lin_vel": 4.0,
    "tracking_ang_vel": 1.0,
    "lin_vel_z": -0.25,
    "ang_vel_xy": -0.1,
    "orientation": -2.0,
    "base_height": -5.0,
    "alive": 0.25,
    "pose": 0.25,
    "dof_pos_limits": -1.0,
    "termination": -100.0,
    "stand_still": -0.1,
    "action_rate": -0.01,
    "dof_vel": -1e-4,
    "torques": -1e-5,
    "feet_slip": -0.25,
    "feet_on_time": 2.0,
    "feet_height": -0.2,
    "feet_down": -0.5,
}

#: The terms of the reward for standing and their weights. With the motion costs of walking, a
#: standing policy shakes, because it reacts to sensor noise.
STAND_REWARDS: dict[str, float] = {
    "tracking_lin_vel": 0.5,
    "tracking_ang_vel": 0.25,
    "ang_vel_xy": -0.05,
    "orientation": -2.0,
    "base_height": -5.0,
    "alive": 1.0,
    "pose": 0.5,
    "termination": -50.0,
    "action_rate": -0.05,
    "dof_vel": -1e-3,
    "torques": -1e-5,
}

#: The feet: names of the links and of the boxes on them.
FEET = ("left_foot", "right_foot")

#: Each foot has contacts at its four lowest corners. Standing takes one or two Newton steps. A
#: robot that falls can need many, for which all robots of its vector wait.
SOLVER_OPTIONS = artix.SolverOptions(max_contacts_per_geometry=4, max_newton_steps=8)

#: Drive stiffness by the end of the joint's name [N m/rad]; the damping is a twentieth of it
#: [N m s/rad].
_STIFFNESS = {
    "hip_yaw": 150.0,
    "hip_roll": 250.0,
    "hip_pitch": 250.0,
    "knee": 300.0,
    "ankle_pitch": 300.0,
}
_STIFFNESS |= {
    "ankle_roll": 150.0,
    "waist_yaw": 200.0,
    "neck_yaw": 15.0,
    "neck_pitch": 15.0,
    "": 40.0,
}

#: The default pose, with slightly bent knees.
_POSE = {"hip_pitch": -0.3, "knee": 0.6, "ankle_pitch": -0.3, "elbow": -0.4, "": 0.0}


#: How far an action of 1 moves the targets of artix's humanoid [rad]: the joints that swing a leg
#: further than those that only balance.
ACTION_SCALE = {"hip_pitch": 0.5, "knee": 0.5, "ankle_pitch": 0.3, "": 0.25}

#: Strides per second.
GAIT_FREQUENCY = 1.25

#: How starts vary: less than those of a robot on four feet.
RESETS: starts.Resets = {**legged.RESETS, "tilt": 0.03, "joint_position": 0.03}


class HumanoidVelocity(LeggedVelocity):
    """A humanoid follows velocity commands on level ground, modelled on Playground's G1 joystick.

    Observations (``"state"`` [89]) and all options are those of :class:`LeggedVelocity`. The feet
    follow a clock of :data:`GAIT_FREQUENCY`. An episode ends when the pelvis or the head comes near
    the ground, or when the body tilts by more than 60 degrees.

    Args:
      robot: any robot with two legs (:meth:`artix.envs.LeggedRobot.of`); artix's humanoid by
        default.
      rewards: terms and weights, see :func:`artix.envs.rewards.weighted_terms`.
      ground: the ground; level with friction 0.8 by default.
      name: name of the task.
      dtype: floating-point type; JAX's default, or that of the robot, when ``None``.
      **options: as for :class:`LeggedVelocity`.

    Raises:
      ValueError: as :class:`LeggedVelocity`.

    Examples:
      >>> from artix import envs
      >>> envs.make("humanoid_velocity").action_size
      25
    """

    def __init__(
        self,
        *,
        robot: LeggedRobot | None = None,
        rewards: rewards.Weights = VELOCITY_REWARDS,
        ground: artix.Ground | None = None,
        name: str = "humanoid_velocity",
        dtype: Any = None,
        **options: Any,
    ) -> None:
        scale: Any = ACTION_SCALE
        if robot is None:
            robot = humanoid(dtype)
        else:
            robot = robot if dtype is None else robot.astype(dtype)
            # Joints that a step bends have little weight in the reward for the pose.
            scale = np.where(np.asarray(robot.pose_weight) < 0.1, 0.5, 0.25)
        ground = (
            artix.Ground.flat(friction=0.8, dtype=robot.articulation.dtype)
            if ground is None
            else ground
        )
        slow = commands.VelocityCommands(largest=(1.0, 0.4, 0.8))
        usual: dict[str, Any] = {
            "solver_options": solver_options(robot, SOLVER_OPTIONS),
            "velocity_commands": slow,
            "lowest_up": 0.5,
            "resets": RESETS,
            "action_scale": scale,
            "gait_frequency": GAIT_FREQUENCY,
        }
        usual |= options
        super().__init__(name, robot, rewards=rewards, ground=ground, **usual)


class HumanoidStand(HumanoidVelocity):
    """A humanoid stands still while it is pushed.

    Like :class:`HumanoidVelocity`, but without a clock, with the command to stand still, pushes of
    up to 1 m/s every four seconds on average, and episodes of 10 s.

    Args:
      rewards: terms and weights, see :func:`artix.envs.rewards.weighted_terms`.
      pushes: how it is pushed.
      **options: as for :class:`HumanoidVelocity`.

    Raises:
      ValueError: as :class:`LeggedVelocity`.

    Examples:
      >>> from artix import envs
      >>> envs.make("humanoid_stand").episode_length
      500
    """

    def __init__(
        self,
        *,
        rewards: rewards.Weights = STAND_REWARDS,
        pushes: disturbances.Pushes | None = disturbances.Pushes(speed=(0.0, 1.0), mean_time=4.0),  # noqa: B008
        **options: Any,
    ) -> None:
        still = commands.VelocityCommands(largest=(0.0, 0.0, 0.0))
        usual: dict[str, Any] = {
            "name": "humanoid_stand",
            "velocity_commands": still,
            "episode_length": 500,
        }
        usual |= {"action_scale": 0.5, "gait_frequency": None, "least_reward": -math.inf, **options}
        super().__init__(rewards=rewards, pushes=pushes, **usual)


def humanoid(dtype: Any = None) -> LeggedRobot:
    """The humanoid in ``dtype``, with drives, and with sensors on pelvis and head."""
    robot = artix.robots.load("humanoid", dtype=dtype)
    for link, radius in (("pelvis", 0.25), ("head", 0.25)):
        robot = terminations.with_sensor(
            robot, link, artix.Geometry.sphere(radius, sensor=True), link
        )
    stiffness = by_joint(robot, _STIFFNESS)
    drive = robot.drive.replace(
        stiffness=stiffness, damping=0.05 * stiffness, max_force=robot.max_joint_force
    )
    robot = robot.replace(drive=drive)
    pose = by_joint(robot, _POSE)
    state = artix.neutral_state(robot).replace(joint_position=pose)
    scene = artix.Scene(robot, ground=artix.Ground.flat(dtype=robot.dtype))
    lowest = artix.geometry_distances(scene, state)[
        observations.geometry_numbers(robot, FEET)
    ].min()
    return LeggedRobot(
        articulation=robot,
        imu="imu",
        feet=FEET,
        trunk=("pelvis", "head"),
        default_position=pose,
        pose_weight=by_joint(
            robot, {"hip_pitch": 0.02, "knee": 0.02, "ankle_pitch": 0.02, "hip_roll": 0.5, "": 0.5}
        ),
        height=-float(lowest),
    )
