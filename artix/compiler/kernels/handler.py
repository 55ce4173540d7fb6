"""The function that XLA calls: it checks buffers and distributes blocks of robots to threads.

Offsets are those of XLA's foreign function interface (``xla/ffi/api/c_api.h``, API 0.1 to 0.5) on
64-bit machines. New versions only append to its structs, which start with their size.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

from artix.compiler.kernels.code import Code, Value
from artix.compiler.kernels.threads import State, distribute, functions
from artix.compiler.scalar_program import BYTES, Kind

#: XLA's numbers of types.
_TYPES = {Kind.BOOL: 1, Kind.INT32: 4, Kind.FLOAT32: 11, Kind.FLOAT64: 12}


#: The interface version that the handler requests; the functions of the thread pool are older.
API = (0, 1)

# Call frames
_EXTENSION, _API, _STAGE = 8, 16, 32
_ARGUMENTS, _RESULTS, _FRAME_SIZE = 40, 80, 168
_COUNT, _BUFFERS = 16, 32  # within both
_EXECUTE = 3
# Extensions that query metadata
_EXTENSION_TYPE, _METADATA, _METADATA_MAJOR, _METADATA_MINOR = 8, 24, 24, 28
# Buffers
_TYPE, _DATA, _RANK, _DIMS = 16, 24, 32, 40
# The table of functions
_ERROR_CREATE = 48
_INVALID_ARGUMENT = 3


class Argument(NamedTuple):
    """An argument of one robot, its level, and whether it has the rows of all programs rather than
    of its own.
    """

    shape: tuple[int, ...]
    kind: Kind
    level: int
    has_all_rows: bool = False


class Interface(NamedTuple):
    """The arrays of a program.

    Attributes:
      arguments: its arguments.
      results: shapes and kinds of its results for one robot.
      has_items: whether there is a level 2.
      costs: nanoseconds per block, and per item of a block.
      state: its words of the state.
    """

    arguments: tuple[Argument, ...]
    results: tuple[tuple[tuple[int, ...], Kind], ...]
    has_items: bool
    costs: tuple[float, float]
    state: State


def handler(
    programs: Sequence[Interface],
    are_joined: bool | None,
    width: int,
    memory: int,
    declarations: dict[str, str],
) -> str:
    """The function ``artix_handler`` and what it calls, except ``artix_prepare`` and
    ``artix_block``.

    Args:
      programs: the expected buffers: the arguments of all programs, then their results.
      are_joined: if the rows of each program are listed, whether all write rows of the same arrays;
        otherwise each has its own results. Then the first buffers are a list of blocks and those of
        rows. ``None`` if rows are not listed: there is one program.
      width: robots per block.
      memory: bytes of a task's memory.
      declarations: declarations of called functions.
    """
    message = "buffers do not have the shapes and types that the kernel was made for\\00"
    length = len(message) - 2
    return "\n".join(
        [
            f'@artix_message = internal constant [{length} x i8] c"{message}"',
            *functions(width, memory, declarations),
            _handler(programs, are_joined, width, declarations),
        ]
    )


class _Buffers:
    """The buffers of the arguments or of the results of a call, without the first ones."""

    def __init__(self, frame: Value, offset: int, skipped: int = 0) -> None:
        self.count = frame.offset(offset + _COUNT).load("i64")
        self._list, self._skipped = frame.offset(offset + _BUFFERS).load("ptr"), skipped

    def after(self, count: int) -> _Buffers:
        """Without the first ones of these, too."""
        other = copy.copy(self)
        other._skipped += count
        return other

    def buffer(self, index: int) -> Value:
        return self._list.offset(8 * (index + self._skipped)).load("ptr")

    def dims(self, index: int) -> Value:
        """The address of a buffer's dimensions."""
        return self.buffer(index).offset(_DIMS).load("ptr")

    def differ_in_kind(self, code: Code, kinds: list[tuple[Kind, int, bool]]) -> Value:
        """Whether a type or rank is not as expected; the flag permits one more dimension."""
        differs = code.value("false", "i1")
        for index, (kind, rank, or_more) in enumerate(kinds):
            buffer = self.buffer(index)
            differs = differs | buffer.offset(_TYPE).load("i32").differs(_TYPES[kind])
            buffer_rank = buffer.offset(_RANK).load("i64")
            differs_in_rank = buffer_rank.differs(rank)
            differs = differs | (
                differs_in_rank & buffer_rank.differs(rank + 1) if or_more else differs_in_rank
            )
        return differs


