"""Matrix products in full float32 precision, and indexing without bounds checks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


def matmul(a: Array, b: Array) -> Array:
    """``jnp.matmul`` in full precision: by default a GPU would round float32 operands to TF32, with 3 digits.

    Examples:
      >>> a, b = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.eye(2)
      >>> print(artix.lie.matmul(a, b))
      [[1. 2.]
       [3. 4.]]
    """
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def masked_sum(x: Array, mask) -> Array:
    """Sums of the columns of ``x`` [..., m] that a mask [m, n] selects, ``matmul(x, mask)``: [..., n]."""
    return matmul(x, jnp.asarray(mask, x.dtype))


def take(x: Array, index, axis: int = -1) -> Array:
    """``jnp.take`` for indices in bounds and not negative; becomes a slice, or ``x`` itself, where that suffices."""
    before = (slice(None),) * (axis % x.ndim)
    if isinstance(index, np.ndarray) and index.ndim == 1:
        first = int(index[0]) if len(index) else 0
        if np.array_equal(index, np.arange(first, first + len(index))):
            return x if len(index) == x.shape[axis] else x[(*before, slice(first, first + len(index)))]
    return jnp.asarray(x).at[(*before, index)].get(mode="promise_in_bounds", wrap_negative_indices=False)
