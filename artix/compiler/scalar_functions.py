"""Functions of scalars with their algebraic simplifications, by the names of JAX's primitives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from artix.compiler.known_arrays import ELEMENTWISE
from artix.compiler.scalar_builder import CONSTANTS, FALSE, ONE, TRUE, ZERO, ScalarBuilder, UnsupportedOperation
from artix.compiler.scalar_choices import compare, extremum, logical, negation, select
from artix.compiler.scalar_program import Kind, Op

Binary: TypeAlias = Callable[[ScalarBuilder, int, Iterable[int], Iterable[int]], list[int]]
"""Builds scalars from pairs of operands of one kind."""

Unary: TypeAlias = Callable[[ScalarBuilder, int, Iterable[int]], list[int]]

_CONVERT = int(Op.CONVERT)
_NOT_NEGATIVE = {int(op) for op in (Op.ABS, Op.SQRT, Op.RSQRT, Op.EXP, Op.COSH)}


#: Functions of one float, with 1 for odd and 2 for even ones.
_PARITIES = {
    **dict.fromkeys(("sqrt", "rsqrt", "floor", "ceil", "acos", "exp", "expm1", "log", "log1p"), 0),
    **dict.fromkeys(("sign", "sin", "tan", "asin", "atan", "sinh", "tanh", "cbrt"), 1),
    **dict.fromkeys(("abs", "cos", "cosh"), 2),
}


def function_of(name: str, builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    """A function of floats, or the absolute value or sign of integers."""
    operation, numeric, parity = int(Op[name.upper()]), ELEMENTWISE[name], _PARITIES[name]
    return [_function(builder, kind, operation, numeric, parity, x) for x in operands]


def _function(
    builder: ScalarBuilder, kind: int, operation: int, numeric: Callable[..., Any], parity: int, x: int
) -> int:
    if x >= CONSTANTS:
        return builder.fold(numeric, kind, kind, x)
    sign = x & 1
    if sign and operation in (Op.FLOOR, Op.CEIL):
        return builder.make(kind, Op.CEIL if operation == Op.FLOOR else Op.FLOOR, x ^ 1) ^ 1
    if parity:
        x ^= sign
    if operation == Op.ABS and kind >= Kind.FLOAT32:
        parts = builder.operations[x >> 1]
        if parts[0] in _NOT_NEGATIVE or (parts[0] == Op.MUL and parts[1] == parts[2]):
            return x
    return builder.make(kind, operation, x) ^ (sign if parity == 1 else 0)


def round_to_even(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    """Nearest integers, halves to even."""
    return [_function(builder, kind, Op.ROUND, np.round, 1, x) for x in operands]


def round_away_from_zero(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    """Nearest integers, halves away from zero."""
    results = []
    for x in operands:
        if x >= CONSTANTS:
            value = builder.value(x)
            if math.isfinite(value):
                value = math.copysign(math.floor(abs(value)) + (abs(value) % 1 >= 0.5), value)
            results.append(builder.constant(value, kind))
            continue
        (size,) = function_of("abs", builder, kind, (x,))
        (down,) = function_of("floor", builder, kind, (size,))
        (rest,) = builder.subtract(kind, (size,), (down,))
        less = compare(builder, kind, Op.LT, rest, builder.constant(0.5, kind))
        (up,) = builder.add(kind, (down,), (ONE[kind],))
        rounded = select(builder, kind, less, down, up)
        negative = compare(builder, kind, Op.LT, x, ZERO[kind])
        results.append(select(builder, kind, negative, builder.negate(kind, (rounded,))[0], rounded))
    return results


def is_finite(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    """Whether floats are neither infinite nor NaN."""
    results = []
    for x in operands:
        if x >= CONSTANTS:
            results.append(TRUE if math.isfinite(builder.value(x)) else FALSE)
        else:
            results.append(builder.make(Kind.BOOL, Op.IS_FINITE, x & -2))
    return results


def convert(builder: ScalarBuilder, source: int, target: int, operands: Sequence[int]) -> Sequence[int]:
    """Scalars converted to another kind."""
    if source == target:
        return operands
    if target == Kind.BOOL:
        return [compare(builder, source, Op.NE, x, ZERO[source]) for x in operands]
    return [_convert(builder, target, x) for x in operands]


def _convert(builder: ScalarBuilder, target: int, x: int) -> int:
    if x >= CONSTANTS:
        value = builder.value(x)
        if target == Kind.INT32:
            return builder.constant(int(np.float64(value).astype(np.int32)), target)
        return builder.constant(float(np.float32(value) if target == Kind.FLOAT32 else value), target)
    sign = x & 1 if target >= Kind.FLOAT32 else 0
    x ^= sign
    operation = builder.operations[x >> 1]
    if operation[0] == _CONVERT and builder.kind(operation[1]) == Kind.BOOL:
        x = operation[1]  # 0 and 1 are the same in all kinds.
    return builder.make(target, _CONVERT, x, target) ^ sign


def power(builder: ScalarBuilder, kind: int, x: int, y: int) -> int:
    """A float to the power of another."""
    if y >= CONSTANTS:
        if x >= CONSTANTS:
            return builder.fold(np.power, kind, kind, x, y)
        exponent = builder.value(y)
        if exponent in (0, 1, 2, 3, -1, -2):
            return integer_power(builder, kind, (x,), int(exponent))[0]
        if exponent == 0.5:
            return function_of("sqrt", builder, kind, (x,))[0]
    return builder.make(kind, Op.POW, x, y)


def integer_power(builder: ScalarBuilder, kind: int, operands: Iterable[int], exponent: int) -> list[int]:
    """Floats to the power of a known integer, by repeated squaring."""
    square = list(operands)
    if exponent == 0:
        return [ONE[kind]] * len(square)
    result: list[int] | None = None
    remaining = abs(exponent)
    while remaining:
        if remaining & 1:
            result = square if result is None else builder.multiply(kind, result, square)
        remaining >>= 1
        if remaining:
            square = builder.multiply(kind, square, square)
    assert result is not None
    return result if exponent > 0 else builder.divide(kind, (ONE[kind],) * len(result), result)


def arc_tangents(builder: ScalarBuilder, kind: int, left: Iterable[int], right: Iterable[int]) -> list[int]:
    """The angles of the vectors (right, left)."""
    angles = []
    for y, x in zip(left, right, strict=False):
        if y >= CONSTANTS and x >= CONSTANTS:
            angles.append(builder.fold(np.arctan2, kind, kind, y, x))
            continue
        sign = y & 1 if y != ZERO[kind] else 0
        angles.append(builder.make(kind, Op.ATAN2, y ^ sign, x) ^ sign)
    return angles


def integer(builder: ScalarBuilder, operation: int, a: int, b: int) -> int:
    """A sum, difference or product of integers."""
    kind, numeric = int(Kind.INT32), {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply}[Op(operation)]
    if a >= CONSTANTS and b >= CONSTANTS:
        return builder.fold(numeric, kind, kind, a, b)
    if operation != Op.SUB and a > b:
        a, b = b, a
    if b == ZERO[kind]:
        return b if operation == Op.MUL else a
    if (operation == Op.MUL and b == ONE[kind]) or (operation == Op.SUB and a == b):
        return a if operation == Op.MUL else ZERO[kind]
    return builder.make(kind, operation, a, b)


def _common_bits(builder: ScalarBuilder, a: int, b: int) -> int:
    """The bitwise AND of two integers."""
    kind = int(Kind.INT32)
    if a >= CONSTANTS and b >= CONSTANTS:
        return builder.fold(np.bitwise_and, kind, kind, a, b)
    return ZERO[kind] if ZERO[kind] in (a, b) else builder.make(kind, Op.AND, *sorted((a, b)))


def _arithmetic(float_rule: Binary, operation: Op) -> Binary:
    def rule(builder: ScalarBuilder, kind: int, left: Iterable[int], right: Iterable[int]) -> list[int]:
        if kind >= Kind.FLOAT32:
            return float_rule(builder, kind, left, right)
        if kind != Kind.INT32 or operation == Op.DIV:
            raise UnsupportedOperation(f"{operation.name} of {Kind(kind).name}")
        return [integer(builder, operation, a, b) for a, b in zip(left, right, strict=False)]

    return rule


def _of_pairs(function: Callable[..., int], operation: Op, swap: bool = False) -> Binary:
    """Applies a function of a builder, a kind, the operation and a pair of scalars."""

    def rule(builder: ScalarBuilder, kind: int, left: Iterable[int], right: Iterable[int]) -> list[int]:
        pairs = zip(right, left, strict=False) if swap else zip(left, right, strict=False)
        return [function(builder, kind, operation, a, b) for a, b in pairs]

    return rule


def _logical(operation: Op) -> Binary:
    def rule(builder: ScalarBuilder, kind: int, left: Iterable[int], right: Iterable[int]) -> list[int]:
        if kind == Kind.INT32 and operation == Op.AND:
            return [_common_bits(builder, a, b) for a, b in zip(left, right, strict=False)]
        if kind != Kind.BOOL:
            raise UnsupportedOperation(f"{operation.name} of bits")
        return [logical(builder, operation, a, b) for a, b in zip(left, right, strict=False)]

    return rule


BINARY: dict[str, Binary] = {
    "add": _arithmetic(ScalarBuilder.add, Op.ADD),
    "add_any": _arithmetic(ScalarBuilder.add, Op.ADD),
    "sub": _arithmetic(ScalarBuilder.subtract, Op.SUB),
    "mul": _arithmetic(ScalarBuilder.multiply, Op.MUL),
    "div": _arithmetic(ScalarBuilder.divide, Op.DIV),
    "max": _of_pairs(extremum, Op.MAX),
    "min": _of_pairs(extremum, Op.MIN),
    "lt": _of_pairs(compare, Op.LT),
    "le": _of_pairs(compare, Op.LE),
    "gt": _of_pairs(compare, Op.LT, swap=True),
    "ge": _of_pairs(compare, Op.LE, swap=True),
    "eq": _of_pairs(compare, Op.EQ),
    "ne": _of_pairs(compare, Op.NE),
    "and": _logical(Op.AND),
    "or": _logical(Op.OR),
    "xor": _logical(Op.XOR),
    "atan2": arc_tangents,
}


def _negatives(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    if kind >= Kind.FLOAT32:
        return builder.negate(kind, operands)
    return [integer(builder, Op.SUB, ZERO[Kind.INT32], x) for x in operands]


def _negations(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    if kind != Kind.BOOL:
        raise UnsupportedOperation("NOT of bits")
    return [negation(builder, x) for x in operands]


def _squares(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    operands = list(operands)
    return BINARY["mul"](builder, kind, operands, operands)


UNARY: dict[str, Unary] = {
    **{name: functools.partial(function_of, name) for name in _PARITIES},
    "neg": _negatives,
    "not": _negations,
    "square": _squares,
    "is_finite": is_finite,
}
