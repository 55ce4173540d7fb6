"""Solvers: closed forms, Crocoddyl's optimum, bounds, constraints, and derivatives of solutions."""

from pathlib import Path

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import optimal_control
from tests.optimal_control.test_dynamics import FEET, quadruped_by_schedule

DATA = Path(__file__).parents[1] / "data"


def swing(knot: optimal_control.Knot) -> jax.Array:
    return jnp.concatenate(
        [knot.parameters["effort"] * knot.control, 0.05 * knot.state.joint_velocity]
    )


def swing_end(knot: optimal_control.Knot) -> jax.Array:
    goal = knot.parameters["goal"]
    return jnp.concatenate([10 * (knot.state.joint_position - goal), 3 * knot.state.joint_velocity])


def pendulum_problem(dt: float = 0.02, **options) -> optimal_control.Problem:
    """A double pendulum stands up."""
    pendulum = artix.robots.load("double_pendulum").astype(jnp.float64)
    dynamics = optimal_control.discrete_dynamics(pendulum, dt)
    parameters = {"effort": jnp.asarray(0.1), "goal": jnp.array([jnp.pi, 0.0])}
    return optimal_control.Problem(
        dynamics, jnp.zeros(4), swing, swing_end, parameters=parameters, **options
    )


def effort(knot: optimal_control.Knot) -> jax.Array:
    return 0.3 * knot.control


def at_one(knot: optimal_control.Knot) -> jax.Array:
    return 10 * jnp.concatenate([knot.state.joint_position - 1.0, knot.state.joint_velocity])


