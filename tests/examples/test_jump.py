"""The quadruped leaves the ground, and lands."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.examples import jump


@pytest.mark.slow
def test_it_leaves_the_ground_and_lands():
    robot = jump.jumper().astype(jnp.float32)
    with jax.numpy_dtype_promotion("standard"):
        found = jax.jit(lambda: jump.solve(robot))()
        heights = np.asarray(jump.foot_heights(robot, found.states))
    lowest = heights.min(axis=1)
    air = np.flatnonzero(lowest > 0.02)
    assert lowest.max() > 0.06  # all four feet
    assert len(air) * jump.DT > 0.1
    assert np.all(np.diff(air) == 1)  # one jump
    # It stands before and after
    np.testing.assert_allclose(lowest[[*range(10), *range(-10, 0)]], 0.0, atol=5e-3)
    np.testing.assert_allclose(found.states[-1, :3], found.states[0, :3], atol=0.03)
    assert np.max(np.abs(found.states[-1, 19:25])) < 0.5
    assert np.all(np.abs(found.controls) <= robot.max_joint_force * 1.0001)
    # In the air nothing but gravity acts on all of it.
    dynamics = jump.problem(robot).dynamics
    speed = jax.vmap(lambda x: artix.center_of_mass_velocity(robot, dynamics.unpack(x)))(
        found.states
    )[:, 2]
    inside = air[2:-2]
    np.testing.assert_allclose(np.diff(speed[inside]), -9.81 * jump.DT, atol=2e-3)
