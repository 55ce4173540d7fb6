"""The function that XLA calls: it checks buffers and has blocks of robots done, by several threads where it pays.

Offsets are those of XLA's foreign function interface (``xla/ffi/api/c_api.h``, API 0.1 to 0.5) on machines of 64 bits;
its structs grow at their ends only, and say how long they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from artix.evaluation.kernels.code import Code, Value
from artix.evaluation.kernels.threads import State, distribute, functions
from artix.evaluation.scalar_program import Kind

#: XLA's numbers of types.
_TYPES = {Kind.BOOL: 1, Kind.INT32: 4, Kind.FLOAT32: 11, Kind.FLOAT64: 12}
_BYTES = {Kind.BOOL: 1, Kind.INT32: 4, Kind.FLOAT32: 4, Kind.FLOAT64: 8}

#: Version of the interface that the handler asks for: the functions of the thread pool are older.
API = (0, 1)

# Call frames
_EXTENSION, _API, _STAGE = 8, 16, 32
_ARGUMENTS, _RESULTS, _FRAME_SIZE = 40, 80, 168
_COUNT, _BUFFERS = 16, 32  # within both
_EXECUTE = 3
# Extensions that ask for metadata
_EXTENSION_TYPE, _METADATA, _METADATA_MAJOR, _METADATA_MINOR = 8, 24, 24, 28
# Buffers
_TYPE, _DATA, _RANK, _DIMS = 16, 24, 32, 40
# The table of functions
_ERROR_CREATE = 48
_INVALID_ARGUMENT = 3


class Signature(NamedTuple):
    """What the buffers must be."""

    arguments: tuple[tuple[tuple[int, ...], Kind, int], ...]
    results: tuple[tuple[tuple[int, ...], Kind], ...]
    has_items: bool


def handler(
    signature: Signature,
    state: State,
    width: int,
    memory: int,
    costs: tuple[float, float],
    declarations: dict[str, str],
) -> str:
    """The function ``artix_handler`` and what it calls, but for ``artix_prepare`` and ``artix_block``.

    Args:
      signature: what the buffers must be.
      state: the layout of the state.
      width: robots of a block.
      memory: bytes that a task works in.
      costs: nanoseconds of a block, and of one of its items.
      declarations: what the module calls.
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

    def __init__(self, frame: Value, place: int, count: int) -> None:
        self.count = frame.offset(place + _COUNT).load("i64")
        self._list = frame.offset(place + _BUFFERS).load("ptr")
        self._number = count

    def buffer(self, index: int) -> Value:
        return self._list.offset(8 * index).load("ptr")

    def wrong_kinds(self, code: Code, kinds: list[tuple[Kind, int, bool]]) -> Value:
        """Whether a type or a rank is not that wanted; the flag allows a rank that is greater by one."""
        wrong = code.value("false", "i1")
        for index, (kind, rank, or_more) in enumerate(kinds):
            buffer = self.buffer(index)
            wrong = wrong | buffer.offset(_TYPE).load("i32").differs(_TYPES[kind])
            found = buffer.offset(_RANK).load("i64")
            bad = found.differs(rank)
            wrong = wrong | (bad & found.differs(rank + 1) if or_more else bad)
        return wrong


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
    arguments = _Buffers(frame, _ARGUMENTS, len(signature.arguments))
    results = _Buffers(frame, _RESULTS, len(signature.results))
    wrong = frame.load("i64") < _FRAME_SIZE
    wrong = wrong | arguments.count.differs(len(signature.arguments))
    _refuse_if(code, wrong | results.count.differs(len(signature.results)), api)
    outer = 2 if signature.has_items else 1
    wrong = arguments.wrong_kinds(
        code, [(kind, len(shape) + min(level, 1), level == 2) for shape, kind, level in signature.arguments]
    )
    wrong_too = results.wrong_kinds(code, [(kind, len(shape) + outer, False) for shape, kind in signature.results])
    _refuse_if(code, wrong | wrong_too, api)
    if not signature.results:
        return code.text("ptr null")
    dims = results.buffer(0).offset(_DIMS).load("ptr")
    batch = dims.load("i64")
    items = dims.offset(8).load("i64") if signature.has_items else code.integer(1)
    shared = code.call("malloc", [code.integer(state.size)], "ptr")
    wrong = _note_arguments(code, signature, state, arguments, shared, batch, items)
    wrong = wrong | _note_results(code, signature, state, results, shared, batch, items)
    with code.when(wrong):
        code.run("free", [shared])
    _refuse_if(code, wrong, api)
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
    """XLA asks once which version of the interface the handler wants."""
    extension = frame.offset(_EXTENSION).load("ptr")
    asked = code.emit(f"icmp ne ptr {extension.name}, null", "i1")
    code.branch(asked, "query", "call")
    code.label("query")
    metadata = extension.offset(_METADATA).load("ptr")
    metadata.offset(_METADATA_MAJOR).store(code.value(str(API[0]), "i32"))
    metadata.offset(_METADATA_MINOR).store(code.value(str(API[1]), "i32"))
    code.lines.append("  ret ptr null")
    code.label("call")


