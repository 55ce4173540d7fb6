"""Friction, masses and the ground's height are found from a walk; a slide is in test_identification_by_contact.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from artix.examples import ground_identification as example

#: Standard deviations of what is measured: configuration [m and rad], velocity [m/s and rad/s].
NOISE = 1e-4, 1e-2


@pytest.mark.slow
def test_a_walk_tells_friction_masses_and_the_height_of_the_ground():
    """From 30 % off: to 1e-6 without noise, to 1 % with the noise of a good estimator."""
    robot = example.walker()
    true, guess = example.example(robot)
    recorded = jax.jit(lambda unknowns: example.record(robot, unknowns, 300))(true)
    states = recorded.states
    assert states.root_pose[-1, 0] > 0.25  # it walks
    assert np.min(states.root_pose[:, 2]) > 0.28
    rng = np.random.default_rng(0)

    def noisy(values, size):
        return values + size * jnp.asarray(rng.normal(size=values.shape))

    pose = states.root_pose.at[:, :3].set(noisy(states.root_pose[:, :3], NOISE[0]))
    measured = states.replace(
        root_pose=pose,
        joint_position=noisy(states.joint_position, NOISE[0]),
        root_velocity=noisy(states.root_velocity, NOISE[1]),
        joint_velocity=noisy(states.joint_velocity, NOISE[1]),
    )
    identify = jax.jit(lambda recorded: example.identify(robot, guess, recorded))
    exact, found = identify(recorded), identify(recorded._replace(states=measured))
    for name, value, without, with_noise in zip(true._fields, true, exact, found, strict=True):
        print(name, without / value - 1, with_noise / value - 1)
        np.testing.assert_allclose(without[-1], value, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(with_noise[-1], value, rtol=1e-2, err_msg=name)
