"""Environments as gymnasium has them, one or many at once: ``pip install 'artix[rl]'``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs import Environment, autoreset

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError("environments for gymnasium need gymnasium: pip install 'artix[rl]'") from error


class GymnasiumEnv(gymnasium.Env):
    """One environment for gymnasium: arrays of NumPy in and out, the state kept inside.

    ``gymnasium.utils.env_checker.check_env`` passes. For speed take :class:`GymnasiumVectorEnv`.

    Args:
      environment: the environment.

    Examples:
      >>> from artix import envs
      >>> from artix.envs.adapters.gymnasium import GymnasiumEnv
      >>> env = GymnasiumEnv(envs.make("cart_pole"))
      >>> obs, info = env.reset(seed=0)
      >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
      >>> obs.shape, terminated, truncated
      ((5,), False, False)
    """

    metadata = {"render_modes": []}  # noqa: RUF012, as gymnasium declares it

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.observation_space = observation_space(environment)
        self.action_space = action_space(environment)
        self._reset, self._step = jax.jit(environment.reset), jax.jit(environment.step)
        self._state: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A new episode; see ``gymnasium.Env.reset``. ``options`` are not used."""
        super().reset(seed=seed)
        self._state = self._reset(jax.random.key(_seed(self.np_random)))
        return _numpy(self._state.obs), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A control step; see ``gymnasium.Env.step``. ``info`` has the environment's metrics."""
        self._state = state = self._step(self._state, jnp.asarray(action))
        truncated = bool(state.info["truncation"])
        terminated = bool(state.done) and not truncated
        return _numpy(state.obs), float(state.reward), terminated, truncated, _numpy(state.metrics)


class GymnasiumVectorEnv(VectorEnv):
    """Many environments at once for gymnasium.

    An environment that is done begins anew in the same step (``AutoresetMode.SAME_STEP``), from a fresh random state:
    the observation is that of the new episode, and ``info["final_obs"]`` has the last one of the old episode in
    the rows for which ``info["_final_obs"]`` is true.

    Args:
      environment: one environment.
      num_envs: how many.

    Examples:
      >>> from artix import envs
      >>> from artix.envs.adapters.gymnasium import GymnasiumVectorEnv
      >>> env = GymnasiumVectorEnv(envs.make("cart_pole"), 16)
      >>> obs, info = env.reset(seed=0)
      >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
      >>> obs.shape, reward.shape
      ((16, 5), (16,))
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, environment: Environment, num_envs: int) -> None:
        self.environment, self.num_envs = environment, num_envs
        self.single_observation_space = observation_space(environment)
        self.single_action_space = action_space(environment)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        again = autoreset(environment)
        self._reset, self._step = jax.jit(jax.vmap(again.reset)), jax.jit(jax.vmap(again.step))
        self._state: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """New episodes everywhere; see ``gymnasium.vector.VectorEnv.reset``. ``options`` are not used."""
        super().reset(seed=seed)
        self._state = self._reset(jax.random.split(jax.random.key(_seed(self.np_random)), self.num_envs))
        return _numpy(self._state.obs), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """A control step everywhere; see ``gymnasium.vector.VectorEnv.step``."""
        self._state = state = self._step(self._state, jnp.asarray(actions))
        done, truncated = np.asarray(state.done) > 0, np.asarray(state.info["truncation"]) > 0
        info = {**_numpy(state.metrics), "final_obs": _numpy(state.info["final_obs"]), "_final_obs": done}
        return _numpy(state.obs), np.array(state.reward), done & ~truncated, truncated, info


def observation_space(environment: Environment) -> spaces.Space:
    """The space of an environment's observations: a box without bounds, or a dictionary of such."""
    obs = jax.eval_shape(lambda: environment.reset(jax.random.key(0)).obs)
    boxes = jax.tree.map(lambda x: spaces.Box(-np.inf, np.inf, x.shape, x.dtype), obs)
    return spaces.Dict(boxes) if isinstance(boxes, dict) else boxes


def action_space(environment: Environment) -> spaces.Box:
    """The space of an environment's actions, from -1 to 1."""
    return spaces.Box(-1.0, 1.0, (environment.action_size,), np.float32)


def _numpy(tree: Any) -> Any:
    return jax.tree.map(np.array, tree)


def _seed(generator: np.random.Generator) -> int:
    return int(generator.integers(2**31))
