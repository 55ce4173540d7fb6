"""Settings of PPO for each task of :mod:`artix.envs`, and the number of steps it needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from artix.envs import disturbances
from artix.examples.ppo import Config


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


_LEGGED = Config(
    policy_layers=(128, 128),
    critic_layers=(128, 128),
    initial_noise=0.4,
    learning_rate=5e-4,
    discount=0.98,
    entropy_cost=0.01,
)
_HUMANOID = dataclasses.replace(_LEGGED, epochs=2, discount=0.99, entropy_cost=0.001)
_ARM = Config(
    unroll=20, critic_layers=(128, 128), initial_noise=0.4, discount=0.97, entropy_cost=0.002
)

#: Settings by task name. A wide ``tracking_sigma`` helps even when the command is far off.
SETTINGS: dict[str, Settings] = {
    "cart_pole": Settings(Config(num_envs=512, unroll=32), 1_500_000, {}),
    "arm_reach": Settings(_ARM, 10_000_000, {}),
    "hopper": Settings(Config(num_envs=512, unroll=32), 30_000_000, {}),
    "quadruped_velocity": Settings(
        dataclasses.replace(_LEGGED, epochs=2),
        16_000_000,
        {"tracking_sigma": 0.35, "pushes": disturbances.Pushes()},
    ),
    "quadruped_rough": Settings(_LEGGED, 13_000_000, {"tracking_sigma": 0.5}),
    "quadruped_get_up": Settings(_LEGGED, 8_000_000, {}),
    "humanoid_stand": Settings(_LEGGED, 11_000_000, {}),
    "humanoid_dance": Settings(
        dataclasses.replace(_HUMANOID, epochs=4, initial_noise=0.3),
        60_000_000,
        {"pushes": disturbances.Pushes(speed=(0.0, 0.5), mean_time=4.0)},
    ),
    "humanoid_velocity": Settings(
        _HUMANOID, 60_000_000, {"tracking_sigma": 0.35, "curricula": {"commands": 0.3}}
    ),
}


def settings(task: str) -> Settings:
    """Settings of a task. A task without its own gets those of legged robots.

    Example:
      >>> from artix.examples.ppo_settings import settings
      >>> settings("cart_pole").config.num_envs
      512
    """
    return SETTINGS.get(task, Settings(_LEGGED, 50_000_000, {}))
