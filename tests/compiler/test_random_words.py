"""What draws random numbers is part of a kernel, with the numbers of JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from jax import lax

import artix
from artix.compiler import compilation
from artix.compiler.kernels import encodings
from artix.math.random_keys import quick, threefry

Array = jax.Array
HALF = np.uint32(2**31)


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Every function of this file has a kernel, unless it is said to have none."""
    monkeypatch.setattr(compilation, "_refused", set())
    yield
    assert "no kernel" in caplog.text or not caplog.records


def _words(count: int) -> Array:
    return jax.random.key_data(jax.random.split(jax.random.key(3), count))


def _on_words(draw: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda words: draw(jax.random.wrap_key_data(words))


def _of_two(key: Array) -> Array:
    first, second = jax.random.split(key)
    return jax.random.uniform(first, (3,), "float32") + jax.random.uniform(second, (3,), "float32")


def _of_each(key: Array) -> Array:
    keys = jnp.flip(jnp.concatenate([jax.random.split(key, 3), key[None]]))
    return jax.vmap(lambda one: jax.random.uniform(one, (2,), "float32"))(keys)


def _one_after_the_other(key: Array) -> Array:
    def body(key: Array, _: None) -> tuple[Array, Array]:
        key, use = jax.random.split(key)
        return key, jax.random.uniform(use, (2,), "float32")

    return lax.scan(body, key, None, length=3)[1]


def _of_one_of_two(key: Array) -> Array:
    is_first = jax.random.key_data(key)[0] > HALF
    other = jax.random.fold_in(key, 5)
    return jax.random.uniform(jnp.where(is_first, key, other), (2,), "float32")


def _by_a_branch(key: Array) -> Array:
    def draw(key: Array) -> Array:
        return jax.random.uniform(key, (2,), "float32")

    return lax.cond(jax.random.key_data(key)[0] > HALF, draw, lambda key: -draw(key), key)


EXACT = {
    "uniform": lambda key: jax.random.uniform(key, (5,), "float32"),
    "quick": lambda key: jax.random.uniform(quick(key), (5,), "float32"),
    "bits": lambda key: jax.random.bits(key, (5,)),
    "integers": lambda key: jax.random.randint(key, (7,), -5, 1000, "int32"),
    "a power of two": lambda key: jax.random.randint(key, (7,), 0, 65536, "int32"),
    "bools": lambda key: jax.random.bernoulli(key, jnp.float32(0.3), (9,)),
    "signs": lambda key: jax.random.rademacher(key, (9,), "float32"),
    "a key of two": _of_two,
    "many keys": _of_each,
    "folded": lambda key: jax.random.uniform(jax.random.fold_in(key, 7), (3,), "float32"),
    "a loop": _one_after_the_other,
    "a choice of keys": _of_one_of_two,
    "a branch": _by_a_branch,
    "a clone": lambda key: jax.random.uniform(jax.random.clone(key), (2,), "float32"),
    "a seed": lambda key: jax.random.uniform(
        jax.random.key(jax.random.key_data(key)[0].astype("int32")), (2,), "float32"
    ),
    "raw": lambda key: jax.random.uniform(jax.random.key_data(key), (2,), "float32"),
}


@pytest.mark.parametrize("draw", EXACT.values(), ids=EXACT)
def test_numbers_are_those_of_jax(draw: Callable[[Array], Array]) -> None:
    function = _on_words(draw)
    words = _words(33)
    expected = jax.vmap(function)(words)
    result = jax.jit(jax.vmap(artix.quantity(function)))(words)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


ROUNDED = {
    "uniform": lambda key: jax.random.uniform(key, (5,), "float32", -2, 3),
    "normal": lambda key: jax.random.normal(key, (50,), "float32"),
    "truncated": lambda key: jax.random.truncated_normal(
        key, jnp.float32(-1), jnp.float32(2), (9,), "float32"
    ),
    "exponential": lambda key: jax.random.exponential(key, (9,), "float32"),
    "gumbel": lambda key: jax.random.gumbel(key, (9,), "float32"),
}


@pytest.mark.parametrize("draw", ROUNDED.values(), ids=ROUNDED)
def test_functions_of_numbers_agree_to_rounding(draw: Callable[[Array], Array]) -> None:
    function = _on_words(draw)
    words = _words(33)
    result = jax.jit(jax.vmap(artix.quantity(function)))(words)
    np.testing.assert_allclose(result, jax.vmap(function)(words), rtol=2e-6, atol=1e-6)


@pytest.mark.slow
def test_what_keys_jax_does_not_split_into_words_has_no_kernel(caplog) -> None:
    function = _on_words(lambda key: jax.random.ball(key, 3, dtype="float32"))
    words = _words(5)
    result = jax.jit(jax.vmap(artix.quantity(function)))(words)
    np.testing.assert_allclose(result, jax.vmap(function)(words), rtol=1e-6)
    assert "is evaluated by XLA" in caplog.text
    caplog.clear()


def test_keys_of_another_mode_of_jax_are_drawn_again() -> None:
    function = _on_words(lambda key: jax.random.uniform(key, (5,), "float32"))
    quantity, (words, *_) = artix.quantity(function), _words(1)
    for is_partitionable in (True, False, True):
        with jax.threefry_partitionable(is_partitionable):
            np.testing.assert_array_equal(jax.jit(quantity)(words), function(words))


def _operations(x: Array, number: Array, words: Array) -> dict[str, Array]:
    """Operations on words and on the bits of integers."""
    counters = jnp.arange(3, dtype=jnp.uint32)
    first, second = threefry(words, counters, counters + words[1])
    integers = first.astype(jnp.int32)
    return {
        "words": first,
        "sum": first + second,
        "difference": first - second,
        "product": first * second,
        "negative": -first,
        "shifted": (first << 31) >> 3,
        "shifted away": lax.shift_left(first, jnp.full_like(first, 32)),
        "inverted": ~first,
        "less": first < second,
        "at most": first <= second,
        "equal": first == jnp.where(x[0] > 0, first, second),
        "larger": jnp.maximum(first, second),
        "smaller": jnp.minimum(first, second),
        "largest": lax.argmax(first, 0, jnp.int32),
        "all": lax.reduce_xor(first, axes=(0,)),
        "float": first.astype(x.dtype),
        "float32": first.astype(jnp.float32),
        "bool": (first & 1).astype(bool),
        "of bools": (first < second).astype(jnp.uint32) + first,
        "of floats": lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32),
        "as floats": lax.bitcast_convert_type((first >> 9) | 0x3F800000, jnp.float32),
        "remainder": first % jnp.uint32(1000),
        "integers": integers,
        "or": integers | number,
        "xor": integers ^ number,
        "not": ~number,
        "shifted integers": lax.shift_right_logical(number, jnp.full_like(number, 3)),
        "loop": lax.fori_loop(0, 3, lambda _, word: threefry(words, word, word + 1)[0], first),
    }


