"""GPU kernels: a thread for each robot, or for each item of each robot.

A kernel has phases: load rows into shared memory, compute, write results. Each phase is a function
in LLVM IR of the indices of block and thread and the address of shared memory. The kernel calls
them in order, synchronising threads in between; on a CPU, tests call the same functions for one
thread after another.

The numbers of rows and items are read from an array, the first argument, so that the driver
assembles one text for batches of all sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from artix.compiler.kernels.code import Code, Value
from artix.compiler.kernels.gpu_layout import THREADS, Layout, Mapped, RowBlock, copy_in, copy_out
from artix.compiler.kernels.instructions import ElementaryFunctions, Instructions
from artix.compiler.kernels.machine import compile_to_ptx
from artix.compiler.kernels.program_lists import SCALARS, table_name, tables_of
from artix.compiler.kernels.transposition import INTEGERS
from artix.compiler.scalar_program import BYTES, Kind, Op, ScalarProgram, visit

#: The name of the kernel in its module.
NAME = "artix_kernel"


class GpuKernel(NamedTuple):
    """A kernel for batches of any size."""

    ptx: str
    has_thread_for_item: bool
    """Whether each item of each robot has a thread; else each robot has one, or several lanes."""
    lanes: int = 1
    """How many neighbouring threads share a robot."""

    def threads(self, rows: int) -> int:
        """The number of threads for so many rows."""
        return rows * self.lanes

    def sizes(self, robots: int, items: int) -> tuple[int, int]:
        """The numbers of rows and of items for a batch, which are the kernel's first argument."""
        return robots * items if self.has_thread_for_item else robots, items


def build_for_gpu(
    program: ScalarProgram, mapped: Sequence[Mapped], has_items: bool, lanes: int = 1
) -> GpuKernel:
    """A kernel of a program for NVIDIA GPUs.

    Args:
      program: the program of one robot or of one of its lanes, in order of computation.
      mapped: for each argument, which of the batches it has rows for.
      has_items: whether each robot has a batch of items.
      lanes: how many threads share a robot.

    Raises:
      KernelError: this LLVM has no GPU target, or there are no kernels for arrays of such types.
    """
    layout = Layout(program, mapped, has_items, lanes)
    return GpuKernel(
        compile_to_ptx(GpuModule(layout).text()), has_items and not layout.loops_over_items, lanes
    )


