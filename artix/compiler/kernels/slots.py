"""Functions that compute scalars in straight lines, and pass them to each other through slots of a task's memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from artix.compiler.kernels.code import splat, type_of
from artix.compiler.kernels.llvm_ir import Instructions, Module
from artix.compiler.kernels.plan import Plan
from artix.compiler.kernels.program_lists import SCALARS
from artix.compiler.scalar_program import BYTES, Kind


class Slots:
    """Loads and stores of the scalars of a program.

    Args:
      plan: says where each of them is kept.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def functions(self, module: Module, constants: Mapping[tuple[int, int], int]) -> Iterator[str]:
        """The functions that only copy: ``artix_fill``, and for each loop ``artix_start_k``.

        Args:
          module: the functions' module.
          constants: slots to fill, by their bits and their number of bytes.
        """
        yield self._fill(module, constants)
        yield from self._starts(module)

    def instructions(self, module: Module, width: int) -> Instructions:
        """The instructions of a function, empty yet, which loads what other functions have computed.

        Args:
          module: the function's module.
          width: lanes of its vectors.
        """
        load = lambda to, number: self._load(to, number, width)  # noqa: E731
        return Instructions(self._plan.lists, width, module.elementary, module.declarations, load, self._address)

    def store(self, instructions: Instructions, name: str, kind: Kind, offset: int, width: int) -> None:
        """Appends the instructions that store a scalar of ``width`` lanes at an offset in memory."""
        pointer = self._pointer(offset, instructions)
        scalar, align = SCALARS[kind], BYTES[kind] * width
        if kind == Kind.BOOL:
            bool_type, scalar = type_of("i1", width), "i8"
            name = instructions.emit(f"zext {bool_type} {name} to {type_of('i8', width)}")
        instructions.lines.append(f"  store {type_of(scalar, width)} {name}, ptr {pointer}, align {align}")

    def function(self, linkage: str, name: str, instructions: Instructions) -> str:
        """The text of a function ``void (memory)``."""
        body = "\n".join(instructions.lines)
        return f"define {linkage} void @{name}(ptr noalias %memory) #0 {{\n{body}\n  ret void\n}}\n"

    def _fill(self, module: Module, constants: Mapping[tuple[int, int], int]) -> str:
        """The function that stores constants, and results shared by all robots in all lanes of their slots."""
        code = self.instructions(module, self._plan.width)
        for (bits, size), offset in constants.items():
            pointer = self._pointer(offset, code)
            code.lines.append(f"  store i{8 * size} {bits}, ptr {pointer}, align 8")
        for reference in self._plan.fills:
            kind = Kind(self._plan.lists.kinds[reference >> 1])
            offset = self._plan.slot(reference)
            self.store(code, code.operand(reference), kind, offset, self._plan.width)
        return self.function("internal", "artix_fill", code)

    def carry(self, code: Instructions, loop: int) -> None:
        """Stores what an iteration of a loop carries into the next; lanes whose loop has ended keep what they have."""
        plan, slots = self._plan, self._plan.carried[loop]
        width = plan.width if plan.levels_of_loops[loop] else 1
        references = plan.program.loops[loop].ends
        values = [code.operand(reference) for reference in references.tolist()]  # All are read before any is written.
        if plan.program.loops[loop].has_condition and width > 1:
            flags = self._load_from(code, slots[0], Kind.BOOL, width)
            values = [
                self._chosen(code, flags, value, slot, Kind(plan.lists.kinds[reference >> 1]))
                for reference, value, slot in zip(references.tolist(), values, slots, strict=True)
            ]
        self._store_all(code, references, values, slots, width)

    def _starts(self, module: Module) -> Iterator[str]:
        """The functions that store what a loop carries into its first iteration.

        Lanes whose loop around it has ended do not run it.
        """
        plan = self._plan
        for number, (loop, level) in enumerate(zip(plan.program.loops, plan.levels_of_loops, strict=True)):
            width = plan.width if level else 1
            code = self.instructions(module, width)
            values = [code.operand(reference) for reference in loop.starts.tolist()]
            outer = plan.condition_around(number) if loop.has_condition else None
            if outer is not None:
                flags = self._load_from(code, outer, Kind.BOOL, width)
                values[0] = code.emit(f"and {type_of('i1', width)} {flags}, {values[0]}")
            self._store_all(code, loop.starts, values, plan.carried[number], width)
            yield self.function("internal", f"artix_start_{number}", code)

    def _chosen(self, code: Instructions, flags: str, value: str, slot: int, kind: Kind) -> str:
        """The value in lanes whose flag is set; what the slot has in the others."""
        width = self._plan.width
        before, type_ = self._load_from(code, slot, kind, width), type_of(SCALARS[kind], width)
        return code.emit(f"select {type_of('i1', width)} {flags}, {type_} {value}, {type_} {before}")

    def _store_all(
        self, code: Instructions, references: np.ndarray, values: Sequence[str], slots: Sequence[int], width: int
    ) -> None:
        for reference, value, slot in zip(references.tolist(), values, slots, strict=True):
            self.store(code, value, Kind(self._plan.lists.kinds[reference >> 1]), slot, width)

    def _pointer(self, offset: int, lines: Instructions) -> str:
        return lines.emit(f"getelementptr i8, ptr %memory, i64 {offset}")

    def _load(self, instructions: Instructions, number: int, width: int) -> str:
        """Loads a scalar computed by another function into ``width`` lanes."""
        plan, kind = self._plan, Kind(self._plan.lists.kinds[number])
        is_shared = plan.lists.levels[number] == 0
        lanes = 1 if is_shared else width
        offset = plan.scalar_slot(number) if is_shared else plan.slot(2 * number)
        name = self._load_from(instructions, offset, kind, lanes)
        if not is_shared or width == 1:
            return name
        return splat(instructions.emit, name, SCALARS[kind], width)

    def _load_from(self, instructions: Instructions, offset: int, kind: Kind, lanes: int) -> str:
        pointer = self._pointer(offset, instructions)
        if kind == Kind.BOOL:
            stored = type_of("i8", lanes)
            byte = instructions.emit(f"load {stored}, ptr {pointer}, align 1")
            return instructions.emit(f"icmp ne {stored} {byte}, {'0' if lanes == 1 else 'zeroinitializer'}")
        align = BYTES[kind] * lanes
        return instructions.emit(f"load {type_of(SCALARS[kind], lanes)}, ptr {pointer}, align {align}")

    def _address(self, instructions: Instructions, array: int) -> tuple[str, str]:
        """The address of an array to load from: one pointer for all robots, or one for each lane."""
        lanes = self._plan.width if self._plan.arrays[array] else 1
        pointer, llvm_type = self._pointer(self._plan.pointer_slot(array), instructions), type_of("ptr", lanes)
        return instructions.emit(f"load {llvm_type}, ptr {pointer}, align {8 * lanes}"), llvm_type
