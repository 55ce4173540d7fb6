"""Large batches of mixed fleets on a CPU, block by block."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from artix.compiler.batch_axes import block_size, in_blocks


def vmap_in_blocks(function: Callable[..., Any]) -> Callable[..., Any]:
    """``jax.vmap`` over the leading axes of all arguments, which a CPU evaluates in blocks of up to 512 items.

    Use it for functions that are not entirely kernels (see :func:`artix.explain`): the intermediates of a whole batch
    would not fit the caches. On other devices, and for batches that no number from
    128 to 512 divides, it is ``jax.vmap``. It works under ``jax.jit`` and differentiation.

    Args:
      function: a function of one articulation, one state and so on.

    Returns:
      The function of batches of them, with one more leading axis on every array. It raises ``ValueError`` unless all
      leading axes have the same length.

    Examples:
      >>> fleet = artix.Fleet([artix.robots.load("cart_pole")] * 2)
      >>> poses = artix.fleet.vmap_in_blocks(artix.frame_pose)(fleet.articulation, fleet.neutral_state())
      >>> print(poses.shape)
      (2, 3, 7)
    """

    @functools.wraps(function)
    def of_batch(*arguments: Any) -> Any:
        size, batched = _common_size(arguments), jax.vmap(function)
        block = block_size(size)
        if block == size:
            return batched(*arguments)

        def block_by_block(*items: Any) -> Any:
            return in_blocks(batched, items, (True,) * len(items))

        return jax.lax.platform_dependent(*arguments, cpu=block_by_block, default=batched)

    return of_batch


def _common_size(arguments: tuple[Any, ...]) -> int:
    """The common length of all leading axes."""
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(arguments)]
    if len({shape[:1] for shape in shapes}) != 1 or not shapes[0]:
        found = ", ".join(str(shape) for shape in dict.fromkeys(shapes))
        raise ValueError(
            "vmap_in_blocks: expected arrays with one common leading axis in all arguments, found shapes "
            f"{found}; close over what all items share"
        )
    return shapes[0][0]
