"""The batch axes of an operation."""

from __future__ import annotations

from typing import NamedTuple


class Axis(NamedTuple):
    """A batch axis of a program."""

    size: int
    mapped: tuple[bool, ...]
    """Whether each operand has an entry per item of the batch; the others are shared."""


#: The batch axes of an operation, outermost first: none, robots, or robots and tangents (or cotangents) of each.
#: Operands have the axes along which they are mapped; results have all.
Axes = tuple[Axis, ...]
