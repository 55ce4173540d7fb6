"""Functions that compute scalars in straight lines, and pass them to each other through slots of a
task's memory.

Spread over the operations of a block of robots are requests for the arguments of the next block.
Robots of different parameters bring kilobytes each. Without requests, a mass matrix of the
quadruped with all parameters batched waited for them two fifths of the time (float32, batch 4,096,
two busy cores with AVX-512, November 2026).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from artix.compiler.kernels.code import Code, Value
from artix.compiler.kernels.instructions import Instructions, Module
from artix.compiler.kernels.plan import Plan
from artix.compiler.kernels.program_lists import SCALARS
from artix.compiler.scalar_program import BYTES, Kind

#: Bytes of a cache line.
_LINE = 64

#: The intrinsic that requests a line, and its operands: for reading, and to keep at all levels of
#: the cache.
_PREFETCH, _INTENT = "llvm.prefetch.p0", "i32 0, i32 3, i32 1"


class Slots:
    """Loads and stores of the scalars of a program.

    Args:
      plan: says where each of them is kept.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def functions(self, module: Module, constants: Mapping[tuple[int, int], int]) -> Iterator[str]:
        """The functions that only copy: ``artix_fill``, and ``artix_start_k`` for each loop without
        machine code.

        Args:
          module: the functions' module.
          constants: slots to fill, by their bits and their number of bytes.
        """
        yield self._fill(module, constants)
        yield from self._starts(module)

    def instructions(
        self, module: Module, width: int, name: str, linkage: str = "internal"
    ) -> Instructions:
        """The instructions of a function ``void (memory)``, which loads what other functions have
        computed.

        Args:
          module: the function's module.
          width: lanes of its vectors.
          name: its name.
          linkage: who can call it.
        """
        code = Code(f"{linkage} void @{name}(ptr noalias %memory)", module.declarations)
        load = lambda to, number: self._load(to, number, width).name  # noqa: E731
        return Instructions(code, self._plan.lists, width, module.elementary, load, self._address)

    def store(self, code: Code, name: str, kind: Kind, offset: int, width: int) -> None:
        """Appends the instructions that store a scalar of ``width`` lanes at an offset in
        memory.
        """
        value = code.value(name, SCALARS[kind], width)
        if kind == Kind.BOOL:
            value = value.cast("zext", "i8")
        memory_of(code).offset(offset).store(value, align=BYTES[kind] * width)

    def carry(self, instructions: Instructions, loop: int) -> None:
        """Stores what an iteration of a loop carries into the next; lanes whose loop has ended keep
        what they have.
        """
        plan, slots, code = self._plan, self._plan.carried[loop], instructions.code
        width = plan.width if plan.levels_of_loops[loop] else 1
        references = plan.program.loops[loop].ends.tolist()
        # All are read before any is written.
        values = [instructions.operand(reference) for reference in references]
        if plan.program.loops[loop].has_condition and width > 1:
            flags = self._load_from(code, slots[0], Kind.BOOL, width)
            for entry, (reference, slot) in enumerate(zip(references, slots, strict=True)):
                kind = Kind(plan.lists.kinds[reference >> 1])
                value = code.value(values[entry], SCALARS[kind], width)
                values[entry] = flags.where(value, self._load_from(code, slot, kind, width)).name
        self._store_all(code, references, values, slots, width)

    def _fill(self, module: Module, constants: Mapping[tuple[int, int], int]) -> str:
        """The function that stores constants, and results shared by all robots in all lanes of
        their slots.
        """
        plan = self._plan
        instructions = self.instructions(module, plan.width, "artix_fill")
        code = instructions.code
        for (bits, size), offset in constants.items():
            memory_of(code).offset(offset).store(code.value(str(bits), f"i{8 * size}"), align=8)
        for reference in plan.fills:
            kind = Kind(plan.lists.kinds[reference >> 1])
            self.store(
                code, instructions.operand(reference), kind, plan.slot(reference), plan.width
            )
        return code.text()

    def _starts(self, module: Module) -> Iterator[str]:
        """The functions that store what a loop carries into its first iteration.

        Lanes whose loop around it has ended do not run it.
        """
        plan = self._plan
        for number, (loop, level) in enumerate(
            zip(plan.program.loops, plan.levels_of_loops, strict=True)
        ):
            if plan.is_copied[number]:
                continue
            width = plan.width if level else 1
            instructions = self.instructions(module, width, f"artix_start_{number}")
            code, starts = instructions.code, plan.starts(number)
            references, slots = [one for one, _ in starts], [slot for _, slot in starts]
            values = [instructions.operand(reference) for reference in references]
            outer = plan.condition_around(number) if loop.has_condition else None
            if outer is not None:
                begins = code.value(values[0], "i1", width)
                values[0] = (self._load_from(code, outer, Kind.BOOL, width) & begins).name
            self._store_all(code, references, values, slots, width)
            yield code.text()

    def _store_all(
        self,
        code: Code,
        references: Sequence[int],
        values: Sequence[str],
        slots: Sequence[int],
        width: int,
    ) -> None:
        for reference, value, slot in zip(references, values, slots, strict=True):
            self.store(code, value, Kind(self._plan.lists.kinds[reference >> 1]), slot, width)

    def _load(self, code: Code, number: int, width: int) -> Value:
        """Loads a scalar computed by another function into ``width`` lanes."""
        plan, kind = self._plan, Kind(self._plan.lists.kinds[number])
        if plan.lists.levels[number] == 0:
            return self._load_from(code, plan.scalar_slot(number), kind, 1).splat(width)
        return self._load_from(code, plan.slot(2 * number), kind, width)

    def _load_from(self, code: Code, offset: int, kind: Kind, lanes: int) -> Value:
        pointer, align = memory_of(code).offset(offset), BYTES[kind] * lanes
        if kind == Kind.BOOL:
            return pointer.load("i8", lanes, 1).differs(0)
        return pointer.load(SCALARS[kind], lanes, align)

    def _address(self, code: Code, array: int) -> tuple[str, str]:
        """The address of an array to load from: one pointer for all robots, or one for each
        lane.
        """
        lanes = self._plan.width if self._plan.arrays[array] else 1
        address = (
            memory_of(code).offset(self._plan.pointer_slot(array)).load("ptr", lanes, 8 * lanes)
        )
        return address.name, address.type


