"""The batches of an operation, and how nested batches become one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

Array = jax.Array


class Axis(NamedTuple):
    """A batch axis of a program."""

    size: int
    mapped: tuple[bool, ...]
    """Whether each operand has an entry per item of the batch; the others are shared."""

    def is_of_tangents(self, num_values: int) -> bool:
        """Whether it has many tangents at one point, so that values are computed once."""
        return not any(self.mapped[:num_values])


#: The batches of an operation, outermost first, one for each ``jax.vmap``. Operands have an axis for each batch that
#: they are mapped by; results have all axes.
Axes: TypeAlias = tuple[Axis, ...]


def groups_of(axes: Axes, num_values: int) -> tuple[Axes, ...]:
    """The batches in at most two groups, each evaluated as one batch: robots, and tangents (or cotangents) of each.

    Args:
      axes: the batches.
      num_values: number of operands that are not tangents.
    """
    groups: list[Axes] = []
    for axis in reversed(axes):
        inner = groups[0] if groups else ()
        tangents_inside = len(groups) == 1 and all(each.is_of_tangents(num_values) for each in inner)
        if not groups or (tangents_inside and not axis.is_of_tangents(num_values)):
            groups.insert(0, (axis,))
        else:
            groups[0] = (axis, *inner)
    return tuple(groups)


def merged(groups: Sequence[Axes]) -> Axes:
    """Each group as one batch."""
    return tuple(
        Axis(
            math.prod(axis.size for axis in group), tuple(map(any, zip(*(axis.mapped for axis in group), strict=True)))
        )
        for group in groups
    )


def merge_operands(groups: Sequence[Axes], operands: Sequence[Array]) -> list[Array]:
    """Operands with an axis for each batch as operands with one for each group that they are mapped by."""
    found = []
    for index, operand in enumerate(operands):
        own: list[int] = []
        repeated: list[int] = []
        joined: list[int] = []
        for group in groups:
            if any(axis.mapped[index] for axis in group):
                own += [axis.size if axis.mapped[index] else 1 for axis in group]
                repeated += [axis.size for axis in group]
                joined.append(math.prod(axis.size for axis in group))
        rest = operand.shape[sum(axis.mapped[index] for group in groups for axis in group) :]
        found.append(jnp.broadcast_to(operand.reshape((*own, *rest)), (*repeated, *rest)).reshape((*joined, *rest)))
    return found


def split_results(groups: Sequence[Axes], results: Sequence[Array]) -> list[Array]:
    """Results with an axis for each group as results with one for each batch."""
    sizes = [axis.size for group in groups for axis in group]
    return [result.reshape((*sizes, *result.shape[len(groups) :])) for result in results]
