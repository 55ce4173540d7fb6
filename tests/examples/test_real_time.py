"""Plans against the clock: what the delay of a plan costs, and what predicting the state gives
back."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import optimal_control
from artix.examples import real_time


def settled(arm, **options):
    run = real_time.follow_target(arm, seconds=1.6, **options)
    return run, np.sqrt(np.mean(run.errors[1000:] ** 2))


@pytest.mark.slow
def test_the_predicted_state_makes_up_for_the_delay():
    """Where the model is exact, the plan from the predicted state is the one that was made without
    delay."""
    arm = artix.robots.load("arm7").astype(jnp.float32)
    options = {"feedback": False, "clock": lambda: 0.0}
    (_, without), (run, predicted) = (
        settled(arm, delay=delay, **options) for delay in (0.0, 0.015)
    )
    assert not np.any(run.late)
    assert without < 2e-3
    np.testing.assert_allclose(predicted, without, rtol=1e-2)
    _, measured = settled(arm, delay=0.015, predict=False, **options)
    assert not measured < 10 * without  # NaN, too


@pytest.mark.slow
def test_a_plan_that_is_late_leaves_the_one_before_to_act():
    """Every third plan takes longer than a period, and is lost."""
    arm = artix.robots.load("arm7").astype(jnp.float32)
    moments = iter(np.cumsum([0.03 if k % 6 == 1 else 0.001 for k in range(1000)]))
    run, error = settled(arm, clock=lambda: float(next(moments)))
    np.testing.assert_array_equal(run.late, np.arange(80) % 3 == 0)
    np.testing.assert_allclose(run.ticks[:4], [0.03, 0.001, 0.001, 0.03], atol=1e-9)
    assert error < 4e-3


@pytest.mark.slow
def test_the_ticks_of_many_robots_are_one_call():
    """And each robot gets the plan that it would get alone: of 64, those with the largest
    differences from the rest."""
    arm = artix.robots.load("arm7").astype(jnp.float32)
    dynamics = optimal_control.discrete_dynamics(arm, real_time.COMMAND)
    rest = dynamics.pack(
        artix.neutral_state(arm).replace(joint_position=jnp.array(real_time.BENT, arm.dtype))
    )
    plan = jax.jit(functools.partial(real_time.first_plan, arm))(rest)
    changes = 0.05 * jax.random.normal(jax.random.key(0), (64, dynamics.num_deviations), arm.dtype)
    states = jax.vmap(functools.partial(dynamics.integrate, rest))(changes)
    replan = functools.partial(real_time.tick, arm, lead=15, feedback=True)
    many = jax.jit(jax.vmap(replan, in_axes=(None, 0, None)))(plan, states, plan.start)
    one = jax.jit(replan)
    assert np.ptp(np.asarray(many.controls), axis=0).max() > 1
    for k in np.argsort(np.linalg.norm(changes, axis=1))[[0, -1]]:
        alone = one(plan, states[k], plan.start)
        np.testing.assert_allclose(many.controls[k], alone.controls, atol=2e-3)
        np.testing.assert_allclose(many.states[k], alone.states, atol=1e-4)
