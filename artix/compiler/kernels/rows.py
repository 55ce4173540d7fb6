"""A kernel of several programs, each for some rows of a batch.

Its blocks are listed in the order in which they are computed, so that threads share the programs'
work evenly, and neighbouring rows of different programs are written soon after each other. Each
program is compiled and linked by itself, so that a kernel with one new program among a hundred
compiles this one, and a function that calls all of them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from artix.compiler.kernels.code import Code
from artix.compiler.kernels.cpu import Functions, Rows
from artix.compiler.kernels.handler import Interface, State, handler
from artix.compiler.kernels.instructions import Module
from artix.compiler.kernels.machine import (
    KernelError,
    compile_groups,
    compile_modules,
    link_functions,
    pack,
    require,
    unpack,
    vector_bytes,
)
from artix.compiler.kernels.plan import Plan
from artix.compiler.scalar_order import depth_first
from artix.compiler.scalar_program import ScalarProgram

#: Blocks are sorted by the span of rows in which they begin, then by program. Small spans stay in
#: the caches while their rows are written; large ones change programs, and with them code and
#: memory, less often. A span has at least so many rows, in all and for each program.
_SPAN, _SPAN_OF_PROGRAM = 512, 170


class LinkedProgram(NamedTuple):
    """A program in this process's memory.

    Attributes:
      interface: its arrays; the words of the state are those of a first program.
      size: bytes of a task's memory.
      prepare: the address of its function ``artix_prepare``.
      block: that of ``artix_block``.
    """

    interface: Interface
    size: int
    prepare: int
    block: int


def build_programs(
    programs: Iterable[tuple[ScalarProgram, tuple[bool, ...]]], width: int, results_are_joined: bool
) -> Iterator[bytes]:
    """Code of programs of a kernel of several, for :func:`link_program`.

    Args:
      programs: each program of one robot and, for each of its arguments, whether it has the rows of
        all programs, of which the program's own are selected, or only its own. They are taken one
        by one while others are compiled.
      width: robots per block, see :func:`row_lanes`.
      results_are_joined: whether all programs write rows of the same arrays; otherwise each has its
        own results.

    Raises:
      KernelError: there are no kernels on this machine or for arrays of such types, or selected
        rows have items or are read at computed indices.
    """
    require()
    headers = list[bytes]()

    def groups() -> Iterator[Iterator[str | bytes]]:
        for program, numbered in programs:
            plan = Plan(depth_first(program), width)
            functions = Functions(plan, Rows(numbered, results_are_joined))
            *arrays, _ = functions.interface()
            headers.append(pickle.dumps((arrays, plan.size)))
            yield functions.modules()

    for number, objects in enumerate(compile_groups(groups())):
        yield pack([headers[number], *objects])


def link_program(code: bytes, name: str) -> LinkedProgram:
    """Links a program's code, see :func:`build_programs`, for the rest of the process.

    Raises:
      KernelError: the code does not link.
    """
    header, *objects = unpack(code)
    try:
        (arguments, results, has_items, costs), size = pickle.loads(header)
        interface = Interface(
            arguments, results, has_items, costs, State(len(arguments), len(results))
        )
    except Exception as error:
        raise KernelError(f"a program's code has no interface: {error}") from error
    return LinkedProgram(
        interface, size, *link_functions(objects, name, ("artix_prepare", "artix_block"))
    )


def build_rows(programs: Sequence[LinkedProgram], width: int, results_are_joined: bool) -> bytes:
    """Object code of a kernel that calls several programs, at the :func:`addresses_of` their
    functions.

    The kernel's first argument is the list of :func:`block_list`. The lists of the programs' rows
    follow, int32, [rows, 1], then the arguments of all programs.

    Args:
      programs: the programs.
      width: robots per block, see :func:`row_lanes`.
      results_are_joined: whether all programs write rows of the same arrays; otherwise each has its
        own results.

    Raises:
      KernelError: there are no kernels on this machine.
    """
    require()
    interfaces, sizes = list[Interface](), [0]
    for program in programs:
        counts = len(program.interface.arguments), len(program.interface.results)
        state = State(*counts, interfaces[-1].state if interfaces else None)
        interfaces.append(program.interface._replace(state=state))
        sizes.append(sizes[-1] + program.size)
    module = Module()
    declarations = module.declarations
    body = [
        _prepare(interfaces, sizes, declarations),
        _block(interfaces, sizes, width, declarations),
        handler(interfaces, results_are_joined, width, sizes[-1], declarations),
    ]
    return pack(compile_modules([module.text(body)]))


def addresses_of(programs: Sequence[LinkedProgram]) -> dict[str, int]:
    """The addresses of the functions that the kernel of :func:`build_rows` calls, by their names in
    it.
    """
    address_of = dict[str, int]()
    for number, program in enumerate(programs):
        address_of |= {
            f"artix_prepare_{number}": program.prepare,
            f"artix_block_{number}": program.block,
        }
    return address_of


def row_lanes(dtypes: Iterable[np.dtype]) -> int:
    """Number of robots per block for programs whose arrays have these dtypes."""
    names = {np.dtype(dtype).name for dtype in dtypes}
    return vector_bytes() // (8 if "float64" in names and "float32" not in names else 4)


def block_list(rows: Sequence[np.ndarray], width: int) -> np.ndarray:
    """The blocks of all programs in the order in which they are computed: program and first row,
    int32, [blocks, 2].

    Args:
      rows: for each program, the indices of its rows in the batch, ascending.
      width: robots per block.
    """
    blocks = [
        (number, first)
        for number, numbers in enumerate(rows)
        for first in range(0, len(numbers), width)
    ]
    span = max(_SPAN, _SPAN_OF_PROGRAM * len(rows))
    blocks.sort(key=lambda block: (rows[block[0]][block[1]] // span, block))
    return np.array(blocks, np.int32).reshape(-1, 2)


def _prepare(
    interfaces: Sequence[Interface], sizes: Sequence[int], declarations: dict[str, str]
) -> str:
    """``void (state, memory)``: computes level 0 of all programs, each in its own part of a task's
    memory.
    """
    code = Code("internal void @artix_prepare(ptr %state, ptr %memory)", declarations)
    state, memory = code.value("%state", "ptr"), code.value("%memory", "ptr")
    for number, (interface, start) in enumerate(zip(interfaces, sizes, strict=False)):
        code.run(
            f"artix_prepare_{number}", [state.offset(interface.state.shift), memory.offset(start)]
        )
    return code.text()


def _block(
    interfaces: Sequence[Interface], sizes: Sequence[int], width: int, declarations: dict[str, str]
) -> str:
    """``void (state, memory, place)``: computes the block at a place of the list, which is given
    times ``width``.
    """
    code = Code("internal void @artix_block(ptr %state, ptr %memory, i64 %first)", declarations)
    state, memory, place = (
        code.value("%state", "ptr"),
        code.value("%memory", "ptr"),
        code.value("%first", "i64"),
    )
    entry = state.offset(State.ORDER).load("ptr").offset(place / width * 2, "i32")
    chosen, first = entry.number(0), entry.number(1)
    for number, (interface, start) in enumerate(zip(interfaces, sizes, strict=False)):
        with code.when(chosen.equals(number)):
            operands = state.offset(interface.state.shift), memory.offset(start)
            code.run(f"artix_block_{number}", [*operands, first])
    return code.text()