def _handler(
    programs: Sequence[Interface], are_joined: bool | None, width: int, declarations: dict[str, str]
) -> str:
    code = Code("ptr @artix_handler(ptr %frame)", declarations)
    frame = code.value("%frame", "ptr")
    _answer_query(code, frame)
    code.branch(frame.offset(_STAGE).load("i32").equals(_EXECUTE), "execute", "done")
    code.label("done")
    code.lines.append("  ret ptr null")
    code.label("execute")
    api, num_lists = frame.offset(_API).load("ptr"), 0 if are_joined is None else 1 + len(programs)
    listed, arguments = _Buffers(frame, _ARGUMENTS), _Buffers(frame, _ARGUMENTS, num_lists)
    results = _Buffers(frame, _RESULTS)
    joined, has_items = are_joined is not False, programs[0].has_items
    all_arguments = [argument for program in programs for argument in program.arguments]
    all_results = [
        result for program in programs[: 1 if joined else None] for result in program.results
    ]
    differs = (frame.load("i64") < _FRAME_SIZE) | arguments.count.differs(
        num_lists + len(all_arguments)
    )
    _fail_if(code, differs | results.count.differs(len(all_results)), api)
    differs = arguments.differ_in_kind(
        code,
        [
            (each.kind, len(each.shape) + min(each.level, 1), each.level == 2)
            for each in all_arguments
        ],
    )
    outer = 2 if has_items else 1
    differs = differs | results.differ_in_kind(
        code, [(kind, len(shape) + outer, False) for shape, kind in all_results]
    )
    if num_lists:
        differs = differs | listed.differ_in_kind(code, [(Kind.INT32, 2, False)] * num_lists)
    _fail_if(code, differs, api)
    if not all_results:
        return code.text("ptr null")
    dims = results.dims(0)
    counts = (
        [listed.dims(1 + k).load("i64") for k in range(len(programs))]
        if num_lists
        else [dims.load("i64")]
    )
    total = functools.reduce(operator.add, counts)
    items = dims.offset(8).load("i64") if has_items else code.integer(1)
    shared = code.call("malloc", [code.integer(programs[-1].state.size)], "ptr")
    differs, first_argument, first_result = code.value("false", "i1"), 0, 0
    for number, (program, batch) in enumerate(zip(programs, counts, strict=True)):
        shared.offset(program.state.batch).store(batch)
        if num_lists:
            shared.offset(program.state.rows).store(
                listed.buffer(1 + number).offset(_DATA).load("ptr"), align=8
            )
        own_arguments, own_results = arguments.after(first_argument), results.after(first_result)
        differs = differs | _store_arguments(
            code, program, own_arguments, shared, (batch, total), items
        )
        differs = differs | _store_results(
            code, program, own_results, shared, total if joined else batch, items
        )
        first_argument += len(program.arguments)
        first_result += 0 if joined else len(program.results)
    with code.when(differs):
        code.run("free", [shared])
    _fail_if(code, differs, api)
    times = [
        code.integer(math.ceil(each.costs[0])) + items * math.ceil(each.costs[1])
        for each in programs
    ]
    blocks, block_time = (total + (width - 1)) / width, times[0]
    if num_lists:
        blocks = listed.dims(0).load("i64")
        time = functools.reduce(
            operator.add, (batch * each for batch, each in zip(counts, times, strict=True))
        )
        block_time = time / ((total > 1).where(total, 1))
        shared.offset(State.ORDER).store(listed.buffer(0).offset(_DATA).load("ptr"), align=8)
    shared.offset(State.ITEMS).store(items)
    shared.offset(State.BLOCKS).store(blocks)
    for word in (State.NEXT, State.FINISHED):
        shared.offset(word).store(code.integer(0))
    block_time = (block_time > 1).where(block_time, 1)
    distribute(code, frame, shared, blocks, block_time)
    return code.text("ptr null")


