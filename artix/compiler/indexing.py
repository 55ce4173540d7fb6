"""Gathers, scatters and dynamic slices of arrays with unknown entries, or at unknown indices.

Arguments and known arrays have addresses, from which each lane loads its own entry. Computed
scalars have none: their entries at unknown indices are selected from all that the index may
address. A load takes as long as about eight selections (Zen 4, AVX-512, November 2026), and the
bounds of an index often leave few more candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from artix.compiler.array_entries import (
    OUTSIDE,
    Windows,
    calls_function,
    clips,
    dynamic_slice_numbers,
    fill_value,
    fills,
    gather_numbers,
    gather_windows,
    getter,
    scatter_numbers,
    scatter_windows,
    strides_of,
)
from artix.compiler.scalar_builder import (
    CONSTANTS,
    TRUE,
    ZERO,
    LargeArgument,
    Rule,
    ScalarBuilder,
    Value,
    result_of,
    shapes_of,
)
from artix.compiler.scalar_functions import (
    Binary,
    bits,
    bounds,
    compare,
    extremum,
    integer,
    logical,
    select,
)
from artix.compiler.scalar_program import Kind, Op, UnsupportedOperation, kind_of

_INDEX = int(Kind.INT32)


class Computed(NamedTuple):
    """An array of computed scalars."""

    references: Sequence[int]
    """The array's entries."""
    starts: Sequence[int]
    """Where windows may start, ascending."""
    first: int = 0

    def entries(
        self, builder: ScalarBuilder, kind: int, start: int, offsets: Sequence[int]
    ) -> list[int]:
        """The entries at offsets from a start; each comparison serves all offsets."""
        candidates = _candidates(builder, self.starts, start)
        builder.check_size(len(candidates) * len(offsets))
        chosen = [self.references[candidates[0] + offset] for offset in offsets]
        for candidate in candidates[1:]:
            is_it = compare(builder, _INDEX, Op.EQ, start, builder.constant(candidate, _INDEX))
            chosen = [
                select(builder, kind, is_it, self.references[candidate + offset], other)
                for offset, other in zip(offsets, chosen, strict=True)
            ]
        return chosen


def change_window(
    builder: ScalarBuilder,
    kind: int,
    entries: list[int],
    starts: Sequence[int],
    start: int,
    changes: Sequence[tuple[int, int]],
    changed: Callable[[int, int], int],
) -> None:
    """Changes the entries of a window that starts at an unknown index.

    Args:
      builder: builds scalars.
      kind: kind of the entries.
      entries: all entries of the array, which are replaced.
      starts: where windows may start, ascending.
      start: where this one starts; if it is none of them, nothing changes.
      changes: offsets from the start, with the scalars that change the entries there.
      changed: combines an entry with such a scalar.
    """
    candidates = _candidates(builder, starts, start)
    builder.check_size(len(candidates) * len(changes))
    for candidate in candidates:
        is_it = compare(builder, _INDEX, Op.EQ, start, builder.constant(candidate, _INDEX))
        for offset, change in changes:
            entry = entries[candidate + offset]
            entries[candidate + offset] = select(
                builder, kind, is_it, changed(entry, change), entry
            )


def starts_along(strides: Sequence[int], last: Sequence[int]) -> list[int]:
    """The starts of a window that moves along axes with these strides, up to these last
    positions.
    """
    starts = np.zeros(1, int)
    for stride, end in zip(strides, last, strict=True):
        starts = np.add.outer(starts, stride * np.arange(end + 1)).ravel()
    return np.unique(starts).tolist()


def _candidates(builder: ScalarBuilder, starts: Sequence[int], start: int) -> Sequence[int]:
    """The starts that are within the bounds of an unknown index."""
    least, most = bounds(builder, start)
    return [x for x in starts if least <= x <= most] or starts


