"""Kernels of a CPU: blocks of robots, one in each lane of the vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from artix.evaluation.kernels.code import Code, Value, type_of
from artix.evaluation.kernels.handler import Signature, handler
from artix.evaluation.kernels.llvm_ir import SCALARS, ElementaryFunctions, Instructions
from artix.evaluation.kernels.machine import compile_modules, function_attributes, pack, require, vector_bytes
from artix.evaluation.kernels.plan import BYTES, Part, Plan, kind_of
from artix.evaluation.kernels.threads import State
from artix.evaluation.kernels.turning import name_in, name_out, turn_in, turn_out
from artix.evaluation.scalar_program import Kind, ScalarProgram

#: Nanoseconds that a vector operation, and an entry of an array that is turned, take about; for the number of threads.
_OPERATION, _ENTRY = 0.2, 1.5


def build(program: ScalarProgram) -> bytes:
    """Object code of a program for this machine.

    Args:
      program: the program of one robot.

    Raises:
      KernelError: if there are no kernels on this machine, or none of arrays of such types.
    """
    require()
    return pack(compile_modules(module_texts(program)))


def lanes_of(program: ScalarProgram) -> int:
    """How many robots there are in a block: a register of the narrowest floats."""
    live = {Kind(kind) for kind in set(program.kinds.tolist())} | {kind_of(dtype) for _, dtype, _ in program.arguments}
    narrowest = 8 if Kind.FLOAT64 in live and Kind.FLOAT32 not in live else 4
    return vector_bytes() // narrowest


def module_texts(program: ScalarProgram) -> list[str]:
    """The kernel in LLVM's language: modules of which each has all that it calls, or says that others have it."""
    return _Kernel(Plan(program, lanes_of(program))).texts()


