"""Friction, a mass, the ground's height and the motors' strength are found from a walk; a slide is
in test_identification_by_contact.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from artix.examples import ground_identification as example


@pytest.mark.slow
def test_a_walk_tells_friction_a_mass_the_height_of_the_ground_and_the_motors():
    """To 0.1 % from guesses that are 30 % off."""
    robot = example.walker()
    true, guess = example.example(robot)
    recorded = jax.jit(lambda unknowns: example.record(robot, unknowns, 300))(true)
    assert recorded.states.root_pose[-1, 0] > 0.25  # it walks
    assert np.min(recorded.states.root_pose[:, 2]) > 0.28
    found = jax.jit(lambda guess: example.identify(robot, guess, recorded))(guess)
    for name, value, values in zip(true._fields, true, found, strict=True):
        np.testing.assert_allclose(values[-1], value, rtol=1e-3, err_msg=name)


@pytest.mark.slow
def test_a_walk_in_mujoco_tells_them_as_well():
    """Within what another contact model, integrator and step leave: here 7 %, 2 %, 1 mm and 3 %.

    The mass of the trunk or the motors have to be known.
    """
    pytest.importorskip("mujoco")
    identify = {}
    for friction, trunk, motor in ((0.3, 8.0, 0.9), (0.4, 5.0, 1.1)):
        true = example.Unknowns(*map(jnp.asarray, (friction, trunk, 0.02, motor)))
        robot, recorded = example.record_mujoco(true, 300)
        assert recorded.states.root_pose[-1, 0] > 0.6  # it walks
        for known in ("trunk", "motor"):
            # Artix's own trunk has 6.4 kg
            guess = example.Unknowns(*map(jnp.asarray, (1.3 * friction, 6.4, 0.014, 1.0)))
            guess = guess._replace(**{known: getattr(true, known)})
            if known not in identify:
                identify[known] = jax.jit(
                    lambda guess, recorded, robot=robot, known=known: example.identify(
                        robot, guess, recorded, known=(known,)
                    )
                )
            estimates = identify[known](guess, recorded)
            estimate = example.Unknowns(*(values[-1] for values in estimates))
            np.testing.assert_allclose(estimate.friction, friction, rtol=0.08)
            np.testing.assert_allclose(estimate.trunk, trunk, rtol=0.025)
            np.testing.assert_allclose(estimate.height, 0.02, atol=1.5e-3)
            np.testing.assert_allclose(estimate.motor, motor, rtol=0.035)