class GpuModule:
    """The functions of a kernel.

    Args:
      layout: its memory layout.
      is_host: whether its phases are compiled for a CPU, to be called by tests.
    """

    #: Parameters of all phases before the arrays: index of the thread in its block, of the block's
    #: first row and of the item, the shared memory of the block and the thread's own memory.
    _PARAMETERS = "i64 %thread, i64 %first, i64 %item, ptr noalias %shared, ptr noalias %kept"

    def __init__(self, layout: Layout, is_host: bool = False) -> None:
        self._layout, self._program, self._is_host = layout, layout.program, is_host
        self._declarations: dict[str, str] = {}
        self._functions = ElementaryFunctions()

    def text(self) -> str:
        """The module."""
        body = [self._load(level) for level in ((1, 2) if self._layout.loops_over_items else (0,))]
        body += [
            self._compute(level) for level in ((1, 2) if self._layout.loops_over_items else (0,))
        ]
        body += [self._write(), *self._globals()]
        if not self._is_host:
            body.append(self._kernel())
        body.append(self._functions.text(self._declarations))
        inline = "" if self._is_host else " alwaysinline"
        attributes = f"attributes #0 = {{ nounwind{inline} }}"
        return "\n".join([*self._declarations.values(), *body, attributes, "!0 = !{}"])

    def _globals(self) -> list[str]:
        definitions = []
        for result, staged in self._layout.staged_results.items():
            if not staged.is_plain:
                entries = ", ".join(f"i32 {column}" for column in staged.columns)
                definitions.append(
                    f"@artix_columns_{result} = internal constant [{len(staged.columns)} x i32] "
                    f"[{entries}]"
                )
        return definitions + tables_of(self._layout.lists)

    def _arrays(self) -> list[str]:
        arguments = ["%sizes", *(f"%x{k}" for k in range(len(self._program.arguments)))]
        return arguments + [f"%y{k}" for k in range(len(self._program.results))]

    def _phase(self, name: str) -> Code:
        arrays = "".join(f", ptr noalias {array}" for array in self._arrays())
        linkage = "" if self._is_host else "internal "
        return Code(f"{linkage}void @{name}({self._PARAMETERS}{arrays})", self._declarations)

    def _rows(self, code: Code) -> Value:
        """How many threads have a row."""
        return self._size(code, 0)

    def _items(self, code: Code) -> Value:
        """How many items each robot has."""
        return self._size(code, 1)

    def _size(self, code: Code, place: int) -> Value:
        address = code.value("%sizes", "ptr").offset(place, "i32")
        return code.emit(f"load i32, ptr {address.name}, align 4, !invariant.load !0", "i32").cast(
            "zext", "i64"
        )

    def _rows_of_block(self, code: Code) -> Value:
        remaining = self._rows(code) - code.value("%first", "i64")
        rows = self._layout.rows_of_block
        return (remaining < rows).where(remaining, rows)

    def _row(self, code: Code, mapped: Mapped, row: Value) -> Value:
        """The row of an array that the thread or block with the given number reads."""
        if not self._layout.has_items:
            return row if mapped.robots else code.integer(0)
        items = self._items(code)
        if self._layout.loops_over_items:
            robot, item = row, code.value("%item", "i64")
        else:
            robot = code.emit(f"udiv i64 {row.name}, {items.name}", "i64")
            item = row - robot * items
        if mapped.robots and mapped.items:
            return robot * items + item
        return robot if mapped.robots else item if mapped.items else code.integer(0)

    def _row_block(
        self, code: Code, array: str, columns: int, mapped: Mapped, scalar: str
    ) -> RowBlock:
        start = self._row(code, mapped, code.value("%first", "i64")) * columns
        is_strided = self._layout.loops_over_items and mapped.items
        stride: Value | int = self._items(code) * columns if is_strided else columns
        begin = code.value(array, "ptr").offset(start, scalar)
        return RowBlock(begin, stride, self._rows_of_block(code), code.value("%thread", "i64"))

    def _load(self, level: int) -> str:
        """The phase that loads rows of arguments of one level, or all for 0, into shared memory."""
        code = self._phase(f"artix_load_{level}")
        layout = self._layout
        for argument, staged in layout.staged_arguments.items():
            if level and 1 + layout.mapped[argument].items != level:
                continue
            size = BYTES[layout.argument_kinds[argument]]
            block = self._row_block(
                code, f"%x{argument}", len(staged.columns), layout.mapped[argument], INTEGERS[size]
            )
            copy_in(code, staged, size, block, code.value("%shared", "ptr"), self._is_host)
        return code.text()

    def _write(self) -> str:
        """The phase that writes rows of results from shared memory."""
        code = self._phase("artix_write")
        layout = self._layout
        for result, staged in layout.staged_results.items():
            size = BYTES[layout.result_kinds[result]]
            block = self._row_block(
                code, f"%y{result}", len(staged.columns), Mapped(True, True), INTEGERS[size]
            )
            copy_out(
                code, staged, size, block, code.value("%shared", "ptr"), f"@artix_columns_{result}"
            )
        return code.text()

    def _compute(self, level: int) -> str:
        """The phase that computes everything (0), or what all items of a robot share (1), or each
        item (2).
        """
        code = self._phase(f"artix_compute_{level}")
        rows = self._rows_of_block(code)
        thread = code.value("%thread", "i64")
        # Threads past the end repeat the last row.
        row = (
            thread
            if self._layout.lanes == 1
            else code.emit(f"udiv i64 {thread.name}, {self._layout.lanes}", "i64")
        )
        row = (row < rows).where(row, rows - 1)
        Thread(
            self._layout,
            level,
            self._rows_of_thread(code, row),
            code,
            self._functions,
            self._is_host,
        ).compute()
        return code.text()

    def _rows_of_thread(self, code: Code, row: Value) -> tuple[list[str], list[str]]:
        """The addresses of a thread's row of each argument and of each result."""
        layout = self._layout
        shared = code.value("%shared", "ptr")
        number = code.value("%first", "i64") + row

        def pointer(array: str, staged: object, columns: int, mapped: Mapped, kind: Kind) -> str:
            scalar = INTEGERS[BYTES[kind]]
            if staged is not None:
                return shared.offset(staged.offset).offset(row * staged.stride, scalar).name  # type: ignore[attr-defined]
            return (
                code.value(array, "ptr")
                .offset(self._row(code, mapped, number) * columns, scalar)
                .name
            )

        arguments = [
            pointer(
                f"%x{k}", layout.staged_arguments.get(k), layout.entries(k), layout.mapped[k], kind
            )
            for k, kind in enumerate(layout.argument_kinds)
        ]
        results = [
            pointer(
                f"%y{k}",
                layout.staged_results.get(k),
                self._program.results[k].size,
                Mapped(True, True),
                kind,
            )
            for k, kind in enumerate(layout.result_kinds)
        ]
        return arguments, results

    def _kernel(self) -> str:
        arrays = self._arrays()
        parameters = ", ".join(f"ptr addrspace(1) noalias {array}_" for array in arrays)
        code = Code(f"ptx_kernel void @{NAME}({parameters})", self._declarations)
        is_shared = self._layout.shared_size > 0
        shared = "addrspacecast (ptr addrspace(3) @artix_shared to ptr)" if is_shared else "null"
        for array in arrays:
            code.lines.append(f"  {array} = addrspacecast ptr addrspace(1) {array}_ to ptr")
        thread = code.call("llvm.nvvm.read.ptx.sreg.tid.x", [], "i32").cast("zext", "i64")
        block = code.call("llvm.nvvm.read.ptx.sreg.ctaid.x", [], "i32").cast("zext", "i64")
        kept = "null"
        if self._layout.kept_size:
            kept = code.emit(f"alloca [{self._layout.kept_size} x i8], align 8", "ptr").name
        operands = [
            thread,
            block * self._layout.rows_of_block,
            code.integer(0),
            code.value(shared, "ptr"),
            code.value(kept, "ptr"),
        ]
        operands += [code.value(array, "ptr") for array in arrays]
        self._run(code, operands)
        text = code.text().replace(" #0 {", " #1 {")
        memory = (
            f"@artix_shared = internal addrspace(3) global [{self._layout.shared_size} x i8] "
            "undef, align 16"
        )
        return "\n".join(
            [memory, text, f'attributes #1 = {{ nounwind "nvvm.maxntid"="{THREADS}" }}']
        )

    def _run(self, code: Code, operands: list[Value]) -> None:
        """Calls all phases, synchronising the threads of the block in between."""

        def phase(name: str) -> None:
            arguments = ", ".join(f"{operand.type} {operand.name}" for operand in operands)
            code.lines.append(f"  call void @{name}({arguments})")

        def wait(name: str, argument: str = "") -> None:
            kind = "i32" if argument else ""
            self._declarations[name] = f"declare void @{name}({kind})"
            code.lines.append(f"  call void @{name}({kind} {argument})")

        def synchronise() -> None:
            if self._layout.shared_size:
                wait("llvm.nvvm.cp.async.wait.all")
                wait("llvm.nvvm.bar.warp.sync", "-1")

        if not self._layout.loops_over_items:
            for name in ("artix_load_0", "artix_compute_0", "artix_write"):
                phase(name)
                synchronise()
            return
        phase("artix_load_1")
        synchronise()
        phase("artix_compute_1")
        with code.loop(self._items(code)) as item:
            operands[2] = item
            for name in ("artix_load_2", "artix_compute_2", "artix_write"):
                phase(name)
                synchronise()


