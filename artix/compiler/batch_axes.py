"""The batches of an operation: how nested batches become one, and how XLA evaluates large ones
block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from artix.compiler.jax_internals import scan

Array = jax.Array


class Axis(NamedTuple):
    """A batch axis of a program."""

    size: int
    mapped: tuple[bool, ...]
    """Whether each operand has an entry per item of the batch; the others are shared."""

    def is_of_tangents(self, num_values: int) -> bool:
        """Whether it has many tangents at one point, so that values are computed once."""
        return not any(self.mapped[:num_values])


#: The batches of an operation, outermost first, one for each ``jax.vmap``. Operands have an axis
#: for each batch that they are mapped by; results have all axes.
Axes: TypeAlias = tuple[Axis, ...]


#: Robots in an outer batch for which the items of an inner batch share what they have in common:
#: enough blocks of lanes for all cores of a large machine.
MIN_ROBOTS = 1024


def groups_of(axes: Axes, num_values: int, min_robots: int | None = None) -> tuple[Axes, ...]:
    """The batches in at most two groups, each evaluated as one batch: robots, and items (such as
    tangents) of each.

    What does not depend on the item is computed once per robot.

    Args:
      axes: the batches.
      num_values: number of operands that are not tangents.
      min_robots: if given, not only tangents are items, but all batches inside one of at least this
        size with operands that they share.
    """
    groups: list[Axes] = []
    for axis in reversed(axes):
        inner = groups[0] if groups else ()
        are_tangents = all(each.is_of_tangents(num_values) for each in inner)
        are_items = are_tangents and not axis.is_of_tangents(num_values)
        if min_robots is not None and axis.size >= min_robots:
            are_items |= _share(inner, axis)
        if not groups or (len(groups) == 1 and are_items):
            groups.insert(0, (axis,))
        else:
            groups[0] = (axis, *inner)
    return tuple(groups)


def _share(items: Axes, robots: Axis) -> bool:
    """Whether the items of a robot share an operand that differs between robots."""
    of_items = [any(axis.mapped[index] for axis in items) for index in range(len(robots.mapped))]
    return any(
        of_robots and not of_item
        for of_robots, of_item in zip(robots.mapped, of_items, strict=True)
    )


def merged(groups: Sequence[Axes]) -> Axes:
    """Each group as one batch."""
    return tuple(
        Axis(
            math.prod(axis.size for axis in group),
            tuple(map(any, zip(*(axis.mapped for axis in group), strict=True))),
        )
        for group in groups
    )


def merge_operands(groups: Sequence[Axes], operands: Sequence[Array]) -> list[Array]:
    """Operands with an axis for each batch as operands with one for each group that they are mapped
    by.
    """
    results = []
    for index, operand in enumerate(operands):
        sizes: list[int] = []
        repeated: list[int] = []
        joined: list[int] = []
        for group in groups:
            if any(axis.mapped[index] for axis in group):
                sizes += [axis.size if axis.mapped[index] else 1 for axis in group]
                repeated += [axis.size for axis in group]
                joined.append(math.prod(axis.size for axis in group))
        rest = operand.shape[sum(axis.mapped[index] for group in groups for axis in group) :]
        results.append(
            jnp.broadcast_to(operand.reshape((*sizes, *rest)), (*repeated, *rest)).reshape(
                (*joined, *rest)
            )
        )
    return results


def split_results(groups: Sequence[Axes], results: Sequence[Array]) -> list[Array]:
    """Results with an axis for each group as results with one for each batch."""
    sizes = [axis.size for group in groups for axis in group]
    return [result.reshape((*sizes, *result.shape[len(groups) :])) for result in results]


_MAX_ITEMS = 512


def block_size(size: int) -> int:
    """The number of items per block: the largest divisor of ``size`` within limits, or else
    ``size``.
    """
    return next(
        (
            block
            for block in range(min(size, _MAX_ITEMS), _MAX_ITEMS // 4 - 1, -1)
            if size % block == 0
        ),
        size,
    )


def in_blocks(function: Callable[..., Any], operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
    """The results of a batched function, evaluated block by block and joined along the leading
    axis.

    Args:
      function: takes operands of any length along their leading axes, and returns a pytree of
        arrays of that length.
      operands: pytrees of arrays.
      mapped: whether each operand has the leading axis; the others are the same for all blocks.
    """
    sizes = {
        leaf.shape[0]
        for x, has_axis in zip(operands, mapped, strict=True)
        if has_axis
        for leaf in jax.tree.leaves(x)
    }
    (size,) = sizes
    block = block_size(size)
    if block == size:
        return function(*operands)

    def of_block(_: Any, part: list[Any]) -> tuple[Any, Any]:
        parts = iter(part)
        return (), function(
            *(next(parts) if has_axis else x for x, has_axis in zip(operands, mapped, strict=True))
        )

    split = [x for x, has_axis in zip(operands, mapped, strict=True) if has_axis]
    blocks = jax.tree.map(lambda x: x.reshape(size // block, block, *x.shape[1:]), split)
    return jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), scan(of_block, (), blocks)[1])


def levels_of(axes: Axes, num_operands: int) -> tuple[int, ...]:
    """The level of each operand: the innermost batch axis along which it is mapped; see
    :class:`ScalarProgram`.
    """
    levels = [0] * num_operands
    for level, axis in enumerate(axes, start=1):
        levels = [
            level if is_mapped else before
            for before, is_mapped in zip(levels, axis.mapped, strict=True)
        ]
    return tuple(levels)
