"""Functions of scalars with their algebraic simplifications, by the names of JAX's primitives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from artix.compiler.known_arrays import ELEMENTWISE
from artix.compiler.scalar_builder import (
    CONSTANTS,
    FALSE,
    ONE,
    TRUE,
    ZERO,
    ScalarBuilder,
)
from artix.compiler.scalar_program import Kind, Op, UnsupportedOperation
from artix.compiler.scalar_words import (
    complement,
    halves,
    in_order,
    shift,
    with_the_same_bits,
    word,
)

_SELECT, _NOT, _CONVERT = int(Op.SELECT), int(Op.NOT), int(Op.CONVERT)


def extremum(builder: ScalarBuilder, kind: int, operation: int, a: int, b: int) -> int:
    """The minimum or maximum of two numbers or bools."""
    if a == b:
        return a
    if kind == Kind.BOOL:
        return logical(builder, Op.AND if operation == Op.MIN else Op.OR, a, b)
    if kind == Kind.UINT32:
        is_less = compare(builder, kind, Op.LT, a, b)
        return select(builder, kind, is_less, *((a, b) if operation == Op.MIN else (b, a)))
    if a > b:
        a, b = b, a
    if b >= CONSTANTS:
        if a >= CONSTANTS:
            return builder.fold(np.minimum if operation == Op.MIN else np.maximum, kind, kind, a, b)
        value = builder.value(b)
        if math.isinf(value):
            return a if (value > 0) == (operation == Op.MIN) else b
    if a & b & 1:
        return builder.make(kind, Op.MIN if operation == Op.MAX else Op.MAX, a ^ 1, b ^ 1) ^ 1
    return builder.make(kind, operation, a, b)


#: How many operations :func:`bounds` looks at: choices among the entries of an array are that many.
_MOST_SEEN = 256
#: The smallest and the largest integer.
_INTEGERS = -(2**31), 2**31 - 1
_BOUNDED = (Op.SELECT, Op.ADD, Op.MUL, Op.MIN, Op.MAX)


def bounds(builder: ScalarBuilder, x: int) -> tuple[float, float]:
    """The smallest and the largest value that an integer may have, as far as constants bound it."""
    return _bounds(builder, x, {})


def _bounds(
    builder: ScalarBuilder, x: int, seen: dict[int, tuple[float, float]]
) -> tuple[float, float]:
    if x >= CONSTANTS:
        return builder.value(x), builder.value(x)
    if x in seen:
        return seen[x]
    seen[x] = _INTEGERS
    operation, *operands = builder.operations[x >> 1]
    if len(seen) >= _MOST_SEEN or operation not in _BOUNDED:
        return _INTEGERS
    (a, b), (c, d) = (_bounds(builder, y, seen) for y in operands[-2:])
    if operation == Op.SELECT:
        ends = [a, b, c, d]
    elif operation == Op.ADD:
        ends = [a + c, b + d]
    elif operation == Op.MUL:
        ends = [a * c, a * d, b * c, b * d]
    else:
        choose = min if operation == Op.MIN else max
        ends = [choose(a, c), choose(b, d)]
    if min(ends) >= _INTEGERS[0] and max(ends) <= _INTEGERS[1]:  # Else it may wrap around.
        seen[x] = min(ends), max(ends)
    return seen[x]


_COMPARISONS = {
    int(Op.LT): np.less,
    int(Op.LE): np.less_equal,
    int(Op.EQ): np.equal,
    int(Op.NE): np.not_equal,
}


def compare(builder: ScalarBuilder, kind: int, operation: int, a: int, b: int) -> int:
    """A comparison of two numbers or bools."""
    if kind == Kind.BOOL:
        return _compare_bools(builder, operation, a, b)
    numeric, ordered = _COMPARISONS[operation], operation in (Op.LT, Op.LE)
    if kind == Kind.UINT32 and ordered:
        kind, a, b = int(Kind.INT32), in_order(builder, a), in_order(builder, b)
    if a >= CONSTANTS and b >= CONSTANTS:
        return builder.fold(numeric, kind, Kind.BOOL, a, b)
    if operation == Op.LT and (a == b or _never_less(builder, kind, a, b)):
        return FALSE
    for flag, other, swapped in ((a, b, False), (b, a, True)):
        parts = builder.operation(flag)
        if (
            other >= CONSTANTS
            and parts
            and parts[0] == _CONVERT
            and builder.kind(parts[1]) == Kind.BOOL
        ):
            either = [builder.constant(-x if flag & 1 else x, kind) for x in (1, 0)]
            pairs = [(other, x) if swapped else (x, other) for x in either]
            yes, no = (compare(builder, kind, operation, *pair) for pair in pairs)
            return select(builder, Kind.BOOL, parts[1], yes, no)
    if kind >= Kind.FLOAT32:
        if a & b & 1:
            a, b = (b ^ 1, a ^ 1) if ordered else (a ^ 1, b ^ 1)
        elif a & 1 and not ordered and b != ZERO[kind]:
            a, b = a ^ 1, b ^ 1
        elif a & 1 and not ordered:
            a ^= 1
    if not ordered and a > b:
        a, b = b, a
    return builder.make(Kind.BOOL, operation, a, b)


def _compare_bools(builder: ScalarBuilder, operation: int, a: int, b: int) -> int:
    if operation == Op.LT:
        return logical(builder, Op.AND, negation(builder, a), b)
    if operation == Op.LE:
        return logical(builder, Op.OR, negation(builder, a), b)
    differ = logical(builder, Op.XOR, a, b)
    return differ if operation == Op.NE else negation(builder, differ)


def _never_less(builder: ScalarBuilder, kind: int, a: int, b: int) -> bool:
    """Whether ``a < b`` is impossible because one side is infinite, or by the bounds of
    integers.
    """
    if kind == Kind.INT32:
        return bounds(builder, a)[0] >= bounds(builder, b)[1]
    return (a >= CONSTANTS and builder.value(a) == math.inf) or (
        b >= CONSTANTS and builder.value(b) == -math.inf
    )


def select(builder: ScalarBuilder, kind: int, which: int, yes: int, no: int) -> int:
    """``yes`` if the bool ``which`` is true, else ``no``."""
    if which >= CONSTANTS:
        return yes if which == TRUE else no
    operation = builder.operations[which >> 1]
    if operation[0] == _NOT:
        which, yes, no = operation[1], no, yes
    yes, no = _simplify_branch(builder, which, yes, 2), _simplify_branch(builder, which, no, 3)
    if yes == no:
        return yes
    if kind == Kind.BOOL:
        return _select_bool(builder, which, yes, no)
    sign = yes & no & 1
    return builder.make(kind, _SELECT, which, yes ^ sign, no ^ sign) ^ sign


def _simplify_branch(builder: ScalarBuilder, which: int, x: int, position: int) -> int:
    """A branch of a selection, with nested selections by the same bool resolved."""
    operation = builder.operation(x)
    while operation and operation[0] == _SELECT and operation[1] == which:
        x = operation[position] ^ (x & 1)
        operation = builder.operation(x)
    return x


def _select_bool(builder: ScalarBuilder, which: int, yes: int, no: int) -> int:
    if yes in (TRUE, which):
        return logical(builder, Op.OR, which, no)
    if no in (FALSE, which):
        return logical(builder, Op.AND, which, yes)
    if yes == FALSE:
        return logical(builder, Op.AND, negation(builder, which), no)
    if no == TRUE:
        return logical(builder, Op.OR, negation(builder, which), yes)
    return builder.make(Kind.BOOL, _SELECT, which, yes, no)


def negation(builder: ScalarBuilder, a: int) -> int:
    """The negation of a bool."""
    if a >= CONSTANTS:
        return TRUE if a == FALSE else FALSE
    operation = builder.operations[a >> 1]
    return operation[1] if operation[0] == _NOT else builder.make(Kind.BOOL, _NOT, a)


def logical(builder: ScalarBuilder, operation: int, a: int, b: int) -> int:
    """``AND``, ``OR`` or ``XOR`` of two bools."""
    if a > b:
        a, b = b, a
    if a == b:
        return FALSE if operation == Op.XOR else a
    if b == FALSE:
        return FALSE if operation == Op.AND else a
    if b == TRUE:
        return TRUE if operation == Op.OR else a if operation == Op.AND else negation(builder, a)
    if b < CONSTANTS and (
        builder.operations[b >> 1] == (_NOT, a) or builder.operations[a >> 1] == (_NOT, b)
    ):
        return FALSE if operation == Op.AND else TRUE
    return builder.make(Kind.BOOL, operation, a, b)


Binary: TypeAlias = Callable[[ScalarBuilder, int, Iterable[int], Iterable[int]], list[int]]
"""Builds scalars from pairs of operands of one kind."""

Unary: TypeAlias = Callable[[ScalarBuilder, int, Iterable[int]], list[int]]

_NOT_NEGATIVE = {int(op) for op in (Op.ABS, Op.SQRT, Op.RSQRT, Op.EXP, Op.COSH)}


#: Functions of one float, with 1 for odd and 2 for even ones.
_PARITIES = {
    **dict.fromkeys(("sqrt", "rsqrt", "floor", "ceil", "acos", "exp", "expm1", "log", "log1p"), 0),
    **dict.fromkeys(("sign", "sin", "tan", "asin", "atan", "sinh", "tanh", "cbrt"), 1),
    **dict.fromkeys(("abs", "cos", "cosh"), 2),
}


def function_of(name: str, builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    """A function of floats, or the absolute value or sign of integers."""
    if kind == Kind.UINT32:
        raise UnsupportedOperation(f"{name} of words")
    operation, numeric, parity = int(Op[name.upper()]), ELEMENTWISE[name], _PARITIES[name]
    return [_function(builder, kind, operation, numeric, parity, x) for x in operands]


def _function(
    builder: ScalarBuilder,
    kind: int,
    operation: int,
    numeric: Callable[..., Any],
    parity: int,
    x: int,
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
        results.append(
            select(builder, kind, negative, builder.negate(kind, (rounded,))[0], rounded)
        )
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


def convert(
    builder: ScalarBuilder, source: int, target: int, operands: Sequence[int]
) -> Sequence[int]:
    """Scalars converted to another kind."""
    if source == target:
        return operands
    if target == Kind.BOOL:
        return [compare(builder, source, Op.NE, x, ZERO[source]) for x in operands]
    if source == Kind.UINT32:
        return [_of_word(builder, target, x) for x in operands]
    if target == Kind.UINT32 and source == Kind.INT32:
        return [with_the_same_bits(builder, target, x) for x in operands]
    if target == Kind.UINT32 and source >= Kind.FLOAT32:
        raise UnsupportedOperation("conversion of floats to words")
    return [_convert(builder, target, x) for x in operands]


def _of_word(builder: ScalarBuilder, target: int, x: int) -> int:
    """A word as a signed integer or a float."""
    if target == Kind.INT32:
        return with_the_same_bits(builder, target, x)
    upper, *lower = (_convert(builder, target, half) for half in halves(builder, x))
    if not lower:
        return upper
    scale = builder.constant(65536.0, target)
    # Both parts are exact, so the sum is rounded once.
    return builder.add(target, builder.multiply(target, (upper,), (scale,)), lower)[0]


def bits(builder: ScalarBuilder, target: int, operands: Iterable[int]) -> list[int]:
    """The scalars of another kind that have the same bits."""
    return [with_the_same_bits(builder, target, x) for x in operands]


def _convert(builder: ScalarBuilder, target: int, x: int) -> int:
    if x >= CONSTANTS:
        value = builder.value(x)
        if target in (Kind.INT32, Kind.UINT32):
            return builder.constant(int(np.float64(value).astype(np.int32)), target)
        return builder.constant(
            float(np.float32(value) if target == Kind.FLOAT32 else value), target
        )
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


def integer_power(
    builder: ScalarBuilder, kind: int, operands: Iterable[int], exponent: int
) -> list[int]:
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


def arc_tangents(
    builder: ScalarBuilder, kind: int, firsts: Iterable[int], seconds: Iterable[int]
) -> list[int]:
    """The angles of the vectors (right, left)."""
    angles = []
    for y, x in zip(firsts, seconds, strict=False):
        if y >= CONSTANTS and x >= CONSTANTS:
            angles.append(builder.fold(np.arctan2, kind, kind, y, x))
            continue
        sign = y & 1 if y != ZERO[kind] else 0
        angles.append(builder.make(kind, Op.ATAN2, y ^ sign, x) ^ sign)
    return angles


def integer(builder: ScalarBuilder, operation: int, a: int, b: int) -> int:
    """A sum, difference or product of integers."""
    kind, numeric = (
        int(Kind.INT32),
        {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply}[Op(operation)],
    )
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
    def rule(
        builder: ScalarBuilder, kind: int, firsts: Iterable[int], seconds: Iterable[int]
    ) -> list[int]:
        if kind >= Kind.FLOAT32:
            return float_rule(builder, kind, firsts, seconds)
        if kind == Kind.BOOL or operation == Op.DIV:
            raise UnsupportedOperation(f"{operation.name} of {Kind(kind).name}")
        if kind == Kind.UINT32:
            return [word(builder, operation, a, b) for a, b in zip(firsts, seconds, strict=False)]
        return [integer(builder, operation, a, b) for a, b in zip(firsts, seconds, strict=False)]

    return rule


def _of_pairs(function: Callable[..., int], operation: Op, swap: bool = False) -> Binary:
    """Applies a function of a builder, a kind, the operation and a pair of scalars."""

    def rule(
        builder: ScalarBuilder, kind: int, firsts: Iterable[int], seconds: Iterable[int]
    ) -> list[int]:
        pairs = zip(seconds, firsts, strict=False) if swap else zip(firsts, seconds, strict=False)
        return [function(builder, kind, operation, a, b) for a, b in pairs]

    return rule


def _logical(operation: Op) -> Binary:
    def rule(
        builder: ScalarBuilder, kind: int, firsts: Iterable[int], seconds: Iterable[int]
    ) -> list[int]:
        if kind == Kind.INT32 and operation == Op.AND:
            return [_common_bits(builder, a, b) for a, b in zip(firsts, seconds, strict=False)]
        if kind != Kind.BOOL:
            return of_words(builder, kind, firsts, seconds)
        return [logical(builder, operation, a, b) for a, b in zip(firsts, seconds, strict=False)]

    of_words = _on_words(word, operation)
    return rule


def _on_words(function: Callable[..., int], operation: Op) -> Binary:
    """Applies a function of words to the bits of integers, with a sign or without."""

    def rule(
        builder: ScalarBuilder, kind: int, firsts: Iterable[int], seconds: Iterable[int]
    ) -> list[int]:
        words = (bits(builder, Kind.UINT32, each) for each in (firsts, seconds))
        results = [function(builder, operation, a, b) for a, b in zip(*words, strict=False)]
        return bits(builder, kind, results)

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
    "shift_left": _on_words(shift, Op.SHIFT_LEFT),
    "shift_right_logical": _on_words(shift, Op.SHIFT_RIGHT),
    "atan2": arc_tangents,
}


def _negatives(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    if kind >= Kind.FLOAT32:
        return builder.negate(kind, operands)
    if kind == Kind.UINT32:
        return [word(builder, Op.SUB, ZERO[kind], x) for x in operands]
    return [integer(builder, Op.SUB, ZERO[Kind.INT32], x) for x in operands]


def _negations(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    if kind == Kind.BOOL:
        return [negation(builder, x) for x in operands]
    words = bits(builder, Kind.UINT32, operands)
    return bits(builder, kind, [complement(builder, x) for x in words])


def _squares(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    operands = list(operands)
    return BINARY["mul"](builder, kind, operands, operands)


def _one_minus_squares(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    operands = list(operands)
    ones = [ONE[kind]] * len(operands)
    sums, differences = (BINARY[name](builder, kind, ones, operands) for name in ("add", "sub"))
    # As JAX computes it: exact to the last bit near 1.
    return BINARY["mul"](builder, kind, sums, differences)


def _logistic(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    exponentials = function_of("exp", builder, kind, builder.negate(kind, operands))
    ones = [ONE[kind]] * len(exponentials)
    return builder.divide(kind, ones, builder.add(kind, ones, exponentials))


def _binary_logarithms(builder: ScalarBuilder, kind: int, operands: Iterable[int]) -> list[int]:
    logarithms = function_of("log", builder, kind, operands)
    return builder.divide(kind, logarithms, [builder.constant(math.log(2), kind)] * len(logarithms))


UNARY: dict[str, Unary] = {
    **{name: functools.partial(function_of, name) for name in _PARITIES},
    "neg": _negatives,
    "not": _negations,
    "square": _squares,
    "one_minus_square": _one_minus_squares,  # Since JAX 0.11, of ``tanh`` and ``asin``.
    "logistic": _logistic,
    "log2": _binary_logarithms,  # Since JAX 0.11.
    "is_finite": is_finite,
}
