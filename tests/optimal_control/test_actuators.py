"""Motors with states of their own: closed forms, SciPy's integration, matrices as differences, and
what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import optimal_control
from artix.optimal_control import MotorLag, SeriesElasticity
from tests.optimal_control import against_ipopt
from tests.optimal_control.test_dynamics import differences
from tests.optimal_control.test_solvers import slider_problem

SLIDER = slider_problem().dynamics.articulation  # 2 kg, without gravity
PENDULUM = artix.robots.load("double_pendulum").astype(jnp.float64)
SPRING = SeriesElasticity(stiffness=jnp.array([300.0, 200.0]), inertia=0.05, damping=0.4)


def effort(knot: optimal_control.Knot) -> jax.Array:
    return jnp.concatenate([0.3 * knot.control, 0.1 * knot.actuator_state])


def at_one(knot: optimal_control.Knot) -> jax.Array:
    state = knot.state
    return 10 * jnp.concatenate(
        [state.joint_position - 1.0, state.joint_velocity, knot.actuator_state]
    )


def test_a_lagging_motor_moves_a_mass_as_the_closed_form_says():
    """Under a constant command u: ``f = u (1 - exp(-t/T))``,
    ``m v = u (t - T (1 - exp(-t/T)))``."""
    dynamics = optimal_control.discrete_dynamics(SLIDER, 0.05, actuator=MotorLag(0.08))
    problem = optimal_control.Problem(dynamics, dynamics.pack(artix.neutral_state(SLIDER)), effort)
    states = optimal_control.rollout(problem, jnp.full((12, 1), 3.0))
    t = 0.05 * np.arange(13)
    force = 3.0 * (1 - np.exp(-t / 0.08))
    np.testing.assert_allclose(states[:, 2], force, atol=1e-13)
    np.testing.assert_allclose(states[:, 1], (3.0 * t - 0.08 * force) / 2.0, atol=1e-13)


@pytest.mark.slow
def test_an_optimum_with_a_lagging_motor_is_that_of_least_squares():
    """Everything is linear, so the optimum is a solution of normal equations; costs see the motor's
    force."""
    dynamics = optimal_control.discrete_dynamics(SLIDER, 0.1, actuator=MotorLag(0.15))
    problem = optimal_control.Problem(dynamics, jnp.zeros(3), effort, at_one)

    @jax.jit
    def residuals(controls):
        states = optimal_control.rollout(problem, controls[:, None])
        running = jnp.concatenate([0.3 * controls, 0.1 * states[:-1, 2]])
        return jnp.concatenate([running, 10 * (states[-1] - jnp.array([1.0, 0.0, 0.0]))])

    slope, at_zero = jax.jacfwd(residuals)(jnp.zeros(12)), residuals(jnp.zeros(12))
    best, cost = np.linalg.lstsq(slope, -at_zero)[:2]
    found = jax.jit(lambda u: optimal_control.solve(problem, u, iterations=3, damping=0.0))(
        jnp.zeros((12, 1))
    )
    np.testing.assert_allclose(found.controls[:, 0], best, atol=1e-9)
    np.testing.assert_allclose(found.cost, 0.5 * cost[0], rtol=1e-10)


def test_a_mass_behind_a_spring_moves_as_scipy_says():
    """The error falls with the length of a step."""
    solve_ivp = pytest.importorskip("scipy.integrate").solve_ivp
    spring = SeriesElasticity(stiffness=50.0, inertia=0.5, damping=1.0)

    def rate(_, z):
        q, v, motor, w = z
        force = 50.0 * (motor - q) + 1.0 * (w - v)
        return [v, force / 2.0, w, (4.0 - force) / 0.5]

    wanted, errors = solve_ivp(rate, (0, 0.6), np.zeros(4), rtol=1e-10, atol=1e-12).y[:, -1], []
    for knots in (150, 300):
        dynamics = optimal_control.discrete_dynamics(SLIDER, 0.6 / knots, actuator=spring)
        problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort)
        end = optimal_control.rollout(problem, jnp.full((knots, 1), 4.0))[-1]
        errors.append(np.abs(end - wanted).max())
    assert errors[1] < 0.012
    assert errors[0] > 1.8 * errors[1]


@pytest.mark.parametrize("dt", [0.02, None])
def test_matrices_are_differences(dt):
    """By joints, motors and commands, of one motor of two, and by the length of a step."""
    spring = SPRING.replace(stiffness=300.0)
    elbow = PENDULUM.topology.joint_names[-1]
    dynamics = optimal_control.discrete_dynamics(PENDULUM, dt, actuator=spring, actuated=[elbow])
    assert (dynamics.num_states, dynamics.num_deviations) == (6, 6)
    x, u = (
        jnp.array([0.3, -0.7, 1.2, 0.4, -0.65, 0.1]),
        jnp.array([2.0, 0.03][: dynamics.num_controls]),
    )
    assert_matrices_are_differences(dynamics, x, u)


@pytest.mark.slow
def test_matrices_are_differences_where_a_foot_stands():
    robot = against_ipopt.leg()
    schedule = optimal_control.ContactSchedule.of(robot, ["foot"], np.ones((1, 1), bool))
    options = {"contact_schedule": schedule, "actuated": ["knee", "hip"]}
    dynamics = optimal_control.discrete_dynamics(robot, 0.01, actuator=SPRING, **options)
    bent = artix.neutral_state(robot).replace(
        joint_position=jnp.asarray(against_ipopt.crouched(0.7))
    )
    x = dynamics.pack(bent)
    np.testing.assert_allclose(x[8:], [-1.4, 0.7, 0, 0])  # unloaded springs
    x = x + 0.1 * jnp.arange(12.0) / 12
    assert_matrices_are_differences(dynamics, x, jnp.array([3.0, -2.0]))


def assert_matrices_are_differences(dynamics, x, u):
    linear = jax.jit(dynamics.linearize_tangent)(x, u)
    ndx = dynamics.num_deviations
    step = jax.jit(lambda z: dynamics.step(dynamics.integrate(x, z[:ndx]), u + z[ndx:]))
    ahead = differences(lambda z: dynamics.difference(linear.next_state, step(z)[0]), ndx + len(u))
    found = np.concatenate([linear.state_matrix, linear.control_matrix], axis=1)
    np.testing.assert_allclose(found, ahead, atol=1e-7 * np.abs(ahead).max())
    np.testing.assert_allclose(linear.next_state, dynamics(x, u), atol=1e-12)
    if len(linear.contact_force):
        by_force = differences(lambda z: step(z)[1], ndx + len(u))
        np.testing.assert_allclose(
            linear.contact_force_matrix, by_force, atol=1e-6 * np.abs(by_force).max()
        )


@pytest.mark.slow
def test_the_cost_of_a_swing_up_by_the_springs_stiffness_is_that_of_differences():
    """Numbers of the motors are arrays of the problem, by which solutions can be differentiated."""

    def cost(stiffness):
        dynamics = optimal_control.discrete_dynamics(
            PENDULUM, 0.02, actuator=SPRING.replace(stiffness=stiffness)
        )
        problem = optimal_control.Problem(dynamics, jnp.zeros(8), swing, upright)
        return optimal_control.solve(problem, jnp.zeros((40, 2)), iterations=60)

    solution = jax.jit(cost)(150.0)
    assert solution.converged
    slope = jax.jit(jax.grad(lambda stiffness: cost(stiffness).cost))(150.0)
    ahead, behind = (jax.jit(cost)(150.0 + change).cost for change in (0.1, -0.1))
    np.testing.assert_allclose(slope, (ahead - behind) / 0.2, rtol=1e-4)


def swing(knot: optimal_control.Knot) -> jax.Array:
    return jnp.concatenate(
        [0.1 * knot.control, 0.05 * knot.state.joint_velocity, 0.02 * knot.actuator_state]
    )


def upright(knot: optimal_control.Knot) -> jax.Array:
    return jnp.concatenate(
        [10 * (knot.state.joint_position - jnp.array([1.5, 0.0])), 3 * knot.state.joint_velocity]
    )


class Backwards(optimal_control.Actuator):
    def step(self, position, velocity, state, control, dt):
        return jnp.concatenate([control, control]), state


@pytest.mark.parametrize(
    ("actuator", "kind", "words"),
    [
        (0.02, TypeError, r"actuator: expected one, such as MotorLag\(0.02\); found float"),
        (
            MotorLag(0.0),
            ValueError,
            r"actuator.time_constant: expected a positive number \[s\]; found 0.0",
        ),
        (
            SeriesElasticity(-1.0, 0.1),
            ValueError,
            r"actuator.stiffness: expected a positive number",
        ),
        (
            Backwards(),
            ValueError,
            r"Backwards.step of 2 motors should return shapes \(2,\) and \(2,\); found \(4,\)",
        ),
        (optimal_control.Actuator(), NotImplementedError, "Actuator needs a method step"),
    ],
)
def test_what_is_no_motor_is_refused(actuator, kind, words):
    with pytest.raises(kind, match=words):
        optimal_control.discrete_dynamics(PENDULUM, 0.02, actuator=actuator)


def test_states_and_joints_that_do_not_fit_are_refused():
    dynamics = optimal_control.discrete_dynamics(
        PENDULUM, 0.02, actuator=MotorLag(jnp.array([0.02, 0.03]))
    )
    with pytest.raises(ValueError, match=r"x: expected shape \[6\], a flat state; found \(4,\)"):
        dynamics(jnp.zeros(4), jnp.zeros(2))
    with pytest.raises(
        ValueError, match=r"control: expected shape \[2\], a command for each motor; found \(1,\)"
    ):
        dynamics(jnp.zeros(6), jnp.zeros(1))
    with pytest.raises(ValueError, match=r"actuator_state: expected shape \[2\]"):
        dynamics.pack(artix.neutral_state(PENDULUM), jnp.zeros(3))
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(
        builder.add_link(), artix.Joint.spherical(name="ball"), mass=1.0, inertia=[0.1] * 3
    )
    with pytest.raises(
        ValueError, match=r"actuator: joint 'ball' has 3 DOFs; motors drive joints of one"
    ):
        optimal_control.discrete_dynamics(builder.build(jnp.float64), 0.02, actuator=MotorLag(0.02))
