"""IPOPT, OSQP and ProxQP on the same problems: optima and multipliers beside this room's own
solvers, and what is refused."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import optimal_control
from tests.optimal_control import against_ipopt
from tests.optimal_control.test_constrained import beyond
from tests.optimal_control.test_solvers import arrive, slider_problem, speed_limit

pytest.importorskip("ipyopt")
BOUNDS = {"control_lower": jnp.array([-15.0]), "control_upper": jnp.array([9.0])}


@pytest.mark.slow
def test_optimum_and_multipliers_are_those_of_augmented_lagrangians():
    options = {"final": None, "final_equality": arrive, "inequality": speed_limit} | BOUNDS
    problem = slider_problem(**options)
    by_ipopt = optimal_control.solve_by_ipopt(problem, jnp.zeros((12, 1)))
    ours = jax.jit(lambda u: optimal_control.solve_constrained(problem, u, weight=100.0))(
        jnp.zeros((12, 1))
    )
    assert by_ipopt.converged & by_ipopt.feasible & ours.converged
    assert by_ipopt.status == 0
    assert by_ipopt.violation < 1e-8
    cost = optimal_control.total_cost(problem, by_ipopt.states, by_ipopt.controls)
    np.testing.assert_allclose(by_ipopt.cost, cost, rtol=1e-12)
    np.testing.assert_allclose(by_ipopt.cost, ours.cost, rtol=1e-7)
    np.testing.assert_allclose(by_ipopt.controls, ours.solution.controls, atol=1e-4)
    theirs, mine = by_ipopt.multipliers, ours.multipliers
    assert theirs.equality is theirs.final_inequality is None
    assert jnp.max(theirs.inequality) > 0.1
    np.testing.assert_allclose(theirs.inequality, mine.inequality, atol=1e-4)
    np.testing.assert_allclose(theirs.final_equality, mine.final_equality, rtol=1e-4)
    again = optimal_control.solve_by_ipopt(problem, by_ipopt.controls, by_ipopt.states)
    np.testing.assert_allclose(again.cost, by_ipopt.cost, rtol=1e-8)


@pytest.mark.slow
def test_what_cannot_be_reached_is_said_to_be_infeasible():
    """With at most 2 N for 0.8 s, 2 kg move by 0.36 m, and no further."""
    bounds = {"control_lower": jnp.array([-2.0]), "control_upper": jnp.array([2.0])}
    problem = slider_problem(final=None, final_equality=beyond, **bounds)
    found = optimal_control.solve_by_ipopt(problem, jnp.zeros((8, 1)), iterations=100)
    assert not found.feasible
    assert not found.converged
    assert found.status != 0
    np.testing.assert_allclose(found.violation, 100 - 0.36, rtol=0.1)


def turned(knot: optimal_control.Knot) -> jax.Array:
    """Half a radian about the vertical, at rest."""
    twist = knot.state.root_pose[3:6] - jnp.array([0.0, 0.0, jnp.sin(0.25)])
    return jnp.concatenate([twist, knot.state.joint_velocity])


def effort(knot: optimal_control.Knot) -> jax.Array:
    return knot.control


@pytest.mark.slow
def test_a_body_turns_by_its_wheel():
    """States of floating bases are deviations: a body turns against its wheel, by the ratio of
    inertias."""
    builder = artix.ArticulationBuilder(gravity=[0.0, 0.0, 0.0])
    body = builder.add_link(mass=2.0, inertia=[0.4, 0.4, 0.4])
    wheel = artix.Joint.revolute(artix.Axis.SWING2, wrapped=False)
    builder.add_link(body, wheel, mass=1.0, inertia=[0.05, 0.05, 0.1])
    robot = builder.build(jnp.float64)
    dynamics = optimal_control.discrete_dynamics(robot, 0.1)
    start = dynamics.pack(artix.neutral_state(robot))
    problem = optimal_control.Problem(dynamics, start, effort, final_equality=turned)
    found = optimal_control.solve_by_ipopt(problem, 0.1 * jnp.ones((20, 1)))
    assert found.converged
    np.testing.assert_allclose(found.states[-1, 7], -0.5 * (0.4 + 0.1) / 0.1, rtol=1e-7)
    # The double integrator of the joint goes d in N steps at rest: least squares over the forces.
    inertia, steps = 1 / (1 / 0.4 + 1 / 0.1), np.arange(20, 0, -1)
    rows = np.stack([0.1 * 0.1 * steps, np.full(20, 0.1)]) / inertia
    best = np.linalg.lstsq(rows, np.array([-2.5, 0.0]), rcond=None)[0]
    np.testing.assert_allclose(found.controls[:, 0], best, atol=1e-6)


def test_what_ipopt_cannot_do_is_refused(monkeypatch):
    problem, controls = slider_problem(), jnp.zeros((5, 1))
    single = jax.tree.map(lambda x: x.astype("float32") if x.dtype == jnp.float64 else x, problem)
    with pytest.raises(TypeError, match=r"needs float64; the articulation has float32: .*astype"):
        optimal_control.solve_by_ipopt(single, controls.astype("float32"))
    with pytest.raises(TypeError, match=r"cannot be traced: call it outside jax.jit"):
        jax.jit(lambda u: optimal_control.solve_by_ipopt(problem, u).cost)(controls)
    with pytest.raises(ValueError, match=r"tolerance: expected a positive number"):
        optimal_control.solve_by_ipopt(problem, controls, tolerance=0.0)
    with pytest.raises(ValueError, match=r"states: expected shape \[6, 2\]"):
        optimal_control.solve_by_ipopt(problem, controls, jnp.zeros((5, 2)))
    monkeypatch.setitem(sys.modules, "ipyopt", None)
    with pytest.raises(ImportError, match=r"pip install 'artix\[ipopt\]'"):
        optimal_control.solve_by_ipopt(problem, controls)


# --- steps by quadratic programs ----------------------------------------------------------------

QP_SOLVERS = ("proxqp", "osqp")


@pytest.mark.slow
@pytest.mark.parametrize("solver", QP_SOLVERS)
def test_one_quadratic_program_solves_linear_problems(solver):
    """Beside the box constraints and the augmented Lagrangians of this room."""
    pytest.importorskip("qpsolvers")
    zero = jnp.zeros((12, 1))
    boxed = slider_problem(control_lower=jnp.array([-4.0]), control_upper=jnp.array([5.0]))
    step = optimal_control.step_by_quadratic_program(boxed, zero, solver=solver)
    ours = jax.jit(lambda u: optimal_control.solve(boxed, u, iterations=10))(zero)
    assert step.is_solved
    assert jnp.sum(step.controls == 5) >= 1
    assert jnp.sum(step.controls == -4) >= 1
    assert jnp.all(step.states[0] == 0)
    np.testing.assert_allclose(step.controls, ours.controls, atol=1e-8)
    np.testing.assert_allclose(step.states, ours.states, atol=1e-8)
    np.testing.assert_allclose(step.cost, ours.cost, rtol=1e-8)

    problem = slider_problem(final=None, final_equality=arrive, inequality=speed_limit, **BOUNDS)
    step = optimal_control.step_by_quadratic_program(
        problem, zero + 1, solver=solver, tolerance=1e-10
    )
    sharp = {"feasibility_tolerance": 1e-11, "tolerance": 1e-15}
    ours = jax.jit(lambda u: optimal_control.solve_constrained(problem, u, **sharp))(zero)
    assert step.is_solved & ours.converged
    np.testing.assert_allclose(step.controls, ours.solution.controls, atol=1e-8)
    np.testing.assert_allclose(step.states, ours.solution.states, atol=1e-8)
    assert jnp.max(step.multipliers.inequality) > 0.1
    np.testing.assert_allclose(step.multipliers.inequality, ours.multipliers.inequality, atol=1e-7)
    np.testing.assert_allclose(
        step.multipliers.final_equality, ours.multipliers.final_equality, atol=1e-7
    )
    assert step.multipliers.equality is None


@pytest.mark.slow
def test_steps_of_quadratic_programs_end_where_ipopt_ends():
    pytest.importorskip("qpsolvers")
    case = against_ipopt.torques()
    exact = optimal_control.solve_by_ipopt(case.problem, jnp.asarray(case.start(1)))
    controls = exact.controls + 0.05 * np.random.default_rng(0).normal(size=exact.controls.shape)
    states = exact.states + 0.01 * np.random.default_rng(1).normal(size=exact.states.shape)
    for _ in range(40):
        step = optimal_control.step_by_quadratic_program(case.problem, controls, states)
        assert step.is_solved
        controls, states = step.controls, step.states
    np.testing.assert_allclose(step.cost, exact.cost, rtol=1e-8)
    np.testing.assert_allclose(controls, exact.controls, atol=1e-4)
    np.testing.assert_allclose(
        step.multipliers.final_equality, exact.multipliers.final_equality, rtol=1e-4
    )


def shifted_by_one(first: optimal_control.Knot, last: optimal_control.Knot) -> jax.Array:
    moved = last.state.joint_position - first.state.joint_position - 1
    return jnp.concatenate([moved, last.state.joint_velocity - first.state.joint_velocity])


@pytest.mark.slow
def test_a_quadratic_program_may_repeat_its_motion():
    """Without effort, a mass moves on by 1 m in 1.2 s at a constant speed, which is where it
    starts."""
    pytest.importorskip("qpsolvers")
    problem = slider_problem(
        final=None, closure=shifted_by_one, free_start=jnp.array([False, True])
    )
    step = optimal_control.step_by_quadratic_program(problem, jnp.ones((12, 1)), tolerance=1e-10)
    assert step.is_solved
    np.testing.assert_allclose(step.controls, 0, atol=1e-8)
    np.testing.assert_allclose(step.states[:, 1], 1 / 1.2, atol=1e-8)
    single = jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if leaf.dtype == jnp.float64 else leaf, problem
    )
    step = optimal_control.step_by_quadratic_program(single, jnp.ones((12, 1), jnp.float32))
    assert step.states.dtype == step.cost.dtype == jnp.float32
    np.testing.assert_allclose(step.states[:, 1], 1 / 1.2, atol=1e-5)


def nowhere(knot):
    return jnp.log(knot.state.joint_position - 1)


def test_which_quadratic_programs_are_refused(monkeypatch):
    pytest.importorskip("qpsolvers")
    by_qp, zero = optimal_control.step_by_quadratic_program, jnp.zeros((8, 1))
    bounds = {"control_lower": jnp.array([-2.0]), "control_upper": jnp.array([2.0])}
    problem = slider_problem(final=None, final_equality=beyond, **bounds)
    for solver in QP_SOLVERS:
        step = by_qp(problem, zero, solver=solver)
        assert not step.is_solved
        np.testing.assert_array_equal(step.controls, zero)
    with pytest.raises(ImportError, match=r"'mosaic' is not installed; installed are: .*osqp"):
        by_qp(problem, zero, solver="mosaic")
    with pytest.raises(TypeError, match="step_by_quadratic_program cannot be traced"):
        jax.jit(lambda u: by_qp(problem, u).controls)(zero)
    with pytest.raises(ValueError, match="tolerance: expected a positive number"):
        by_qp(problem, zero, tolerance=0.0)
    # ProxQP does not end with such numbers.
    for name in ("running", "final_equality"):
        with pytest.raises(ValueError, match="not finite about the guess"):
            by_qp(problem.replace(**{name: nowhere}), zero)
    monkeypatch.setitem(sys.modules, "qpsolvers", None)
    with pytest.raises(ImportError, match=r"artix\[qp\]"):
        by_qp(problem, zero)
