"""Plans against the clock: what the delay of a plan costs, and what predicting the state gives back."""

import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.examples import real_time


def settled(arm, **options):
    run = real_time.follow_target(arm, seconds=1.6, **options)
    return run, np.sqrt(np.mean(run.errors[1000:] ** 2))


@pytest.mark.slow
def test_the_predicted_state_makes_up_for_the_delay():
    """Where the model is exact, the plan from the predicted state is the one that was made without delay."""
    arm = artix.robots.load("arm7").astype(jnp.float32)
    options = {"feedback": False, "clock": lambda: 0.0}
    (_, without), (run, predicted) = (settled(arm, delay=delay, **options) for delay in (0.0, 0.015))
    assert not np.any(run.late)
    assert without < 2e-3
    np.testing.assert_allclose(predicted, without, rtol=1e-2)
    _, measured = settled(arm, delay=0.015, predict=False, **options)
    assert not measured < 10 * without  # NaN, too


def test_a_plan_that_is_late_leaves_the_one_before_to_act():
    """Every third plan takes longer than a period, and is lost."""
    arm = artix.robots.load("arm7").astype(jnp.float32)
    moments = iter(np.cumsum([0.03 if k % 6 == 1 else 0.001 for k in range(1000)]))
    run, error = settled(arm, clock=lambda: float(next(moments)))
    np.testing.assert_array_equal(run.late, np.arange(80) % 3 == 0)
    np.testing.assert_allclose(run.ticks[:4], [0.03, 0.001, 0.001, 0.03], atol=1e-9)
    assert error < 4e-3
