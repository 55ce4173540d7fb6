"""Environments for gymnasium, single or vectorised (``pip install 'artix[rl]'``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs import Environment, EnvState, autoreset
from artix.envs.environment import without_autoreset
from artix.model.checks import check_count

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError("the gymnasium adapter needs gymnasium: pip install 'artix[rl]'") from error


class GymnasiumEnv(gymnasium.Env):
    """One environment for gymnasium, with NumPy arrays in and out and the state inside.

    It passes ``gymnasium.utils.env_checker.check_env``. For speed, use :class:`GymnasiumVectorEnv`.

    Args:
      environment: the environment; gymnasium resets it.
      picture: draws a state as an image [height, width, 3] (uint8). With it, the render mode is
        ``"rgb_array"``, as gymnasium's ``RecordVideo`` needs.

    Examples:
      >>> from artix import envs
      >>> from artix.envs.adapters.gymnasium import GymnasiumEnv
      >>> env = GymnasiumEnv(envs.make("cart_pole"))
      >>> obs, info = env.reset(seed=0)
      >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
      >>> obs.shape, terminated, truncated
      ((5,), False, False)
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012, as gymnasium declares it

    def __init__(
        self, environment: Environment, *, picture: Callable[[EnvState], np.ndarray] | None = None
    ) -> None:
        environment = without_autoreset(environment)
        self.render_mode = None if picture is None else "rgb_array"
        self.metadata = {**type(self).metadata, "render_fps": round(1 / environment.dt)}
        self._picture = picture
        self.environment = environment
        self.observation_space = observation_space(environment)
        self.action_space = action_space(environment)
        self._reset, self._step = jax.jit(environment.reset), jax.jit(environment.step)
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; see ``gymnasium.Env.reset``. ``options`` are ignored."""
        super().reset(seed=seed)
        self._state = self._reset(jax.random.key(_seed(self.np_random)))
        return _numpy(self._state.obs), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes a control step; see ``gymnasium.Env.step``. ``info`` has the environment's metrics.

        Raises:
          gymnasium.error.ResetNeeded: there was no :meth:`reset`.
          ValueError: the action has the wrong shape.
        """
        _check_started(self._state)
        self._state = state = self._step(self._state, jnp.asarray(action))
        truncated = bool(state.info["truncation"])
        terminated = bool(state.done) and not truncated
        return _numpy(state.obs), float(state.reward), terminated, truncated, _numpy(state.metrics)

    def render(self) -> Any:
        """An image of the robot now, [height, width, 3] (uint8); ``None`` without a ``picture``."""
        if self._picture is None:
            return None
        _check_started(self._state)
        return self._picture(self._state)


class GymnasiumVectorEnv(VectorEnv):
    """A vector of environments for gymnasium.

    An environment that is done restarts in the same step (``AutoresetMode.SAME_STEP``) from a new
    random state. The observation is then that of the new episode. Where ``info["_final_obs"]`` is
    true, ``info["final_obs"]`` has the last observation of the old episode.

    Args:
      environment: one environment.
      num_envs: number of environments.

    Raises:
      ValueError: ``num_envs`` is not positive.
      TypeError: it is no whole number, or ``environment`` is no environment.

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
        again = autoreset(environment)
        check_count("num_envs", num_envs)
        self.environment, self.num_envs = environment, num_envs
        self.single_observation_space = observation_space(environment)
        self.single_action_space = action_space(environment)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._reset, self._step = jax.jit(jax.vmap(again.reset)), jax.jit(jax.vmap(again.step))
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins episodes in all environments; see ``gymnasium.vector.VectorEnv.reset``.
        ``options`` are ignored.
        """
        super().reset(seed=seed)
        self._state = self._reset(
            jax.random.split(jax.random.key(_seed(self.np_random)), self.num_envs)
        )
        return _numpy(self._state.obs), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Takes a control step in all environments; see ``gymnasium.vector.VectorEnv.step``.

        Raises:
          gymnasium.error.ResetNeeded: there was no :meth:`reset`.
          ValueError: the actions have the wrong shape.
        """
        _check_started(self._state)
        if np.shape(actions) != self.action_space.shape:
            raise ValueError(
                f"expected actions of shape {self.action_space.shape}, found {np.shape(actions)}"
            )
        self._state = state = self._step(self._state, jnp.asarray(actions))
        done, truncated = np.asarray(state.done) > 0, np.asarray(state.info["truncation"]) > 0
        info = {
            **_numpy(state.metrics),
            "final_obs": _numpy(state.info["final_obs"]),
            "_final_obs": done,
        }
        return _numpy(state.obs), np.array(state.reward), done & ~truncated, truncated, info


def observation_space(environment: Environment) -> spaces.Space:
    """The observation space of an environment: an unbounded box, or a dictionary of them."""
    obs = jax.eval_shape(lambda: environment.reset(jax.random.key(0)).obs)
    boxes = jax.tree.map(lambda x: spaces.Box(-np.inf, np.inf, x.shape, x.dtype), obs)
    return spaces.Dict(boxes) if isinstance(boxes, dict) else boxes


def action_space(environment: Environment) -> spaces.Box:
    """The action space of an environment: a box from -1 to 1."""
    return spaces.Box(-1.0, 1.0, (environment.action_size,), np.float32)


def _check_started(state: Any) -> None:
    if state is None:
        raise gymnasium.error.ResetNeeded("call reset() before step()")


def _numpy(tree: Any) -> Any:
    return jax.tree.map(np.array, tree)


def _seed(generator: np.random.Generator) -> int:
    return int(generator.integers(2**31))