def slider_problem(**options) -> optimal_control.Problem:
    """A mass of 2 kg on a slider goes 1 m."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=[0.0, 0.0, 0.0])
    root = builder.add_link()
    builder.add_link(root, artix.Joint.prismatic(artix.Axis.X), mass=2.0, inertia=[0.1, 0.1, 0.1])
    dynamics = optimal_control.discrete_dynamics(builder.build(jnp.float64), 0.1)
    return optimal_control.Problem(
        dynamics, jnp.zeros(2), effort, options.pop("final", at_one), **options
    )


def slider_rows(steps: int) -> np.ndarray:
    """Position and velocity at the end by each force, which moves the position in every step from
    its own on."""
    velocity = np.full(steps, 0.1 / 2.0)
    return np.stack([velocity * 0.1 * np.arange(steps, 0, -1), velocity])


@pytest.mark.slow
def test_trajectories_policies_and_costs_are_what_they_are_said_to_be():
    problem, controls = slider_problem(), np.random.default_rng(0).normal(size=(6, 1))
    states = optimal_control.rollout(problem, jnp.asarray(controls))
    steps = [
        problem.dynamics(x, u, t)
        for t, (x, u) in enumerate(zip(states[:-1], controls, strict=True))
    ]
    np.testing.assert_allclose(states, [problem.start, *steps], atol=1e-15)
    ends = 10 * np.array([states[-1, 0] - 1, states[-1, 1]])
    cost = 0.5 * ends @ ends + 0.5 * np.sum((0.3 * controls) ** 2)
    np.testing.assert_allclose(
        optimal_control.total_cost(problem, states, jnp.asarray(controls)), cost, rtol=1e-14
    )
    quadratic = optimal_control.approximate(problem, 0.9 * states, jnp.asarray(controls))
    policy = optimal_control.riccati(quadratic)
    deviations, changes = optimal_control.follow(quadratic, policy, 0.5)
    assert np.max(np.abs(quadratic.gap)) > 1e-3
    wanted = 0.5 * policy.feedforward + np.einsum("tij,tj->ti", policy.gain, deviations[:-1])
    np.testing.assert_allclose(changes, wanted, atol=1e-12)
    wanted = np.einsum("tij,tj->ti", quadratic.state_matrix, deviations[:-1]) + 0.5 * quadratic.gap
    wanted += np.einsum("tij,tj->ti", quadratic.control_matrix, changes)
    np.testing.assert_allclose(deviations, [np.zeros(2), *wanted], atol=1e-12)


@pytest.mark.slow
def test_a_linear_problem_is_solved_in_one_iteration():
    """The optimum is that of least squares over the forces."""
    find = jax.jit(lambda u: optimal_control.solve(slider_problem(), u, iterations=2, damping=0.0))
    found = find(jnp.zeros((12, 1)))
    rows = np.concatenate([10 * slider_rows(12), 0.3 * np.eye(12)])
    wanted = np.linalg.lstsq(rows, np.concatenate([[10.0], np.zeros(13)]), rcond=None)[0]
    np.testing.assert_allclose(found.controls[:, 0], wanted, atol=1e-10)
    np.testing.assert_allclose(found.iterations.cost[0], found.cost, rtol=1e-12)
    assert found.converged


def test_bounds_are_those_of_a_quadratic_program():
    scipy = pytest.importorskip("scipy.optimize")
    problem = slider_problem(control_lower=jnp.array([-1.5]), control_upper=jnp.array([2.5]))
    found = jax.jit(lambda u: optimal_control.solve(problem, u, iterations=8, damping=0.0))(
        jnp.zeros((12, 1))
    )
    rows = np.concatenate([10 * slider_rows(12), 0.3 * np.eye(12)])
    wanted = scipy.lsq_linear(rows, np.concatenate([[10.0], np.zeros(13)]), (-1.5, 2.5), tol=1e-14)
    assert np.sum(wanted.active_mask != 0) >= 3
    np.testing.assert_allclose(found.controls[:, 0], wanted.x, atol=1e-7)


def arrive(knot: optimal_control.Knot) -> jax.Array:
    return jnp.concatenate([knot.state.joint_position - 1.0, knot.state.joint_velocity])


def speed_limit(knot: optimal_control.Knot) -> jax.Array:
    return knot.state.joint_velocity - 1.1


def test_constraints_are_those_of_a_quadratic_program():
    """Least effort that arrives, no faster than 1.1 m/s: against SciPy's SLSQP."""
    scipy = pytest.importorskip("scipy.optimize")
    problem = slider_problem(final=None, final_equality=arrive, inequality=speed_limit)
    find = jax.jit(
        lambda *guess: optimal_control.solve_constrained(
            problem, *guess, iterations=4, outer_iterations=10
        )
    )
    nothing_known = optimal_control.Multipliers(None, jnp.zeros((12, 1)), jnp.zeros(2), None)
    found = find(jnp.zeros((12, 1)), jnp.zeros((13, 2)), nothing_known)
    speeds = np.tril(np.full((12, 12), 0.05), -1)
    constraints = [
        {
            "type": "eq",
            "fun": lambda u: slider_rows(12) @ u - [1, 0],
            "jac": lambda u: slider_rows(12),
        },
        {"type": "ineq", "fun": lambda u: 1.1 - speeds @ u, "jac": lambda u: -speeds},
    ]
    options = {"ftol": 1e-15, "maxiter": 200}
    wanted = scipy.minimize(
        lambda u: 0.5 * 0.09 * u @ u, np.ones(12), jac=lambda u: 0.09 * u, constraints=constraints, method="SLSQP",
        options=options,
    )  # fmt: skip
    assert np.sum(np.abs(1.1 - speeds @ wanted.x) < 1e-7) >= 1
    assert found.violation[-1] < 1e-8
    np.testing.assert_allclose(found.solution.controls[:, 0], wanted.x, atol=1e-6)
    # From a solution and its multipliers the first outer iteration is enough.
    warm = find(found.solution.controls, found.solution.states, found.multipliers)
    assert warm.violation[0] < 1e-7 < 1e-3 < found.violation[0]


@pytest.mark.slow
def test_multiple_shooting_converges_in_single_precision():
    """Rounding of many states leaves gaps above the tolerance."""
    problem = slider_problem().replace(start=jnp.array([1000.0, 0.0]))
    problem = jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if leaf.dtype == jnp.float64 else leaf, problem
    )
    controls, states = jnp.ones((120, 1), jnp.float32), jnp.full((121, 2), 3.0, jnp.float32)
    find = jax.jit(
        lambda count: optimal_control.solve(
            problem, controls, states, iterations=count, multiple_shooting=True
        ),
        static_argnums=0,
    )
    assert not find(1).converged
    found = find(6)
    assert found.converged
    assert found.iterations.gap[-1] > 1e-6


