"""Builds functions in LLVM IR from Python expressions on vectors of any width."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

#: Bits of LLVM's types of scalars.
BITS = {"i1": 1, "i8": 8, "i32": 32, "i64": 64, "float": 32, "double": 64, "ptr": 64}
_FLOATS = ("float", "double")


def literal(number: float, scalar: str) -> str:
    """A number in LLVM IR; floats are written as the bits of the double of the same value."""
    if scalar in _FLOATS:
        with np.errstate(over="ignore"):
            rounded = float(np.float32(number)) if scalar == "float" else float(number)
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    integer = int(number)
    return str(integer - 2**32 if scalar == "i32" and integer >= 2**31 else integer)


def type_of(scalar: str, width: int) -> str:
    """The type of ``width`` lanes: a vector, or for one lane the scalar itself."""
    return scalar if width == 1 else f"<{width} x {scalar}>"


def constant(number: float, scalar: str, width: int) -> str:
    """A number in all lanes."""
    text = literal(number, scalar)
    return text if width == 1 else f"splat ({scalar} {text})"


def suffix_of(scalar: str, width: int) -> str:
    """The type as it appears in names of LLVM's intrinsics."""
    name = {"float": "f32", "double": "f64"}.get(scalar, scalar)
    return name if width == 1 else f"v{width}{name}"


