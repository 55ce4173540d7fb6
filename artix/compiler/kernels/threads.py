"""Distributes blocks of robots over the threads of XLA's pool and the calling thread."""

from __future__ import annotations

import os
from typing import ClassVar

from artix.compiler.kernels.code import Code, Value

# XLA's call frames and its table of functions
_API, _CONTEXT = 16, 24
_API_MAJOR, _ERROR_DESTROY, _SCHEDULE, _NUM_THREADS, _API_SIZE = 32, 64, 136, 144, 152

#: Nanoseconds of work from which on other threads are used, and of the smallest chunk.
_WORTH_THREADS, _MIN_CHUNK = 20_000, 5_000

#: Chunks per thread: more of them balance the load better, but each is distributed separately.
_CHUNKS_OF_THREAD = 4


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
        chunk, phi_line = code.value(code.fresh(), "i64"), len(code.lines)
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


def functions(width: int, memory: int, declarations: dict[str, str]) -> list[str]:
    """The functions of this module that the handler calls."""
    others = (release, task, pool_size, schedule)
    return [worker(width, memory, declarations), *(function(declarations) for function in others)]
