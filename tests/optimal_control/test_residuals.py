"""Residuals of costs: values, gradients and Gauss-Newton matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import optimal_control
from tests.optimal_control.test_dynamics import differences
from tests.support.models import random_states, state_at, tree_of


def everything(knot: optimal_control.Knot) -> jax.Array:
    """Each residual that there is, one after the other."""
    robot, state, target = knot.articulation, knot.state, knot.parameters
    return jnp.concatenate(
        [
            optimal_control.frame_pose(robot, state, "tool", target["pose"]),
            optimal_control.frame_position(robot, state, "link_1", target["point"]),
            optimal_control.center_of_mass(robot, state, target["point"]),
            optimal_control.centroidal_momentum(robot, state, target["momentum"]),
            optimal_control.posture(robot, state, target["nominal"]),
            0.7 * artix.generalized_velocity(robot, state),
            0.3 * knot.control,
            0.2 * knot.contact_force,
            optimal_control.violation(optimal_control.friction_cone(knot.contact_force, 0.1, 1.0)),
        ]
    )


@pytest.mark.parametrize(
    ("residual", "size"),
    [
        (lambda *args: optimal_control.frame_pose(*args[:2], "tool", args[2]), 7),
        (lambda *args: optimal_control.frame_position(*args[:2], "tool", args[2]), 3),
        (optimal_control.center_of_mass, 3),
        (optimal_control.centroidal_momentum, 6),
    ],
)
def test_wrong_targets_are_refused(residual, size):
    arm = artix.robots.load("arm7")
    state = artix.neutral_state(arm)
    with pytest.raises(ValueError, match=rf"target: expected shape \[{size}\], .*; found \(2,\)"):
        residual(arm, state, jnp.zeros(2, arm.dtype))
    with pytest.raises(TypeError, match=r"target: expected an array .* found NoneType"):
        residual(arm, state, None)


@pytest.mark.slow
def test_gradients_and_matrices_of_all_residuals_are_those_of_differences():
    a = tree_of(["spherical_012", "revolute_swing1", "prismatic_y"], [0, 0, 2], fixed_base=False)
    schedule = optimal_control.ContactSchedule.of(a, ["link_1", "tool"], [[True, False]])
    dynamics = optimal_control.discrete_dynamics(a, 0.02, contact_schedule=schedule)
    states = random_states(a, 2, 3)
    target = {
        "pose": jnp.array([0.3, -0.2, 0.5, 0.0, 0.6, 0.0, 0.8]),
        "point": jnp.array([0.1, 0.2, -0.3]),
        "momentum": jnp.arange(6.0),
        "nominal": state_at(states, 1),
    }
    x, u = dynamics.pack(state_at(states, 0)), jnp.linspace(-1.0, 1.0, dynamics.num_controls)
    problem = optimal_control.Problem(
        dynamics, x, everything, lambda knot: knot.state.joint_velocity, parameters=target
    )
    ndx = dynamics.num_deviations

    def moved(change):
        at, acting = dynamics.integrate(x, change[:ndx]), u + change[ndx:]
        force = dynamics.step(at, acting, 0)[1]
        return everything(optimal_control.Knot(a, dynamics.unpack(at), acting, force, None, target))

    value = jax.jit(moved)(jnp.zeros(ndx + len(u)))
    slope = differences(jax.jit(moved), ndx + len(u))
    # Force and cone of the frame that is free do not change, nor do the other one's conditions if
    # they hold.
    held = np.sum(value[-4:-2] == 0)
    assert held < 2
    assert np.sum(np.max(np.abs(slope), axis=1) < 1e-3) == 5 + held
    found = jax.jit(lambda: optimal_control.approximate(problem, jnp.stack([x, x]), u[None]))()
    wanted = value @ slope, slope.T @ slope
    np.testing.assert_allclose(found.gradient[0], wanted[0], atol=1e-6 * np.max(np.abs(wanted[0])))
    np.testing.assert_allclose(found.hessian[0], wanted[1], atol=1e-6 * np.max(np.abs(wanted[1])))


def test_the_rotation_from_a_target_is_scipys():
    rotation = pytest.importorskip("scipy.spatial.transform").Rotation
    arm = artix.robots.load("arm7").astype(jnp.float64)
    states = random_states(arm, 20)
    target = jnp.array([0.3, -0.2, 0.5, 0.48, 0.6, 0.0, 0.64])
    found = jax.jit(jax.vmap(lambda s: optimal_control.frame_pose(arm, s, "tool", target)))(states)
    poses = jax.jit(jax.vmap(lambda s: artix.frame_pose(arm, s, "tool")))(states)
    turn = rotation.from_quat(poses[:, 3:]) * rotation.from_quat(target[3:]).inv()
    np.testing.assert_allclose(found[:, 3:], turn.as_rotvec(), atol=1e-12)
    np.testing.assert_allclose(found[:, :3], poses[:, :3] - target[:3], atol=1e-14)
    places = jax.vmap(lambda s: optimal_control.frame_position(arm, s, "tool", target[:3]))(states)
    np.testing.assert_allclose(places, found[:, :3], atol=1e-14)
    at_targets = jax.vmap(lambda s, pose: optimal_control.frame_pose(arm, s, "tool", pose))(
        states, poses
    )
    np.testing.assert_allclose(at_targets, 0, atol=1e-14)


def test_a_posture_leads_back_from_the_nominal_one():
    a = tree_of(["spherical_012", "revolute_swing1"], [0, 0], fixed_base=False)
    state, nominal = (state_at(random_states(a, 2), k) for k in range(2))
    back = artix.integrate(a, nominal, optimal_control.posture(a, state, nominal))
    np.testing.assert_allclose(artix.distance(a, back, state), 0, atol=1e-13)


def test_targets_that_cannot_be_are_refused():
    arm = artix.robots.load("arm7")
    state = artix.neutral_state(arm)
    pose = artix.frame_pose(arm, state, "tool")
    for wrong in (pose.at[3:].multiply(2), pose.at[3:].set(0)):
        with pytest.raises(ValueError, match="target: expected a quaternion"):
            optimal_control.frame_pose(arm, state, "tool", wrong)
    unknown = jnp.full(3, jnp.nan, arm.dtype)
    with pytest.raises(ValueError, match="target: every number must be finite"):
        optimal_control.frame_position(arm, state, "tool", unknown)
    with pytest.raises(ValueError, match="target: every number must be finite"):
        optimal_control.center_of_mass(arm, state, unknown)


def test_a_wrench_is_in_its_cone_where_forces_on_the_corners_add_up_to_it():
    """Random wrenches, half of them of corner forces on the edges of their friction pyramids,
    beside linear programs."""
    linprog = pytest.importorskip("scipy.optimize").linprog
    friction, x, y = 0.5, 0.11, 0.04
    rng = np.random.default_rng(0)
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    corners = np.pad(signs * [x, y], ((0, 0), (0, 1)))
    edges = np.pad(friction * signs, ((0, 0), (0, 1)), constant_values=1.0)
    rays = np.array([[*edge, *np.cross(corner, edge)] for corner in corners for edge in edges])
    sparse = rng.exponential(size=(60, 16)) * (rng.random((60, 16)) < 0.25)
    around = rng.normal(size=(60, 6)) * [0.4, 0.4, 0.3, 0.03, 0.08, 0.04] + [0, 0, 1, 0, 0, 0]
    wrenches = np.concatenate([sparse @ rays, around])
    wrenches = np.concatenate([wrenches, wrenches[:60] + 1e-3 * rng.normal(size=(60, 6))])
    most = jax.vmap(lambda w: jnp.max(optimal_control.wrench_cone(w, friction, x, y)))(
        jnp.asarray(wrenches)
    )
    inside = [
        linprog(np.zeros(16), A_eq=rays.T, b_eq=w, method="highs").status == 0
        for w in wrenches[60:]
    ]
    assert most[:60].max() < 1e-12
    assert np.sum(inside) > 20
    assert np.sum(inside) < 100
    np.testing.assert_array_equal(most[60:] <= 0, inside)


@pytest.mark.slow
def test_the_wrench_under_a_body_at_rest_is_in_the_cone_if_its_weight_is_above_the_sole():
    """A body of 5 kg on a sole that is turned about the vertical, whose centre of mass is in front
    of it and beside."""
    builder = artix.ArticulationBuilder()
    body = builder.add_link(
        mass=5.0, com_pose=[0.05, 0.02, 0.3, 0.0, 0.0, 0.0, 1.0], inertia=[0.1, 0.1, 0.1]
    )
    builder.add_link(body, artix.Joint.revolute(artix.Axis.SWING2), mass=1e-9, inertia=[1e-9] * 3)
    builder.add_frame("sole", body)
    robot = builder.build(jnp.float64)
    schedule = optimal_control.ContactSchedule.of(robot, ["sole"], [[True]], type="weld")
    dynamics = optimal_control.discrete_dynamics(robot, 0.01, contact_schedule=schedule)
    turned = artix.neutral_state(robot).replace(
        root_pose=jnp.array([0.3, 0.1, 0.0, 0.0, 0.0, 0.6, 0.8])
    )
    pose = artix.frame_pose(robot, turned, "sole")
    wrench = dynamics.step(dynamics.pack(turned), jnp.zeros(1))[1]
    center = artix.center_of_mass(robot, turned) - pose[:3]
    weight = jnp.array([0.0, 0.0, 5.0 * 9.81])
    np.testing.assert_allclose(
        wrench, jnp.concatenate([weight, jnp.cross(center, weight)]), atol=1e-5
    )

    def most(half_length, half_width):
        rows = optimal_control.wrench_cone(wrench, 0.6, half_length, half_width, poses=pose[None])
        return jnp.max(rows)

    assert most(0.051, 0.021) < 0
    assert most(0.049, 0.021) > 0
    assert most(0.051, 0.019) > 0
    with pytest.raises(
        ValueError, match=r"contact_force: expected shape \[6 K\], wrenches on K soles"
    ):
        optimal_control.wrench_cone(wrench[:3], 0.6, 0.1, 0.1)
    with pytest.raises(ValueError, match=r"poses: expected shape \[1, 7\]"):
        optimal_control.wrench_cone(wrench, 0.6, 0.1, 0.1, poses=pose)