class Value:
    """The result of an instruction, of ``width`` lanes. Arithmetic with it appends instructions to
    its code.

    Each operation is rounded separately: none are fused.
    """

    __slots__ = ("code", "name", "scalar", "width")

    def __init__(self, code: Code, name: str, scalar: str, width: int) -> None:
        self.code, self.name, self.scalar, self.width = code, name, scalar, width

    @property
    def type(self) -> str:
        """Its type in LLVM IR."""
        return type_of(self.scalar, self.width)

    def like(self, other: Value | float) -> Value:
        """``other`` as a value, a number as a constant of this type."""
        if isinstance(other, Value):
            return other
        return Value(self.code, constant(other, self.scalar, self.width), self.scalar, self.width)

    def _binary(
        self,
        float_operation: str,
        integer_operation: str,
        other: Value | float,
        reverse: bool = False,
    ) -> Value:
        first, second = (self.like(other), self) if reverse else (self, self.like(other))
        operation = float_operation if self.scalar in _FLOATS else integer_operation
        return self.code.emit(
            f"{operation} {self.type} {first.name}, {second.name}", self.scalar, self.width
        )

    def _compare(self, float_predicate: str, integer_predicate: str, other: Value | float) -> Value:
        operation = (
            f"fcmp {float_predicate}" if self.scalar in _FLOATS else f"icmp {integer_predicate}"
        )
        return self.code.emit(
            f"{operation} {self.type} {self.name}, {self.like(other).name}", "i1", self.width
        )

    def __add__(self, other: Value | float) -> Value:
        return self._binary("fadd", "add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._binary("fsub", "sub", other)

    def __rsub__(self, other: float) -> Value:
        return self._binary("fsub", "sub", other, reverse=True)

    def __mul__(self, other: Value | float) -> Value:
        return self._binary("fmul", "mul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._binary("fdiv", "sdiv", other)

    def __rtruediv__(self, other: float) -> Value:
        return self._binary("fdiv", "sdiv", other, reverse=True)

    def __and__(self, other: Value | float) -> Value:
        return self._binary("", "and", other)

    def __or__(self, other: Value | float) -> Value:
        return self._binary("", "or", other)

    def __xor__(self, other: Value | float) -> Value:
        return self._binary("", "xor", other)

    def __lshift__(self, bits: int) -> Value:
        return self._binary("", "shl", bits)

    def __rshift__(self, bits: int) -> Value:
        """The arithmetic shift to the right."""
        return self._binary("", "ashr", bits)

    def __lt__(self, other: Value | float) -> Value:
        return self._compare("olt", "slt", other)

    def __gt__(self, other: Value | float) -> Value:
        return self._compare("ogt", "sgt", other)

    def __le__(self, other: Value | float) -> Value:
        return self._compare("ole", "sle", other)

    def __ge__(self, other: Value | float) -> Value:
        return self._compare("oge", "sge", other)

    def equals(self, other: Value | float) -> Value:
        """Whether they are equal; false for NaN."""
        return self._compare("oeq", "eq", other)

    def differs(self, other: Value | float) -> Value:
        """Whether they are not equal; true for NaN."""
        return self._compare("une", "ne", other)

    def __neg__(self) -> Value:
        if self.scalar not in _FLOATS:
            return 0 - self
        return self.code.emit(f"fneg {self.type} {self.name}", self.scalar, self.width)

    def where(self, then: Value, otherwise: Value | float) -> Value:
        """``then`` in the lanes in which this is true, ``otherwise`` in the others."""
        other = then.like(otherwise)
        text = f"select {self.type} {self.name}, {then.type} {then.name}, {then.type} {other.name}"
        return self.code.emit(text, then.scalar, then.width)

    def cast(self, operation: str, scalar: str) -> Value:
        """The result of one of LLVM's conversions."""
        text = f"{operation} {self.type} {self.name} to {type_of(scalar, self.width)}"
        return self.code.emit(text, scalar, self.width)

    def intrinsic(self, name: str, *others: Value | float) -> Value:
        """The result of an intrinsic whose operands and result are of this type."""
        operands = [self, *(self.like(other) for other in others)]
        return self.code.call(
            f"llvm.{name}.{suffix_of(self.scalar, self.width)}", operands, self.scalar, self.width
        )

    def times_plus(self, factor: Value | float, summand: Value | float) -> Value:
        """``self * factor + summand``, rounded once."""
        return self.intrinsic("fma", factor, summand)

    def offset(self, count: Value | int, scalar: str = "i8") -> Value:
        """This pointer plus ``count`` scalars."""
        index = count.name if isinstance(count, Value) else count
        return self.code.emit(f"getelementptr {scalar}, ptr {self.name}, i64 {index}", "ptr", 1)

    def load(self, scalar: str, width: int = 1, align: int = 0) -> Value:
        """The value that this pointer points to."""
        align = align or BITS[scalar] // 8
        return self.code.emit(
            f"load {type_of(scalar, width)}, ptr {self.name}, align {align}", scalar, width
        )

    def number(self, place: Value | int) -> Value:
        """A number out of the list of i32 to which this points, as i64."""
        return self.offset(place, "i32").load("i32").cast("zext", "i64")

    def store(self, value: Value, align: int = 0) -> None:
        """Stores the value at this pointer."""
        align = align or BITS[value.scalar] // 8
        self.code.lines.append(f"  store {value.type} {value.name}, ptr {self.name}, align {align}")

    def splat(self, width: int) -> Value:
        """This scalar in all lanes."""
        if width == 1:
            return self
        vector = type_of(self.scalar, width)
        inserted = self.code.instruction(
            f"insertelement {vector} poison, {self.scalar} {self.name}, i64 0"
        )
        text = (
            f"shufflevector {vector} {inserted}, {vector} poison, <{width} x i32> zeroinitializer"
        )
        return self.code.emit(text, self.scalar, width)

    def shuffle(self, other: Value, lanes: Sequence[int]) -> Value:
        """Lanes of this and ``other``, which are numbered consecutively; -1 leaves a lane
        undefined.
        """
        mask = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
        text = (
            f"shufflevector {self.type} {self.name}, {self.type} {other.name}, <{len(lanes)} x "
            f"i32> <{mask}>"
        )
        return self.code.emit(text, self.scalar, len(lanes))


class Code:
    """A function under construction.

    Args:
      signature: the text between ``define`` and the body.
      calls: declarations of called functions, shared by the functions of a module.
    """

    #: Attributes of all functions are given by the module as ``#0``.
    _ATTRIBUTES: ClassVar[str] = "#0"

    def __init__(self, signature: str, calls: dict[str, str]) -> None:
        self.signature, self.calls = signature, calls
        self.lines: list[str] = []
        self.block = "entry"
        self._names = 0

    def fresh(self) -> str:
        """A new name."""
        self._names += 1
        return f"%v{self._names}"

    def instruction(self, text: str) -> str:
        """Appends an instruction and returns the name of its result."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def emit(self, text: str, scalar: str, width: int = 1) -> Value:
        """Appends an instruction with a result of this type."""
        return Value(self, self.instruction(text), scalar, width)

    def value(self, name: str, scalar: str, width: int = 1) -> Value:
        """A parameter or a global as a value."""
        return Value(self, name, scalar, width)

    def integer(self, number: int) -> Value:
        """A number as i64."""
        return Value(self, str(number), "i64", 1)

    def call(self, name: str, operands: Sequence[Value], scalar: str, width: int = 1) -> Value:
        """Calls a function with a result."""
        result = type_of(scalar, width)
        self.calls[name] = (
            f"declare {result} @{name}({', '.join(operand.type for operand in operands)})"
        )
        text = ", ".join(f"{operand.type} {operand.name}" for operand in operands)
        return self.emit(f"call {result} @{name}({text})", scalar, width)

    def run(self, name: str | Value, operands: Sequence[Value]) -> None:
        """Calls a function without a result, by name or pointer."""
        text = ", ".join(f"{operand.type} {operand.name}" for operand in operands)
        if isinstance(name, Value):
            self.lines.append(f"  call void {name.name}({text})")
            return
        self.calls[name] = (
            f"declare void @{name}({', '.join(operand.type for operand in operands)})"
        )
        self.lines.append(f"  call void @{name}({text})")

    def label(self, name: str) -> None:
        """Begins a basic block."""
        self.lines.append(f"{name}:")
        self.block = name

    def new_label(self) -> str:
        """A new name for a block."""
        return "b" + self.fresh()[2:]

    def branch(self, condition: Value, then: str, otherwise: str) -> None:
        """Ends a block with a conditional branch."""
        self.lines.append(f"  br i1 {condition.name}, label %{then}, label %{otherwise}")

    def jump(self, to: str) -> None:
        """Ends a block with a jump."""
        self.lines.append(f"  br label %{to}")

    @contextlib.contextmanager
    def loop(self, count: Value, start: int = 0, step: int = 1) -> Iterator[Value]:
        """A loop whose body is what is emitted in the context; yields the index."""
        head, body, end, before = self.new_label(), self.new_label(), self.new_label(), self.block
        self.jump(head)
        self.label(head)
        index, phi_line = Value(self, self.fresh(), "i64", 1), len(self.lines)
        self.lines.append("")
        self.branch(index < count, body, end)
        self.label(body)
        yield index
        next_index = index + step
        self.lines[phi_line] = (
            f"  {index.name} = phi i64 [ {start}, %{before} ], [ {next_index.name}, %{self.block} ]"
        )
        self.jump(head)
        self.label(end)

    @contextlib.contextmanager
    def loop_while(self, condition: Callable[[], Value]) -> Iterator[None]:
        """The same, repeated while what ``condition`` emits is true."""
        head, body, end = self.new_label(), self.new_label(), self.new_label()
        self.jump(head)
        self.label(head)
        self.branch(condition(), body, end)
        self.label(body)
        yield
        self.jump(head)
        self.label(end)

    @contextlib.contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """A conditional whose body is what is emitted in the context."""
        then, end = self.new_label(), self.new_label()
        self.branch(condition, then, end)
        self.label(then)
        yield
        self.jump(end)
        self.label(end)

    def text(self, result: str = "void") -> str:
        """The function's text, which returns ``result``."""
        body = "\n".join(self.lines)
        return (
            f"define {self.signature} {self._ATTRIBUTES} {{\nentry:\n{body}\n  ret {result}\n}}\n"
        )
