"""Arrays that are made, read and joined without compilation are those that JAX makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.math.arrays import (
    concatenate,
    device_array,
    entries,
    is_known,
    largest_magnitude,
    smallest,
    square_root,
    with_entries,
)

X = np.arange(24.0).reshape(4, 3, 2) / 7
CALLS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "one row": (lambda x: entries(x, 2), lambda x: x[2]),
    "rows": (lambda x: entries(x, np.array([3, 0, 0])), lambda x: x[np.array([3, 0, 0])]),
    "no rows": (lambda x: entries(x, np.zeros(0, int)), lambda x: x[np.zeros(0, int)]),
    "slices": (lambda x: entries(x, (1, slice(2))), lambda x: x[1, :2]),
    "changed": (lambda x: with_entries(x, 1, 2 * x[0]), lambda x: x.at[1].set(2 * x[0])),
    "joined": (lambda x: concatenate([x, x[:1]]), lambda x: jnp.concatenate([x, x[:1]])),
}


@pytest.mark.parametrize("name", CALLS)
def test_entries(name: str, dtype: np.dtype) -> None:
    """Known, traced and differentiated, with the dtype of the array."""
    ours, theirs = CALLS[name]
    x = jnp.asarray(X, dtype)
    for found in (ours(x), jax.jit(ours)(x)):
        assert isinstance(found, jax.Array)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, theirs(x))
    slope = [jax.grad(lambda x, call=call: jnp.sum(call(x) ** 2))(x) for call in (ours, theirs)]
    np.testing.assert_array_equal(*slope)


@pytest.mark.parametrize(("x", "most"), [([], 2.0), ([3.0, 1.0], 2.0), ([3.0, 4.0], 2.0)])
def test_the_smallest_of_few_numbers_has_derivatives(x: list[float], most: float) -> None:
    """With ``jnp.min(x, initial=most)`` the tangent of an empty array is NaN."""
    point = jnp.asarray(x, "float32")
    value, tangent = jax.jvp(lambda x: smallest(x, most), (point,), (jnp.ones_like(point),))
    assert (float(value), float(tangent)) == (min([*x, most]), float(min([*x, most]) < most))
    assert value.dtype == point.dtype


@pytest.mark.parametrize("x", [[], [1.0, -3.0]])
def test_the_largest_magnitude_of_few_numbers_has_derivatives(x: list[float]) -> None:
    point = jnp.asarray(x, "float32")
    value, tangent = jax.jvp(largest_magnitude, (point,), (jnp.ones_like(point),))
    assert (float(value), float(tangent)) == ((3.0, -1.0) if x else (0.0, 0.0))
    assert value.dtype == point.dtype


def test_the_square_root_of_nothing_has_a_derivative_and_that_of_nan_is_nan() -> None:
    point = jnp.array([4.0, 0.0, -1.0, jnp.nan], "float32")
    for function in (square_root, jax.jit(square_root), artix.quantity(square_root)):
        value, slope = jax.jvp(function, (point,), (jnp.ones_like(point),))
        np.testing.assert_array_equal(value, [2.0, 0.0, 0.0, np.nan])
        np.testing.assert_array_equal(slope, [0.25, 0.0, 0.0, np.nan])
        assert value.dtype == point.dtype


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64", None])
@pytest.mark.parametrize(
    "x", [X, X.astype(np.float32), X.tolist(), 1 / 3, 3, np.int8(3), np.zeros((0, 7)), True]
)
def test_conversions(x: Any, kind: str | None) -> None:
    """The values, dtype and shape of ``jnp.array``, which converts a list of Python floats by
    itself."""
    expected = jnp.array(x) if kind is None else jnp.array(x, kind)
    found = device_array(x, kind)
    assert (found.dtype, found.shape, found.weak_type) == (expected.dtype, expected.shape, False)
    np.testing.assert_array_equal(np.asarray(found, float), np.asarray(expected, float))


def test_numbers_beyond_the_range_are_infinite() -> None:
    np.testing.assert_array_equal(
        device_array(np.array([1e300, -1e300]), jnp.float32), [np.inf, -np.inf]
    )


def test_the_array_is_a_copy() -> None:
    mine = np.zeros(1024, np.float32)
    theirs = device_array(mine)
    mine[:] = 1
    assert not theirs.any()


@pytest.mark.parametrize("name", CALLS)
def test_what_has_been_placed_stays_in_its_place(name: str) -> None:
    device = jax.devices()[1]
    x = jax.device_put(jnp.asarray(X), device)
    found = CALLS[name][0](x)
    assert found.devices() == device_array(x, "float32").devices() == {device}
    np.testing.assert_array_equal(found, CALLS[name][1](X if name != "changed" else x))


def test_what_is_traced_stays_traced() -> None:
    seen: list[bool] = []

    @jax.jit
    def call(x: jax.Array) -> jax.Array:
        seen.append(is_known(x))
        return device_array(x, jnp.float32)

    x = jnp.arange(3.0)
    np.testing.assert_array_equal(call(x), x)
    assert seen == [False]
    assert is_known(x, X)


def test_masked_arrays_are_refused_where_they_would_lose_their_mask():
    """Under the mask is a number like any other; JAX itself refuses such arrays as arguments of its
    functions."""
    robot = artix.robots.load("double_pendulum")
    ones = np.ma.masked_array(np.ones(3, robot.dtype), mask=[True, False, False])
    broken = robot.replace(link_mass=ones)
    builder = artix.ArticulationBuilder()
    root = builder.add_link()
    for use in (
        lambda: builder.add_link(mass=1.0, inertia=ones),
        lambda: builder.add_link(mass=ones[0]),
        lambda: (builder.add_link(root, artix.Joint.revolute(limits=[ones[:2]])), builder.build()),
        lambda: artix.load_urdf(artix.robots.path("arm7"), gravity=ones),
        lambda: broken.astype("float32"),
        lambda: artix.save(broken, "unused.npz"),
    ):
        with pytest.raises(TypeError, match="masked arrays are refused"):
            use()
    for use in (artix.mass_matrix, jax.jit(artix.mass_matrix)):
        with pytest.raises(ValueError, match="masked arrays are not supported"):
            use(broken, artix.neutral_state(robot))
