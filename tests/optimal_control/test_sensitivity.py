"""Derivatives of solutions by what problems are made of, against differences."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from artix import optimal_control
from tests.optimal_control.test_solvers import pendulum_problem


def at_rest(knot: optimal_control.Knot) -> jax.Array:
    return 0.1 * knot.state.joint_velocity


BOUND = {"with bounds": jnp.array([-8.0, -3.0]), "without": None}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOUND)
def test_the_gradient_of_a_solution_is_that_of_differences(kind):
    base, steps = pendulum_problem(0.05), 15
    robot = base.dynamics.articulation
    rng = np.random.default_rng(0)
    by_control, by_state = jnp.asarray(rng.normal(size=(steps, 2))), jnp.asarray(rng.normal(size=(steps + 1, 4)))
    theta = {"start": jnp.array([0.1, -0.2, 0.3, 0.1]), "goal": jnp.array([1.0, 0.5]), "mass": robot.link_mass}
    if BOUND[kind] is not None:
        theta["lower"] = BOUND[kind]

    def outcome(theta):
        dynamics = base.dynamics.replace(articulation=robot.replace(link_mass=theta["mass"]))
        bounds = {"control_lower": theta["lower"], "control_upper": -theta["lower"]} if "lower" in theta else {}
        problem = base.replace(
            dynamics=dynamics, start=theta["start"], parameters=base.parameters | {"goal": theta["goal"]}, **bounds
        )
        found = optimal_control.solve(problem, jnp.zeros((steps, 2)), iterations=30, hessian="exact")
        return jnp.sum(by_control * found.controls) + jnp.sum(by_state * found.states) + 0.3 * found.cost

    at, rebuilt = jax.flatten_util.ravel_pytree(theta)
    flat = jax.jit(lambda x: outcome(rebuilt(x)))
    found = jax.jit(jax.grad(flat))(at)
    units = 1e-5 * np.eye(len(at))
    wanted = np.array([(flat(at + unit) - flat(at - unit)) / 2e-5 for unit in units])
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.max(np.abs(wanted)))
    if "lower" in theta:
        assert np.min(np.abs(wanted[-len(at) :][2:4])) > 0.1  # the bounds matter


def within_speed(knot: optimal_control.Knot) -> jax.Array:
    return knot.state.joint_velocity - knot.parameters["speed"]


def at_goal(knot: optimal_control.Knot) -> jax.Array:
    return jnp.concatenate([knot.state.joint_position - knot.parameters["goal"], knot.state.joint_velocity])


@pytest.mark.slow
def test_the_gradient_of_a_constrained_solution_is_that_of_differences():
    """Through the multipliers: the end is given and two of the speeds are at their limit."""
    base, steps = pendulum_problem(0.05), 12
    base = base.replace(final=at_rest, final_equality=at_goal, inequality=within_speed)
    robot = base.dynamics.articulation
    rng = np.random.default_rng(0)
    by_control, by_state = jnp.asarray(rng.normal(size=(steps, 2))), jnp.asarray(rng.normal(size=(steps + 1, 4)))
    theta = {
        "start": jnp.array([0.1, -0.2, 0.3, 0.1]),
        "goal": jnp.array([0.5, 0.3]),
        "speed": jnp.array([0.9, 2.0]),
        "mass": robot.link_mass,
    }

    def outcome(theta):
        dynamics = base.dynamics.replace(articulation=robot.replace(link_mass=theta["mass"]))
        parameters = base.parameters | {"goal": theta["goal"], "speed": theta["speed"]}
        problem = base.replace(dynamics=dynamics, start=theta["start"], parameters=parameters)
        guess = jnp.zeros((steps, 2))
        found = optimal_control.solve_constrained(problem, guess, iterations=40, outer_iterations=12, most_weight=1e4)
        forces = jnp.sum(found.multipliers.final_equality)
        states = jnp.sum(by_state * found.solution.states)
        return jnp.sum(by_control * found.solution.controls) + states + forces, found

    at, rebuilt = jax.flatten_util.ravel_pytree(theta)
    evaluate = jax.jit(jax.value_and_grad(lambda x: outcome(rebuilt(x)), has_aux=True))
    (_, solved), found = evaluate(at)
    assert solved.violation[-1] < 1e-8
    assert np.sum(solved.multipliers.inequality > 1e-3) >= 2
    units = 1e-5 * np.eye(len(at))
    wanted = np.array([(evaluate(at + unit)[0][0] - evaluate(at - unit)[0][0]) / 2e-5 for unit in units])
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.max(np.abs(wanted)))
