"""Gathers and dynamic slices at unknown indices: loads from arguments and known arrays, otherwise selections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from artix.compiler.array_indices import (
    Windows,
    clips,
    dynamic_slice_numbers,
    fill_value,
    gather_windows,
    strides_of,
)
from artix.compiler.equations import result_of, shapes_of
from artix.compiler.indexed_selections import Computed, starts_along
from artix.compiler.scalar_builder import (
    CONSTANTS,
    TRUE,
    ZERO,
    LargeArgument,
    ScalarBuilder,
    UnsupportedOperation,
    Value,
    kind_of,
)
from artix.compiler.scalar_choices import compare, extremum, logical, select
from artix.compiler.scalar_functions import integer
from artix.compiler.scalar_program import Kind, Op

_INDEX = int(Kind.INT32)


class _Source(NamedTuple):
    """An array from which entries can be loaded: a range of entries of an argument or table."""

    number: int
    """Index of the argument or table."""
    first: int
    """Flat index, in it, of the array's first entry."""
    size: int
    """Number of entries of the array."""

    def entries(self, builder: ScalarBuilder, kind: int, start: int, offsets: Sequence[int]) -> list[int]:
        """The entries at offsets from a start."""
        return [self._entry(builder, kind, start, offset) for offset in offsets]

    def _entry(self, builder: ScalarBuilder, kind: int, start: int, offset: int) -> int:
        index = integer(builder, Op.ADD, start, builder.constant(offset, _INDEX))
        if index >= CONSTANTS:
            number = min(max(int(builder.value(index)), self.first), self.first + self.size - 1)
            index = builder.constant(number, _INDEX)
        return builder.entry(kind, self.number, index)


def load_windows(builder: ScalarBuilder, equation: Any, entries: Value, indices: Value) -> Value:
    """The result of a gather.

    Args:
      builder: builds scalars.
      equation: the gather.
      entries: entries of the array that it reads.
      indices: its indices, not all known, coordinates last.

    Raises:
      UnsupportedOperation: the indices are not int32.
    """
    shape, dtype, _ = result_of(equation)
    operand, indices_shape = shapes_of(equation)
    indices = builder.references(indices, _INDEX)
    kind = kind_of(dtype)
    windows = gather_windows(operand, indices_shape, equation.params)
    source = _source(builder, entries, kind, starts_along(windows.strides, windows.last))
    check_index(equation.invars[1].aval.dtype)
    outside = builder.constant(np.array(fill_value(dtype, equation.params["fill_value"]), dtype).item(), kind)
    starts, is_inside = window_starts(builder, indices, windows, equation.params["mode"], source.first)
    rows, offsets = windows.rows.ravel(), windows.offsets.ravel()
    loaded = [0] * len(rows)
    for row, (start, inside) in enumerate(zip(starts, is_inside, strict=True)):
        places = np.flatnonzero(rows == row).tolist()
        values = source.entries(builder, kind, start, offsets[places].tolist())
        for place, value in zip(places, values, strict=True):
            loaded[place] = select(builder, kind, inside, value, outside)
    return builder.as_value(loaded, shape, dtype)


def window_starts(
    builder: ScalarBuilder, indices: Sequence[int], windows: Windows, mode: Any, first: int = 0
) -> tuple[list[int], list[int]]:
    """The first entry of each window at unknown indices, and whether the window lies within the array.

    Args:
      builder: builds scalars.
      indices: the indices, coordinates last.
      windows: the windows, with as many coordinates as strides.
      mode: how to treat windows outside the array.
      first: flat index of the array's own first entry.
    """
    width, starts, is_inside = len(windows.axes), [], []
    for row in range(len(indices) // width if width else 1):
        start, inside = builder.constant(first, _INDEX), TRUE
        for index, stride, last in zip(indices[row * width :], windows.strides, windows.last, strict=False):
            if clips(mode):
                index = _clip(builder, index, last)
            elif "FILL" in str(mode).upper():
                inside = logical(builder, Op.AND, inside, _is_within(builder, index, last))
                index = _clip(builder, index, last)
            start = _advance(builder, start, index, stride)
        starts.append(start)
        is_inside.append(inside)
    return starts, is_inside


def load_slice(builder: ScalarBuilder, equation: Any, entries: Value, starts: Sequence[Value]) -> Value:
    """The result of a dynamic slice; see :func:`load_windows`.

    Args:
      builder: builds scalars.
      equation: the slice.
      entries: entries of the array that it reads.
      starts: start of the window along each axis, not all known.
    """
    shape, dtype, _ = result_of(equation)
    operand, sizes = shapes_of(equation)[0], equation.params["slice_sizes"]
    kind = kind_of(dtype)
    strides = strides_of(operand)
    last = [length - size for length, size in zip(operand, sizes, strict=True)]
    source = _source(builder, entries, kind, starts_along(strides, last))
    position = builder.constant(source.first, _INDEX)
    for axis, start in enumerate(starts):
        check_index(equation.invars[1 + axis].aval.dtype)
        index = _clip(builder, builder.references(start, _INDEX)[0], last[axis])
        position = _advance(builder, position, index, strides[axis])
    offsets = dynamic_slice_numbers(operand, [0] * len(operand), sizes).ravel().tolist()
    return builder.as_value(source.entries(builder, kind, position, offsets), shape, dtype)


def _source(builder: ScalarBuilder, entries: Value, kind: int, starts: list[int]) -> _Source | Computed:
    """Where to read the entries of an array from, in windows that begin at these starts."""
    if isinstance(entries, LargeArgument):
        return _Source(entries.number, 0, len(entries))
    if isinstance(entries, np.ndarray):
        return _Source(builder.table_of(entries), 0, entries.size)
    inputs = [() if x & 1 or x >= CONSTANTS else builder.operations[x >> 1] for x in entries]
    if inputs and inputs[0][:1] == (Op.INPUT,):
        _, number, first = inputs[0]
        if all(operation == (Op.INPUT, number, first + position) for position, operation in enumerate(inputs)):
            return _Source(number, first, len(entries))
    return Computed(entries, starts)


def check_index(dtype: Any) -> None:
    """Raises ``UnsupportedOperation`` unless unknown indices may have this dtype."""
    if kind_of(dtype) != Kind.INT32:
        raise UnsupportedOperation(f"unknown indices of {dtype}")


def _clip(builder: ScalarBuilder, index: int, last: int) -> int:
    at_least_zero = extremum(builder, _INDEX, Op.MAX, index, ZERO[_INDEX])
    return extremum(builder, _INDEX, Op.MIN, at_least_zero, builder.constant(last, _INDEX))


def _is_within(builder: ScalarBuilder, index: int, last: int) -> int:
    is_not_negative = compare(builder, _INDEX, Op.LE, ZERO[_INDEX], index)
    return logical(
        builder, Op.AND, is_not_negative, compare(builder, _INDEX, Op.LE, index, builder.constant(last, _INDEX))
    )


def _advance(builder: ScalarBuilder, start: int, index: int, stride: int) -> int:
    return integer(builder, Op.ADD, start, integer(builder, Op.MUL, index, builder.constant(stride, _INDEX)))
