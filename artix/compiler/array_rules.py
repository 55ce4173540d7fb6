"""Rules that convert operations on arrays with unknown entries to scalar operations: elementwise
ones, movements, and reductions, products of matrices and sums over subtrees and paths of trees.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from jax.lax import RoundingMethod

from artix.compiler import scalar_functions as functions
from artix.compiler.array_entries import MOVEMENTS, Getter, entry_numbers, getters
from artix.compiler.indexing import (
    check_index,
    dynamic_slice,
    dynamic_update_slice,
    gather,
    scatter,
)
from artix.compiler.known_arrays import CUMULATIVE, REDUCTIONS, SCATTERS, dot_operands
from artix.compiler.scalar_builder import (
    ONE,
    ZERO,
    Rule,
    ScalarBuilder,
    Value,
    operand_kind,
    result_of,
    shapes_of,
)
from artix.compiler.scalar_draws import inverse_error_functions, remainders
from artix.compiler.scalar_functions import (
    BINARY,
    UNARY,
    Binary,
    Unary,
    compare,
    extremum,
    logical,
    negation,
    select,
)
from artix.compiler.scalar_program import BYTES, Kind, Op, UnsupportedOperation, kind_of
from artix.compiler.sorting import sort, top_k


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


def _bitcast(equation: Any) -> Rule:
    shape, dtype, _ = result_of(equation)
    source, target = operand_kind(equation), kind_of(dtype)
    if {BYTES[source], BYTES[target]} != {4}:
        raise UnsupportedOperation(f"bits of {source.name} as {target.name}")

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        operands = builder.references(arguments[0], source)
        return [builder.as_value(functions.bits(builder, target, operands), shape, dtype)]

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
    (operand,) = shapes_of(equation)
    axes = tuple(equation.params["axes"])
    kind = operand_kind(equation)
    kept = [axis for axis in range(len(operand)) if axis not in axes]
    order = entry_numbers([operand])[0].transpose(*kept, *axes).reshape(size, -1)

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries = builder.references(arguments[0], kind)
        return [builder.as_value(reduce_rows(builder, kind, combine, entries, order), shape, dtype)]

    return apply


def _place_of_extremum(equation: Any, operation: Op) -> Rule:
    """The index of the first entry that no other is above, or below; that of the first NaN."""
    shape, dtype, size = result_of(equation)
    (operand,) = shapes_of(equation)
    kind, (axis,) = operand_kind(equation), equation.params["axes"]
    check_index(dtype)
    columns = np.moveaxis(entry_numbers([operand])[0], axis, -1).reshape(size, -1).T.tolist()

    def apply(builder: ScalarBuilder, arguments: Sequence[Value]) -> list[Value]:
        entries = builder.references(arguments[0], kind)

        def replaces(x: int, best: int) -> int:
            pair = (best, x) if operation == Op.MIN else (x, best)
            is_better = negation(builder, compare(builder, kind, Op.LE, *pair))
            if kind < Kind.FLOAT32:
                return is_better
            # NaN is neither less nor equal.
            return logical(builder, Op.AND, is_better, compare(builder, kind, Op.EQ, best, best))

        first, *others = ([entries[number] for number in column] for column in columns)
        best, places = first, [ZERO[Kind.INT32]] * size
        for position, candidates in enumerate(others, 1):
            flags = list(map(replaces, candidates, best))
            here = builder.constant(position, int(Kind.INT32))
            places = [
                select(builder, int(Kind.INT32), flag, here, place)
                for flag, place in zip(flags, places, strict=True)
            ]
            best = [
                select(builder, kind, *choice)
                for choice in zip(flags, candidates, best, strict=True)
            ]
        return [builder.as_value(places, shape, dtype)]

    return apply


def _cumulative(equation: Any, combine: Binary) -> Rule:
    shape, dtype, _ = result_of(equation)
    kind = operand_kind(equation)
    axis = equation.params["axis"]
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
    kind = kind_of(dtype)
    shapes = shapes_of(equation)
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
    "bitcast_convert_type": _bitcast,
    "integer_pow": _integer_pow,
    "round": _round,
    "rem": partial(_binary, rule=remainders),
    "erf_inv": partial(_unary, rule=inverse_error_functions),
    "select_n": _select,
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "dot_general": _dot_general,
    "argmax": partial(_place_of_extremum, operation=Op.MAX),
    "argmin": partial(_place_of_extremum, operation=Op.MIN),
    "sort": sort,
    "top_k": top_k,
    **{name: partial(_reduction, combine=BINARY[combine]) for name, combine in REDUCTIONS.items()},
    **{name: partial(_cumulative, combine=BINARY[combine]) for name, combine in CUMULATIVE.items()},
    **{
        name: partial(scatter, combine=None if combine is None else BINARY[combine])
        for name, combine in SCATTERS.items()
    },
}


# Sums of many scalars


def reduce_rows(
    builder: ScalarBuilder, kind: int, rule: Binary, entries: Sequence[int], order: np.ndarray
) -> list[int]:
    """Combines the entries of each row, in order.

    Args:
      builder: builds the scalars.
      kind: kind of the entries.
      rule: combines two entries.
      entries: entries of the array.
      order: numbers of the entries of each row, [rows, entries per row].
    """
    columns = order.T.tolist()
    results = [entries[number] for number in columns[0]]
    for column in columns[1:]:
        results = rule(builder, kind, results, [entries[number] for number in column])
    return results


def accumulate_rows(
    builder: ScalarBuilder, kind: int, rule: Binary, entries: Sequence[int], order: np.ndarray
) -> list[int]:
    """:func:`reduce_rows` with all partial results, in the order of the entries."""
    columns = order.T.tolist()
    sums = [entries[number] for number in columns[0]]
    results = list(entries)
    for position, column in enumerate(columns):
        if position:
            sums = rule(builder, kind, sums, [entries[number] for number in column])
        for number, scalar in zip(column, sums, strict=True):
            results[number] = scalar
    return results


def matrix_product(builder: ScalarBuilder, kind: int, a: np.ndarray, b: np.ndarray) -> list[int]:
    """Products of matrices of references, without multiplications by zero.

    Args:
      builder: builds the scalars.
      kind: kind of the entries, which are floats.
      a: [batch, m, k].
      b: [batch, k, n].

    Returns:
      The references of [batch, m, n] in row-major order.
    """
    for mask, other in ((b, a), (a.swapaxes(1, 2), b.swapaxes(1, 2))):
        if len(mask) == 1 and _is_mask(mask, kind):
            sums = _sums_by_mask(builder, kind, other[0], mask[0] != ZERO[kind])
            return sums.ravel().tolist() if mask is b else sums.T.ravel().tolist()
    terms = (a != ZERO[kind])[:, :, None, :] & (b != ZERO[kind]).swapaxes(1, 2)[:, None]
    batch, row, column, inner = np.nonzero(terms)
    products = builder.multiply(
        kind, a[batch, row, inner].tolist(), b[batch, inner, column].tolist()
    )
    counts = terms.reshape(-1, terms.shape[-1]).sum(axis=1)
    return _segment_sums(builder, kind, products, counts)


def _segment_sums(
    builder: ScalarBuilder, kind: int, entries: list[int], counts: np.ndarray
) -> list[int]:
    """Sums of consecutive segments with the given numbers of entries."""
    sums = [ZERO[kind]] * len(counts)
    firsts = np.cumsum(counts) - counts
    for position in range(int(counts.max(initial=0))):
        segments = np.flatnonzero(counts > position)
        numbers = (firsts[segments] + position).tolist()
        indices = segments.tolist()
        terms = [entries[number] for number in numbers]
        if position:
            terms = builder.add(kind, [sums[index] for index in indices], terms)
        for index, term in zip(indices, terms, strict=True):
            sums[index] = term
    return sums


def _is_mask(references: np.ndarray, kind: int) -> bool:
    return bool(np.all((references == ZERO[kind]) | (references == ONE[kind])))


class SumPlan(NamedTuple):
    """Sums over sets of entries that share partial sums, which are numbered after the entries."""

    stages: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...]
    """For each stage, the numbers of both operands of its sums, from earlier stages, and of the
    sums."""
    results: tuple[int, ...]
    """The number of each set's sum; -1 for empty sets."""


