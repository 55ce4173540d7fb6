"""Budgets of scalar operations for constrained dynamics of a quadruped on four feet; see
:mod:`tests.compiler.test_programs`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Constraint, Constraints, Contacts
from tests.compiler.test_programs import ROBOTS, operations, within_budgets
from tests.support.models import random_states, state_at

#: Every public function as a function of articulation, state, an [nv] array, constraints and
#: contacts.
FUNCTIONS = {
    "constraint_kinematics": lambda a, s, x, c, k: artix.constraint_kinematics(a, s, c),
    "constraint_jacobian": lambda a, s, x, c, k: artix.constraint_jacobian(a, s, c),
    "constraint_bias": lambda a, s, x, c, k: artix.constraint_bias(a, s, c),
    "constraint_derivatives": lambda a, s, x, c, k: artix.constraint_derivatives(a, s, x, c),
    "delassus_matrix": lambda a, s, x, c, k: artix.delassus_matrix(a, s, c),
    "operational_space_inertia": lambda a, s, x, c, k: artix.operational_space_inertia(a, s, c),
    "constrained_solve": lambda a, s, x, c, k: artix.constrained_solve(
        a, s, c, x, c.desired_acceleration
    ),
    "constrained_forward_dynamics": lambda a, s, x, c, k: artix.constrained_forward_dynamics(
        a, s, x, c
    ),
    "constrained_inverse_dynamics": lambda a, s, x, c, k: artix.constrained_inverse_dynamics(
        a, s, x, c
    ),
    "impulse_dynamics": lambda a, s, x, c, k: artix.impulse_dynamics(a, s, c, 0.1),
    "constrained_forward_dynamics_derivatives": lambda a, s, x, c, k: (
        artix.constrained_forward_dynamics_derivatives(a, s, x, c)
    ),
    "impulse_dynamics_derivatives": lambda a, s, x, c, k: artix.impulse_dynamics_derivatives(
        a, s, c, 0.1
    ),
    "contact_problem": lambda a, s, x, c, k: artix.contact_problem(a, s, x, k, 0.01),
    "contact_forces": lambda a, s, x, c, k: artix.contact_forces(a, s, x, k, 0.01),
    "solve_contact": lambda a, s, x, c, k: artix.solve_contact(
        jnp.eye(12, dtype=x.dtype), c.desired_acceleration, k.gap
    ),
}


def standing(a: artix.Articulation) -> tuple[Constraints, Contacts]:
    """A quadruped on its four feet."""
    links = [f"link_{k}" for k in (3, 6, 9, 12)]
    c = Constraints.of(a, [Constraint(frame_a=link, axes="world_aligned") for link in links])
    numbers = tuple(a.topology.link_index(link) for link in links)
    up = jnp.tile(jnp.asarray([0.0, 0.0, 1.0], a.dtype), (4, 1))
    return c, Contacts(
        numbers, jnp.zeros((4, 3), a.dtype), up, jnp.ones(4, a.dtype), jnp.zeros(4, a.dtype)
    )


def counted() -> dict[str, Callable[[], int]]:
    """The counts of scalar operations of one quadruped on its four feet."""
    a = ROBOTS["quadruped"]()
    c, k = standing(a)
    s, x = state_at(random_states(a, 1), 0), jnp.zeros(a.topology.nv, a.dtype)

    def of(function):
        # How the robot stands is known, as its parameters are.
        return functools.partial(operations, lambda a, s, x: function(a, s, x, c, k), a, s, x)

    counts = {name: of(function) for name, function in FUNCTIONS.items()}
    return counts | {"step on the ground": _step_on_the_ground}


def _step_on_the_ground() -> int:
    robot, ground = artix.robots.load("quadruped"), artix.Ground.flat(friction=0.8)
    return operations(
        lambda a, s: artix.step(artix.Scene(a, ground=ground), s, None, 0.005),
        robot,
        artix.neutral_state(robot),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"solve_contact"}))
def test_batches(name: str) -> None:
    """Of 70 states against one at a time."""
    a = ROBOTS["quadruped"]().astype("float64")
    c, k = standing(a)
    states = random_states(a, 70)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(70, a.topology.nv)))

    def one(state, x):
        return FUNCTIONS[name](a, state, x, c, k)

    found = jax.jit(jax.vmap(one))(states, x)
    for item in (0, 69):
        wanted = jax.jit(one)(state_at(states, item), x[item])
        for all_of, alone in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            largest = float(jnp.max(jnp.abs(alone), initial=1))
            np.testing.assert_allclose(all_of[item], alone, atol=1e-9 * largest)


@pytest.mark.slow
def test_operations() -> None:
    assert within_budgets("standing", counted()) == {}
