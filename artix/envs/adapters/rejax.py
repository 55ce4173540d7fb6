"""Environments in gymnax's shape, for rejax's algorithms (``pip install rejax``) and whatever else takes gymnax's."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from artix.envs import Environment, EnvState, autoreset
from artix.math import struct

Array = jax.Array


class EnvParams(struct.PyTreeNode):
    """What rejax asks of parameters."""

    max_steps_in_episode: int = struct.field(pytree_node=False)


class Space(NamedTuple):
    """A box: as much of ``gymnax.environments.spaces.Box`` as algorithms look at."""

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: Any = jnp.float32


class GymnaxEnvironment:
    """One environment in the shape that gymnax had before 1.0 and rejax expects.

    Episodes begin anew from fresh random states. ``done`` is true for termination and for lack of time, which such
    algorithms do not tell apart. Of a dictionary of observations it shows ``"state"``.

    Args:
      environment: the environment.

    Examples:
      >>> from artix import envs
      >>> from artix.envs.adapters.rejax import GymnaxEnvironment
      >>> env = GymnaxEnvironment(envs.make("cart_pole"))
      >>> obs, state = env.reset(jax.random.key(0), env.default_params)
      >>> obs, state, reward, done, info = env.step(jax.random.key(1), state, jnp.zeros(1), env.default_params)
      >>> obs.shape, bool(done)
      ((5,), False)
    """

    def __init__(self, environment: Environment) -> None:
        self.environment, self.name = environment, environment.name
        self._again = autoreset(environment)
        self.num_actions = environment.action_size

    def __deepcopy__(self, memo: Any) -> GymnaxEnvironment:
        """Itself: nothing in it changes. Rejax copies its settings."""
        return self

    @property
    def default_params(self) -> EnvParams:
        """The length of an episode."""
        return EnvParams(max_steps_in_episode=self.environment.episode_length)

    def reset(self, key: Array, params: EnvParams | None = None) -> tuple[Array, EnvState]:
        """Begins an episode: observation and state."""
        typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        state = self._again.reset(key if typed else jax.random.wrap_key_data(key))
        return _seen(state), state

    def step(
        self, key: Array, state: EnvState, action: Array, params: EnvParams | None = None
    ) -> tuple[Array, EnvState, Array, Array, dict[str, Array]]:
        """Moves on: observation, state, reward, done and info. ``key`` is not used; the state has its own."""
        after = self._again.step(state, jnp.reshape(action, (self.num_actions,)))
        return _seen(after), after, after.reward, after.done > 0, dict(after.metrics)

    def observation_space(self, params: EnvParams | None = None) -> Space:
        """A box without bounds."""
        size = self.environment.observation_size
        return Space(-jnp.inf, jnp.inf, (size["state"] if isinstance(size, dict) else size,))

    def action_space(self, params: EnvParams | None = None) -> Space:
        """A box from -1 to 1."""
        return Space(-1.0, 1.0, (self.num_actions,))


def _seen(state: EnvState) -> Array:
    return state.obs["state"] if isinstance(state.obs, dict) else state.obs
