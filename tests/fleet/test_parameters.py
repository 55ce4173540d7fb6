"""Fleets of robots of one topology whose parameters all differ: their common zeros are known."""

from __future__ import annotations

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix

explanation = importlib.import_module("artix.compiler.explain")


def _variants(robot: artix.Articulation, count: int) -> list[artix.Articulation]:
    rng = np.random.default_rng(0)

    def scaled(leaf):
        return (
            leaf * jnp.asarray(rng.uniform(0.9, 1.1, leaf.shape), leaf.dtype)
            if leaf.dtype.kind == "f"
            else leaf
        )

    return [jax.tree.map(scaled, robot) for _ in range(count)]


def _operations(function, *arguments) -> int:
    """Scalar operations for each robot."""
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    costs = [
        explanation._cost(program, axes)[0] for program, axes in explanation._operations(jaxpr)
    ]
    return sum(sum(cost.operations) for cost in costs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mass_matrix", "step"])
def test_operations_are_nearly_those_of_a_known_robot(name: str) -> None:
    robot = artix.robots.load("quadruped")
    fleet, rest = artix.Fleet(_variants(robot, 3)), (None, 0.005) if name == "step" else ()
    function = getattr(artix, name)
    known = _operations(
        jax.vmap(lambda state: function(robot, state, *rest)), fleet.neutral_state()
    )
    varied = _operations(
        lambda state: fleet.evaluate(function, state, *rest), fleet.neutral_state()
    )
    assert known < varied < 1.25 * known


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_results_are_those_of_each_member(kinds: int) -> None:
    members = _variants(artix.robots.load("cart_pole").astype("float64"), 3)
    # A zero of one member alone is no zero of all.
    members[1] = members[1].replace(link_mass=members[1].link_mass.at[1].set(0))
    if kinds == 2:
        members += _variants(artix.robots.load("double_pendulum").astype("float64"), 2)
    fleet = artix.Fleet(members)
    state = fleet.random_state(jax.random.key(0))
    matrices = fleet.evaluate(artix.mass_matrix, state)
    ends = fleet.evaluate(artix.step, state, None, 0.01)
    for number, member in enumerate(members):
        own = jax.tree.map(lambda leaf, number=number: leaf[number], state)
        np.testing.assert_allclose(
            matrices[number], artix.mass_matrix(member, own), rtol=1e-13, atol=1e-14
        )
        end = artix.step(member, own, None, 0.01)
        for ours, wanted in zip(jax.tree.leaves(ends), jax.tree.leaves(end), strict=True):
            np.testing.assert_allclose(ours[number], wanted, rtol=1e-10, atol=1e-12)
