"""The layout of a scalar program on a GPU: threads, rows of arrays in shared memory, and how blocks
copy these from and to the arrays.

Neighbouring threads copy neighbouring entries, whatever their rows. Threads past the end copy the
last entry again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from artix.compiler.kernels.code import Code, Value
from artix.compiler.kernels.plan import result_kinds
from artix.compiler.kernels.program_lists import ProgramLists
from artix.compiler.kernels.transposition import INTEGERS
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
            if self._reads_rows(argument) and 4 * len(entries) >= count:
                candidates.append(
                    (BYTES[self.argument_kinds[argument]], False, argument, tuple(range(count)))
                )
        for result, references in enumerate(self.program.results):
            candidates.append(
                (BYTES[self.result_kinds[result]], True, result, _columns(references))
            )
        staged = {False: self.staged_arguments, True: self.staged_results}
        offset = 0
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

    def _reads_rows(self, argument: int) -> bool:
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


# Copies between arrays and shared memory

#: Number of entries that a thread loads from shared memory before it writes the first.
_UNROLLED = 8


class RowBlock(NamedTuple):
    """The rows of an array that belong to a block: start, stride in entries and number; and the
    index of the thread.
    """

    start: Value
    stride: Value | int
    rows: Value
    thread: Value


def _row_and_column(code: Code, index: Value, columns: int) -> tuple[Value, Value]:
    row = code.emit(f"udiv i32 {index.name}, {columns}", "i32")
    return row, index - row * columns


def _entry_pointer(
    block: RowBlock, row: Value, column: Value, index: Value, columns: int, scalar: str
) -> Value:
    """The pointer to an entry of the array."""
    if block.stride == columns:
        return block.start.offset(index.cast("zext", "i64"), scalar)
    return block.start.offset(
        row.cast("zext", "i64") * block.stride + column.cast("zext", "i64"), scalar
    )


def _clamp(index: Value, last: Value) -> Value:
    narrow = index.cast("trunc", "i32")
    return (narrow < last).where(narrow, last)


def copy_in(
    code: Code, staged: Staged, size: int, block: RowBlock, shared: Value, is_host: bool
) -> None:
    """Copies from an array into shared memory, on a GPU asynchronously.

    Args:
      code: the function to which the copy is appended.
      staged: the target.
      size: bytes per entry.
      block: the source.
      shared: address of shared memory.
      is_host: whether the code is for a CPU.
    """
    columns, scalar = len(staged.columns), INTEGERS[size]
    count = block.rows * columns
    last = (count - 1).cast("trunc", "i32")
    with code.loop(count, step=THREADS) as start:
        index = _clamp(start + block.thread, last)
        row, column = _row_and_column(code, index, columns)
        source = _entry_pointer(block, row, column, index, columns, scalar)
        offset = (row * staged.stride + column).cast("zext", "i64")
        target = shared.offset(staged.offset).offset(offset, scalar)
        if is_host:
            target.store(source.load(scalar))
        else:
            _copy_asynchronously(code, source, target, size)


def _copy_asynchronously(code: Code, source: Value, target: Value, size: int) -> None:
    name = f"llvm.nvvm.cp.async.ca.shared.global.{size}"
    code.calls[name] = f"declare void @{name}(ptr addrspace(3), ptr addrspace(1))"
    to = code.emit(f"addrspacecast ptr {target.name} to ptr addrspace(3)", "ptr")
    start = code.emit(f"addrspacecast ptr {source.name} to ptr addrspace(1)", "ptr")
    code.lines.append(
        f"  call void @{name}(ptr addrspace(3) {to.name}, ptr addrspace(1) {start.name})"
    )


def copy_out(
    code: Code, staged: Staged, size: int, block: RowBlock, shared: Value, table: str
) -> None:
    """Copies from shared memory into an array.

    Args:
      code: the function to which the copy is appended.
      staged: the source.
      size: bytes per entry.
      block: the target.
      shared: address of shared memory.
      table: the global with the columns of the entries, if they are not consecutive.
    """
    columns, scalar = len(staged.columns), INTEGERS[size]
    count = block.rows * columns
    last = (count - 1).cast("trunc", "i32")
    unrolled = min(_UNROLLED, columns)
    with code.loop(count, step=unrolled * THREADS) as start:
        moved: list[tuple[Value, Value]] = []
        for k in range(unrolled):
            index = _clamp(start + block.thread + k * THREADS, last)
            row, column = _row_and_column(code, index, columns)
            target = _entry_pointer(block, row, column, index, columns, scalar)
            if not staged.is_plain:
                entry = code.value(table, "ptr").offset(column.cast("zext", "i64"), "i32")
                column = code.emit(
                    f"load i32, ptr {entry.name}, align 4, !invariant.load !0", "i32"
                )
            offset = (row * staged.stride + column).cast("zext", "i64")
            moved.append((target, shared.offset(staged.offset).offset(offset, scalar).load(scalar)))
        for target, value in moved:
            target.store(value)
