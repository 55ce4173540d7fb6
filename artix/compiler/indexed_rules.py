"""Rules for gathers, scatters and dynamic slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from artix.compiler.array_indices import (
    OUTSIDE,
    calls_function,
    dynamic_slice_numbers,
    fill_value,
    gather_numbers,
    scatter_numbers,
    scatter_windows,
)
from artix.compiler.array_movement import getter
from artix.compiler.equations import Rule, result_of, shapes_of
from artix.compiler.indexed_loads import check_index, load_slice, load_windows, window_starts
from artix.compiler.indexed_selections import change_window, starts_along
from artix.compiler.scalar_builder import ScalarBuilder, UnsupportedOperation, Value, kind_of
from artix.compiler.scalar_choices import select
from artix.compiler.scalar_functions import Binary
from artix.compiler.scalar_program import Kind


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
        entries = [*builder.references(arguments[0], kind), builder.constant(outside, kind)]
        return [builder.as_value([entries[number] for number in numbers], shape, dtype)]

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
                    change if combine is None else combine(builder, kind, (entries[number],), (change,))[0]
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
    kind, mode = kind_of(result_of(equation)[1]), equation.params["mode"]
    check_index(equation.invars[1].aval.dtype)
    windows = scatter_windows(operand, indices_shape, changes, equation.params)
    starts, is_inside = window_starts(builder, builder.references(indices, int(Kind.INT32)), windows, mode)
    possible, nowhere = starts_along(windows.strides, windows.last), builder.constant(OUTSIDE, int(Kind.INT32))

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
