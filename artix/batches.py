"""Large batches on a CPU, block by block.

Intermediates of a whole batch leave the caches, and the GNU C library gives blocks of memory of more than 32 MB back to
the system at once: all their pages are missing in the next call. In blocks of 1,024 a step of a 29-DOF humanoid takes
4.2 instead of 6.2 us (float32, batch 4096, two cores), its inverse dynamics 0.65 instead of 1.5 us in a batch of
32,768, and that of robots of three kinds, whose parameters are no constants, 6.9 instead of 20.8 us.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from artix.batch_rules import BatchEvaluation
from artix.devices import scan

Array = jax.Array

# 256, 512 and 1,024 are equal to 10 %, for mixed fleets and for humanoids with parameters of their own.
_BLOCK = 512

# Blocks of 4, 8 and 16 MB for two cores: derivatives of inverse dynamics of 30 bodies 4.3, 4.3 and 4.7 us in a batch of
# 4,096 (8.3 as a whole), forward dynamics of 46 bodies 2.8, 2.7 and 3.1 (4.0). Below 20 MB blocks gain nothing.
_BYTES_OF_BLOCK = 4_500_000 * (os.cpu_count() or 1)
_BYTES_OF_BATCH = 20_000_000


def vmap_in_blocks(function: Callable[..., Any]) -> Callable[..., Any]:
    """``jax.vmap`` over the leading axes of all arguments, which a CPU evaluates in blocks of up to 512 items.

    For mixed fleets, whose trees are data (a CPU takes 1.6 to 2.5 times as long without it), and for functions of one's
    own. (artix's own evaluate large batches of one topology in blocks in any case; there it gains nothing, or loses.)
    On other devices, where JAX sees several, and for batches that no number from 128 to 512 divides, it is
    ``jax.vmap``. The same under ``jax.jit`` and differentiation::

        torques = jax.jit(artix.vmap_in_blocks(artix.inverse_dynamics))(fleet.articulation, states, accelerations)

    Args:
      function: a function of one articulation, one state and so on.

    Returns:
      The function of batches of them, every array with one leading axis more; it raises ``ValueError`` unless the
      leading axes of all arguments are of one length.
    """

    @functools.wraps(function)
    def of_batch(*arguments: Any) -> Any:
        size = _common_size(arguments)
        block = _block_size(size, _BLOCK)
        if block == size:
            return jax.vmap(function)(*arguments)
        return _block_by_block(lambda items: jax.vmap(function)(*items), arguments, size // block)

    return of_batch


def in_blocks_of_caches(evaluation: BatchEvaluation, numbers: int) -> BatchEvaluation:
    """The same evaluation, block by block where a batch's intermediates are larger than a CPU's caches.

    Args:
      evaluation: how one block is evaluated.
      numbers: how many numbers the intermediates of one item have, without its results.
    """

    def of_batch(program: ClosedJaxpr, mapped: tuple[bool, ...], size: int, arrays: Sequence[Array]) -> list[Array]:
        results: Any = program.out_avals
        width = max((result.dtype.itemsize for result in results), default=0)
        item = width * (numbers + sum(result.size for result in results))
        block = _block_size(size, max(_BYTES_OF_BLOCK // item, 1)) if size * item > _BYTES_OF_BATCH else size
        if block == size:
            return evaluation(program, mapped, size, arrays)

        def of_block(parts: list[Array]) -> list[Array]:
            rest = iter(parts)
            of_all = [next(rest) if is_mapped else array for array, is_mapped in zip(arrays, mapped, strict=True)]
            return evaluation(program, mapped, block, of_all)

        _keep_freed_memory()
        parts = [array for array, is_mapped in zip(arrays, mapped, strict=True) if is_mapped]
        return _block_by_block(of_block, parts, size // block)

    return of_batch


def evaluate_plainly(program: ClosedJaxpr, mapped: tuple[bool, ...], size: int, arrays: Sequence[Array]) -> list[Array]:
    """A batch of a program as ``jax.vmap`` evaluates it, an :data:`artix.batch_rules.BatchEvaluation`."""
    axes = tuple(0 if is_mapped else None for is_mapped in mapped)
    return jax.vmap(jaxpr_as_fun(program), axes, axis_size=size)(*arrays)


@functools.cache
def _keep_freed_memory() -> None:
    """Lets the GNU C library keep up to 64 MB that are freed.

    By itself it does so once a program has freed a block of nearly 32 MB. Before, results that no such block has
    preceded are given back after every call, page by page: derivatives of inverse dynamics of a quadruped take 2.7
    instead of 1.2 us, with 4,600 missing pages a call.
    """
    np.empty(2**25 - 2**14, np.uint8)


def one_device_of_a_cpu() -> bool:
    """Whether batches may be evaluated block by block; elsewhere that would only take away what works side by side."""
    return jax.default_backend() == "cpu" and jax.device_count() == 1


def _block_by_block(function: Callable[[Any], Any], items: Any, blocks: int) -> Any:
    """The results for all items, arrays with a leading axis that is split into blocks."""

    def one_block(_, numbered: tuple[Array, Any]) -> tuple[tuple, Any]:
        number, part = numbered
        # XLA compiles a loop of element-wise operations into one function, which runs on one core (jaxlib 0.12; inverse
        # dynamics of 30 bodies: 1.05 instead of 0.7 us on two). Not so if there is a sort in it, be it of two numbers.
        first = jax.lax.sort(jnp.stack([number, number + 1]))[0]
        return (), function(jax.tree.map(lambda x: _if(first >= 0, x), part))

    parts = jax.tree.map(lambda x: x.reshape(blocks, x.shape[0] // blocks, *x.shape[1:]), items)
    return jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), scan(one_block, (), (jnp.arange(blocks), parts))[1])


def _if(condition: Array, x: Array) -> Array:
    return jnp.where(condition, x, 0) if jnp.issubdtype(x.dtype, jnp.floating) else x


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


def _block_size(size: int, most: int) -> int:
    """How many of ``size`` items to evaluate at a time: as many as divide it, from a quarter of ``most`` on."""
    if not one_device_of_a_cpu():
        return size
    return next((block for block in range(min(size, most), max(most // 4, 1) - 1, -1) if size % block == 0), size)
