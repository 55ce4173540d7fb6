"""Sleeping by PhysX's counters, in closed form, and the residuals of the solvers."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import ArticulationBuilder, Control, Drive, Joint, SolverOptions
from tests.simulation.test_stepping import at, pendulum

DT = 0.01


@functools.cache
def _brick():
    """A floating brick of 3 kg with a lid that a hinge along its principal axis holds; without
    gravity."""
    builder = ArticulationBuilder(fixed_base=False, gravity=(0, 0, 0), name="brick")
    builder.add_link(mass=3.0, inertia=[0.3, 0.4, 0.5], name="brick")
    builder.add_link(0, Joint.revolute(name="lid"), mass=1.0, inertia=[0.1, 0.1, 0.1], name="lid")
    return builder.build("float64")


@functools.cache
def _slept():
    """Numbers of the steps after which a batch of bricks with these velocities sleeps, over 200
    steps."""
    a = _brick()

    @jax.jit
    @jax.vmap
    def run(velocity):
        state = artix.neutral_state(a).replace(root_velocity=velocity)

        def advance(carry, _):
            carry = artix.step_with_sleep(a, *carry, None, DT)
            return carry, (
                artix.is_sleeping(carry[1]),
                carry[1].wake_counter,
                carry[0].root_velocity,
            )

        return jax.lax.scan(advance, (state, artix.wake_up(a)), length=200)[1]

    return run


@pytest.mark.slow
def test_when_a_body_falls_asleep() -> None:
    """With 20 steps of 10 ms in half a wake time, the sum of velocities is 20 v: asleep if (20 v)^2
    / 2 < 5e-3."""
    slow, fast, spin = 0.0045, 0.0055, np.zeros((3, 6))
    spin[0, 0], spin[1, 0] = slow, fast
    # Turning about z by w: links of 3 and 1 kg, of which the lid has 0.1 kg m^2 / 1 kg and the
    # brick 0.5 / 3.
    spin[2, 5] = 0.95 * np.sqrt(2 * 5e-3 / (0.5 / 3)) / 20
    sleeping, counter, velocity = map(np.asarray, _slept()(jnp.asarray(spin)))
    for k in (0, 2):
        assert np.flatnonzero(sleeping[k])[0] == 39  # 0.4 s in all
        assert np.all(velocity[k, 39:] == 0)
        assert np.all(velocity[k, 38] == pytest.approx(spin[k], abs=1e-9))
    assert not np.any(sleeping[1])
    # The faster one stirs after ceil(0.1 / 0.0055) = 19 sums, the counter having gone from 0.4 to
    # 0.2 before them.
    assert counter[1, 37, 0] == pytest.approx(0.02, abs=1e-9)
    assert counter[1, 38, 0] == pytest.approx(0.2 * 0.5 * (19 * fast) ** 2 / 5e-3, abs=1e-9)


def test_forces_wake_and_sleep_can_be_asked_for() -> None:
    a = _brick()
    state = artix.neutral_state(a).replace(joint_velocity=jnp.ones(1))
    state, sleep = artix.put_to_sleep(a, state)
    assert bool(artix.is_sleeping(sleep))
    step = jax.jit(artix.step_with_sleep)
    state, sleep = step(a, state, sleep, Control(joint_force=jnp.zeros(1)), DT)
    assert bool(artix.is_sleeping(sleep))
    moved, woken = step(a, state, sleep, Control(joint_force=jnp.ones(1)), DT)
    assert not bool(artix.is_sleeping(woken))
    np.testing.assert_allclose(woken.wake_counter, 0.39)
    alone = jax.jit(artix.step)(a, state, Control(joint_force=jnp.ones(1)), DT)
    np.testing.assert_allclose(moved.joint_velocity, alone.joint_velocity, rtol=1e-12)


def test_a_robot_that_has_diverged_does_not_fall_asleep() -> None:
    """NaN is not rest: it would sleep with velocities of zero, as if nothing were wrong."""
    a = _brick()
    state = artix.neutral_state(a).replace(joint_velocity=jnp.full(1, jnp.nan))
    step = jax.jit(artix.step_with_sleep)
    sleep = artix.wake_up(a)
    for _ in range(8):
        state, sleep = step(a, state, sleep, None, 0.1)
    assert not bool(artix.is_sleeping(sleep))
    assert np.all(np.isnan(state.joint_velocity))


# --- residuals ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["implicit", pytest.param("pgs", marks=pytest.mark.exhaustive)])
def test_residuals_are_what_another_sweep_would_change(solver: str) -> None:
    """Of a chain whose limits act all at once: they fall with the iterations, to nothing."""
    a = pendulum(3, limits=[(-0.1, 0.1)], drive=Drive(stiffness=500.0, damping=5.0, target=1.0))
    state = at(a, jnp.array([0.1, 0.11, 0.12]), jnp.array([2.0, 1.0, 1.0]))
    found = []
    for iterations in (2, 3, 400):
        options = SolverOptions(
            solver=solver, position_iterations=iterations, velocity_iterations=0
        )
        report = jax.jit(artix.step_and_report, static_argnames="options")(
            a, state, None, DT, options
        )[1]
        found.append(report.position_residual)
        np.testing.assert_array_equal(report.velocity_residual.max, report.position_residual.max)
    if solver == "implicit":  # It is solved to rounding, whatever the number of sweeps.
        assert all(residual.max < 1e-12 for residual in found)
        return
    assert found[0].max > found[1].max > 1e3 * found[2].max
    for residual in found[:2]:
        assert 0 < residual.rms <= residual.max


def test_the_residual_of_one_degree_of_freedom() -> None:
    """By PGS the sweeps of a drive against a limit: the last one's change of the velocity, as two
    runs show it."""
    a = pendulum(1, drive=Drive(stiffness=2000.0, damping=5.0, target=1.0))
    velocity, residual = [], []
    for iterations in (2, 3):
        options = SolverOptions(solver="pgs", position_iterations=iterations, velocity_iterations=0)
        end, report = jax.jit(artix.step_and_report, static_argnames="options")(
            a, at(a, 0.0), None, DT, options
        )
        velocity.append(float(end.joint_velocity[0]))
        residual.append(report.position_residual)
    assert residual[1].max == pytest.approx(abs(velocity[1] - velocity[0]), rel=1e-9)
    assert residual[1].rms == pytest.approx(residual[1].max)


def test_counters_of_another_robot_are_refused() -> None:
    pole, arm = artix.robots.load("cart_pole"), artix.robots.load("arm7")
    for sleep, error, message in (
        (artix.wake_up(arm), ValueError, r"sleep\.wake_counter: expected shape \(3,\)"),
        (None, TypeError, "sleep: expected"),
    ):
        with pytest.raises(error, match=message):
            artix.step_with_sleep(pole, artix.neutral_state(pole), sleep, None, 0.01)
    for counter in (-1.0, float("nan"), np.float32("inf"), np.ones(3)):
        with pytest.raises(
            ValueError, match="wake_counter: expected one number, finite and not negative; found"
        ):
            artix.wake_up(pole, counter)
    awake = artix.wake_up(pole)
    none = jnp.full(3, jnp.nan, pole.dtype)
    for sleep, message in (
        (awake.replace(linear_sum=awake.linear_sum[:2]), r"sleep\.linear_sum: expected shape"),
        (awake.replace(wake_counter=none), r"sleep\.wake_counter: every number must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            artix.step_with_sleep(pole, artix.neutral_state(pole), sleep, None, 0.01)
    with pytest.raises(TypeError, match=r"articulation: expected artix\.Articulation, found Scene"):
        artix.step_with_sleep(artix.Scene(pole), artix.neutral_state(pole), awake, None, 0.01)  # type: ignore[arg-type]
    for threshold in (-1.0, float("nan"), np.ones(3)):
        with pytest.raises(ValueError, match="sleep_threshold: expected one number"):
            artix.step_with_sleep(
                pole, artix.neutral_state(pole), awake, None, 0.01, sleep_threshold=threshold
            )