def memory_of(code: Code) -> Value:
    """The address of the task's memory."""
    return code.value("%memory", "ptr")


class ReadAhead:
    """The requests of a kernel, in order; each operation that depends on the robot is followed by
    its share.

    Args:
      sizes: bytes per robot of arguments whose rows follow each other.
      slots: for each of them, where the kernel's memory keeps the address of the next block's rows.
      width: robots per block.
      num_operations: number of operations that depend on the robot.
    """

    def __init__(
        self, sizes: Mapping[int, int], slots: Mapping[int, int], width: int, num_operations: int
    ) -> None:
        self.sizes, self._slots, self._total = sizes, slots, num_operations
        self._lines = [
            (slots[key], byte)
            for key, size in sizes.items()
            for byte in range(0, size * width, _LINE)
        ]
        self._made = self._operations = 0

    def start_of_block(
        self, argument: int, rows: Value, memory: Value, following: Value, exists: Value
    ) -> None:
        """Stores the address of the next block's rows, whose first is ``following``, if that block
        ``exists``.
        """
        # If not, the requests are for memory that is in the cache.
        after = exists.where(rows.offset(following * self.sizes[argument]), memory)
        memory.offset(self._slots[argument]).store(after, align=8)

    def requests(self, code: Code) -> _Requests | None:
        """The requests of the next part of the program that depends on the robot; ``None`` if there
        are none.
        """
        return _Requests(self, code) if self._lines else None

    def due(self, count: int) -> dict[int, list[tuple[int, int]]]:
        """What to request after each of ``count`` more operations, by their places among them:
        slots of addresses, and offsets in bytes.
        """
        due, num_lines = dict[int, list[tuple[int, int]]](), len(self._lines)
        before, self._operations = self._operations, self._operations + count
        first, self._made = self._made, self._operations * num_lines // self._total
        for made, line in enumerate(self._lines[first : self._made], first + 1):
            operations = -(-made * self._total // num_lines)
            due.setdefault(operations - before - 1, []).append(line)
        return due


class _Requests:
    def __init__(self, ahead: ReadAhead, code: Code) -> None:
        self._ahead, self._code = ahead, code
        self._starts: dict[int, Value] = {}
        code.calls[_PREFETCH] = f"declare void @{_PREFETCH}(ptr, i32, i32, i32)"

    def after_operation(self) -> None:
        """Appends the requests that are due."""
        code = self._code
        for slot, byte in self._ahead.due(1).get(0, ()):
            if slot not in self._starts:
                self._starts[slot] = memory_of(code).offset(slot).load("ptr")
            line = self._starts[slot].offset(byte)
            code.lines.append(f"  call void @{_PREFETCH}(ptr {line.name}, {_INTENT})")
