"""Loops whose bodies are built once, because unrolled they would make a program long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from artix.evaluation.scalar_builder import ONE, ZERO, ScalarBuilder, UnsupportedOperation, Value, kind_of
from artix.evaluation.scalar_functions import integer
from artix.evaluation.scalar_program import Kind, Op
from artix.evaluation.scalar_transpose import any_linear

_CARRIED, _INDEX = int(Op.CARRIED), int(Kind.INT32)


def rolled(
    builder: ScalarBuilder,
    body: Callable[[int, list[Value]], Sequence[Value]],
    carry: Sequence[Value],
    types: Sequence[Any],
    length: int,
) -> list[Value]:
    """What a loop carries after its last iteration.

    What the body leaves as it is, such as zeros, is the same in all iterations, and known if it is known at the start.

    Args:
      builder: holds the scalars.
      body: what it carries into the next iteration, given the reference of the iteration's number and what is carried.
      carry: what is carried into the first iteration.
      types: shapes and dtypes of what is carried.
      length: number of iterations.

    Raises:
      UnsupportedOperation: there are no scalars of these types, or they are to be transposed.
    """
    kinds = [_INDEX, *(int(kind_of(x.dtype)) for x in types for _ in range(x.size))]
    starts = [ZERO[_INDEX], *_references(builder, carry, types)]
    loop = builder.new_loop()
    now, ends = starts.copy(), list[int]()
    changes = True
    while changes:
        values = _values(builder, now[1:], types)
        following = integer(builder, Op.ADD, now[0], ONE[_INDEX])
        ends = [following, *_references(builder, body(now[0], values), types)]
        changes = False
        for entry, (before, after) in enumerate(zip(now, ends, strict=True)):
            if before == starts[entry] and after != before:
                now[entry] = builder.make(kinds[entry], _CARRIED, loop, entry, 0)
                changes = True
    if any_linear(builder, [*starts, *ends]):
        raise UnsupportedOperation("a loop over linear scalars, which is transposed as a whole")
    builder.end_loop(loop, length, starts, ends)
    found = [
        before if before == start else builder.make(kind, _CARRIED, loop, entry, 1)
        for entry, (kind, before, start) in enumerate(zip(kinds, now, starts, strict=True))
    ]
    return _values(builder, found[1:], types)


def _references(builder: ScalarBuilder, values: Sequence[Value], types: Sequence[Any]) -> list[int]:
    """The references of all entries, one value after another."""
    pairs = zip(values, types, strict=True)
    return [x for value, aval in pairs for x in builder.references(value, kind_of(aval.dtype))]


def _values(builder: ScalarBuilder, references: Sequence[int], types: Sequence[Any]) -> list[Value]:
    values, first = list[Value](), 0
    for aval in types:
        values.append(builder.as_value(references[first : first + aval.size], aval.shape, np.dtype(aval.dtype)))
        first += aval.size
    return values


def entry_of_iteration(builder: ScalarBuilder, array: np.ndarray, iteration: int) -> Value:
    """Row ``iteration``, a reference, of a known array."""
    kind = kind_of(array.dtype)
    columns = np.ascontiguousarray(array.reshape(len(array), -1).T)
    references = [
        builder.constant(column[0].item(), kind)
        if (column == column[0]).all()
        else builder.entry(kind, builder.table_of(column), iteration)
        for column in columns
    ]
    return builder.as_value(references, array.shape[1:], array.dtype)
