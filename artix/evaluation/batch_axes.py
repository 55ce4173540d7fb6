"""The batches of an operation."""

from __future__ import annotations

from typing import NamedTuple


class Axis(NamedTuple):
    """A batch of a program."""

    size: int
    mapped: tuple[bool, ...]
    """Whether each operand has one entry for each item of the batch; the others are shared."""


#: The batches of an operation, outermost first: none, robots, or robots and tangents (or cotangents) of each.
#: Operands have an axis for each batch that they are mapped by; results have all axes.
Axes = tuple[Axis, ...]
