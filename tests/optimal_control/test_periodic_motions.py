"""Motions that repeat: a pendulum's by elliptic integrals, a gait's by its impulses, and what is
refused."""

import functools

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


@pytest.mark.slow
def test_a_pendulum_swings_for_the_period_of_its_amplitude():
    """No torque is needed where steps of free length add up to the closed form."""
    pytest.importorskip("ipyopt")
    knots, wanted = 60, period(AMPLITUDE)
    dynamics = optimal_control.discrete_dynamics(rod(), None)
    limits = {
        "control_lower": jnp.array([-5.0, 0.5 / knots]),
        "control_upper": jnp.array([5.0, 4.0 / knots]),
    }
    start = jnp.array([AMPLITUDE, 0.0])
    problem = optimal_control.Problem(dynamics, start, effort_at_length, closure=same, **limits)
    phase = 2 * np.pi * np.arange(knots + 1) / knots
    swing = AMPLITUDE * np.stack([np.cos(phase), -FREQUENCY * np.sin(phase)], axis=1)
    found = optimal_control.solve_by_ipopt(
        problem, jnp.tile(jnp.array([0.0, 1.5 / knots]), (knots, 1)), swing
    )
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
    problem = optimal_control.Problem(
        dynamics, jnp.array([0.0, 4.0]), effort, closure=same, free_start=free
    )
    phase = 2 * np.pi * np.arange(knots + 1) / knots
    swing = 1.0 * np.stack([np.sin(phase), FREQUENCY * np.cos(phase)], axis=1)
    found = optimal_control.solve_by_ipopt(problem, jnp.zeros((knots, 1)), swing)
    assert found.converged
    np.testing.assert_allclose(
        found.states[0], [0.0, 2 * FREQUENCY * np.sin(AMPLITUDE / 2)], rtol=8e-4
    )
    np.testing.assert_allclose(found.controls, 0, atol=1e-6)


