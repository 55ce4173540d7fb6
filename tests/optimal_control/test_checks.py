"""Invalid arguments are refused by name before anything is compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import optimal_control
from tests.optimal_control.test_dynamics import FEET
from tests.optimal_control.test_solvers import at_one, effort, slider_problem

CONTROLS = jnp.zeros((5, 1))


def solve(controls=CONTROLS, states=None, options=None, **changed):
    problem = slider_problem().replace(**changed)
    return optimal_control.solve(problem, controls, states, **{"iterations": 1} | (options or {}))


WRONG = {
    "controls without a knot axis": ({"controls": jnp.zeros(5)}, r"controls: expected shape \[T, 1\].*found \(5,\)"),
    "a batch of controls": ({"controls": jnp.zeros((2, 5, 1))}, r"use jax.vmap over batches"),
    "no knots": ({"controls": jnp.zeros((0, 1))}, r"controls: expected at least one knot"),
    "controls in single precision": ({"controls": CONTROLS.astype(jnp.float32)}, r"controls: expected dtype float64"),
    "a list": ({"controls": [[0.0]]}, r"controls: expected an array.*found list"),
    "states of all but the last knot": ({"states": jnp.zeros((5, 2))}, r"states: expected shape \[6, 2\]"),
    "a start of another robot": ({"start": jnp.zeros(3)}, r"problem.start: expected shape \[2\]"),
    "a start that is not finite": ({"start": jnp.array([0.0, np.nan])}, r"problem.start: every number must be finite; found nan at \[1\]"),
    "a guess that is not finite": ({"controls": CONTROLS.at[3, 0].set(np.nan)}, r"controls: every .* nan at \[3, 0\]"),
    "states that are not finite": (
        {"states": jnp.zeros((6, 2)).at[2, 1].set(np.inf)}, r"states: every .* inf at \[2, 1\]"
    ),
    "a start in single precision": ({"start": np.zeros(2, np.float32)}, r"problem.start: expected dtype float64"),
    "references for the knots alone": ({"references": jnp.zeros(5)}, r"problem.references: expected a leading axis"),
    "one bound": ({"control_lower": jnp.zeros(1)}, r"give both or neither"),
    "bounds reversed": (
        {"control_lower": jnp.ones(1), "control_upper": -jnp.ones(1)}, r"control_lower: expected no entry above"
    ),
    "bounds for another robot": (
        {"control_lower": -jnp.ones(2), "control_upper": jnp.ones(2)}, r"problem.control_lower: expected shape \[1\]"
    ),
    "a scalar residual": ({"running": lambda knot: jnp.sum(knot.control)}, r"expected a vector; found shape \(\)"),
    "a residual of numbers": ({"running": lambda knot: (knot.control, 1.0)}, r"expected a vector.*found tuple"),
    "a residual in single precision": (
        {"running": lambda knot: knot.control.astype(jnp.float32)}, r"residual .*: expected dtype float64"
    ),
    "a final residual of controls": ({"final": lambda knot: knot.control}, r"at the end .* knot.control .* None"),
    "dynamics that are a function": ({"dynamics": lambda x, u: x}, r"problem.dynamics: .*discrete_dynamics.* found function"),
    "a reference that is no number": (
        {"references": {"goal": np.array([0, 0, np.nan, 0, 0, 0])}},
        r"problem.references\['goal'\]: every number must be finite; found nan at \[2\]; where nothing is wanted",
    ),
    "a parameter that is no number": ({"parameters": (1.0, np.array([np.nan]))}, r"problem.parameters\[1\]: .* nan"),
    "constraints": ({"final_equality": at_one}, r"constraints \(final_equality\): use solve_constrained"),
    "no iterations": ({"options": {"iterations": 0}}, r"iterations must be at least 1; found 0"),
    "no step lengths": ({"options": {"step_lengths": 0}}, r"step_lengths must be at least 1"),
    "a name misspelt": ({"options": {"hessian": "gauss-newton"}}, r"hessian: expected one of 'gauss_newton', 'exact'"),
    "another": ({"options": {"riccati": "associative"}}, r"riccati: expected one of 'sequential', 'parallel'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_problem_is_refused(name):
    changed, message = WRONG[name]
    with pytest.raises((TypeError, ValueError), match=message):
        jax.eval_shape(lambda: solve(**changed))


def test_a_state_is_no_flat_state():
    problem = slider_problem()
    state = artix.neutral_state(problem.dynamics.articulation)
    with pytest.raises(TypeError, match=r"use dynamics.pack\(state\)"):
        optimal_control.rollout(problem.replace(start=state), CONTROLS)


def test_multipliers_of_other_constraints_are_refused():
    problem = slider_problem(final_equality=at_one)
    other = optimal_control.Multipliers(None, None, jnp.zeros(3), None)
    with pytest.raises(
        ValueError, match=r"multipliers.final_equality: expected shape \(2,\); found \(3,\)"
    ):
        jax.eval_shape(
            lambda: optimal_control.solve_constrained(problem, CONTROLS, None, other, iterations=1)
        )
    spoilt = other._replace(final_equality=np.array([0.0, np.nan]))
    with pytest.raises(ValueError, match=r"multipliers.final_equality: every .* nan at \[1\]"):
        jax.eval_shape(
            lambda: optimal_control.solve_constrained(problem, CONTROLS, None, spoilt, iterations=1)
        )


@pytest.mark.parametrize("name", ["weight", "weight_growth", "most_weight"])
def test_weights_of_constraints_are_positive(name):
    problem = slider_problem(final_equality=at_one)
    for wrong in (-1.0, 0.0, np.nan):
        with pytest.raises(ValueError, match=f"^{name}: expected a positive number"):
            optimal_control.solve_constrained(problem, CONTROLS, iterations=1, **{name: wrong})


@pytest.mark.parametrize("name", ["damping", "tolerance"])
def test_damping_and_tolerance_are_not_negative(name):
    for wrong in (-1.0, np.nan):
        for problem, solve in (
            (slider_problem(), optimal_control.solve),
            (slider_problem(final_equality=at_one), optimal_control.solve_constrained),
        ):
            with pytest.raises(ValueError, match=f"^{name}: expected a"):
                solve(problem, CONTROLS, iterations=1, **{name: wrong})


def test_wrong_schedules_are_refused():
    robot = artix.robots.load("quadruped").astype(jnp.float64)
    schedule = optimal_control.ContactSchedule.of(robot, FEET, np.ones((3, 4), bool))
    dynamics = optimal_control.discrete_dynamics(robot, 0.02, contact_schedule=schedule)
    x = dynamics.pack(artix.neutral_state(robot))
    problem = optimal_control.Problem(dynamics, x, effort, effort)
    with pytest.raises(
        ValueError, match=r"contact schedule has shape \(3, 4\).*controls have 5 knots"
    ):
        optimal_control.solve(problem, jnp.zeros((5, 12)), iterations=1)
    with pytest.raises(IndexError, match="there is no knot 3"):
        dynamics(x, jnp.zeros(12), 3)
    with pytest.raises(ValueError, match="made for another articulation"):
        optimal_control.discrete_dynamics(
            artix.robots.load("double_pendulum").astype(jnp.float64),
            0.02,
            contact_schedule=schedule,
        )
    with pytest.raises(TypeError, match="made for an articulation of float64"):
        optimal_control.discrete_dynamics(
            robot.astype(jnp.float32), 0.02, contact_schedule=schedule
        )
    with pytest.raises(ValueError, match="'front_left_foot' occurs more than once"):
        optimal_control.ContactSchedule.of(robot, [FEET[0], FEET[0]], np.ones((3, 2), bool))
    with pytest.raises(ValueError, match="active: expected True where a frame stands"):
        optimal_control.ContactSchedule.of(robot, FEET, 0.5 * np.ones((3, 4)))


def test_fractions_in_percent_and_negative_friction_are_refused():
    for wrong, name in (
        ({"offsets": [0.0, 50.0]}, "offsets"),
        ({"offsets": [0.0, 0.5], "duty": 60.0}, "duty"),
    ):
        with pytest.raises(ValueError, match=f"{name}: expected fractions of the period"):
            optimal_control.gait(**wrong, period=0.5, dt=0.02, num_knots=4)
    with pytest.raises(
        ValueError, match=r"friction: expected a number that is not negative; found -0\.5"
    ):
        optimal_control.friction_cone(jnp.ones(3), -0.5)
    with pytest.raises(ValueError, match="half_width: expected a number that is not negative"):
        optimal_control.wrench_cone(jnp.ones(6), 0.5, 0.1, -0.05)


def test_degrees_milliseconds_and_a_floating_base_are_pointed_out():
    arm = artix.robots.load("arm7")
    dynamics = optimal_control.discrete_dynamics(arm, 0.02)
    turned = jnp.zeros(14).at[1].set(90.0)
    problem = optimal_control.Problem(dynamics, turned, effort)
    with pytest.warns(
        UserWarning, match=r"problem.start: 'shoulder_pitch' is at 90, outside .*radians and metres"
    ):
        jax.eval_shape(
            lambda: optimal_control.total_cost(problem, jnp.zeros((3, 14)), jnp.zeros((2, 7)))
        )
    with pytest.warns(UserWarning, match="dt: 20 s is long for a step"):
        optimal_control.discrete_dynamics(arm, 20.0)
    free = artix.robots.load("quadruped")
    problem = optimal_control.Problem(
        optimal_control.discrete_dynamics(free, 0.02), jnp.zeros(24), effort
    )
    with pytest.raises(
        ValueError,
        match=r"problem.start: expected shape \[37\], .*base, which floats; .*fixed_base=True",
    ):
        optimal_control.rollout(problem, jnp.zeros((2, 12)))


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["solve", "settle", "constrained"])
def test_bounds_that_do_not_meet_are_no_solution(solver):
    """Where they are known, they are refused; traced ones leave ``converged`` false."""
    arm = artix.robots.load("double_pendulum").astype("float64")
    dynamics = optimal_control.discrete_dynamics(arm, 0.02)
    problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort)
    if solver == "constrained":
        problem = problem.replace(final_inequality=lambda knot: knot.state.joint_position - 10)

    @jax.jit
    def solved(lower):
        bounded = problem.replace(control_lower=lower, control_upper=jnp.ones(2))
        guess = jnp.zeros((4, 2))
        if solver == "constrained":
            return optimal_control.solve_constrained(bounded, guess)
        until = solver == "settle"
        return optimal_control.solve(bounded, guess, iterations=10, until_converged=until)

    assert solved(-jnp.ones(2)).converged
    assert not solved(jnp.array([-1.0, 2.0])).converged


def test_couplings_that_smooth_dynamics_ignore_are_said(recwarn):
    builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
    builder.add_mimic("elbow", "shoulder", gear_ratio=1.0)
    ball = artix.LoopJointType.SPHERICAL
    builder.add_loop_joint(artix.LoopJoint(name="rod", link_a=None, link_b="lower", type=ball))
    coupled = builder.build()
    with pytest.warns(
        UserWarning, match="ignore its mimic joints 'elbow' and its loop joints 'rod'; options="
    ):
        optimal_control.discrete_dynamics(coupled, 0.02)
    recwarn.clear()
    optimal_control.discrete_dynamics(coupled, 0.02, options=artix.SolverOptions())
    assert not recwarn


def test_wrong_steps_are_refused():
    pendulum = artix.robots.load("double_pendulum")
    with pytest.raises(ValueError, match="dt: expected a positive number"):
        optimal_control.discrete_dynamics(pendulum, 0.0)
    with pytest.raises(ValueError, match=r"dt: expected one number .*found shape \(50,\).*dt=None"):
        optimal_control.discrete_dynamics(pendulum, np.full(50, 0.02))
    with pytest.raises(ValueError, match="'elbow' occurs more than once"):
        optimal_control.discrete_dynamics(pendulum, 0.02, actuated=["elbow", "elbow"])
    with pytest.raises(ValueError, match="actuated: give the name of at least one joint"):
        optimal_control.discrete_dynamics(pendulum, 0.02, actuated=[])
    with pytest.raises(TypeError, match=r"write \['elbow'\]"):
        optimal_control.discrete_dynamics(pendulum, 0.02, actuated="elbow")


@pytest.mark.slow
def test_samples_without_a_finite_cost_leave_the_controls_as_they_are():
    controls, key = jnp.ones((4, 1)), jax.random.key(0)
    found = optimal_control.mppi(lambda u: jnp.sum(u) * jnp.nan, controls, key, samples=4)
    np.testing.assert_array_equal(found, controls)
    with pytest.raises(TypeError, match="key: expected a random key, found int"):
        optimal_control.mppi(jnp.sum, controls, 0)
    with pytest.raises(ValueError, match="temperature: expected a positive number"):
        optimal_control.mppi(jnp.sum, controls, key, temperature=0.0)
    with pytest.raises(ValueError, match="noise: expected a positive number"):
        optimal_control.mppi(jnp.sum, controls, key, noise=-1.0)
    with pytest.raises(ValueError, match=r"noise: expected a number, .* found shape \(7,\)"):
        optimal_control.cross_entropy(jnp.sum, controls, key, noise=jnp.ones(7))
    with pytest.raises(ValueError, match="elites: expected at most the 4 samples"):
        optimal_control.cross_entropy(jnp.sum, controls, key, samples=4, elites=5)
    with pytest.raises(ValueError, match=r"cost: expected a number .*found shape \(4,\)"):
        optimal_control.mppi(lambda u: u[:, 0], controls, key, samples=8)
