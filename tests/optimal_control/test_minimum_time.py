"""Free time: closed forms of bang-bang motions, derivatives by the length of a step, and what is
refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import optimal_control
from tests.optimal_control import against_ipopt
from tests.optimal_control.test_solvers import arrive, slider_problem

GRAVITY = 9.81


def duration(knot: optimal_control.Knot) -> jax.Array:
    return jnp.sqrt(2 * knot.control[-1:])


def bounds(force: float, shortest: float, longest: float) -> dict[str, jax.Array]:
    lower, upper = jnp.array([-force, shortest]), jnp.array([force, longest])
    return {"control_lower": lower, "control_upper": upper}


@pytest.mark.slow
def test_a_slider_takes_the_least_time():
    """At most 5 N move 2 kg by 1 m in ``2 sqrt(1 m 2 kg / 5 N)``, by one switch from the one limit
    to the other."""
    slider = slider_problem().dynamics.articulation
    dynamics = optimal_control.discrete_dynamics(slider, None)
    limits = bounds(5.0, 0.02, 0.3)
    problem = optimal_control.Problem(
        dynamics, jnp.zeros(2), duration, final_equality=arrive, **limits
    )
    guess = jnp.tile(jnp.array([0.0, 0.1]), (10, 1))
    found = jax.jit(lambda u: optimal_control.solve_constrained(problem, u))(guess)
    assert found.converged
    forces, lengths = found.solution.controls.T
    np.testing.assert_allclose(found.cost, 2 * np.sqrt(2 / 5), rtol=1e-8)
    np.testing.assert_allclose(jnp.sum(lengths), found.cost, rtol=1e-12)
    np.testing.assert_allclose(np.abs(forces), 5.0, rtol=1e-6)
    assert np.sum(np.diff(np.sign(forces)) != 0) == 1


def upright(knot: optimal_control.Knot) -> jax.Array:
    return jnp.concatenate([knot.state.joint_position - jnp.pi, knot.state.joint_velocity])


def rod() -> artix.Articulation:
    """A rod of 1 kg and 1 m that hangs from its end."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=[0.0, 0.0, -GRAVITY])
    hinge = artix.Joint.revolute(artix.Axis.SWING1, wrapped=False)
    middle = [0.0, 0.0, -0.5, 0.0, 0.0, 0.0, 1.0]
    builder.add_link(builder.add_link(), hinge, mass=1.0, com_pose=middle, inertia=[1 / 12] * 3)
    return builder.build(jnp.float64)


def least_time(torque: float) -> float:
    """Energy gives the speed on both sides of the one switch, and its integral the time."""
    integrate = pytest.importorskip("scipy.integrate")
    weight, inertia = 0.5 * GRAVITY, 1 / 12 + 0.25
    switch = np.pi / 2 + weight / torque

    def speed(angle: float) -> float:
        work = torque * min(angle, switch) - torque * max(angle - switch, 0.0)
        return np.sqrt(2 * (work - weight * (1 - np.cos(angle))) / inertia)

    # Squares take the places of angles where the speed vanishes like a square root.
    before = integrate.quad(lambda s: 2 * s / speed(s * s), 0, np.sqrt(switch))[0]
    return (
        before
        + integrate.quad(lambda s: 2 * s / speed(np.pi - s * s), 0, np.sqrt(np.pi - switch))[0]
    )


@pytest.mark.slow
def test_a_pendulum_stands_up_in_the_least_time():
    """The error of the discretisation falls to a quarter with each half of the step."""
    dynamics, errors = optimal_control.discrete_dynamics(rod(), None), []
    find = jax.jit(optimal_control.solve_constrained)
    for knots in (20, 40):
        limits = bounds(8.0, 0.2 / knots, 3.0 / knots)
        problem = optimal_control.Problem(
            dynamics, jnp.zeros(2), duration, final_equality=upright, **limits
        )
        found = find(problem, jnp.tile(jnp.array([4.0, 1 / knots]), (knots, 1)))
        assert found.converged
        errors.append(abs(found.cost / least_time(8.0) - 1))
    assert errors[1] < 1.5e-3
    assert errors[0] > 3 * errors[1]


