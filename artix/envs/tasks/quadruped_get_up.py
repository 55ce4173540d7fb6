"""A quadruped that gets up after a fall."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs import disturbances, observations, random_numbers, rewards, starts, symmetry
from artix.envs.control_step import Outcome, Transition
from artix.envs.environment import Environment
from artix.envs.observation_terms import reflection
from artix.envs.randomization import Change
from artix.envs.rewards import check_weights
from artix.envs.tasks.quadruped_velocity import FEET, HEIGHT, quadruped
from artix.envs.terms import read_only
from artix.math.random_keys import quick
from artix.model.checks import as_number

Array = jax.Array


def upright(projected_gravity: Array) -> Array:
    """``exp(-2 |error|^2)`` of the direction of gravity in the trunk's axes."""
    return jnp.exp(-2 * _off_upright(projected_gravity))


def torso_height(height: Array, target_height: float) -> Array:
    """``exp(height) - 1``, capped at the standing height."""
    return jnp.expm1(jnp.minimum(height, target_height))


def posture(projected_gravity: Array, joint_position: Array, default_position: Array) -> Array:
    """``exp(-0.5 |distance|^2)`` to the default pose, once the trunk is upright."""
    near = jnp.exp(-0.5 * jnp.sum((joint_position - default_position) ** 2))
    return jnp.where(_off_upright(projected_gravity) < 0.01, near, 0)


def rest(projected_gravity: Array, height: Array, target_height: float, action: Array) -> Array:
    """``exp(-0.5 |action|^2)``, once the trunk is upright and within 5 mm of the standing
    height.
    """
    stands = (_off_upright(projected_gravity) < 0.01) & (height > target_height - 0.005)
    return jnp.where(stands, jnp.exp(-0.5 * jnp.sum(action**2)), 0)


def jerky_action(action: Array, last_action: Array, action_before_last: Array) -> Array:
    """Squared first and second differences of the action."""
    first, second = action - last_action, action - 2 * last_action + action_before_last
    return jnp.sum(first**2) + jnp.sum(second**2)


def fast_joints(joint_velocity: Array) -> Array:
    """Squared joint velocities in excess of one turn per second."""
    return jnp.sum(jnp.maximum(jnp.abs(joint_velocity) - 2 * jnp.pi, 0) ** 2)


def _off_upright(projected_gravity: Array) -> Array:
    return jnp.sum(projected_gravity[:2] ** 2) + (projected_gravity[2] + 1) ** 2


#: The terms of the reward and their weights: Playground's Go1 get-up.
REWARDS: rewards.Weights = {
    "upright": (1.0, upright),
    "torso_height": (1.0, torso_height),
    "posture": (1.0, posture),
    "rest": (1.0, rest),
    "jerky_action": (-0.001, jerky_action),
    "dof_pos_limits": -0.1,
    "torques": -1e-5,
    "dof_acc": -2.5e-7,
    "fast_joints": (-0.1, fast_joints),
}

#: The signals that rewards can use.
SIGNALS = (
    *(
        "projected_gravity",
        "height",
        "target_height",
        "joint_position",
        "joint_velocity",
        "joint_acceleration",
    ),
    *(
        "joint_force",
        "default_position",
        "soft_lower",
        "soft_upper",
        "action",
        "last_action",
        "action_before_last",
    ),
)

#: The trunk has contacts at its four lowest corners. All robots of a vector wait for the slowest,
#: and one that tumbles can need many Newton steps, which training need not wait for.
SOLVER_OPTIONS = artix.SolverOptions(max_contacts_per_geometry=4, max_newton_steps=8)


