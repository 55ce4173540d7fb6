"""Forward dynamics: against Pinocchio's articulated-body algorithm, as the inverse of inverse
dynamics, and its gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from tests.support import oracles
from tests.support.bases import BASES, BASES_FIXED_SLOW
from tests.support.marks import slow_besides
from tests.support.models import random_states, state_at, zoo
from tests.support.oracles import ROBOT_FILES

# Ten times the tolerance of other quantities and more, because a solve amplifies round-off by the
# mass matrix's condition.
TOLERANCE = 1e-10


def arguments(articulation: artix.Articulation, seed: int = 0):
    """A state, generalised forces and wrenches."""
    rng, topology = np.random.default_rng(seed), articulation.topology
    state = state_at(random_states(articulation, 1, seed=seed), 0)
    force, wrench = rng.normal(size=topology.nv), rng.normal(size=(topology.num_links, 6))
    return (
        state,
        jnp.asarray(10 * force, articulation.dtype),
        jnp.asarray(wrench, articulation.dtype),
    )


@BASES
@pytest.mark.parametrize("robot", slow_besides(["kinova"], list(ROBOT_FILES)[:4]))
def test_against_pinocchio(robot: str, fixed_base: bool) -> None:
    model, articulation = oracles.load_robot(ROBOT_FILES[robot], fixed_base=fixed_base)
    state, force, wrench = arguments(articulation)
    found = jax.jit(artix.forward_dynamics)(articulation, state, force, wrench)
    wanted = oracles.Oracle.at(model, articulation, state).forward_dynamics(force, wrench)
    assert np.max(np.abs(found - wanted)) <= TOLERANCE * np.max(np.abs(wanted))


@BASES_FIXED_SLOW
def test_inverts_inverse_dynamics(fixed_base: bool) -> None:
    articulation = zoo(fixed_base=fixed_base, armature=0.3)
    state, force, wrench = arguments(articulation, 1)
    acceleration = jax.jit(artix.forward_dynamics)(articulation, state, force, wrench)
    again = jax.jit(artix.inverse_dynamics)(articulation, state, acceleration, wrench)
    np.testing.assert_allclose(again, force, atol=1e-10)


@pytest.mark.slow
def test_of_a_body_without_degrees_of_freedom() -> None:
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(None, None, mass=1.0, name="base")
    articulation = builder.build()
    state, force = artix.neutral_state(articulation), jnp.zeros(0, articulation.dtype)
    assert artix.forward_dynamics(articulation, state, force).shape == (0,)
    assert artix.mass_matrix_inverse(articulation, state).shape == (0, 0)


@pytest.mark.slow
def test_gradient_in_state_and_parameters() -> None:
    articulation = zoo(fixed_base=False)
    state, force, _ = arguments(articulation, 2)

    def loss(position, velocity, mass):
        moved = state.replace(joint_position=position, joint_velocity=velocity)
        return jnp.sum(
            artix.forward_dynamics(articulation.replace(link_mass=mass), moved, force) ** 2
        )

    point = (state.joint_position, state.joint_velocity, articulation.link_mass)
    gradients = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*point)
    evaluate, step = jax.jit(loss), 1e-6
    for k, gradient in enumerate(gradients):
        direction = jnp.asarray(np.random.default_rng(k).normal(size=gradient.shape))
        ends = [
            evaluate(*(x + (s * step * direction if i == k else 0) for i, x in enumerate(point)))
            for s in (1, -1)
        ]
        np.testing.assert_allclose(
            jnp.vdot(gradient, direction), (ends[0] - ends[1]) / (2 * step), rtol=1e-6
        )
