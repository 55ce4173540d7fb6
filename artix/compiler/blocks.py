"""Evaluates large batches block by block where XLA runs them on a CPU, so that intermediates stay in the caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from artix.compiler.jax_internals import scan

_MAX_ITEMS = 512


def block_size(size: int) -> int:
    """The number of items per block: the largest divisor of ``size`` within limits, or else ``size``."""
    return next((block for block in range(min(size, _MAX_ITEMS), _MAX_ITEMS // 4 - 1, -1) if size % block == 0), size)


def in_blocks(function: Callable[..., Any], operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
    """The results of a batched function, evaluated block by block and joined along the leading axis.

    Args:
      function: takes operands of any length along their leading axes, and returns a pytree of arrays of that length.
      operands: pytrees of arrays.
      mapped: whether each operand has the leading axis; the others are the same for all blocks.
    """
    sizes = {
        leaf.shape[0] for x, has_axis in zip(operands, mapped, strict=True) if has_axis for leaf in jax.tree.leaves(x)
    }
    (size,) = sizes
    block = block_size(size)
    if block == size:
        return function(*operands)

    def of_block(_: Any, part: list[Any]) -> tuple[Any, Any]:
        parts = iter(part)
        return (), function(*(next(parts) if has_axis else x for x, has_axis in zip(operands, mapped, strict=True)))

    split = [x for x, has_axis in zip(operands, mapped, strict=True) if has_axis]
    blocks = jax.tree.map(lambda x: x.reshape(size // block, block, *x.shape[1:]), split)
    return jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), scan(of_block, (), blocks)[1])
