"""Functions of scalars that random numbers need beside operations on words: the inverse of the
error function for normal ones, and remainders for integers of a range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from artix.compiler.scalar_builder import CONSTANTS, ONE, ZERO, ScalarBuilder
from artix.compiler.scalar_functions import compare, convert, function_of, select
from artix.compiler.scalar_program import Kind, Op, UnsupportedOperation
from artix.compiler.scalar_words import with_the_same_bits, word

#: Coefficients of the polynomials that are the inverse of the error function divided by its
#: argument ``x``, the highest powers first: of ``w - 2.5`` in the middle and of ``sqrt(w) - 3`` in
#: the tails, with ``w = -log(1 - x^2)``.
_MIDDLE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAILS = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def inverse_error_functions(
    builder: ScalarBuilder, kind: int, operands: Iterable[int]
) -> list[int]:
    """The inverse of the error function, for float32; infinite at -1 and 1.

    Giles, *Approximating the erfinv function*, 2012.
    """
    if kind != Kind.FLOAT32:
        raise UnsupportedOperation(f"erf_inv of {Kind(kind).name.lower()}")
    return [_inverse_error_function(builder, kind, x) for x in operands]


def _inverse_error_function(builder: ScalarBuilder, kind: int, x: int) -> int:
    (square,) = builder.multiply(kind, (x,), (x,))
    (logarithm,) = function_of("log1p", builder, kind, builder.negate(kind, (square,)))
    (w,) = builder.negate(kind, (logarithm,))
    is_middle = compare(builder, kind, Op.LT, w, builder.constant(5.0, kind))
    (from_middle,) = builder.add(kind, (w,), (builder.constant(-2.5, kind),))
    (root,) = function_of("sqrt", builder, kind, (w,))
    (from_tail,) = builder.add(kind, (root,), (builder.constant(-3.0, kind),))
    middle = _polynomial(builder, kind, _MIDDLE, from_middle)
    tail = _polynomial(builder, kind, _TAILS, from_tail)
    factor = select(builder, kind, is_middle, middle, tail)
    (end,) = builder.multiply(kind, (x,), (builder.constant(math.inf, kind),))
    (inside,) = builder.multiply(kind, (factor,), (x,))
    is_end = compare(builder, kind, Op.EQ, square, ONE[kind])
    return select(builder, kind, is_end, end, inside)


def _polynomial(builder: ScalarBuilder, kind: int, coefficients: Sequence[float], x: int) -> int:
    """By Horner's rule; the coefficients of the highest powers come first."""
    value = builder.constant(coefficients[0], kind)
    for coefficient in coefficients[1:]:
        (product,) = builder.multiply(kind, (value,), (x,))
        (value,) = builder.add(kind, (product,), (builder.constant(coefficient, kind),))
    return value


def remainders(
    builder: ScalarBuilder, kind: int, firsts: Iterable[int], seconds: Iterable[int]
) -> list[int]:
    """Remainders of words divided by known numbers up to 2^16, byte by byte: what is left of the
    higher ones and a byte are below 2^24, so floats are exact.
    """
    if kind != Kind.UINT32:
        raise UnsupportedOperation(f"rem of {Kind(kind).name.lower()}")
    return [_remainder(builder, a, b) for a, b in zip(firsts, seconds, strict=False)]


def _remainder(builder: ScalarBuilder, a: int, b: int) -> int:
    word_kind, kind = int(Kind.UINT32), int(Kind.FLOAT32)
    divisor = builder.value(b) if b >= CONSTANTS else 0
    if not 0 < divisor <= 2**16:
        raise UnsupportedOperation("rem by an unknown or a large number")
    if divisor == 1:
        return ZERO[word_kind]
    by, scale = builder.constant(float(divisor), kind), builder.constant(256.0, kind)
    byte = builder.constant(0xFF, word_kind)
    rest = ZERO[kind]
    for place in (24, 16, 8, 0):
        shifted = word(builder, Op.SHIFT_RIGHT, a, builder.constant(place, word_kind))
        (lowest,) = convert(builder, word_kind, kind, (word(builder, Op.AND, shifted, byte),))
        (number,) = builder.add(kind, builder.multiply(kind, (rest,), (scale,)), (lowest,))
        (quotient,) = function_of("floor", builder, kind, builder.divide(kind, (number,), (by,)))
        (rest,) = builder.subtract(kind, (number,), builder.multiply(kind, (quotient,), (by,)))
    return with_the_same_bits(
        builder, word_kind, convert(builder, kind, int(Kind.INT32), (rest,))[0]
    )
