"""``jax.export`` of batched functions: for absent platforms, and for batches of any size."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import artix
from tests.support.models import random_states, tree_of
from tests.support.programs import agree

ARTICULATION = tree_of(
    ["revolute_twist", "spherical_012", "prismatic_x", "revolute_swing1"],
    [0, 1, 0, 3],
    fixed_base=False,
)


def _step(state: artix.State, force: jax.Array) -> artix.State:
    return artix.step(ARTICULATION, state, artix.Control(joint_force=force[6:]), 0.01)


FUNCTIONS = {
    "mass_matrix": lambda state, force: artix.mass_matrix(ARTICULATION, state),
    "forward_dynamics": lambda state, force: artix.forward_dynamics(ARTICULATION, state, force),
    "inverse_dynamics_derivatives": lambda state, force: artix.inverse_dynamics_derivatives(
        ARTICULATION, state, force
    ),
    "step": _step,
    "gradient": jax.grad(
        lambda state, force: jnp.sum(_step(state, force).joint_position), argnums=1
    ),
}


def _arguments(size: int) -> tuple[artix.State, jax.Array]:
    forces = np.random.default_rng(0).normal(size=(size, ARTICULATION.topology.nv))
    return random_states(ARTICULATION, size), jnp.asarray(forces)


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=pytest.mark.slow) if x != "mass_matrix" else x for x in FUNCTIONS],
)
def test_other_platforms(name: str) -> None:
    """JAX refuses operations that another machine may not know."""
    program = jax.jit(jax.vmap(FUNCTIONS[name]))
    assert export.export(program, platforms=["cuda", "rocm", "tpu"])(
        *_arguments(100)
    ).platforms == (
        "cuda",
        "rocm",
        "tpu",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mass_matrix", pytest.param("forward_dynamics", marks=pytest.mark.slow)]
)
def test_batches_of_any_size(name: str) -> None:
    program = jax.jit(jax.vmap(FUNCTIONS[name]))
    (batch,) = export.symbolic_shape("batch")
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((batch, *x.shape[1:]), x.dtype), _arguments(1)
    )
    exported = export.export(program)(*shapes)
    for size in (1, 3, 100):
        arguments = _arguments(size)
        agree(exported.call(*arguments), program(*arguments), 1e-9)


def test_exports_hold_nothing_of_the_machine() -> None:
    """No kernels, though the compiled program is one."""
    program = jax.jit(jax.vmap(FUNCTIONS["mass_matrix"]))
    arguments = _arguments(3)
    assert "artix_" in program.lower(*arguments).as_text()
    exported = export.export(program, platforms=["cpu", "cuda"])(*arguments)
    assert "custom_call" not in exported.mlir_module()
    agree(exported.call(*arguments), program(*arguments), 1e-9)


@pytest.mark.parametrize("name", ["mass_matrix", "inverse_dynamics", "forward_dynamics"])
def test_exports_of_large_batches_for_gpus_are_straight_lines(name: str) -> None:
    """One launch for all robots: no loop over blocks of them, and nothing is sorted."""
    functions = {
        **FUNCTIONS,
        "inverse_dynamics": lambda s, force: artix.inverse_dynamics(ARTICULATION, s, force),
    }
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((65_536, *x.shape[1:]), x.dtype), _arguments(1)
    )
    module = export.export(jax.jit(jax.vmap(functions[name])), platforms=["cuda"])(
        *shapes
    ).mlir_module()
    operations = set(re.findall(r"stablehlo\.\w+", module))
    assert {"stablehlo.multiply", "stablehlo.add"} <= operations
    assert not operations & {"stablehlo.while", "stablehlo.sort", "stablehlo.custom_call"}
