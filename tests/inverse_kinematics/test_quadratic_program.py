"""Small quadratic programs, beside MuJoCo's solver of boxes and the conditions of a minimum."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy.optimize import nnls

import artix
from artix.inverse_kinematics.quadratic_program import QuadraticProgram, minimum

SOLVE = jax.jit(artix.quantity(lambda program: minimum(program)))


def program(rng, n, m, width, dtype=np.float64):
    """A least-squares problem with fewer rows than unknowns, damped as velocities are."""
    J = 0.5 * rng.normal(size=(n - 1, n))
    H, g = J.T @ J + 1e-5 * np.eye(n), J.T @ rng.normal(scale=1e-2, size=n - 1)
    lower, upper = -rng.uniform(1e-3, width, n), rng.uniform(1e-3, width, n)
    A, b = rng.normal(size=(m, n)), rng.uniform(0, 1e-2, m)
    return QuadraticProgram(*(jnp.asarray(each, dtype) for each in (H, g, lower, upper, A, b)))


def value(data, x):
    H, g = np.asarray(data.H, float), np.asarray(data.g, float)
    return 0.5 * x @ H @ x + g @ x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_boxes_are_those_of_mujoco(dtype):
    """The cost at the minimum, in units of what it saves: H is nearly singular, so that the minimum
    is flat."""
    rng = np.random.default_rng(0)
    for width in (2e-3, 0.1, 10.0):
        for _ in range(5):
            data = program(rng, 7, 0, width, dtype)
            found = SOLVE(data)
            exact, R, index = np.zeros(7), np.zeros((7, 14)), np.zeros(7, np.int32)
            numbers = (np.array(each, float) for each in data[:4])
            mujoco.mju_boxQP(exact, R, index, *numbers)
            least = value(data, exact)
            assert found.is_solved
            assert np.all((found.x >= data.lower) & (found.x <= data.upper))
            assert abs(value(data, np.asarray(found.x, float)) - least) < {
                "float32": 1e-5,
                "float64": 1e-11,
            }[dtype] * abs(least)


def test_rows_hold_and_the_conditions_of_a_minimum_are_satisfied():
    """The slope is a sum of the normals of what holds, with positive multipliers (Karush, Kuhn and
    Tucker)."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(20):
        data = program(rng, 7, 4, 0.02)
        found = SOLVE(data)
        assert found.is_solved
        H, g, lower, upper, A, b = (np.asarray(each) for each in data)
        x = np.asarray(found.x)
        np.testing.assert_array_less(A @ x, b + 1e-10)
        close = 1e-7
        rows = A @ x > b - close
        held += rows.sum()
        normals = np.concatenate(
            [A[rows], np.eye(7)[x > upper - close], -np.eye(7)[x < lower + close], np.zeros((1, 7))]
        )
        _, missing = nnls(normals.T, -(H @ x + g))
        assert missing < 1e-9 * np.linalg.norm(g)
    assert held > 10


@pytest.mark.parametrize("solver", ["proxqp", "osqp"])
def test_rows_are_those_of_other_solvers(solver):
    """The cost at the minimum, in units of what it saves; they reach 1e-9 in rows and
    conditions."""
    qpsolvers = pytest.importorskip("qpsolvers")
    if solver not in qpsolvers.available_solvers:
        pytest.skip(f"{solver} is not installed")
    rng = np.random.default_rng(1)
    options = {"proxqp": {}, "osqp": {"polishing": True, "max_iter": 100_000}}[solver]
    for _ in range(10):
        data = program(rng, 7, 4, 0.02)
        H, g, lower, upper, A, b = (np.asarray(each) for each in data)
        unit = 1e4  # of the cost, as solvers stop at absolute residuals
        limits = {"lb": lower, "ub": upper, "eps_abs": 1e-11, "eps_rel": 0.0}
        least = qpsolvers.solve_qp(unit * H, unit * g, A, b, solver=solver, **limits, **options)
        found = np.asarray(SOLVE(data).x)
        assert abs(value(data, found) - value(data, least)) < 1e-6 * abs(value(data, least))
        np.testing.assert_allclose(found, least, atol=1e-6)


def test_rows_that_cannot_hold_are_missed_by_the_least():
    data = QuadraticProgram(
        H=jnp.eye(2),
        g=jnp.zeros(2),
        lower=-jnp.ones(2),
        upper=jnp.ones(2),
        A=jnp.array([[-1.0, 0.0]]),
        b=jnp.array([-3.0]),
    )
    found = SOLVE(data)  # x >= 3 within a box of one
    np.testing.assert_allclose(found.x, [1, 0], atol=2e-2)
    np.testing.assert_allclose(found.excess, [2], atol=2e-2)


def test_bounds_may_be_infinite_or_meet():
    data = QuadraticProgram(
        H=jnp.diag(jnp.array([1.0, 2.0, 4.0])),
        g=jnp.array([-1.0, -1.0, 3.0]),
        lower=jnp.array([-jnp.inf, 0.25, -jnp.inf]),
        upper=jnp.array([jnp.inf, 0.25, 0.5]),
        A=jnp.zeros((0, 3)),
        b=jnp.zeros(0),
    )
    found = SOLVE(data)
    assert found.is_solved
    np.testing.assert_allclose(found.x, [1, 0.25, -0.75], atol=1e-9)
    np.testing.assert_allclose(
        SOLVE(data._replace(g=jnp.zeros(3), lower=-jnp.ones(3), upper=jnp.ones(3))).x, 0, atol=1e-9
    )


@pytest.mark.slow
def test_derivatives_are_those_of_differences():
    """In both modes, of a program of whose bounds and rows some hold."""
    rng = np.random.default_rng(2)
    data = program(rng, 5, 3, 0.01)
    data = data._replace(H=data.H + 0.1 * jnp.eye(5))
    change = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)) * 1e-2, data)
    change = change._replace(H=change.H + change.H.T)

    def at(length):
        return SOLVE(jax.tree.map(lambda a, b: a + length * b, data, change)).x

    step = 1e-5
    differences = (at(step) - at(-step)) / (2 * step)
    assert np.linalg.norm(differences) > 1e-4
    forward = jax.jit(jax.jacfwd(at))(0.0)
    np.testing.assert_allclose(forward, differences, atol=1e-6 * np.abs(differences).max() + 1e-9)
    np.testing.assert_allclose(jax.jit(jax.jacrev(at))(0.0), forward, atol=1e-10)
