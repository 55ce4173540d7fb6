"""Batches evaluated block by block are those of ``jax.vmap``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from tests.models import random_tree


@pytest.fixture(scope="module")
def randomized() -> tuple[artix.Articulation, artix.State]:
    """1,024 articulations that differ in their masses, in random states."""
    one = random_tree(3, 3, fixed_base=False)
    count = 1024
    masses = jnp.asarray(np.random.default_rng(0).uniform(0.5, 2.0, (count, 1))) * one.link_mass
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), one).replace(link_mass=masses)
    states = jax.vmap(lambda key: artix.random_state(one, key))(jax.random.split(jax.random.key(0), count))
    return many, states


def in_blocks(function, *arguments) -> bool:
    return "while" in jax.jit(function).lower(*arguments).as_text()


def test_values_and_gradients_are_those_of_vmap(randomized) -> None:
    many, states = randomized
    blocks, whole = artix.vmap_in_blocks(artix.mass_matrix), jax.vmap(artix.mass_matrix)
    assert in_blocks(blocks, many, states) and not in_blocks(whole, many, states)
    np.testing.assert_allclose(jax.jit(blocks)(many, states), jax.jit(whole)(many, states), rtol=1e-12, atol=1e-13)

    def gradient(function):
        def loss(masses):
            return jnp.sum(function(many.replace(link_mass=masses), states) ** 2)

        return jax.jit(jax.grad(loss))(many.link_mass)

    np.testing.assert_allclose(gradient(blocks), gradient(whole), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("count", "blocks"), [(1024, True), (1000, True), (512, False), (1021, False)])
def test_batches_that_blocks_divide(randomized, count: int, blocks: bool) -> None:
    few = jax.tree.map(lambda leaf: leaf[:count], randomized)
    assert in_blocks(artix.vmap_in_blocks(artix.center_of_mass), *few) == blocks


@pytest.mark.parametrize(
    ("name", "count", "blocks"),
    [("inverse_dynamics", 4096, False), ("inverse_dynamics", 32768, True), ("mass_matrix", 32768, True)]
    + [("step", 2048, False), ("step", 16384, True)],
)
def test_large_batches_are_evaluated_in_blocks(name: str, count: int, blocks: bool) -> None:
    """Intermediates of 1.5 kB, of 3 kB in steps."""
    one = random_tree(3, 3, fixed_base=False)
    state = artix.neutral_state(one)
    functions = {
        "inverse_dynamics": lambda state: artix.inverse_dynamics(one, state, artix.generalized_velocity(one, state)),
        "mass_matrix": lambda state: artix.mass_matrix(one, state),
        "step": lambda state: artix.step(one, state, None, 0.01),
    }
    states = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype), state)
    # The loop over blocks alone has a sort in it.
    assert ("stablehlo.sort" in jax.jit(jax.vmap(functions[name])).lower(states).as_text()) == blocks


@pytest.mark.parametrize(
    ("function", "nested"),
    [
        ("inverse_dynamics", False),
        ("inverse_dynamics", True),
        ("implicit", True),
        pytest.param("tgs", False, marks=pytest.mark.slow),
    ],
)
def test_values_and_gradients_in_blocks(monkeypatch, function: str, nested: bool) -> None:
    one = random_tree(3, 3, fixed_base=False)
    states = jax.vmap(lambda key: artix.random_state(one, key))(jax.random.split(jax.random.key(1), 1024))
    states = jax.tree.map(lambda leaf: leaf.reshape(32, 32, *leaf.shape[1:]), states) if nested else states
    monkeypatch.setattr(artix.batches, "_BYTES_OF_BATCH", 0)

    def of_one(state, dt):
        velocity = artix.generalized_velocity(one, state)
        if function == "inverse_dynamics":
            return artix.inverse_dynamics(one, state, dt * velocity)
        control = artix.Control(joint_force=state.joint_velocity)
        return artix.step(one, state, control, dt, artix.SolverOptions(solver=function)).joint_velocity

    def found_with(block: int):
        monkeypatch.setattr(artix.batches, "_block_size", lambda size, most: min(size, block))
        of_all = jax.vmap(of_one, (0, None))
        of_all = jax.vmap(of_all, (0, None)) if nested else of_all
        gradient = jax.grad(lambda states: jnp.sum(of_all(states, 0.01) ** 2))
        assert ("tensor<4x256x" in jax.jit(of_all).lower(states, 0.01).as_text()) == (block == 256)
        return jax.jit(of_all)(states, 0.01), jax.jit(gradient)(states).joint_position

    for found, wanted in zip(found_with(256), found_with(1024), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-11)


def test_a_fleet_is_evaluated_in_blocks(randomized) -> None:
    one, (_, states) = random_tree(3, 3, fixed_base=False), randomized
    kinds = [one, one.replace(link_mass=2 * one.link_mass[::-1])]
    fleet = artix.Fleet([kinds[k % 2] for k in range(1024)])
    found = fleet.evaluate(artix.center_of_mass, states)
    alone = jax.jit(jax.vmap(artix.center_of_mass, (None, 0)))(kinds[1], jax.tree.map(lambda leaf: leaf[1::2], states))
    np.testing.assert_allclose(found[1::2], alone, rtol=0, atol=1e-12)


def test_lengths_that_differ_are_refused(randomized) -> None:
    many, states = randomized
    few = jax.tree.map(lambda leaf: leaf[:1000], states)
    with pytest.raises(ValueError, match="one common leading axis in all arguments, found shapes"):
        artix.vmap_in_blocks(artix.center_of_mass)(many, few)
    with pytest.raises(ValueError, match="close over what all items share"):
        artix.vmap_in_blocks(artix.step)(many, states, None, 0.01)
