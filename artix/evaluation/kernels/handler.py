"""The function that XLA calls: it checks buffers and distributes blocks of robots to threads.

Offsets are those of XLA's foreign function interface (``xla/ffi/api/c_api.h``, API 0.1 to 0.5) on 64-bit machines. New
versions only append to its structs, which start with their size.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from artix.evaluation.kernels.code import Code, Value
from artix.evaluation.kernels.plan import BYTES
from artix.evaluation.kernels.threads import State, distribute, functions
from artix.evaluation.scalar_program import Kind

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


class Signature(NamedTuple):
    """The expected shapes, kinds and levels of buffers."""

    arguments: tuple[tuple[tuple[int, ...], Kind, int], ...]
    results: tuple[tuple[tuple[int, ...], Kind], ...]
    has_items: bool
    numbered: tuple[bool, ...] | None = None
    """For each argument, whether its rows are selected by a list, which is then the first buffer; so are those of
    results. Further arguments, after all others, may be the memory of the results."""


def handler(
    signature: Signature,
    state: State,
    width: int,
    memory: int,
    costs: tuple[float, float],
    declarations: dict[str, str],
) -> str:
    """The function ``artix_handler`` and what it calls, except ``artix_prepare`` and ``artix_block``.

    Args:
      signature: the expected buffers.
      state: the layout of the state.
      width: robots per block.
      memory: bytes of a task's memory.
      costs: nanoseconds per block, and per item of a block.
      declarations: declarations of called functions.
    """
    message = "buffers do not have the shapes and types that the kernel was made for\\00"
    length = len(message) - 2
    return "\n".join(
        [
            f'@artix_message = internal constant [{length} x i8] c"{message}"',
            *functions(width, memory, declarations),
            _handler(signature, state, width, costs, declarations),
        ]
    )


class _Buffers:
    """The buffers of the arguments or of the results of a call."""

    def __init__(self, frame: Value, offset: int, skipped: int = 0) -> None:
        self.count = frame.offset(offset + _COUNT).load("i64")
        self._list, self._skipped = frame.offset(offset + _BUFFERS).load("ptr"), skipped

    def buffer(self, index: int) -> Value:
        return self._list.offset(8 * (index + self._skipped)).load("ptr")

    def differ_in_kind(self, code: Code, kinds: list[tuple[Kind, int, bool]]) -> Value:
        """Whether a type or rank is not as expected; the flag permits one more dimension."""
        differs = code.value("false", "i1")
        for index, (kind, rank, or_more) in enumerate(kinds):
            buffer = self.buffer(index)
            differs = differs | buffer.offset(_TYPE).load("i32").differs(_TYPES[kind])
            buffer_rank = buffer.offset(_RANK).load("i64")
            differs_in_rank = buffer_rank.differs(rank)
            differs = differs | (differs_in_rank & buffer_rank.differs(rank + 1) if or_more else differs_in_rank)
        return differs


def _handler(
    signature: Signature, state: State, width: int, costs: tuple[float, float], declarations: dict[str, str]
) -> str:
    code = Code("ptr @artix_handler(ptr %frame)", declarations)
    frame = code.value("%frame", "ptr")
    _answer_query(code, frame)
    code.branch(frame.offset(_STAGE).load("i32").equals(_EXECUTE), "execute", "done")
    code.label("done")
    code.lines.append("  ret ptr null")
    code.label("execute")
    api = frame.offset(_API).load("ptr")
    skipped = 0 if signature.numbered is None else 1
    arguments, results = _Buffers(frame, _ARGUMENTS, skipped), _Buffers(frame, _RESULTS)
    count = len(signature.arguments) + skipped
    differs_in_count = arguments.count.differs(count)
    if skipped:
        differs_in_count = differs_in_count & arguments.count.differs(count + len(signature.results))
    differs = (frame.load("i64") < _FRAME_SIZE) | differs_in_count
    _fail_if(code, differs | results.count.differs(len(signature.results)), api)
    outer = 2 if signature.has_items else 1
    differs = arguments.differ_in_kind(
        code, [(kind, len(shape) + min(level, 1), level == 2) for shape, kind, level in signature.arguments]
    )
    differs_in_results = results.differ_in_kind(
        code, [(kind, len(shape) + outer, False) for shape, kind in signature.results]
    )
    if skipped:
        differs = differs | arguments.buffer(-1).offset(_TYPE).load("i32").differs(_TYPES[Kind.INT32])
        differs = differs | arguments.buffer(-1).offset(_RANK).load("i64").differs(1)
    _fail_if(code, differs | differs_in_results, api)
    if not signature.results:
        return code.text("ptr null")
    dims = results.buffer(0).offset(_DIMS).load("ptr")
    total = dims.load("i64")
    numbers = arguments.buffer(-1) if skipped else None
    batch = total if numbers is None else numbers.offset(_DIMS).load("ptr").load("i64")
    items = dims.offset(8).load("i64") if signature.has_items else code.integer(1)
    shared = code.call("malloc", [code.integer(state.size)], "ptr")
    differs = _store_arguments(code, signature, state, arguments, shared, (batch, total), items)
    differs = differs | _store_results(code, signature, state, results, shared, total, items)
    if numbers is not None:
        shared.offset(State.ROWS).store(numbers.offset(_DATA).load("ptr"), align=8)
    with code.when(differs):
        code.run("free", [shared])
    _fail_if(code, differs, api)
    blocks = (batch + (width - 1)) / width
    shared.offset(State.BATCH).store(batch)
    shared.offset(State.ITEMS).store(items)
    shared.offset(State.BLOCKS).store(blocks)
    for word in (State.NEXT, State.FINISHED):
        shared.offset(word).store(code.integer(0))
    block_time = code.integer(math.ceil(costs[0])) + items * math.ceil(costs[1])
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
    signature: Signature,
    state: State,
    arguments: _Buffers,
    shared: Value,
    batches: tuple[Value, Value],
    items: Value,
) -> Value:
    """Stores the addresses and strides of arguments; returns whether a dimension is not as expected.

    ``batches`` are the numbers of robots that are evaluated, and of rows of arguments whose rows are numbered.
    """
    differs = code.value("false", "i1")
    for index, (shape, kind, level) in enumerate(signature.arguments):
        batch = batches[signature.numbered is not None and signature.numbered[index]]
        buffer, words = arguments.buffer(index), shared.offset(state.argument(index))
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
    code: Code, signature: Signature, state: State, results: _Buffers, shared: Value, batch: Value, items: Value
) -> Value:
    """Stores the addresses of results; returns whether a dimension is not as expected."""
    differs = code.value("false", "i1")
    for index, (shape, _) in enumerate(signature.results):
        buffer = results.buffer(index)
        shared.offset(state.result(index)).store(buffer.offset(_DATA).load("ptr"), align=8)
        axes: list[Value | int] = [batch, items] if signature.has_items else [batch]
        differs = differs | _differ(code, buffer.offset(_DIMS).load("ptr"), [*axes, *shape])
    return differs
