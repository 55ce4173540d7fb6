"""Rules that sort arrays with unknown entries, by networks of comparisons.

A network compares the same places whatever their entries are, so it has no loops and no branches.
Batcher, *Sorting networks and their applications*, 1968; Knuth, *The art of computer programming*,
volume 3, algorithm 5.2.2M, for any number of entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from artix.compiler.array_entries import entry_numbers
from artix.compiler.indexing import check_index
from artix.compiler.scalar_builder import ZERO, Rule, ScalarBuilder, Value, shapes_of
from artix.compiler.scalar_functions import bits, compare, logical, negation, select
from artix.compiler.scalar_program import Kind, Op, UnsupportedOperation, kind_of
from artix.compiler.scalar_words import word

#: Networks for n entries have about n log(n)^2 / 4 comparisons: 1,471 for this many, as many
#: operations as a step of a robot on the ground. XLA's sorting is a loop.
_MOST_ENTRIES = 128


class _Column(NamedTuple):
    """One of the arrays that are sorted together: its scalars in a row, and their kind."""

    kind: int
    scalars: list[int]


def sort(equation: Any) -> Rule:
    """Arrays sorted together along an axis by the first few of them, the smallest entries first.

    NaN comes last. Entries that are equal keep their order where others are sorted by them.
    """
    parameters = equation.params
    axis, num_keys = parameters["dimension"], parameters["num_keys"]
    shape = shapes_of(equation)[0]
    dtypes = [variable.aval.dtype for variable in equation.invars]
    kinds = [
        _kind_of_key(dtype) if number < num_keys else kind_of(dtype)
        for number, dtype in enumerate(dtypes)
    ]
    rows = _rows(shape, axis)
    is_stable = parameters["is_stable"] and num_keys < len(kinds)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries = [builder.references(x, kind) for x, kind in zip(arguments, kinds, strict=True)]
        results = [list(each) for each in entries]
        for row in rows:
            columns = [
                _Column(kind, [each[number] for number in row])
                for kind, each in zip(kinds, entries, strict=True)
            ]
            keys = columns[:num_keys]
            if is_stable:
                keys = [*keys, _places(builder, len(row))]
            _sort_together(builder, keys, columns[num_keys:])
            for column, result in zip(columns, results, strict=True):
                for number, scalar in zip(row, column.scalars, strict=True):
                    result[number] = scalar
        return [
            builder.as_value(result, shape, dtype)
            for result, dtype in zip(results, dtypes, strict=True)
        ]

    return apply


def top_k(equation: Any) -> Rule:
    """The largest entries along an axis, the largest first, and their places; of entries that are
    equal, the first.

    As in JAX, the order is that of the bits: -0 is smaller than 0, and NaN the largest or, with a
    sign, the smallest.
    """
    (shape,) = shapes_of(equation)
    axis = equation.params["axis"]
    values, places = (variable.aval for variable in equation.outvars)
    kind = _kind_of_key(values.dtype)
    check_index(places.dtype)
    if kind == Kind.FLOAT64:
        raise UnsupportedOperation("top_k of float64")
    rows, places_in_results = _rows(shape, axis), _rows(values.shape, axis)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries = builder.references(arguments[0], kind)
        results = [ZERO[kind]] * values.size, [ZERO[Kind.INT32]] * values.size
        for row, numbers in zip(rows, places_in_results, strict=True):
            # From the last to the first, so that of equal entries the first comes last.
            scalars = [entries[number] for number in reversed(row)]
            last = builder.constant(len(row) - 1, int(Kind.INT32))
            from_last = _places(builder, len(row))
            column = _Column(kind, scalars)
            _sort_together(builder, [_bits_in_order(builder, column), from_last], [column])
            best = builder.subtract(Kind.INT32, [last] * len(row), from_last.scalars)
            for of_row, result in zip((scalars, best), results, strict=True):
                for number, scalar in zip(numbers, reversed(of_row), strict=False):
                    result[number] = scalar
        return [
            builder.as_value(result, each.shape, each.dtype)
            for result, each in zip(results, (values, places), strict=True)
        ]

    return apply


def _rows(shape: Sequence[int], axis: int) -> list[list[int]]:
    """The numbers of the entries along an axis, for each place along the others."""
    if shape[axis] > _MOST_ENTRIES:
        raise UnsupportedOperation(f"sorting of more than {_MOST_ENTRIES} entries")
    numbers = np.moveaxis(entry_numbers([tuple(shape)])[0], axis, -1)
    return numbers.reshape(-1, shape[axis]).tolist()


def _kind_of_key(dtype: Any) -> Kind:
    kind = kind_of(dtype)
    if kind == Kind.BOOL:
        raise UnsupportedOperation("sorting of bools")
    return kind


def _places(builder: ScalarBuilder, count: int) -> _Column:
    kind = int(Kind.INT32)
    return _Column(kind, [builder.constant(place, kind) for place in range(count)])


def _bits_in_order(builder: ScalarBuilder, column: _Column) -> _Column:
    """Integers in the order of the bits of floats: by sign, then by exponent and mantissa."""
    if column.kind != Kind.FLOAT32:
        return _Column(column.kind, list(column.scalars))
    kind = int(Kind.INT32)
    rest = builder.constant(2**31 - 1, int(Kind.UINT32))
    results = []
    for x in bits(builder, int(Kind.UINT32), column.scalars):
        upwards, downwards = bits(builder, kind, (x, word(builder, int(Op.XOR), x, rest)))
        is_negative = compare(builder, kind, Op.LT, upwards, ZERO[kind])
        results.append(select(builder, kind, is_negative, downwards, upwards))
    return _Column(kind, results)


def _sort_together(
    builder: ScalarBuilder, keys: Sequence[_Column], others: Sequence[_Column]
) -> None:
    """Sorts columns in place by keys, of which the first counts most."""
    columns = [*keys, *others]
    for first, second in _network(len(columns[0].scalars)):
        swaps = _is_after(builder, keys, first, second)
        for kind, scalars in columns:
            a, b = scalars[first], scalars[second]
            scalars[first] = select(builder, kind, swaps, b, a)
            scalars[second] = select(builder, kind, swaps, a, b)


def _is_after(builder: ScalarBuilder, keys: Sequence[_Column], first: int, second: int) -> int:
    """Whether one entry of the keys belongs after another."""
    *others, (kind, scalars) = keys
    result = _is_above(builder, kind, scalars[first], scalars[second])
    for kind, scalars in reversed(others):
        a, b = scalars[first], scalars[second]
        above, below = _is_above(builder, kind, a, b), _is_above(builder, kind, b, a)
        otherwise = logical(builder, Op.AND, negation(builder, below), result)
        result = logical(builder, Op.OR, above, otherwise)
    return result


def _is_above(builder: ScalarBuilder, kind: int, a: int, b: int) -> int:
    """Whether a number is larger than another, as NaN is."""
    is_larger = negation(builder, compare(builder, kind, Op.LE, a, b))
    if kind < Kind.FLOAT32:
        return is_larger
    return logical(builder, Op.AND, is_larger, compare(builder, kind, Op.EQ, b, b))


def _network(count: int) -> Iterator[tuple[int, int]]:
    """Pairs of places that sort entries if each pair is put in order, one after the other."""
    largest = 1 << max(count - 1, 0).bit_length() >> 1
    step = largest
    while step:
        distance, offset, reach = step, 0, largest
        while True:
            for place in range(count - distance):
                if place & step == offset:
                    yield place, place + distance
            if reach == step:
                break
            distance, offset, reach = reach - step, step, reach >> 1
        step >>= 1
