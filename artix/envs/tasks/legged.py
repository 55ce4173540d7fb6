"""Legged robots that follow velocity commands: what quadrupeds and humanoids share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs import (
    actuators,
    commands,
    disturbances,
    noise,
    observations,
    random_numbers,
    rewards,
    starts,
    terminations,
)
from artix.envs.actuators import Delay
from artix.envs.environment import Environment
from artix.envs.gait import Gait
from artix.envs.legged_robot import LeggedRobot as LeggedRobot
from artix.envs.legged_robot import by_joint as by_joint
from artix.envs.randomization import Change
from artix.envs.rewards import check_weights
from artix.envs.transition import Outcome, Transition
from artix.model.checks import as_number

Array = jax.Array

#: The signals that rewards can use; see :meth:`LeggedVelocity.signals`.
SIGNALS = (
    *("command", "linear_velocity", "angular_velocity", "world_linear_velocity", "world_angular_velocity", "up"),
    *("joint_position", "joint_velocity", "joint_force", "default_position", "soft_lower", "soft_upper", "height"),
    *("pose_weight", "action", "last_action", "feet_velocity", "feet_height", "contact", "first_contact"),
    *("air_time", "contact_time", "swing_peak", "terminated", "tracking_sigma", "max_foot_height", "target_height"),
)


class LeggedVelocity(Environment):
    """A legged robot follows velocity commands.

    The action sets the drive targets relative to the default pose, with ``action_scale`` radians for an action of 1.
    The observation has two parts. ``"state"`` [12 + 3 n] has linear velocity and gyro of the IMU, projected gravity,
    joint positions (relative to the default pose) and velocities, all with noise, then the last action and the command.
    ``"privileged_state"`` has all of that, followed by noise-free gyro, accelerometer, gravity, linear velocity,
    angular velocity in world axes, joint positions and velocities, drive forces, and contacts, velocities and air times
    of the feet. The reward is the weighted sum of its terms times ``dt``, but at least ``least_reward``. An episode
    ends when the robot falls.

    Args:
      name: name of the task.
      robot: the robot.
      rewards: terms and weights, see :func:`artix.envs.rewards.weighted_terms`.
      ground: the ground to walk on.
      solver_options: options of the physics steps.
      velocity_commands: how commands are drawn.
      noise_scales: largest errors of ``linear_velocity``, ``gyro``, ``gravity``, ``joint_position`` and
        ``joint_velocity``; an empty mapping for none.
      pushes: how the robot is pushed; ``None`` for no pushes.
      randomization: which parameters of the robot and the ground are randomised.
      action_delay: smallest and largest delay [s] of the drive targets, in whole physics steps, drawn for each episode;
        ``None`` for no delay.
      action_scale: how far an action of 1 moves a target [rad].
      tracking_sigma: width of the tracking terms.
      max_foot_height: desired swing height of the feet [m].
      least_reward: lower bound of a step's reward; ``-math.inf`` for none.
      lowest_up: the robot has fallen if the vertical component of its z axis is smaller.
      episode_length: number of control steps of 20 ms.

    Raises:
      ValueError: a reward, measurement or leaf does not exist (the message lists the valid names), or an option is out
        of range or not finite.
    """

    def __init__(
        self,
        name: str,
        robot: LeggedRobot,
        *,
        rewards: rewards.Weights,
        ground: artix.Ground,
        solver_options: artix.SolverOptions,
        velocity_commands: commands.VelocityCommands = commands.VelocityCommands(),  # noqa: B008, a constant
        noise_scales: Mapping[str, float] = noise.GO1,
        pushes: disturbances.Pushes | None = None,
        randomization: Sequence[Change] = (),
        action_delay: tuple[float, float] | None = None,
        action_scale: float = 0.5,
        tracking_sigma: float = 0.25,
        max_foot_height: float = 0.1,
        least_reward: float = 0.0,
        lowest_up: float = 0.0,
        episode_length: int = 1000,
    ) -> None:
        size = len(robot.default_position)
        super().__init__(
            name,
            robot.articulation,
            action_size=size,
            dt=0.02,
            physics_dt=0.004,
            episode_length=episode_length,
            ground=ground,
            solver_options=solver_options,
            randomization=randomization,
        )
        self._measured = {"linear_velocity": 3, "gyro": 3, "gravity": 3, "joint_position": size, "joint_velocity": size}
        check_weights(rewards, SIGNALS)
        commands.check_commands(velocity_commands)
        if pushes is not None:
            disturbances.check_pushes(pushes)
        if action_delay is not None:
            least, largest = action_delay if np.shape(action_delay) == (2,) else (math.nan, math.nan)
            if not 0 <= least <= largest < math.inf:
                raise ValueError(f"{name}: action_delay needs 0 <= least <= largest [s]; found {action_delay}")
        self.robot = robot
        start = artix.neutral_state(robot.articulation)
        pairs = artix.remember_contacts(robot.articulation, start).contact_memory
        self._num_pair_contacts = 0 if pairs is None else len(pairs.impulse)
        self.rewards = dict(rewards)
        self.velocity_commands = velocity_commands
        self.noise_scales = noise.as_scales(noise_scales, self._measured)
        self.pushes = pushes
        self.action_delay = action_delay
        self.action_scale = as_number(f"{name}: action_scale", action_scale)
        self.tracking_sigma = as_number(f"{name}: tracking_sigma", tracking_sigma, positive=True)
        self.max_foot_height = as_number(f"{name}: max_foot_height", max_foot_height, positive=True)
        self.least_reward = -math.inf if least_reward == -math.inf else as_number(f"{name}: least_reward", least_reward)
        self.lowest_up = as_number(f"{name}: lowest_up", lowest_up)

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Any]]:
        """Standing at a random place and heading, with a small random velocity and a random command."""
        start_key, command_key, lag_key = random_numbers.split(key, 3)
        dtype = self.articulation.dtype
        command, time_left = commands.first_command(command_key, self.velocity_commands, dtype)
        memory = {
            "command": command,
            "command_time_left": time_left,
            "last_action": jnp.zeros(self.action_size, dtype),
            "gait": Gait.standing(len(self.robot.feet), dtype),
        }
        if self.action_delay is not None:
            lag = actuators.random_lag(lag_key, *self.action_delay, self.physics_dt)
            most_steps = round(self.action_delay[1] / self.physics_dt)
            memory["delay"] = Delay.of(self.robot.default_position, most_steps=most_steps, lag=lag)
        return starts.standing(self.articulation, start_key, self.robot.default_position, self.robot.height), memory

    def draw(self, key: Array) -> dict[str, Any]:
        """Noise, pushes, and a candidate for the next command."""
        dtype, keys = self.articulation.dtype, random_numbers.split(key, 3)
        pushes = {} if self.pushes is None else {"push": disturbances.draw_push(keys[2], self.pushes, self.dt, dtype)}
        return pushes | {
            "noise": noise.draw_noise(keys[0], self.noise_scales, self._measured, dtype),
            "command": commands.draw_command(keys[1], self.velocity_commands, dtype),
        }

    def disturb(self, state: artix.State, drawn: dict[str, Any]) -> artix.State:
        """Applies a push, in the few steps that have one."""
        return disturbances.pushed(state, drawn["push"]) if "push" in drawn else state

    def actuate(
        self, articulation: artix.Articulation, state: artix.State, memory: dict[str, Any], action: Array
    ) -> tuple[artix.Control, dict[str, Any]]:
        """The drive targets, possibly delayed."""
        if self.action_delay is None:
            return artix.Control(drive_target=self.target(action)), memory
        delay = memory["delay"].then(self.target(action))
        return artix.Control(drive_target=delay.arrived), memory | {"delay": delay}

    def target(self, action: Array) -> Array:
        """The drive targets for an action [rad], [n]."""
        return self.robot.default_position + self.action_scale * action

    def joint_force(self, transition: Transition, action: Array) -> Array:
        """Drive forces in the last physics step [N m], [n]."""
        target = self.target(action) if self.action_delay is None else transition.memory["delay"].arrived
        return observations.drive_forces(transition.articulation, transition.state, target)

    def outcome(self, transition: Transition) -> Outcome:
        """The weighted terms, and the gait and command for the next step."""
        memory = transition.memory
        gait, first_contact = self.gait(transition)
        terminated = self.has_fallen(transition)
        signals = self.signals(transition, gait, first_contact) | {"terminated": terminated}
        terms = rewards.weighted_terms(self.rewards, signals)
        total = sum(terms.values(), jnp.zeros((), self.articulation.dtype))
        drawn = transition.drawn["command"]
        command, time_left = commands.next_command(memory["command"], memory["command_time_left"], drawn, self.dt)
        changed = {
            "command": command,
            "command_time_left": time_left,
            "last_action": transition.action,
            "gait": gait.landed(),
        }
        metrics = {f"reward/{name}": term for name, term in terms.items()}
        apart = memory["command"] - jnp.append(signals["linear_velocity"][:2], signals["angular_velocity"][2])
        metrics["velocity_error"] = jnp.sqrt(jnp.sum(apart[:2] ** 2) + 1e-12)  # [m/s]; differentiable at zero
        metrics["yaw_rate_error"] = jnp.abs(apart[2])
        return Outcome(jnp.maximum(total * self.dt, self.least_reward), terminated, memory | changed, metrics)

    def gait(self, transition: Transition) -> tuple[Gait, Array]:
        """The gait after a step, and which feet landed."""
        surfaces, feet = len(transition.ground.surfaces), len(self.robot.feet)
        with_ground = transition.impulse[: len(transition.impulse) - self._num_pair_contacts]
        contact = jnp.any(observations.in_contact(with_ground).reshape(surfaces, feet, -1), axis=(0, 2))
        return transition.memory["gait"].moved(contact, self.feet_height(transition), self.dt)

    def has_fallen(self, transition: Transition) -> Array:
        """Whether the robot is upside down or its trunk touches the ground."""
        robot, state = transition.articulation, transition.state
        up = observations.up_vector(robot, state, self.robot.imu)
        touches = terminations.touches_ground(robot, state, transition.ground, self.robot.trunk)
        return terminations.is_tilted(up, self.lowest_up) | touches

    def feet_height(self, transition: Transition) -> Array:
        """Heights of the feet above the ground [m], [K]; for spheres, of their centres."""
        robot = transition.articulation
        index = observations.geometry_numbers(robot, self.robot.feet)
        distance = artix.geometry_distances(artix.Scene(robot, ground=transition.ground), transition.state)[index]
        topology: Any = robot.topology
        is_sphere = [topology.geometries[k].type is artix.GeometryType.SPHERE for k in index]
        return distance + jnp.where(np.array(is_sphere), robot.geometry.size[index, 0], 0)

    def height(self, transition: Transition) -> Array:
        """Height of the root above the ground [m], []."""
        origin = jnp.zeros((1, 2), self.articulation.dtype)
        return observations.height_scan(transition.ground, transition.state, origin)[0]

    def signals(self, transition: Transition, gait: Gait, first_contact: Array) -> dict[str, Any]:
        """The signals that reward terms can use, by name."""
        robot, state, memory = transition.articulation, transition.state, transition.memory
        velocity = artix.frame_velocity(robot, state, self.robot.imu, axes="world_aligned")
        soft_lower, soft_upper = rewards.soft_limits(robot)
        return {
            "command": memory["command"],
            "linear_velocity": observations.linear_velocity(robot, state, self.robot.imu),
            "angular_velocity": observations.angular_velocity(robot, state, self.robot.imu),
            "world_linear_velocity": velocity[:3],
            "world_angular_velocity": velocity[3:],
            "up": observations.up_vector(robot, state, self.robot.imu),
            "joint_position": state.joint_position,
            "joint_velocity": state.joint_velocity,
            "joint_force": self.joint_force(transition, transition.action),
            "default_position": self.robot.default_position,
            "soft_lower": soft_lower,
            "soft_upper": soft_upper,
            "pose_weight": self.robot.pose_weight,
            "action": transition.action,
            "last_action": memory["last_action"],
            "feet_velocity": observations.frame_velocities(robot, state, self.robot.feet),
            "feet_height": self.feet_height(transition),
            "contact": gait.contact,
            "first_contact": first_contact,
            "height": self.height(transition),
            "target_height": self.robot.height,
            "air_time": gait.air_time,
            "contact_time": gait.contact_time,
            "swing_peak": gait.swing_peak,
            "tracking_sigma": self.tracking_sigma,
            "max_foot_height": self.max_foot_height,
        }

    def observe(self, transition: Transition) -> dict[str, Array]:
        """Noisy measurements for the policy, and everything for a critic."""
        robot, state, memory = transition.articulation, transition.state, transition.memory
        measured = {
            "linear_velocity": observations.linear_velocity(robot, state, self.robot.imu),
            "gyro": observations.angular_velocity(robot, state, self.robot.imu),
            "gravity": observations.projected_gravity(robot, state, self.robot.imu),
            "joint_position": state.joint_position - self.robot.default_position,
            "joint_velocity": state.joint_velocity,
        }
        noisy = [value + transition.drawn["noise"][name] for name, value in measured.items()]
        seen = jnp.concatenate([*noisy, memory["last_action"], memory["command"]])
        before, dt = transition.before, self.physics_dt
        privileged = [
            seen,
            measured["gyro"],
            observations.accelerometer(robot, before, state, dt, self.robot.imu),
            measured["gravity"],
            measured["linear_velocity"],
            state.root_velocity[3:],
            measured["joint_position"],
            measured["joint_velocity"],
            self.joint_force(transition, memory["last_action"]),
            memory["gait"].contact.astype(robot.dtype),
            observations.frame_velocities(robot, state, self.robot.feet).reshape(-1),
            memory["gait"].air_time,
        ]
        return {"state": seen, "privileged_state": jnp.concatenate(privileged)}


def solver_options(robot: LeggedRobot, usual: artix.SolverOptions) -> artix.SolverOptions:
    """The options of a task for a robot: at most four contacts between a foot and the ground."""
    topology: Any = robot.articulation.topology
    most = max(topology.geometries[topology.geometry_index(foot)].num_candidates for foot in robot.feet)
    return usual if most == 1 else dataclasses.replace(usual, max_contacts_per_geometry=min(most, 4))
