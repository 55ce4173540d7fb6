"""Automatic resets: when an episode is done, a new one begins from a fresh random state."""

from __future__ import annotations

from typing import Any

import jax

from artix.envs import random_numbers
from artix.envs.control_step import EnvState
from artix.envs.environment import Environment

Array = jax.Array


class _Autoreset(Environment):
    def __init__(self, environment: Environment) -> None:
        self.unwrapped = environment

    def __getattribute__(self, name: str) -> Any:
        """All else is the given environment's, which has what the base class only declares."""
        if name in ("unwrapped", "reset", "step") or name.startswith("__"):
            return super().__getattribute__(name)
        return getattr(self.unwrapped, name)

    def reset(self, key: Array) -> EnvState:
        state = self.unwrapped.reset(key)
        return state.replace(info=state.info | {"final_obs": state.obs})

    def step(self, state: EnvState, action: Array) -> EnvState:
        end = self.unwrapped.step(state, action)
        key, fresh_key = random_numbers.split(end.info["key"])
        chosen = self.unwrapped.renew(fresh_key, end.replace(info=end.info | {"key": key}))
        return chosen.replace(info=chosen.info | {"final_obs": end.obs})


def check_environment(environment: Any) -> None:
    """Raises ``TypeError`` for what is no environment, such as the name of a task, and says how to
    make one.
    """
    if not all(
        hasattr(environment, name) for name in ("reset", "step", "action_size", "episode_length")
    ):
        raise TypeError(
            f"environment: expected artix.envs.Environment, found {type(environment).__name__}; "
            "artix.envs.make(name) makes that of a task"
        )


def autoreset(environment: Environment) -> Environment:
    """The environment with automatic resets.

    A step that ends an episode returns that step's reward, ``done``, ``metrics`` and
    ``info["truncation"]``, but the state and observation of a new episode. These are drawn from the
    key in the state, so no two episodes begin alike. The last observation of the old episode is
    ``info["final_obs"]``; if the episode was truncated, a learner bootstraps from its value.

    Args:
      environment: one environment; one that resets automatically already is returned as it is.

    Returns:
      An environment whose attributes and methods, :meth:`Environment.begin` among them, are those
      of the given one, except ``reset`` and ``step``. The given one is its ``unwrapped``.

    Raises:
      TypeError: it lacks what an :class:`Environment` has, for instance the name of a task.

    Examples:
      >>> from artix import envs
      >>> environment = envs.autoreset(envs.make("cart_pole", episode_length=1))
      >>> state = environment.reset(jax.random.key(0))
      >>> end = environment.step(state, jnp.zeros(environment.action_size))
      >>> float(end.done), float(end.info["truncation"]), int(end.info["steps"])
      (1.0, 1.0, 0)
    """
    check_environment(environment)
    return environment if isinstance(environment, _Autoreset) else _Autoreset(environment)
