"""A robot that imitates a reference motion, and the humanoid that dances."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs import disturbances, observations, random_numbers, rewards, starts
from artix.envs.control_step import Outcome, Transition
from artix.envs.environment import Environment
from artix.envs.legged_robot import LeggedRobot, PerJoint, per_joint
from artix.envs.motion import Motion
from artix.envs.randomization import Change
from artix.envs.rewards import check_weights
from artix.envs.tasks.humanoid import ACTION_SCALE, SOLVER_OPTIONS, humanoid
from artix.envs.tasks.legged import solver_options as options_for
from artix.envs.terms import check_known, read_only
from artix.math.arrays import square_root
from artix.model.checks import as_number

Array = jax.Array


def joints(joint_error: Array) -> Array:
    """``exp(-mean(e^2) / (0.2 rad)^2)`` of the joint positions."""
    return jnp.exp(-jnp.mean(joint_error**2) / 0.2**2)


def joint_speeds(joint_velocity_error: Array) -> Array:
    """``exp(-mean(e^2) / (1.5 rad/s)^2)`` of the joint velocities."""
    return jnp.exp(-jnp.mean(joint_velocity_error**2) / 1.5**2)


def points(point_error: Array) -> Array:
    """``exp(-mean(|e|^2) / (0.1 m)^2)`` of hands, feet and head relative to the root."""
    return jnp.exp(-jnp.mean(jnp.sum(point_error**2, axis=1)) / 0.1**2)


def root_position(root_error: Array) -> Array:
    """``exp(-|e|^2 / (0.15 m)^2)`` of the root's position."""
    return jnp.exp(-jnp.sum(root_error**2) / 0.15**2)


def root_turn(turn_error: Array) -> Array:
    """``exp(-|e|^2 / (0.3 rad)^2)`` of the root's orientation."""
    return jnp.exp(-jnp.sum(turn_error**2) / 0.3**2)


def root_speed(root_velocity_error: Array) -> Array:
    """``exp(-|e|^2)`` of the root's velocity, with errors in units of 0.5 m/s and 1.5 rad/s."""
    linear, angular = root_velocity_error[:3] / 0.5, root_velocity_error[3:] / 1.5
    return jnp.exp(-jnp.sum(linear**2) - jnp.sum(angular**2))


#: The terms of the reward and their weights, modelled on DeepMimic and BeyondMimic.
REWARDS: rewards.Weights = {
    "joints": (1.0, joints),
    "joint_speeds": (0.25, joint_speeds),
    "points": (0.75, points),
    "root_position": (0.75, root_position),
    "root_turn": (0.5, root_turn),
    "root_speed": (0.25, root_speed),
    "action_rate": -0.01,
    "dof_pos_limits": -1.0,
}

#: The signals that rewards can use.
SIGNALS = (
    *(
        "joint_error",
        "joint_velocity_error",
        "point_error",
        "root_error",
        "turn_error",
        "root_velocity_error",
    ),
    *(
        "joint_position",
        "joint_velocity",
        "joint_force",
        "action",
        "last_action",
        "soft_lower",
        "soft_upper",
        "up",
    ),
)

#: An episode ends where the root is further from the motion [m], turned further from it [rad], or
#: where the mean distance of hands, feet and head from theirs is larger [m].
LARGEST_ERRORS = {"root": 0.4, "turn": 1.0, "points": 0.3}

#: How the state of the motion varies at the start.
RESETS: starts.Resets = {"velocity": 0.2, "tilt": 0.03, "joint_position": 0.05}

#: The links whose positions count besides the joints, of artix's humanoid.
POINTS = ("head", "left_hand", "right_hand", "left_sole", "right_sole")


