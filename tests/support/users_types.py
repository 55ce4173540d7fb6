"""The types that most users have, for tests of what they run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def users_types() -> Iterator[None]:
    """Within it, arrays have 32 bits and types are promoted, as where nobody sets JAX's flags.

    JAX 0.10 keeps what it traced with 64-bit types, and may then refuse the same index here ("got int64, int32"): so
    nothing is kept.
    """
    jax.clear_caches()
    with jax.numpy_dtype_promotion("standard"), jax.enable_x64(False):
        yield
    jax.clear_caches()
