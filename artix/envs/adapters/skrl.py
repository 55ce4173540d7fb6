"""Environments for skrl's JAX agents (``pip install skrl``), through skrl's wrapper for
Playground.
"""

from __future__ import annotations

from typing import Any

import jax

from artix.envs import Environment, EnvState, autoreset, random_numbers
from artix.model.checks import check_count

Array = jax.Array


class PlaygroundFleet:
    """A batch of environments with MuJoCo Playground's interface, for skrl's wrapper
    ``"playground"``.

    Each episode has a new random start. ``done`` is 1 for termination only, because skrl reads it
    so; ``info["truncation"]`` is 1 if an episode ended at its time limit.

    Args:
      environment: one environment.
      num_envs: number of environments.

    Examples:
      >>> from artix import envs
      >>> from artix.envs.adapters.skrl import PlaygroundFleet
      >>> fleet = PlaygroundFleet(envs.make("cart_pole"), 4)
      >>> fleet.reset(jax.random.split(jax.random.key(0), 4)).obs.shape
      (4, 5)
    """

    def __init__(self, environment: Environment, num_envs: int) -> None:
        self._again = autoreset(environment)
        check_count("num_envs", num_envs)
        self.environment, self.num_envs = environment, num_envs
        self.action_size = environment.action_size

    @property
    def unwrapped(self) -> PlaygroundFleet:
        """This fleet."""
        return self

    @property
    def observation_size(self) -> Any:
        """Length of an observation, or the shapes of its parts."""
        size = self.environment.observation_size
        return {name: (n,) for name, n in size.items()} if isinstance(size, dict) else size

    def reset(self, keys: Array) -> EnvState:
        """Begins an episode for each raw or typed key [num_envs]."""
        return jax.vmap(self._again.reset)(random_numbers.typed(keys))

    def step(self, state: EnvState, actions: Array) -> EnvState:
        """Advances by one control period, with actions [num_envs, action_size]."""
        after = jax.vmap(self._again.step)(state, actions)
        return after.replace(done=after.done * (1 - after.info["truncation"]))
