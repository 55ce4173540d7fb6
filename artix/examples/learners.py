"""The ways to learn by name, and their settings for each task of :mod:`artix.envs`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs.commands import VelocityCommands
from artix.envs.disturbances import Pushes
from artix.envs.rewards import STANDING
from artix.examples import ppo, shac

Array = jax.Array

#: Modules with ``Config``, ``start``, ``warm_started``, ``train`` and ``policy_of``.
METHODS: dict[str, ModuleType] = {"ppo": ppo, "shac": shac}


def method_of(config: Any) -> str:
    """The name of the method that these are settings of.

    Raises:
      TypeError: they are settings of none.

    Example:
      >>> from artix.examples import learners, shac
      >>> learners.method_of(shac.Config())
      'shac'
    """
    for name, method in METHODS.items():
        if isinstance(config, method.Config):
            return name
    kinds = " or ".join(f"artix.examples.{name}.Config" for name in METHODS)
    raise TypeError(f"config must be an {kinds}; found {config!r}")


class Settings(NamedTuple):
    """How a task is learned."""

    config: Any
    """Of the method that learns it."""
    steps: int
    """Environment steps."""
    options: dict[str, Any]
    """Options of the task during training, for :func:`artix.envs.make`."""
    always: Mapping[str, Any] = MappingProxyType({})
    """Options of the task whenever the policy acts, because they change what it sees."""


def settings(task: str, method: str = "ppo") -> Settings:
    """Settings of a method for a task. For PPO, a task without its own gets those of legged robots.

    Raises:
      ValueError: the method is SHAC, which has no settings for the task: its rewards may have no
        slope.

    Example:
      >>> from artix.examples.learners import settings
      >>> settings("cart_pole").config.num_envs
      512
      >>> settings("quadruped_velocity", "shac").always
      {'gait_frequency': 2.5}
    """
    if method == "ppo":
        return PPO_SETTINGS.get(task, Settings(_LEGGED, 50_000_000, {}))
    if task not in SHAC_SETTINGS:
        raise ValueError(f"SHAC has settings for {', '.join(SHAC_SETTINGS)} only; found {task!r}")
    return SHAC_SETTINGS[task]


# PPO

_LEGGED = ppo.Config(
    policy_layers=(128, 128),
    critic_layers=(128, 128),
    initial_noise=0.4,
    learning_rate=5e-4,
    discount=0.98,
    entropy_cost=0.01,
)
_HUMANOID = dataclasses.replace(_LEGGED, epochs=2, discount=0.99, entropy_cost=0.001)
_ARM = ppo.Config(
    unroll=20, critic_layers=(128, 128), initial_noise=0.4, discount=0.97, entropy_cost=0.002
)

#: Settings of PPO by task name. A wide ``tracking_sigma`` helps even when the command is far off.
PPO_SETTINGS: dict[str, Settings] = {
    "cart_pole": Settings(ppo.Config(num_envs=512, unroll=32), 1_500_000, {}),
    "arm_reach": Settings(_ARM, 10_000_000, {}),
    "hopper": Settings(ppo.Config(num_envs=512, unroll=32), 30_000_000, {}),
    "ant": Settings(ppo.Config(num_envs=512, unroll=32), 30_000_000, {}),
    "quadruped_velocity": Settings(
        dataclasses.replace(_LEGGED, epochs=2),
        16_000_000,
        {"tracking_sigma": 0.35, "pushes": Pushes()},
    ),
    "quadruped_rough": Settings(_LEGGED, 13_000_000, {"tracking_sigma": 0.5}),
    "quadruped_get_up": Settings(_LEGGED, 8_000_000, {}),
    "humanoid_stand": Settings(_LEGGED, 11_000_000, {}),
    "humanoid_dance": Settings(
        dataclasses.replace(_HUMANOID, epochs=4, initial_noise=0.3),
        60_000_000,
        {"pushes": Pushes(speed=(0.0, 0.5), mean_time=4.0)},
    ),
    "humanoid_velocity": Settings(
        _HUMANOID, 60_000_000, {"tracking_sigma": 0.35, "curricula": {"commands": 0.3}}
    ),
}

# SHAC: rewards with a slope everywhere.
#
# The gradient follows the reward wherever it leads, so what helps PPO can leave SHAC without a
# direction: a lower bound of the reward (``least_reward``), terms that count contacts or landings,
# and bells that are flat far from their middle. A critic that sees differences, such as an
# accelerometer's, has large gradients that mean nothing.

#: How high feet swing [m], and the height of a standing foot, whose centre is the radius of its
#: ball above the ground.
SWING, RADIUS = 0.08, 0.02


def speed_error(command: Array, linear_velocity: Array) -> Array:
    """The error of the velocity [m/s]: quadratic below 0.2 m/s, and with the same slope everywhere
    above.
    """
    return _error(jnp.sum((command[:2] - linear_velocity[:2]) ** 2))


def yaw_rate_error(command: Array, angular_velocity: Array) -> Array:
    """The error of the yaw rate [rad/s], likewise."""
    return _error((command[2] - angular_velocity[2]) ** 2)


def effort(action: Array) -> Array:
    """The squared action."""
    return jnp.sum(action**2)


def foot_targets(command: Array, feet_height: Array, phase: Array, feet_group: np.ndarray) -> Array:
    """Squared distances of the feet from a trot's heights, in units of its swing; the feet stay
    down to stand still.
    """
    group = jnp.asarray(np.pi * np.asarray(feet_group), phase.dtype)
    swing = jnp.where(jnp.sum(command**2) < STANDING**2, 0, jnp.maximum(jnp.sin(phase + group), 0))
    return jnp.sum(((feet_height - RADIUS) / SWING - swing) ** 2)


def _error(square: Array) -> Array:
    return jnp.sqrt(square + 0.2**2) - 0.2


#: Terms that are smooth, or have a slope at least. A robot that lives earns more than its errors
#: cost.
WALKING: dict[str, Any] = {
    "alive": 1.0,
    "termination": -50.0,
    "speed_error": (-2.0, speed_error),
    "yaw_rate_error": (-0.7, yaw_rate_error),
    "orientation": -2.0,
    "base_height": -20.0,
    "lin_vel_z": -0.2,
    "ang_vel_xy": -0.02,
    "action_rate": -0.01,
    "effort": (-0.02, effort),
    "foot_targets": (-0.1, foot_targets),
}

#: Starts in the middle of a fall, from which most robots recover once they have learned to.
STUMBLING: dict[str, float] = {
    "place": 0.5,
    "heading": math.pi,
    "velocity": 1.5,
    "tilt": 0.4,
    "joint_position": 0.3,
    "joint_velocity": 2.0,
}

_WALKER = shac.Config(
    num_envs=128,
    horizon=16,
    discount=0.97,
    half_life=400,
    noise=0.2,
    policy_layers=(128, 128),
    critic_layers=(128, 128),
)

#: Options of the tasks that follow commands.
_COMMANDED: dict[str, Any] = {
    "rewards": WALKING,
    "least_reward": -math.inf,
    "privileged": {},
    # Robots fall within a second of a jump of the command or of a start: there is much to learn
    # from both.
    "velocity_commands": VelocityCommands(mean_time=1.0),
    "resets": STUMBLING,
    "episode_length": 100,
}

#: Settings of SHAC by task name.
SHAC_SETTINGS: dict[str, Settings] = {
    "cart_pole": Settings(shac.Config(), 500_000, {}),
    "arm_reach": Settings(shac.Config(critic_layers=(128, 128)), 1_000_000, {}),
    "hopper": Settings(shac.Config(half_life=2000), 5_000_000, {}),
    "ant": Settings(shac.Config(half_life=2000, action_step=0.3, noise=0.3), 5_000_000, {}),
    "quadruped_velocity": Settings(_WALKER, 1_000_000, _COMMANDED, always={"gait_frequency": 2.5}),
    # In episodes of 2 s nobody walks far enough to move up.
    "quadruped_rough": Settings(
        _WALKER, 1_000_000, {**_COMMANDED, "moves_up": False}, always={"gait_frequency": 2.5}
    ),
}