OPTIONS = {
    "ddp": {"hessian": "exact"},
    "parallel": {"riccati": "parallel"},
    "gaps": {"with_states": True},
    "multiple shooting": {"with_states": True, "multiple_shooting": True},
}


@pytest.fixture(scope="module")
def stood_up() -> optimal_control.Solution:
    find = jax.jit(lambda u: optimal_control.solve(pendulum_problem(), u, iterations=40))
    return find(jnp.zeros((50, 2)))


@pytest.mark.slow
def test_the_gradient_vanishes_at_the_solution(stood_up):
    problem = pendulum_problem()

    def cost(controls):
        return optimal_control.total_cost(
            problem, optimal_control.rollout(problem, controls), controls
        )

    value, gradient = jax.jit(jax.value_and_grad(cost))(stood_up.controls)
    assert stood_up.converged
    np.testing.assert_allclose(stood_up.cost, value, rtol=1e-12)
    start = jax.jit(jax.grad(cost))(jnp.zeros_like(gradient))
    assert np.max(np.abs(gradient)) < 1e-9 * np.max(np.abs(start))


@pytest.mark.slow
def test_it_ends_once_it_has_converged(stood_up):
    """The same iterations up to there, for each problem of a batch; the history then repeats the
    last one."""

    @jax.jit
    @jax.vmap
    def find(controls):
        return optimal_control.solve(
            pendulum_problem(), controls, iterations=40, until_converged=True
        )

    both = find(jnp.stack([jnp.zeros((50, 2)), stood_up.controls]))
    assert both.converged.all()
    cost, full = np.asarray(both.iterations.cost), np.asarray(stood_up.iterations.cost)
    small = np.asarray(stood_up.iterations.decrease) <= 1e-6 * (1 + full)
    last = int(np.argmax(small))
    assert 3 < last < 30
    np.testing.assert_allclose(cost[0, : last + 1], full[: last + 1], rtol=1e-9)
    np.testing.assert_array_equal(cost[0, last:], cost[0, last])
    np.testing.assert_array_equal(cost[1], cost[1, 0])
    np.testing.assert_allclose(both.cost, stood_up.cost, rtol=1e-6)


@pytest.mark.slow
def test_a_solution_before_is_the_best_guess(stood_up):
    """One iteration from the optimum of a goal nearby comes nearer than five from nothing, and says
    so."""
    problem = pendulum_problem()
    problem = problem.replace(
        parameters=problem.parameters | {"goal": jnp.array([jnp.pi - 0.01, 0.0])}
    )
    find = jax.jit(lambda *guess: optimal_control.solve(problem, *guess, iterations=5))
    cold, warm = (
        find(jnp.zeros((50, 2)), jnp.zeros((51, 4))),
        find(stood_up.controls, stood_up.states),
    )
    assert warm.converged
    assert not cold.converged
    assert warm.iterations.cost[0] < cold.iterations.cost[-1]
    assert warm.iterations.decrease[-1] < 1e-6 < cold.iterations.decrease[-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPTIONS)
def test_all_ways_lead_to_the_same_optimum(kind, stood_up):
    options = dict(OPTIONS[kind])
    states = jnp.zeros((51, 4)) if options.pop("with_states", False) else None
    find = jax.jit(
        lambda u: optimal_control.solve(pendulum_problem(), u, states, iterations=40, **options)
    )
    found = find(jnp.zeros((50, 2)))
    assert found.converged
    assert found.iterations.gap[-1] < 1e-9
    np.testing.assert_allclose(found.cost, stood_up.cost, rtol=1e-10)
    np.testing.assert_allclose(found.controls, stood_up.controls, atol=1e-5)
    if kind == "ddp":  # from some iteration on the expected decrease is squared
        decrease = np.asarray(found.iterations.decrease)
        k = int(np.argmax(decrease < 1e-2))
        assert decrease[k + 2] < 1e-8


