"""Copies the rows of a block of robots between arrays and shared memory.

Neighbouring threads copy neighbouring entries, whatever their rows. Threads past the end copy the
last entry again.
"""

from __future__ import annotations

from typing import NamedTuple

from artix.compiler.kernels.code import Code, Value
from artix.compiler.kernels.gpu_layout import THREADS, Staged
from artix.compiler.kernels.transposition import INTEGERS

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
