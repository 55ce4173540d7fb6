"""The 3 x 3 blocks of K contacts, [K, 3, 3]. Their products are sums, as products of many small matrices are slow."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math import spatial

Array = jax.Array


def inverses(blocks: Array) -> Array:
    """The inverse of each block."""
    return jnp.moveaxis(spatial.inverse(jnp.moveaxis(blocks, 0, -1)), -1, 0)


def times(blocks: Array, vectors: Array) -> Array:
    """Blocks times vectors, [K, 3]."""
    return jnp.sum(blocks * vectors[:, None], axis=2)


def times_transposed(blocks: Array, vectors: Array) -> Array:
    """Transposed blocks times vectors, [K, 3]."""
    return jnp.sum(blocks * vectors[:, :, None], axis=1)


def product(blocks: Array, others: Array) -> Array:
    """Blocks times others, [K, 3, S]."""
    return jnp.sum(blocks[:, :, :, None] * others[:, None], axis=2)
