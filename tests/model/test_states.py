"""Neutral and random states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import artix

NUM = 20_000


def test_random_states_are_distributed_as_described(dtype: np.dtype) -> None:
    """Moments of 20,000 states within five standard errors, and no two numbers of a state correlated."""
    robot = artix.robots.load("quadruped").astype(dtype)
    keys = jax.random.split(jax.random.key(0), NUM)
    states = jax.vmap(lambda key: artix.random_state(robot, key, velocity_scale=2.0))(keys)
    low, high = robot.joint_lower_limit, robot.joint_upper_limit
    joints = 2 * (states.joint_position - low) / (high - low) - 1
    uniform = np.concatenate([states.root_pose[:, :3], joints], axis=1)
    normal = 0.5 * np.concatenate([states.root_velocity, states.joint_velocity], axis=1)
    quaternion = np.asarray(states.root_pose[:, 3:])
    error = 5 / NUM**0.5
    assert np.abs(uniform).max() <= 1 + 1e-6
    for x, variance, fourth in ((uniform, 1 / 3, 1 / 5), (normal, 1, 3), (quaternion, 1 / 4, 1 / 8)):
        np.testing.assert_allclose(x.mean(0), 0, atol=error * variance**0.5)
        np.testing.assert_allclose((x**2).mean(0), variance, atol=error * (fourth - variance**2) ** 0.5)
        np.testing.assert_allclose((x**4).mean(0), fourth, rtol=10 * error)
    correlation = np.corrcoef(np.concatenate([uniform, normal, quaternion], axis=1), rowvar=False)
    np.testing.assert_allclose(correlation, np.eye(len(correlation)), atol=error)


def test_a_key_gives_one_state_batched_or_not() -> None:
    arm = artix.robots.load("arm7")
    keys = jax.random.split(jax.random.key(3), 4)
    states = jax.vmap(lambda key: artix.random_state(arm, key))(keys)
    one = artix.random_state(arm, keys[2])
    jax.tree.map(lambda all_, own: np.testing.assert_allclose(all_[2], own, rtol=1e-6), states, one)
    raw = artix.random_state(arm, jax.random.key_data(keys[2]))
    jax.tree.map(np.testing.assert_array_equal, raw, one)


def test_random_states_of_another_generator() -> None:
    arm = artix.robots.load("arm7")
    one, other = (artix.random_state(arm, jax.random.key(seed, impl="rbg")) for seed in (0, 1))
    assert jnp.all(jnp.isfinite(one.joint_position))
    assert not np.array_equal(one.joint_position, other.joint_position)


def test_neutral_states_follow_the_batch_and_the_dtype(dtype: np.dtype) -> None:
    robots = artix.robots.load("quadruped", dtype=dtype), artix.robots.load("cart_pole", dtype=dtype)
    state = artix.Fleet(robots).neutral_state()
    assert state.joint_position.shape == (2, 12)
    np.testing.assert_array_equal(state.root_pose, [[0, 0, 0, 0, 0, 0, 1]] * 2)
    assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {dtype}
