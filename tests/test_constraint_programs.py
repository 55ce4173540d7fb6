"""The size of the compiled programs of constrained dynamics, of a quadruped on four feet.

Regenerate the table, after looking at what changed, with ``python -m tests.test_constraint_programs``.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Constraint, Constraints, Contacts
from tests.models import random_states, state_at
from tests.test_programs import DEFAULTS, ROBOTS, instructions

#: Instructions that XLA's CPU backend may emit, all computations of a program counted: measured plus 15 %.
BUDGETS: dict[str, int] = {
    "constraint_kinematics": 2226,
    "constraint_jacobian": 1173,
    "constraint_bias": 2171,
    "constraint_derivatives": 4521,
    "delassus_matrix": 4337,
    "operational_space_inertia": 5054,
    "constrained_solve": 5061,
    "constrained_forward_dynamics": 6439,
    "constrained_inverse_dynamics": 2283,
    "impulse_dynamics": 5065,
    "constrained_forward_dynamics_derivatives": 11403,
    "impulse_dynamics_derivatives": 8267,
    "contact_problem": 5419,
    "contact_forces": 7571,
    "solve_contact": 1999,
}

#: Every public function as a function of articulation, state, an [nv] array, constraints and contacts.
FUNCTIONS = {
    "constraint_kinematics": lambda a, s, x, c, k: artix.constraint_kinematics(a, s, c),
    "constraint_jacobian": lambda a, s, x, c, k: artix.constraint_jacobian(a, s, c),
    "constraint_bias": lambda a, s, x, c, k: artix.constraint_bias(a, s, c),
    "constraint_derivatives": lambda a, s, x, c, k: artix.constraint_derivatives(a, s, x, c),
    "delassus_matrix": lambda a, s, x, c, k: artix.delassus_matrix(a, s, c),
    "operational_space_inertia": lambda a, s, x, c, k: artix.operational_space_inertia(a, s, c),
    "constrained_solve": lambda a, s, x, c, k: artix.constrained_solve(a, s, c, x, c.desired_acceleration),
    "constrained_forward_dynamics": lambda a, s, x, c, k: artix.constrained_forward_dynamics(a, s, x, c),
    "constrained_inverse_dynamics": lambda a, s, x, c, k: artix.constrained_inverse_dynamics(a, s, x, c),
    "impulse_dynamics": lambda a, s, x, c, k: artix.impulse_dynamics(a, s, c, 0.1),
    "constrained_forward_dynamics_derivatives": lambda a, s, x, c, k: artix.constrained_forward_dynamics_derivatives(
        a, s, x, c
    ),
    "impulse_dynamics_derivatives": lambda a, s, x, c, k: artix.impulse_dynamics_derivatives(a, s, c, 0.1),
    "contact_problem": lambda a, s, x, c, k: artix.contact_problem(a, s, x, k, 0.01),
    "contact_forces": lambda a, s, x, c, k: artix.contact_forces(a, s, x, k, 0.01),
    "solve_contact": lambda a, s, x, c, k: artix.solve_contact(
        jnp.eye(12, dtype=x.dtype), c.desired_acceleration, k.gap
    ),
}
#: Their iterations are one loop, which nothing differentiates.
LOOPS = {"contact_forces", "solve_contact"}
EVERY_DAY = {"constraint_jacobian", "delassus_matrix", "constrained_forward_dynamics"}


def standing(a: artix.Articulation) -> tuple[Constraints, Contacts]:
    """A quadruped on its four feet."""
    links = [f"link_{k}" for k in (3, 6, 9, 12)]
    c = Constraints.of(a, [Constraint(frame_a=link, axes="world_aligned") for link in links])
    numbers = tuple(a.topology.link_index(link) for link in links)
    up = jnp.tile(jnp.asarray([0.0, 0.0, 1.0], a.dtype), (4, 1))
    return c, Contacts(numbers, jnp.zeros((4, 3), a.dtype), up, jnp.ones(4, a.dtype), jnp.zeros(4, a.dtype))


def program(function: str) -> str:
    """The compiled program of one quadruped on its four feet."""
    a = ROBOTS["quadruped"]()
    c, k = standing(a)
    s, x = state_at(random_states(a, 1), 0), jnp.zeros(a.topology.nv, a.dtype)
    return jax.jit(FUNCTIONS[function]).lower(a, s, x, c, k).compile(DEFAULTS).as_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"solve_contact"}))
def test_batches(name: str) -> None:
    """Of 70 states, in lanes where ``jax.vmap`` makes them, against one at a time."""
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


@pytest.mark.parametrize(
    "function",
    [pytest.param(name, marks=() if name in EVERY_DAY else pytest.mark.slow) for name in FUNCTIONS],
)
def test_size(function: str) -> None:
    text = program(function)
    assert 2 < instructions(text) <= BUDGETS[function]
    assert (" while(" in text) == (function in LOOPS)


def main() -> None:
    """Prints the table."""
    for function in FUNCTIONS:
        print(f'    "{function}": {int(1.15 * instructions(program(function)))},', flush=True)


if __name__ == "__main__":
    import tests.conftest  # noqa: F401

    main()
