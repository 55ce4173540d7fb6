"""The quadruped trots by MPC: how far, and through pushes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.examples import trot
from tests.support.users_types import users_types


@pytest.mark.exhaustive
def test_robots_walk_five_metres_and_survive_pushes():
    """90 % of them, each pushed with 30 N for 0.2 s."""
    robot, gait = artix.robots.load("quadruped").astype(jnp.float32), trot.Gait()
    with users_types():
        plan = jax.jit(functools.partial(trot.first_plan, robot, gait))()
        pushes = trot.random_pushes(jax.random.key(0), 32)
        np.testing.assert_allclose(np.linalg.norm(pushes.force, axis=1), 30, rtol=1e-6)
        states = jax.jit(jax.vmap(lambda push: trot.walk(robot, gait, push, plan)))(pushes)
        assert np.mean(trot.survived(states)) >= 0.9
        # Pushes are felt; without any it is a centimetre
        assert np.max(np.abs(states.root_pose[..., 1])) > 0.03
