"""What makes scalars of an operation on arrays of which some entries are not known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from jax.lax import RoundingMethod

from artix.evaluation import scalar_functions as functions
from artix.evaluation.array_indices import (
    OUTSIDE,
    dynamic_slice_numbers,
    fill_value,
    gather_numbers,
    scatter_numbers,
)
from artix.evaluation.array_movement import MOVEMENTS, Getter, entry_numbers, getter, getters
from artix.evaluation.known_arrays import dot_operands
from artix.evaluation.scalar_builder import ScalarBuilder, UnsupportedOperation, Value, kind_of
from artix.evaluation.scalar_functions import BINARY, UNARY, Binary, Unary
from artix.evaluation.scalar_program import Kind, Op
from artix.evaluation.scalar_sums import accumulated, matrix_product, reduced

Rule: TypeAlias = Callable[[ScalarBuilder, Sequence[Value]], list[Value]]
"""Makes the results of an operation of its arguments, not all of which are known."""


def symbolic_rule(equation: Any) -> Rule:
    """The rule of an equation of a program.

    Args:
      equation: of a jaxpr.

    Raises:
      UnsupportedOperation: if there is none.
    """
    name = equation.primitive.name
    if (binary := BINARY.get(name)) is not None:
        return _binary(equation, binary)
    if (unary := UNARY.get(name)) is not None:
        return _unary(equation, unary)
    if name in MOVEMENTS:
        return _moved(equation)
    if (maker := _MAKERS.get(name)) is not None:
        return maker(equation)
    raise UnsupportedOperation(name)


def _result(equation: Any) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, dtype and size of the (first) result."""
    aval = equation.outvars[0].aval
    return aval.shape, aval.dtype, int(np.prod(aval.shape, dtype=int))