class Imitation(Environment):
    """A robot with feet on level ground imitates a motion, like DeepMimic's and BeyondMimic's.

    An action moves the drive targets away from the joint positions of the motion's next frame, by
    ``action_scale`` radians for an action of 1. Episodes start anywhere in the motion and end when
    the robot is too far from it; a motion that loops goes on until time runs out. The observation
    [17 + 5 n] has the IMU's linear velocity, its gyro and the direction of gravity; joint positions
    relative to the default pose, joint velocities and the last action; joint positions (relative to
    the default pose) and velocities of the motion's next frame; the errors of the root's position
    [m] and orientation [rad] in the robot's axes; and the time within the motion as a cosine and a
    sine. Velocities of joints are scaled by 0.1.

    Peng et al., *DeepMimic* (arXiv 1804.02717); Liao et al., *BeyondMimic* (arXiv 2508.08241).

    Args:
      robot: any robot with feet (:meth:`artix.envs.LeggedRobot.of`).
      motion: the motion, of the same robot; it is resampled to the control rate.
      name: name of the task.
      points: links or frames whose positions count besides the joints.
      rewards: terms and weights, see :func:`artix.envs.rewards.weighted_terms`; those of DeepMimic
        if ``None``.
      largest_errors: where an episode ends, as :data:`LARGEST_ERRORS`.
      resets: how starts vary, see :func:`artix.envs.starts.varied`; ``{}`` for the motion itself.
      pushes: how the robot is pushed; ``None`` for no pushes.
      action_scale: how far an action of 1 moves a target [rad]: one number, one for each joint, or
        numbers by the ends of the joints' names.
      ground: the ground; level with friction 0.8 by default.
      solver_options: options of the physics steps.
      randomization: which parameters of the robot and the ground are randomised.
      dt: control period [s].
      physics_dt: physics step [s].
      episode_length: number of control steps.

    Raises:
      ValueError: the motion has other joints than the robot, or an option does not exist or is out
        of range.
      KeyError: there is no frame of a name.

    Examples:
      >>> from artix import envs
      >>> dance = envs.make("humanoid_dance")
      >>> slowly = dance.motion.replace(rate=25.0).resampled(dance.articulation, 50.0)
      >>> task = envs.Imitation(dance.robot, slowly, points=("left_hand", "right_hand"))
      >>> print(task.motion.length)
      16.0
    """

    def __init__(
        self,
        robot: LeggedRobot,
        motion: Motion,
        *,
        name: str = "imitation",
        points: Sequence[str] = (),
        rewards: rewards.Weights | None = None,
        largest_errors: Mapping[str, float] = LARGEST_ERRORS,
        resets: starts.Resets = RESETS,
        pushes: disturbances.Pushes | None = None,
        action_scale: PerJoint = 0.5,
        ground: artix.Ground | None = None,
        solver_options: artix.SolverOptions | None = None,
        randomization: Sequence[Change] = (),
        dt: float = 0.02,
        physics_dt: float = 0.004,
        episode_length: int = 500,
    ) -> None:
        articulation = robot.articulation
        if motion.joint_names != tuple(articulation.topology.dof_names):
            raise ValueError(
                f"{name}: the motion's joints are not the robot's; Motion.load(path, "
                "articulation) sorts them"
            )
        usual = (
            options_for(robot, artix.SolverOptions()) if solver_options is None else solver_options
        )
        super().__init__(
            name,
            articulation,
            action_size=articulation.topology.num_dofs,
            dt=dt,
            physics_dt=physics_dt,
            episode_length=episode_length,
            ground=artix.Ground.flat(friction=0.8, dtype=articulation.dtype)
            if ground is None
            else ground,
            solver_options=usual,
            randomization=randomization,
        )
        rewards = REWARDS if rewards is None else rewards
        check_weights(rewards, SIGNALS)
        for key in largest_errors:
            check_known("largest_errors", key, LARGEST_ERRORS, "nothing else")
        if pushes is not None:
            disturbances.check_pushes(pushes)
        self.robot = robot
        self.motion = motion if motion.rate * dt == 1 else motion.resampled(articulation, 1 / dt)
        self.points = tuple(points)
        self.rewards = read_only(rewards)
        errors = {
            key: as_number(f"largest_errors: {key}", each) for key, each in largest_errors.items()
        }
        self.largest_errors = read_only(errors)
        self.resets = read_only(starts.check_resets(resets))
        self.pushes = pushes
        self.action_scale = jnp.asarray(
            per_joint(articulation, "action_scale", action_scale), articulation.dtype
        )
        self._places = _places(articulation, self.motion, self.points)

    def undisturbed(self) -> Imitation:
        """The task without pushes and randomisation, from the first frame of the motion; for
        evaluation.
        """
        quiet = copy.copy(self)
        quiet.resets, quiet.pushes, quiet.randomization = {}, None, ()
        return quiet

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Any]]:
        """In the state of any frame of the motion, or of the first one if nothing varies."""
        frame_key, start_key = random_numbers.split(key)
        dtype = self.articulation.dtype
        frame = jnp.zeros((), jnp.int32)
        if self.resets:
            share = random_numbers.uniform(frame_key, 1, dtype)[0]
            frame = jnp.minimum(
                (share * self.motion.num_frames).astype(jnp.int32), self.motion.num_frames - 1
            )
        start = starts.varied(
            self.articulation, start_key, self.motion.state(frame), self.resets, self.ground
        )
        return start, {
            "frame": frame,
            "target": start.joint_position,
            "last_action": jnp.zeros(self.action_size, dtype),
        }

    def draw(self, key: Array) -> dict[str, Any]:
        """Pushes."""
        if self.pushes is None:
            return {}
        return {"push": disturbances.draw_push(key, self.pushes, self.dt, self.articulation.dtype)}

    def disturb(self, state: artix.State, drawn: dict[str, Any]) -> artix.State:
        """Applies a push, in the few steps that have one."""
        return disturbances.pushed(state, drawn["push"]) if "push" in drawn else state

    def prepare(self, state: artix.State, memory: dict[str, Any], action: Array) -> dict[str, Any]:
        """Goes on to the next frame, and sets the drive targets."""
        frame = self._after(memory["frame"])
        return memory | {
            "frame": frame,
            "target": self.motion.joint_position[frame] + self.action_scale * action,
        }

    def actuate(
        self,
        articulation: artix.Articulation,
        state: artix.State,
        memory: dict[str, Any],
        action: Array,
    ) -> tuple[artix.Control, dict[str, Any]]:
        """The drive targets."""
        return artix.Control(drive_target=memory["target"]), memory

    def outcome(self, transition: Transition) -> Outcome:
        """The weighted terms."""
        memory, signals = transition.memory, self.signals(transition)
        terms = rewards.weighted_terms(self.rewards, signals)
        total = sum(terms.values(), jnp.zeros((), self.articulation.dtype))
        errors = {
            name: square_root(jnp.sum(signals[f"{name}_error"] ** 2)) for name in ("root", "turn")
        }
        apart = square_root(jnp.sum(signals["point_error"] ** 2, axis=1))
        errors["points"] = jnp.sum(apart) / max(len(self.points), 1)
        too_far = [errors[name] > largest for name, largest in self.largest_errors.items()]
        terminated = functools.reduce(jnp.logical_or, too_far, jnp.array(False))
        metrics = {f"reward/{name}": term for name, term in terms.items()}
        metrics |= {f"{name}_error": error for name, error in errors.items()}
        metrics["joint_error"] = square_root(jnp.mean(signals["joint_error"] ** 2))
        return Outcome(
            total * self.dt, terminated, memory | {"last_action": transition.action}, metrics
        )

    def signals(self, transition: Transition) -> dict[str, Any]:
        """The signals that rewards can use, by name: errors are those of the robot minus those of
        the motion.
        """
        robot, state, memory = transition.articulation, transition.state, transition.memory
        aim = self.motion.state(memory["frame"])
        change = artix.difference(self.articulation, aim, state)
        here = [artix.frame_pose(robot, state, point)[:3] for point in self.points]
        apart = (
            jnp.stack(here) - state.root_pose[:3] - self._places[memory["frame"]]
            if here
            else jnp.zeros((0, 3))
        )
        soft_lower, soft_upper = rewards.soft_limits(robot)
        return {
            "joint_error": change[6:],
            "joint_velocity_error": state.joint_velocity - aim.joint_velocity,
            "point_error": apart,
            "root_error": state.root_pose[:3] - aim.root_pose[:3],
            "turn_error": change[3:6],
            "root_velocity_error": state.root_velocity - aim.root_velocity,
            "joint_position": state.joint_position,
            "joint_velocity": state.joint_velocity,
            "joint_force": observations.drive_forces(robot, state, memory["target"]),
            "action": transition.action,
            "last_action": memory["last_action"],
            "soft_lower": soft_lower,
            "soft_upper": soft_upper,
            "up": observations.up_vector(robot, state, self.robot.imu),
        }

    def observe(self, transition: Transition) -> Array:
        """What the IMU and the joints measure, what the motion does next, and how far the robot is
        from it.
        """
        robot, state, memory, imu = (
            transition.articulation,
            transition.state,
            transition.memory,
            self.robot.imu,
        )
        aim, after = self.motion.state(memory["frame"]), self._after(memory["frame"])
        change = artix.difference(self.articulation, aim, state)
        axes = observations.rotation(robot, state, robot.topology.link_names[0])
        phase = 2 * np.pi / self.motion.num_frames * memory["frame"].astype(robot.dtype)
        rest = self.robot.default_position
        return jnp.concatenate(
            [
                observations.linear_velocity(robot, state, imu),
                observations.angular_velocity(robot, state, imu),
                observations.projected_gravity(robot, state, imu),
                state.joint_position - rest,
                0.1 * state.joint_velocity,
                memory["last_action"],
                self.motion.joint_position[after] - rest,
                0.1 * self.motion.joint_velocity[after],
                axes.T @ (state.root_pose[:3] - aim.root_pose[:3]),
                axes.T @ change[3:6],
                jnp.stack([jnp.cos(phase), jnp.sin(phase)]),
            ]
        )

    def _after(self, frame: Array) -> Array:
        """The frame that follows."""
        last = self.motion.num_frames - 1
        return jnp.where(frame < last, frame + 1, 0 if self.motion.loops else last)