class _Module:
    """Functions that LLVM compiles together, with the elementary functions that they call."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        self.elementary = ElementaryFunctions()

    def text(self, functions: Sequence[str]) -> str:
        """All of it."""
        defined = "\n".join([*functions, self.elementary.text(self.declarations)])
        heads = "\n".join(line for line in defined.splitlines() if line.startswith("define"))
        declared = [text for name, text in self.declarations.items() if f"@{name}(" not in heads]
        return "\n".join([*declared, defined, function_attributes()])


class _Kernel:
    """The functions of a kernel: the parts of the program, each a module, and one of all that calls them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._program = plan.program
        self._module = _Module()
        self._state = State(len(plan.program.arguments), len(plan.program.results))

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
        types = [kind_of(dtype) for _, dtype, level in program.arguments if level]
        body += [turn_in(size, plan.width, self._declarations) for size in sorted({BYTES[kind] for kind in types})]
        types = [kind_of(dtype) for dtype in program.result_types]
        body += [turn_out(size, plan.width, self._declarations) for size in sorted({BYTES[kind] for kind in types})]
        signature = Signature(
            tuple((shape, kind_of(dtype), level) for shape, dtype, level in program.arguments),
            tuple((result.shape, kind_of(t)) for result, t in zip(program.results, program.result_types, strict=True)),
            plan.has_items,
        )
        body.append(handler(signature, self._state, plan.width, plan.size, self._costs(), self._declarations))
        return [*modules, self._module.text(body)]

    def _costs(self) -> tuple[float, float]:
        """Nanoseconds that a block takes, and one of its items."""
        plan, program = self._plan, self._program
        outer = inner = 0.0
        for part in plan.parts:
            cost = _OPERATION * len(part.operations)
            outer, inner = (outer + cost, inner) if part.level == 1 else (outer, inner + cost * (part.level == 2))
        for shape, _, level in program.arguments:
            cost = _ENTRY * math.prod(shape)
            outer, inner = (outer + cost, inner) if level == 1 else (outer, inner + cost * (level == 2))
        written = _ENTRY * sum(result.size for result in program.results)
        return (outer, inner + written) if plan.has_items else (outer + written, 0.0)

    def _pointer(self, place: int, lines: Instructions) -> str:
        return lines.emit(f"getelementptr i8, ptr %memory, i64 {place}")

    def _load(self, instructions: Instructions, number: int, width: int) -> str:
        """Fetches a scalar that another function has made, into as many lanes."""
        plan, kind = self._plan, Kind(self._plan.lists.kinds[number])
        single = plan.lists.levels[number] == 0
        lanes = 1 if single else width
        place = plan.scalar_slot(number) if single else plan.place(2 * number)
        pointer = self._pointer(place, instructions)
        if kind == Kind.BOOL:
            stored = type_of("i8", lanes)
            byte = instructions.emit(f"load {stored}, ptr {pointer}, align 1")
            name = instructions.emit(f"icmp ne {stored} {byte}, {'0' if lanes == 1 else 'zeroinitializer'}")
        else:
            align = BYTES[kind] * lanes
            name = instructions.emit(f"load {type_of(SCALARS[kind], lanes)}, ptr {pointer}, align {align}")
        if not single or width == 1:
            return name
        vector, scalar = type_of(SCALARS[kind], width), SCALARS[kind]
        name = instructions.emit(f"insertelement {vector} poison, {scalar} {name}, i64 0")
        mask = f"<{width} x i32> zeroinitializer"
        return instructions.emit(f"shufflevector {vector} {name}, {vector} poison, {mask}")

    def _store(self, instructions: Instructions, name: str, kind: Kind, place: int, width: int) -> None:
        pointer = self._pointer(place, instructions)
        scalar, align = SCALARS[kind], BYTES[kind] * width
        if kind == Kind.BOOL:
            old, scalar = type_of("i1", width), "i8"
            name = instructions.emit(f"zext {old} {name} to {type_of('i8', width)}")
        instructions.lines.append(f"  store {type_of(scalar, width)} {name}, ptr {pointer}, align {align}")

    def _function(self, linkage: str, name: str, instructions: Instructions) -> str:
        body = "\n".join(instructions.lines)
        return f"define {linkage} void @{name}(ptr noalias %memory) #0 {{\n{body}\n  ret void\n}}\n"

    def _instructions(self, module: _Module, width: int) -> Instructions:
        load = lambda to, number: self._load(to, number, width)  # noqa: E731
        return Instructions(self._plan.lists, width, module.elementary, module.declarations, load)

    def _part(self, module: _Module, index: int, part: Part) -> str:
        """A function that computes a part of the program, those of level 0 in one lane."""
        plan, lists = self._plan, self._plan.lists
        width = plan.width if part.level else 1
        code = self._instructions(module, width)
        for number in part.operations:
            name = code.operation(number)
            if number in plan.kept:
                place = plan.scalar_slot(number) if part.level == 0 else plan.place(2 * number)
                self._store(code, name, Kind(lists.kinds[number]), place, width)
        for reference in part.stores:
            place = plan.place(reference)
            self._store(code, code.operand(reference), Kind(lists.kinds[reference >> 1]), place, width)
        return self._function("hidden", f"artix_part_{index}", code)

    def _fill(self) -> str:
        """What is the same for all robots, in all lanes of the slots of results."""
        code = self._instructions(self._module, self._plan.width)
        for reference in self._plan.fills:
            kind = Kind(self._plan.lists.kinds[reference >> 1])
            place = self._plan.place(reference)
            self._store(code, code.operand(reference), kind, place, self._plan.width)
        return self._function("internal", "artix_fill", code)

    def _run_parts(self, code: Code, level: int, memory: Value) -> None:
        for index, part in enumerate(self._plan.parts):
            if part.level == level and (part.operations or part.stores):
                code.run(f"artix_part_{index}", [memory])

    def _prepare(self) -> str:
        """``void (state, memory)``: level 0, once for each task."""
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
        self._run_parts(code, 0, memory)
        code.run("artix_fill", [memory])
        return code.text()

    def _block(self) -> str:
        """``void (state, memory, first)``: a block of robots, of which the last may have fewer."""
        plan = self._plan
        code = Code("internal void @artix_block(ptr %state, ptr %memory, i64 %first)", self._declarations)
        state, memory, first = code.value("%state", "ptr"), code.value("%memory", "ptr"), code.value("%first", "i64")
        left = state.offset(State.BATCH).load("i64") - first
        rows = (left < plan.width).where(left, plan.width)
        self._turn_in(code, 1, state, memory, first, rows, None)
        self._run_parts(code, 1, memory)
        if not plan.has_items:
            self._turn_out(code, state, memory, first, rows, code.integer(1), code.integer(0))
            return code.text()
        items = state.offset(State.ITEMS).load("i64")
        with code.loop(items) as item:
            self._turn_in(code, 2, state, memory, first, rows, item)
            self._run_parts(code, 2, memory)
            self._turn_out(code, state, memory, first, rows, items, item)
        return code.text()

    def _turn_in(
        self, code: Code, level: int, state: Value, memory: Value, first: Value, rows: Value, item: Value | None
    ) -> None:
        plan = self._plan
        for argument, place in plan.blocks.items():
            shape, dtype, of = self._program.arguments[argument]
            if of != level:
                continue
            words = self._state.argument(argument)
            start, stride = state.offset(words).load("ptr"), state.offset(words + 8).load("i64")
            start = start.offset(first * stride)
            if item is not None:
                start = start.offset(item * state.offset(words + 16).load("i64"))
            count = code.integer(math.prod(shape))
            name = name_in(BYTES[kind_of(dtype)], plan.width)
            code.run(name, [start, stride, rows, count, memory.offset(place)])

    def _turn_out(
        self, code: Code, state: Value, memory: Value, first: Value, rows: Value, items: Value, item: Value
    ) -> None:
        plan = self._plan
        for index, (result, dtype) in enumerate(zip(self._program.results, self._program.result_types, strict=True)):
            if result.size == 0:
                continue
            size = BYTES[kind_of(dtype)]
            stride = items * (size * result.size)
            start = state.offset(self._state.result(index)).load("ptr").offset(first * stride)
            start = start.offset(item * (size * result.size))
            slots, count = code.value(f"@artix_slots_{index}", "ptr"), code.integer(result.size)
            code.run(name_out(size, plan.width), [memory, slots, rows, count, start, stride])

    def _tables(self) -> str:
        """Where the entries of results lie; whole squares of them."""
        texts = []
        for index in range(len(self._program.results)):
            slots = self._plan.result_slots(index)
            slots += slots[-1:] * (-len(slots) % self._plan.width)
            texts.append(_table(f"artix_slots_{index}", slots))
        return "\n".join(texts)


def _table(name: str, numbers: Sequence[int]) -> str:
    entries = ", ".join(f"i32 {number}" for number in numbers)
    return f"@{name} = internal constant [{len(numbers)} x i32] [{entries}]"
