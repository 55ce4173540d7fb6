"""Rules for gathers, scatters and dynamic slices; only reads of arguments and known arrays can have unknown indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from artix.evaluation.array_indices import (
    OUTSIDE,
    dynamic_slice_numbers,
    fill_value,
    gather_numbers,
    scatter_numbers,
)
from artix.evaluation.array_movement import getter
from artix.evaluation.equations import Rule, result_of, shapes_of
from artix.evaluation.indexed_loads import load_slice, load_windows
from artix.evaluation.scalar_builder import ScalarBuilder, UnsupportedOperation, Value, kind_of
from artix.evaluation.scalar_functions import Binary


def _known(value: Value, name: str) -> np.ndarray:
    """The value, which has to be known.

    Raises:
      UnsupportedOperation: it is not.
    """
    if type(value) is not np.ndarray:
        raise UnsupportedOperation(f"{name} at indices that are not known")
    return value


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


def scatter(equation: Any, rule: Binary | None) -> Rule:
    """Replaces entries at known indices, or combines them with updates."""
    shape, dtype, _ = result_of(equation)
    kind, (operand, _, changes) = kind_of(dtype), shapes_of(equation)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        indices = _known(arguments[1], "scatter")
        numbers = scatter_numbers(operand, indices, changes, equation.params).ravel().tolist()
        entries = list(builder.references(arguments[0], kind))
        for number, change in zip(numbers, builder.references(arguments[2], kind), strict=True):
            if number != OUTSIDE:
                entries[number] = change if rule is None else rule(builder, kind, (entries[number],), (change,))[0]
        return [builder.as_value(entries, shape, dtype)]

    return apply


def dynamic_slice(equation: Any) -> Rule:
    """Reads a window."""
    shape, dtype, _ = result_of(equation)
    operand, sizes = shapes_of(equation)[0], equation.params["slice_sizes"]

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries, *starts = arguments
        if any(type(start) is not np.ndarray for start in starts):
            return [load_slice(builder, equation, entries, starts)]
        first = [int(start) for start in starts]  # type: ignore[arg-type]
        total = int(np.prod(operand, dtype=int))
        take = getter(dynamic_slice_numbers(operand, first, sizes), total)
        references = builder.references(entries, kind_of(dtype))
        return [builder.as_value(references if take is None else take(references), shape, dtype)]

    return apply


def dynamic_update_slice(equation: Any) -> Rule:
    """Replaces a window at a known start."""
    shape, dtype, _ = result_of(equation)
    kind, update = kind_of(dtype), shapes_of(equation)[1]

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries, changes, *starts = arguments
        first = [int(_known(start, "dynamic_update_slice")) for start in starts]
        updated = list(builder.references(entries, kind))
        numbers = dynamic_slice_numbers(shape, first, update).ravel().tolist()
        for number, change in zip(numbers, builder.references(changes, kind), strict=True):
            updated[number] = change
        return [builder.as_value(updated, shape, dtype)]

    return apply
