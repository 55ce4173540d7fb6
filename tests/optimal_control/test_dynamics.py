"""Trajectory optimisation: dynamics in the tangent space, the solvers, and Crocoddyl's optimum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import optimal_control
from tests.support.models import random_states, state_at, tree_of

FEET = ["front_left_foot", "front_right_foot", "rear_left_foot", "rear_right_foot"]


def differences(function, size: int, step: float = 1e-6) -> np.ndarray:
    units = step * np.eye(size)
    return np.stack([(function(unit) - function(-unit)) / (2 * step) for unit in units], axis=-1)


def quadruped_by_schedule(pattern, dt: float = 0.02) -> optimal_control.DiscreteDynamics:
    robot = artix.robots.load("quadruped").astype(jnp.float64)
    schedule = optimal_control.ContactSchedule.of(robot, FEET, pattern)
    return optimal_control.discrete_dynamics(robot, dt, contact_schedule=schedule)


def test_flat_states_and_back():
    a = tree_of(["spherical_012", "revolute_swing1"], [0, 0], fixed_base=False)
    dynamics = optimal_control.discrete_dynamics(a, 0.02)
    state = state_at(random_states(a, 1), 0)
    x = dynamics.pack(state)
    assert x.shape == (dynamics.num_states,) == (7 + 4 + 10,)
    assert dynamics.num_deviations == 20
    jax.tree.map(np.testing.assert_array_equal, dynamics.unpack(x), state)
    change = 0.3 * jnp.arange(20.0) / 20
    np.testing.assert_allclose(
        dynamics.difference(x, dynamics.integrate(x, change)), change, atol=1e-12
    )


def test_a_fixed_base_elsewhere_has_no_flat_state():
    """Its pose was dropped in silence, and an arm at a wall planned as if it stood upright."""
    arm = artix.robots.load("double_pendulum")
    dynamics, state = optimal_control.discrete_dynamics(arm, 0.02), artix.neutral_state(arm)
    for pose in ([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.6, 0.0, 0.0, 0.8]):
        with pytest.raises(ValueError, match=r"state\.root_pose: flat states have no pose"):
            dynamics.pack(state.replace(root_pose=jnp.array(pose)))
    turned = state.replace(root_pose=-state.root_pose)  # the same rotation
    np.testing.assert_array_equal(dynamics.pack(turned), np.zeros(4))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["smooth", "point", "weld"])
def test_matrices_are_the_derivatives_of_the_step(kind):
    a = tree_of(["spherical_012", "revolute_swing1", "prismatic_y"], [0, 0, 2], fixed_base=False)
    schedule = None
    if kind != "smooth":
        frames, active = ["link_1", "tool"], [[True, False], [True, True]]
        schedule = optimal_control.ContactSchedule.of(a, frames, active, type=kind)
    dynamics = optimal_control.discrete_dynamics(
        a, 0.02, contact_schedule=schedule, actuated=["joint_3", "joint_1"]
    )
    x, u, time = (
        dynamics.pack(state_at(random_states(a, 1, 3), 0)),
        jnp.array([1.0, -2.0, 0.5, 0.7]),
        0,
    )
    linear = jax.jit(dynamics.linearize_tangent)(x, u, time)
    twin = jax.jit(lambda change: dynamics.deviated_step(x, u, change[:-4], change[-4:], time))
    found = np.concatenate([linear.state_matrix, linear.control_matrix], axis=1)
    wanted = differences(twin, dynamics.num_deviations + 4)
    np.testing.assert_allclose(found, wanted, atol=1e-7 * np.max(np.abs(wanted)))
    np.testing.assert_allclose(linear.next_state, dynamics(x, u, time), atol=1e-12)
    if schedule is not None:
        held = schedule.constraints.num_rows // 2
        force = jax.jit(lambda z: dynamics.step(dynamics.integrate(x, z[:-4]), u + z[-4:], time)[1])
        wanted = differences(force, dynamics.num_deviations + 4)
        np.testing.assert_allclose(
            linear.contact_force_matrix, wanted, atol=1e-6 * np.max(np.abs(wanted))
        )
        assert np.max(np.abs(linear.contact_force[held:])) < 1e-9 * np.max(
            np.abs(linear.contact_force[:held])
        )


@pytest.mark.slow
def test_what_does_not_stand_is_free():
    """With nothing that stands, a step by schedule is one of smooth dynamics; what stands, as
    constrained dynamics say."""
    dynamics = quadruped_by_schedule([[False] * 4, [True, False, False, True]])
    robot = dynamics.articulation
    state = state_at(random_states(robot, 1), 0)
    x, u = dynamics.pack(state), jnp.linspace(-3.0, 3.0, 12)
    free = optimal_control.discrete_dynamics(robot, 0.02)
    step = jax.jit(dynamics.step)
    np.testing.assert_allclose(step(x, u, 0)[0], free(x, u), atol=1e-9)
    rows = [
        artix.Constraint(frame_a=FEET[k], axes="world_aligned", velocity_gain=20.0) for k in (0, 3)
    ]
    wanted = artix.constrained_forward_dynamics(
        robot,
        state,
        jnp.pad(u, (6, 0)),
        artix.Constraints.of(robot, rows),
        damping=0.0,
        iterations=1,
    )
    found, force = step(x, u, 1)
    velocity = artix.generalized_velocity(robot, state) + 0.02 * wanted.acceleration
    np.testing.assert_allclose(found[-18:], velocity, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        force.reshape(4, 3)[np.array([0, 3])].ravel(), wanted.constraint_force, rtol=1e-8
    )
