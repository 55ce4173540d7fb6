"""Derivatives of solutions by the data of the problem, against finite differences."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from artix import optimal_control
from tests.optimal_control.test_solvers import pendulum_problem, slider_problem, slider_rows

BOUND = {"with bounds": jnp.array([-8.0, -3.0]), "without": None}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("with bounds", marks=pytest.mark.slow),
        pytest.param("without", marks=pytest.mark.exhaustive),
    ],
)
def test_the_gradient_of_a_solution_is_that_of_differences(kind):
    base, steps = pendulum_problem(0.05), 15
    robot = base.dynamics.articulation
    rng = np.random.default_rng(0)
    by_control, by_state = (
        jnp.asarray(rng.normal(size=(steps, 2))),
        jnp.asarray(rng.normal(size=(steps + 1, 4))),
    )
    theta = {
        "start": jnp.array([0.1, -0.2, 0.3, 0.1]),
        "goal": jnp.array([1.0, 0.5]),
        "mass": robot.link_mass,
    }
    if BOUND[kind] is not None:
        theta["lower"] = BOUND[kind]

    def outcome(theta):
        dynamics = base.dynamics.replace(articulation=robot.replace(link_mass=theta["mass"]))
        bounds = (
            {"control_lower": theta["lower"], "control_upper": -theta["lower"]}
            if "lower" in theta
            else {}
        )
        problem = base.replace(
            dynamics=dynamics,
            start=theta["start"],
            parameters=base.parameters | {"goal": theta["goal"]},
            **bounds,
        )
        found = optimal_control.solve(
            problem, jnp.zeros((steps, 2)), iterations=30, hessian="exact"
        )
        return (
            jnp.sum(by_control * found.controls)
            + jnp.sum(by_state * found.states)
            + 0.3 * found.cost
        )

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
    return jnp.concatenate(
        [knot.state.joint_position - knot.parameters["goal"], knot.state.joint_velocity]
    )


@pytest.mark.slow
def test_the_gradient_of_a_constrained_solution_is_that_of_a_quadratic_program():
    """Of controls and multipliers by the goal, the speed limit and the mass: against differences of
    the KKT solution."""
    base, rng = (
        slider_problem(final=None, final_equality=at_goal, inequality=within_speed),
        np.random.default_rng(0),
    )
    by_control, by_force = rng.normal(size=12), rng.normal(size=2)

    def outcome(theta):
        robot = base.dynamics.articulation
        dynamics = base.dynamics.replace(
            articulation=robot.replace(link_mass=robot.link_mass.at[1].set(theta[2]))
        )
        problem = base.replace(dynamics=dynamics, parameters={"goal": theta[0], "speed": theta[1]})
        guess = jnp.zeros((12, 1)), jnp.zeros((13, 2))
        found = optimal_control.solve_constrained(
            problem, *guess, iterations=4, outer_iterations=10
        )
        pushed = jnp.sum(jnp.asarray(by_force) * found.multipliers.final_equality)
        return jnp.sum(jnp.asarray(by_control) * found.solution.controls[:, 0]) + pushed, found

    theta = np.array([1.0, 1.1, 2.0])
    (value, solved), found = jax.jit(jax.value_and_grad(outcome, has_aux=True))(jnp.asarray(theta))
    active = np.asarray(solved.multipliers.inequality[:, 0]) > 1e-6
    assert np.sum(active) >= 2

    def wanted(theta):
        """Least effort with the constraints that act as equations: a linear system, whose
        multipliers are forces."""
        scale = 2.0 / theta[2]
        rows = scale * np.concatenate(
            [slider_rows(12), np.tril(np.full((12, 12), 0.05), -1)[active]]
        )
        ends = np.concatenate([[theta[0], 0.0], np.full(np.sum(active), theta[1])])
        zero = np.zeros((len(rows), len(rows)))
        kkt = np.block([[0.09 * np.eye(12), rows.T], [rows, zero]])
        both = np.linalg.solve(kkt, np.concatenate([np.zeros(12), ends]))
        return by_control @ both[:12] + by_force @ both[12:14]

    np.testing.assert_allclose(value, wanted(theta), rtol=1e-6)
    differences = [
        (wanted(theta + unit) - wanted(theta - unit)) / 2e-5 for unit in 1e-5 * np.eye(3)
    ]
    np.testing.assert_allclose(found, differences, atol=1e-6 * np.max(np.abs(differences)))