def uphill(knot: optimal_control.Knot) -> jax.Array:
    """Its value is ``u - 5``; its derivative says that larger forces cost less."""
    return 2 * jax.lax.stop_gradient(knot.control) - knot.control - 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"riccati": "parallel"}, {"hessian": "exact"}, {"until_converged": True}, {"bound": 1.0}],
    ids=str,
)
def test_a_solver_that_is_stuck_has_not_converged(options):
    """Damping grew until the step that it left gained nothing, and that counted as an optimum."""
    problem = slider_problem(final=None).replace(running=uphill)
    if (bound := options.get("bound")) is not None:
        bounds = jnp.full(1, bound)
        problem = problem.replace(control_lower=-bounds, control_upper=bounds)
    options = {name: value for name, value in options.items() if name != "bound"}
    solution = optimal_control.solve(problem, jnp.zeros((3, 1)), iterations=40, **options)
    assert solution.iterations.step_length[-1] == 0
    assert not solution.converged
    assert solution.iterations.decrease[-1] > 1
    # Held by its bounds, it is at its optimum.
    held = problem.replace(control_lower=jnp.zeros(1), control_upper=jnp.zeros(1))
    if "riccati" not in options:
        assert optimal_control.solve(held, jnp.zeros((3, 1)), iterations=2).converged


@pytest.mark.slow
def test_parallel_riccati_is_the_sequential_one():
    rng = np.random.default_rng(0)
    steps, n, m = 13, 5, 3

    def symmetric(size):
        half = rng.normal(size=(steps, size, size + 2))
        return jnp.asarray(half @ half.swapaxes(1, 2))

    final = symmetric(n)[0]
    problem = optimal_control.LinearQuadratic(
        *(jnp.asarray(rng.normal(size=shape)) for shape in [(steps, n, n), (steps, n, m), (steps, n), (steps, n + m)]),
        symmetric(n + m), jnp.asarray(rng.normal(size=n)), final,
    )  # fmt: skip
    sequential = jax.jit(optimal_control.riccati)(problem)
    parallel = jax.jit(optimal_control.parallel_riccati)(problem)
    for one, other in zip(sequential[:5], parallel[:5], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.max(np.abs(one)))
    free = np.arange(n) != 1
    start = optimal_control.FreeStart(
        jnp.asarray(free),
        jnp.asarray(rng.normal(size=n)),
        symmetric(n)[0],
        jnp.asarray(0.3 * rng.normal(size=(n, n))),
    )
    open_problem = problem._replace(start=start)
    policy = jax.jit(optimal_control.riccati)(open_problem)
    found = optimal_control.follow(open_problem, policy)
    for one, other in zip(found, dense_minimum(open_problem), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.max(np.abs(other)))


def dense_minimum(problem: optimal_control.LinearQuadratic) -> tuple[np.ndarray, np.ndarray]:
    """Deviations and changes of controls as one system of equations."""
    steps, n, m = problem.control_matrix.shape
    width, start = n + m, problem.start
    size = steps * width + n
    hessian, gradient, rows = np.zeros((size, size)), np.zeros(size), np.zeros((steps * n, size))
    for k in range(steps):
        here, after = slice(k * width, (k + 1) * width), slice((k + 1) * width, (k + 1) * width + n)
        hessian[here, here], gradient[here] = problem.hessian[k], problem.gradient[k]
        row = slice(k * n, (k + 1) * n)
        rows[row, here] = np.concatenate(
            [problem.state_matrix[k], problem.control_matrix[k]], axis=1
        )
        rows[row, after] = -np.eye(n)
    first, last = slice(0, n), slice(size - n, size)
    hessian[last, last] += problem.final_hessian
    hessian[first, first] += start.hessian
    hessian[last, first] += start.cross
    hessian[first, last] += start.cross.T
    gradient[last] += problem.final_gradient
    gradient[first] += start.gradient
    fixed = np.eye(size)[:n][~np.asarray(start.free)]
    rows, rights = (
        np.concatenate([rows, fixed]),
        np.append(-np.ravel(problem.gap), np.zeros(len(fixed))),
    )
    corner = np.zeros((len(rows), len(rows)))
    system = np.block([[hessian, rows.T], [rows, corner]])
    solution = np.linalg.solve(system, np.concatenate([-gradient, rights]))[:size]
    knots = np.append(solution, np.zeros(m)).reshape(steps + 1, width)
    return knots[:, :n], knots[:-1, n:]


