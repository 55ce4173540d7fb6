"""The function that XLA calls: it checks buffers, and distributes blocks of robots over the threads
of XLA's pool and the calling one.

Offsets are those of XLA's foreign function interface (``xla/ffi/api/c_api.h``, API 0.1 to 0.5) on
64-bit machines. New versions only append to its structs, which start with their size.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
import os
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from artix.compiler.kernels.code import Code, Value
from artix.compiler.scalar_program import BYTES, Kind

#: XLA's numbers of types.
_TYPES = {Kind.BOOL: 1, Kind.INT32: 4, Kind.UINT32: 8, Kind.FLOAT32: 11, Kind.FLOAT64: 12}


#: The interface version that the handler requests; the functions of the thread pool are older.
API = (0, 1)

# Call frames
_EXTENSION, _API, _CONTEXT, _STAGE = 8, 16, 24, 32
_ARGUMENTS, _RESULTS, _FRAME_SIZE = 40, 80, 168
_COUNT, _BUFFERS = 16, 32  # within both
_EXECUTE = 3
# Extensions that query metadata
_EXTENSION_TYPE, _METADATA, _METADATA_MAJOR, _METADATA_MINOR = 8, 24, 24, 28
# Buffers
_TYPE, _DATA, _RANK, _DIMS = 16, 24, 32, 40
# The table of functions
_API_MAJOR, _ERROR_CREATE, _ERROR_DESTROY = 32, 48, 64
_SCHEDULE, _NUM_THREADS, _API_SIZE = 136, 144, 152
_INVALID_ARGUMENT = 3

#: Nanoseconds of work from which on other threads are used, and of the smallest chunk.
_WORTH_THREADS, _MIN_CHUNK = 20_000, 5_000

#: Chunks per thread: more of them balance the load better, but each is distributed separately.
_CHUNKS_OF_THREAD = 4


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
            *_thread_functions(width, memory, declarations),
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
    api = frame.offset(_API).load("ptr")
    num_lists = 0 if are_joined is None else 1 + len(programs)
    listed, arguments = _Buffers(frame, _ARGUMENTS), _Buffers(frame, _ARGUMENTS, num_lists)
    results = _Buffers(frame, _RESULTS)
    joined = are_joined is not False
    has_items = programs[0].has_items
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
    differs = code.value("false", "i1")
    first_argument = 0
    first_result = 0
    for number, (program, batch) in enumerate(zip(programs, counts, strict=True)):
        shared.offset(program.state.batch).store(batch)
        if num_lists:
            shared.offset(program.state.rows).store(
                listed.buffer(1 + number).offset(_DATA).load("ptr"), align=8
            )
        its_arguments, its_results = arguments.after(first_argument), results.after(first_result)
        differs = differs | _store_arguments(
            code, program, its_arguments, shared, (batch, total), items
        )
        differs = differs | _store_results(
            code, program, its_results, shared, total if joined else batch, items
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
    blocks = (total + (width - 1)) / width
    block_time = times[0]
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
        buffer = arguments.buffer(index)
        words = shared.offset(program.state.argument(index))
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


# Threads: those of XLA's pool and the calling one


class State:
    """Words of 64 bits that all threads of a call share, on the heap, since a task may start after
    the call has ended.

    The first words belong to the call. Each program adds the address of the list of its rows, if
    they are listed, their number, and words for its arrays: the address and the strides of robots
    and items in bytes of an argument, the address of a result.

    Args:
      arguments: number of arguments of the program.
      results: number of its results.
      before: the state of the program before, if there is one.
    """

    NEXT: ClassVar[int] = 0
    """The next chunk of blocks."""
    OWNERS: ClassVar[int] = 64
    """Number of threads that still use the state."""
    FINISHED: ClassVar[int] = 72
    """Number of finished chunks."""
    CHUNKS: ClassVar[int] = 80
    BLOCKS_OF_CHUNK: ClassVar[int] = 88
    BLOCKS: ClassVar[int] = 96
    ITEMS: ClassVar[int] = 104
    ORDER: ClassVar[int] = 112
    """The address of the list of blocks, if there is one."""
    _HEAD: ClassVar[int] = 128

    def __init__(self, arguments: int, results: int, before: State | None = None) -> None:
        self.shift = 0 if before is None else before.size - self._HEAD
        """How far the words of this program are behind those that it would have as the first
        one."""
        self.rows: int = self._HEAD if before is None else before.size
        """The offset of the address of the list of rows."""
        self.batch = self.rows + 8
        """The offset of the number of rows."""
        self._results = self.rows + 16 + 24 * arguments
        self.size: int = self._results + 8 * results
        """The offset behind all words of this program and of those before."""

    def argument(self, index: int) -> int:
        """The offset of the words of an argument."""
        return self.rows + 16 + 24 * index

    def result(self, index: int) -> int:
        """The offset of the word of a result."""
        return self._results + 8 * index


def worker(width: int, memory: int, declarations: dict[str, str]) -> str:
    """``void (state)``: computes chunks of blocks until none are left."""
    code = Code("internal void @artix_work(ptr %state)", declarations)
    state = code.value("%state", "ptr")
    chunks, size, blocks = (
        state.offset(at).load("i64") for at in (State.CHUNKS, State.BLOCKS_OF_CHUNK, State.BLOCKS)
    )
    first = _add(code, state.offset(State.NEXT), 1, "acquire")
    with code.when(first < chunks):
        raw = code.call("malloc", [code.integer(memory + 64)], "ptr")
        address = (raw.cast("ptrtoint", "i64") + 63) & -64
        space = address.cast("inttoptr", "ptr")
        code.run("artix_prepare", [state, space])
        head, end, before = code.new_label(), code.new_label(), code.block
        code.jump(head)
        code.label(head)
        chunk = code.value(code.fresh(), "i64")
        phi_line = len(code.lines)
        code.lines.append("")
        start = chunk * size
        remaining = blocks - start
        count = (remaining < size).where(remaining, size)
        with code.loop(count) as block:
            code.run("artix_block", [state, space, (start + block) * width])
        _add(code, state.offset(State.FINISHED), 1, "release")
        next_chunk = _add(code, state.offset(State.NEXT), 1, "acquire")
        code.lines[phi_line] = (
            f"  {chunk.name} = phi i64 [ {first.name}, %{before} ], [ {next_chunk.name}, "
            f"%{code.block} ]"
        )
        code.branch(next_chunk < chunks, head, end)
        code.label(end)
        code.run("free", [raw])
    return code.text()


def _add(code: Code, pointer: Value, number: int, order: str) -> Value:
    """Adds atomically to a word, and returns its previous value."""
    return code.emit(f"atomicrmw add ptr {pointer.name}, i64 {number} {order}", "i64")


def release(declarations: dict[str, str]) -> str:
    """``void (state)``: releases the state for one thread; the last one frees it."""
    code = Code("internal void @artix_release(ptr %state)", declarations)
    state = code.value("%state", "ptr")
    with code.when(_add(code, state.offset(State.OWNERS), -1, "acq_rel").equals(1)):
        code.run("free", [state])
    return code.text()


def task(declarations: dict[str, str]) -> str:
    """``void (state)``: the task that the pool runs, possibly after all work is done."""
    code = Code("internal void @artix_task(ptr %state)", declarations)
    state = code.value("%state", "ptr")
    code.run("artix_work", [state])
    code.run("artix_release", [state])
    return code.text()


def pool_size(declarations: dict[str, str]) -> str:
    """``i64 (frame)``: the number of threads of XLA's pool; one if there is no pool."""
    code = Code("internal i64 @artix_pool_size(ptr %frame)", declarations)
    frame = code.value("%frame", "ptr")
    api = frame.offset(_API).load("ptr")
    unknown = (api.load("i64") < _API_SIZE) | api.offset(_API_MAJOR).load("i32").differs(0)
    known, none = code.new_label(), code.new_label()
    code.branch(unknown, none, known)
    code.label(none)
    code.lines.append("  ret i64 1")
    code.label(known)
    number = code.emit("alloca i64, align 8", "ptr")
    number.store(code.integer(1))
    _request(code, frame, api, _NUM_THREADS, [number])
    return code.text(f"i64 {number.load('i64').name}")


