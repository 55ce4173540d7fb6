"""Sorting is part of kernels, with the order of JAX."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import artix
from artix.compiler import compilation, sorting

Array = jax.Array


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Every function of this file has a kernel, unless it is said to have none."""
    monkeypatch.setattr(compilation, "_refused", set())
    yield
    assert not caplog.records


def _same(function: Callable[..., object], *batches: Array) -> None:
    results = jax.jit(jax.vmap(artix.quantity(function)))(*batches)
    expected = jax.jit(jax.vmap(function))(*batches)
    for result, value in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        assert result.dtype == value.dtype
        np.testing.assert_array_equal(result, value)


def _with_equal_entries(dtype: str) -> Array:
    """Rows with equal entries and, if they are floats, with zeros of both signs, NaN and inf."""
    rows = np.random.default_rng(0).integers(0, 4, (12, 7)).astype(dtype)
    if np.issubdtype(rows.dtype, np.floating):
        rows[0, [1, 4]] = np.nan
        rows[1] = np.nan
        rows[2, [0, 3, 5]] = -0.0, 0.0, -0.0
        rows[3, [2, 6]] = np.inf, -np.inf
        rows[4:] -= 2
    return jnp.array(rows)


def _places(count: int) -> Array:
    return jnp.arange(count, dtype=jnp.int32)


@pytest.mark.parametrize("count", range(9))
def test_the_network_sorts(count: int) -> None:
    """A network that sorts all zeros and ones sorts everything (Knuth, theorem 5.3.4Z)."""
    pairs = [*sorting._network(count)]
    for entries in itertools.product((0, 1), repeat=count):
        row = list(entries)
        for first, second in pairs:
            if row[first] > row[second]:
                row[first], row[second] = row[second], row[first]
        assert row == sorted(entries)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32"])
def test_the_order_is_that_of_jax(dtype: str) -> None:
    rows = _with_equal_entries(dtype)
    _same(jnp.sort, rows)
    _same(lambda x: lax.sort((x, _places(7)), num_keys=1), rows)
    _same(lambda x: jnp.argsort(x, descending=True).astype(jnp.int32), rows)
    _same(lambda x: lax.sort((x, x[::-1], _places(7), x + x), num_keys=2), rows)
    if dtype != "float64":
        _same(lambda x: lax.top_k(x, 3), rows)


def test_axes_and_lengths() -> None:
    arrays = jnp.array(np.random.default_rng(1).normal(size=(6, 5, 4, 3)), "float32")
    for axis in range(3):
        _same(lambda x, axis=axis: jnp.sort(x, axis), arrays)
        _same(lambda x, axis=axis: lax.top_k(x, 2, axis=axis), arrays)
    for count in (0, 1, 2, 100, 128):
        _same(jnp.sort, jnp.array(np.random.default_rng(2).normal(size=(3, count)), "float32"))
    _same(jnp.median, arrays[:, 0, 0])


def test_more_entries_are_sorted_by_xla(caplog) -> None:
    _same(jnp.sort, jnp.ones((3, 129)))
    assert "sorting of more than 128 entries" in caplog.text
    caplog.clear()


def test_permutations_are_those_of_jax() -> None:
    keys = jax.random.split(jax.random.key(0), 8)
    numbers = jnp.linspace(0, 1, 10, dtype="float32")
    _same(lambda key: jax.random.permutation(key, numbers), keys)
    _same(lambda key: jax.random.choice(key, numbers, (4,), replace=False), keys)


@pytest.mark.parametrize("is_x64", [False, True])  # Gradients have indices of words, without.
def test_derivatives(is_x64: bool) -> None:
    def function(x: Array) -> Array:
        weights = jnp.arange(5, dtype=x.dtype)
        return jnp.sum(jnp.sin(jnp.sort(x) * weights))

    with jax.enable_x64(is_x64):
        rows = jnp.array(np.random.default_rng(3).normal(size=(4, 5)), "float32")
        quantity = artix.quantity(function)
        for differentiate in (jax.grad, jax.hessian):
            result = jax.jit(jax.vmap(differentiate(quantity)))(rows)
            expected = jax.jit(jax.vmap(differentiate(function)))(rows)
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_indices_that_are_words() -> None:
    rng = np.random.default_rng(4)
    with jax.enable_x64(False):  # JAX adds sizes to indices, there of 64 bits.
        rows = jnp.array(rng.normal(size=(6, 5)), "float32")
        edges = [[2**32 - 1, 2**31, 4]]
        words = jnp.array([*edges, *rng.integers(0, 7, (5, 3)).tolist()], jnp.uint32)
        for mode in ("clip", "fill"):
            _same(lambda x, words, mode=mode: x.at[words].get(mode=mode), rows, words)
            _same(lambda x, words, mode=mode: x.at[words].set(2.0, mode=mode), rows, words)
        _same(lambda x, words: lax.dynamic_slice(x, (words[0],), (2,)), rows, words)
