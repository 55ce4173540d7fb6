"""The layout of a scalar program on a GPU: threads, and rows of arrays in shared memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from artix.compiler.kernels.plan import result_kinds
from artix.compiler.kernels.program_lists import ProgramLists
from artix.compiler.scalar_program import BYTES, Kind, Op, ScalarProgram, kind_of

#: Threads per block: one warp, so that small batches spread over all multiprocessors and no warps
#: synchronise.
THREADS = 32

#: Bytes of shared memory that a block may use on every device by default.
MAX_SHARED = 48 * 1024


class Mapped(NamedTuple):
    """Which of the batches an array has rows for."""

    robots: bool
    items: bool


class Staged(NamedTuple):
    """An array whose rows a block keeps in shared memory."""

    offset: int
    """Bytes from the start of shared memory."""
    stride: int
    """Scalars per row: an odd number, so that the rows' entries of one column are in different
    banks."""
    columns: tuple[int, ...]
    """The column of each entry of the array; equal entries of results share one."""

    @property
    def is_plain(self) -> bool:
        """Whether rows are as in the array."""
        return self.columns == tuple(range(len(self.columns)))


class Layout:
    """The memory layout of a kernel.

    Args:
      program: the program, in order of computation.
      mapped: for each argument, which of the batches it has rows for.
      has_items: whether each robot has a batch of items.
      lanes: how many neighbouring threads share a robot, see :mod:`artix.compiler.lanes`.

    Attributes:
      rows_of_block: how many rows a block computes.
      loops_over_items: whether one thread computes all items of a robot; otherwise each item has a
        thread, which also computes the scalars that the items share.
      staged_arguments, staged_results: arrays in shared memory, by number.
      kept: for scalars that all items of a robot need, byte offsets in a thread's own memory.
      kept_size, shared_size: bytes of a thread's own memory and of shared memory.
    """

    def __init__(
        self, program: ScalarProgram, mapped: Sequence[Mapped], has_items: bool, lanes: int = 1
    ) -> None:
        self.program, self.mapped, self.has_items = program, tuple(mapped), has_items
        self.lanes, self.rows_of_block = lanes, THREADS // lanes
        self.lists = ProgramLists(program)
        self.argument_kinds = [kind_of(dtype) for _, dtype, _ in program.arguments]
        self.result_kinds = result_kinds(program)
        times = program.repetitions * (program.operations > Op.CONSTANT)
        of_items = program.levels == 2
        self.loops_over_items = has_items and times[~of_items].sum() > times[of_items].sum()
        self.staged_arguments: dict[int, Staged] = {}
        self.staged_results: dict[int, Staged] = {}
        self.shared_size = self._stage()
        self.kept: dict[int, int] = {}
        self.kept_size = self._keep() if self.loops_over_items else 0

    def entries(self, argument: int) -> int:
        """Number of entries per row of an argument."""
        return math.prod(self.program.arguments[argument][0])

    def _stage(self) -> int:
        """Assigns arrays to shared memory, the smallest first, and returns the bytes used."""
        candidates: list[tuple[int, bool, int, tuple[int, ...]]] = []
        used: dict[int, set[int]] = {}
        for number in np.flatnonzero(self.program.operations == Op.INPUT).tolist():
            argument, entry, _ = self.lists.operands[number]
            used.setdefault(argument, set()).add(entry)
        if self.lanes > 1:  # Each lane loads the entries of its leg.
            for argument in self.lists.arrays_loaded:
                if argument < len(self.program.arguments):
                    used[argument] = set(range(self.entries(argument)))
        for argument, entries in used.items():
            count = self.entries(argument)
            if self._has_own_rows(argument) and 4 * len(entries) >= count:
                candidates.append(
                    (BYTES[self.argument_kinds[argument]], False, argument, tuple(range(count)))
                )
        for result, references in enumerate(self.program.results):
            candidates.append(
                (BYTES[self.result_kinds[result]], True, result, _columns(references))
            )
        staged, offset = {False: self.staged_arguments, True: self.staged_results}, 0
        for size, is_result, number, columns in sorted(
            candidates, key=lambda row: row[0] * (max(row[3], default=0))
        ):
            stride = (max(columns, default=0) + 1) | 1
            end = offset + -(-self.rows_of_block * stride * size // 16) * 16
            if size == 1 or len(columns) <= 1 or end > MAX_SHARED:
                continue
            staged[is_result][number] = Staged(offset, stride, columns)
            offset = end
        return offset

    def _has_own_rows(self, argument: int) -> bool:
        """Whether neighbouring threads read neighbouring rows."""
        robots, items = self.mapped[argument]
        return robots and (self.loops_over_items or items or not self.has_items)

    def _keep(self) -> int:
        lists, kept = self.lists, set[int]()
        for number, level in enumerate(lists.levels):
            if level == 2 and lists.operations[number] > Op.CONSTANT:
                kept |= {x >> 1 for x in lists.operands[number] if x >= 0}
        for loop in self.program.loops:
            if any(lists.levels[x >> 1] == 2 for x in loop.references):
                kept |= {x >> 1 for x in loop.references}
        for references in self.program.results:
            kept |= set((references.ravel() >> 1).tolist())
        offset = 0
        for number in sorted(kept):
            if lists.levels[number] < 2 and lists.operations[number] not in (Op.INPUT, Op.CONSTANT):
                size = max(BYTES[Kind(lists.kinds[number])], 4)
                offset = -(-offset // size) * size
                self.kept[number] = offset
                offset += size
        return offset


def _columns(references: np.ndarray) -> tuple[int, ...]:
    """Columns of the entries of a result, the same for equal entries."""
    columns: dict[int, int] = {}
    return tuple(
        columns.setdefault(reference, len(columns)) for reference in references.ravel().tolist()
    )