class _Source(NamedTuple):
    """An array from which entries can be loaded: a range of entries of an argument or table."""

    number: int
    """Index of the argument or table."""
    first: int
    """Flat index, in it, of the array's first entry."""
    size: int
    """Number of entries of the array."""

    def entries(
        self, builder: ScalarBuilder, kind: int, start: int, offsets: Sequence[int]
    ) -> list[int]:
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
      UnsupportedOperation: the indices are neither int32 nor uint32.
    """
    shape, dtype, _ = result_of(equation)
    operand, indices_shape = shapes_of(equation)
    indices = _indices(builder, indices, equation.invars[1].aval.dtype)
    kind = kind_of(dtype)
    windows = gather_windows(operand, indices_shape, equation.params)
    source = _source(builder, entries, windows.strides, windows.last)
    outside = builder.constant(
        np.array(fill_value(dtype, equation.params["fill_value"]), dtype).item(), kind
    )
    starts, is_inside = window_starts(
        builder, indices, windows, not fills(equation.params["mode"]), source.first
    )
    rows, offsets = windows.rows.ravel(), windows.offsets.ravel()
    loaded = [0] * len(rows)
    for row, (start, inside) in enumerate(zip(starts, is_inside, strict=True)):
        places = np.flatnonzero(rows == row).tolist()
        values = source.entries(builder, kind, start, offsets[places].tolist())
        for place, value in zip(places, values, strict=True):
            loaded[place] = select(builder, kind, inside, value, outside)
    return builder.as_value(loaded, shape, dtype)


def window_starts(
    builder: ScalarBuilder, indices: Sequence[int], windows: Windows, clip: bool, first: int = 0
) -> tuple[list[int], list[int]]:
    """The first entry of each window at unknown indices, and whether the window lies within the
    array.

    Args:
      builder: builds scalars.
      indices: the indices, coordinates last.
      windows: the windows, with as many coordinates as strides.
      clip: whether windows are clamped to lie within the array; none is outside then.
      first: flat index of the array's own first entry.
    """
    width, starts, is_inside = len(windows.axes), [], []
    for row in range(len(indices) // width if width else 1):
        start, inside = builder.constant(first, _INDEX), TRUE
        for index, stride, last in zip(
            indices[row * width :], windows.strides, windows.last, strict=False
        ):
            if not clip:
                inside = logical(builder, Op.AND, inside, _is_within(builder, index, last))
            start = _advance(builder, start, _clip(builder, index, last), stride)
        starts.append(start)
        is_inside.append(inside)
    return starts, is_inside


def load_slice(
    builder: ScalarBuilder, equation: Any, entries: Value, starts: Sequence[Value]
) -> Value:
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
    source = _source(builder, entries, strides, last)
    position = builder.constant(source.first, _INDEX)
    for axis, start in enumerate(starts):
        (index,) = _indices(builder, start, equation.invars[1 + axis].aval.dtype)
        index = _clip(builder, index, last[axis])
        position = _advance(builder, position, index, strides[axis])
    offsets = dynamic_slice_numbers(operand, [0] * len(operand), sizes).ravel().tolist()
    return builder.as_value(source.entries(builder, kind, position, offsets), shape, dtype)


def _source(
    builder: ScalarBuilder, entries: Value, strides: Sequence[int], last: Sequence[int]
) -> _Source | Computed:
    """Where to read the entries of an array from, in windows as in :func:`starts_along`.

    Only computed entries need the starts, of which the ground of a terrain has millions.
    """
    if isinstance(entries, LargeArgument):
        return _Source(entries.number, 0, len(entries))
    if isinstance(entries, np.ndarray):
        return _Source(builder.table_of(entries), 0, entries.size)
    inputs = [() if x & 1 or x >= CONSTANTS else builder.operations[x >> 1] for x in entries]
    if inputs and inputs[0][:1] == (Op.INPUT,):
        _, number, first = inputs[0]
        if all(
            operation == (Op.INPUT, number, first + position)
            for position, operation in enumerate(inputs)
        ):
            return _Source(number, first, len(entries))
    return Computed(entries, starts_along(strides, last))


def _indices(builder: ScalarBuilder, value: Value, dtype: Any) -> Sequence[int]:
    """The entries of an array of indices, as integers.

    Raises:
      UnsupportedOperation: they are neither int32 nor uint32.
    """
    if kind_of(dtype) != Kind.UINT32:
        check_index(dtype)
        return builder.references(value, _INDEX)
    kind = int(Kind.UINT32)
    largest = builder.constant(2**31 - 1, kind)  # No array has as many entries.
    words = builder.references(value, kind)
    return bits(builder, _INDEX, [extremum(builder, kind, Op.MIN, x, largest) for x in words])


def check_index(dtype: Any) -> None:
    """Raises ``UnsupportedOperation`` unless unknown indices may have this dtype."""
    if kind_of(dtype) != Kind.INT32:
        raise UnsupportedOperation(f"unknown indices of {dtype}")


def _clip(builder: ScalarBuilder, index: int, last: int) -> int:
    least, most = bounds(builder, index)
    if least >= 0 and most <= last:  # Such as where the index is that of a smallest entry.
        return index
    at_least_zero = extremum(builder, _INDEX, Op.MAX, index, ZERO[_INDEX])
    return extremum(builder, _INDEX, Op.MIN, at_least_zero, builder.constant(last, _INDEX))


def _is_within(builder: ScalarBuilder, index: int, last: int) -> int:
    is_not_negative = compare(builder, _INDEX, Op.LE, ZERO[_INDEX], index)
    return logical(
        builder,
        Op.AND,
        is_not_negative,
        compare(builder, _INDEX, Op.LE, index, builder.constant(last, _INDEX)),
    )


def _advance(builder: ScalarBuilder, start: int, index: int, stride: int) -> int:
    return integer(
        builder, Op.ADD, start, integer(builder, Op.MUL, index, builder.constant(stride, _INDEX))
    )


def gather(equation: Any) -> Rule:
    """Reads windows."""
    shape, dtype, _ = result_of(equation)
    kind, operand = kind_of(dtype), shapes_of(equation)[0]
    outside = np.array(fill_value(dtype, equation.params["fill_value"]), dtype).item()

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        indices = arguments[1]
        if type(indices) is not np.ndarray:
            return [load_windows(builder, equation, arguments[0], indices)]
        numbers = gather_numbers(operand, indices, equation.params).ravel().tolist()
        entries, fill = builder.references(arguments[0], kind), builder.constant(outside, kind)
        read = [fill if number == OUTSIDE else entries[number] for number in numbers]
        return [builder.as_value(read, shape, dtype)]

    return apply


def scatter(equation: Any, combine: Binary | None) -> Rule:
    """Replaces entries, or combines them with updates."""
    if calls_function(equation.primitive.name, equation.params):
        raise UnsupportedOperation("scatter by a function of the entries")
    shape, dtype, _ = result_of(equation)
    kind, (operand, _, changes) = kind_of(dtype), shapes_of(equation)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries, indices = list(builder.references(arguments[0], kind)), arguments[1]
        updates = builder.references(arguments[2], kind)
        if type(indices) is not np.ndarray:
            _scatter_at_unknown(builder, equation, entries, indices, updates, combine)
            return [builder.as_value(entries, shape, dtype)]
        numbers = scatter_numbers(operand, indices, changes, equation.params).ravel().tolist()
        for number, change in zip(numbers, updates, strict=True):
            if number != OUTSIDE:
                entries[number] = (
                    change
                    if combine is None
                    else combine(builder, kind, (entries[number],), (change,))[0]
                )
        return [builder.as_value(entries, shape, dtype)]

    return apply


def _scatter_at_unknown(
    builder: ScalarBuilder,
    equation: Any,
    entries: list[int],
    indices: Value,
    updates: Sequence[int],
    combine: Binary | None,
) -> None:
    """Changes entries at unknown indices."""
    operand, indices_shape, changes = shapes_of(equation)
    kind = kind_of(result_of(equation)[1])
    windows = scatter_windows(operand, indices_shape, changes, equation.params)
    starts, is_inside = window_starts(
        builder,
        _indices(builder, indices, equation.invars[1].aval.dtype),
        windows,
        clips(equation.params["mode"]),
    )
    possible, nowhere = (
        starts_along(windows.strides, windows.last),
        builder.constant(OUTSIDE, int(Kind.INT32)),
    )

    def changed(entry: int, change: int) -> int:
        return change if combine is None else combine(builder, kind, (entry,), (change,))[0]

    rows, offsets = windows.rows.ravel(), windows.offsets.ravel()
    for row, (start, inside) in enumerate(zip(starts, is_inside, strict=True)):
        places = np.flatnonzero(rows == row).tolist()
        pairs = [(int(offsets[place]), updates[place]) for place in places]
        where = select(builder, int(Kind.INT32), inside, start, nowhere)
        change_window(builder, kind, entries, possible, where, pairs, changed)


def dynamic_slice(equation: Any) -> Rule:
    """Reads a window."""
    shape, dtype, _ = result_of(equation)
    operand, sizes = shapes_of(equation)[0], equation.params["slice_sizes"]

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries, *starts = arguments
        if any(type(start) is not np.ndarray for start in starts):
            return [load_slice(builder, equation, entries, starts)]
        first = [int(start) for start in starts]  # type: ignore[arg-type]
        take = getter(dynamic_slice_numbers(operand, first, sizes), math.prod(operand))
        return [builder.as_value(take(builder.references(entries, kind_of(dtype))), shape, dtype)]

    return apply


def dynamic_update_slice(equation: Any) -> Rule:
    """Replaces a window at a known start."""
    shape, dtype, _ = result_of(equation)
    kind, update = kind_of(dtype), shapes_of(equation)[1]

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries, changes, *starts = arguments
        if any(type(start) is not np.ndarray for start in starts):
            raise UnsupportedOperation("dynamic_update_slice at unknown indices")
        first = [int(start) for start in starts]  # type: ignore[arg-type]
        updated = list(builder.references(entries, kind))
        numbers = dynamic_slice_numbers(shape, first, update).ravel().tolist()
        for number, change in zip(numbers, builder.references(changes, kind), strict=True):
            updated[number] = change
        return [builder.as_value(updated, shape, dtype)]

    return apply