def _refuse_if(code: Code, wrong: Value, api: Value) -> None:
    """Ends the call with an error."""
    refuse, proceed = code.new_label(), code.new_label()
    code.branch(wrong, refuse, proceed)
    code.label(refuse)
    request = code.emit("alloca [4 x i64], align 8", "ptr")
    request.store(code.integer(28))
    request.offset(8).store(code.integer(0))
    request.offset(16).store(code.value("@artix_message", "ptr"), align=8)
    request.offset(24).store(code.value(str(_INVALID_ARGUMENT), "i32"))
    create = api.offset(_ERROR_CREATE).load("ptr")
    error = code.emit(f"call ptr {create.name}(ptr {request.name})", "ptr")
    code.lines.append(f"  ret ptr {error.name}")
    code.label(proceed)


def _wrong_dims(code: Code, dims: Value, wanted: list[Value | int]) -> Value:
    wrong = code.value("false", "i1")
    for axis, size in enumerate(wanted):
        wrong = wrong | dims.offset(8 * axis).load("i64").differs(size)
    return wrong


def _note_arguments(
    code: Code, signature: Signature, state: State, arguments: _Buffers, shared: Value, batch: Value, items: Value
) -> Value:
    """Writes where the arguments lie; returns whether a dimension is not that wanted."""
    wrong = code.value("false", "i1")
    for index, (shape, kind, level) in enumerate(signature.arguments):
        buffer, words = arguments.buffer(index), shared.offset(state.argument(index))
        size = math.prod(shape) * _BYTES[kind]
        dims = buffer.offset(_DIMS).load("ptr")
        words.store(buffer.offset(_DATA).load("ptr"), align=8)
        if level == 0:
            wrong = wrong | _wrong_dims(code, dims, list(shape))
            continue
        if level == 1:
            wrong = wrong | _wrong_dims(code, dims, [batch, *shape])
            words.offset(8).store(code.integer(size))
            continue
        of_robots = buffer.offset(_RANK).load("i64").equals(len(shape) + 2)
        # What is not of robots has no first axis, and all robots have the same bytes.
        first = dims.load("i64")
        wrong = wrong | (of_robots & first.differs(batch))
        rest = dims.offset(of_robots.where(code.integer(8), 0))
        wrong = wrong | _wrong_dims(code, rest, [items, *shape])
        words.offset(8).store(of_robots.where(items * size, 0))
        words.offset(16).store(code.integer(size))
    return wrong


def _note_results(
    code: Code, signature: Signature, state: State, results: _Buffers, shared: Value, batch: Value, items: Value
) -> Value:
    """Writes where the results lie; returns whether a dimension is not that wanted."""
    wrong = code.value("false", "i1")
    for index, (shape, _) in enumerate(signature.results):
        buffer = results.buffer(index)
        shared.offset(state.result(index)).store(buffer.offset(_DATA).load("ptr"), align=8)
        axes: list[Value | int] = [batch, items] if signature.has_items else [batch]
        wrong = wrong | _wrong_dims(code, buffer.offset(_DIMS).load("ptr"), [*axes, *shape])
    return wrong
