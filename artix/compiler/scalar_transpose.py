"""Transposes linear scalars: cotangents of results become cotangents of the inputs on which they
depend linearly.

A transpose takes as many products as the linear program itself, and one sum for each further use of
a scalar. It is found without tracing anything.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from artix.compiler.scalar_builder import CONSTANTS, ZERO, ScalarBuilder
from artix.compiler.scalar_functions import convert, select
from artix.compiler.scalar_program import (
    ONE_REFERENCE,
    TWO_REFERENCES,
    Op,
    UnsupportedOperation,
    array_operand,
)

_INPUT, _CARRIED, _ADD, _SUB = (int(op) for op in (Op.INPUT, Op.CARRIED, Op.ADD, Op.SUB))
_MUL, _DIV = int(Op.MUL), int(Op.DIV)
_SELECT, _CONVERT, _LOAD = (int(op) for op in (Op.SELECT, Op.CONVERT, Op.LOAD))


class NotLinear(UnsupportedOperation):
    """A scalar does not depend linearly on the inputs, or in a way that has no transpose here."""


def transposed(builder: ScalarBuilder, pairs: Sequence[tuple[int, int]]) -> Mapping[int, int]:
    """The cotangents of linear inputs, by reference.

    Args:
      builder: holds the scalars. Inputs of negative arguments are those in which the results are
        linear.
      pairs: references of each entry of a result and of its cotangent.

    Raises:
      NotLinear: a result does not depend linearly on these inputs.
    """
    operations, kinds, make = builder.operations, builder.kinds, builder.make
    is_linear = bytes(_linear(builder))
    cotangent_of: dict[int, int] = {}

    # Most terms are no constants, and most sums of one sign: these take the short way.
    def total(kind: int, a: int, b: int) -> int:
        if a >= CONSTANTS or b >= CONSTANTS or (a ^ b) & 1:
            return builder.add(kind, (a,), (b,))[0]
        sign = a & 1
        return make(kind, _ADD, min(a, b) ^ sign, max(a, b) ^ sign) ^ sign

    def product(kind: int, a: int, b: int) -> int:
        if a >= CONSTANTS or b >= CONSTANTS:
            return builder.multiply(kind, (a,), (b,))[0]
        return make(kind, _MUL, min(a, b) & -2, max(a, b) & -2) ^ ((a ^ b) & 1)

    def add(reference: int, cotangent: int) -> None:
        if cotangent in ZERO or reference in ZERO:
            return
        if reference >= CONSTANTS or not is_linear[reference >> 1]:
            raise NotLinear("a sum of linear and other terms")
        scalar, cotangent = reference & -2, cotangent ^ (reference & 1)
        before = cotangent_of.get(scalar)
        if before is not None:
            cotangent = total(kinds[scalar >> 1], before, cotangent)
        cotangent_of[scalar] = cotangent

    for reference, cotangent in pairs:
        add(reference, cotangent)
    for number in np.flatnonzero(np.frombuffer(is_linear, np.uint8))[::-1].tolist():
        if 2 * number not in cotangent_of:
            continue
        operation, kind = operations[number], kinds[number]
        code = operation[0]
        if code == _INPUT:
            continue
        cotangent = cotangent_of.pop(2 * number)
        if code == _ADD:
            add(operation[1], cotangent)
            add(operation[2], cotangent)
        elif code == _SUB:
            add(operation[1], cotangent)
            add(operation[2], cotangent ^ 1)
        elif code == _MUL:
            first, second = operation[1:]
            if first < CONSTANTS and is_linear[first >> 1]:
                first, second = second, first
            if first < CONSTANTS and is_linear[first >> 1]:
                raise NotLinear("a product of linear scalars")
            add(second, product(kind, cotangent, first))
        elif code == _DIV:
            numerator, divisor = operation[1:]
            if divisor < CONSTANTS and is_linear[divisor >> 1]:
                raise NotLinear("a division by a linear scalar")
            add(numerator, builder.divide(kind, (cotangent,), (divisor,))[0])
        elif code == _SELECT:
            which, yes, no = operation[1:]
            if is_linear[which >> 1]:
                raise NotLinear("a selection by a linear scalar")
            add(yes, select(builder, kind, which, cotangent, ZERO[kind]))
            add(no, select(builder, kind, which, ZERO[kind], cotangent))
        elif code == _CONVERT:
            source = operation[1]
            add(source, convert(builder, kind, kinds[source >> 1], (cotangent,))[0])
        else:
            raise NotLinear(f"{Op(code).name} of a linear scalar")
    return cotangent_of


def any_linear(builder: ScalarBuilder, references: Sequence[int]) -> bool:
    """Whether any of the scalars depends on the inputs of negative arguments."""
    if not builder.has_linear:
        return False
    is_linear = _linear(builder)
    return any(is_linear[x >> 1] for x in references if x < CONSTANTS)


def _linear(builder: ScalarBuilder) -> bytearray:
    """Which scalars depend on the inputs of negative arguments; what loops carry never does."""
    is_linear = builder.is_linear
    append = is_linear.append
    for operation in itertools.islice(builder.operations, len(is_linear), None):
        code = operation[0]
        if code in TWO_REFERENCES:
            _, x, y = operation
            append((x < CONSTANTS and is_linear[x >> 1]) or (y < CONSTANTS and is_linear[y >> 1]))
        elif code == _INPUT:
            append(operation[1] < 0)
        elif code == _CARRIED:
            append(0)
        elif code == _LOAD and array_operand(operation[2]) < 0:
            append(1)
        else:
            last = 2 if code in ONE_REFERENCE else len(operation)
            is_it = 0
            for place in range(1, last):
                x = operation[place]
                if x < CONSTANTS and is_linear[x >> 1]:
                    is_it = 1
                    break
            append(is_it)
    return is_linear
