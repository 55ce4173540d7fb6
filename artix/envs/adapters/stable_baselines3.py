"""Environments for Stable-Baselines3 (``pip install stable-baselines3``), with all robots in one
call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs import Environment, EnvState, autoreset
from artix.envs.adapters.gymnasium import action_space, observation_space
from artix.model.checks import check_count


def _base() -> Any:
    """Stable-Baselines3's class; it is missed when an environment is made."""
    try:
        from stable_baselines3.common.vec_env import VecEnv
    except ImportError:
        return object
    return VecEnv


_VecEnv: Any = _base()


class StableBaselinesVecEnv(_VecEnv):
    """A batch of environments as Stable-Baselines3's ``VecEnv``.

    An environment that is done restarts in the same step, from a new random state. Its ``info``
    then has ``"terminal_observation"``, ``"TimeLimit.truncated"`` and ``"episode"``, the return and
    length that Stable-Baselines3 logs.

    Args:
      environment: one environment.
      num_envs: number of environments.
      seed: seed of all random numbers, unless :meth:`seed` gives another.
      part: of observations in two parts, the one that is observed, such as ``"state"``; ``None``
        for a dictionary of both, for ``MultiInputPolicy``.
      picture: draws a state for ``render("rgb_array")``, [height, width, 3] (uint8).

    Raises:
      ImportError: Stable-Baselines3 is not installed.
      TypeError: ``environment`` is no environment.
      ValueError: ``num_envs`` is not positive, or there is no such ``part``.

    Example::

        from stable_baselines3 import PPO

        env = StableBaselinesVecEnv(envs.make("quadruped_velocity"), 256, part="state")
        PPO("MlpPolicy", env, n_steps=24, batch_size=1536).learn(1_000_000)
    """

    def __init__(
        self,
        environment: Environment,
        num_envs: int,
        *,
        seed: int = 0,
        part: str | None = None,
        picture: Callable[[EnvState], np.ndarray] | None = None,
    ) -> None:
        if _VecEnv is object:
            raise ImportError("the adapter needs Stable-Baselines3: pip install stable-baselines3")
        again = autoreset(environment)
        check_count("num_envs", num_envs)
        self.environment, self.render_mode = environment, None if picture is None else "rgb_array"
        self._part, self._picture, self._seed = part, picture, seed
        self._reset, self._step = jax.jit(jax.vmap(again.reset)), jax.jit(jax.vmap(again.step))
        self._state: Any = None
        self._actions: Any = None
        self._return, self._length = np.zeros(num_envs), np.zeros(num_envs, int)
        space: Any = observation_space(environment)
        if part is not None:
            if part not in getattr(space, "spaces", {}):
                raise ValueError(
                    f"part: {environment.name} observes {environment.observation_size}; found "
                    f"{part!r}"
                )
            space = space[part]
        super().__init__(num_envs, space, action_space(environment))

    def reset(self) -> Any:
        """Begins episodes in all environments."""
        if self._seeds[0] is not None:
            self._seed = self._seeds[0]
        keys = jax.random.split(jax.random.key(self._seed), self.num_envs)
        self._seed += 1  # The next reset is another one.
        self._state = self._reset(keys)
        self._return[:], self._length[:] = 0, 0
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        return self._seen(self._state.obs)

    def step_async(self, actions: np.ndarray) -> None:
        """Takes the actions [num_envs, action_size] of the next step.

        Raises:
          RuntimeError: there was no :meth:`reset`.
          ValueError: the actions have the wrong shape.
        """
        if self._state is None:
            raise RuntimeError("call reset() before step()")
        if np.shape(actions) != (self.num_envs, self.environment.action_size):
            shape = (self.num_envs, self.environment.action_size)
            raise ValueError(f"expected actions of shape {shape}, found {np.shape(actions)}")
        self._actions = jnp.asarray(actions)

    def step_wait(self) -> Any:
        """Takes the step: observations, rewards, done, and one ``info`` for each environment."""
        self._state = state = self._step(self._state, self._actions)
        reward, done = np.array(state.reward, np.float32), np.asarray(state.done) > 0
        truncated = np.asarray(state.info["truncation"]) > 0
        self._return += reward
        self._length += 1
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": bool(each)} for each in truncated]
        if done.any():
            last = self._seen(state.info["final_obs"])
            for k in np.flatnonzero(done):
                infos[k]["terminal_observation"] = jax.tree.map(lambda x, k=k: x[k], last)
                infos[k]["episode"] = {"r": float(self._return[k]), "l": int(self._length[k])}
            self._return[done], self._length[done] = 0, 0
        return self._seen(state.obs), reward, done, infos

    def close(self) -> None:
        """Does nothing."""

    def get_images(self) -> Sequence[np.ndarray | None]:
        """A picture of each environment."""
        if self._picture is None or self._state is None:
            return [None] * self.num_envs
        return [
            self._picture(jax.tree.map(lambda x, k=k: x[k], self._state))
            for k in range(self.num_envs)
        ]

    # Stable-Baselines3 asks the single environments; here they have their attributes in common.

    def has_attr(self, attr_name: str) -> bool:
        """Whether there is such an attribute, here or of the environment."""
        return hasattr(self, attr_name) or hasattr(self.environment, attr_name)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute, once for each environment."""
        owner = self if attr_name == "render_mode" else self.environment
        return [getattr(owner, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: the program of the environment is compiled."""
        raise AttributeError(
            f"{attr_name!r} cannot change; make another environment with artix.envs.make"
        )

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of the environment, once for each."""
        method = getattr(self.environment, method_name)
        return [method(*method_args, **method_kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Whether the environments have a wrapper, such as ``Monitor``, whose ``info["episode"]``
        is here, too.
        """
        is_monitor = getattr(wrapper_class, "__name__", "") == "Monitor"
        return [is_monitor for _ in self._get_indices(indices)]

    def _seen(self, obs: Any) -> Any:
        chosen = obs if self._part is None else obs[self._part]
        return jax.tree.map(lambda x: np.array(x, np.float32), chosen)