class QuadrupedGetUp(Environment):
    """A quadruped gets up from any pose and stands: Playground's Go1 get-up with artix's quadruped.

    Three of five episodes begin with a random orientation and random joint positions, just above
    the ground; the others begin in the default pose. ``metrics["stands"]`` is 1 while the trunk is
    within 18 degrees of upright and at 85 % of the standing height or more. Trunk, knees and feet
    can touch the ground. The action sets the drive targets relative to the current joint positions,
    with ``action_scale`` radians for an action of 1. The observation has two parts. ``"state"``
    [42] has gyro, projected gravity, joint positions (relative to the default pose) and velocities,
    all with noise, then the last action. ``"privileged_state"`` [107] has all of that, followed by
    noise-free gyro, accelerometer, linear velocity, angular velocity in world axes, joint positions
    and velocities, drive forces, height, and which contacts carry load. Episodes end only when time
    runs out.

    Args:
      rewards: terms and weights, see :func:`artix.envs.rewards.weighted_terms`.
      noise_scales: largest errors of ``gyro``, ``gravity``, ``joint_position`` and
        ``joint_velocity``.
      chance_of_fall: fraction of the episodes that begin fallen.
      action_scale: how far an action of 1 moves a target [rad].
      episode_length: number of control steps of 20 ms.
      dtype: floating-point type; JAX's default when ``None``.
      randomization: which parameters of robot and ground are randomised, see
        :class:`artix.envs.Change`.

    Raises:
      ValueError: a reward, measurement or leaf does not exist (the message lists the valid names),
        or a number is out of range or not finite.

    Examples:
      >>> from artix import envs
      >>> envs.make("quadruped_get_up").episode_length
      300
    """

    def __init__(
        self,
        *,
        rewards: rewards.Weights = REWARDS,
        noise_scales: Mapping[str, float] | None = None,
        chance_of_fall: float = 0.6,
        action_scale: float = 0.5,
        episode_length: int = 300,
        dtype: Any = None,
        randomization: Sequence[Change] = (),
    ) -> None:
        robot = quadruped(dtype)
        self.default_position = robot.default_position
        articulation = with_body(robot.articulation)
        super().__init__(
            "quadruped_get_up",
            articulation,
            action_size=12,
            dt=0.02,
            physics_dt=0.004,
            episode_length=episode_length,
            ground=artix.Ground.flat(friction=0.8, dtype=articulation.dtype),
            solver_options=SOLVER_OPTIONS,
            randomization=randomization,
        )
        self._measured = {"gyro": 3, "gravity": 3, "joint_position": 12, "joint_velocity": 12}
        known = {
            name: scale for name, scale in disturbances.GO1_NOISE.items() if name in self._measured
        }
        wanted = known if noise_scales is None else noise_scales
        self.noise_scales = read_only(disturbances.as_noise_scales(wanted, self._measured))
        check_weights(rewards, SIGNALS)
        self.rewards = read_only(rewards)
        self.chance_of_fall = as_number("chance_of_fall", chance_of_fall, 0, 1)
        self.action_scale = as_number("action_scale", action_scale)

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Any]]:
        """Fallen just above the ground, or standing."""
        robot, keys = self.articulation, random_numbers.split(key, 3)
        uniform = random_numbers.uniform(keys[0], 19, robot.dtype)
        lower, upper = robot.joint_lower_limit, robot.joint_upper_limit
        falls = uniform[0] < self.chance_of_fall
        joints = jnp.where(falls, lower + (upper - lower) * uniform[1:13], self.default_position)
        level = jnp.array([0, 0, 0, 1], robot.dtype)
        normal = jax.random.normal(quick(keys[1]), (4,), robot.dtype)
        turned = jnp.where(falls, normal * jax.lax.rsqrt(jnp.sum(normal**2) + 1e-12), level)
        pose = jnp.concatenate([jnp.zeros(3, robot.dtype), turned])
        state = artix.neutral_state(robot).replace(root_pose=pose, joint_position=joints)
        assert self.ground is not None
        height = starts.on_ground(robot, state, self.ground, 0.01)
        state = state.replace(root_pose=pose.at[2].set(height), root_velocity=uniform[13:] - 0.5)
        action = jnp.zeros(12, robot.dtype)
        return state, {"drive_target": joints, "last_action": action, "action_before_last": action}

    def draw(self, key: Array) -> dict[str, Array]:
        """Noise."""
        return disturbances.draw_noise(
            key, self.noise_scales, self._measured, self.articulation.dtype
        )

    def prepare(self, state: artix.State, memory: dict[str, Any], action: Array) -> dict[str, Any]:
        """Sets the drive targets relative to the current joint positions."""
        return memory | {"drive_target": state.joint_position + self.action_scale * action}

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
        robot, state, memory = transition.articulation, transition.state, transition.memory
        soft_lower, soft_upper = rewards.soft_limits(robot)
        signals = {
            "projected_gravity": observations.projected_gravity(robot, state, "imu"),
            "height": state.root_pose[2],
            "target_height": HEIGHT,
            "joint_position": state.joint_position,
            "joint_velocity": state.joint_velocity,
            "joint_acceleration": (state.joint_velocity - transition.before.joint_velocity)
            / self.physics_dt,
            "joint_force": observations.drive_forces(robot, state, memory["drive_target"]),
            "default_position": self.default_position,
            "soft_lower": soft_lower,
            "soft_upper": soft_upper,
            "action": transition.action,
            "last_action": memory["last_action"],
            "action_before_last": memory["action_before_last"],
        }
        terms = rewards.weighted_terms(self.rewards, signals)
        total = sum(terms.values(), jnp.zeros((), robot.dtype))
        metrics = {f"reward/{name}": term for name, term in terms.items()}
        stands = (_off_upright(signals["projected_gravity"]) < 0.1) & (
            state.root_pose[2] > 0.85 * HEIGHT
        )
        metrics["stands"] = stands.astype(robot.dtype)
        later = {"last_action": transition.action, "action_before_last": memory["last_action"]}
        return Outcome(jnp.maximum(total * self.dt, 0), jnp.array(False), memory | later, metrics)

    def observe(self, transition: Transition) -> dict[str, Array]:
        """Noisy measurements for the policy, and everything for a critic."""
        robot, state, memory = transition.articulation, transition.state, transition.memory
        measured = {
            "gyro": observations.angular_velocity(robot, state, "imu"),
            "gravity": observations.projected_gravity(robot, state, "imu"),
            "joint_position": state.joint_position - self.default_position,
            "joint_velocity": state.joint_velocity,
        }
        noisy = [value + transition.drawn[name] for name, value in measured.items()]
        seen = jnp.concatenate([*noisy, memory["last_action"]])
        privileged = [
            seen,
            measured["gyro"],
            observations.accelerometer(robot, transition.before, state, self.physics_dt, "imu"),
            observations.linear_velocity(robot, state, "imu"),
            state.root_velocity[3:],
            measured["joint_position"],
            measured["joint_velocity"],
            observations.drive_forces(robot, state, memory["drive_target"]),
            state.root_pose[2:3],
            observations.in_contact(transition.impulse).astype(robot.dtype),
        ]
        return {"state": seen, "privileged_state": jnp.concatenate(privileged)}

    @functools.cached_property
    def mirror(self) -> dict[str, Any] | None:
        """How the robot's mirror image acts and observes."""
        robot = symmetry.find_mirror(self.articulation, FEET)
        contacts = self._contact_images(robot.feet)

        def joined(*kinds: Any) -> symmetry.SignedPermutation:
            permutations, signs, start = [], [], 0
            for kind in kinds:
                size = (
                    {"joints": self.action_size, "scalar": 1}.get(kind, 3)
                    if isinstance(kind, str)
                    else len(kind[0])
                )
                permutation, sign = reflection("", kind, size, robot.joints, robot.feet)
                permutations.append(permutation + start)
                signs.append(sign)
                start += size
            return symmetry.SignedPermutation(np.concatenate(permutations), np.concatenate(signs))

        seen = ("axial", "vector", "joints", "joints", "joints")
        known = ("axial", "vector", "vector", "axial", "joints", "joints", "joints", "scalar")
        every = joined(*seen, *known, (contacts, np.ones(len(contacts))))
        return {"action": robot.joints, "state": joined(*seen), "privileged_state": every}

    def _contact_images(self, feet: np.ndarray) -> np.ndarray:
        """The mirror image of each contact with the ground: the trunk's corners, then feet and
        knees.
        """
        scene = artix.Scene(self.articulation, ground=self.ground)
        corner = np.asarray(
            artix.ground_contacts(scene, artix.neutral_state(self.articulation)).contacts.point
        )[:8]
        apart = np.linalg.norm(corner[:, None] - corner * [1.0, -1.0, 1.0], axis=-1)
        return np.concatenate([np.argmin(apart, axis=1), 8 + feet, 12 + feet])


def with_body(articulation: artix.Articulation) -> artix.Articulation:
    """The quadruped with contact shapes on trunk and knees instead of sensors."""
    feet = artix.select_geometry(articulation, [f"{leg}_foot" for leg in _LEGS])
    builder = artix.builder_from_articulation(feet)
    builder.add_geometry("trunk", artix.Geometry.box((0.21, 0.1, 0.06)), name="trunk")
    for leg in _LEGS:
        builder.add_geometry(f"{leg}_shank", artix.Geometry.sphere(0.025), name=f"{leg}_knee")
    return builder.build(dtype=articulation.dtype)


_LEGS = ("front_left", "front_right", "rear_left", "rear_right")
