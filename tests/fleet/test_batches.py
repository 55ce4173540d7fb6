"""Evaluation block by block gives the same as ``jax.vmap``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from tests.support.models import random_tree


@pytest.fixture(scope="module")
def randomized() -> tuple[artix.Articulation, artix.State]:
    """1,024 articulations that differ in their masses, in random states."""
    one = random_tree(3, 3, fixed_base=False)
    count = 1024
    masses = jnp.asarray(np.random.default_rng(0).uniform(0.5, 2.0, (count, 1))) * one.link_mass
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), one).replace(
        link_mass=masses
    )
    states = jax.vmap(lambda key: artix.random_state(one, key))(
        jax.random.split(jax.random.key(0), count)
    )
    return many, states


def in_blocks(function, *arguments) -> bool:
    return "while" in jax.jit(function).lower(*arguments).as_text()


@pytest.mark.slow
def test_values_and_gradients_are_those_of_vmap(randomized) -> None:
    many, states = randomized
    blocks, whole = artix.vmap_in_blocks(artix.mass_matrix), jax.vmap(artix.mass_matrix)
    assert in_blocks(blocks, many, states) and not in_blocks(whole, many, states)
    np.testing.assert_allclose(
        jax.jit(blocks)(many, states), jax.jit(whole)(many, states), rtol=1e-12, atol=1e-13
    )

    def gradient(function):
        def loss(masses):
            return jnp.sum(function(many.replace(link_mass=masses), states) ** 2)

        return jax.jit(jax.grad(loss))(many.link_mass)

    np.testing.assert_allclose(gradient(blocks), gradient(whole), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("count", "blocks"), [(1024, True), (1000, True), (512, False), (1021, False)]
)
def test_batches_that_blocks_divide(randomized, count: int, blocks: bool) -> None:
    few = jax.tree.map(lambda leaf: leaf[:count], randomized)
    assert in_blocks(artix.vmap_in_blocks(artix.center_of_mass), *few) == blocks


def test_other_platforms_evaluate_the_whole_batch(randomized) -> None:
    """Which of both it is, is decided when a program is lowered, not when it is traced."""
    traced = jax.jit(artix.vmap_in_blocks(artix.mass_matrix)).trace(*randomized)
    lowered = {name: traced.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda")}
    assert ["while" in lowered[name] for name in ("cpu", "cuda")] == [True, False]


def test_a_fleet_is_evaluated_in_blocks(randomized) -> None:
    one, (_, states) = random_tree(3, 3, fixed_base=False), randomized
    kinds = [one, one.replace(link_mass=2 * one.link_mass[::-1])]
    fleet = artix.Fleet([kinds[k % 2] for k in range(1024)])
    found = fleet.evaluate(artix.center_of_mass, states)
    alone = jax.jit(jax.vmap(artix.center_of_mass, (None, 0)))(
        kinds[1], jax.tree.map(lambda leaf: leaf[1::2], states)
    )
    np.testing.assert_allclose(found[1::2], alone, rtol=0, atol=1e-12)


def test_lengths_that_differ_are_refused(randomized) -> None:
    many, states = randomized
    few = jax.tree.map(lambda leaf: leaf[:1000], states)
    with pytest.raises(ValueError, match="one common leading axis in all arguments, found shapes"):
        artix.vmap_in_blocks(artix.center_of_mass)(many, few)
    with pytest.raises(ValueError, match="close over what all items share"):
        artix.vmap_in_blocks(artix.step)(many, states, None, 0.01)
