"""Friction, a mass and the ground's height are found from a walk; a slide is in
test_identification_by_contact.py."""

import jax
import numpy as np
import pytest

from artix.examples import ground_identification as example


@pytest.mark.exhaustive
def test_a_walk_tells_friction_a_mass_and_the_height_of_the_ground():
    """To 0.1 % from guesses that are 30 % off."""
    robot = example.walker()
    true, guess = example.example(robot)
    recorded = jax.jit(lambda unknowns: example.record(robot, unknowns, 300))(true)
    assert recorded.states.root_pose[-1, 0] > 0.25  # it walks
    assert np.min(recorded.states.root_pose[:, 2]) > 0.28
    found = jax.jit(lambda guess: example.identify(robot, guess, recorded))(guess)
    for name, value, values in zip(true._fields, true, found, strict=True):
        np.testing.assert_allclose(values[-1], value, rtol=1e-3, err_msg=name)