def schedule(declarations: dict[str, str]) -> str:
    """``void (frame, state)``: schedules a task in the pool, which then shares the state."""
    code = Code("internal void @artix_schedule(ptr %frame, ptr %state)", declarations)
    frame, state = code.value("%frame", "ptr"), code.value("%state", "ptr")
    api = frame.offset(_API).load("ptr")
    failed = _request(code, frame, api, _SCHEDULE, [code.value("@artix_task", "ptr"), state])
    with code.when(failed):
        code.run("artix_release", [state])
    return code.text()


def _request(code: Code, frame: Value, api: Value, function: int, operands: list[Value]) -> Value:
    """Calls a function of XLA's table with the context of the call, and returns whether it
    failed.
    """
    words = [
        code.integer(24 + 8 * len(operands)),
        code.integer(0),
        frame.offset(_CONTEXT).load("ptr"),
        *operands,
    ]
    error = _call_table(code, api, function, words)
    failed = code.emit(f"icmp ne ptr {error.name}, null", "i1")
    with code.when(failed):  # the caller owns the error
        _call_table(code, api, _ERROR_DESTROY, [code.integer(24), code.integer(0), error])
    return failed


def _call_table(code: Code, api: Value, function: int, words: list[Value]) -> Value:
    """Calls a function of XLA's table with a struct of these words."""
    struct = code.emit(f"alloca [{len(words)} x i64], align 8", "ptr")
    for index, word in enumerate(words):
        struct.offset(8 * index).store(word, align=8)
    address = api.offset(function).load("ptr")
    return code.emit(f"call ptr {address.name}(ptr {struct.name})", "ptr")


