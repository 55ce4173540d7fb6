"""Pushes that unbalance a policy: gradients against differences, and against random pushes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from artix.examples import pushes

#: Sizes of pushes [m/s]: 80 random ones topple few robots, or none.
SIZE, SMALL_SIZE = 2.0, 1.0


@pytest.fixture(scope="module")
def walking():
    environment, policy = pushes.walker()
    states = jax.jit(lambda: pushes.moments(environment, policy))()
    assert np.ptp(states.articulation_state.root_pose[:, 0]) > 0.3  # it walks
    return environment, policy, states


@pytest.mark.slow
def test_gradients_topple_robots_that_as_many_trials_do_not(walking):
    """Trials topple two of eight robots, gradients all."""
    environment, policy, starts = walking

    def answers(start):
        both = pushes.worst(environment, policy, start, SIZE)
        return both, jax.vmap(lambda push: pushes.tilts(environment, policy, start, push))(both)

    both, tilts = jax.jit(jax.vmap(answers))(starts)
    np.testing.assert_allclose(np.linalg.norm(both, axis=(2, 3)), SIZE, rtol=1e-12)
    trials, climbed = np.mean(tilts, axis=2).T
    assert np.median(climbed) > 5 * np.median(trials)
    falls = np.sum(np.max(tilts, axis=2) > 0.5, axis=0)  # by more than 60 degrees
    assert falls[1] >= falls[0] + 3


@pytest.mark.slow
def test_gradients_by_pushes_are_differences(walking):
    """Of 64 random ones, through 200 physics steps."""
    environment, policy, starts = walking
    trials = jnp.stack([pushes.random_pushes(jax.random.key(k), 8, SMALL_SIZE) for k in range(8)])
    direction = jax.random.normal(jax.random.key(5), trials.shape[2:])

    def value(start, push):
        return jnp.mean(pushes.tilts(environment, policy, start, push))

    def every(function):
        return jax.jit(jax.vmap(jax.vmap(function, (None, 0))))

    slopes, values = every(jax.grad(value, argnums=1))(starts, trials), every(value)
    ahead, behind = (values(starts, trials + sign * 1e-7 * direction) for sign in (1, -1))
    error = np.sum(slopes * direction, axis=(2, 3)) - (ahead - behind) / 2e-7
    assert np.sum(np.abs(error) < 1e-6 * np.linalg.norm(slopes, axis=(2, 3))) >= 63
