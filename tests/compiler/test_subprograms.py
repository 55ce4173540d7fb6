"""Parts of a quantity that stay programs of their own."""

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.compiler.quantity import quantity, subprogram


@subprogram
def _root(x, none):
    return jnp.sqrt(1 + jnp.sum(x * x)), none


@quantity
def _of_many(x, scale):
    roots, none = jax.vmap(_root)(x, jnp.zeros((len(x), 0), x.dtype))

    def add(carry, root):
        total, empty = carry
        return (total + scale * root, empty), (root * total, empty)

    (total, _), (products, _) = jax.lax.scan(add, (jnp.zeros_like(scale), none[0]), roots)
    start = jax.lax.stop_gradient((0 * total, none))
    count = jax.lax.while_loop(lambda n: n[0] < 3, lambda n: (n[0] + 1, n[1]), start)[0]
    return total + count, products


def _expected(x, scale):
    roots = np.sqrt(1 + np.sum(x * x, axis=1))
    before = scale * np.concatenate([[0.0], np.cumsum(roots)[:-1]])
    return scale * np.sum(roots) + 3, roots * before


def test_a_part_is_a_kernel_and_the_whole_is_not() -> None:
    x, scale = np.random.default_rng(0).normal(size=(5, 3)), np.float64(0.7)
    for got, wanted in zip(_of_many(x, scale), _expected(x, scale), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-14, atol=0)
    text = jax.jit(_of_many).lower(x, scale).compile().as_text()
    assert text.count("custom_call_target") == 1
    batches = jax.vmap(_of_many)(np.stack([x, 2 * x]), jnp.array([0.7, 0.2]))
    np.testing.assert_allclose(batches[0][1], _expected(2 * x, 0.2)[0], rtol=1e-14, atol=0)


def test_derivatives_of_parts() -> None:
    x, scale = np.random.default_rng(1).normal(size=(4, 3)), np.float64(0.7)
    roots = np.sqrt(1 + np.sum(x * x, axis=1))
    gradient = jax.grad(lambda x: _of_many(x, scale)[0])(x)
    np.testing.assert_allclose(gradient, scale * x / roots[:, None], rtol=1e-14, atol=0)
    change = jax.jvp(lambda s: _of_many(x, s)[0], (scale,), (1.0,))[1]
    np.testing.assert_allclose(change, np.sum(roots), rtol=1e-14, atol=0)


def test_parts_have_no_kernels_where_these_are_off() -> None:
    x, scale = np.random.default_rng(2).normal(size=(6, 3)), np.float64(0.7)
    with artix.use_kernels(False):
        text = jax.jit(lambda *each: _of_many(*each)).lower(x, scale).compile().as_text()
        assert "artix_" not in text.replace("artix_program", "")
    text = jax.jit(lambda *each: _of_many(*each)).lower(x, scale).compile().as_text()
    assert text.count("custom_call_target") == 1


@quantity
def _of_rows(x, y):
    """Loops of many rows, which end at different times, around a part that is a kernel."""

    def of_row(row, count):
        def step(carry):
            k, value, none = carry
            root, none = _root(value * row, none)
            return k + 1, value / root, none

        return jax.lax.while_loop(lambda carry: carry[0] < count, step, (0, row, row[:0]))[1]

    return jax.vmap(of_row)(x, jnp.floor(y))


def test_loops_that_end_at_different_times() -> None:
    x, y = np.random.default_rng(3).normal(size=(4, 3)), np.array([0.5, 3.2, 1.1, 2.9])
    expected = x.copy()
    for row, value, count in zip(x, expected, y, strict=True):
        for _ in range(int(count)):
            value /= np.sqrt(1 + np.sum((value * row) ** 2))
    np.testing.assert_allclose(_of_rows(x, y), expected, rtol=1e-14, atol=0)
    rows = jax.vmap(_of_rows)(np.stack([x, x]), np.stack([0 * y, y]))
    np.testing.assert_allclose(rows, [x, expected], rtol=1e-14, atol=0)