def trot(knot: optimal_control.Knot) -> jax.Array:
    robot, state, nominal = knot.articulation, knot.state, knot.parameters["nominal"]
    swing = [
        optimal_control.frame_position(robot, state, foot, knot.reference["target"][k])
        * (1 - knot.reference["active"][k])
        for k, foot in enumerate(FEET)
    ]
    terms = [
        optimal_control.posture(robot, state, nominal),
        artix.generalized_velocity(robot, state),
        1e-3**0.5 * knot.control,
        1e-4**0.5 * knot.contact_force,
        *(20**0.5 * each for each in swing),
    ]
    return 0.02**0.5 * jnp.concatenate(terms)


def trot_end(knot: optimal_control.Knot) -> jax.Array:
    robot, state, nominal = knot.articulation, knot.state, knot.parameters["nominal"]
    velocity = artix.generalized_velocity(robot, state)
    return 10**0.5 * jnp.concatenate([optimal_control.posture(robot, state, nominal), velocity])


def recorded_trot() -> tuple[optimal_control.Problem, dict, np.ndarray]:
    """The problem of record_crocoddyl.py, what Crocoddyl found, and its joints in artix' order."""
    recorded = dict(np.load(DATA / "crocoddyl_trot.npz"))
    dynamics = quadruped_by_schedule(recorded["active"] > 0)
    robot = dynamics.articulation
    order = [list(recorded["joint_names"]).index(name) for name in robot.topology.dof_names]
    first = recorded["positions"][0]
    nominal = artix.neutral_state(robot).replace(
        root_pose=jnp.asarray(first[:7]), joint_position=jnp.asarray(first[7:][order])
    )
    start = nominal.replace(root_velocity=nominal.root_velocity.at[0].set(0.2))
    active = np.concatenate([recorded["active"], recorded["active"][-1:]]).astype(float)
    targets = np.broadcast_to(recorded["feet"] + [0.03, 0.0, 0.05], (len(active), 4, 3))
    references = {"active": jnp.asarray(active), "target": jnp.asarray(targets)}
    problem = optimal_control.Problem(
        dynamics,
        dynamics.pack(start),
        trot,
        trot_end,
        references=references,
        parameters={"nominal": nominal},
    )
    return problem, recorded, np.asarray(order)