@pytest.mark.slow
def test_a_hop_repeats_and_its_forces_carry_the_weight():
    """Over a stride, forces of the ground have the impulse of the weight; SciPy's flight under the
    torques ends where it began."""
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
    np.testing.assert_allclose(
        impulse, [0.0, 0.0, weight * jnp.sum(lengths)], atol=0.015 * weight * jnp.sum(lengths)
    )
    assert jnp.all(jnp.abs(forces[:, 0]) <= hop.FRICTION * forces[:, 2] + 1e-6)

    @jax.jit
    def rate(x, torque):
        state = artix.neutral_state(robot).replace(joint_position=x[:4], joint_velocity=x[4:])
        return jnp.concatenate(
            [x[4:], artix.forward_dynamics(robot, state, jnp.pad(torque, (2, 0)))]
        )

    x = np.asarray(found.states[knots // 2])
    for control in np.asarray(found.controls[knots // 2 :]):
        x = solve_ivp(
            lambda _, x, torque=control[:2]: rate(x, torque), (0, control[2]), x, rtol=1e-8
        ).y[:, -1]
    np.testing.assert_allclose(x[:2], last[:2], atol=3e-3)
    np.testing.assert_allclose(x[2:4], last[2:4], atol=0.06)


def near_a_wave(knot: optimal_control.Knot) -> jnp.ndarray:
    miss = knot.state.joint_position - knot.parameters * knot.reference
    return jnp.concatenate([0.3 * knot.control, 3 * miss])


def wave_problem() -> optimal_control.Problem:
    """A rod swings along a sine of 1.2 s by at most 3.5 N m, of which no part is given."""
    sine = jnp.asarray(np.sin(np.linspace(0, 2 * np.pi, 25))[:, None])
    limits = {"control_lower": jnp.array([-3.5]), "control_upper": jnp.array([3.5])}
    return optimal_control.Problem(
        optimal_control.discrete_dynamics(rod(), 0.05), jnp.array([0.3, 4.0]), near_a_wave, references=sine,
        parameters=jnp.asarray(1.2), closure=same, free_start=jnp.ones(2, bool), **limits,
    )  # fmt: skip


@pytest.mark.slow
def test_a_repeated_motion_within_limits_is_ipopts():
    pytest.importorskip("ipyopt")
    problem, controls = wave_problem(), jnp.zeros((24, 1))
    wanted = optimal_control.solve_by_ipopt(problem, controls)
    found = jax.jit(optimal_control.solve_constrained)(problem, controls)
    assert wanted.converged and found.converged
    assert np.sum(np.abs(wanted.controls) > 3.5 - 1e-6) >= 10
    np.testing.assert_allclose(found.cost, wanted.cost, rtol=1e-7)
    np.testing.assert_allclose(found.solution.states, wanted.states, atol=1e-6)
    np.testing.assert_allclose(found.multipliers.closure, wanted.multipliers.closure, atol=1e-5)
    np.testing.assert_allclose(found.solution.states[-1], found.solution.states[0], atol=1e-8)


@pytest.mark.slow
def test_the_gradient_of_a_repeated_motion_is_that_of_differences():
    """By the amplitude of the wave; without limits and closure, too, where the start alone is
    free."""
    problem, controls = wave_problem(), jnp.zeros((24, 1))
    free = problem.replace(closure=None)

    def repeated(amplitude):
        task = problem.replace(parameters=amplitude)
        found = optimal_control.solve_constrained(
            task, controls, tolerance=1e-12, feasibility_tolerance=1e-10
        )
        ends = 3 * found.solution.states[0, 0] + found.solution.states[5, 1]
        return found.cost + ends + found.multipliers.closure[0]

    def free_to_start(amplitude):
        found = optimal_control.solve(free.replace(parameters=amplitude), controls, iterations=30)
        return found.cost + 3 * found.states[0, 0] + found.states[5, 1]

    for function in (repeated, free_to_start):
        value = jax.jit(function)
        difference = (value(1.2 + 1e-3) - value(1.2 - 1e-3)) / 2e-3
        np.testing.assert_allclose(jax.jit(jax.grad(function))(1.2), difference, rtol=1e-5)


@pytest.mark.slow
def test_a_closure_with_a_given_start_is_a_constraint_at_the_end():
    """Also its derivative by the start, which both ends then follow."""
    problem, controls = wave_problem().replace(free_start=None), jnp.zeros((24, 1))
    back = problem.replace(closure=None, final_equality=at_the_start)

    def cost(angle, task):
        start = jnp.array([angle, 4.0])
        numbers = task.parameters if task.closure is not None else (task.parameters, start)
        wave = near_a_wave if task.closure is not None else near_a_wave_and_back
        moved = task.replace(start=start, parameters=numbers, running=wave)
        return optimal_control.solve_constrained(moved, controls, weight=100.0).cost

    found = [
        jax.jit(jax.value_and_grad(functools.partial(cost, task=task)))(0.3)
        for task in (problem, back)
    ]
    np.testing.assert_allclose(*(each[0] for each in found), rtol=1e-7)
    np.testing.assert_allclose(*(each[1] for each in found), rtol=1e-4)


def near_a_wave_and_back(knot: optimal_control.Knot) -> jnp.ndarray:
    return near_a_wave(knot._replace(parameters=knot.parameters[0]))


def at_the_start(knot: optimal_control.Knot) -> jnp.ndarray:
    return (
        jnp.concatenate([knot.state.joint_position, knot.state.joint_velocity]) - knot.parameters[1]
    )


@pytest.mark.slow
def test_a_hop_of_given_duration_is_ipopts():
    pytest.importorskip("ipyopt")
    from artix.examples import hop

    robot, knots, stride = hop.hopper(), 40, 0.25
    task, length = hop.problem(robot, stride, knots), hop.DURATION / knots
    most = jnp.array([hop.MOST_TORQUE, hop.MOST_TORQUE, length])
    task = task.replace(control_lower=most * jnp.array([-1.0, -1.0, 1.0]), control_upper=most)
    along = np.linspace(0.0, stride, knots + 1)[:, None] * np.eye(8)[0]
    states = task.start + along + stride / hop.DURATION * jnp.eye(8)[4]
    guess = jnp.tile(jnp.array([0.0, 0.0, length]), (knots, 1)), states
    wanted = optimal_control.solve_by_ipopt(task, *guess)
    found = jax.jit(functools.partial(optimal_control.solve_constrained, multiple_shooting=True))(
        task, *guess
    )
    assert wanted.converged and found.converged
    np.testing.assert_allclose(found.cost, wanted.cost, rtol=1e-6)
    first, last = found.solution.states[0], found.solution.states[-1]
    np.testing.assert_allclose(last - first, stride * np.eye(8)[0], atol=1e-7)


@pytest.mark.slow
def test_a_trot_repeats_carries_the_weight_and_is_ipopts():
    pytest.importorskip("ipyopt")
    from artix.examples import trot

    robot = artix.robots.load("quadruped").astype(jnp.float64)
    found = jax.jit(lambda: trot.cycle(robot, trot.Gait()))()
    assert found.converged
    first, last = found.solution.states[0], found.solution.states[-1]
    np.testing.assert_allclose(last - first, 0.25 * np.eye(37)[0], atol=1e-7)
    task = trot.cycle_problem(robot, trot.Gait())
    knots = found.solution.states[:-1], found.solution.controls, jnp.arange(25)
    forces = jax.jit(jax.vmap(lambda *knot: task.dynamics.step(*knot)[1]))(*knots).reshape(25, 4, 3)
    weight = GRAVITY * jnp.sum(robot.link_mass)
    np.testing.assert_allclose(
        jnp.mean(jnp.sum(forces, axis=1), axis=0), [0, 0, weight], atol=0.01 * weight
    )
    pattern = optimal_control.gait(trot.OFFSETS, period=0.5, dt=0.02, num_knots=25, duty=0.6)
    assert jnp.abs(forces[~pattern]).max() < 1e-6
    # IPOPT, started there, stays.
    again = optimal_control.solve_by_ipopt(
        task.replace(start=first), found.solution.controls, found.solution.states
    )
    assert again.converged
    np.testing.assert_allclose(found.cost, again.cost, rtol=1e-7)
    np.testing.assert_allclose(found.solution.states, again.states, atol=1e-4)


def both_knots(first: optimal_control.Knot, last: optimal_control.Knot) -> jnp.ndarray:
    return (last.state.joint_position - first.state.joint_position)[0]


def test_what_is_no_periodic_problem_is_refused():
    dynamics = optimal_control.discrete_dynamics(rod(), 0.05)
    problem = optimal_control.Problem(dynamics, jnp.zeros(2), effort, closure=same)
    controls, free = jnp.zeros((5, 1)), jnp.array([False, True])
    with pytest.raises(
        ValueError, match=r"the problem has constraints \(closure\): use solve_constrained"
    ):
        optimal_control.solve(problem, controls)
    with pytest.raises(ValueError, match="riccati='parallel' needs a given start and no closure"):
        optimal_control.solve_constrained(problem, controls, riccati="parallel")
    for wrong, kind, words in (
        ({"free_start": free[:1]}, ValueError, r"problem.free_start: expected shape \[2\]"),
        ({"free_start": jnp.ones(2)}, TypeError, r"problem.free_start: expected dtype .*bool"),
        ({"closure": both_knots}, ValueError, r"both_knots: expected a vector; found shape \(\)"),
    ):
        with pytest.raises(kind, match=words):
            optimal_control.solve_constrained(problem.replace(**wrong), controls)
