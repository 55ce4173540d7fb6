"""Episodes of environments: of robots under random actions, and the gradients of their steps."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix import envs


def random_episodes(
    environment: envs.Environment, robots: int, steps: int, noise: float
) -> tuple[Any, Any, jax.Array]:
    """Robots at their start, after each of some control steps, and the actions: normal numbers times
    the noise, at most 1.
    """
    first = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(0), robots))
    shape = robots, environment.action_size

    def advance(state: Any, key: jax.Array) -> tuple[Any, tuple[Any, jax.Array]]:
        action = jnp.clip(noise * jax.random.normal(key, shape, jnp.float64), -1, 1)
        after = jax.vmap(environment.step)(state, action)
        return after, (after, action)

    keys = jax.random.split(jax.random.key(1), steps)
    return first, *jax.jit(lambda state: jax.lax.scan(advance, state, keys)[1])(first)


def assert_gradients_are_differences(
    environment: envs.Environment, states: Any, actions: jax.Array
) -> None:
    """Gradients of control steps by actions, in float64 and with steps that are solved."""

    def outcome(action: jax.Array, before: Any) -> jax.Array:
        end = environment.step(before, action)
        return end.reward + jnp.sum(jnp.sin(end.obs))

    slope, change = jax.jit(jax.vmap(jax.grad(outcome)))(actions, states), 1e-6
    ways = np.random.default_rng(0).normal(size=actions.shape)
    outcomes = jax.jit(jax.vmap(outcome))
    differences = (
        outcomes(actions + change * ways, states) - outcomes(actions - change * ways, states)
    ) / (2 * change)
    np.testing.assert_allclose(np.sum(slope * ways, axis=1), differences, rtol=1e-6, atol=1e-6)