@pytest.mark.parametrize("is_x64", [False, True])
@pytest.mark.parametrize("by_llvm", [False, True])
def test_words_are_those_of_xla(is_x64: bool, by_llvm: bool, monkeypatch) -> None:
    if by_llvm:
        monkeypatch.setattr(encodings, "encoding", lambda: None)
        monkeypatch.setenv("ARTIX_CACHE", "0")

    def operations(*arguments: Array) -> dict[str, Array]:
        return _operations(*arguments)  # another function each time, so another kernel

    rng = np.random.default_rng(0)
    with jax.enable_x64(is_x64):
        x = jnp.array(rng.normal(size=(20, 3)), "float64" if is_x64 else "float32")
        number = jnp.array(rng.integers(-(2**31), 2**31, (20, 3)), jnp.int32)
        edges = [[0, 0], [2**32 - 1, 2**31], [2**31 - 1, 1]]
        words = jnp.array([*edges, *rng.integers(0, 2**32, (17, 2))], jnp.uint32)
        result = jax.jit(jax.vmap(artix.quantity(operations)))(x, number, words)
        expected = jax.jit(jax.vmap(operations))(x, number, words)
    for name, value in expected.items():
        assert result[name].dtype == value.dtype, name
        np.testing.assert_array_equal(result[name], value, err_msg=name)


