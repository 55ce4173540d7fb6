"""Functions that carry rows of a block of robots between arrays and shared memory.

Neighbouring threads carry neighbouring entries, whatever row they are in. The last thread's turns past the end repeat
the last entry, which harms nobody.
"""

from __future__ import annotations

from typing import NamedTuple

from artix.evaluation.kernels.code import Code, Value
from artix.evaluation.kernels.gpu_layout import THREADS, Staged
from artix.evaluation.kernels.turning import INTEGERS

#: Entries that a thread fetches from shared memory before it writes the first one.
_UNROLLED = 8


class Place(NamedTuple):
    """Where the rows of a block begin in an array, and how many entries there are from one to the next."""

    start: Value
    stride: Value | int
    rows: Value
    thread: Value


def _row_and_column(code: Code, index: Value, columns: int) -> tuple[Value, Value]:
    row = code.emit(f"udiv i32 {index.name}, {columns}", "i32")
    return row, index - row * columns


def _in_array(code: Code, place: Place, row: Value, column: Value, index: Value, columns: int, scalar: str) -> Value:
    """The pointer to an entry of the array."""
    if place.stride == columns:
        return place.start.offset(index.cast("zext", "i64"), scalar)
    return place.start.offset(row.cast("zext", "i64") * place.stride + column.cast("zext", "i64"), scalar)


def _clamped(code: Code, index: Value, last: Value) -> Value:
    narrow = index.cast("trunc", "i32")
    return (narrow < last).where(narrow, last)


def copy_in(code: Code, staged: Staged, size: int, place: Place, shared: Value, is_host: bool) -> None:
    """From an array into shared memory, on a GPU without waiting for it.

    Args:
      code: what is being written.
      staged: where it goes.
      size: bytes of an entry.
      place: where it comes from.
      shared: the start of shared memory.
      is_host: whether the code is for a CPU.
    """
    columns, scalar = len(staged.columns), INTEGERS[size]
    count = place.rows * columns
    last = (count - 1).cast("trunc", "i32")
    with code.loop(count, step=THREADS) as start:
        index = _clamped(code, start + place.thread, last)
        row, column = _row_and_column(code, index, columns)
        source = _in_array(code, place, row, column, index, columns, scalar)
        inside = (row * staged.stride + column).cast("zext", "i64")
        target = shared.offset(staged.offset).offset(inside, scalar)
        if is_host:
            target.store(source.load(scalar))
        else:
            _copy_asynchronously(code, source, target, size)


def _copy_asynchronously(code: Code, source: Value, target: Value, size: int) -> None:
    name = f"llvm.nvvm.cp.async.ca.shared.global.{size}"
    code.calls[name] = f"declare void @{name}(ptr addrspace(3), ptr addrspace(1))"
    to = code.emit(f"addrspacecast ptr {target.name} to ptr addrspace(3)", "ptr")
    start = code.emit(f"addrspacecast ptr {source.name} to ptr addrspace(1)", "ptr")
    code.lines.append(f"  call void @{name}(ptr addrspace(3) {to.name}, ptr addrspace(1) {start.name})")


def copy_out(code: Code, staged: Staged, size: int, place: Place, shared: Value, table: str) -> None:
    """From shared memory into an array.

    Args:
      code: what is being written.
      staged: where it comes from.
      size: bytes of an entry.
      place: where it goes.
      shared: the start of shared memory.
      table: the global with the columns of the entries, if they are not one after another.
    """
    columns, scalar = len(staged.columns), INTEGERS[size]
    count = place.rows * columns
    last = (count - 1).cast("trunc", "i32")
    unrolled = min(_UNROLLED, columns)
    with code.loop(count, step=unrolled * THREADS) as start:
        moved: list[tuple[Value, Value]] = []
        for k in range(unrolled):
            index = _clamped(code, start + place.thread + k * THREADS, last)
            row, column = _row_and_column(code, index, columns)
            target = _in_array(code, place, row, column, index, columns, scalar)
            if not staged.is_plain:
                entry = code.value(table, "ptr").offset(column.cast("zext", "i64"), "i32")
                column = code.emit(f"load i32, ptr {entry.name}, align 4, !invariant.load !0", "i32")
            inside = (row * staged.stride + column).cast("zext", "i64")
            moved.append((target, shared.offset(staged.offset).offset(inside, scalar).load(scalar)))
        for target, value in moved:
            target.store(value)
