"""Log-Cholesky parameters: against Pinocchio, round trips, physical consistency for every theta,
use in optimisation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

import artix
from tests.support.models import random_inertia, random_pose, random_states, tree_of

to_theta = jax.jit(artix.log_cholesky_from_inertia)
from_theta = jax.jit(artix.inertia_from_log_cholesky)
LENGTHS = st.floats(-2.5, 2.5)


def random_body(seed: int, dtype="float64"):
    rng = np.random.default_rng(seed)
    mass = float(rng.uniform(0.1, 20.0))
    body = (np.float64(mass), random_pose(rng), random_inertia(rng, mass, rng.uniform(0.02, 0.8)))
    return tuple(jnp.asarray(value, dtype) for value in body)


def in_link_axes(com_pose, inertia):
    rotation = pin.Quaternion(np.asarray(com_pose[3:])).toRotationMatrix()
    return rotation @ np.asarray(inertia) @ rotation.T


@pytest.mark.parametrize("seed", range(5))
def test_against_pinocchio(seed: int) -> None:
    theta = np.random.default_rng(seed).normal(size=10)
    wanted = pin.LogCholeskyParameters(theta).toInertia()
    mass, com_pose, inertia = from_theta(theta)
    np.testing.assert_allclose(mass, wanted.mass, rtol=1e-13)
    np.testing.assert_allclose(com_pose, [*wanted.lever, 0, 0, 0, 1], atol=1e-13)
    # Pinocchio takes the second moments about the centre of mass as a difference, which costs it
    # some digits.
    np.testing.assert_allclose(
        inertia, wanted.inertia, atol=1e-12 * np.max(np.abs(wanted.inertia)) * (1 + theta @ theta)
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("seed", range(5))
def test_round_trip(seed: int, dtype: str, tolerance: float) -> None:
    body = random_body(seed, dtype)
    mass, com_pose, inertia = from_theta(to_theta(*body))
    assert {leaf.dtype for leaf in (mass, com_pose, inertia)} == {jnp.dtype(dtype)}
    wanted = in_link_axes(*body[1:])
    np.testing.assert_allclose(mass, body[0], rtol=tolerance)
    np.testing.assert_array_equal(com_pose, np.array([*body[1][:3], 0, 0, 0, 1], dtype))
    np.testing.assert_allclose(inertia, wanted, atol=tolerance * np.max(np.abs(wanted)))


@settings(max_examples=200)
@given(st.tuples(st.floats(-3, 3), LENGTHS, LENGTHS, LENGTHS, *[LENGTHS] * 6))
def test_every_theta_is_a_body_that_may_exist_and_comes_back(theta) -> None:
    mass, com_pose, inertia = (np.asarray(leaf) for leaf in from_theta(np.array(theta)))
    assert mass > 0
    low, middle, high = np.linalg.eigvalsh(inertia)
    rounding = 1e-14 * high
    assert low > -rounding
    assert low + middle >= high - rounding  # no principal inertia above the sum of the others
    # Refuses what is none
    artix.ArticulationBuilder().add_link(mass=float(mass), com_pose=com_pose, inertia=inertia)
    # The second moments lose digits to their own condition number, the square of V's.
    moments = 0.5 * np.trace(inertia) - np.array([high, middle, low])
    again = to_theta(mass, com_pose, inertia)
    np.testing.assert_allclose(
        again, theta, atol=1e-13 * moments[2] / max(moments[0], rounding) + 1e-13
    )


@pytest.mark.slow
def test_derivatives_are_finite_and_right_to_second_order() -> None:
    theta = jnp.asarray(np.random.default_rng(0).normal(size=10))
    check_grads(from_theta, (theta,), order=2, modes=("fwd", "rev"), rtol=1e-5)
    check_grads(to_theta, random_body(3), order=2, modes=("fwd", "rev"), rtol=1e-4, eps=1e-6)
    for derivative in (jax.jacfwd, lambda f: jax.jacfwd(jax.jacrev(f))):
        leaves = jax.tree.leaves(derivative(artix.inertia_from_log_cholesky)(jnp.zeros(10)))
        assert all(np.all(np.isfinite(leaf)) for leaf in leaves)


@pytest.mark.slow
def test_an_articulation_keeps_its_dynamics() -> None:
    a = tree_of(["revolute_twist", "spherical_012", "prismatic_y"], [0, 1, 1], fixed_base=False)
    states = random_states(a, 3)
    theta = artix.log_cholesky_from_articulation(a)
    assert theta.shape == (a.topology.num_links, 10)
    again = artix.with_log_cholesky(a, theta)
    inverse = jax.jit(jax.vmap(artix.inverse_dynamics, in_axes=(None, 0, 0)))
    acceleration = jnp.asarray(np.random.default_rng(1).normal(size=(3, a.topology.nv)))
    wanted = inverse(a, states, acceleration)
    np.testing.assert_allclose(
        inverse(again, states, acceleration), wanted, atol=1e-12 * np.max(np.abs(wanted))
    )
    some = artix.log_cholesky_from_articulation(a, ["link_2", "link_1"])
    np.testing.assert_array_equal(some, theta[jnp.array([2, 1])])
    moved = artix.with_log_cholesky(a, some.at[0, 0].add(0.5 * jnp.log(2.0)), ["link_2", "link_1"])
    np.testing.assert_allclose(moved.link_mass / a.link_mass, [1, 1, 2, 1], rtol=1e-14)


@pytest.mark.slow
@pytest.mark.own_seeds  # how fast it converges depends on the robot
def test_gradient_descent_recovers_a_link_from_torques() -> None:
    """Identification: the last link of an arm, from a factor of two off in mass and size, by the
    torques alone."""
    truth = tree_of(
        ["revolute_swing1", "revolute_twist", "revolute_swing2"], [0, 1, 2], fixed_base=True, seed=4
    )
    states, links = random_states(truth, 32, speed=2.0), ["link_3"]
    acceleration = jnp.asarray(10 * np.random.default_rng(2).normal(size=(32, 3)))
    torques = jax.vmap(artix.inverse_dynamics, in_axes=(None, 0, 0))
    measured = torques(truth, states, acceleration)
    wanted = artix.log_cholesky_from_articulation(truth, links)
    optimizer = optax.adam(optax.cosine_decay_schedule(0.02, 3000))

    def loss(theta):
        found = torques(artix.with_log_cholesky(truth, theta, links), states, acceleration)
        return jnp.mean((found - measured) ** 2)

    @jax.jit
    def descend(carry, _):
        theta, memory = carry
        value, gradient = jax.value_and_grad(loss)(theta)
        update, memory = optimizer.update(gradient, memory)
        return (optax.apply_updates(theta, update), memory), value

    start = wanted + jnp.asarray(np.random.default_rng(3).uniform(-0.35, 0.35, (1, 10)))
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes the types of its counters and rates
        (theta, _), losses = jax.lax.scan(
            descend, (start, optimizer.init(start)), None, length=3000
        )
    assert losses[0] > 1e-2
    assert losses[-1] < 1e-16
    for found, true in zip(
        from_theta(theta[0]),
        (truth.link_mass[3], truth.link_com_pose[3, :3], truth.link_inertia[3]),
        strict=True,
    ):
        if found.ndim == 2:
            true = in_link_axes(truth.link_com_pose[3], true)
        elif found.ndim == 1:
            found = found[:3]
        np.testing.assert_allclose(found, true, atol=1e-6)


@pytest.mark.parametrize(
    ("mass", "inertia", "message"),
    [
        (0.0, [0.0, 0.0, 0.0], "a link of mass 0.0 kg"),
        (1.0, [0.1, 0.1, 0.0], "extent in every direction"),  # a rod
        (1.0, [0.1, 0.1, 0.2], "extent in every direction"),  # a plate
        (1.0, [0.0, 0.0, 0.0], "extent in every direction"),  # a point
        (1.0, [0.1, 0.1, 0.3], "extent in every direction"),  # nothing that exists
        (float("nan"), [0.1, 0.1, 0.1], "a link of mass nan kg"),
    ],
)
def test_links_without_parameters_are_refused(mass, inertia, message) -> None:
    pose = jnp.asarray([0.0, 0, 0, 0, 0, 0, 1])
    with pytest.raises(ValueError, match=message):
        artix.log_cholesky_from_inertia(jnp.asarray(mass), pose, jnp.diag(jnp.asarray(inertia)))


def test_refusals_of_articulations_name_the_link() -> None:
    arm = artix.robots.load("arm7")
    with pytest.raises(
        ValueError, match=r"link 'tool': a link of mass 0\.0 kg .* leave it out of `links`"
    ):
        artix.log_cholesky_from_articulation(arm)
    with pytest.raises(KeyError, match="no link called 'nose'"):
        artix.log_cholesky_from_articulation(arm, ["nose"])
    with pytest.raises(TypeError, match=r"links: .* found the string 'hand': write \['hand'\]"):
        artix.log_cholesky_from_articulation(arm, "hand")
    with pytest.raises(ValueError, match=r"theta: expected shape \(1, 10\)"):
        artix.with_log_cholesky(arm, jnp.zeros(10), ["hand"])
    with pytest.raises(ValueError, match=r"mass: expected shape \(\)"):
        artix.log_cholesky_from_inertia(arm.link_mass, arm.link_com_pose, arm.link_inertia)
