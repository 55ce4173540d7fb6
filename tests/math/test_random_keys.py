"""Random numbers by straight-line code are JAX's own."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from artix.math.random_keys import quick, threefry

DRAWS = {
    "uniform": lambda key: jax.random.uniform(key, (3, 5)),
    "float64": lambda key: jax.random.uniform(key, (4,), "float64"),
    "normal": lambda key: jax.random.normal(key, (33,), "float32"),
    "one number": lambda key: jax.random.normal(key),
    "nothing": lambda key: jax.random.uniform(key, (0,)),
    "8 bits": lambda key: jax.random.bits(key, (7,), "uint8"),
    "16 bits": lambda key: jax.random.bits(key, (7,), "uint16"),
    "integers": lambda key: jax.random.randint(key, (50,), -3, 1000),
    "keys": lambda key: jax.random.key_data(jax.random.split(key, (3, 2))),
    "folded": lambda key: jax.random.key_data(jax.random.fold_in(key, 2**31 + 5)),
    "permutation": lambda key: jax.random.permutation(key, 100),
    "choice": lambda key: jax.random.choice(key, 100, (5,), replace=False),
    "many keys": lambda key: jax.vmap(jax.random.normal)(jax.random.split(key, 6)),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_numbers_are_those_of_jax(draw):
    key = jax.random.key(7)
    for evaluate in (draw, jax.jit(draw)):
        expected, result = evaluate(key), evaluate(quick(key))
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def test_words_are_those_of_jax():
    key = jax.random.key_data(jax.random.key(7))
    counters = jnp.arange(10, dtype=jnp.uint32)
    np.testing.assert_array_equal(
        jnp.concatenate(threefry(key, counters[:5], counters[5:])),
        jax.extend.random.threefry_2x32(key, counters),
    )


@pytest.mark.parametrize("key", [jax.random.PRNGKey(0), jax.random.key(0, impl="rbg")])
def test_other_keys_stay_as_they_are(key):
    assert quick(key) is key


def test_a_quick_key_stays_as_it_is():
    key = quick(jax.random.key(0))
    assert quick(key) is key


def test_without_partitionable_keys_jax_draws():
    with jax.threefry_partitionable(False):
        key = jax.random.key(0)
        assert quick(key) is key
