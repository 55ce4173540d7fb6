"""Entries of computed arrays at unknown indices, selected from all entries that the index may address.

Computed scalars have no address from which each lane could load its own. Arguments and known arrays have one; a load
from them takes as long as about eight selections (Zen 4, AVX-512, November 2026), and the bounds of an index often
leave few more candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from artix.compiler.scalar_builder import ScalarBuilder
from artix.compiler.scalar_choices import bounds, compare, select
from artix.compiler.scalar_program import Kind, Op

_INDEX = int(Kind.INT32)


class Computed(NamedTuple):
    """An array of computed scalars."""

    references: Sequence[int]
    """The array's entries."""
    starts: Sequence[int]
    """Where windows may start, ascending."""
    first: int = 0

    def entries(self, builder: ScalarBuilder, kind: int, start: int, offsets: Sequence[int]) -> list[int]:
        """The entries at offsets from a start; each comparison serves all offsets."""
        candidates = _candidates(builder, self.starts, start)
        builder.check_size(len(candidates) * len(offsets))
        chosen = [self.references[candidates[0] + offset] for offset in offsets]
        for candidate in candidates[1:]:
            is_it = compare(builder, _INDEX, Op.EQ, start, builder.constant(candidate, _INDEX))
            chosen = [
                select(builder, kind, is_it, self.references[candidate + offset], other)
                for offset, other in zip(offsets, chosen, strict=True)
            ]
        return chosen


def change_window(
    builder: ScalarBuilder,
    kind: int,
    entries: list[int],
    starts: Sequence[int],
    start: int,
    changes: Sequence[tuple[int, int]],
    changed: Callable[[int, int], int],
) -> None:
    """Changes the entries of a window that starts at an unknown index.

    Args:
      builder: builds scalars.
      kind: kind of the entries.
      entries: all entries of the array, which are replaced.
      starts: where windows may start, ascending.
      start: where this one starts; if it is none of them, nothing changes.
      changes: offsets from the start, with the scalars that change the entries there.
      changed: combines an entry with such a scalar.
    """
    candidates = _candidates(builder, starts, start)
    builder.check_size(len(candidates) * len(changes))
    for candidate in candidates:
        is_it = compare(builder, _INDEX, Op.EQ, start, builder.constant(candidate, _INDEX))
        for offset, change in changes:
            entry = entries[candidate + offset]
            entries[candidate + offset] = select(builder, kind, is_it, changed(entry, change), entry)


def starts_along(strides: Sequence[int], last: Sequence[int]) -> list[int]:
    """The starts of a window that moves along axes with these strides, up to these last positions."""
    starts = np.zeros(1, int)
    for stride, end in zip(strides, last, strict=True):
        starts = np.add.outer(starts, stride * np.arange(end + 1)).ravel()
    return np.unique(starts).tolist()


def _candidates(builder: ScalarBuilder, starts: Sequence[int], start: int) -> Sequence[int]:
    """The starts that are within the bounds of an unknown index."""
    least, most = bounds(builder, start)
    return [x for x in starts if least <= x <= most] or starts