@pytest.mark.slow
def test_ilqr_finds_crocoddyls_trot():
    problem, recorded, order = recorded_trot()
    hold = artix.gravity_compensation(problem.dynamics.articulation, problem.parameters["nominal"])[
        6:
    ]
    controls = jnp.tile(hold, (len(recorded["controls"]), 1))
    found = jax.jit(
        lambda u: optimal_control.solve(
            problem, u, jnp.tile(problem.start, (len(u) + 1, 1)), iterations=10, damping=0.0
        )
    )(controls)
    assert found.converged
    np.testing.assert_allclose(found.cost, recorded["cost"], rtol=1e-9)
    np.testing.assert_allclose(found.controls, recorded["controls"][:, order], atol=1e-6)
    np.testing.assert_allclose(
        found.states[:, 7:19], recorded["positions"][:, 7:][:, order], atol=1e-7
    )
    np.testing.assert_allclose(found.states[:, :3], recorded["positions"][:, :3], atol=1e-7)
    np.testing.assert_allclose(
        found.states[:, 25:], recorded["joint_velocities"][:, order], atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("with_states", [False, True])
def test_a_guess_beyond_the_bounds_is_brought_within(with_states):
    pole = artix.robots.load("cart_pole").astype("float64")
    problem = optimal_control.Problem(
        optimal_control.discrete_dynamics(pole, 0.05),
        jnp.array([0.5, 0.2, 0.0, 0.0]),
        lambda knot: jnp.concatenate([knot.state.joint_position, 0.1 * knot.control]),
        lambda knot: 5 * knot.state.joint_position,
    )
    free = optimal_control.solve(problem, jnp.zeros((20, 2)), iterations=20)
    limit = jnp.array([1.0, 0.5])
    bounded = problem.replace(control_lower=-limit, control_upper=limit)
    wanted = optimal_control.solve(bounded, jnp.zeros((20, 2)), iterations=20)
    states = free.states if with_states else None
    found = optimal_control.solve(bounded, free.controls, states, iterations=20)
    assert np.all(np.abs(found.controls) <= limit)
    assert found.converged
    np.testing.assert_allclose(found.cost, wanted.cost, rtol=1e-6)


def test_samples_without_a_cost_are_no_elites():
    key = jax.random.key(0)
    found = optimal_control.cross_entropy(
        lambda u: jnp.where(u[0, 0] > 2.3, (u[0, 0] - 3) ** 2, jnp.inf),
        jnp.zeros((1, 1)),
        key,
        iterations=1,
    )
    assert found[0, 0] > 2.3
    guess = jnp.ones((1, 1))
    np.testing.assert_array_equal(
        optimal_control.cross_entropy(lambda u: jnp.nan * jnp.sum(u), guess, key), guess
    )


def test_a_step_of_multiple_shooting_moves_states_along_the_controls_that_bounds_allow():
    """Linear dynamics: a whole step closes all gaps, also where the policy asks for more than the
    bounds allow."""
    limit = jnp.array([1.5])
    problem = slider_problem(control_lower=-limit, control_upper=limit)
    states = 0.3 * jnp.asarray(np.random.default_rng(0).normal(size=(13, 2)))
    find = jax.jit(
        lambda x: optimal_control.solve(
            problem, jnp.zeros((12, 1)), x, iterations=1, multiple_shooting=True
        )
    )
    found = find(states)
    assert found.iterations.step_length[0] == 1
    assert np.sum(np.abs(found.controls) == limit) >= 2
    assert found.iterations.gap[0] < 1e-12


class Drag(optimal_control.DiscreteDynamics):
    """A force against the velocity of each joint, in proportion to it."""

    drag: jax.Array | float = 0.5

    def step(self, x, control, time=0):
        return super().step(x, control - self.drag * self.unpack(x).joint_velocity, time)


@pytest.mark.slow
def test_dynamics_of_a_subclass_are_solved_and_differentiated():
    """A slider with drag is a linear system: its optimum is that of least squares over the
    forces."""
    problem = slider_problem()
    dynamics = Drag(**vars(problem.dynamics), drag=jnp.asarray(1.5))
    linear = jax.jit(dynamics.linearize_tangent)(jnp.array([0.3, 0.7]), jnp.array([0.2]))
    decay = 1 - 0.1 * 1.5 / 2.0
    np.testing.assert_allclose(linear.state_matrix, [[1, 0.1 * decay], [0, decay]], atol=1e-12)
    np.testing.assert_allclose(linear.control_matrix, [[0.005], [0.05]], atol=1e-12)

    def least_cost(drag):
        task = problem.replace(dynamics=dynamics.replace(drag=drag))
        found = optimal_control.solve(task, jnp.zeros((12, 1)), iterations=2, damping=0.0)
        return found.cost, found.controls[:, 0]

    def wanted(drag):
        matrix, column = (
            np.array([[1, 0.1 * (1 - 0.05 * drag)], [0, 1 - 0.05 * drag]]),
            np.array([0.005, 0.05]),
        )
        ends = np.stack(
            [np.linalg.matrix_power(matrix, 11 - k) @ column for k in range(12)], axis=1
        )
        rows, right = (
            np.concatenate([10 * ends, 0.3 * np.eye(12)]),
            np.concatenate([[10.0], np.zeros(13)]),
        )
        controls, cost = np.linalg.lstsq(rows, right, rcond=None)[:2]
        return 0.5 * cost[0], controls

    (cost, controls), slope = jax.jit(jax.value_and_grad(least_cost, has_aux=True))(1.5)
    np.testing.assert_allclose(cost, wanted(1.5)[0], rtol=1e-10)
    np.testing.assert_allclose(controls, wanted(1.5)[1], atol=1e-9)
    np.testing.assert_allclose(
        slope, (wanted(1.5 + 1e-4)[0] - wanted(1.5 - 1e-4)[0]) / 2e-4, rtol=1e-6
    )
