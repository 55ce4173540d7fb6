"""Robots whose parameters all vary but keep their zeros: operations, values, derivatives,
refusals."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from tests.support.models import random_states

FUNCTIONS = {
    "mass_matrix": lambda robot, state: artix.mass_matrix(robot, state),
    "inverse_dynamics": lambda robot, state: artix.inverse_dynamics(robot, state, _ones(robot)),
    "forward_dynamics": lambda robot, state: artix.forward_dynamics(robot, state, _ones(robot)),
    "step": lambda robot, state: artix.step(robot, state, None, 0.005),
}


def _ones(robot: artix.Articulation) -> jax.Array:
    return jnp.ones(robot.topology.nv, robot.dtype)


def _quantity_of(name: str):
    function = FUNCTIONS[name]
    return artix.quantity(
        lambda robot, varied, state: function(artix.keep_zeros(robot, varied), state)
    )


def _scaled(robot: artix.Articulation, seed: int) -> artix.Articulation:
    """Every parameter times a factor of its own: zeros stay, as does infinity."""
    rng = np.random.default_rng(seed)

    def scale(leaf):
        if leaf.dtype.kind != "f":
            return leaf
        return leaf * jnp.asarray(rng.uniform(0.9, 1.1, leaf.shape), leaf.dtype)

    return jax.tree.map(scale, robot)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name == "step" else name for name in FUNCTIONS],
)
def test_few_more_operations_than_of_a_known_robot(name: str) -> None:
    robot = artix.robots.load("quadruped")
    state = artix.neutral_state(robot)
    (known,) = artix.explain(FUNCTIONS[name], robot, state).operations
    (varied,) = artix.explain(_quantity_of(name), robot, robot, state).operations
    assert sum(known.operations) < sum(varied.operations) < 1.25 * sum(known.operations)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inverse_dynamics", pytest.param("step", marks=pytest.mark.slow)])
def test_values_and_derivatives_are_those_of_the_varied_robot(name: str) -> None:
    robot = artix.robots.load("quadruped").astype("float64")
    varied = _scaled(robot, 0)
    state = jax.tree.map(lambda x: x[0], random_states(robot, 1))
    quantity = _quantity_of(name)

    def total(evaluate, varied):
        leaves = jax.tree.leaves(evaluate(varied))
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in leaves)

    value, slope = jax.value_and_grad(
        lambda varied: total(lambda r: quantity(robot, r, state), varied)
    )(varied)
    wanted, wanted_slope = jax.value_and_grad(
        lambda varied: total(lambda r: FUNCTIONS[name](r, state), varied)
    )(varied)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    for leaf in ("link_mass", "link_com_pose", "link_inertia", "joint_parent_pose", "gravity"):
        ours, theirs = getattr(slope, leaf), getattr(wanted_slope, leaf)
        varies = np.asarray(getattr(robot, leaf)) != 0
        if leaf.endswith("pose"):  # A quaternion of one component is kept.
            varies[:, 3:] &= varies[:, 3:].sum(1, keepdims=True) > 1
        assert varies.any()
        np.testing.assert_allclose(
            ours, np.where(varies, theirs, 0), rtol=1e-9, atol=1e-11 * np.abs(theirs).max()
        )


@pytest.mark.slow
def test_zeros_leave_the_leaves() -> None:
    """Whatever is done to all leaves, zeros stay: those of the robot itself, of a varied one and of
    a batch."""
    robot = artix.robots.load("quadruped")
    change = lambda tree: jax.tree.map(lambda leaf: leaf * 2 + 1, tree)  # noqa: E731
    ours, varied = change(artix.keep_zeros(robot)), artix.keep_zeros(robot, change(robot))
    batch = artix.keep_zeros(jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), robot))
    assert jax.tree.structure(ours) == jax.tree.structure(varied) == jax.tree.structure(batch)
    for name, array in robot.arrays.items():
        np.testing.assert_array_equal(ours.arrays[name], varied.arrays[name])
        np.testing.assert_array_equal(batch.arrays[name], np.stack([array, array]))
        is_kept = (np.asarray(array) == 0) | np.isinf(array)
        if "pose" in name:
            is_kept[:, 3:] |= np.sum(array[:, 3:] != 0, axis=1, keepdims=True) == 1
        np.testing.assert_array_equal(ours.arrays[name], np.where(is_kept, array, 2 * array + 1))
    assert "drive.stiffness" in ours.absent and jax.tree.leaves(batch)[0].shape == (
        2,
        17,
    )  # One link has no mass.
    freed = ours.replace(joint_parent_pose=jnp.full((18, 7), 3.0))
    np.testing.assert_array_equal(freed.joint_parent_pose, 3.0)


@pytest.mark.slow
def test_values_and_derivatives_of_what_is_left() -> None:
    """Of the energy, as of all entries where they are not zero."""
    robot = artix.robots.load("quadruped").astype("float64")
    kept, state = artix.keep_zeros(robot), jax.tree.map(lambda x: x[0], random_states(robot, 1))
    energy = jax.value_and_grad(
        lambda robot: artix.kinetic_energy(robot, state) + artix.potential_energy(robot, state)
    )
    (value, slope), (wanted, whole) = energy(kept), energy(robot)
    np.testing.assert_allclose(value, wanted, rtol=1e-14)
    assert jax.tree.structure(slope) == jax.tree.structure(kept)
    np.testing.assert_allclose(
        slope.link_mass, np.where(robot.link_mass != 0, whole.link_mass, 0), rtol=1e-12
    )


def test_readers_keep_zeros() -> None:
    path = artix.robots.path("arm7")
    read, wanted = artix.load(path, keep_zeros=True), artix.keep_zeros(artix.load(path))
    assert jax.tree.structure(read) == jax.tree.structure(wanted)
    assert sum(leaf.size for leaf in jax.tree.leaves(read)) < sum(
        leaf.size for leaf in jax.tree.leaves(artix.load(path))
    )


def test_unit_masses_vary() -> None:
    robot = artix.robots.load("cart_pole").replace(link_mass=jnp.ones(3))
    np.testing.assert_array_equal(
        artix.keep_zeros(robot, robot.replace(link_mass=jnp.full(3, 2.0))).link_mass, 2.0
    )


def test_refusals() -> None:
    robot = artix.robots.load("quadruped")
    with pytest.raises(ValueError, match=r"keep_zeros: .*topology"):
        artix.keep_zeros(robot, artix.robots.load("arm7"))
    with pytest.raises(
        ValueError, match=r"keep_zeros: expected link_mass of shape \(18,\), found \(3,\)"
    ):
        artix.keep_zeros(robot, robot.replace(link_mass=jnp.ones(3)))
    with pytest.raises(TypeError, match="varied: expected artix"):
        artix.keep_zeros(robot, artix.neutral_state(robot))
    with pytest.raises(TypeError, match="JAX traces this robot, which hides its zeros"):
        jax.jit(artix.keep_zeros)(robot)
