"""Environments with gymnax's interface, for rejax's algorithms (``pip install rejax``) and others
that use gymnax.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from artix.envs import Environment, EnvState, autoreset, random_numbers
from artix.math import struct

Array = jax.Array


class EnvParams(struct.PyTreeNode):
    """The parameters that rejax expects."""

    max_steps_in_episode: int = struct.field(pytree_node=False)


class Space(NamedTuple):
    """The part of ``gymnax.environments.spaces.Box`` that algorithms use."""

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: Any = jnp.float32


class GymnaxEnvironment:
    """One environment with the interface of gymnax before 1.0, which rejax expects.

    Each episode has a new random start. ``done`` is true for termination and for truncation,
    because these algorithms do not distinguish them. If observations are a dictionary, only
    ``"state"`` is used.

    Args:
      environment: the environment.

    Examples:
      >>> from artix import envs
      >>> from artix.envs.adapters.rejax import GymnaxEnvironment
      >>> env = GymnaxEnvironment(envs.make("cart_pole"))
      >>> obs, state = env.reset(jax.random.key(0), env.default_params)
      >>> obs, state, reward, done, info = env.step(
      ...     jax.random.key(1), state, jnp.zeros(1), env.default_params
      ... )
      >>> obs.shape, bool(done)
      ((5,), False)
    """

    def __init__(self, environment: Environment) -> None:
        self._again = autoreset(environment)
        self.environment, self.name = environment, environment.name
        self.num_actions = environment.action_size

    def __deepcopy__(self, memo: Any) -> GymnaxEnvironment:
        """The object itself, which is immutable. Rejax copies its settings."""
        return self

    @property
    def default_params(self) -> EnvParams:
        """The parameters, with the length of an episode."""
        return EnvParams(max_steps_in_episode=self.environment.episode_length)

    def reset(self, key: Array, params: EnvParams | None = None) -> tuple[Array, EnvState]:
        """Begins an episode. Returns observation and state."""
        state = self._again.reset(random_numbers.typed(key))
        return _seen(state), state

    def step(
        self, key: Array, state: EnvState, action: Array, params: EnvParams | None = None
    ) -> tuple[Array, EnvState, Array, Array, dict[str, Array]]:
        """Takes a step. Returns observation, state, reward, done and info. ``key`` is ignored: the
        state has one.
        """
        after = self._again.step(state, jnp.reshape(action, (self.num_actions,)))
        return _seen(after), after, after.reward, after.done > 0, dict(after.metrics)

    def observation_space(self, params: EnvParams | None = None) -> Space:
        """An unbounded box."""
        size = self.environment.observation_size
        return Space(-jnp.inf, jnp.inf, (size["state"] if isinstance(size, dict) else size,))

    def action_space(self, params: EnvParams | None = None) -> Space:
        """A box from -1 to 1."""
        return Space(-1.0, 1.0, (self.num_actions,))


def _seen(state: EnvState) -> Array:
    return state.obs["state"] if isinstance(state.obs, dict) else state.obs
