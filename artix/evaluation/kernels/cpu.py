"""CPU kernels: blocks of robots, one in each vector lane."""

from __future__ import annotations

import math
from collections.abc import Sequence

from artix.evaluation.kernels.code import Code, Value, type_of
from artix.evaluation.kernels.handler import Signature, handler
from artix.evaluation.kernels.llvm_ir import SCALARS, ElementaryFunctions, Instructions
from artix.evaluation.kernels.machine import (
    KernelError,
    compile_modules,
    function_attributes,
    pack,
    require,
    vector_bytes,
)
from artix.evaluation.kernels.plan import BYTES, Part, Plan, kind_of
from artix.evaluation.kernels.read_ahead import DECLARATIONS, ReadAhead
from artix.evaluation.kernels.tables import definition, table_name, tables_of
from artix.evaluation.kernels.threads import State
from artix.evaluation.kernels.transposition import (
    clear,
    name_clear,
    name_in,
    name_out,
    transpose_in,
    transpose_out,
)
from artix.evaluation.scalar_program import Kind, ScalarProgram
from artix.evaluation.scalar_schedule import fewest_live

#: Approximate nanoseconds per vector operation and per transposed array entry, to choose the number of threads.
_OPERATION, _ENTRY = 0.2, 1.5


def build(program: ScalarProgram, numbered: tuple[bool, ...] | None = None) -> bytes:
    """Object code of a program for this machine.

    Args:
      program: the program of one robot.
      numbered: for each argument, whether its rows are selected by a list of row numbers, int32, which is then the
        kernel's first argument; results are written to the same rows of larger arrays. By default there is no list.

    Raises:
      KernelError: there are no kernels on this machine or for arrays of such types, or selected rows have items or are
        read at computed indices.
    """
    require()
    return pack(compile_modules(module_texts(fewest_live(program), numbered)))


def lanes_of(program: ScalarProgram) -> int:
    """Number of robots per block: the lanes of a vector register for the narrowest float."""
    kinds = {Kind(kind) for kind in set(program.kinds.tolist())} | {kind_of(dtype) for _, dtype, _ in program.arguments}
    narrowest = 8 if Kind.FLOAT64 in kinds and Kind.FLOAT32 not in kinds else 4
    return vector_bytes() // narrowest


def module_texts(program: ScalarProgram, numbered: tuple[bool, ...] | None = None) -> list[str]:
    """The kernel in LLVM IR, as modules that define or declare all that they call."""
    return _Kernel(Plan(program, lanes_of(program)), numbered).texts()


class _Module:
    """Functions that LLVM compiles together, with the elementary functions that they call."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        self.elementary = ElementaryFunctions()

    def text(self, functions: Sequence[str]) -> str:
        """The module's text."""
        definitions = "\n".join([*functions, self.elementary.text(self.declarations)])
        signatures = "\n".join(line for line in definitions.splitlines() if line.startswith("define"))
        declarations = [text for name, text in self.declarations.items() if f"@{name}(" not in signatures]
        return "\n".join([*declarations, definitions, function_attributes()])