def _shapes(equation: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(variable.aval.shape for variable in equation.invars)


def _operand_kind(equation: Any, number: int = 0) -> Kind:
    return kind_of(equation.invars[number].aval.dtype)


def _expansions(equation: Any) -> list[Callable[[Sequence[int]], Iterable[int]]]:
    """Of each argument, what makes its entries those of the result's shape: axes of length one may stand for longer."""
    shape, _, size = _result(equation)
    return [_expansion(of_argument, shape, size) for of_argument in _shapes(equation)]


def _expansion(shape: tuple[int, ...], target: tuple[int, ...], size: int) -> Callable[[Sequence[int]], Iterable[int]]:
    if shape == target:
        return lambda references: references
    if all(length == 1 for length in shape):
        return lambda references: repeat(references[0], size)
    axes = tuple(range(len(target) - len(shape), len(target)))
    (take,) = getters("broadcast_in_dim", {"shape": target, "broadcast_dimensions": axes}, (shape,))
    return (lambda references: references) if take is None else take


# Entry by entry


def _binary(equation: Any, rule: Binary) -> Rule:
    shape, dtype, _ = _result(equation)
    kind = _operand_kind(equation)
    expand_left, expand_right = _expansions(equation)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        x, y = arguments
        left, right = expand_left(builder.references(x, kind)), expand_right(builder.references(y, kind))
        return [builder.settled(rule(builder, kind, left, right), shape, dtype)]

    return apply


def _unary(equation: Any, rule: Unary) -> Rule:
    shape, dtype, _ = _result(equation)
    kind = _operand_kind(equation)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        return [builder.settled(rule(builder, kind, builder.references(arguments[0], kind)), shape, dtype)]

    return apply


def _of_entries(function: Callable[..., int], kind_from: int = 0) -> Callable[[Any], Rule]:
    """A rule of a function of a builder, a kind and one scalar of each argument."""

    def maker(equation: Any) -> Rule:
        shape, dtype, _ = _result(equation)
        expansions = _expansions(equation)
        kinds = [kind_of(variable.aval.dtype) for variable in equation.invars]

        def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
            entries = [
                expand(builder.references(x, kind))
                for x, kind, expand in zip(arguments, kinds, expansions, strict=True)
            ]
            found = [function(builder, kinds[kind_from], *scalars) for scalars in zip(*entries, strict=False)]
            return [builder.settled(found, shape, dtype)]

        return apply

    return maker


def _power(equation: Any) -> Rule:
    shape, dtype, _ = _result(equation)
    expand_base, expand_exponent = _expansions(equation)
    kind, of_exponent = _operand_kind(equation), _operand_kind(equation, 1)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        base, exponent = (builder.references(x, k) for x, k in zip(arguments, (kind, of_exponent), strict=True))
        exponent = functions.convert(builder, of_exponent, kind, exponent)
        pairs = zip(expand_base(base), expand_exponent(exponent), strict=False)
        return [builder.settled([functions.power(builder, kind, x, y) for x, y in pairs], shape, dtype)]

    return apply


def _exp2(builder: ScalarBuilder, kind: int, x: int) -> int:
    return functions.power(builder, kind, builder.constant(2.0, kind), x)


def _clamp(builder: ScalarBuilder, kind: int, least: int, x: int, most: int) -> int:
    larger = functions.extremum(builder, kind, Op.MAX, least, x)
    return functions.extremum(builder, kind, Op.MIN, larger, most)


def _convert(equation: Any) -> Rule:
    shape, dtype, _ = _result(equation)
    source, target = _operand_kind(equation), kind_of(dtype)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        operands = builder.references(arguments[0], source)
        return [builder.settled(functions.convert(builder, source, target, operands), shape, dtype)]

    return apply


def _integer_pow(equation: Any) -> Rule:
    exponent = equation.params["y"]
    return _unary(equation, lambda builder, kind, x: functions.integer_power(builder, kind, x, exponent))


def _round(equation: Any) -> Rule:
    to_even = equation.params["rounding_method"] == RoundingMethod.TO_NEAREST_EVEN
    return _unary(equation, functions.round_to_even if to_even else functions.round_away_from_zero)


def _select(equation: Any) -> Rule:
    shape, dtype, _ = _result(equation)
    kind, (expand_which, *expand_cases) = kind_of(dtype), _expansions(equation)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        which, *cases = arguments
        branches = [expand(builder.references(x, kind)) for expand, x in zip(expand_cases, cases, strict=True)]
        if type(which) is np.ndarray:
            chosen = np.broadcast_to(which.astype(np.int64), shape).ravel().tolist()
            found = [entries[branch] for branch, *entries in zip(chosen, *branches, strict=False)]
        elif len(cases) == 2 and _operand_kind(equation) == Kind.BOOL:
            flags, (no, yes) = expand_which(which), branches
            make = functions.select
            found = [make(builder, kind, flag, x, y) for flag, x, y in zip(flags, yes, no, strict=False)]
        else:
            raise UnsupportedOperation("select_n by an integer that is not known")
        return [builder.settled(found, shape, dtype)]

    return apply


# Movements


def _moved(equation: Any) -> Rule:
    name, parameters, shapes = equation.primitive.name, equation.params, _shapes(equation)
    results = [(variable.aval.shape, variable.aval.dtype) for variable in equation.outvars]
    kinds = [kind_of(variable.aval.dtype) for variable in equation.invars]
    takes: list[Getter] = []

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        if not takes:
            takes.extend(getters(name, parameters, shapes))
        if len(arguments) == 1:
            entries = builder.references(arguments[0], kinds[0])
        else:
            entries = [x for value, kind in zip(arguments, kinds, strict=True) for x in builder.references(value, kind)]
        return [
            builder.settled(entries if take is None else take(entries), shape, dtype)
            for take, (shape, dtype) in zip(takes, results, strict=True)
        ]

    return apply


def _barrier(_: Any) -> Rule:
    return lambda builder, arguments: list(arguments)


def _known(value: Value, name: str) -> np.ndarray:
    """An argument that has to be known.

    Raises:
      UnsupportedOperation: if it is not.
    """
    if type(value) is not np.ndarray:
        raise UnsupportedOperation(f"{name} at indices that are not known")
    return value


def _gather(equation: Any) -> Rule:
    shape, dtype, _ = _result(equation)
    kind, operand = kind_of(dtype), _shapes(equation)[0]
    outside = np.array(fill_value(dtype, equation.params["fill_value"]), dtype).item()

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        indices = _known(arguments[1], "gather")
        numbers = gather_numbers(operand, indices, equation.params).ravel().tolist()
        entries = [*builder.references(arguments[0], kind), builder.constant(outside, kind)]
        return [builder.settled([entries[number] for number in numbers], shape, dtype)]

    return apply


def _scatter(equation: Any, rule: Binary | None) -> Rule:
    shape, dtype, _ = _result(equation)
    kind, (operand, _, changes) = kind_of(dtype), _shapes(equation)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        indices = _known(arguments[1], "scatter")
        numbers = scatter_numbers(operand, indices, changes, equation.params).ravel().tolist()
        entries = list(builder.references(arguments[0], kind))
        for number, change in zip(numbers, builder.references(arguments[2], kind), strict=True):
            if number != OUTSIDE:
                entries[number] = change if rule is None else rule(builder, kind, (entries[number],), (change,))[0]
        return [builder.settled(entries, shape, dtype)]

    return apply


def _dynamic_slice(equation: Any) -> Rule:
    shape, dtype, _ = _result(equation)
    operand, sizes = _shapes(equation)[0], equation.params["slice_sizes"]

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries, *starts = arguments
        first = [int(_known(start, "dynamic_slice")) for start in starts]
        total = int(np.prod(operand, dtype=int))
        take = getter(dynamic_slice_numbers(operand, first, sizes), total)
        references = builder.references(entries, kind_of(dtype))
        return [builder.settled(references if take is None else take(references), shape, dtype)]

    return apply


def _dynamic_update_slice(equation: Any) -> Rule:
    shape, dtype, _ = _result(equation)
    kind, update = kind_of(dtype), _shapes(equation)[1]

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries, changes, *starts = arguments
        first = [int(_known(start, "dynamic_update_slice")) for start in starts]
        found = list(builder.references(entries, kind))
        numbers = dynamic_slice_numbers(shape, first, update).ravel().tolist()
        for number, change in zip(numbers, builder.references(changes, kind), strict=True):
            found[number] = change
        return [builder.settled(found, shape, dtype)]

    return apply


# Sums


def _reduction(equation: Any, rule: Binary) -> Rule:
    shape, dtype, size = _result(equation)
    (operand,), axes, kind = _shapes(equation), tuple(equation.params["axes"]), _operand_kind(equation)
    kept = [axis for axis in range(len(operand)) if axis not in axes]
    order = entry_numbers([operand])[0].transpose(*kept, *axes).reshape(size, -1)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries = builder.references(arguments[0], kind)
        return [builder.settled(reduced(builder, kind, rule, entries, order), shape, dtype)]

    return apply


def _running(equation: Any, rule: Binary) -> Rule:
    shape, dtype, _ = _result(equation)
    kind, axis = _operand_kind(equation), equation.params["axis"]
    numbers = np.moveaxis(entry_numbers([shape])[0], axis, -1)
    order = (numbers[..., ::-1] if equation.params["reverse"] else numbers).reshape(-1, shape[axis])

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries = builder.references(arguments[0], kind)
        return [builder.settled(accumulated(builder, kind, rule, entries, order), shape, dtype)]

    return apply


def _dot_general(equation: Any) -> Rule:
    shape, dtype, _ = _result(equation)
    kind, shapes = kind_of(dtype), _shapes(equation)
    if kind < Kind.FLOAT32 or {variable.aval.dtype for variable in equation.invars} != {dtype}:
        raise UnsupportedOperation(f"dot_general of {dtype}")

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        left, right = (
            np.array(builder.references(x, kind), np.int64).reshape(of_shape)
            for x, of_shape in zip(arguments, shapes, strict=True)
        )
        left, right, _ = dot_operands(left, right, equation.params["dimension_numbers"])
        return [builder.settled(matrix_product(builder, kind, left, right), shape, dtype)]

    return apply


def _reducing(name: str) -> Callable[[Any], Rule]:
    return lambda equation: _reduction(equation, BINARY[name])


def _accumulating(name: str) -> Callable[[Any], Rule]:
    return lambda equation: _running(equation, BINARY[name])


def _scattering(name: str | None) -> Callable[[Any], Rule]:
    return lambda equation: _scatter(equation, None if name is None else BINARY[name])


_MAKERS: Mapping[str, Callable[[Any], Rule]] = {
    "pow": _power,
    "exp2": _of_entries(_exp2),
    "clamp": _of_entries(_clamp),
    "convert_element_type": _convert,
    "integer_pow": _integer_pow,
    "round": _round,
    "select_n": _select,
    "optimization_barrier": _barrier,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "scatter": _scattering(None),
    "scatter-add": _scattering("add"),
    "scatter-sub": _scattering("sub"),
    "scatter-mul": _scattering("mul"),
    "scatter-min": _scattering("min"),
    "scatter-max": _scattering("max"),
    "reduce_sum": _reducing("add"),
    "reduce_prod": _reducing("mul"),
    "reduce_max": _reducing("max"),
    "reduce_min": _reducing("min"),
    "reduce_and": _reducing("and"),
    "reduce_or": _reducing("or"),
    "cumsum": _accumulating("add"),
    "cumprod": _accumulating("mul"),
    "cummax": _accumulating("max"),
    "cummin": _accumulating("min"),
    "dot_general": _dot_general,
}
