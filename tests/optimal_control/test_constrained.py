"""Constrained trajectories: optima beside IPOPT's, and what is said about feasibility, multipliers
and warm starts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from artix import optimal_control
from tests.optimal_control import against_ipopt
from tests.optimal_control.test_solvers import arrive, slider_problem, speed_limit


def beyond(knot: optimal_control.Knot) -> jax.Array:
    """What no bounded force reaches."""
    return knot.state.joint_position - 100.0


@pytest.mark.slow
def test_what_cannot_be_reached_is_said_to_be_infeasible():
    """With at most 2 N for 0.8 s, 2 kg move by 1 N/kg (0.1 s)^2 (1 + ... + 8) = 0.36 m, and no
    further."""
    bounds = {"control_lower": jnp.array([-2.0]), "control_upper": jnp.array([2.0])}
    problem = slider_problem(final=None, final_equality=beyond, **bounds)
    find = jax.jit(
        lambda u: optimal_control.solve_constrained(problem, u, iterations=10, outer_iterations=4)
    )
    found = find(jnp.zeros((8, 1)))
    np.testing.assert_allclose(found.violation[-1], 100 - 0.36, rtol=1e-6)
    assert not found.feasible
    assert not found.converged
    assert not found.solution.converged
    assert found.weight > 100


@pytest.mark.slow
def test_a_solution_warm_starts_the_next_and_the_multipliers_are_prices():
    """The derivative of the least cost by the speed limit is minus the sum of its multipliers."""
    problem = slider_problem(
        final=None, final_equality=arrive, inequality=moved_limit, parameters=jnp.asarray(1.1)
    )

    @jax.jit
    def find(limit, controls, states, multipliers, weight):
        task = problem.replace(parameters=limit)
        return optimal_control.solve_constrained(task, controls, states, multipliers, weight=weight)

    nothing_known = optimal_control.Multipliers(None, jnp.zeros((12, 1)), jnp.zeros(2), None)
    guess = jnp.zeros((12, 1)), jnp.zeros((13, 2)), nothing_known, jnp.asarray(100.0)
    found = find(jnp.asarray(1.1), *guess)
    assert found.converged & found.feasible & found.solution.converged
    np.testing.assert_allclose(
        found.cost,
        optimal_control.total_cost(problem, found.solution.states, found.solution.controls),
        rtol=1e-9,
    )
    known = found.solution.controls, found.solution.states, found.multipliers, found.weight
    again = find(jnp.asarray(1.1), *known)
    assert again.converged
    assert again.violation[0] <= 1e-8  # one outer iteration, where the first start needed more
    assert found.violation[0] > 1e-3
    higher, lower = (find(jnp.asarray(1.1 + change), *known) for change in (1e-4, -1e-4))
    price = -jnp.sum(found.multipliers.inequality)
    np.testing.assert_allclose((higher.cost - lower.cost) / 2e-4, price, rtol=1e-4)


def at_one_or_minus_two(knot: optimal_control.Knot) -> jax.Array:
    """Two places at which to end, the nearer of which is cheaper."""
    x, v = knot.state.joint_position, knot.state.joint_velocity
    return jnp.concatenate([(x - knot.parameters) * (x + 2), v])


@pytest.mark.slow
def test_of_several_weights_the_cheapest_trajectory_counts():
    """From beyond -2 a large weight ends there; a small one first goes to where effort is least,
    then to 1."""
    problem = slider_problem(
        final=None, final_equality=at_one_or_minus_two, parameters=jnp.asarray(1.0)
    )
    guess = jnp.asarray(np.repeat([-9.0, 8.0], 6)[:, None])

    @functools.partial(jax.jit, static_argnames="iterations")
    def find(weight, goal=1.0, iterations=50):
        task, counts = (
            problem.replace(parameters=goal),
            {"iterations": iterations, "outer_iterations": iterations},
        )
        return optimal_control.solve_constrained(task, guess, weight=weight, **counts)

    weights = 1.0, 1e4, jnp.array([1e4, 1.0])
    small, large, best = map(find, weights)
    assert small.converged & large.converged & best.converged
    np.testing.assert_allclose(
        [small.solution.states[-1, 0], large.solution.states[-1, 0]], [1, -2], atol=1e-6
    )
    np.testing.assert_allclose(best.cost, small.cost, rtol=1e-8)
    # Effort rises with the square of the way
    np.testing.assert_allclose(large.cost / small.cost, 4, rtol=1e-6)
    assert best.solution.states.shape == small.solution.states.shape
    slope = jax.grad(lambda goal: find(weights[2], goal).cost)(1.0)
    np.testing.assert_allclose(slope, 2 * best.cost, rtol=1e-4)
    unsolved = [find(weight, iterations=1) for weight in weights]
    assert not any(each.converged for each in unsolved)
    one, two, least = (float(each.violation[-1]) for each in unsolved)
    np.testing.assert_allclose(least, min(one, two), rtol=1e-9)
    for wrong in ((), np.ones((2, 2)), (1.0, -1.0)):
        with pytest.raises(ValueError, match="weight: expected"):
            optimal_control.solve_constrained(problem, guess, weight=wrong)


def moved_limit(knot: optimal_control.Knot) -> jax.Array:
    return knot.state.joint_velocity - knot.parameters


@pytest.mark.slow
def test_single_precision_converges():
    problem = slider_problem(final=None, final_equality=arrive, inequality=speed_limit)
    problem = jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if leaf.dtype == jnp.float64 else leaf, problem
    )
    found = jax.jit(lambda u: optimal_control.solve_constrained(problem, u))(
        jnp.zeros((12, 1), jnp.float32)
    )
    assert found.converged
    assert found.violation[-1] < 1e-4


#: Seeds from most of which both end in the same basin; the page has ten of each problem.
SEEDS = {
    "obstacle": (1, 5, 13),
    "torques": (0, 1, 2),
    "speed": (0, 1, 2),
    "swing_up": (0, 1),
    "terminal": (0, 3, 4),
    "friction": (0, 1, 2),
    "joint_limits": (1, 2, 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_the_optimum_is_ipopts(name):
    """Each stays at the other's solution: both have the same cost to 1e-6, and most do from the
    random start."""
    pytest.importorskip("ipyopt")
    case = getattr(against_ipopt, name)()
    runs = against_ipopt.compare(case, SEEDS[name], weight=100.0)
    for run in runs:
        assert run.found.converged
        assert run.found.violation[-1] <= 1e-8
        assert run.is_confirmed
        assert run.slope < 1e-5
        assert run.confirms or run.ipopt.status != 0
    same = [abs(run.difference) <= against_ipopt.SAME for run in runs if run.ipopt.status == 0]
    assert np.sum(same) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["obstacle", "torques"])
def test_with_default_weights_no_optimum_is_above_ipopts(name):
    pytest.importorskip("ipyopt")
    case, find = getattr(against_ipopt, name)(), jax.jit(optimal_control.solve_constrained)
    for seed in range(5):
        controls = jnp.asarray(case.start(seed))
        found, wanted = (
            find(case.problem, controls),
            optimal_control.solve_by_ipopt(case.problem, controls),
        )
        assert found.converged
        if wanted.converged:
            assert found.cost <= wanted.cost * (1 + against_ipopt.SAME)
