"""An arm that moves its tool to a target pose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

import artix
from artix.envs import observations, rewards
from artix.envs.control_step import Outcome, Transition
from artix.envs.environment import Environment
from artix.envs.randomization import Change
from artix.envs.rewards import check_weights
from artix.envs.terms import read_only
from artix.math.arrays import square_root, with_entries
from artix.math.random_keys import quick
from artix.model.checks import as_number

Array = jax.Array


def near(distance: Array) -> Array:
    """``1 - tanh(distance / 0.2 m)``: guides the tool from far away."""
    return 1 - jnp.tanh(distance / 0.2)


def at_target(distance: Array) -> Array:
    """``1 - tanh(distance / 0.03 m)``: holds the tool at the target."""
    return 1 - jnp.tanh(distance / 0.03)


def misaligned(alignment: Array) -> Array:
    """``(1 - cos angle) / 2`` of the remaining rotation."""
    return 0.5 * (1 - alignment)


#: The reward terms and their weights.
REWARDS: rewards.Weights = {
    "near": (0.5, near),
    "at_target": (1.0, at_target),
    "misaligned": (-0.5, misaligned),
    "action_rate": -0.005,
    "dof_vel": -0.002,
}

#: The signals that rewards can use.
SIGNALS = ("distance", "alignment", "joint_position", "joint_velocity", "action", "last_action")


class ArmReach(Environment):
    """A seven-joint arm moves the frame ``"tool"`` to a random reachable pose and holds it there.

    The action moves the drive targets, by at most ``action_scale`` radians per control step. The
    observation [43] has joint positions and velocities, the distance of the drive targets from the
    positions, the tool's position and the vector to the target in world axes [m], the tool's x and
    y axes in the target's axes (six numbers, (1, 0, 0, 0, 1, 0) at the target), the target's
    position, and the last action. As in Isaac Lab's reach tasks, the arm is simulated without
    gravity, as if its motors compensated for it. Each episode has its own target and ends only when
    time runs out.

    Args:
      rewards: terms and weights, see :func:`artix.envs.rewards.weighted_terms`. The signals are
        ``distance`` [m], ``alignment`` (the cosine of the remaining angle), ``joint_position``,
        ``joint_velocity``, ``action`` and ``last_action``.
      action_scale: how far an action of 1 moves a target in one control step [rad].
      spread: fraction of the joint ranges from which start and target positions are drawn.
      episode_length: number of control steps of 40 ms.
      dtype: floating-point type; JAX's default if ``None``.
      randomization: which parameters of the robot are randomised, see :class:`artix.envs.Change`.

    Raises:
      ValueError: a reward or a leaf to randomise does not exist (the message lists the valid
        names), the scale is not finite, or the spread is outside [0, 1].

    Examples:
      >>> from artix import envs
      >>> environment = envs.make("arm_reach")
      >>> environment.observation_size, environment.action_size
      (43, 7)
    """

    def __init__(
        self,
        *,
        rewards: rewards.Weights = REWARDS,
        action_scale: float = 0.08,
        spread: float = 0.5,
        episode_length: int = 100,
        dtype: Any = None,
        randomization: Sequence[Change] = (),
    ) -> None:
        robot = artix.robots.load("arm7", dtype=dtype)
        drive = robot.drive.replace(
            stiffness=with_entries(robot.drive.stiffness, ..., 300.0),
            damping=with_entries(robot.drive.damping, ..., 30.0),
            max_force=robot.max_joint_force,
        )
        robot = robot.replace(
            drive=drive, gravity_scale=with_entries(robot.gravity_scale, ..., 0.0)
        )
        super().__init__(
            "arm_reach",
            robot,
            action_size=7,
            dt=0.04,
            physics_dt=0.01,
            episode_length=episode_length,
            randomization=randomization,
        )
        check_weights(rewards, SIGNALS)
        self.rewards = read_only(rewards)
        self.action_scale = as_number("action_scale", action_scale)
        self.spread = as_number("spread", spread, 0, 1)

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Any]]:
        """At rest in a random pose, with a reachable target."""
        robot = self.articulation
        lower, upper = robot.joint_lower_limit, robot.joint_upper_limit
        uniform = self.spread * (jax.random.uniform(quick(key), (2, 7), robot.dtype) - 0.5)
        start, goal = 0.5 * (lower + upper) + (upper - lower) * uniform
        state = artix.neutral_state(robot)
        target = artix.frame_pose(robot, state.replace(joint_position=goal), "tool")
        memory = {"target": target, "drive_target": start, "last_action": jnp.zeros(7, robot.dtype)}
        return state.replace(joint_position=start), memory

    def prepare(self, state: artix.State, memory: dict[str, Any], action: Array) -> dict[str, Any]:
        """Moves the drive targets."""
        robot = self.articulation
        moved = memory["drive_target"] + self.action_scale * action
        return memory | {
            "drive_target": jnp.clip(moved, robot.joint_lower_limit, robot.joint_upper_limit)
        }

    def actuate(
        self,
        articulation: artix.Articulation,
        state: artix.State,
        memory: dict[str, Any],
        action: Array,
    ) -> tuple[artix.Control, dict[str, Any]]:
        """The drive targets."""
        return artix.Control(drive_target=memory["drive_target"]), memory

    def outcome(self, transition: Transition) -> Outcome:
        """The weighted terms."""
        state, memory = transition.state, transition.memory
        way, turn = _to_target(transition)
        distance = square_root(jnp.sum(way**2))
        alignment = 0.5 * (jnp.trace(turn) - 1)
        signals = {
            "distance": distance,
            "alignment": alignment,
            "joint_position": state.joint_position,
            "joint_velocity": state.joint_velocity,
            "action": transition.action,
            "last_action": memory["last_action"],
        }
        terms = rewards.weighted_terms(self.rewards, signals)
        total = sum(terms.values(), jnp.zeros((), self.articulation.dtype))
        metrics = {f"reward/{name}": term for name, term in terms.items()}
        metrics |= {"distance": distance, "alignment": alignment}
        return Outcome(
            total * self.dt, jnp.array(False), memory | {"last_action": transition.action}, metrics
        )

    def observe(self, transition: Transition) -> Array:
        """The state of the arm, and the remaining distance and rotation to its target."""
        robot, state, memory = transition.articulation, transition.state, transition.memory
        way, turn = _to_target(transition)
        tool = artix.frame_pose(robot, state, "tool")[:3]
        ahead = memory["drive_target"] - state.joint_position
        return jnp.concatenate(
            [
                *(
                    state.joint_position,
                    state.joint_velocity,
                    ahead,
                    tool,
                    way,
                    turn[:, 0],
                    turn[:, 1],
                ),
                *(memory["target"][:3], memory["last_action"]),
            ]
        )


def _to_target(transition: Transition) -> tuple[Array, Array]:
    """The vector from the tool to its target in world axes [m], [3], and the tool's axes in the
    target's, [3, 3].
    """
    robot, state, target = transition.articulation, transition.state, transition.memory["target"]
    way = target[:3] - artix.frame_pose(robot, state, "tool")[:3]
    return way, observations.rotation_of(target[3:]).T @ observations.rotation(robot, state, "tool")
