"""The size of the compiled programs of constrained dynamics, of a quadruped on four feet.

Regenerate the table, after looking at what changed, with ``python -m tests.test_constraint_programs``.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import artix
from artix import Constraint, Constraints, Contacts
from tests.models import random_states, state_at
from tests.test_programs import DEFAULTS, ROBOTS, instructions

#: Instructions that XLA's CPU backend may emit, all computations of a program counted: measured plus 15 %.
BUDGETS: dict[str, int] = {
    "constraint_kinematics": 3031,
    "constraint_jacobian": 1635,
    "constraint_bias": 2915,
    "constraint_derivatives": 7373,
    "delassus_matrix": 5216,
    "operational_space_inertia": 5932,
    "constrained_solve": 5847,
    "constrained_forward_dynamics": 7771,
    "constrained_inverse_dynamics": 3170,
    "impulse_dynamics": 5866,
    "constrained_forward_dynamics_derivatives": 15637,
    "impulse_dynamics_derivatives": 9821,
    "contact_problem": 8634,
    "contact_forces": 10785,
    "solve_contact": 1969,
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


def program(function: str) -> str:
    """The compiled program of one quadruped on its four feet."""
    a = ROBOTS["quadruped"]()
    links = [f"link_{k}" for k in (3, 6, 9, 12)]
    c = Constraints.of(a, [Constraint(frame_a=link, axes="world_aligned") for link in links])
    numbers = tuple(a.topology.link_index(link) for link in links)
    up = jnp.tile(jnp.asarray([0.0, 0.0, 1.0], a.dtype), (4, 1))
    k = Contacts(numbers, jnp.zeros((4, 3), a.dtype), up, jnp.ones(4, a.dtype), jnp.zeros(4, a.dtype))
    s, x = state_at(random_states(a, 1), 0), jnp.zeros(a.topology.nv, a.dtype)
    return jax.jit(FUNCTIONS[function]).lower(a, s, x, c, k).compile(DEFAULTS).as_text()


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
