"""GPU kernels: a thread for each robot, or for each item of each robot.

A kernel has phases: load rows into shared memory, compute, write results. Each phase is a function
in LLVM IR of the indices of block and thread and the address of shared memory. The kernel calls
them in order, synchronising threads in between; on a CPU, tests call the same functions for one
thread after another.

The numbers of rows and items are read from an array, the first argument, so that the driver
assembles one text for batches of all sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from artix.compiler.kernels.code import Code, Value
from artix.compiler.kernels.gpu_layout import THREADS, Layout, Mapped, RowBlock, copy_in, copy_out
from artix.compiler.kernels.gpu_thread import Thread
from artix.compiler.kernels.instructions import ElementaryFunctions
from artix.compiler.kernels.nvptx import compile_to_ptx
from artix.compiler.kernels.program_lists import tables_of
from artix.compiler.kernels.transposition import INTEGERS
from artix.compiler.scalar_program import BYTES, Kind, ScalarProgram

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
        code, layout = self._phase(f"artix_load_{level}"), self._layout
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
        code, layout = self._phase("artix_write"), self._layout
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
        rows, thread = self._rows_of_block(code), code.value("%thread", "i64")
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
        layout, shared = self._layout, code.value("%shared", "ptr")
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
