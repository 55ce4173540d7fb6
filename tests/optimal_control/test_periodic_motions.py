"""Motions that repeat: a pendulum's by elliptic integrals, a gait's by its impulses, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import optimal_control
from tests.optimal_control.test_minimum_time import GRAVITY, rod

AMPLITUDE = 1.2
#: Small swings of a rod that hangs from its end, [rad/s].
FREQUENCY = np.sqrt(1.5 * GRAVITY)


def effort(knot: optimal_control.Knot) -> jnp.ndarray:
    return knot.control[:1]


def effort_at_length(knot: optimal_control.Knot) -> jnp.ndarray:
    return knot.control * jnp.array([1.0, 1e-3])


def same(first: optimal_control.Knot, last: optimal_control.Knot) -> jnp.ndarray:
    pairs = [(each.state.joint_position, each.state.joint_velocity) for each in (first, last)]
    return jnp.concatenate([after - before for before, after in zip(*pairs, strict=True)])


def period(amplitude: float) -> float:
    return 4 * pytest.importorskip("scipy.special").ellipk(np.sin(amplitude / 2) ** 2) / FREQUENCY


def test_a_pendulum_swings_for_the_period_of_its_amplitude():
    """No torque is needed where steps of free length add up to the closed form."""
    pytest.importorskip("ipyopt")
    knots, wanted = 60, period(AMPLITUDE)
    dynamics = optimal_control.discrete_dynamics(rod(), None)
    limits = {"control_lower": jnp.array([-5.0, 0.5 / knots]), "control_upper": jnp.array([5.0, 4.0 / knots])}
    start = jnp.array([AMPLITUDE, 0.0])
    problem = optimal_control.Problem(dynamics, start, effort_at_length, closure=same, **limits)
    phase = 2 * np.pi * np.arange(knots + 1) / knots
    swing = AMPLITUDE * np.stack([np.cos(phase), -FREQUENCY * np.sin(phase)], axis=1)
    found = optimal_control.solve_by_ipopt(problem, jnp.tile(jnp.array([0.0, 1.5 / knots]), (knots, 1)), swing)
    assert found.converged
    np.testing.assert_allclose(jnp.sum(found.controls[:, 1]), wanted, rtol=4e-4)
    np.testing.assert_allclose(found.controls[:, 0], 0, atol=1e-6)
    np.testing.assert_allclose(found.states[-1], found.states[0], atol=1e-8)


@pytest.mark.slow
def test_the_speed_of_a_swing_of_given_period_is_that_of_the_closed_form():
    """The start's speed is free."""
    pytest.importorskip("ipyopt")
    knots = 60
    dynamics = optimal_control.discrete_dynamics(rod(), period(AMPLITUDE) / knots)
    free = jnp.array([False, True])
    problem = optimal_control.Problem(dynamics, jnp.array([0.0, 4.0]), effort, closure=same, free_start=free)
    phase = 2 * np.pi * np.arange(knots + 1) / knots
    swing = 1.0 * np.stack([np.sin(phase), FREQUENCY * np.cos(phase)], axis=1)
    found = optimal_control.solve_by_ipopt(problem, jnp.zeros((knots, 1)), swing)
    assert found.converged
    np.testing.assert_allclose(found.states[0], [0.0, 2 * FREQUENCY * np.sin(AMPLITUDE / 2)], rtol=8e-4)
    np.testing.assert_allclose(found.controls, 0, atol=1e-6)


@pytest.mark.slow
def test_a_hop_repeats_and_its_forces_carry_the_weight():
    """Over a stride, forces of the ground have the impulse of the weight; SciPy's flight under the torques ends where it began."""
    pytest.importorskip("ipyopt")
    from scipy.integrate import solve_ivp

    from artix.examples import hop

    robot, knots, stride = hop.hopper(), 40, 0.25
    task, found = hop.problem(robot, stride, knots), hop.solve(robot, stride, knots)
    assert found.converged
    first, last = found.states[0], found.states[-1]
    np.testing.assert_allclose(last - first, stride * np.eye(8)[0], atol=1e-8)
    lengths, dynamics = found.controls[:, 2:], task.dynamics
    forces = jax.jit(jax.vmap(lambda *knot: dynamics.step(*knot)[1]))(
        found.states[:-1], found.controls, jnp.arange(knots)
    )
    weight = (3.5 + 0.6 + 0.3) * GRAVITY  # a rail carries the carriage that moves along
    impulse = jnp.sum(lengths * forces, axis=0)
    np.testing.assert_allclose(impulse, [0.0, 0.0, weight * jnp.sum(lengths)], atol=0.015 * weight * jnp.sum(lengths))
    assert jnp.all(jnp.abs(forces[:, 0]) <= hop.FRICTION * forces[:, 2] + 1e-6)

    @jax.jit
    def rate(x, torque):
        state = artix.neutral_state(robot).replace(joint_position=x[:4], joint_velocity=x[4:])
        return jnp.concatenate([x[4:], artix.forward_dynamics(robot, state, jnp.pad(torque, (2, 0)))])

    x = np.asarray(found.states[knots // 2])
    for control in np.asarray(found.controls[knots // 2 :]):
        x = solve_ivp(lambda _, x, torque=control[:2]: rate(x, torque), (0, control[2]), x, rtol=1e-8).y[:, -1]
    np.testing.assert_allclose(x[:2], last[:2], atol=3e-3)
    np.testing.assert_allclose(x[2:4], last[2:4], atol=0.06)


def both_knots(first: optimal_control.Knot, last: optimal_control.Knot) -> jnp.ndarray:
    return (last.state.joint_position - first.state.joint_position)[0]


def test_what_is_no_periodic_problem_is_refused():
    pytest.importorskip("ipyopt")
    dynamics = optimal_control.discrete_dynamics(rod(), 0.05)
    problem = optimal_control.Problem(dynamics, jnp.zeros(2), effort, closure=same)
    controls, free = jnp.zeros((5, 1)), jnp.array([False, True])
    with pytest.raises(ValueError, match=r"problem.closure: a start that is not given is for solve_by_ipopt"):
        optimal_control.solve(problem, controls)
    ended = problem.replace(closure=None, final_equality=effort, free_start=free)
    with pytest.raises(ValueError, match=r"problem.free_start: a start that is not given is for solve_by_ipopt"):
        optimal_control.solve_constrained(ended, controls)
    for wrong, kind, words in (
        ({"free_start": free[:1]}, ValueError, r"problem.free_start: expected shape \[2\]"),
        ({"free_start": jnp.ones(2)}, TypeError, r"problem.free_start: expected dtype .*bool"),
        ({"closure": both_knots}, ValueError, r"both_knots: expected a vector; found shape \(\)"),
    ):
        with pytest.raises(kind, match=words):
            optimal_control.solve_by_ipopt(problem.replace(**wrong), controls)
