"""JAX's random numbers as straight-line code.

On a CPU, JAX's own Threefry is a loop over whole arrays: XLA compiles each call of ``jax.random``
for 0.2 to 0.7 s of a core, and the loop takes three times as long as the same rounds written out.
With a :func:`quick` key, all functions of ``jax.random`` give the same numbers by the latter.

Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, 2011.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl

from artix.math.traces import compiled

Array = jax.Array

#: Rotations of the rounds, in turns.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

#: More numbers than this need counters of two words.
_MOST = 2**32


@compiled
def threefry(key: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds: two words for each pair of counters.

    Args:
      key: two words, [2] (uint32).
      first: counters (uint32).
      second: counters of the same shape.
    """
    words = key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA)
    a, b = first + words[0], second + words[1]
    for turn in range(5):
        for rotation in _ROTATIONS[turn % 2]:
            a = a + b
            b = a ^ ((b << rotation) | (b >> (32 - rotation)))
        a = a + words[(turn + 1) % 3]
        b = b + words[(turn + 2) % 3] + jnp.uint32(turn + 1)
    return a, b


def quick(key: Array) -> Array:
    """The same key, for which ``jax.random`` gives the same numbers, by straight-line code.

    Keys of other generators, keys without a type and, if ``jax_threefry_partitionable`` is off, all
    keys are returned as they are.
    """
    is_partitionable = jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
    if not is_partitionable or not _is_threefry(key):
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_STRAIGHT_LINE)


def split(key: Array, shape: int | tuple[int, ...] = 2) -> Array:
    """The same keys as those of ``jax.random.split``, by straight-line code."""
    keys = jax.random.split(quick(key), shape)
    if not is_typed(key):
        return keys
    return jax.random.wrap_key_data(jax.random.key_data(keys), impl=jax.random.key_impl(key))


def shuffled(key: Array, size: int) -> Array:
    """The numbers below ``size`` in random order, int32 [size].

    They are sorted by random words once, in half the time of ``jax.random.permutation``. That sorts
    twice, so that equal words leave no trace; 25,000 words have 0.07 equal pairs in the mean.
    """
    return jnp.argsort(jax.random.bits(quick(key), (size,))).astype(jnp.int32)


def is_typed(key: Array) -> bool:
    """Whether a key is one of ``jax.random.key``, not of ``jax.random.PRNGKey``."""
    return jnp.issubdtype(key.dtype, jax.dtypes.prng_key)


def _is_threefry(key: Array) -> bool:
    return is_typed(key) and str(jax.random.key_impl(key)) == "threefry2x32"


def _pairs(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Two words for each entry of an array."""
    size = math.prod(shape)
    if size >= _MOST:
        raise ValueError(f"at most {_MOST - 1:,} random numbers at once; found {size:,}")
    second = jnp.arange(size, dtype=jnp.uint32).reshape(shape)
    return threefry(key, jnp.zeros_like(second), second)


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return jnp.stack(_pairs(key, shape), axis=-1)


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    first, second = _pairs(key, shape)
    dtype = jnp.dtype(f"uint{bit_width}")
    if bit_width == 64:
        return (first.astype(dtype) << 32) | second.astype(dtype)
    return (first ^ second).astype(dtype)


def _fold_in(key: Array, data: Any) -> Array:
    counter = jnp.asarray(data).astype(jnp.uint32)
    return jnp.stack(threefry(key, jnp.zeros_like(counter), counter))


def _seed(seed: Array) -> Array:
    return jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))


_STRAIGHT_LINE = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="threefry2x32_straight_line",
    tag="fsl",
)
