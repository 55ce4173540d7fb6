"""Kernels of trees that are data, against plain XLA and against the members' own programs."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.model.padded_topology import pad_topology
from tests.support.models import random_tree

#: Revolute and fixed joints, as most robots have, and joints of every kind.
SETS = {
    "robots": ["cart_pole", "double_pendulum"],
    "trees": [random_tree(3, 3, fixed_base=False), random_tree(4, 2, fixed_base=True)],
}
TOLERANCES = {"float32": 2e-5, "float64": 1e-12}


def members_of(name: str, dtype: str) -> list[artix.Articulation]:
    loaded = [artix.robots.load(one) if isinstance(one, str) else one for one in SETS[name]]
    return [one.astype(dtype) for one in loaded]


def values(articulation, state, acceleration):
    return {
        "link_poses": artix.link_poses(articulation, state),
        "bias_force": artix.bias_force(articulation, state),
        "mass_matrix": artix.mass_matrix(articulation, state),
        "inverse_dynamics": artix.inverse_dynamics(articulation, state, acceleration),
        "forward_dynamics": artix.forward_dynamics(articulation, state, acceleration),
    }


@artix.quantity
def all_values(articulation, state, acceleration):
    return values(articulation, state, acceleration)


@artix.quantity
def loss(articulation, state, acceleration):
    poses = artix.link_poses(articulation, state)
    return jnp.sum(artix.inverse_dynamics(articulation, state, acceleration) ** 2) + jnp.sum(poses[:, :3] ** 2)


def gradient(articulation, state, acceleration):
    """By masses and positions: of what is gathered where the tree says, the transpose is a scatter there."""

    def of(mass, position):
        changed = articulation.replace(link_mass=mass), state.replace(joint_position=position)
        return loss(*changed, acceleration)

    return jax.grad(of, argnums=(0, 1))(articulation.link_mass, state.joint_position)


def is_kernel(function, one: artix.Articulation, *arguments) -> bool:
    """Whether a function of an articulation that is data is kernels alone; ``explain`` closes over its first one."""
    padded = artix.Fleet([one], padding=artix.Padding.of(one.topology)).articulation
    first = jax.tree.map(lambda leaf: leaf[0], padded)
    costs = artix.explain(lambda _, *rest: function(*rest), one, first, *arguments).operations
    return len(costs) > 0 and not any(cost.refusal for cost in costs)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), [("robots", "float32"), ("trees", "float64")])
def test_kernels_equal_xla_and_the_members(name: str, dtype: str) -> None:
    members, tolerance = members_of(name, dtype), TOLERANCES[dtype]
    fleet = artix.Fleet([members[k] for k in (0, 1, 1, 0, 1)], layout="padded")
    state, rng = fleet.random_state(jax.random.key(0)), np.random.default_rng(0)
    acceleration = jnp.asarray(rng.normal(size=(5, fleet.articulation.topology.nv)), dtype)
    for function in (all_values, gradient):
        found = jax.jit(jax.vmap(function))(fleet.articulation, state, acceleration)
        with artix.use_kernels(False):
            wanted = jax.jit(jax.vmap(lambda *x, f=function: f(*x)))(fleet.articulation, state, acceleration)
        for leaf, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert leaf.dtype == dtype
            np.testing.assert_allclose(leaf, other, rtol=0, atol=tolerance * (1 + np.max(np.abs(other))))
    by_kind = artix.Fleet(list(map(fleet.member, range(5))), layout="kinds")
    wanted = by_kind.evaluate(values, state, acceleration)
    found = fleet.evaluate(values, state, acceleration)
    for leaf, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=0, atol=tolerance * (1 + np.max(np.abs(other))))


@pytest.mark.parametrize("function", [pytest.param(values, marks=pytest.mark.slow), gradient])
def test_they_are_kernels(function) -> None:
    one = artix.robots.load("double_pendulum")
    assert is_kernel(function, one, artix.neutral_state(one), jnp.zeros(one.topology.nv, one.dtype))


def test_a_known_padded_tree_has_the_operations_of_its_values_alone() -> None:
    """Closed over, a padded tree is as known as any: few operations more than the robot's own, for other algorithms."""
    arm = artix.robots.load("arm7")
    padded = artix.Fleet([arm, artix.robots.load("quadruped")], layout="padded").articulation
    first = jax.tree.map(lambda leaf: leaf[0], padded)
    own, of_padded = (
        sum(sum(cost.operations) for cost in artix.explain(artix.bias_force, one).operations) for one in (arm, first)
    )
    assert 0 < of_padded < 1.3 * own


def test_a_tree_that_is_data_costs_little_more_than_a_known_one() -> None:
    """Its parameters are data in both cases."""
    arm, quadruped = artix.robots.load("arm7"), artix.robots.load("quadruped")
    first = jax.tree.map(lambda leaf: leaf[0], artix.Fleet([quadruped, arm], layout="padded").articulation)
    state, force = artix.neutral_state(quadruped), jnp.zeros(quadruped.topology.nv, quadruped.dtype)
    known, data = (
        sum(
            sum(cost.operations) for cost in artix.explain(forward_dynamics_of, quadruped, one, state, force).operations
        )
        for one in (quadruped, first)
    )
    assert 0 < data < 1.7 * known


def forward_dynamics_of(_, articulation, state, force):
    return artix.forward_dynamics(articulation, state, force)


@pytest.mark.parametrize("parents", [True, False], ids=["listed", "any"])
def test_masks_and_indices_are_those_of_the_tree(parents: bool) -> None:
    tree = random_tree(3, 6, fixed_base=False).topology
    wide = artix.Padding(
        links=40, dofs=50, reach=39, rigid_links=9, frames=2, prismatic=True, spherical=True, helical=True
    )
    if parents:
        own = artix.Padding.of(tree).parents
        wide = dataclasses.replace(wide, parents=(*own, *((link,) for link in range(len(own), wide.links - 1))))
    padded = pad_topology(tree, wide)
    assert [int(np.flatnonzero(row)[0]) for row in padded.parent_places[: tree.num_links - 1]] == [
        link - 1 - above for link, above in enumerate(tree.parent[1:], start=1)
    ]
    links, dofs = slice(tree.num_links), slice(tree.num_dofs)
    np.testing.assert_array_equal(padded.link_ancestors[links, links], tree.link_ancestors)
    np.testing.assert_array_equal(padded.dof_moves_link[dofs, links], tree.dof_moves_link)
    np.testing.assert_array_equal(padded.dof_link[dofs], tree.dof_link)
    np.testing.assert_array_equal(padded.dof_parent_link[dofs], tree.dof_parent_link)
    np.testing.assert_array_equal(padded.body_parent[links], np.maximum(tree.parent, 0))
    base = tree.num_base_dofs
    for found, wanted in zip(padded.mass_matrix_halves, tree.mass_matrix_halves, strict=True):
        np.testing.assert_array_equal(found[: base + tree.num_dofs, : base + tree.num_dofs], wanted)
    assert np.sum(padded.link_ancestors) == np.sum(tree.link_ancestors)
    assert np.sum(padded.dof_moves_link) == np.sum(tree.dof_moves_link)