class _Kernel:
    """The functions of a kernel: a module for each part of the program, and one for all that calls them."""

    def __init__(self, plan: Plan, numbered: tuple[bool, ...] | None) -> None:
        if numbered is not None and (plan.has_items or any(numbered[a] for a in plan.arrays if a < len(numbered))):
            raise KernelError("rows selected by number cannot have items or be read at computed indices")
        self._plan, self._numbered = plan, numbered
        self._program = plan.program
        self._module = _Module()
        self._state = State(len(plan.program.arguments), len(plan.program.results))
        self._ahead = ReadAhead(plan, [argument for argument in plan.next_rows if not self._is_numbered(argument)])

    @property
    def _declarations(self) -> dict[str, str]:
        return self._module.declarations

    def texts(self) -> list[str]:
        plan, program = self._plan, self._program
        parts = [(index, part) for index, part in enumerate(plan.parts) if part.operations or part.stores]
        modules = []
        for index, part in parts:
            module = _Module()
            modules.append(module.text([self._part(module, index, part)]))
            self._declarations[f"artix_part_{index}"] = f"declare hidden void @artix_part_{index}(ptr)"
        body = [self._prepare(), self._fill(), self._block(), self._tables()]
        kinds_in = {
            (BYTES[kind_of(dtype)], self._is_numbered(index))
            for index, (_, dtype, level) in enumerate(program.arguments)
            if level
        }
        kinds_out = {(BYTES[kind], self._numbered is not None) for kind in plan.result_kinds}
        body += [transpose_in(size, plan.width, self._declarations, flag) for size, flag in sorted(kinds_in)]
        for write in (transpose_out, clear):
            body += [write(size, plan.width, self._declarations, flag) for size, flag in sorted(kinds_out)]
        signature = Signature(
            tuple((shape, kind_of(dtype), level) for shape, dtype, level in program.arguments),
            tuple((result.shape, kind) for result, kind in zip(program.results, plan.result_kinds, strict=True)),
            plan.has_items,
            self._numbered,
        )
        body.append(handler(signature, self._state, plan.width, plan.size, self._costs(), self._declarations))
        return [*modules, self._module.text(body)]

    def _is_numbered(self, argument: int) -> bool:
        return self._numbered is not None and self._numbered[argument]

    def _costs(self) -> tuple[float, float]:
        """Nanoseconds per block, and per item of a block."""
        plan, program = self._plan, self._program
        by_level = [0.0, 0.0, 0.0]
        for part in plan.parts:
            by_level[part.level] += _OPERATION * len(part.operations)
        for shape, _, level in program.arguments:
            by_level[level] += _ENTRY * math.prod(shape)
        by_level[2 if plan.has_items else 1] += _ENTRY * sum(result.size for result in program.results)
        return by_level[1], by_level[2]

    def _pointer(self, offset: int, lines: Instructions) -> str:
        return lines.emit(f"getelementptr i8, ptr %memory, i64 {offset}")

    def _load(self, instructions: Instructions, number: int, width: int) -> str:
        """Loads a scalar computed by another function into ``width`` lanes."""
        plan, kind = self._plan, Kind(self._plan.lists.kinds[number])
        is_shared = plan.lists.levels[number] == 0
        lanes = 1 if is_shared else width
        offset = plan.scalar_slot(number) if is_shared else plan.slot(2 * number)
        pointer = self._pointer(offset, instructions)
        if kind == Kind.BOOL:
            stored = type_of("i8", lanes)
            byte = instructions.emit(f"load {stored}, ptr {pointer}, align 1")
            name = instructions.emit(f"icmp ne {stored} {byte}, {'0' if lanes == 1 else 'zeroinitializer'}")
        else:
            align = BYTES[kind] * lanes
            name = instructions.emit(f"load {type_of(SCALARS[kind], lanes)}, ptr {pointer}, align {align}")
        if not is_shared or width == 1:
            return name
        vector, scalar = type_of(SCALARS[kind], width), SCALARS[kind]
        name = instructions.emit(f"insertelement {vector} poison, {scalar} {name}, i64 0")
        mask = f"<{width} x i32> zeroinitializer"
        return instructions.emit(f"shufflevector {vector} {name}, {vector} poison, {mask}")

    def _store(self, instructions: Instructions, name: str, kind: Kind, offset: int, width: int) -> None:
        pointer = self._pointer(offset, instructions)
        scalar, align = SCALARS[kind], BYTES[kind] * width
        if kind == Kind.BOOL:
            bool_type, scalar = type_of("i1", width), "i8"
            name = instructions.emit(f"zext {bool_type} {name} to {type_of('i8', width)}")
        instructions.lines.append(f"  store {type_of(scalar, width)} {name}, ptr {pointer}, align {align}")

    def _function(self, linkage: str, name: str, instructions: Instructions) -> str:
        body = "\n".join(instructions.lines)
        return f"define {linkage} void @{name}(ptr noalias %memory) #0 {{\n{body}\n  ret void\n}}\n"

    def _instructions(self, module: _Module, width: int) -> Instructions:
        load = lambda to, number: self._load(to, number, width)  # noqa: E731
        return Instructions(self._plan.lists, width, module.elementary, module.declarations, load, self._address)

    def _address(self, instructions: Instructions, array: int) -> tuple[str, str]:
        """The address of an array to load from: one pointer for all robots, or one for each lane."""
        lanes = self._plan.width if self._plan.arrays[array] else 1
        pointer, llvm_type = self._pointer(self._plan.pointer_slot(array), instructions), type_of("ptr", lanes)
        return instructions.emit(f"load {llvm_type}, ptr {pointer}, align {8 * lanes}"), llvm_type

    def _part(self, module: _Module, index: int, part: Part) -> str:
        """The function that computes a part of the program; level 0 is computed in one lane."""
        plan, lists = self._plan, self._plan.lists
        width = plan.width if part.level else 1
        code = self._instructions(module, width)
        ahead = self._ahead.requests(part, code)
        if ahead is not None:
            module.declarations.update(DECLARATIONS)
        for number in part.operations:
            name = code.operation(number)
            if ahead is not None:
                ahead.after_operation()
            if number in plan.kept:
                offset = plan.scalar_slot(number) if part.level == 0 else plan.slot(2 * number)
                self._store(code, name, Kind(lists.kinds[number]), offset, width)
        for reference in part.stores:
            offset = plan.slot(reference)
            self._store(code, code.operand(reference), Kind(lists.kinds[reference >> 1]), offset, width)
        return self._function("hidden", f"artix_part_{index}", code)

    def _fill(self) -> str:
        """The function that stores results shared by all robots in all lanes of their slots."""
        code = self._instructions(self._module, self._plan.width)
        for reference in self._plan.fills:
            kind = Kind(self._plan.lists.kinds[reference >> 1])
            offset = self._plan.slot(reference)
            self._store(code, code.operand(reference), kind, offset, self._plan.width)
        return self._function("internal", "artix_fill", code)

    def _run_parts(self, code: Code, level: int, memory: Value) -> None:
        for index, part in enumerate(self._plan.parts):
            if part.level == level and (part.operations or part.stores):
                code.run(f"artix_part_{index}", [memory])

    def _prepare(self) -> str:
        """``void (state, memory)``: computes level 0, once for each task."""
        plan, lists = self._plan, self._plan.lists
        code = Code("internal void @artix_prepare(ptr %state, ptr %memory)", self._declarations)
        state, memory = code.value("%state", "ptr"), code.value("%memory", "ptr")
        pointers: dict[int, Value] = {}
        for number in plan.inputs:
            if lists.levels[number]:
                continue
            argument, entry, _ = lists.operands[number]
            if argument not in pointers:
                pointers[argument] = state.offset(self._state.argument(argument)).load("ptr")
            scalar = {1: "i8", 4: "i32", 8: "i64"}[BYTES[Kind(lists.kinds[number])]]
            value = pointers[argument].offset(entry, scalar).load(scalar)
            memory.offset(plan.scalar_slot(number)).store(value)
        for array, level in plan.arrays.items():
            if not level:
                memory.offset(plan.pointer_slot(array)).store(self._start(code, state, array), align=8)
        self._run_parts(code, 0, memory)
        code.run("artix_fill", [memory])
        return code.text()

    def _start(self, code: Code, state: Value, array: int) -> Value:
        """The address of an argument or table."""
        count = len(self._program.arguments)
        if array >= count:
            return code.value(table_name(array - count), "ptr")
        return state.offset(self._state.argument(array)).load("ptr")

    def _block(self) -> str:
        """``void (state, memory, first)``: computes a block of robots; the last block may have fewer."""
        plan = self._plan
        code = Code("internal void @artix_block(ptr %state, ptr %memory, i64 %first)", self._declarations)
        state, memory, first = code.value("%state", "ptr"), code.value("%memory", "ptr"), code.value("%first", "i64")
        remaining = state.offset(State.BATCH).load("i64") - first
        rows = (remaining < plan.width).where(remaining, plan.width)
        self._transpose_in(code, 1, state, memory, first, rows, None)
        for argument, size in self._ahead.sizes.items():
            rows_of = state.offset(self._state.argument(argument)).load("ptr")
            # Where there is no next block, the requests are for memory that is in the cache.
            after = (remaining > plan.width).where(rows_of.offset((first + plan.width) * size), memory)
            memory.offset(plan.next_rows[argument]).store(after, align=8)
        self._run_parts(code, 1, memory)
        if not plan.has_items:
            self._transpose_out(code, state, memory, first, rows, code.integer(1), code.integer(0))
            return code.text()
        items = state.offset(State.ITEMS).load("i64")
        with code.loop(items) as item:
            self._transpose_in(code, 2, state, memory, first, rows, item)
            self._run_parts(code, 2, memory)
            self._transpose_out(code, state, memory, first, rows, items, item)
        return code.text()

    def _transpose_in(
        self, code: Code, level: int, state: Value, memory: Value, first: Value, rows: Value, item: Value | None
    ) -> None:
        plan = self._plan

        def rows_of(argument: int) -> tuple[Value, Value]:
            words = self._state.argument(argument)
            start, stride = state.offset(words).load("ptr"), state.offset(words + 8).load("i64")
            if self._is_numbered(argument):
                return start, stride
            start = start.offset(first * stride)
            return (start if item is None else start.offset(item * state.offset(words + 16).load("i64"))), stride

        for argument, offset in plan.blocks.items():
            shape, dtype, array_level = self._program.arguments[argument]
            if array_level == level:
                numbered = self._is_numbered(argument)
                count, name = code.integer(math.prod(shape)), name_in(BYTES[kind_of(dtype)], plan.width, numbered)
                list_ = [_numbers(state, first)] if numbered else []
                code.run(name, [*rows_of(argument), rows, count, memory.offset(offset), *list_])
        for array, array_level in plan.arrays.items():
            if array_level == level:
                pointers = _pointers(code, *rows_of(array), rows, plan.width)
                memory.offset(plan.pointer_slot(array)).store(pointers, align=8 * plan.width)

    def _transpose_out(
        self, code: Code, state: Value, memory: Value, first: Value, rows: Value, items: Value, item: Value
    ) -> None:
        plan = self._plan
        for index, (result, kind) in enumerate(zip(self._program.results, plan.result_kinds, strict=True)):
            if result.size == 0:
                continue
            size, numbered = BYTES[kind], self._numbered is not None
            stride = items * (size * result.size)
            start = state.offset(self._state.result(index)).load("ptr")
            if not numbered:
                start = start.offset(first * stride).offset(item * (size * result.size))
            slots, list_ = code.value(f"@artix_slots_{index}", "ptr"), [_numbers(state, first)] if numbered else []
            for column, count, is_zero in plan.runs(index):
                target = [rows, code.integer(count), start.offset(size * column), stride, *list_]
                if is_zero:
                    code.run(name_clear(size, plan.width, numbered), target)
                else:
                    code.run(name_out(size, plan.width, numbered), [memory, slots.offset(column, "i32"), *target])

    def _tables(self) -> str:
        """The slots of the entries of results, padded by a square, and the program's tables."""
        texts = []
        for index in range(len(self._program.results)):
            slots = self._plan.result_slots(index)
            slots += slots[-1:] * self._plan.width
            texts.append(definition(f"@artix_slots_{index}", "i32", slots))
        return "\n".join(texts + tables_of(self._plan.lists))


def _numbers(state: Value, first: Value) -> Value:
    """The address of the row numbers of a block."""
    return state.offset(State.ROWS).load("ptr").offset(first, "i32")


def _pointers(code: Code, start: Value, stride: Value, rows: Value, width: int) -> Value:
    """Pointers to the array of each robot of a block; lanes without a robot get the last one's."""
    numbers = ", ".join(f"i64 {lane}" for lane in range(width))
    lanes = code.value(f"<{numbers}>", "i64", width)
    last = (rows - 1).splat(width)
    offsets = (lanes < last).where(lanes, last) * stride.splat(width)
    return code.emit(f"getelementptr i8, ptr {start.name}, {offsets.type} {offsets.name}", "ptr", width)
