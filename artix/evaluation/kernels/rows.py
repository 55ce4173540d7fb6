"""A kernel of several programs, each for some rows of a batch.

Its blocks are listed in the order in which they are computed, so that threads share the programs' work evenly, and
neighbouring rows of different programs are written soon after each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from artix.evaluation.kernels.code import Code
from artix.evaluation.kernels.cpu import Functions, Rows
from artix.evaluation.kernels.handler import Interface, handler
from artix.evaluation.kernels.llvm_ir import Module
from artix.evaluation.kernels.machine import compile_modules, pack, require, vector_bytes
from artix.evaluation.kernels.plan import Plan
from artix.evaluation.kernels.threads import State
from artix.evaluation.scalar_program import ScalarProgram
from artix.evaluation.scalar_schedule import fewest_live

#: Blocks are sorted by the span of so many rows in which they begin, then by program. Small spans stay in the caches
#: while their rows are written; large ones change programs, and with them code and memory, less often.
_SPAN = 512


def build_rows(
    programs: Iterable[tuple[ScalarProgram, tuple[bool, ...]]], width: int, results_are_joined: bool
) -> bytes:
    """Object code of a kernel of several programs for this machine.

    The kernel's first argument is the list of :func:`block_list`. The lists of the programs' rows follow, int32,
    [rows, 1], then the arguments of all programs.

    Args:
      programs: each program of one robot and, for each of its arguments, whether it has the rows of all programs, of
        which the program's own are selected, or only its own. They are taken one by one while others are compiled.
      width: robots per block, see :func:`row_lanes`.
      results_are_joined: whether all programs write rows of the same arrays; otherwise each has its own results.

    Raises:
      KernelError: there are no kernels on this machine or for arrays of such types, or selected rows have items or are
        read at computed indices.
    """
    require()
    return pack(compile_modules(_module_texts(programs, width, results_are_joined)))


def row_lanes(dtypes: Iterable[np.dtype]) -> int:
    """Number of robots per block for programs whose arrays have these dtypes."""
    names = {np.dtype(dtype).name for dtype in dtypes}
    return vector_bytes() // (8 if "float64" in names and "float32" not in names else 4)


def block_list(rows: Sequence[np.ndarray], width: int) -> np.ndarray:
    """The blocks of all programs in the order in which they are computed: program and first row, int32, [blocks, 2].

    Args:
      rows: for each program, the indices of its rows in the batch, ascending.
      width: robots per block.
    """
    blocks = [(number, first) for number, own in enumerate(rows) for first in range(0, len(own), width)]
    blocks.sort(key=lambda block: (rows[block[0]][block[1]] // _SPAN, block))
    return np.array(blocks, np.int32).reshape(-1, 2)


def _module_texts(
    programs: Iterable[tuple[ScalarProgram, tuple[bool, ...]]], width: int, results_are_joined: bool
) -> Iterator[str]:
    interfaces, sizes = list[Interface](), [0]
    for number, (program, numbered) in enumerate(programs):
        plan = Plan(fewest_live(program), width)
        before = interfaces[-1].state if interfaces else None
        functions = Functions(plan, Rows(number, numbered, results_are_joined), before)
        interfaces.append(functions.interface())
        sizes.append(sizes[-1] + plan.size)
        yield from functions.texts()
    module = Module()
    declarations = module.declarations
    body = [
        _prepare(sizes, declarations),
        _block(sizes, width, declarations),
        handler(interfaces, results_are_joined, width, sizes[-1], declarations),
    ]
    yield module.text(body)


def _prepare(sizes: Sequence[int], declarations: dict[str, str]) -> str:
    """``void (state, memory)``: computes level 0 of all programs, each in its own part of a task's memory."""
    code = Code("internal void @artix_prepare(ptr %state, ptr %memory)", declarations)
    state, memory = code.value("%state", "ptr"), code.value("%memory", "ptr")
    for number, start in enumerate(sizes[:-1]):
        code.run(f"artix_prepare_{number}", [state, memory.offset(start)])
    return code.text()


def _block(sizes: Sequence[int], width: int, declarations: dict[str, str]) -> str:
    """``void (state, memory, place)``: computes the block at a place of the list, which is given times ``width``."""
    code = Code("internal void @artix_block(ptr %state, ptr %memory, i64 %first)", declarations)
    state, memory, place = code.value("%state", "ptr"), code.value("%memory", "ptr"), code.value("%first", "i64")
    entry = state.offset(State.ORDER).load("ptr").offset(place / width * 2, "i32")
    chosen, first = entry.number(0), entry.number(1)
    for number, start in enumerate(sizes[:-1]):
        with code.when(chosen.equals(number)):
            code.run(f"artix_block_{number}", [state, memory.offset(start), first])
    return code.text()