class HumanoidDance(Imitation):
    """artix's humanoid dances for eight seconds, again and again: it sways, lifts its feet and
    squats.

    The motion is made by :mod:`artix.examples.dance`. The observation [142] is that of
    :class:`Imitation`.

    Args:
      motion: another motion of the humanoid, or its file.
      dtype: floating-point type; JAX's default when ``None``.
      **options: as for :class:`Imitation`.

    Raises:
      ValueError: as :class:`Imitation`.

    Examples:
      >>> from artix import envs
      >>> environment = envs.make("humanoid_dance")
      >>> print(environment.action_size, environment.motion.length)
      25 8.0
    """

    def __init__(
        self, *, motion: Motion | str | Path | None = None, dtype: Any = None, **options: Any
    ) -> None:
        robot = humanoid(dtype)
        if not isinstance(motion, Motion):
            shipped = resources.files("artix.envs").joinpath("motions/humanoid_dance.npz")
            with resources.as_file(shipped) as file:
                motion = Motion.load(file if motion is None else motion, robot.articulation)
        usual: dict[str, Any] = {"points": POINTS, "action_scale": ACTION_SCALE}
        usual["solver_options"] = options_for(robot, SOLVER_OPTIONS)
        super().__init__(robot, motion, name="humanoid_dance", **(usual | options))


def _places(articulation: artix.Articulation, motion: Motion, points: Sequence[str]) -> Array:
    """Places of points relative to the root in world axes, at each frame [m], [T, K, 3]."""
    if not points:
        return jnp.zeros((motion.num_frames, 0, 3), articulation.dtype)

    def at(state: artix.State) -> Array:
        return (
            jnp.stack([artix.frame_pose(articulation, state, point)[:3] for point in points])
            - state.root_pose[:3]
        )

    return jax.jit(jax.vmap(at))(motion.state(np.arange(motion.num_frames)))
