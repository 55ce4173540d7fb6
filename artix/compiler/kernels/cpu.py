"""CPU kernels: blocks of robots, one in each vector lane."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np

from artix.compiler.kernels import x86
from artix.compiler.kernels.code import Code, Value
from artix.compiler.kernels.encodings import object_file
from artix.compiler.kernels.handler import Argument, Interface, State, handler
from artix.compiler.kernels.instructions import Module
from artix.compiler.kernels.machine import (
    KernelError,
    RunsOnce,
    SharedText,
    compile_modules,
    pack,
    require,
    vector_bytes,
)
from artix.compiler.kernels.plan import MODULE_PARTS, Part, Plan
from artix.compiler.kernels.program_lists import definition, table_name, tables_of
from artix.compiler.kernels.slots import ReadAhead, Slots
from artix.compiler.kernels.straight_lines import Line, Places
from artix.compiler.kernels.transposition import (
    clear,
    declarations_of,
    name_of,
    pointers_to_rows,
    transpose_in,
    transpose_out,
)
from artix.compiler.scalar_order import depth_first
from artix.compiler.scalar_program import BYTES, DTYPES, Kind, Op, ScalarProgram, kind_of, visit

#: Approximate nanoseconds per vector operation and per transposed array entry, to choose the number
#: of threads.
_OPERATION, _ENTRY = 0.2, 1.5


def build(program: ScalarProgram) -> bytes:
    """Object code of a program for this machine.

    Raises:
      KernelError: there are no kernels on this machine or for arrays of such types.
    """
    require()
    return pack(compile_modules(modules(depth_first(program))))


@functools.cache
def seconds_per_operation() -> float:
    """Processor time that this machine takes to compile one more operation, from programs of two
    lengths.
    """
    rng, times = np.random.default_rng(0), list[float]()
    for count in (1_000, 7_000):
        first = np.arange(count) - rng.integers(1, 40, count)
        second = np.arange(count) - rng.integers(1, 40, count)
        is_input = np.arange(count) < 40
        rows = 2 * np.stack([first, second, np.full(count, -1)], 1)
        rows[is_input] = np.stack([np.zeros(40, int), np.arange(40), np.full(40, -1)], 1)
        rows[:, 2] = -1
        operations = np.where(is_input, Op.INPUT, np.where(np.arange(count) % 2, Op.MUL, Op.ADD))
        ones = np.ones(count, np.uint8)
        program = ScalarProgram(
            operations=operations.astype(np.uint8),
            operands=rows.astype(np.int32),
            kinds=Kind.FLOAT32 * ones,
            levels=ones,
            constants=np.zeros(count),
            arguments=(((40,), np.dtype("float32"), 1),),
            results=(2 * np.arange(count - 40, count, dtype=np.int32),),
            result_types=(np.dtype("float32"),),
        )
        start = time.process_time()
        build(program)
        times.append(time.process_time() - start)
    return max(times[1] - times[0], 0.0) / 6_000


def lanes_of(program: ScalarProgram) -> int:
    """Number of robots per block: the lanes of a vector register for the narrowest float."""
    dtypes = {DTYPES[Kind(kind)] for kind in set(program.kinds.tolist())}
    dtypes |= {dtype for _, dtype, _ in program.arguments}
    narrowest = 8 if DTYPES[Kind.FLOAT64] in dtypes and DTYPES[Kind.FLOAT32] not in dtypes else 4
    return vector_bytes() // narrowest


def modules(program: ScalarProgram) -> Iterator[str | bytes]:
    """The kernel as object files and as modules in LLVM IR, which declare all that they call."""
    plan = Plan(program, lanes_of(program))
    functions = Functions(plan)
    yield from functions.modules()
    module, interface = Module(), functions.interface()
    yield RunsOnce(
        module.text([handler([interface], None, plan.width, plan.size, module.declarations)])
    )


@functools.cache
def _movements(size: int, width: int, numbered: bool) -> SharedText:
    """The module that moves entries of ``size`` bytes, the same one for all kernels."""
    module = Module()
    writers = (transpose_in, transpose_out, clear)
    return SharedText(
        module.text([write(size, width, module.declarations, numbered) for write in writers])
    )


class Rows(NamedTuple):
    """What a program evaluates in a kernel of several: listed rows of a batch.

    Attributes:
      numbered: for each of its arguments, whether it has the rows of the whole batch rather than
        the program's own.
      results_are_numbered: the same for its results.
    """

    numbered: tuple[bool, ...]
    results_are_numbered: bool


class Functions:
    """The functions of one program of a kernel: machine code, modules for other parts of the
    program, and one for all that calls them.

    Args:
      plan: the program.
      rows: its rows, if it is one of several, which are linked one by one and called by the kernel.

    Raises:
      KernelError: selected rows have items or are read at computed indices.
    """

    def __init__(self, plan: Plan, rows: Rows | None = None) -> None:
        if rows is not None and (
            plan.has_items or any(rows.numbered[a] for a in plan.arrays if a < len(rows.numbered))
        ):
            raise KernelError(
                "rows selected by number cannot have items or be read at computed indices"
            )
        self._plan, self._rows = plan, rows
        self._program = plan.program
        self._slots = Slots(plan)
        self._module = Module()
        self.state = State(len(plan.program.arguments), len(plan.program.results))
        self._ahead = ReadAhead(*plan.rows_ahead(self._is_numbered))
        self._encoded = self._encode()
        self._module.elementary.linkage = "hidden"  # for machine code

    @property
    def _declarations(self) -> dict[str, str]:
        return self._module.declarations

    def modules(self) -> Iterator[str | bytes]:
        """The object file of machine code, if there is any, and modules in LLVM IR."""
        plan, program = self._plan, self._program
        moved = {
            (BYTES[kind_of(dtype)], self._is_numbered(index))
            for index, (_, dtype, level) in enumerate(program.arguments)
            if level
        }
        moved |= {(BYTES[kind], self._results_are_numbered) for kind in plan.result_kinds}
        for size, numbered in sorted(moved):
            yield _movements(size, plan.width, numbered)
            self._declarations.update(declarations_of(size, plan.width, numbered))
        parts = [
            (index, part)
            for index, part in enumerate(plan.parts)
            if not (part.is_empty or part.is_encoded)
        ]
        for first in range(0, len(parts), MODULE_PARTS):
            module, together = Module(), parts[first : first + MODULE_PARTS]
            yield module.text([self._part(module, index, part) for index, part in together])
        if self._encoded:
            yield object_file(self._encoded)
        body = [*self._slots.functions(self._module, self._constants)]
        yield self._module.text([*body, self._prepare(), self._block(), self._tables()])

    def interface(self) -> Interface:
        """What the kernel's handler needs to know."""
        plan, program = self._plan, self._program
        arguments = tuple(
            Argument(shape, kind_of(dtype), level, self._is_numbered(index))
            for index, (shape, dtype, level) in enumerate(program.arguments)
        )
        results = zip((result.shape for result in program.results), plan.result_kinds, strict=True)
        return Interface(arguments, tuple(results), plan.has_items, self._costs(), self.state)

    def _name_of_part(self, index: int) -> str:
        return f"artix_part_{index}"

    def _is_numbered(self, argument: int) -> bool:
        return self._rows is not None and self._rows.numbered[argument]

    @property
    def _results_are_numbered(self) -> bool:
        return self._rows is not None and self._rows.results_are_numbered

    def _numbers(self, state: Value, first: Value) -> Value:
        """The address of the row numbers of a block."""
        return state.offset(self.state.rows).load("ptr").offset(first, "i32")

    def _costs(self) -> tuple[float, float]:
        """Nanoseconds per block, and per item of a block."""
        plan, program = self._plan, self._program
        by_level = [0.0, 0.0, 0.0]
        times = program.repetitions * (program.operations > Op.CONSTANT)
        for level in range(3):
            by_level[level] += _OPERATION * int(times[program.levels == level].sum())
        for shape, _, level in program.arguments:
            by_level[level] += _ENTRY * math.prod(shape)
        by_level[2 if plan.has_items else 1] += _ENTRY * sum(
            result.size for result in program.results
        )
        return by_level[1], by_level[2]

    def _encode(self) -> dict[str, list[bytes | str]]:
        """The parts that are written in machine code, by their names."""
        plan, encoded = self._plan, dict[str, list[bytes | str]]()
        places = Places(plan.slot, plan.scalar_slot, plan.kept, plan.uses)
        scratch = x86.Scratch(plan.size, plan.num_constants)
        self._constants = scratch.constants
        new_line = functools.partial(
            Line, plan.lists, plan.width, places, scratch, self._module.elementary.name
        )
        for index, part in enumerate(plan.parts):
            if not part.is_encoded:
                continue
            line = new_line()
            due = self._ahead.due(len(part.operations)) if part.reads_ahead else {}
            line.compute(part.operations, due)
            for reference in part.stores:
                line.store(reference, plan.slot(reference))
            if part.ended is not None:
                loop = plan.program.loops[part.ended]
                line.carry(loop.ends.tolist(), plan.carried[part.ended], loop.has_condition)
            encoded[self._name_of_part(index)] = line.encode()
        for number, loop in enumerate(plan.program.loops):
            if plan.is_copied[number]:
                line = new_line()
                outer = plan.condition_around(number) if loop.has_condition else None
                line.start(plan.starts(number), outer)
                encoded[f"artix_start_{number}"] = line.encode()
        if encoded:
            plan.reserve(scratch.end)
        return encoded

    def _part(self, module: Module, index: int, part: Part) -> str:
        """The function that computes a part of the program; level 0 is computed in one lane."""
        plan, lists = self._plan, self._plan.lists
        width = plan.width if part.level else 1
        instructions = self._slots.instructions(module, width, self._name_of_part(index), "hidden")
        code = instructions.code
        ahead = self._ahead.requests(code) if part.reads_ahead else None
        for number in part.operations:
            name = instructions.operation(number)
            if ahead is not None:
                ahead.after_operation()
            if number in plan.kept:
                offset = plan.scalar_slot(number) if part.level == 0 else plan.slot(2 * number)
                self._slots.store(code, name, Kind(lists.kinds[number]), offset, width)
        for reference in part.stores:
            offset = plan.slot(reference)
            self._slots.store(
                code,
                instructions.operand(reference),
                Kind(lists.kinds[reference >> 1]),
                offset,
                width,
            )
        if part.ended is not None:
            self._slots.carry(instructions, part.ended)
        return code.text()

    def _run_parts(self, code: Code, level: int, memory: Value) -> None:
        plan, loops = self._plan, self._program.loops

        @contextmanager
        def repeat(number: int) -> Iterator[None]:
            if plan.levels_of_loops[number] != level:
                yield
                return
            code.run(f"artix_start_{number}", [memory])
            if loops[number].has_condition:
                flags = memory.offset(plan.carried[number][0])
                repeated: AbstractContextManager[Any] = code.loop_while(
                    lambda: self._is_any(code, flags, level)
                )
            else:
                repeated = code.loop(code.integer(loops[number].length))
            with repeated:
                yield

        visit(plan.nests, lambda stage: self._run_stage(code, level, stage, memory), repeat)

    def _is_any(self, code: Code, flags: Value, level: int) -> Value:
        """Whether any of the lanes' flags is set: a vector goes on until all its robots are
        done.
        """
        width = self._plan.width if level else 1
        return code.emit(
            f"load i{8 * width}, ptr {flags.name}, align {width}", f"i{8 * width}"
        ).differs(0)

    def _run_stage(self, code: Code, level: int, stage: int, memory: Value) -> None:
        for index, part in enumerate(self._plan.parts):
            if (part.level, part.stage) == (level, stage) and not part.is_empty:
                code.run(self._name_of_part(index), [memory])

    def _prepare(self) -> str:
        """``void (state, memory)``: computes level 0, once for each task."""
        plan, lists = self._plan, self._plan.lists
        code = Code("void @artix_prepare(ptr %state, ptr %memory)", self._declarations)
        state, memory = code.value("%state", "ptr"), code.value("%memory", "ptr")
        pointers: dict[int, Value] = {}
        for number in plan.inputs:
            if lists.levels[number]:
                continue
            argument, entry, _ = lists.operands[number]
            if argument not in pointers:
                pointers[argument] = state.offset(self.state.argument(argument)).load("ptr")
            scalar = {1: "i8", 4: "i32", 8: "i64"}[BYTES[Kind(lists.kinds[number])]]
            value = pointers[argument].offset(entry, scalar).load(scalar)
            memory.offset(plan.scalar_slot(number)).store(value)
        for array, level in plan.arrays.items():
            if not level:
                memory.offset(plan.pointer_slot(array)).store(
                    self._start(code, state, array), align=8
                )
        self._run_parts(code, 0, memory)
        code.run("artix_fill", [memory])
        return code.text()

    def _start(self, code: Code, state: Value, array: int) -> Value:
        """The address of an argument or table."""
        count = len(self._program.arguments)
        if array >= count:
            return code.value(table_name(array - count), "ptr")
        return state.offset(self.state.argument(array)).load("ptr")

    def _block(self) -> str:
        """``void (state, memory, first)``: computes a block of robots; the last block may have
        fewer.
        """
        plan = self._plan
        parameters = "ptr %state, ptr %memory, i64 %first"
        code = Code(f"void @artix_block({parameters})", self._declarations)
        state, memory, first = (
            code.value("%state", "ptr"),
            code.value("%memory", "ptr"),
            code.value("%first", "i64"),
        )
        remaining = state.offset(self.state.batch).load("i64") - first
        rows = (remaining < plan.width).where(remaining, plan.width)
        self._transpose_in(code, 1, state, memory, first, rows, None)
        for argument in self._ahead.sizes:
            rows_of = state.offset(self.state.argument(argument)).load("ptr")
            self._ahead.start_of_block(
                argument, rows_of, memory, first + plan.width, remaining > plan.width
            )
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
        self,
        code: Code,
        level: int,
        state: Value,
        memory: Value,
        first: Value,
        rows: Value,
        item: Value | None,
    ) -> None:
        plan = self._plan

        def rows_of(argument: int) -> tuple[Value, Value]:
            words = self.state.argument(argument)
            start, stride = state.offset(words).load("ptr"), state.offset(words + 8).load("i64")
            if self._is_numbered(argument):
                return start, stride
            start = start.offset(first * stride)
            return (
                start if item is None else start.offset(item * state.offset(words + 16).load("i64"))
            ), stride

        for argument, offset in plan.blocks.items():
            shape, dtype, array_level = self._program.arguments[argument]
            if array_level == level:
                numbered = self._is_numbered(argument)
                count = code.integer(math.prod(shape))
                name = name_of("transpose_in", BYTES[kind_of(dtype)], plan.width, numbered)
                list_ = [self._numbers(state, first)] if numbered else []
                code.run(name, [*rows_of(argument), rows, count, memory.offset(offset), *list_])
        for array, array_level in plan.arrays.items():
            if array_level == level:
                pointers = pointers_to_rows(code, *rows_of(array), rows, plan.width)
                memory.offset(plan.pointer_slot(array)).store(pointers, align=8 * plan.width)

    def _transpose_out(
        self,
        code: Code,
        state: Value,
        memory: Value,
        first: Value,
        rows: Value,
        items: Value,
        item: Value,
    ) -> None:
        plan = self._plan
        for index, (result, kind) in enumerate(
            zip(self._program.results, plan.result_kinds, strict=True)
        ):
            if result.size == 0:
                continue
            size, numbered = BYTES[kind], self._results_are_numbered
            stride = items * (size * result.size)
            start = state.offset(self.state.result(index)).load("ptr")
            if not numbered:
                start = start.offset(first * stride).offset(item * (size * result.size))
            slots, list_ = (
                code.value(f"@artix_slots_{index}", "ptr"),
                [self._numbers(state, first)] if numbered else [],
            )
            for column, count, is_zero in plan.runs(index):
                target = [rows, code.integer(count), start.offset(size * column), stride, *list_]
                name = name_of("clear" if is_zero else "transpose_out", size, plan.width, numbered)
                code.run(
                    name, target if is_zero else [memory, slots.offset(column, "i32"), *target]
                )

    def _tables(self) -> str:
        """The slots of the entries of results, padded by a square, and the program's tables."""
        texts = []
        for index in range(len(self._program.results)):
            slots = self._plan.result_slots(index)
            slots += slots[-1:] * self._plan.width
            texts.append(definition(f"@artix_slots_{index}", "i32", slots))
        return "\n".join(texts + tables_of(self._plan.lists))
