"""Batches over several devices: partitioned by XLA according to the arguments' sharding, and with
``jax.shard_map``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Control, SolverOptions
from tests.compiler.test_programs import ROBOTS
from tests.constraints.test_constraint_programs import FUNCTIONS as CONSTRAINED
from tests.constraints.test_constraint_programs import standing
from tests.simulation.test_stepping import SOLVERS, _everything
from tests.support.models import random_states, tree_of
from tests.support.programs import agree
from tests.support.quantities import FUNCTIONS, QUANTITIES

BATCH, EVERYWHERE = jax.sharding.PartitionSpec("batch"), jax.sharding.PartitionSpec()

pytestmark = pytest.mark.skipif(
    jax.device_count("cpu") < 2, reason="needs several devices; tests/conftest.py asks XLA for them"
)


def _mesh() -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("batch",))


def _on_devices(tree: Any) -> Any:
    return jax.device_put(tree, jax.sharding.NamedSharding(_mesh(), BATCH))


def _by_shard_map(function, *, replicated: int = 0, out_specs: Any = BATCH):
    """A function of batches, each device with its part of them; of the first ``replicated``
    arguments all have all."""

    def of_parts(*arguments):
        specs = tuple(EVERYWHERE if k < replicated else BATCH for k in range(len(arguments)))
        return jax.shard_map(function, mesh=_mesh(), in_specs=specs, out_specs=out_specs)(
            *arguments
        )

    return of_parts


def _tree() -> artix.Articulation:
    kinds = ["revolute_twist", "spherical_012", "prismatic_x", "revolute_swing1"]
    return tree_of(kinds, [0, 1, 0, 3], fixed_base=False, dtype="float64")


def _arguments(articulation: artix.Articulation, size: int):
    topology = articulation.topology
    acceleration = jnp.linspace(-1, 1, size * topology.nv).reshape(size, topology.nv)
    wrenches = jnp.linspace(-1, 1, size * topology.num_links * 6).reshape(
        size, topology.num_links, 6
    )
    return random_states(articulation, size), acceleration, wrenches


@pytest.mark.parametrize("size", [40, 100, 1000])
@pytest.mark.parametrize(
    "name", ["frame_pose of links", "mass_matrix", "inverse_dynamics", "forward_dynamics"]
)
def test_split_programs_need_no_communication(name: str, size: int) -> None:
    articulation = _tree()
    arguments = _arguments(articulation, size)
    batched = jax.vmap(lambda *arguments: FUNCTIONS[name](articulation, *arguments))
    there = _on_devices(arguments)
    compiled = jax.jit(batched).lower(*there).compile()
    text = compiled.as_text()
    assert not any(
        word in text for word in ("all-gather", "all-reduce", "collective-permute", "all-to-all")
    )
    agree(compiled(*there), jax.jit(batched)(*arguments), 1e-9)


@pytest.mark.parametrize("split", ["outer", "inner"])
def test_either_of_two_batches_is_split(split: str) -> None:
    """Parameters that are operands lie on every device; the other batch is of forces that all
    robots share."""
    articulation = _tree()
    states, forces, _ = _arguments(articulation, 4)

    def of_all(articulation, states, forces):
        def along(axes, **options):
            return lambda function: jax.vmap(function, (None, *axes), **options)

        of_states, of_forces = along((0, None), spmd_axis_name="batch"), along((None, 0))
        inner, outer = (of_forces, of_states) if split == "outer" else (of_states, of_forces)
        return outer(inner(artix.forward_dynamics))(articulation, states, forces)

    everywhere = jax.device_put(
        (articulation, forces), jax.sharding.NamedSharding(_mesh(), EVERYWHERE)
    )
    there = (everywhere[0], _on_devices(states), everywhere[1])
    compiled = jax.jit(of_all).lower(*there).compile()
    text = compiled.as_text()
    assert not any(
        word in text for word in ("all-gather", "all-reduce", "collective-permute", "all-to-all")
    )
    assert "artix_" in text
    agree(compiled(*there), of_all(articulation, states, forces), 1e-9)


@pytest.mark.parametrize(
    "name", [*FUNCTIONS, *(pytest.param(name, marks=pytest.mark.slow) for name in QUANTITIES)]
)
def test_every_function_is_traced_by_shard_map(name: str) -> None:
    """JAX asks there that all operands of an operation, and carries of loops, vary over the same
    devices."""
    articulation = _tree()
    states, acceleration, wrenches = _arguments(articulation, 4)
    function = (FUNCTIONS | QUANTITIES)[name]

    def of_part(states, acceleration, wrenches):
        results = jax.vmap(lambda *arguments: function(articulation, *arguments))(
            states, acceleration, wrenches
        )
        return (
            results,
            states.joint_position,
        )  # Something of a batch, if only parameters matter to the function.

    jax.eval_shape(_by_shard_map(of_part), states, acceleration, wrenches)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CONSTRAINED) - {"solve_contact"}))
def test_constrained_dynamics_is_traced_by_shard_map(name: str) -> None:
    articulation = ROBOTS["quadruped"]().astype("float64")
    constraints, contacts = standing(articulation)
    states, acceleration, _ = _arguments(articulation, 4)

    def of_one(state, acceleration):
        return CONSTRAINED[name](articulation, state, acceleration, constraints, contacts)

    jax.eval_shape(_by_shard_map(jax.vmap(of_one)), states, acceleration)


@pytest.mark.parametrize("name", ["mass_matrix", "forward_dynamics_derivatives"])
def test_values_by_shard_map(name: str) -> None:
    articulation = _tree()
    arguments = _arguments(articulation, 130)
    batched = jax.vmap(lambda *arguments: FUNCTIONS[name](articulation, *arguments))
    agree(jax.jit(_by_shard_map(batched))(*arguments), jax.jit(batched)(*arguments), 1e-9)


def _losses_and_gradient(solver: str):
    """Of a robot with all features, or for RK4 of a tree without, and the arguments: first what all
    devices share."""
    if solver == "rk4":
        articulation = _tree()
        states = random_states(articulation, 4)
    else:
        articulation, state = _everything()
        states = jax.tree.map(lambda x: jnp.broadcast_to(x, (4, *x.shape)), state)
    options = SolverOptions(solver=solver, substeps=2)
    num_dofs = articulation.topology.num_dofs
    forces = jnp.linspace(-1, 1, 4 * num_dofs).reshape(4, num_dofs)

    def losses(mass, states, forces):
        def of_one(state, force):
            one = articulation.replace(link_mass=mass)
            return artix.rollout(one, state, Control(joint_force=force), 0.01, options, num_steps=2)

        return jnp.sum(jax.vmap(of_one)(states, forces).joint_position ** 2, axis=(1, 2))

    def both(mass, states, forces):
        gradient = jax.grad(lambda mass: jnp.sum(losses(mass, states, forces)))(mass)
        return losses(mass, states, forces), gradient

    return both, (articulation.link_mass, states, forces)


@pytest.mark.parametrize("solver", [*SOLVERS, "rk4"])
def test_steps_are_traced_by_shard_map(solver: str) -> None:
    function, arguments = _losses_and_gradient(solver)
    jax.eval_shape(_by_shard_map(function, replicated=1, out_specs=(BATCH, EVERYWHERE)), *arguments)


@pytest.mark.parametrize(
    "solver",
    [
        pytest.param(
            solver,
            marks=pytest.mark.slow if solver in ("implicit", "tgs") else pytest.mark.exhaustive,
        )
        for solver in (*SOLVERS, "rk4")
    ],
)
def test_steps_by_shard_map(solver: str) -> None:
    """The gradient by what all devices share is the sum of theirs."""
    function, arguments = _losses_and_gradient(solver)
    on_devices = _by_shard_map(function, replicated=1, out_specs=(BATCH, EVERYWHERE))
    agree(jax.jit(on_devices)(*arguments), jax.jit(function)(*arguments), 1e-9)
