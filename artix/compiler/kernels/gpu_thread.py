"""What one thread of a GPU computes, as instructions of LLVM."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from artix.compiler.kernels.code import Code
from artix.compiler.kernels.gpu_layout import Layout
from artix.compiler.kernels.instructions import ElementaryFunctions, Instructions
from artix.compiler.kernels.program_lists import SCALARS, table_name
from artix.compiler.scalar_program import BYTES, Kind, Op, visit


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
        program, levels = self._layout.program, self._layout.program.levels_of_loops
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
        instructions, lists, kept = self._instructions, self._lists, self._layout.kept
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
        code, instructions = self._code, self._instructions
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
        going, code = _carried(number, 0), self._code
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
        code, lanes = self._code, self._layout.lanes
        if op is Op.LANE:
            thread = code.instruction("trunc i64 %thread to i32")
            return code.instruction(f"and i32 {thread}, {lanes - 1}")
        name, place = self._instructions.operand(operands[0]), -2 - operands[1]
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
        code, lanes = self._code, self._layout.lanes
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
        kind, lists = Kind(self._lists.kinds[number]), self._lists
        if lists.operations[number] == Op.CARRIED and self._is_computed(number):
            loop, entry, is_after = lists.operands[number]
            return self._after[loop, entry] if is_after else _carried(loop, entry)
        scalar, size, invariant = "i8" if kind == Kind.BOOL else SCALARS[kind], BYTES[kind], ""
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
