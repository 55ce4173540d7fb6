"""The length of a Newton step: where a convex function is least along it.

The function's slope increases along the step, and vanishes there. A safeguarded regula falsi finds
that place in few evaluations, of which each is as cheap as the laws of all rows.

Dowell and Jarratt, *A modified regula falsi method for computing the root of an equation*, 1971.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from artix.math.traces import while_loop

Array = jax.Array

#: The line search ends where the slope is this part of the first one.
_FLATTER = 0.1
_MAX_SEARCHES = 15


def line_search(
    at: Callable[[Array], tuple[Any, Array]], first: Array, is_whole: Array, begin: Any
) -> tuple[Array, Any]:
    """The length of a step, at most 1, where the slope along it vanishes: a safeguarded regula
    falsi.

    Args:
      at: what is wanted at a length, and the derivative of a convex function along the step,
        increasing.
      first: the slope at 0, negative.
      is_whole: whether to take the whole step.
      begin: anything like what is wanted.

    Returns:
      The length, and what is wanted there.
    """

    def goes_on(search) -> Array:
        return ~search[-1]

    def body(search):
        (low, high, length), (down, up), side, count, _, _ = search
        wanted, there = at(length)
        is_first, is_high = count == 0, there > 0
        is_found = jnp.where(
            is_first, is_whole | (there <= -_FLATTER * first), jnp.abs(there) <= -_FLATTER * first
        )
        is_found = is_found | (count >= _MAX_SEARCHES)
        # The Illinois variant halves the slope at an end that stays twice.
        down = jnp.where(is_high & (side > 0), 0.5 * down, down)
        up = jnp.where(~is_high & (side < 0), 0.5 * up, up)
        low, down = jnp.where(is_high, low, length), jnp.where(is_high, down, there)
        high, up = jnp.where(is_high, length, high), jnp.where(is_high, there, up)
        side = jnp.where(is_first, 0, jnp.where(is_high, one, -one))
        middle = low - down * (high - low) / jnp.where(is_found, 1, up - down)
        length = jnp.where(is_found, length, middle)
        return (low, high, length), (down, up), side, count + 1, wanted, is_found

    one = jnp.ones_like(first)
    start = (
        (0 * one, one, one),
        (first, one),
        0 * one,
        jnp.zeros((), jnp.int32),
        begin,
        jnp.zeros((), bool),
    )
    (_, _, length), _, _, _, wanted, _ = while_loop(goes_on, body, start)
    return length, wanted
