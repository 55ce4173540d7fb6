"""A mass on a line with the interface of artix's environments but without a robot, for quick tests
of learners."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from artix.envs import EnvState

Array = jax.Array


class PointMass:
    """The action is an acceleration [m/s^2], and the goal is to stay at the origin. Far away, the
    episode terminates.

    With ``privileged`` the policy sees the position alone and the critic the velocity, too.
    """

    name, articulation, ground, dt, action_size = "point_mass", None, None, 0.1, 1

    def __init__(self, *, episode_length: int = 30, privileged: bool = False) -> None:
        self.episode_length, self.privileged = episode_length, privileged

    @property
    def observation_size(self) -> Any:
        return {"state": 1, "privileged_state": 2} if self.privileged else 2

    def reset(self, key: Array) -> EnvState:
        state = jax.random.uniform(key, (2,), jnp.float32, -1, 1)
        zero = jnp.zeros((), jnp.float32)
        info = {"truncation": zero, "steps": jnp.zeros((), jnp.int32), "key": key}
        return EnvState(state, self._obs(state), zero, zero, {"distance": zero, "nan": zero}, info)

    def renew(self, key: Array, end: EnvState) -> EnvState:
        fresh = jax.tree.map(
            lambda new, old: jnp.where(end.done > 0, new, old), self.reset(key), end
        )
        info = fresh.info | {"truncation": end.info["truncation"]}
        return fresh.replace(reward=end.reward, done=end.done, metrics=end.metrics, info=info)

    def step(self, state: EnvState, action: Array) -> EnvState:
        position, velocity = state.articulation_state
        velocity = velocity + jnp.float32(self.dt) * action[0]
        position = position + jnp.float32(self.dt) * velocity
        moved, steps = jnp.stack([position, velocity]), state.info["steps"] + 1
        terminated = jnp.abs(position) > 3
        truncated = (steps >= self.episode_length) & ~terminated
        info = {
            "truncation": truncated.astype(jnp.float32),
            "steps": steps,
            "key": jax.random.fold_in(state.info["key"], 1),
        }
        reward = 1 - jnp.minimum(jnp.abs(position), 2.0) - jnp.float32(0.1) * jnp.abs(velocity)
        done = (terminated | truncated).astype(jnp.float32)
        metrics = {"distance": jnp.abs(position), "nan": jnp.zeros((), jnp.float32)}
        return EnvState(moved, self._obs(moved), reward, done, metrics, info)

    def _obs(self, state: Array) -> Any:
        return {"state": state[:1], "privileged_state": state} if self.privileged else state