def test_remainders_are_exact() -> None:
    rng = np.random.default_rng(1)
    edges = [0, 1, 2**31 - 1, 2**31, 2**32 - 1]
    words = np.array([*edges, *rng.integers(0, 2**32, 2000)], np.uint32)
    divisors = [1, 2, 3, 7, 1000, 65521, 65535, 65536]

    def remainders(word: Array) -> Array:
        return jnp.stack([word % jnp.uint32(divisor) for divisor in divisors])

    result = jax.jit(jax.vmap(artix.quantity(remainders)))(jnp.array(words))
    np.testing.assert_array_equal(result, words[:, None] % np.array(divisors, np.uint32))


def test_inverse_error_function() -> None:
    inside = np.tanh(np.linspace(-8, 8, 4001)).astype(np.float32)
    x = np.array([*inside[np.abs(inside) < 1], -1, 0, 1], np.float32)
    result = jax.jit(jax.vmap(artix.quantity(lax.erf_inv)))(jnp.array(x))
    np.testing.assert_allclose(result, lax.erf_inv(jnp.array(x)), rtol=1e-6)
    # Near 1, float32 has no better 1 - x^2.
    np.testing.assert_allclose(result, scipy.special.erfinv(x.astype(float)), rtol=1e-5)


def test_derivatives_pass_draws() -> None:
    def noisy(x: Array, words: Array) -> Array:
        noise = jax.random.normal(jax.random.wrap_key_data(words), x.shape, "float32")
        return jnp.sum(jnp.sin(x) * noise)

    x, words = jnp.linspace(0, 1, 4, dtype="float32"), _words(1)[0]
    quantity = artix.quantity(noisy)
    for differentiate in (jax.grad, jax.jacfwd):
        result = jax.jit(differentiate(quantity))(x, words)
        np.testing.assert_allclose(result, jax.grad(noisy)(x, words), rtol=2e-6, atol=1e-7)


def _split(key: Array, x: Array) -> tuple[Array, dict[str, Array]]:
    first, second = jax.random.split(key)
    word = jax.random.key_data(first)[-1]
    return x * (word >> 8).astype(x.dtype), {"key": second}


@pytest.mark.parametrize("generator", ["threefry2x32", "rbg"])
def test_keys_are_arguments_and_results(generator: str) -> None:
    keys = jax.random.split(jax.random.key(1, impl=generator), 5)
    x = jnp.linspace(1, 2, 15, dtype="float32").reshape(5, 3)
    numbers, expected = jax.vmap(_split)(keys, x)
    quantity = artix.quantity(_split)
    closure = jax.jit(lambda x: quantity(keys[2], x))  # The key is known.
    batches = jax.jit(jax.vmap(quantity))(keys, x)
    singles = [f(keys[2], x[2]) for f in (quantity, jax.jit(quantity))]
    for (result, others), index in (
        (batches, ...),
        *((each, 2) for each in singles),
        (closure(x[2]), 2),
    ):
        np.testing.assert_array_equal(result, numbers[index])
        assert others["key"].dtype == keys.dtype
        words = jax.random.key_data(others["key"])
        np.testing.assert_array_equal(words, jax.random.key_data(expected["key"])[index])
    slopes = jax.jit(jax.grad(lambda x: jnp.sum(quantity(keys[2], x)[0])))(x[2])
    np.testing.assert_array_equal(slopes, jnp.full(3, numbers[2, 0] / x[2, 0]))


def test_loops_carry_keys() -> None:
    def walk(function: Callable[..., Any]) -> Any:
        def step(key: Array, x: Array) -> tuple[Array, Array]:
            number, others = function(key, x)
            return others["key"], number

        return lax.scan(step, jax.random.key(4), jnp.ones((6, 2), "float32"))

    (key, numbers), (last, expected) = jax.jit(lambda: walk(artix.quantity(_split)))(), walk(_split)
    np.testing.assert_array_equal(numbers, expected)
    assert jnp.all(key == last)


@pytest.mark.parametrize("dtype", ["float32", np.float32, jnp.float32, np.dtype("float32")])
def test_keys_are_beside_static_arguments(dtype: Any) -> None:
    def numbers(key: Array, dtype: Any) -> Array:
        return jax.random.uniform(key, (3,), dtype)

    key = jax.random.key(6)
    np.testing.assert_array_equal(artix.quantity(numbers)(key, dtype), numbers(key, dtype))
