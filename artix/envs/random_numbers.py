"""Random numbers for fleets, of the generator of :mod:`artix.math.random_keys`.

Each environment draws about fifty numbers per step. These functions take half as many rounds for
them as ``jax.random`` does. Keys are JAX's own, and both can be mixed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math.random_keys import is_typed, quick, threefry

Array = jax.Array


def uniform(key: Array, count: int, dtype) -> Array:
    """Uniform numbers from 0 to below 1.

    Args:
      key: a JAX random key, typed or raw.
      count: how many.
      dtype: float32 or float64; both get multiples of 2^-24.

    Returns:
      [count].

    Examples:
      >>> from artix.envs import random_numbers
      >>> random_numbers.uniform(jax.random.key(0), 5, jnp.float32).shape
      (5,)
    """
    words = _words(key, count)
    if words is None:
        return jax.random.uniform(quick(key), (count,), dtype)
    return (words >> 8).astype(dtype) * jnp.asarray(2.0**-24, dtype)


def split(key: Array, count: int = 2) -> list[Array]:
    """Splits a key like ``jax.random.split``, but into different keys.

    Args:
      key: a JAX random key, typed or raw.
      count: how many.
    """
    words = _words(key, 2 * count)
    if words is None:
        return list(jax.random.split(key, count))
    pairs = words.reshape(2, count).T
    if not is_typed(key):
        return list(pairs)
    return [jax.random.wrap_key_data(pair, impl="threefry2x32") for pair in pairs]


def typed(key: Array) -> Array:
    """A typed key for a raw or typed one."""
    return key if is_typed(key) else jax.random.wrap_key_data(key)


def _words(key: Array, count: int) -> Array | None:
    """Random words, [count] (uint32), or ``None`` for keys of another generator."""
    data = jax.random.key_data(key) if is_typed(key) else key
    if data.shape != (2,):
        return None
    counters = jnp.arange(count + count % 2, dtype=jnp.uint32).reshape(2, -1)
    return jnp.concatenate(threefry(data, *counters))[:count]
