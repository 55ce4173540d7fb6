"""The lowest of a few values, with what belongs to them."""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def lowest(columns: Array, count: int) -> Array:
    """The columns with the least entries in row 0, ascending; equal ones stay in their order.

    It exchanges neighbours, as bubble sort does, and stops when ``count`` columns are in place. For the few candidates
    of one shape that takes fewer operations than sorting their numbers and looking up the rest.

    Args:
      columns: [m, N].
      count: how many, at most N.

    Returns:
      [m, count].
    """
    found = [columns[:, k] for k in range(columns.shape[1])]
    for place in range(count):
        for k in range(len(found) - 1, place, -1):
            before, after = found[k - 1], found[k]
            is_less = after[0] < before[0]
            found[k - 1], found[k] = jnp.where(is_less, after, before), jnp.where(is_less, before, after)
    return jnp.stack(found[:count], axis=1)