def distribute(code: Code, frame: Value, shared: Value, blocks: Value, block_time: Value) -> None:
    """Computes all blocks, with other threads if that takes less time.

    Args:
      code: the handler.
      frame: XLA's call frame.
      shared: the state, which is released here.
      blocks: number of blocks.
      block_time: nanoseconds per block.
    """
    worth = (blocks * block_time >= _WORTH_THREADS) & (blocks > 1)
    before, ask, known = code.block, code.new_label(), code.new_label()
    code.branch(worth, ask, known)
    code.label(ask)
    num_threads = code.call("artix_pool_size", [frame], "i64")
    code.jump(known)
    code.label(known)
    threads = code.emit(f"phi i64 [ 1, %{before} ], [ {num_threads.name}, %{ask} ]", "i64")
    is_alone = threads <= 1
    even = (blocks + (threads * _CHUNKS_OF_THREAD - 1)) / (threads * _CHUNKS_OF_THREAD)
    least = (block_time + (_MIN_CHUNK - 1)) / block_time
    size = is_alone.where(blocks, (even > least).where(even, least))
    size = (size > 1).where(size, 1)
    chunks = (blocks + (size - 1)) / size
    helpers = (threads < chunks).where(threads, chunks) - 1
    helpers = (helpers > 0).where(helpers, 0)
    for word, value in (
        (State.CHUNKS, chunks),
        (State.BLOCKS_OF_CHUNK, size),
        (State.OWNERS, helpers + 1),
    ):
        shared.offset(word).store(value)
    with code.loop(helpers):
        code.run("artix_schedule", [frame, shared])
    code.run("artix_work", [shared])
    _wait(code, shared)
    code.run("artix_release", [shared])


def _wait(code: Code, shared: Value) -> None:
    """Waits for the chunks that other threads have begun; those threads run, so this ends even if
    the pool is busy.
    """
    head, again, end = code.new_label(), code.new_label(), code.new_label()
    chunks = shared.offset(State.CHUNKS).load("i64")
    finished = shared.offset(State.FINISHED)
    code.jump(head)
    code.label(head)
    done = code.emit(f"load atomic i64, ptr {finished.name} acquire, align 8", "i64")
    code.branch(done.equals(chunks), end, again)
    code.label(again)
    if os.name == "posix":
        code.call("sched_yield", [], "i32")
    code.jump(head)
    code.label(end)


def _thread_functions(width: int, memory: int, declarations: dict[str, str]) -> list[str]:
    """The functions of threads that the handler calls."""
    others = (release, task, pool_size, schedule)
    return [worker(width, memory, declarations), *(function(declarations) for function in others)]
