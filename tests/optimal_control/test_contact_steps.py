"""Optimisation through the step's own contact: a hopper with one leg."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Geometry, optimal_control
from tests.optimal_control.test_dynamics import differences


def hopper() -> optimal_control.DiscreteDynamics:
    """A body of 2 kg on a vertical rail, with a leg that pushes between 0.1 and 0.5 m, above the
    ground."""
    builder = artix.ArticulationBuilder(name="hopper", fixed_base=True)
    rail = builder.add_link(name="rail")
    up = artix.Joint.prismatic(artix.Axis.Z, name="height")
    body = builder.add_link(rail, up, mass=2.0, inertia=(0.02, 0.02, 0.02), name="body")
    leg = artix.Joint.prismatic(artix.Axis.Z, name="leg", limits=[(-0.5, -0.1)])
    builder.add_link(body, leg, mass=0.2, inertia=(1e-3, 1e-3, 1e-3), name="foot")
    builder.add_geometry("foot", Geometry.sphere(0.02))
    return optimal_control.discrete_dynamics(
        artix.Scene(builder.build(jnp.float64), ground=artix.Ground.flat()), 0.01, actuated=["leg"]
    )


def effort(knot: optimal_control.Knot) -> jax.Array:
    return 0.01 * knot.control


def apex(knot: optimal_control.Knot) -> jax.Array:
    position, velocity = knot.state.joint_position, knot.state.joint_velocity
    return jnp.stack([50 * (position[0] - 0.6), 5 * velocity[0], 2 * (position[1] + 0.3)])


@pytest.mark.slow
def test_matrices_of_a_step_that_stands_are_those_of_differences():
    dynamics = hopper()
    x, u = jnp.array([0.3199, -0.3, 0.0, 0.0]), jnp.array([-19.62])
    linear = jax.jit(dynamics.linearize_tangent)(x, u)
    wanted = differences(jax.jit(lambda z: dynamics.deviated_step(x, u, z[:4], z[4:])), 5)
    found = np.concatenate([linear.state_matrix, linear.control_matrix], axis=1)
    assert np.max(np.abs(wanted)) > 10  # it stands, so that its velocity depends on its height
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.max(np.abs(wanted)))


@pytest.mark.slow
def test_it_jumps():
    """Half a second from standing to rest at an apex 28 cm higher, through contact, the leg's limit
    and take-off."""
    problem = optimal_control.Problem(hopper(), jnp.array([0.32, -0.3, 0.0, 0.0]), effort, apex)
    guess = jnp.full((50, 1), -2 * 9.81).at[10:25].add(-15.0)
    # At the optimum the leg rests at its limit without a force, where rounding decides on a side of
    # the kink: four iterations leave hardly any predicted decrease, and more would only try the
    # sides.
    found = jax.jit(lambda u: optimal_control.solve(problem, u, iterations=4))(guess)
    assert found.converged
    np.testing.assert_allclose(found.states[-1, 0], 0.6, atol=5e-3)
    np.testing.assert_allclose(found.states[-1, 2], 0.0, atol=5e-2)
    foot = found.states[:, 0] + found.states[:, 1] - 0.02
    assert np.min(foot) > -1e-4
    assert foot[-1] > 0.05
    # It hurls itself up: in the air nothing but gravity acts on all of it.
    speeds = (2 * found.states[:, 2] + 0.2 * (found.states[:, 2] + found.states[:, 3])) / 2.2
    np.testing.assert_allclose(np.diff(speeds)[-5:], -9.81 * 0.01, atol=1e-6)
