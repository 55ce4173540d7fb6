"""Environments for Brax's trainers (``pip install brax``), with a new random start for each
episode.

Brax 0.14.2 calls ``jax.device_put_replicated``, which JAX 0.12 has removed. :func:`on_newer_jax`
provides it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from artix.envs import Environment, EnvState, autoreset, random_numbers
from artix.envs.environment import without_autoreset

Array = jax.Array


class BraxEnvironment:
    """One environment with the interface that Brax's trainers expect.

    ``pipeline_state`` holds the environment's whole state. Entries that Brax's wrappers add to
    ``info`` and ``metrics`` are kept. Once a wrapper counts the steps of an episode, as Brax's
    ``EpisodeWrapper`` does, its length alone counts, and ``done`` means termination: the wrapper
    takes every other end of an episode for one at which no reward would follow.

    Args:
      environment: the environment.

    Examples:
      >>> from artix import envs
      >>> from artix.envs.adapters.brax import BraxEnvironment
      >>> BraxEnvironment(envs.make("cart_pole")).observation_size
      5
    """

    backend = "artix"

    def __init__(self, environment: Environment) -> None:
        self.environment = environment = without_autoreset(environment)
        self.observation_size, self.action_size = (
            environment.observation_size,
            environment.action_size,
        )

    @property
    def unwrapped(self) -> BraxEnvironment:
        """This environment."""
        return self

    @property
    def dt(self) -> float:
        """The control period [s]."""
        return self.environment.dt

    def reset(self, rng: Array) -> Any:
        """Begins an episode and returns Brax's ``State``. ``rng`` is a raw or typed key."""
        state = self.environment.reset(random_numbers.typed(rng))
        info = {"truncation": state.info["truncation"]}
        return _brax_state()(_raw(state), state.obs, state.reward, state.done, state.metrics, info)

    def step(self, state: Any, action: Array) -> Any:
        """Advances Brax's ``State`` by one control period."""
        after = self.environment.step(_typed(state.pipeline_state), action)
        truncation = after.info["truncation"]
        is_counted = "steps" in state.info
        return state.replace(
            pipeline_state=_raw(after),
            obs=after.obs,
            reward=after.reward,
            done=after.done * (1 - truncation) if is_counted else after.done,
            metrics=state.metrics | after.metrics,
            info=state.info | {"truncation": truncation},
        )


def wrap_for_training(
    environment: BraxEnvironment,
    episode_length: int,
    action_repeat: int = 1,
    randomization_fn: Any = None,
) -> Any:
    """A ``wrap_env_fn`` for Brax's trainers: a batch of environments in which every episode has a
    new random start.

    Brax's own wrapper restarts every episode from the environment's first state.

    Args:
      environment: one environment.
      episode_length: must be the environment's.
      action_repeat: must be 1; the environment defines the physics steps per control step.
      randomization_fn: must be ``None``; the environment defines what is randomised.

    Returns:
      A batched Brax environment.

    Raises:
      ValueError: an argument has another value.
    """
    if episode_length != environment.environment.episode_length:
        length = environment.environment.episode_length
        raise ValueError(
            f"episode_length must be the environment's, {length}; found {episode_length}"
        )
    if action_repeat != 1 or randomization_fn is not None:
        raise ValueError(
            "action_repeat and randomization_fn must be left out: the environment defines both"
        )
    return _BraxFleet(environment)


class _BraxFleet(BraxEnvironment):
    """A batch of environments with automatic resets and the per-episode sums that Brax reports."""

    def __init__(self, environment: BraxEnvironment) -> None:
        super().__init__(environment.environment)
        self.environment = autoreset(environment.environment)

    def reset(self, rng: Array) -> Any:
        state = jax.vmap(super().reset)(rng)
        zero = jnp.zeros_like(state.done)
        sums = {**jax.tree.map(jnp.zeros_like, state.metrics), "sum_reward": zero, "length": zero}
        return state.replace(
            info={**state.info, "steps": zero, "episode_done": zero, "episode_metrics": sums}
        )

    def step(self, state: Any, action: Array) -> Any:
        after = jax.vmap(super().step)(state, action)
        after = after.replace(done=jnp.maximum(after.done, after.info["truncation"]))
        # Restart the sums of episodes that ended in the last step
        goes_on = 1 - state.info["episode_done"]
        episode_sums = {
            name: after.metrics[name]
            for name in state.info["episode_metrics"]
            if name in after.metrics
        }
        gained = {**episode_sums, "sum_reward": after.reward, "length": jnp.ones_like(after.done)}
        sums = {
            name: goes_on * old + gained[name]
            for name, old in state.info["episode_metrics"].items()
        }
        counted = {"steps": sums["length"], "episode_done": after.done, "episode_metrics": sums}
        return after.replace(info=after.info | counted)


@contextlib.contextmanager
def on_newer_jax() -> Iterator[None]:
    """Adds ``device_put_replicated``, which Brax calls, to a JAX that has removed it, and removes
    it again afterwards.

    Examples:
      >>> from artix.envs.adapters.brax import on_newer_jax
      >>> with on_newer_jax():
      ...     copies = jax.device_put_replicated(jnp.zeros(3), jax.devices()[:1])
      >>> copies.shape
      (1, 3)
    """
    if hasattr(jax, "device_put_replicated"):
        yield
        return

    def device_put_replicated(tree: Any, devices: list[jax.Device]) -> Any:
        # Jax.pmap distributes them
        return jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * len(devices)), tree)

    vars(jax)["device_put_replicated"] = device_put_replicated
    try:
        yield
    finally:
        del vars(jax)["device_put_replicated"]


def _brax_state() -> Any:
    try:
        from brax.envs.base import State
    except ImportError as error:
        raise ImportError("the Brax adapter needs Brax: pip install brax") from error
    return State


def _raw(state: EnvState) -> EnvState:
    """The state with its key as plain numbers, which Brax can copy and select."""
    return state.replace(info={**state.info, "key": jax.random.key_data(state.info["key"])})


def _typed(state: EnvState) -> EnvState:
    return state.replace(info={**state.info, "key": jax.random.wrap_key_data(state.info["key"])})
