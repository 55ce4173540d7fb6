"""Random numbers for fleets: JAX's own generator as straight-line code.

Each environment draws about fifty numbers per step. On a CPU, XLA evaluates JAX's Threefry in loops
over whole arrays, which takes as long as half a physics step. Written out, it is a single loop over
the fleet. Keys are JAX's own, and these functions can be mixed with those of ``jax.random``.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math.traces import compiled

Array = jax.Array

#: Rotations of the rounds, in turns (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*,
#: 2011).
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


@compiled
def threefry(key: Array, count: Array) -> Array:
    """Threefry-2x32 with 20 rounds.

    Args:
      key: two words, [2] (uint32).
      count: an even number of counters, [2 n] (uint32); each of the first half is paired with one
        of the second.

    Returns:
      [2 n] (uint32), the same words as ``jax.extend.random.threefry_2x32``.
    """
    words = key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA)
    half = count.shape[0] // 2
    a, b = count[:half] + words[0], count[half:] + words[1]
    for turn in range(5):
        for rotation in _ROTATIONS[turn % 2]:
            a = a + b
            b = a ^ ((b << rotation) | (b >> (32 - rotation)))
        a = a + words[(turn + 1) % 3]
        b = b + words[(turn + 2) % 3] + jnp.uint32(turn + 1)
    return jnp.concatenate([a, b])


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
        return jax.random.uniform(key, (count,), dtype)
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
    if not _is_typed(key):
        return list(pairs)
    return [jax.random.wrap_key_data(pair, impl="threefry2x32") for pair in pairs]


def typed(key: Array) -> Array:
    """A typed key for a raw or typed one."""
    return key if _is_typed(key) else jax.random.wrap_key_data(key)


def _words(key: Array, count: int) -> Array | None:
    """Random words, [count] (uint32), or ``None`` for keys of another generator."""
    data = jax.random.key_data(key) if _is_typed(key) else key
    if data.shape != (2,):
        return None
    even = count + count % 2
    return threefry(data, jnp.arange(even, dtype=jnp.uint32))[:count]


def _is_typed(key: Array) -> bool:
    return jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
