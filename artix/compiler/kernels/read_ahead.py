"""Requests for the arguments of the next block of robots, spread over the operations of the current one.

Robots of different parameters bring kilobytes each. Without requests, a mass matrix of the quadruped with all
parameters batched waited for them two fifths of the time (float32, batch 4,096, two busy cores with AVX-512, November
2026).
"""

from __future__ import annotations

from collections.abc import Mapping

from artix.compiler.kernels.code import Value
from artix.compiler.kernels.llvm_ir import Instructions

_LINE = 64
"""Bytes of a cache line."""

#: Reading, and to keep at all levels of the cache.
_INTENT = "i32 0, i32 3, i32 1"
_NAME = "llvm.prefetch.p0"
DECLARATIONS = {_NAME: f"declare void @{_NAME}(ptr, i32, i32, i32)"}


class ReadAhead:
    """The requests of a kernel, in order; each operation that depends on the robot is followed by its share.

    Args:
      sizes: bytes per robot of arguments whose rows follow each other.
      slots: for each of them, where the kernel's memory keeps the address of the next block's rows.
      width: robots per block.
      num_operations: number of operations that depend on the robot.
    """

    def __init__(self, sizes: Mapping[int, int], slots: Mapping[int, int], width: int, num_operations: int) -> None:
        self.sizes, self._slots, self._total = sizes, slots, num_operations
        self._lines = [(slots[key], byte) for key, size in sizes.items() for byte in range(0, size * width, _LINE)]
        self._made = self._operations = 0

    def start_of_block(self, argument: int, rows: Value, memory: Value, following: Value, exists: Value) -> None:
        """Stores the address of the next block's rows, whose first is ``following``, if that block ``exists``."""
        # If not, the requests are for memory that is in the cache.
        after = exists.where(rows.offset(following * self.sizes[argument]), memory)
        memory.offset(self._slots[argument]).store(after, align=8)

    def requests(self, code: Instructions) -> _Requests | None:
        """The requests of the next part of the program that depends on the robot; ``None`` if there are none."""
        return _Requests(self, code) if self._lines else None

    def due(self) -> list[tuple[int, int]]:
        """What to request after one more operation: slots of addresses, and offsets in bytes."""
        self._operations += 1
        first, self._made = self._made, self._operations * len(self._lines) // self._total
        return self._lines[first : self._made]


class _Requests:
    def __init__(self, ahead: ReadAhead, code: Instructions) -> None:
        self._ahead, self._code = ahead, code
        self._starts: dict[int, str] = {}

    def after_operation(self) -> None:
        """Appends the requests that are due."""
        code = self._code
        for slot, byte in self._ahead.due():
            if slot not in self._starts:
                pointer = code.emit(f"getelementptr i8, ptr %memory, i64 {slot}")
                self._starts[slot] = code.emit(f"load ptr, ptr {pointer}, align 8")
            line = code.emit(f"getelementptr i8, ptr {self._starts[slot]}, i64 {byte}")
            code.lines.append(f"  call void @{_NAME}(ptr {line}, {_INTENT})")
