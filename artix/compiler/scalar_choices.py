"""Comparisons, logical operations, extrema and selections of scalars."""

from __future__ import annotations

import math

import numpy as np

from artix.compiler.scalar_builder import CONSTANTS, FALSE, TRUE, ZERO, ScalarBuilder
from artix.compiler.scalar_program import Kind, Op

_SELECT, _NOT, _CONVERT = int(Op.SELECT), int(Op.NOT), int(Op.CONVERT)


def extremum(builder: ScalarBuilder, kind: int, operation: int, a: int, b: int) -> int:
    """The minimum or maximum of two numbers or bools."""
    if a == b:
        return a
    if kind == Kind.BOOL:
        return logical(builder, Op.AND if operation == Op.MIN else Op.OR, a, b)
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


def bounds(builder: ScalarBuilder, x: int) -> tuple[float, float]:
    """The smallest and the largest value that an integer may have, as far as constants bound it."""
    if x >= CONSTANTS:
        return builder.value(x), builder.value(x)
    operation, *operands = builder.operations[x >> 1]
    if operation in (Op.MIN, Op.MAX):
        choose = min if operation == Op.MIN else max
        (a, b), (c, d) = (bounds(builder, y) for y in operands)
        return choose(a, c), choose(b, d)
    if operation == Op.ADD and operands[1] >= CONSTANTS:
        (a, b), c = bounds(builder, operands[0]), builder.value(operands[1])
        return a + c, b + c
    return -math.inf, math.inf


_COMPARISONS = {int(Op.LT): np.less, int(Op.LE): np.less_equal, int(Op.EQ): np.equal, int(Op.NE): np.not_equal}


def compare(builder: ScalarBuilder, kind: int, operation: int, a: int, b: int) -> int:
    """A comparison of two numbers or bools."""
    if kind == Kind.BOOL:
        return _compare_bools(builder, operation, a, b)
    numeric, ordered = _COMPARISONS[operation], operation in (Op.LT, Op.LE)
    if a >= CONSTANTS and b >= CONSTANTS:
        return builder.fold(numeric, kind, Kind.BOOL, a, b)
    if operation == Op.LT and (a == b or _never_less(builder, kind, a, b)):
        return FALSE
    for flag, other, swapped in ((a, b, False), (b, a, True)):
        parts = builder.operation(flag)
        if other >= CONSTANTS and parts and parts[0] == _CONVERT and builder.kind(parts[1]) == Kind.BOOL:
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
    """Whether ``a < b`` is impossible because one side is infinite, or by the bounds of integers."""
    if kind == Kind.INT32:
        return bounds(builder, a)[0] >= bounds(builder, b)[1]
    return (a >= CONSTANTS and builder.value(a) == math.inf) or (b >= CONSTANTS and builder.value(b) == -math.inf)


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
    if b < CONSTANTS and (builder.operations[b >> 1] == (_NOT, a) or builder.operations[a >> 1] == (_NOT, b)):
        return FALSE if operation == Op.AND else TRUE
    return builder.make(Kind.BOOL, operation, a, b)
