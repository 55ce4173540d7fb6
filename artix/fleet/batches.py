"""Large batches of mixed fleets on a CPU, block by block."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from artix.evaluation.devices import scan

_MOST_ITEMS = 512


def vmap_in_blocks(function: Callable[..., Any]) -> Callable[..., Any]:
    """``jax.vmap`` over the leading axes of all arguments, which a CPU evaluates in blocks of up to 512 items.

    For mixed fleets, whose trees are data: intermediates of a whole batch would leave the caches. On other devices, and
    for batches that no number from 128 to 512 divides, it is ``jax.vmap``. The same under ``jax.jit`` and
    differentiation.

    Args:
      function: a function of one articulation, one state and so on.

    Returns:
      The function of batches of them, every array with one leading axis more; it raises ``ValueError`` unless the
      leading axes of all arguments are of one length.

    Examples:
      >>> pole, pendulum = artix.robots.load("cart_pole"), artix.robots.load("double_pendulum")
      >>> fleet = artix.Fleet([pole, pendulum], layout="padded")
      >>> poses = artix.fleet.vmap_in_blocks(artix.link_poses)(fleet.articulation, fleet.neutral_state())
      >>> print(poses.shape)
      (2, 3, 7)
    """

    @functools.wraps(function)
    def of_batch(*arguments: Any) -> Any:
        size, batched = _common_size(arguments), jax.vmap(function)
        block = _block_size(size)
        if block == size:
            return batched(*arguments)

        def block_by_block(*items: Any) -> Any:
            blocks = jax.tree.map(lambda x: x.reshape(size // block, block, *x.shape[1:]), items)
            results = scan(lambda _, part: ((), batched(*part)), (), blocks)[1]
            return jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), results)

        return jax.lax.platform_dependent(*arguments, cpu=block_by_block, default=batched)

    return of_batch


def _common_size(arguments: tuple[Any, ...]) -> int:
    """The length of the leading axes of all arguments."""
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(arguments)]
    if len({shape[:1] for shape in shapes}) != 1 or not shapes[0]:
        found = ", ".join(str(shape) for shape in dict.fromkeys(shapes))
        raise ValueError(
            "vmap_in_blocks: expected arrays with one common leading axis in all arguments, found shapes "
            f"{found}; close over what all items share"
        )
    return shapes[0][0]


def _block_size(size: int) -> int:
    """The number of items in a block: the largest divisor of ``size`` within limits, else ``size`` itself."""
    return next((block for block in range(min(size, _MOST_ITEMS), _MOST_ITEMS // 4 - 1, -1) if size % block == 0), size)
