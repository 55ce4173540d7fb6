"""The identification example recovers what torques reveal about the arm's inertias."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.examples import identification

NOISE = 0.1


@pytest.mark.slow
def test_the_arm_is_identified() -> None:
    arm = artix.robots.load("arm7", dtype="float64")
    links = list(identification.movable_links(arm))
    assert len(links) == 7

    @jax.jit
    def program(guess):
        measured = identification.simulate_measurements(arm, jax.random.key(0), 3000, NOISE)
        evidence = identification.gather_evidence(guess, measured)
        found = identification.identify(guess, evidence, links, iterations=50)
        unseen = identification.simulate_measurements(arm, jax.random.key(2), 500, 0.0)
        errors = [identification.torque_error(robot, unseen) for robot in (guess, found)]
        return found, evidence, errors

    guess = identification.disturbed(arm, jax.random.key(1), links, 0.3)
    found, evidence, (before, after) = program(guess)
    assert np.max(before) > 1  # N m
    # 21,000 torques with noise of 0.1 N m: about 43 base parameters are known to 0.1 / sqrt(21000 /
    # 43) N m.
    assert np.max(after) < 0.15 * NOISE
    # Base parameters, each in units of its standard deviation: of the size of one.
    _, values, directions = np.linalg.svd(np.asarray(evidence.triangle))
    rank = int(np.sum(values > 1e-9 * values[0]))
    assert 40 <= rank <= 48
    wrong = artix.dynamic_parameters(found) - artix.dynamic_parameters(arm)
    deviations = (values[:, None] * directions @ np.asarray(wrong).ravel()[:, None])[
        :rank, 0
    ] / NOISE
    assert np.sqrt(np.mean(deviations**2)) < 1.5
    wrong = artix.dynamic_parameters(guess) - artix.dynamic_parameters(arm)
    assert (
        np.sqrt(
            np.mean((values[:, None] * directions @ np.asarray(wrong).ravel()[:, None])[:rank] ** 2)
        )
        > 100 * NOISE
    )
    # All links are bodies; those that were not asked for stay as they were.
    second = (
        0.5 * jnp.trace(found.link_inertia, axis1=1, axis2=2)[:, None, None] * jnp.eye(3)
        - found.link_inertia
    )
    asked = np.array([arm.topology.link_index(name) for name in links])
    assert np.all(np.linalg.eigvalsh(second[asked]) > 0)
    np.testing.assert_array_equal(
        np.delete(found.link_mass, asked), np.delete(arm.link_mass, asked)
    )


def test_single_precision_is_refused() -> None:
    arm = artix.robots.load("arm7", dtype="float32")
    with pytest.raises(TypeError, match="identification needs float64, found float32"):
        identification.gather_evidence(arm, None)


@pytest.mark.slow
def test_dynamic_parameters_and_back() -> None:
    """Both ways, a link without mass included; Pinocchio's vector is a row of the table."""
    arm = artix.robots.load("arm7", dtype="float64")
    parameters = artix.dynamic_parameters(arm)
    again = artix.with_dynamic_parameters(arm, parameters)
    np.testing.assert_allclose(artix.dynamic_parameters(again), parameters, atol=1e-14)
    assert np.all(np.isfinite(again.link_com_pose))
    slope = jax.jacfwd(lambda p: artix.dynamic_parameters(artix.with_dynamic_parameters(arm, p)))(
        parameters
    )
    np.testing.assert_allclose(slope.reshape(parameters.size, -1)[:10, :10], np.eye(10), atol=1e-14)
    with pytest.raises(ValueError, match="parameters: expected shape"):
        artix.with_dynamic_parameters(arm, parameters[1:])
