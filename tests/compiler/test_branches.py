"""What counts only where a condition holds is computed only there."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.compiler.program import trace
from artix.compiler.scalar_program import Op
from artix.compiler.scalarize import scalarize


def _long(x):
    """A function of many operations."""
    for k in range(30):
        x = 0.5 * jnp.sin(x + k) + 0.3 * x * x[::-1] / (1 + jnp.sum(x * x))
    return x


def masked(x, y):
    """A long function that counts where the first entry is positive, then one of its result."""
    is_positive = x[0] > 0
    first = jnp.where(is_positive, _long(x), 0)
    after = _long(0.5 * y + first)  # Needed in any case.
    return after + jnp.where(is_positive, _long(after * y), 0)


def _inputs(batch, dtype):
    generator = np.random.default_rng(3)
    return [jnp.asarray(generator.normal(size=(batch, 20)), dtype) for _ in range(2)]


def _scalars(function, dtype="float32"):
    types = [jax.ShapeDtypeStruct((20,), dtype)] * 2
    return scalarize(trace(function, types)[0], levels=(1, 1), known={})


def test_a_part_becomes_branches_one_after_the_other():
    program = _scalars(masked)
    assert [loop.length for loop in program.loops] == [0, 0]
    nests = program.nests
    is_in_branch = np.array([bool(nest) for nest in nests])[program.stages]
    computed = program.operations > Op.CONSTANT
    # Two of three long functions, of which the second reads the first's result elsewhere.
    assert 0.6 < np.mean(is_in_branch[computed]) < 0.7


def test_what_is_needed_anyway_stays():
    def function(x, y):
        long = _long(x)
        return jnp.where(x[0] > 0, long, 0), long[0]

    assert not _scalars(function).loops


def test_little_stays():
    assert not _scalars(lambda x, y: jnp.where(x[0] > 0, x * y, 0)).loops


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [1, 37, 64])
def test_results_are_those_of_selections(batch, dtype):
    quantity = artix.quantity(masked)
    with jax.enable_x64(dtype == "float64"):
        arguments = _inputs(batch, dtype)
        result = jax.jit(jax.vmap(quantity))(*arguments)
        expected = jax.vmap(masked)(*arguments)  # Compiled as a whole, XLA takes minutes.
        tolerance = 1e-4 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def test_a_vector_without_the_condition_is_exact_and_finite():
    """Where it does not hold, what the branch would compute may be infinite."""

    def function(x, y):
        is_positive = x[0] > 0
        return y + jnp.where(is_positive, _long(x) / jnp.maximum(x[0], 0), 0)

    x, y = _inputs(64, "float32")
    x = x.at[:, 0].set(-jnp.abs(x[:, 0]))
    assert _scalars(function).loops
    np.testing.assert_array_equal(jax.jit(jax.vmap(artix.quantity(function)))(x, y), y)


@pytest.mark.slow
def test_gradients_are_those_of_selections():
    def loss(function, x, y):
        return jnp.sum(jnp.cos(function(x, y)))

    with jax.enable_x64(True):
        arguments = _inputs(37, "float64")
        gradient = jax.grad(functools.partial(loss, artix.quantity(masked)), argnums=(0, 1))
        result = jax.jit(jax.vmap(gradient))(*arguments)
        plain = jax.grad(functools.partial(loss, masked), argnums=(0, 1))
        expected = jax.vmap(plain)(*arguments)
        for one, other in zip(result, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def started_again(x, words):
    """Random numbers that count where the first entry is positive, elsewhere those that are there."""
    draws = jax.random.uniform(jax.random.wrap_key_data(words), (20,), x.dtype, -1, 1)
    return jnp.where(x[0] > 0, draws, x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_are_made_where_they_count(dtype):
    """Also of words, and where what is there otherwise is not zero."""
    generator = np.random.default_rng(3)

    def draws(x, words):
        return started_again(x.astype("float32"), words).astype(x.dtype)

    with jax.enable_x64(dtype == "float64"):
        x = jnp.asarray(generator.normal(size=(64, 20)), dtype)
        x = x.at[:32, 0].set(-1)
        words = jnp.asarray(generator.integers(0, 2**32, (64, 2)), "uint32")
        types = jax.ShapeDtypeStruct((20,), dtype), jax.ShapeDtypeStruct((2,), "uint32")
        program = scalarize(trace(draws, types)[0], levels=(1, 1), known={})
        assert [loop.length for loop in program.loops] == [0]
        result = jax.jit(jax.vmap(artix.quantity(draws)))(x, words)
        np.testing.assert_allclose(result, jax.vmap(draws)(x, words), atol=3e-7)


@pytest.mark.slow
def test_the_gradient_of_a_step_has_branches_for_fast_motion():
    """Where motion is slow, a part of the backward pass is skipped."""
    robot = artix.robots.load("quadruped")

    def gradient(robot, state):
        def loss(state):
            scene = artix.Scene(robot, ground=artix.Ground.flat())
            end = artix.step(scene, state, artix.Control(), 0.004)
            return jnp.sum(end.root_velocity**2) + jnp.sum(end.joint_velocity**2)

        return jax.grad(loss)(state).root_velocity

    costs = artix.explain(gradient, robot, artix.neutral_state(robot)).operations
    backward = max(costs, key=lambda cost: sum(cost.operations))
    # Newton's method and the measures for fast motion are a third of the step.
    assert backward.until_done > 0.4 * sum(backward.operations)
