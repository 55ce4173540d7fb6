"""Rules that convert operations on arrays with unknown entries to scalar operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from jax.lax import RoundingMethod

from artix.compiler import scalar_functions as functions
from artix.compiler.array_entries import MOVEMENTS, Getter, entry_numbers, getters
from artix.compiler.indexing import dynamic_slice, dynamic_update_slice, gather, scatter
from artix.compiler.known_arrays import CUMULATIVE, REDUCTIONS, SCATTERS, dot_operands
from artix.compiler.scalar_builder import (
    Rule,
    ScalarBuilder,
    Value,
    operand_kind,
    result_of,
    shapes_of,
)
from artix.compiler.scalar_functions import BINARY, UNARY, Binary, Unary, extremum, select
from artix.compiler.scalar_program import Kind, Op, UnsupportedOperation, kind_of
from artix.compiler.scalar_sums import accumulate_rows, matrix_product, reduce_rows


def symbolic_rule(equation: Any) -> Rule:
    """The rule for an equation of a program.

    Args:
      equation: an equation of a jaxpr.

    Raises:
      UnsupportedOperation: there is none.
    """
    name = equation.primitive.name
    if (binary := BINARY.get(name)) is not None:
        return _binary(equation, binary)
    if (unary := UNARY.get(name)) is not None:
        return _unary(equation, unary)
    if name in MOVEMENTS:
        return _movement(equation)
    if (rule_of := _RULES.get(name)) is not None:
        return rule_of(equation)
    raise UnsupportedOperation(name)


def _expansions(equation: Any) -> list[Callable[[Sequence[int]], Iterable[int]]]:
    """For each argument, the function that broadcasts its entries to the shape of the result."""
    shape, _, size = result_of(equation)
    return [_expansion(argument_shape, shape, size) for argument_shape in shapes_of(equation)]


def _expansion(
    shape: tuple[int, ...], target: tuple[int, ...], size: int
) -> Callable[[Sequence[int]], Iterable[int]]:
    if shape == target:
        return lambda references: references
    if all(length == 1 for length in shape):
        return lambda references: repeat(references[0], size)
    axes = tuple(range(len(target) - len(shape), len(target)))
    (take,) = getters("broadcast_in_dim", {"shape": target, "broadcast_dimensions": axes}, (shape,))
    return take


# Elementwise operations


def _binary(equation: Any, rule: Binary) -> Rule:
    shape, dtype, _ = result_of(equation)
    kind = operand_kind(equation)
    expand_left, expand_right = _expansions(equation)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        x, y = arguments
        firsts, seconds = (
            expand_left(builder.references(x, kind)),
            expand_right(builder.references(y, kind)),
        )
        return [builder.as_value(rule(builder, kind, firsts, seconds), shape, dtype)]

    return apply


def _unary(equation: Any, rule: Unary) -> Rule:
    shape, dtype, _ = result_of(equation)
    kind = operand_kind(equation)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        return [
            builder.as_value(
                rule(builder, kind, builder.references(arguments[0], kind)), shape, dtype
            )
        ]

    return apply


def _of_entries(function: Callable[..., int]) -> Callable[[Any], Rule]:
    """The rule for an elementwise function of a builder, a kind and one scalar per argument."""

    def rule_of(equation: Any) -> Rule:
        shape, dtype, _ = result_of(equation)
        expansions = _expansions(equation)
        kinds = [kind_of(variable.aval.dtype) for variable in equation.invars]

        def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
            entries = [
                expand(builder.references(x, kind))
                for x, kind, expand in zip(arguments, kinds, expansions, strict=True)
            ]
            results = [
                function(builder, kinds[0], *scalars) for scalars in zip(*entries, strict=False)
            ]
            return [builder.as_value(results, shape, dtype)]

        return apply

    return rule_of


def _power(equation: Any) -> Rule:
    shape, dtype, _ = result_of(equation)
    expand_base, expand_exponent = _expansions(equation)
    kind, exponent_kind = operand_kind(equation), operand_kind(equation, 1)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        base, exponent = (
            builder.references(x, argument_kind)
            for x, argument_kind in zip(arguments, (kind, exponent_kind), strict=True)
        )
        exponent = functions.convert(builder, exponent_kind, kind, exponent)
        pairs = zip(expand_base(base), expand_exponent(exponent), strict=False)
        return [
            builder.as_value([functions.power(builder, kind, x, y) for x, y in pairs], shape, dtype)
        ]

    return apply


def _exp2(builder: ScalarBuilder, kind: int, x: int) -> int:
    return functions.power(builder, kind, builder.constant(2.0, kind), x)


def _clamp(builder: ScalarBuilder, kind: int, lower: int, x: int, upper: int) -> int:
    larger = extremum(builder, kind, Op.MAX, lower, x)
    return extremum(builder, kind, Op.MIN, larger, upper)


def _convert(equation: Any) -> Rule:
    shape, dtype, _ = result_of(equation)
    source, target = operand_kind(equation), kind_of(dtype)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        operands = builder.references(arguments[0], source)
        return [
            builder.as_value(functions.convert(builder, source, target, operands), shape, dtype)
        ]

    return apply


def _integer_pow(equation: Any) -> Rule:
    exponent = equation.params["y"]
    return _unary(
        equation, lambda builder, kind, x: functions.integer_power(builder, kind, x, exponent)
    )


def _round(equation: Any) -> Rule:
    to_even = equation.params["rounding_method"] == RoundingMethod.TO_NEAREST_EVEN
    return _unary(equation, functions.round_to_even if to_even else functions.round_away_from_zero)


def _select(equation: Any) -> Rule:
    shape, dtype, _ = result_of(equation)
    kind, (expand_which, *expand_cases) = kind_of(dtype), _expansions(equation)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        which, *cases = arguments
        branches = [
            expand(builder.references(x, kind))
            for expand, x in zip(expand_cases, cases, strict=True)
        ]
        if type(which) is np.ndarray:
            chosen = np.broadcast_to(which.astype(np.int64), shape).ravel().tolist()
            results = [entries[branch] for branch, *entries in zip(chosen, *branches, strict=False)]
        elif len(cases) == 2 and operand_kind(equation) == Kind.BOOL:
            flags, (no, yes) = expand_which(builder.references(which, Kind.BOOL)), branches
            results = [
                select(builder, kind, flag, x, y)
                for flag, x, y in zip(flags, yes, no, strict=False)
            ]
        else:
            raise UnsupportedOperation("select_n by an unknown integer")
        return [builder.as_value(results, shape, dtype)]

    return apply


# Movements


def _movement(equation: Any) -> Rule:
    name, parameters, shapes = equation.primitive.name, equation.params, shapes_of(equation)
    results = [(variable.aval.shape, variable.aval.dtype) for variable in equation.outvars]
    kinds = [kind_of(variable.aval.dtype) for variable in equation.invars]
    takes: list[Getter] = []

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        if not takes:
            takes.extend(getters(name, parameters, shapes))
        if len(arguments) == 1:
            entries = builder.references(arguments[0], kinds[0])
        else:
            entries = [
                x
                for value, kind in zip(arguments, kinds, strict=True)
                for x in builder.references(value, kind)
            ]
        return [
            builder.as_value(take(entries), shape, dtype)
            for take, (shape, dtype) in zip(takes, results, strict=True)
        ]

    return apply


# Reductions


def _reduction(equation: Any, combine: Binary) -> Rule:
    shape, dtype, size = result_of(equation)
    (operand,), axes, kind = (
        shapes_of(equation),
        tuple(equation.params["axes"]),
        operand_kind(equation),
    )
    kept = [axis for axis in range(len(operand)) if axis not in axes]
    order = entry_numbers([operand])[0].transpose(*kept, *axes).reshape(size, -1)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries = builder.references(arguments[0], kind)
        return [builder.as_value(reduce_rows(builder, kind, combine, entries, order), shape, dtype)]

    return apply


def _cumulative(equation: Any, combine: Binary) -> Rule:
    shape, dtype, _ = result_of(equation)
    kind, axis = operand_kind(equation), equation.params["axis"]
    numbers = np.moveaxis(entry_numbers([shape])[0], axis, -1)
    order = (numbers[..., ::-1] if equation.params["reverse"] else numbers).reshape(-1, shape[axis])

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries = builder.references(arguments[0], kind)
        return [
            builder.as_value(accumulate_rows(builder, kind, combine, entries, order), shape, dtype)
        ]

    return apply


def _dot_general(equation: Any) -> Rule:
    shape, dtype, _ = result_of(equation)
    kind, shapes = kind_of(dtype), shapes_of(equation)
    if kind < Kind.FLOAT32 or {variable.aval.dtype for variable in equation.invars} != {dtype}:
        raise UnsupportedOperation(f"dot_general of {dtype}")

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        if not all(map(math.prod, shapes)):  # Sums of nothing.
            return [np.zeros(shape, dtype)]
        firsts, seconds = (
            np.array(builder.references(x, kind), np.int64).reshape(operand_shape)
            for x, operand_shape in zip(arguments, shapes, strict=True)
        )
        firsts, seconds, _ = dot_operands(firsts, seconds, equation.params["dimension_numbers"])
        return [builder.as_value(matrix_product(builder, kind, firsts, seconds), shape, dtype)]

    return apply


_RULES: Mapping[str, Callable[[Any], Rule]] = {
    "pow": _power,
    "exp2": _of_entries(_exp2),
    "clamp": _of_entries(_clamp),
    "convert_element_type": _convert,
    "integer_pow": _integer_pow,
    "round": _round,
    "select_n": _select,
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "dot_general": _dot_general,
    **{name: partial(_reduction, combine=BINARY[combine]) for name, combine in REDUCTIONS.items()},
    **{name: partial(_cumulative, combine=BINARY[combine]) for name, combine in CUMULATIVE.items()},
    **{
        name: partial(scatter, combine=None if combine is None else BINARY[combine])
        for name, combine in SCATTERS.items()
    },
}