def _answer_query(code: Code, frame: Value) -> None:
    """Answers XLA's query for the interface version that the handler requests."""
    extension = frame.offset(_EXTENSION).load("ptr")
    is_query = code.emit(f"icmp ne ptr {extension.name}, null", "i1")
    code.branch(is_query, "query", "call")
    code.label("query")
    metadata = extension.offset(_METADATA).load("ptr")
    metadata.offset(_METADATA_MAJOR).store(code.value(str(API[0]), "i32"))
    metadata.offset(_METADATA_MINOR).store(code.value(str(API[1]), "i32"))
    code.lines.append("  ret ptr null")
    code.label("call")


def _fail_if(code: Code, condition: Value, api: Value) -> None:
    """Ends the call with an error if the condition is true."""
    fail, proceed = code.new_label(), code.new_label()
    code.branch(condition, fail, proceed)
    code.label(fail)
    request = code.emit("alloca [4 x i64], align 8", "ptr")
    request.store(code.integer(28))
    request.offset(8).store(code.integer(0))
    request.offset(16).store(code.value("@artix_message", "ptr"), align=8)
    request.offset(24).store(code.value(str(_INVALID_ARGUMENT), "i32"))
    create = api.offset(_ERROR_CREATE).load("ptr")
    error = code.emit(f"call ptr {create.name}(ptr {request.name})", "ptr")
    code.lines.append(f"  ret ptr {error.name}")
    code.label(proceed)


def _differ(code: Code, dims: Value, expected: list[Value | int]) -> Value:
    differs = code.value("false", "i1")
    for axis, size in enumerate(expected):
        differs = differs | dims.offset(8 * axis).load("i64").differs(size)
    return differs


def _store_arguments(
    code: Code,
    program: Interface,
    arguments: _Buffers,
    shared: Value,
    batches: tuple[Value, Value],
    items: Value,
) -> Value:
    """Stores the addresses and strides of arguments; returns whether a dimension is not as
    expected.

    ``batches`` are the numbers of rows of the program and of all programs.
    """
    differs = code.value("false", "i1")
    for index, (shape, kind, level, has_all_rows) in enumerate(program.arguments):
        batch = batches[has_all_rows]
        buffer, words = arguments.buffer(index), shared.offset(program.state.argument(index))
        size = math.prod(shape) * BYTES[kind]
        dims = buffer.offset(_DIMS).load("ptr")
        words.store(buffer.offset(_DATA).load("ptr"), align=8)
        if level == 0:
            differs = differs | _differ(code, dims, list(shape))
            continue
        if level == 1:
            differs = differs | _differ(code, dims, [batch, *shape])
            words.offset(8).store(code.integer(size))
            continue
        has_robots = buffer.offset(_RANK).load("i64").equals(len(shape) + 2)
        # An argument of items that all robots share has no axis of robots; its stride is zero.
        first = dims.load("i64")
        differs = differs | (has_robots & first.differs(batch))
        rest = dims.offset(has_robots.where(code.integer(8), 0))
        differs = differs | _differ(code, rest, [items, *shape])
        words.offset(8).store(has_robots.where(items * size, 0))
        words.offset(16).store(code.integer(size))
    return differs


def _store_results(
    code: Code, program: Interface, results: _Buffers, shared: Value, batch: Value, items: Value
) -> Value:
    """Stores the addresses of results; returns whether a dimension is not as expected."""
    differs = code.value("false", "i1")
    for index, (shape, _) in enumerate(program.results):
        buffer = results.buffer(index)
        shared.offset(program.state.result(index)).store(buffer.offset(_DATA).load("ptr"), align=8)
        axes: list[Value | int] = [batch, items] if program.has_items else [batch]
        differs = differs | _differ(code, results.dims(index), [*axes, *shape])
    return differs
