"""Direct collocation against Pontryagin's conditions, which SciPy solves as a boundary value
problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.examples.collocation import collocate

SECONDS, END = 1.0, np.array([1.0, -0.5, 0.0, 0.0])


def rate(pendulum, x, control):
    state = artix.neutral_state(pendulum).replace(joint_position=x[:2], joint_velocity=x[2:])
    return jnp.concatenate([x[2:], artix.forward_dynamics(pendulum, state, control)])


@pytest.mark.slow
def test_least_effort_is_that_of_the_boundary_value_problem():
    pytest.importorskip("ipyopt")
    integrate = pytest.importorskip("scipy.integrate")
    pendulum = artix.robots.load("double_pendulum").astype(jnp.float64)
    found = collocate(pendulum, np.zeros(4), END, SECONDS, np.array([100.0, 100.0]), segments=64)
    assert found.status == 0

    def control_of(y):
        """Where ``1/2 u^2 + costate f(x, u)`` is least; f is affine in u."""
        return -jax.grad(lambda u: y[4:] @ rate(pendulum, y[:4], u))(jnp.zeros(2))

    def canonical(y):
        by_state = jax.grad(lambda x: y[4:] @ rate(pendulum, x, control_of(y)))(y[:4])
        return jnp.concatenate([rate(pendulum, y[:4], control_of(y)), -by_state])

    both = jax.jit(jax.vmap(lambda y: (canonical(y), control_of(y))))

    def evaluated(y):  # of one shape, and so compiled once
        padded = np.zeros((1024, 8))
        padded[: y.shape[1]] = y.T
        return [np.asarray(each)[: y.shape[1]].T for each in both(padded)]

    guess = np.concatenate([found.states.T, np.zeros((4, len(found.times)))])
    solved = integrate.solve_bvp(
        lambda _, y: evaluated(y)[0],
        lambda a, b: np.concatenate([a[:4], b[:4] - END]),
        found.times,
        guess,
        tol=1e-6,
        max_nodes=1000,
    )
    assert solved.status == 0
    fine = np.linspace(0, SECONDS, 1001)
    best = evaluated(solved.sol(fine))[1]
    np.testing.assert_allclose(found.states, solved.sol(found.times)[:4].T, atol=2e-3)  # of 7 rad/s
    np.testing.assert_allclose(
        found.controls, evaluated(solved.sol(found.times))[1].T, atol=4e-3 * np.abs(best).max()
    )
    np.testing.assert_allclose(
        found.cost, 0.5 * np.trapezoid(np.sum(best**2, axis=0), fine), rtol=1e-5
    )


@pytest.mark.slow
def test_limits_are_kept_and_the_motors_are_at_them():
    pytest.importorskip("ipyopt")
    pendulum = artix.robots.load("double_pendulum").astype(jnp.float64)
    free, held = (
        collocate(pendulum, np.zeros(4), END, SECONDS, np.array([limit, 100.0]), segments=12)
        for limit in (100.0, 5.0)
    )
    assert free.status == held.status == 0
    assert np.max(np.abs(free.controls[:, 0])) > 6
    np.testing.assert_allclose(np.max(np.abs(held.controls[:, 0])), 5.0, rtol=1e-6)
    assert held.cost > free.cost
    np.testing.assert_allclose(held.states[-1], END, atol=1e-7)


def test_what_collocation_cannot_do_is_refused():
    pytest.importorskip("ipyopt")
    quadruped, pendulum = (artix.robots.load(name) for name in ("quadruped", "double_pendulum"))
    with pytest.raises(TypeError, match="collocation needs float64"):
        collocate(pendulum.astype(jnp.float32), np.zeros(4), END, SECONDS, np.ones(2))
    with pytest.raises(ValueError, match="fixed base"):
        collocate(quadruped.astype(jnp.float64), np.zeros(36), np.zeros(36), SECONDS, np.ones(12))
