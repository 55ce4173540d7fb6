"""Environments for rsl-rl's PyTorch runners (``pip install rsl-rl-lib``). Tensors and arrays share
memory.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from artix.envs import Environment, autoreset
from artix.model.checks import check_count


class RslRlVecEnv:
    """A batch of environments as an ``rsl_rl.env.VecEnv``.

    Observations are a ``TensorDict`` with ``"policy"`` and, if the environment has a privileged
    state, ``"critic"``. Tensors share the memory and the device of JAX's arrays (DLPack). Each
    episode has a new random start.

    Args:
      environment: one environment.
      num_envs: number of environments.
      seed: seed of all random numbers.

    Raises:
      ImportError: PyTorch or tensordict is not installed.
      TypeError: ``environment`` is no environment, or ``num_envs`` no whole number.
      ValueError: ``num_envs`` is not positive.
    """

    def __init__(self, environment: Environment, num_envs: int, *, seed: int = 0) -> None:
        again = autoreset(environment)
        check_count("num_envs", num_envs)
        try:
            import torch
            from tensordict import TensorDict
        except ImportError as error:
            raise ImportError(
                "the rsl-rl adapter needs rsl-rl and PyTorch: pip install rsl-rl-lib"
            ) from error
        self._torch, self._dict = torch, TensorDict
        self.environment, self.num_envs, self.num_actions = (
            environment,
            num_envs,
            environment.action_size,
        )
        self.max_episode_length, self.cfg = environment.episode_length, {"task": environment.name}
        self._step = jax.jit(jax.vmap(again.step), donate_argnums=0)
        self._reset = jax.jit(jax.vmap(again.reset))
        self._key = jax.random.key(seed)
        self._state: Any = None
        self.reset()
        self.device = self.episode_length_buf.device

    @property
    def unwrapped(self) -> RslRlVecEnv:
        """This environment."""
        return self

    @property
    def episode_length_buf(self) -> Any:
        """Control steps since each episode began, a tensor [num_envs]. Set it to spread out the
        episodes in time.
        """
        return self._tensor(self._state.info["steps"])

    @episode_length_buf.setter
    def episode_length_buf(self, steps: Any) -> None:
        counts = jnp.array(jax.dlpack.from_dlpack(steps.contiguous().to(self._torch.int32)))
        self._state = self._state.replace(info={**self._state.info, "steps": counts})

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """Begins episodes in all environments. Returns observations and an empty dictionary."""
        self._key, key = jax.random.split(self._key)
        self._state = self._reset(jax.random.split(key, self.num_envs))
        return self.get_observations(), {}

    def get_observations(self) -> Any:
        """The observations, a ``TensorDict`` of batch size [num_envs]."""
        obs = self._state.obs
        parts = (
            {"policy": obs["state"], "critic": obs["privileged_state"]}
            if isinstance(obs, dict)
            else {"policy": obs}
        )
        # The next step donates the state's own arrays.
        copied = {name: self._tensor(jnp.copy(x)) for name, x in parts.items()}
        return self._dict(copied, batch_size=[self.num_envs])

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Takes a step. Returns observations, rewards [num_envs], dones [num_envs] and
        ``{"time_outs", "log"}``.

        Raises:
          ValueError: the actions have the wrong shape.
        """
        if tuple(actions.shape) != (self.num_envs, self.num_actions):
            raise ValueError(
                f"expected actions of shape {(self.num_envs, self.num_actions)}, found "
                f"{tuple(actions.shape)}"
            )
        array = jax.dlpack.from_dlpack(actions.detach().contiguous())
        self._state = state = self._step(self._state, array)
        log = {f"/{name}": float(jnp.mean(x)) for name, x in state.metrics.items()}
        reward, done = (
            self._tensor(jnp.copy(state.reward)),
            self._tensor(state.done.astype(jnp.int32)).long(),
        )
        extras = {"time_outs": self._tensor(jnp.copy(state.info["truncation"])), "log": log}
        return self.get_observations(), reward, done, extras

    def close(self) -> None:
        """Does nothing: there is nothing to close."""

    def _tensor(self, array: jax.Array) -> Any:
        return self._torch.from_dlpack(array)