class Thread:
    """What one thread computes of a program, and stores.

    Scalars are LLVM's values, also those that loops carry, which are therefore in no array of a
    thread's memory.

    Args:
      layout: the kernel's memory layout.
      level: 0 for all levels of the program, 1 for levels 0 and 1, or 2 for level 2. All but 1 also
        write results.
      rows: addresses of the thread's row of each argument and of each result.
      code: the function to which instructions are appended.
      functions: the elementary functions of the module.
      is_host: whether the code is for a CPU, where tests exchange what threads say.
    """

    def __init__(
        self,
        layout: Layout,
        level: int,
        rows: tuple[list[str], list[str]],
        code: Code,
        functions: ElementaryFunctions,
        is_host: bool,
    ) -> None:
        self._is_host = is_host
        self._layout, self._lists, self._level = layout, layout.lists, level
        self._arguments, self._results = rows
        self._code = code
        self._instructions = Instructions(
            code, layout.lists, 1, functions, self._fetch, self._address, self._exchange
        )
        self._targets: dict[int, list[str]] = {}
        self._after: dict[tuple[int, int], str] = {}
        """Names of what loops carry, after them, by loop and entry."""

    def compute(self) -> None:
        """Appends the instructions."""
        if self._level != 1:
            self._find_targets()
        program = self._layout.program
        levels = self._layout.program.levels_of_loops
        numbers: list[list[int]] = [[] for _ in program.nests]
        for number, stage in enumerate(program.stages.tolist()):
            numbers[stage].append(number)

        def repeat(loop: int) -> contextlib.AbstractContextManager[None]:
            return self._loop(loop) if self._is_here(levels[loop]) else contextlib.nullcontext()

        visit(program.nests, lambda stage: self._compute(numbers[stage]), repeat)

    def _is_computed(self, number: int) -> bool:
        """Whether a scalar is computed here, unless it is an input or a constant."""
        return self._is_here(self._lists.levels[number])

    def _is_here(self, level: int) -> bool:
        return self._level in (0, 2 if level == 2 else 1)

    def _compute(self, numbers: Sequence[int]) -> None:
        """Computes scalars, and writes those that are results or needed for the items."""
        instructions = self._instructions
        lists = self._lists
        kept = self._layout.kept
        for number in numbers:
            if self._is_computed(number):
                if lists.operations[number] > Op.CONSTANT:
                    instructions.operation(number)
                if number in kept:
                    name, kind = instructions.operand(2 * number), Kind(lists.kinds[number])
                    self._store(name, kind, f"%kept, i64 {kept[number]}")
            self._store_results(number)

    @contextlib.contextmanager
    def _loop(self, number: int) -> Iterator[None]:
        """A loop of the program, whose body is what is computed in the context: at least once if
        its end is known.
        """
        code = self._code
        instructions = self._instructions
        loop = self._layout.program.loops[number]
        before, body, last, end = (f"{name}_{number}" for name in ("before", "body", "last", "end"))
        starts = [instructions.operand(reference) for reference in loop.starts.tolist()]
        stays_together = loop.has_condition and self._layout.lanes > 1
        if stays_together:
            starts[0] = self._while_around(number, starts[0])
            begin = f"i1 {self._any(starts[0])}, label %{body}, label %{end}"
        else:
            begin = (
                f"i1 {starts[0]}, label %{body}, label %{end}"
                if loop.has_condition
                else f"label %{body}"
            )
        code.lines += [f"  br label %{before}", f"{before}:", f"  br {begin}", f"{body}:"]
        first_line = len(code.lines)
        kinds = [SCALARS[Kind(self._lists.kinds[x >> 1])] for x in loop.starts.tolist()]
        with instructions.scope():
            yield
            ends = [instructions.operand(reference) for reference in loop.ends.tolist()]
            if stays_together:
                ends = self._kept_where_done(number, kinds, ends)
        code.lines += [f"  br label %{last}", f"{last}:"]
        rows = list(zip(kinds, starts, ends, strict=True))
        carried = [(_carried(number, entry), *row) for entry, row in enumerate(rows)]
        if stays_together:
            continues = self._any(ends[0])
        elif loop.has_condition:
            continues = ends[0]
        else:
            count = code.instruction(f"add i32 %count_{number}, 1")
            continues = code.instruction(f"icmp ult i32 {count}, {loop.length}")
            carried.append((f"%count_{number}", "i32", "0", count))
        code.lines += [f"  br i1 {continues}, label %{body}, label %{end}", f"{end}:"]
        code.lines[first_line:first_line] = [_chosen(*row, before, last) for row in carried]
        for entry, (kind, start, following) in enumerate(rows):
            self._after[number, entry] = following
            if loop.has_condition:
                self._after[number, entry] = after = f"%after_{number}_{entry}"
                code.lines.append(_chosen(after, kind, start, following, before, last))

    # Threads that exchange scalars stay together: all robots of a warp go on until the last one is
    # done, and those that are done keep what they carry. Where only the lanes of a robot waited for
    # each other, the assembler would write twenty instructions for every exchange.

    def _while_around(self, number: int, start: str) -> str:
        """Whether a loop begins: only if the nearest one around it whose end is data goes on."""
        loops = self._layout.program.loops
        around = loops[number].parent
        while around >= 0 and not loops[around].has_condition:
            around = loops[around].parent
        return (
            start
            if around < 0
            else self._code.instruction(f"and i1 {start}, {_carried(around, 0)}")
        )

    def _any(self, condition: str) -> str:
        """Whether something holds for any robot of the warp."""
        if self._is_host:
            word = self._asked(self._code.instruction(f"zext i1 {condition} to i32"), "2, i32 0")
            return self._code.instruction(f"icmp ne i32 {word}, 0")
        name = "llvm.nvvm.vote.any.sync"
        self._code.calls[name] = f"declare i1 @{name}(i32, i1)"
        return self._code.instruction(f"call i1 @{name}(i32 -1, i1 {condition})")

    def _kept_where_done(self, number: int, kinds: Sequence[str], ends: Sequence[str]) -> list[str]:
        """What an iteration carries on: of robots that are done, what they carry already."""
        going = _carried(number, 0)
        code = self._code
        rest = [
            code.instruction(f"select i1 {going}, {kind} {each}, {kind} {_carried(number, entry)}")
            for entry, (kind, each) in enumerate(zip(kinds, ends, strict=True))
            if entry
        ]
        return [code.instruction(f"and i1 {going}, {ends[0]}"), *rest]

    def _find_targets(self) -> None:
        """Finds where each scalar or its negative is written, as operands of getelementptr."""
        for result, references in enumerate(self._layout.program.results):
            size = BYTES[self._layout.result_kinds[result]]
            staged = self._layout.staged_results.get(result)
            columns = range(references.size) if staged is None else staged.columns
            pairs = dict.fromkeys(zip(references.ravel().tolist(), columns, strict=True))
            for reference, column in pairs:
                self._targets.setdefault(reference, []).append(
                    f"{self._results[result]}, i64 {column * size}"
                )

    def _store_results(self, number: int) -> None:
        for reference in (2 * number, 2 * number + 1):
            for target in self._targets.get(reference, ()):
                self._store(
                    self._instructions.operand(reference), Kind(self._lists.kinds[number]), target
                )

    def _store(self, name: str, kind: Kind, target: str) -> None:
        code, scalar = self._code, SCALARS[kind]
        if kind == Kind.BOOL:
            name, scalar = code.instruction(f"zext i1 {name} to i8"), "i8"
        pointer = code.instruction(f"getelementptr i8, ptr {target}")
        code.lines.append(f"  store {scalar} {name}, ptr {pointer}, align {BYTES[kind]}")

    def _address(self, _: Code, array: int) -> tuple[str, str]:
        """The address of an array to load from."""
        count = len(self._arguments)
        return (self._arguments[array] if array < count else table_name(array - count)), "ptr"

    def _exchange(self, op: Op, operands: list[int], kind: Kind) -> str:
        """The number of a lane, or the scalar of another lane of the same robot, which is at the
        same instruction.
        """
        code = self._code
        lanes = self._layout.lanes
        if op is Op.LANE:
            thread = code.instruction("trunc i64 %thread to i32")
            return code.instruction(f"and i32 {thread}, {lanes - 1}")
        name = self._instructions.operand(operands[0])
        place = -2 - operands[1]
        if kind == Kind.BOOL:
            moved = self._moved(code.instruction(f"zext i1 {name} to i32"), "i32", op, place)
            return code.instruction(f"icmp ne i32 {moved}, 0")
        if kind != Kind.FLOAT64:
            return self._moved(name, SCALARS[kind], op, place)
        halves = code.instruction(f"bitcast double {name} to <2 x i32>")
        for half in (0, 1):
            word = code.instruction(f"extractelement <2 x i32> {halves}, i32 {half}")
            word = self._moved(word, "i32", op, place)
            halves = code.instruction(f"insertelement <2 x i32> {halves}, i32 {word}, i32 {half}")
        return code.instruction(f"bitcast <2 x i32> {halves} to double")

    def _moved(self, name: str, scalar: str, op: Op, place: int) -> str:
        """A word of another lane."""
        code = self._code
        lanes = self._layout.lanes
        if self._is_host:
            word = name if scalar == "i32" else code.instruction(f"bitcast float {name} to i32")
            word = self._asked(word, f"{int(op is Op.SHUFFLE)}, i32 {place}")
            return word if scalar == "i32" else code.instruction(f"bitcast i32 {word} to float")
        mode, suffix = (
            ("bfly" if op is Op.SHUFFLE else "idx"),
            ("f32" if scalar == "float" else "i32"),
        )
        function = f"llvm.nvvm.shfl.sync.{mode}.{suffix}"
        code.calls[function] = f"declare {scalar} @{function}(i32, {scalar}, i32, i32)"
        segment = (32 - lanes) << 8 | 31
        return code.instruction(
            f"call {scalar} @{function}(i32 -1, {scalar} {name}, i32 {place}, i32 {segment})"
        )

    def _asked(self, word: str, question: str) -> str:
        """What the test's threads answer: of the lane with a number (0), across bits (1), or
        whether any is set (2).
        """
        self._code.calls["artix_exchange"] = "declare i32 @artix_exchange(i64, i32, i32, i32)"
        return self._code.instruction(
            f"call i32 @artix_exchange(i64 %thread, i32 {word}, i32 {question})"
        )

    def _fetch(self, code: Code, number: int) -> str:
        """Loads an input or a scalar that all items share, or names what a loop carries."""
        kind = Kind(self._lists.kinds[number])
        lists = self._lists
        if lists.operations[number] == Op.CARRIED and self._is_computed(number):
            loop, entry, is_after = lists.operands[number]
            return self._after[loop, entry] if is_after else _carried(loop, entry)
        scalar = "i8" if kind == Kind.BOOL else SCALARS[kind]
        size = BYTES[kind]
        invariant = ""
        if lists.operations[number] == Op.INPUT:
            argument, entry, _ = lists.operands[number]
            address = f"{self._arguments[argument]}, i64 {entry * size}"
            invariant = "" if argument in self._layout.staged_arguments else ", !invariant.load !0"
        else:
            address = f"%kept, i64 {self._layout.kept[number]}"
        pointer = code.instruction(f"getelementptr i8, ptr {address}")
        name = code.instruction(f"load {scalar}, ptr {pointer}, align {size}{invariant}")
        return code.instruction(f"icmp ne i8 {name}, 0") if kind == Kind.BOOL else name


def _carried(loop: int, entry: int) -> str:
    """The name of what a loop carries, at the start of an iteration."""
    return f"%carried_{loop}_{entry}"


def _chosen(name: str, kind: str, start: str, following: str, before: str, last: str) -> str:
    """An instruction that chooses between a start, after the block ``before``, and what follows an
    iteration.
    """
    return f"  {name} = phi {kind} [ {start}, %{before} ], [ {following}, %{last} ]"
