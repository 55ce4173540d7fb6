"""Neutral and random states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix

NUM = 20_000


def test_random_states_are_distributed_as_described(dtype: np.dtype) -> None:
    """Moments of 20,000 states within five standard errors, and no two numbers of a state
    correlated."""
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
    for x, variance, fourth in (
        (uniform, 1 / 3, 1 / 5),
        (normal, 1, 3),
        (quaternion, 1 / 4, 1 / 8),
    ):
        np.testing.assert_allclose(x.mean(0), 0, atol=error * variance**0.5)
        np.testing.assert_allclose(
            (x**2).mean(0), variance, atol=error * (fourth - variance**2) ** 0.5
        )
        np.testing.assert_allclose((x**4).mean(0), fourth, rtol=10 * error)
    correlation = np.corrcoef(np.concatenate([uniform, normal, quaternion], axis=1), rowvar=False)
    np.testing.assert_allclose(correlation, np.eye(len(correlation)), atol=error)


@pytest.mark.parametrize(
    ("limits", "interval"),
    [
        ((-5.0, 4.0), (-5, 4)),
        ((4.0, 6.0), (4, 6)),
        ((-np.inf, np.inf), (-np.pi, np.pi)),
        ((-1e16, 1e16), (-np.pi, np.pi)),
        ((-0.5, np.inf), (-0.5, np.pi)),
        ((5.0, np.inf), (5, 5 + np.pi)),
        ((-np.inf, -5.0), (-5 - np.pi, -5)),
        ((-np.inf, 0.5), (-np.pi, 0.5)),
        ((0.3, 0.3), (0.3, 0.3)),
    ],
)
def test_joint_positions_fill_their_limits(
    limits: tuple[float, float], interval: tuple[float, float]
) -> None:
    arm = artix.robots.load("arm7")
    low, high = (jnp.full(7, limit) for limit in limits)
    arm = arm.replace(joint_lower_limit=low, joint_upper_limit=high)
    states = jax.vmap(lambda key: artix.random_state(arm, key))(
        jax.random.split(jax.random.key(0), 2000)
    )
    (lowest, highest), spread = interval, interval[1] - interval[0]
    q = np.asarray(states.joint_position)
    assert np.all((q >= low) & (q <= high))
    np.testing.assert_allclose(q.min(0), lowest, atol=0.01 * spread)  # missed once in 2e8 draws
    np.testing.assert_allclose(q.max(0), highest, atol=0.01 * spread)


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
    robots = (
        artix.robots.load("quadruped", dtype=dtype),
        artix.robots.load("cart_pole", dtype=dtype),
    )
    state = artix.Fleet(robots).neutral_state()
    assert state.joint_position.shape == (2, 12)
    np.testing.assert_array_equal(state.root_pose, [[0, 0, 0, 0, 0, 0, 1]] * 2)
    assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {dtype}


def test_states_take_on_another_dtype():
    robot = artix.robots.load("double_pendulum")
    wide = artix.neutral_state(robot).astype(np.float64)
    assert {leaf.dtype for leaf in jax.tree.leaves(wide)} == {np.dtype(np.float64)}
    assert artix.mass_matrix(robot.astype(np.float64), wide).dtype == np.float64
    with pytest.raises(TypeError, match="int32"):
        wide.astype("int32")
