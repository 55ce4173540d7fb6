"""JAX's default types, for tests of code that users run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def users_types() -> Iterator[None]:
    """In this context arrays have 32 bits and types are promoted, as in JAX without flags.

    JAX 0.10 caches traces with 64-bit types and may then reject the same index here ("got int64,
    int32"), so the caches are cleared.
    """
    jax.clear_caches()
    with jax.numpy_dtype_promotion("standard"), jax.enable_x64(False):
        yield
    jax.clear_caches()