def plan_of_sums(sets: np.ndarray) -> SumPlan:
    """Plans sums over sets that often contain each other, such as the subtrees or the paths of a
    tree.

    Args:
      sets: which entries each set contains, bool [entries, sets].
    """
    return _plan_of_sums(sets.tobytes(), *sets.shape)


@functools.lru_cache(maxsize=256)
def _plan_of_sums(mask: bytes, entries: int, count: int) -> SumPlan:
    sets = np.frombuffer(mask, bool).reshape(entries, count).T
    sizes = sets.sum(axis=1)
    numbers: dict[bytes, int] = {}
    summed: list[tuple[np.ndarray, int]] = []
    stage_of = [0] * entries
    stages: list[tuple[list[int], list[int], list[int]]] = []
    results = [-1] * count
    for position in np.argsort(sizes, kind="stable").tolist():
        members = sets[position]
        if not sizes[position]:
            continue
        number = numbers.get(members.tobytes())
        if number is None:
            rest, parts = members.copy(), []
            for other, other_number in reversed(summed):  # largest first
                if not np.any(other & ~rest):
                    parts.append(other_number)
                    rest &= ~other
            parts += np.flatnonzero(rest).tolist()
            number = parts[0]
            for part in parts[1:]:
                stage = max(stage_of[number], stage_of[part])
                if stage == len(stages):
                    stages.append(([], [], []))
                for operands, column in zip(
                    (number, part, len(stage_of)), stages[stage], strict=True
                ):
                    column.append(operands)
                number = len(stage_of)
                stage_of.append(stage + 1)
            numbers[members.tobytes()] = number
            if len(parts) > 1:
                summed.append((members, number))
        results[position] = number
    return SumPlan(tuple((tuple(a), tuple(b), tuple(c)) for a, b, c in stages), tuple(results))


def _sums_by_mask(
    builder: ScalarBuilder, kind: int, rows: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Sums over the sets of a mask [entries, sets] of each row of entries, [rows, sets]."""
    plan = plan_of_sums(mask)
    length = len(rows)
    values = dict(enumerate(rows.T.tolist()))
    values[-1] = [ZERO[kind]] * length
    for a, b, sums in plan.stages:
        first, second = (
            [scalar for number in numbers for scalar in values[number]] for numbers in (a, b)
        )
        results = builder.add(kind, first, second)
        for position, number in enumerate(sums):
            values[number] = results[position * length : (position + 1) * length]
    return np.array([values[number] for number in plan.results], np.int64).reshape(-1, length).T
