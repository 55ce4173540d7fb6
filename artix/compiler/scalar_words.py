"""Words of 32 bits, integers without a sign, of which random numbers are made.

Sums, differences and products wrap around. What depends on the order of words is made of operations
on signed integers and floats, so kernels need no other operations for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from artix.compiler.scalar_builder import CONSTANTS, ZERO, ScalarBuilder
from artix.compiler.scalar_program import DTYPES, Kind, Op, UnsupportedOperation

_WORD, _INTEGER = int(Kind.UINT32), int(Kind.INT32)
_ALL_BITS, _SIGN = 0xFFFFFFFF, 0x80000000

_EVALUATED: dict[int, Callable[[int, int], int]] = {
    int(Op.ADD): lambda a, b: a + b,
    int(Op.SUB): lambda a, b: a - b,
    int(Op.MUL): lambda a, b: a * b,
    int(Op.AND): lambda a, b: a & b,
    int(Op.OR): lambda a, b: a | b,
    int(Op.XOR): lambda a, b: a ^ b,
    int(Op.SHIFT_LEFT): lambda a, b: a << b,
    int(Op.SHIFT_RIGHT): lambda a, b: a >> b,
}
_COMMUTE = {int(op) for op in (Op.ADD, Op.MUL, Op.AND, Op.OR, Op.XOR)}
#: Operations that leave a word as it is where the other one is this.
_NEUTRAL = {
    **dict.fromkeys(map(int, (Op.ADD, Op.SUB, Op.OR, Op.XOR, Op.SHIFT_LEFT, Op.SHIFT_RIGHT)), 0),
    int(Op.MUL): 1,
    int(Op.AND): _ALL_BITS,
}
#: Operations that are zero where one is.
_ANNIHILATED = {int(Op.MUL), int(Op.AND)}


def word(builder: ScalarBuilder, operation: int, a: int, b: int) -> int:
    """A sum, difference, product, shift or logical operation of words."""
    if a >= CONSTANTS and b >= CONSTANTS:
        values = int(builder.value(a)), int(builder.value(b))
        return builder.constant(_EVALUATED[operation](*values) & _ALL_BITS, _WORD)
    if operation in _COMMUTE and a > b:
        a, b = b, a
    if a == b and operation in (Op.SUB, Op.XOR):
        return ZERO[_WORD]
    if a == b and operation in (Op.AND, Op.OR):
        return a
    if b >= CONSTANTS:
        value = builder.value(b)
        if value == _NEUTRAL[operation]:
            return a
        if not value and operation in _ANNIHILATED:
            return b
    return builder.make(_WORD, operation, a, b)


def shift(builder: ScalarBuilder, operation: int, a: int, b: int) -> int:
    """A word shifted by a known number of bits; by 32 or more, nothing is left.

    Raises:
      UnsupportedOperation: the number is not known.
    """
    if b < CONSTANTS:
        raise UnsupportedOperation("shift by an unknown number of bits")
    if builder.value(b) >= 32:
        return ZERO[_WORD]
    return word(builder, operation, a, b)


def complement(builder: ScalarBuilder, a: int) -> int:
    """A word with all its bits inverted."""
    return word(builder, int(Op.XOR), a, builder.constant(_ALL_BITS, _WORD))


def with_the_same_bits(builder: ScalarBuilder, target: int, a: int) -> int:
    """The scalar of another kind that has the same 32 bits."""
    source = builder.kind(a)
    if source == target:
        return a
    operation = builder.operation(a)
    if operation and operation[0] == Op.BITCAST:
        return with_the_same_bits(builder, target, operation[1])
    if a >= CONSTANTS:
        value = np.array(builder.value(a), DTYPES[Kind(source)]).view(DTYPES[Kind(target)])
        return builder.constant(value.item(), target)
    return builder.make(target, int(Op.BITCAST), a, target)


def in_order(builder: ScalarBuilder, a: int) -> int:
    """A signed integer that is less than another one where the word is: half of all words less."""
    half = builder.constant(_SIGN, _WORD)
    return with_the_same_bits(builder, _INTEGER, word(builder, int(Op.XOR), a, half))


def halves(builder: ScalarBuilder, a: int) -> Sequence[int]:
    """Signed integers, the upper 16 bits of a word and the lower ones; one if the others are
    known to be zero.
    """
    operation = builder.operation(a)
    if operation and operation[0] == Op.SHIFT_RIGHT:  # by at least one bit: not negative
        return (with_the_same_bits(builder, _INTEGER, a),)
    upper = word(builder, int(Op.SHIFT_RIGHT), a, builder.constant(16, _WORD))
    lower = word(builder, int(Op.AND), a, builder.constant(0xFFFF, _WORD))
    return [with_the_same_bits(builder, _INTEGER, x) for x in (upper, lower)]
