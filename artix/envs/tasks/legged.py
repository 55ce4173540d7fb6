"""Legged robots that follow velocity commands: what quadrupeds and humanoids share."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs import (
    actuators,
    commands,
    curricula,
    disturbances,
    observation_terms,
    observations,
    random_numbers,
    rewards,
    starts,
    symmetry,
    terminations,
)
from artix.envs.actuators import Delay
from artix.envs.control_step import EnvState, Outcome, Transition
from artix.envs.curricula import check_curricula as _check_curricula
from artix.envs.environment import Environment
from artix.envs.gait import Gait
from artix.envs.legged_robot import LeggedRobot as LeggedRobot
from artix.envs.legged_robot import PerJoint, per_joint
from artix.envs.legged_robot import by_joint as by_joint
from artix.envs.legs import link_of
from artix.envs.observation_terms import Entry
from artix.envs.randomization import Change
from artix.envs.rewards import check_weights
from artix.envs.terminations import check_terminations as _check_terminations
from artix.envs.terms import read_only
from artix.io.common.poses import poses_at_zero
from artix.model.checks import as_number

Array = jax.Array

#: The signals that terms can use; see :meth:`LeggedVelocity.signals`.
SIGNALS = (
    *(
        "command",
        "linear_velocity",
        "angular_velocity",
        "world_linear_velocity",
        "world_angular_velocity",
        "up",
    ),
    *(
        "joint_position",
        "joint_velocity",
        "joint_force",
        "default_position",
        "soft_lower",
        "soft_upper",
        "height",
    ),
    *(
        "pose_weight",
        "action",
        "last_action",
        "feet_velocity",
        "feet_height",
        "contact",
        "first_contact",
    ),
    *("air_time", "contact_time", "last_air_time", "last_contact_time", "swing_peak", "feet_group"),
    *("mean_yaw_rate", "projected_gravity", "accelerometer", "trunk_gap", "lowest_up"),
    *("tracking_sigma", "max_foot_height", "target_height"),
)

#: What the policy sees, by default, in this order: term -> scale.
OBSERVATIONS: observation_terms.Terms = {
    "linear_velocity": 1.0,
    "gyro": 1.0,
    "gravity": 1.0,
    "joint_position": 1.0,
    "joint_velocity": 1.0,
    "last_action": 1.0,
    "command": 1.0,
}

#: What a critic sees besides, without noise.
PRIVILEGED: observation_terms.Terms = {
    "gyro": 1.0,
    "accelerometer": 1.0,
    "gravity": 1.0,
    "linear_velocity": 1.0,
    "world_angular_velocity": 1.0,
    "joint_position": 1.0,
    "joint_velocity": 1.0,
    "joint_force": 1.0,
    "contact": 1.0,
    "feet_velocity": 1.0,
    "air_time": 1.0,
}

#: How starts vary: a random place and heading, with a small velocity, tilted and in a pose near the
#: default one.
RESETS: starts.Resets = {
    "place": 0.5,
    "heading": math.pi,
    "velocity": 0.5,
    "tilt": 0.1,
    "joint_position": 0.1,
}

#: Time constant of ``mean_yaw_rate``, about half a stride [s].
MEAN_TIME = 0.4

#: What ends an episode early.
TERMINATIONS: terminations.Terminations = {"tilted": True, "trunk_contact": True}


class LeggedVelocity(Environment):
    """A legged robot follows velocity commands.

    The action sets the drive targets relative to the default pose, with ``action_scale`` radians
    for an action of 1. The observation has two parts, each of terms by name. ``"state"`` has
    :data:`OBSERVATIONS` with noise, [12 + 3 n]: linear velocity and gyro of the IMU, projected
    gravity, joint positions (relative to the default pose) and velocities, the last action and the
    command. ``"privileged_state"`` has all of that, followed by :data:`PRIVILEGED` without noise.
    The reward is the weighted sum of its terms times ``dt``, but at least ``least_reward``. An
    episode ends when the robot falls.

    Args:
      name: name of the task.
      robot: the robot.
      rewards: terms and weights, see :func:`artix.envs.rewards.weighted_terms`.
      ground: the ground to walk on.
      solver_options: options of the physics steps.
      velocity_commands: how commands are drawn, or a function of a random key and a dtype that
        returns a :class:`artix.envs.commands.DrawnCommand`.
      observations: what the policy sees: terms in their order, see
        :class:`artix.envs.observation_terms.ObservationTerm`.
      privileged: what a critic sees besides.
      resets: how starts vary, see :func:`artix.envs.starts.varied`; ``{}`` for the default pose at
        rest. With any, episodes also start anywhere on the clock.
      terminations: what ends an episode early, see :func:`artix.envs.terminations.is_over`.
      curricula: what gets harder from episode to episode, and where it starts, see
        :func:`artix.envs.curricula.check_curricula`; each is a signal of its name.
      gait_frequency: frequency of a clock for the term ``feet_on_time`` [Hz], which the policy sees
        as ``clock``; ``None`` for no clock.
      noise_scales: largest errors of observed terms, such as ``gyro`` and ``joint_position``; an
        empty mapping for none.
      pushes: how the robot is pushed; ``None`` for no pushes.
      randomization: which parameters of the robot and the ground are randomised.
      action_delay: smallest and largest delay [s] of the drive targets, in whole physics steps,
        drawn for each episode; ``None`` for no delay.
      action_scale: how far an action of 1 moves a target [rad]: one number, one for each joint, or
        numbers by the ends of the joints' names.
      dt: control period [s].
      physics_dt: physics step [s].
      tracking_sigma: width of the tracking terms.
      max_foot_height: desired swing height of the feet [m].
      least_reward: lower bound of a step's reward; ``-math.inf`` for none.
      lowest_up: the robot has fallen if the vertical component of its z axis is smaller.
      episode_length: number of control steps.

    Raises:
      ValueError: a term, measurement or leaf does not exist (the message lists the valid names), or
        an option is out of range or not finite.
    """

    def __init__(
        self,
        name: str,
        robot: LeggedRobot,
        *,
        rewards: rewards.Weights,
        ground: artix.Ground,
        solver_options: artix.SolverOptions,
        velocity_commands: commands.VelocityCommands
        | Callable[..., Any] = commands.VelocityCommands(),  # noqa: B008
        observations: observation_terms.Terms = OBSERVATIONS,
        privileged: observation_terms.Terms = PRIVILEGED,
        resets: starts.Resets = RESETS,
        terminations: terminations.Terminations = TERMINATIONS,
        curricula: curricula.Curricula = MappingProxyType({}),
        gait_frequency: float | None = None,
        noise_scales: Mapping[str, float] = disturbances.GO1_NOISE,
        pushes: disturbances.Pushes | None = None,
        randomization: Sequence[Change] = (),
        action_delay: tuple[float, float] | None = None,
        action_scale: PerJoint = 0.5,
        dt: float = 0.02,
        physics_dt: float = 0.004,
        tracking_sigma: float = 0.25,
        max_foot_height: float = 0.1,
        least_reward: float = 0.0,
        lowest_up: float = 0.0,
        episode_length: int = 1000,
    ) -> None:
        size = len(robot.default_position)
        if not np.any(np.asarray(robot.articulation.drive.stiffness) > 0):
            raise ValueError(
                f"{name}: the drives of {robot.articulation.topology.name} have no stiffness, so "
                "that actions move nothing; LeggedRobot.of(articulation) derives gains, or takes "
                "stiffness= and damping="
            )
        super().__init__(
            name,
            robot.articulation,
            action_size=size,
            dt=dt,
            physics_dt=physics_dt,
            episode_length=episode_length,
            ground=ground,
            solver_options=solver_options,
            randomization=randomization,
        )
        self.gait_frequency = gait_frequency
        self.curricula = read_only(_check_curricula(curricula, SIGNALS))
        names: tuple[str, ...] = (*SIGNALS, *self.more_signals())
        if gait_frequency is not None:
            self.gait_frequency = as_number(
                f"{name}: gait_frequency [Hz]", gait_frequency, positive=True
            )
            if isinstance(observations, Mapping) and "clock" not in observations:
                observations = {**observations, "clock": 1.0}
        seen = observation_terms.check_terms("observations", observations, names)
        known = observation_terms.check_terms("privileged", privileged, names)
        self.observations, self.privileged = read_only(seen), read_only(known)
        if not seen:
            raise ValueError("observations: the policy must see one term at least")
        if past := [each for each, term in self.privileged.items() if term.history > 1]:
            raise ValueError(f"privileged: {past[0]!r}: only what the policy sees has a history")
        self.resets = read_only(starts.check_resets(resets))
        self.terminations = read_only(_check_terminations(terminations, names))
        check_weights(rewards, (*names, "terminated"))
        commands.check_commands(velocity_commands)
        if pushes is not None:
            disturbances.check_pushes(pushes)
        if action_delay is not None:
            actuators.check_delay(f"{name}: action_delay", action_delay, physics_dt)
        self.robot = robot
        self.rewards = read_only(rewards)
        self.velocity_commands = velocity_commands
        noisy = dict.fromkeys([*self.observations, *disturbances.GO1_NOISE], 0)
        self.noise_scales = read_only(disturbances.as_noise_scales(noise_scales, noisy))
        self.pushes = pushes
        self.action_delay = action_delay
        self.action_scale = _action_scale(robot.articulation, action_scale)
        self.tracking_sigma = as_number(f"{name}: tracking_sigma", tracking_sigma, positive=True)
        self.max_foot_height = as_number(f"{name}: max_foot_height", max_foot_height, positive=True)
        self.least_reward = (
            -math.inf
            if least_reward == -math.inf
            else as_number(f"{name}: least_reward", least_reward)
        )
        self.lowest_up = as_number(f"{name}: lowest_up", lowest_up, -1, 1)

    def undisturbed(self) -> LeggedVelocity:
        """The task without noise, pushes, delays and randomisation, from the default pose at rest;
        for evaluation.
        """
        quiet = copy.copy(self)
        quiet.noise_scales, quiet.resets, quiet.pushes, quiet.action_delay = {}, {}, None, None
        quiet.curricula = {name: (1.0, function) for name, (_, function) in self.curricula.items()}
        quiet.randomization = ()
        return quiet

    def more_signals(self) -> tuple[str, ...]:
        """Names of signals besides :data:`SIGNALS`."""
        return (*self.curricula, *(() if self.gait_frequency is None else ("phase",)))

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Any]]:
        """Standing at a random place and heading, with a small random velocity and a random
        command.
        """
        start_key, command_key, other_key = random_numbers.split(key, 3)
        phase_key, lag_key = random_numbers.split(other_key)
        dtype = self.articulation.dtype
        command, remaining = commands.first_command(command_key, self.velocity_commands, dtype)
        memory: dict[str, Any] = {
            "command": command,
            "command_time_left": remaining,
            "last_action": jnp.zeros(self.action_size, dtype),
            "gait": Gait.standing(len(self.robot.feet), dtype),
            "mean_yaw_rate": jnp.zeros((), dtype),
        }
        if self.gait_frequency is not None:
            memory["phase"] = self._first_phase(phase_key)
        if self.curricula:
            memory["curricula"] = curricula.first(self.curricula, dtype)
            memory["command"] = self._first_size * command
        if self._has_history:
            memory["seen"] = {
                name: jnp.zeros((term.history, self._sizes[name]), dtype)
                for name, term in self.observations.items()
                if term.history > 1
            }
        if self.action_delay is not None:
            lag = actuators.random_lag(lag_key, *self.action_delay, self.physics_dt)
            most_steps = round(self.action_delay[1] / self.physics_dt)
            memory["delay"] = Delay.of(self.robot.default_position, most_steps=most_steps, lag=lag)
        still = starts.standing(self.articulation, self.robot.default_position, self.robot.height)
        return starts.varied(self.articulation, start_key, still, self.resets, self.ground), memory

    def begin_again(self, key: Array, ended: EnvState) -> tuple[artix.State, dict[str, Any]]:
        """As :meth:`begin`, with the curricula one episode further."""
        state, memory = self.begin(key)
        return state, memory | self.later(memory, ended)

    def later(self, memory: dict[str, Any], ended: EnvState) -> dict[str, Any]:
        """Entries of the memory of a new episode that the curricula change after the one that
        ended.
        """
        if not self.curricula:
            return {}
        levels = curricula.after(self.curricula, ended.info["curricula"], ended)
        changed: dict[str, Any] = {"curricula": levels}
        if "commands" in levels:
            changed["command"] = levels["commands"] / self._first_size * memory["command"]
        return changed

    @property
    def _first_size(self) -> float:
        """The size of the commands of new robots. It is never zero, since later episodes scale
        commands that :meth:`begin` has drawn in this size.
        """
        return max(self.curricula["commands"][0], 1e-6) if "commands" in self.curricula else 1.0

    def draw(self, key: Array) -> dict[str, Any]:
        """Noise, pushes, and a candidate for the next command."""
        dtype, keys = self.articulation.dtype, random_numbers.split(key, 3)
        pushes = (
            {}
            if self.pushes is None
            else {"push": disturbances.draw_push(keys[2], self.pushes, self.dt, dtype)}
        )
        return pushes | {
            "noise": disturbances.draw_noise(keys[0], self.noise_scales, self._measured, dtype),
            "command": commands.draw_command(keys[1], self.velocity_commands, dtype),
        }

    def _first_phase(self, key: Array) -> Array:
        """A phase to start at: any, so that first commands meet all; zero without resets."""
        uniform = random_numbers.uniform(key, 1, self.articulation.dtype)[0]
        return math.pi * (2 * uniform - 1) if self.resets else jnp.zeros_like(uniform)

    def disturb(self, state: artix.State, drawn: dict[str, Any]) -> artix.State:
        """Applies a push, in the few steps that have one."""
        return disturbances.pushed(state, drawn["push"]) if "push" in drawn else state

    def actuate(
        self,
        articulation: artix.Articulation,
        state: artix.State,
        memory: dict[str, Any],
        action: Array,
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
        target = (
            self.target(action) if self.action_delay is None else transition.memory["delay"].arrived
        )
        return observations.drive_forces(transition.articulation, transition.state, target)

    def outcome(self, transition: Transition) -> Outcome:
        """The weighted terms, and the gait and command for the next step."""
        memory = transition.memory
        rate = observations.angular_velocity(
            transition.articulation, transition.state, self.robot.imu
        )[2]
        mean_rate = memory["mean_yaw_rate"] + self.dt / MEAN_TIME * (rate - memory["mean_yaw_rate"])
        memory = memory | {"mean_yaw_rate": mean_rate}
        transition = transition.replace(memory=memory)
        gait, first_contact = self.gait(transition)
        signals = self.signals(transition, gait, first_contact)
        terminated = terminations.is_over(self.terminations, signals)
        terms = rewards.weighted_terms(self.rewards, signals | {"terminated": terminated})
        total = sum(terms.values(), jnp.zeros((), self.articulation.dtype))
        drawn = transition.drawn["command"]
        if "commands" in self.curricula:
            drawn = drawn._replace(value=memory["curricula"]["commands"] * drawn.value)
        command, remaining = commands.next_command(
            memory["command"], memory["command_time_left"], drawn, self.dt
        )
        changed = {
            "command": command,
            "command_time_left": remaining,
            "last_action": transition.action,
            "gait": gait.landed(),
        }
        if self.gait_frequency is not None:
            phase = memory["phase"] + 2 * math.pi * self.gait_frequency * self.dt
            changed["phase"] = jnp.where(phase < math.pi, phase, phase - 2 * math.pi)
        metrics = {f"reward/{name}": term for name, term in terms.items()}
        metrics |= {
            f"curricula/{name}": level for name, level in memory.get("curricula", {}).items()
        }
        apart = memory["command"] - jnp.append(
            signals["linear_velocity"][:2], signals["angular_velocity"][2]
        )
        # [m/s]; differentiable at zero
        metrics["velocity_error"] = jnp.sqrt(jnp.sum(apart[:2] ** 2) + 1e-12)
        metrics["yaw_rate_error"] = jnp.abs(apart[2])
        metrics["mean_yaw_rate_error"] = jnp.abs(memory["command"][2] - mean_rate)
        down = gait.contact.astype(self.articulation.dtype)
        metrics |= {f"duty/{foot}": down[k] for k, foot in enumerate(self.robot.feet)}
        return Outcome(
            jnp.maximum(total * self.dt, self.least_reward), terminated, memory | changed, metrics
        )

    def gait(self, transition: Transition) -> tuple[Gait, Array]:
        """The gait after a step, and which feet landed."""
        is_loaded = observations.in_contact(transition.impulse)
        contact = jnp.stack([jnp.any(is_loaded[rows]) for rows in self._contacts_of_feet])
        return transition.memory["gait"].moved(contact, self.feet_height(transition), self.dt)

    @functools.cached_property
    def _contacts_of_feet(self) -> list[np.ndarray]:
        assert self.ground is not None
        return observations.contacts_of_shapes(self.articulation, self.ground, self.robot.feet)

    def trunk_gap(self, transition: Transition) -> Array:
        """Smallest distance of the trunk's sensors from the ground [m], []."""
        index = observations.geometry_numbers(transition.articulation, self.robot.trunk)
        scene = artix.Scene(transition.articulation, ground=transition.ground)
        return jnp.min(artix.geometry_distances(scene, transition.state)[index])

    def feet_height(self, transition: Transition) -> Array:
        """Heights of the feet above the ground [m], [K]; for spheres, of their centres."""
        robot = transition.articulation
        index = observations.geometry_numbers(robot, self.robot.feet)
        distance = artix.geometry_distances(
            artix.Scene(robot, ground=transition.ground), transition.state
        )[index]
        topology: Any = robot.topology
        is_sphere = [topology.geometries[k].type is artix.GeometryType.SPHERE for k in index]
        return distance + jnp.where(np.array(is_sphere), robot.geometry.size[index, 0], 0)

    def height(self, transition: Transition) -> Array:
        """Height of the root above the ground [m], []."""
        origin = jnp.zeros((1, 2), self.articulation.dtype)
        return observations.height_scan(transition.ground, transition.state, origin)[0]

    def signals(self, transition: Transition, gait: Gait, first_contact: Array) -> dict[str, Any]:
        """The signals that terms can use, by name."""
        robot, state, memory = transition.articulation, transition.state, transition.memory
        imu, feet = self.robot.imu, self.robot.feet
        velocity = artix.frame_velocity(robot, state, imu, axes="world_aligned")
        soft_lower, soft_upper = rewards.soft_limits(robot)
        signals = {
            "command": memory["command"],
            "linear_velocity": observations.linear_velocity(robot, state, imu),
            "angular_velocity": observations.angular_velocity(robot, state, imu),
            "mean_yaw_rate": memory["mean_yaw_rate"],
            "world_linear_velocity": velocity[:3],
            "world_angular_velocity": velocity[3:],
            "up": observations.up_vector(robot, state, imu),
            "projected_gravity": observations.projected_gravity(robot, state, imu),
            "accelerometer": observations.accelerometer(
                robot, transition.before, state, self.physics_dt, imu
            ),
            "joint_position": state.joint_position,
            "joint_velocity": state.joint_velocity,
            "joint_force": self.joint_force(transition, transition.action),
            "default_position": self.robot.default_position,
            "soft_lower": soft_lower,
            "soft_upper": soft_upper,
            "pose_weight": self.robot.pose_weight,
            "action": transition.action,
            "last_action": memory["last_action"],
            "feet_velocity": observations.frame_velocities(robot, state, feet),
            "feet_height": self.feet_height(transition),
            "contact": gait.contact,
            "first_contact": first_contact,
            "height": self.height(transition),
            "target_height": self.robot.height,
            "trunk_gap": self.trunk_gap(transition),
            "lowest_up": self.lowest_up,
            "air_time": gait.air_time,
            "contact_time": gait.contact_time,
            "last_air_time": gait.last_air_time,
            "last_contact_time": gait.last_contact_time,
            "swing_peak": gait.swing_peak,
            "feet_group": self.feet_group,
            "tracking_sigma": self.tracking_sigma,
            "max_foot_height": self.max_foot_height,
        }
        signals |= {} if self.gait_frequency is None else {"phase": memory["phase"]}
        return signals | memory.get("curricula", {})

    @functools.cached_property
    def feet_group(self) -> np.ndarray:
        """Which of two groups each foot belongs to, which stand in turn, [K]: those of a trot, a
        tripod or a walk.
        """
        poses, topology = poses_at_zero(self.articulation), self.articulation.topology
        places = poses[[link_of(topology, foot) for foot in self.robot.feet], :3]
        group = np.zeros(len(places), int)
        for side in (0, 1):
            members = np.flatnonzero((places[:, 1] < 0) == side)
            rank = np.argsort(np.argsort(-places[members, 0], kind="stable"))
            group[members] = (rank + side) % 2
        return group

    # What is observed.

    @property
    def _has_history(self) -> bool:
        return any(term.history > 1 for term in self.observations.values())

    @property
    def _sizes(self) -> dict[str, int]:
        """Length of each term that the policy sees, at one time."""
        return self._sizes_of_terms[0]

    @functools.cached_property
    def _sizes_of_terms(self) -> list[dict[str, int]]:
        """Lengths of the terms that the policy sees, and of those that a critic sees besides."""
        zeros = functools.partial(jnp.zeros, dtype=self.articulation.dtype)

        def terms() -> list[dict[str, Array]]:
            state = starts.standing(
                self.articulation, self.robot.default_position, self.robot.height
            )
            gait = Gait.standing(len(self.robot.feet), self.articulation.dtype)
            action = zeros(self.action_size)
            memory = {"command": zeros(3), "last_action": action, "gait": gait, "phase": zeros(())}
            memory["mean_yaw_rate"] = zeros(())
            memory["curricula"] = curricula.first(self.curricula, self.articulation.dtype)
            if self.action_delay is not None:
                memory["delay"] = Delay.of(self.robot.default_position, most_steps=0)
            assert self._no_contacts is not None
            impulse = self._no_contacts.impulse
            robot, ground = self.articulation, self.ground
            transition = Transition(robot, ground, state, state, impulse, memory, action, None)
            signals = self._observed_signals(transition)
            both = self.observations, self.privileged
            return [observation_terms.evaluate(each, signals) for each in both]

        shapes = jax.eval_shape(terms)
        return [{name: len(value) for name, value in each.items()} for each in shapes]

    @functools.cached_property
    def _measured(self) -> dict[str, int]:
        """Lengths of the terms with noise."""
        noisy = {*disturbances.GO1_NOISE, *self.noise_scales}
        return {name: self._sizes[name] for name in self.observations if name in noisy}

    @property
    def layout(self) -> tuple[Entry, ...]:
        """Where the terms are in what the policy sees, ``obs["state"]``."""
        return observation_terms.layout(self.observations, self._sizes)

    def _observed_signals(self, transition: Transition) -> dict[str, Any]:
        memory = transition.memory
        seen = transition.replace(action=memory["last_action"])
        return self.signals(seen, memory["gait"], jnp.zeros(len(self.robot.feet), bool))

    def _noisy(self, transition: Transition, signals: Mapping[str, Any]) -> dict[str, Array]:
        """What the policy sees now, by name, with noise and scale."""
        drawn, values = (
            transition.drawn["noise"],
            observation_terms.evaluate(self.observations, signals),
        )
        noisy = {
            name: value + drawn[name] if name in drawn else value for name, value in values.items()
        }
        return {
            name: _scaled(value, self.observations[name].scale) for name, value in noisy.items()
        }

    def remember(self, transition: Transition, *, is_first: bool) -> dict[str, Any]:
        """The history of what the policy sees; at a reset, the first observation fills it."""
        if not self._has_history:
            return {}
        noisy, seen = (
            self._noisy(transition, self._observed_signals(transition)),
            transition.memory["seen"],
        )
        return {
            "seen": {
                name: jnp.broadcast_to(noisy[name], past.shape)
                if is_first
                else jnp.concatenate([noisy[name][None], past[:-1]])
                for name, past in seen.items()
            }
        }

    def observe(self, transition: Transition) -> dict[str, Array]:
        """Noisy measurements for the policy, and everything for a critic."""
        signals = self._observed_signals(transition)
        noisy = self._noisy(transition, signals)
        if self._has_history:
            noisy |= {name: past.reshape(-1) for name, past in transition.memory["seen"].items()}
        seen = jnp.concatenate([*noisy.values()])
        known = observation_terms.evaluate(self.privileged, signals)
        more = [_scaled(value, self.privileged[name].scale) for name, value in known.items()]
        return {"state": seen, "privileged_state": jnp.concatenate([seen, *more])}

    # In the mirror.

    @functools.cached_property
    def mirror(self) -> dict[str, Any] | None:
        """How the robot's mirror image acts and observes; ``None`` if :attr:`asymmetry` says why it
        has none.
        """
        return None if self.asymmetry else self._mirrors

    @functools.cached_property
    def asymmetry(self) -> str:
        """Why the task has no mirror symmetry; empty if it has."""
        try:
            self._mirrors  # noqa: B018, an attribute that is computed
        except ValueError as error:
            return str(error)
        return ""

    @functools.cached_property
    def _mirrors(self) -> dict[str, Any]:
        robot = symmetry.find_mirror(self.articulation, self.robot.feet)
        pose, scale = (
            np.asarray(each, float) for each in (self.robot.default_position, self.action_scale)
        )
        scale = np.broadcast_to(scale, pose.shape)
        permutation, sign = robot.joints
        apart = np.abs(pose - sign * pose[permutation])
        if apart.max() > 0.05 or not np.allclose(scale, scale[permutation], rtol=0.05):
            worst = self.articulation.topology.dof_names[int(apart.argmax())]
            apart = f"by {apart.max():.3g} rad at {worst!r}"
            raise ValueError(f"the default pose, {apart}, or the action scale is not symmetric")
        mirrors = {"action": robot.joints, "state": self._reflected(self.layout, robot)}
        known = self._reflected(
            observation_terms.layout(self.privileged, self._sizes_of_terms[1]), robot
        )
        size = len(mirrors["state"].sign)
        both = [
            np.concatenate(parts)
            for parts in zip(mirrors["state"], (known[0] + size, known[1]), strict=True)
        ]
        return mirrors | {"privileged_state": symmetry.SignedPermutation(*both)}

    def _reflected(
        self, entries: Sequence[Entry], robot: symmetry.Mirror
    ) -> symmetry.SignedPermutation:
        permutations, signs = [np.zeros(0, int)], [np.zeros(0)]  # There may be no entries.
        for one in entries:
            permutation, sign = observation_terms.reflection(
                one.name, one.mirror, one.size, robot.joints, robot.feet
            )
            for past in range(one.history):
                permutations.append(permutation + one.start + past * one.size)
                signs.append(sign)
        return symmetry.SignedPermutation(np.concatenate(permutations), np.concatenate(signs))


def _action_scale(robot: artix.Articulation, value: PerJoint) -> Any:
    """One number, or one for each joint as an array in the robot's dtype."""
    if not isinstance(value, Mapping) and np.ndim(np.asarray(value)) == 0:
        return as_number("action_scale", value)
    return jnp.asarray(per_joint(robot, "action_scale", value), robot.dtype)


def _scaled(value: Array, scale: float) -> Array:
    return value if scale == 1.0 else scale * value


def solver_options(robot: LeggedRobot, usual: artix.SolverOptions) -> artix.SolverOptions:
    """The options of a task for a robot: at most four contacts between a foot and a surface, and
    one of a foot that is a ball, since bumps of terrain are larger than feet.
    """
    topology: Any = robot.articulation.topology
    most = max(
        topology.geometries[topology.geometry_index(foot)].num_candidates for foot in robot.feet
    )
    return dataclasses.replace(usual, max_contacts_per_geometry=min(most, 4))
