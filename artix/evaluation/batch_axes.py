"""The batches of an operation."""

from __future__ import annotations

from typing import NamedTuple


class Axis(NamedTuple):
    """A batch of a program."""

    size: int
    mapped: tuple[bool, ...]
    """Which operands have one item for each of it; the others are the same for all."""


#: The batches of an operation, outermost first: none, robots, or robots and many tangents (or cotangents) of each.
#: Operands have an axis for each batch that they are mapped by, results have all.
Axes = tuple[Axis, ...]
