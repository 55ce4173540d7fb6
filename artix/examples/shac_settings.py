"""Settings of SHAC for tasks of :mod:`artix.envs`, with rewards that have a slope everywhere.

The gradient follows the reward wherever it leads, so what helps PPO can leave SHAC without a
direction: a lower bound of the reward (``least_reward``), terms that count contacts or landings,
and bells that are flat far from their middle. A critic that sees differences, such as an
accelerometer's, has large gradients that mean nothing.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs.commands import VelocityCommands
from artix.examples.ppo_settings import Settings
from artix.examples.shac import Config

Array = jax.Array

#: How high feet swing [m], and the height of a standing foot, whose centre is the radius of its
#: ball above the ground.
SWING, RADIUS = 0.08, 0.02
#: Commands below this speed [m/s or rad/s] are to stand still.
STANDING = 0.01


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

_WALKER = Config(
    num_envs=128,
    horizon=16,
    discount=0.97,
    half_life=400,
    noise=0.2,
    policy_layers=(128, 128),
    critic_layers=(128, 128),
)

#: Options of the tasks that follow commands.
_LEGGED: dict[str, Any] = {
    "rewards": WALKING,
    "least_reward": -math.inf,
    "privileged": {},
    # Robots fall within a second of a jump of the command or of a start: there is much to learn
    # from both.
    "velocity_commands": VelocityCommands(mean_time=1.0),
    "resets": STUMBLING,
    "episode_length": 100,
}

#: Settings by task name.
SETTINGS: dict[str, Settings] = {
    "cart_pole": Settings(Config(), 500_000, {}),
    "arm_reach": Settings(Config(critic_layers=(128, 128)), 1_000_000, {}),
    "hopper": Settings(Config(half_life=2000), 5_000_000, {}),
    "quadruped_velocity": Settings(_WALKER, 1_000_000, _LEGGED, always={"gait_frequency": 2.5}),
    # In episodes of 2 s nobody walks far enough to move up.
    "quadruped_rough": Settings(
        _WALKER, 1_000_000, {**_LEGGED, "moves_up": False}, always={"gait_frequency": 2.5}
    ),
}