@pytest.mark.slow
def test_two_motors_switch_between_their_limits():
    """Between switches both are at their limits; SciPy's integration of the torques ends
    upright."""
    pytest.importorskip("ipyopt")
    from scipy.integrate import solve_ivp

    from artix.examples import minimum_time

    pendulum = artix.robots.load("double_pendulum").astype(jnp.float64)
    found = minimum_time.solve(pendulum, knots=160)
    assert found.converged
    torques, lengths = np.split(np.asarray(found.controls), [2], axis=1)
    at_limits = np.abs(torques) / np.array(minimum_time.LIMITS)
    np.testing.assert_allclose(at_limits, 1.0, atol=1e-3)
    np.testing.assert_array_equal(np.sum(np.diff(np.sign(torques), axis=0) != 0, axis=0), [2, 2])
    np.testing.assert_allclose(found.cost, 0.943, atol=1e-3)

    @jax.jit
    def rate(x: jax.Array, torque: jax.Array) -> jax.Array:
        state = artix.neutral_state(pendulum).replace(joint_position=x[:2], joint_velocity=x[2:])
        return jnp.concatenate([x[2:], artix.forward_dynamics(pendulum, state, torque)])

    x = np.zeros(4)
    for torque, length in zip(torques, lengths[:, 0], strict=True):
        solved = solve_ivp(lambda _, x, torque=torque: rate(x, torque), (0, length), x, rtol=1e-8)
        x = solved.y[:, -1]
    np.testing.assert_allclose(x[:2], [np.pi, 0.0], atol=0.08)


def test_matrices_are_differences_by_state_control_and_length():
    pendulum = artix.robots.load("double_pendulum").astype(jnp.float64)
    dynamics = optimal_control.discrete_dynamics(pendulum, None)
    assert dynamics.num_controls == 3
    x, control = jnp.array([0.3, -0.7, 1.2, 0.4]), jnp.array([2.0, -1.0, 0.05])
    linear = jax.jit(dynamics.linearize_tangent)(x, control)
    found = np.concatenate([linear.state_matrix, linear.control_matrix], axis=1)
    step = jax.jit(jax.vmap(lambda z: dynamics(z[:4], z[4:])))
    shifts = 1e-6 * np.eye(7)
    z = np.concatenate([x, control])
    wanted = (step(z + shifts) - step(z - shifts)).T / 2e-6
    np.testing.assert_allclose(found, wanted, atol=1e-7)
    np.testing.assert_allclose(linear.next_state, dynamics(x, control), atol=1e-14)


@pytest.mark.slow
def test_a_foot_that_stands_holds_in_steps_of_free_length():
    """Matrices of a scheduled step, and of its contact forces, are differences."""
    robot = against_ipopt.leg()
    schedule = optimal_control.ContactSchedule.of(robot, ["foot"], np.ones((1, 1), bool))
    dynamics = optimal_control.discrete_dynamics(
        robot, None, contact_schedule=schedule, actuated=["hip", "knee"]
    )
    x = jnp.array([*against_ipopt.crouched(0.7), 0.1, -0.2, 0.3, 0.1])
    z = jnp.concatenate([x, jnp.array([3.0, -2.0, 0.02])])
    linear = jax.jit(dynamics.linearize_tangent)(x, z[8:])
    step = jax.jit(jax.vmap(lambda z: dynamics.step(z[:8], z[8:])))
    shifts = 1e-6 * np.eye(11)
    (ahead, force_ahead), (behind, force_behind) = step(z + shifts), step(z - shifts)
    found = np.concatenate([linear.state_matrix, linear.control_matrix], axis=1)
    np.testing.assert_allclose(found, (ahead - behind).T / 2e-6, atol=1e-6)
    by_force = (force_ahead - force_behind).T / 2e-6
    scale = np.abs(by_force).max()
    np.testing.assert_allclose(linear.contact_force_matrix, by_force, atol=1e-6 * scale)
    assert linear.contact_force_matrix.shape == (3, 11)


def test_lengths_without_bounds_and_free_steps_through_contact_are_refused():
    dynamics = optimal_control.discrete_dynamics(slider_problem().dynamics.articulation, None)
    problem = optimal_control.Problem(dynamics, jnp.zeros(2), duration)
    controls = jnp.tile(jnp.array([0.0, 0.1]), (5, 1))
    with pytest.raises(ValueError, match=r"control_lower: .* needs bounds above zero; found none"):
        optimal_control.solve(problem, controls)
    with pytest.raises(ValueError, match=r"needs bounds above zero; found -0.1"):
        optimal_control.solve(problem.replace(**bounds(1.0, -0.1, 0.1)), controls)
    quadruped, ground = artix.robots.load("quadruped"), artix.Ground.flat()
    with pytest.raises(ValueError, match=r"dt: steps through contact have a given length"):
        optimal_control.discrete_dynamics(artix.Scene(quadruped, ground=ground), None)
