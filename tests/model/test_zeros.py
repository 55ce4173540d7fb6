"""Robots whose parameters all vary but keep their zeros: operations, values, derivatives, refusals."""

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
    return artix.quantity(lambda robot, varied, state: function(artix.keep_zeros(robot, varied), state))


def _scaled(robot: artix.Articulation, seed: int) -> artix.Articulation:
    """Every parameter times a factor of its own: zeros stay, as does infinity."""
    rng = np.random.default_rng(seed)

    def scale(leaf):
        if leaf.dtype.kind != "f":
            return leaf
        return leaf * jnp.asarray(rng.uniform(0.9, 1.1, leaf.shape), leaf.dtype)

    return jax.tree.map(scale, robot)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "step" else name for name in FUNCTIONS]
)
def test_few_more_operations_than_of_a_known_robot(name: str) -> None:
    robot = artix.robots.load("quadruped")
    state = artix.neutral_state(robot)
    (known,) = artix.explain(FUNCTIONS[name], robot, state).operations
    (varied,) = artix.explain(_quantity_of(name), robot, robot, state).operations
    assert sum(known.operations) < sum(varied.operations) < 1.25 * sum(known.operations)


@pytest.mark.parametrize("name", ["inverse_dynamics", pytest.param("step", marks=pytest.mark.slow)])
def test_values_and_derivatives_are_those_of_the_varied_robot(name: str) -> None:
    robot = artix.robots.load("quadruped").astype("float64")
    varied = _scaled(robot, 0)
    state = jax.tree.map(lambda x: x[0], random_states(robot, 1))
    quantity = _quantity_of(name)

    def total(evaluate, varied):
        leaves = jax.tree.leaves(evaluate(varied))
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in leaves)

    value, slope = jax.value_and_grad(lambda varied: total(lambda r: quantity(robot, r, state), varied))(varied)
    wanted, wanted_slope = jax.value_and_grad(lambda varied: total(lambda r: FUNCTIONS[name](r, state), varied))(varied)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    for leaf in ("link_mass", "link_com_pose", "link_inertia", "joint_parent_pose", "gravity"):
        ours, theirs = getattr(slope, leaf), getattr(wanted_slope, leaf)
        varies = np.asarray(getattr(robot, leaf)) != 0
        if leaf.endswith("pose"):  # A quaternion of one component is kept.
            varies[:, 3:] &= varies[:, 3:].sum(1, keepdims=True) > 1
        assert varies.any()
        np.testing.assert_allclose(ours, np.where(varies, theirs, 0), rtol=1e-9, atol=1e-11 * np.abs(theirs).max())


def test_what_the_robot_lacks_stays_absent() -> None:
    robot = artix.robots.load("quadruped")
    everything = jax.tree.map(lambda leaf: leaf * 2 + 1 if leaf.dtype.kind == "f" else leaf, robot)
    kept = artix.keep_zeros(robot, everything)
    assert not kept.drive.stiffness.any() and jnp.isinf(kept.max_link_linear_velocity).all()
    np.testing.assert_array_equal(kept.link_mass, np.where(robot.link_mass == 0, 0, everything.link_mass))
    plain = np.sum(np.asarray(robot.joint_parent_pose[:, 3:]) != 0, axis=1) == 1
    np.testing.assert_array_equal(kept.joint_parent_pose[plain, 3:], robot.joint_parent_pose[plain, 3:])
    jax.tree.map(np.testing.assert_array_equal, artix.keep_zeros(robot, robot), robot)


def test_unit_masses_vary() -> None:
    robot = artix.robots.load("cart_pole").replace(link_mass=jnp.ones(3))
    np.testing.assert_array_equal(artix.keep_zeros(robot, robot.replace(link_mass=jnp.full(3, 2.0))).link_mass, 2.0)


def test_refusals() -> None:
    robot = artix.robots.load("quadruped")
    with pytest.raises(ValueError, match=r"keep_zeros: .*topology"):
        artix.keep_zeros(robot, artix.robots.load("arm7"))
    with pytest.raises(ValueError, match=r"keep_zeros: expected link_mass of shape \(18,\), found \(3,\)"):
        artix.keep_zeros(robot, robot.replace(link_mass=jnp.ones(3)))
    with pytest.raises(TypeError, match="varied: expected artix"):
        artix.keep_zeros(robot, artix.neutral_state(robot))
