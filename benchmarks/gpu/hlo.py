"""Reads the text of programs that XLA compiled for a GPU: the kernels they launch, and the bytes
these move."""

from __future__ import annotations

import collections
import dataclasses
import math
import re

_BYTES = {
    "pred": 1,
    "s8": 1,
    "u8": 1,
    "s16": 2,
    "u16": 2,
    "bf16": 2,
    "f16": 2,
    "s32": 4,
    "u32": 4,
    "f32": 4,
}
_BYTES |= {"s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16}
_SHAPE = re.compile(rf"\b({'|'.join(_BYTES)})\[([\d,]*)\]")

#: What names or regroups arrays without a kernel.
_FREE = {
    "parameter",
    "constant",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "after-all",
    "partition-id",
    "replica-id",
}
_FREE |= {"opt-barrier", "async-done", "copy-done"}
#: What hands on, within a kernel, only those entries that are asked for.
_MOVES = {"bitcast", "reshape", "transpose", "copy", "convert"}


@dataclasses.dataclass(frozen=True)
class Instruction:
    """A line of a computation."""

    name: str
    shape: str
    operation: str
    operands: tuple[str, ...]
    attributes: str
    is_root: bool

    def called(self, *names: str) -> str | None:
        """The computation that one of these attributes names."""
        found = re.search(rf"(?:{'|'.join(names)})=%?([\w.\-]+)", self.attributes)
        return found.group(1) if found else None


@dataclasses.dataclass(frozen=True)
class Launch:
    """A kernel of a program.

    Attributes:
      name: name of its instruction.
      kind: the instruction, and the target of a custom call.
      times: number of runs; loops of unknown length count once.
      bytes: bytes that it reads and writes in each run.
    """

    name: str
    kind: str
    times: int
    bytes: int


def launches(text: str) -> list[Launch]:
    """All kernels of a compiled program."""
    computations, entry = _parse(text)
    found: list[Launch] = []
    _collect(computations, entry, 1, found)
    return found


def _parse(text: str) -> tuple[dict[str, list[Instruction]], str]:
    computations: dict[str, list[Instruction]] = {}
    entry, current = "", None
    for line in text.splitlines():
        if line and not line[0].isspace():
            head = re.match(r"(ENTRY )?%([\w.\-]+) \(.*\{\s*$", line)
            current = computations.setdefault(head.group(2), []) if head else None
            entry = head.group(2) if head and head.group(1) else entry
            continue
        instruction = _instruction(line) if current is not None else None
        if current is not None and instruction is not None:
            current.append(instruction)
    return computations, entry


def _instruction(line: str) -> Instruction | None:
    head = re.match(r"\s+(ROOT )?%([\w.\-]+) = ", line)
    if head is None:
        return None
    rest = line[head.end() :]
    length = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    shape, rest = rest[:length], rest[length + 1 :]
    operation = re.match(r"([a-z][a-z0-9\-]*)\(", rest)
    if operation is None:
        return None
    end = _closing(rest, operation.end() - 1)
    inside = rest[operation.end() : end]
    names = (
        (inside,)
        if operation.group(1) == "parameter"
        else tuple(re.findall(r"%([\w.\-]+)", inside))
    )
    return Instruction(
        head.group(2), shape, operation.group(1), names, rest[end + 1 :], bool(head.group(1))
    )


def _closing(text: str, start: int) -> int:
    """The position of the bracket that closes the one at ``start``."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return len(text)


def _size(shape: str) -> int:
    """Bytes of an array, or of all arrays of a tuple."""
    return sum(
        _BYTES[kind] * math.prod(int(size) for size in sizes.split(",") if size)
        for kind, sizes in _SHAPE.findall(shape)
    )


def _collect(
    computations: dict[str, list[Instruction]], name: str, times: int, found: list[Launch]
) -> None:
    body = computations[name]
    shapes = {instruction.name: instruction.shape for instruction in body}
    for instruction in body:
        operation = instruction.operation
        if operation in _FREE:
            continue
        if operation == "while":
            count = re.search(r'known_trip_count":\{"n":"(\d+)"', instruction.attributes)
            inner = instruction.called("body")
            if inner:
                _collect(computations, inner, times * (int(count.group(1)) if count else 1), found)
        elif operation in ("call", "async-start") and instruction.called("to_apply", "calls"):
            _collect(computations, instruction.called("to_apply", "calls") or "", times, found)
        elif operation == "conditional":
            for branch in re.findall(r"%([\w.\-]+)", instruction.attributes):
                if branch in computations:
                    _collect(computations, branch, times, found)
        else:
            found.append(_launch(computations, instruction, shapes, times))


def _launch(
    computations: dict[str, list[Instruction]],
    instruction: Instruction,
    shapes: dict[str, str],
    times: int,
) -> Launch:
    sizes = [_size(shapes[name]) for name in instruction.operands]
    target = re.search(r'custom_call_target="([^"]+)"', instruction.attributes)
    kind = instruction.operation + (f" {target.group(1)}" if target else "")
    if instruction.operation == "fusion":
        moved = _bytes_of_fusion(computations[instruction.called("calls") or ""], sizes)
    elif instruction.operation in ("slice", "dynamic-slice", "gather"):
        moved = 2 * _size(instruction.shape)
    elif instruction.operation == "dynamic-update-slice":
        moved = 2 * sizes[1]
    else:
        moved = sum(sizes) + _size(instruction.shape)
    return Launch(instruction.name, kind, times, moved)


def _bytes_of_fusion(body: list[Instruction], sizes: list[int]) -> int:
    """Bytes that a fused kernel reads (only the slice of sliced arrays) and writes."""
    users: dict[str, list[tuple[Instruction, int]]] = collections.defaultdict(list)
    for instruction in body:
        if instruction.operation != "parameter":
            for place, name in enumerate(instruction.operands):
                users[name].append((instruction, place))

    def used(name: str, whole: int) -> int:
        total = 0
        for user, place in users[name]:
            if user.operation in ("slice", "dynamic-slice", "gather") and place == 0:
                total += _size(user.shape)
            elif user.operation in _MOVES:
                total += used(user.name, whole)
            elif user.operation != "dynamic-update-slice" or place:
                return whole
        return min(total, whole)

    parameters = [instruction for instruction in body if instruction.operation == "parameter"]
    read = sum(
        used(instruction.name, sizes[int(instruction.operands[0])]) for instruction in parameters
    )
    by_name = {instruction.name: instruction for instruction in body}
    root = next(instruction for instruction in body if instruction.is_root)
    roots = [by_name[name] for name in root.operands] if root.operation == "tuple" else [root]
    return read + sum(_written(instruction, by_name) for instruction in roots)


def _written(root: Instruction, by_name: dict[str, Instruction]) -> int:
    inner = root
    while inner.operation in ("bitcast", "reshape", "convert"):
        inner = by_name[inner.operands[0]]
    is_update = inner.operation == "dynamic-update-slice"
    return _size(by_name[inner.operands[1]].shape if is_update else root.shape)
