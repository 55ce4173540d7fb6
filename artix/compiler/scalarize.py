"""Converts the traced program of one robot to a scalar program, by evaluating it on references to
scalars and writing those that its results need.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr

from artix.compiler.jax_internals import long_call
from artix.compiler.program import AxesOfAll
from artix.compiler.scalar_branches import with_branches
from artix.compiler.scalar_builder import CONSTANTS, ONE, ZERO, LargeArgument, ScalarBuilder, Value
from artix.compiler.scalar_evaluation import Evaluator
from artix.compiler.scalar_program import (
    ONE_REFERENCE,
    TWO_REFERENCES,
    Loop,
    Op,
    ScalarProgram,
    array_operand,
    kind_of,
    raise_to_operands,
)
from artix.compiler.scalar_transpose import transposed

#: Larger arguments get scalars only for the entries that are read.
_MAX_ENTRIES = 1_000

_INPUT, _CARRIED, _CONSTANT = int(Op.INPUT), int(Op.CARRIED), int(Op.CONSTANT)
_MUL, _DIV, _LOAD = int(Op.MUL), int(Op.DIV), int(Op.LOAD)
#: Operations whose second operand is the kind of the result, while scalars are built.
_TO_A_KIND = int(Op.CONVERT), int(Op.BITCAST)

#: From this number on, quotients with the same divisor become products with its reciprocal.
_SHARED_DIVISIONS = 3


@long_call
def scalarize(
    program: ClosedJaxpr,
    levels: Sequence[int],
    known: Mapping[int, np.ndarray],
    argument_axes: AxesOfAll | None = None,
    result_axes: AxesOfAll | None = None,
    *,
    max_operations: int = 150_000,
    has_loops: bool = True,
    one_direction: bool = False,
) -> ScalarProgram:
    """The scalar program of a program of arrays, with constants folded, zeros dropped and common
    subexpressions shared.

    Zero times anything and ``x - x`` are zero, even if ``x`` is not finite.

    Args:
      program: a traced function of one robot.
      levels: the level of each of its arguments.
      known: the values of known arguments, by index; the arguments of the scalar program are the
        others.
      argument_axes: where the arguments are within larger ones, which are those of the scalar
        program.
      result_axes: where the results are within larger ones, which are zero elsewhere.
      max_operations: largest number of its operations.
      has_loops: whether long loops stay loops; if not, they are unrolled.
      one_direction: whether derivatives are along one direction for each robot, which decides
        between formulas, see :mod:`artix.compiler.linear_maps`.

    Raises:
      UnsupportedOperation: there is no rule for one of its operations.
      TooManyOperations: there are more than ``max_operations``, or many times as many to find out.
    """
    builder = ScalarBuilder(max_operations, len(levels) - len(known))
    values, arguments = _operands(builder, program.in_avals, levels, known, argument_axes)
    with np.errstate(all="ignore"):
        evaluator = Evaluator(builder, has_loops, one_direction)
        references = _references(evaluator, program, values)
        types = [(aval.shape, np.dtype(aval.dtype)) for aval in program.out_avals]
        if result_axes is not None:
            pairs = list(map(_padded, references, types, result_axes))
            references, types = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return _ended(_to_program(builder, arguments, references, types), has_loops)


@long_call
def scalarize_transpose(
    program: ClosedJaxpr,
    num_values: int,
    linear: Sequence[int],
    used: Sequence[int],
    levels: Sequence[int],
    known: Mapping[int, np.ndarray],
    *,
    max_operations: int = 150_000,
    has_loops: bool = True,
    one_direction: bool = False,
) -> ScalarProgram:
    """The scalar program of the transpose of a linear program.

    Args:
      program: a traced function of one robot, linear in its arguments after the first
        ``num_values``.
      num_values: number of arguments in which it need not be linear.
      linear: the arguments whose cotangents are wanted; other linear arguments are zero.
      used: the results whose cotangents are given; those of the others are zero.
      levels: levels of the transpose's arguments, which are the values and then the cotangents.
      known: the values of those of its arguments that are known.
      max_operations: as for :func:`scalarize`.
      has_loops: as for :func:`scalarize`.
      one_direction: as for :func:`scalarize`, of cotangents.

    Raises:
      NotLinear: the scalars have no transpose, although the program may have one.
      UnsupportedOperation: as :func:`scalarize`.
      TooManyOperations: as :func:`scalarize`.
    """
    builder = ScalarBuilder(max_operations, len(levels) - len(known))
    types = [*program.in_avals[:num_values], *(program.out_avals[index] for index in used)]
    operands, arguments = _operands(builder, types, levels, known)
    with np.errstate(all="ignore"):
        values: list[Value] = [*operands[:num_values]]
        values += [np.zeros(aval.shape, aval.dtype) for aval in program.in_avals[num_values:]]
        builder.has_linear = True
        for number, index in enumerate(linear):
            values[index] = _entries(builder, program.in_avals[index], -1 - number)
        results = _references(Evaluator(builder, has_loops, one_direction), program, values)
        kinds = [kind_of(program.out_avals[index].dtype) for index in used]
        cotangents = [
            builder.references(x, kind)
            for x, kind in zip(operands[num_values:], kinds, strict=True)
        ]
        pairs = [
            pair
            for x, index in zip(cotangents, used, strict=True)
            for pair in zip(results[index], x, strict=True)
        ]
        cotangent_of = transposed(builder, pairs)
        avals = [program.in_avals[index] for index in linear]
        references = [
            [cotangent_of.get(entry, ZERO[kind_of(aval.dtype)]) for entry in values[index]]
            if aval.size
            else []
            for index, aval in zip(linear, avals, strict=True)
        ]
        types_of_linear = [(aval.shape, np.dtype(aval.dtype)) for aval in avals]
        return _ended(_to_program(builder, arguments, references, types_of_linear), has_loops)


def _ended(program: ScalarProgram, has_loops: bool) -> ScalarProgram:
    return with_branches(program) if has_loops else program


def _operands(
    builder: ScalarBuilder,
    avals: Sequence[Any],
    levels: Sequence[int],
    known: Mapping[int, np.ndarray],
    axes: AxesOfAll | None = None,
) -> tuple[list[Value], list[tuple[tuple[int, ...], np.dtype, int]]]:
    """The values of all arguments, and shape, dtype and level of those that are not known."""
    values: list[Value] = []
    arguments: list[tuple[tuple[int, ...], np.dtype, int]] = []
    for number, (aval, level) in enumerate(zip(avals, levels, strict=True)):
        if number in known:
            values.append(np.asarray(known[number], aval.dtype))
            continue
        shape = aval.shape if axes is None else tuple(length for *_, length in axes[number])
        if shape == aval.shape or 0 in aval.shape:
            values.append(_entries(builder, aval, len(arguments)))
        else:
            assert axes is not None
            entries = LargeArgument(
                builder, kind_of(aval.dtype), len(arguments), int(np.prod(shape, dtype=int))
            )
            values.append([entries[place] for place in _places(axes[number]).ravel().tolist()])
        arguments.append((shape, np.dtype(aval.dtype), level))
    return values, arguments


def _places(axes: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """The numbers of an array's entries among those of the larger array that contains it."""
    shape = [length for *_, length in axes]
    numbers = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    return numbers[tuple(slice(start, start + size) for start, size, _ in axes)]


def _padded(
    references: Sequence[int],
    type_: tuple[tuple[int, ...], np.dtype],
    axes: Sequence[tuple[int, int, int]],
) -> tuple[Sequence[int], tuple[tuple[int, ...], np.dtype]]:
    """The references and the type of the larger array that contains a result."""
    shape = tuple(length for *_, length in axes)
    larger = np.full(int(np.prod(shape, dtype=int)), ZERO[kind_of(type_[1])])
    larger[_places(axes).ravel()] = references
    return larger.tolist(), (shape, type_[1])


def _entries(builder: ScalarBuilder, aval: Any, number: int) -> Value:
    """The entries of an argument; one without any is known."""
    size = int(np.prod(aval.shape, dtype=int))
    if not size:
        return np.zeros(aval.shape, aval.dtype)
    entries = LargeArgument(builder, kind_of(aval.dtype), number, size)
    return entries if size > _MAX_ENTRIES else entries[:]


def _references(
    evaluator: Evaluator, program: ClosedJaxpr, values: Sequence[Value]
) -> list[Sequence[int]]:
    """The references of the entries of all results."""
    outputs = zip(evaluator.call(program, values), program.out_avals, strict=True)
    return [evaluator.builder.references(value, kind_of(aval.dtype)) for value, aval in outputs]


# The program of scalars


class _Built(NamedTuple):
    """The scalars that a program needs, as arrays."""

    numbers: np.ndarray
    """Their numbers in the builder, ascending, [N]."""
    operations: np.ndarray
    """:class:`Op` of each, [N]."""
    operands: np.ndarray
    """As the builder has them, [N, 3]; -1 where there are fewer."""
    is_reference: np.ndarray
    """Which of the operands are references, [N, 3]."""
    sources: np.ndarray
    """Rows of the scalars that are operands, [N, 3]; N for constants and where there are fewer."""
    row_of: np.ndarray
    """The row of each scalar of the builder; N for others."""


def _arrays(builder: ScalarBuilder, numbers: np.ndarray) -> _Built:
    rows = list(map(builder.operations.__getitem__, numbers.tolist()))
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    flat = np.fromiter(itertools.chain.from_iterable(rows), np.int64, int(lengths.sum()))
    places = (np.cumsum(lengths) - lengths)[:, None] + np.arange(1, 4)
    exists = np.arange(1, 4) < lengths[:, None]
    operands = np.where(exists, flat[np.where(exists, places, 0)], -1)
    operations = flat[places[:, 0] - 1]
    is_reference = exists & (operations > Op.CONSTANT)[:, None]
    is_reference[np.isin(operations, ONE_REFERENCE), 1:] = False
    row_of = np.full(builder.size + 1, len(rows))
    row_of[numbers] = np.arange(len(rows))
    is_scalar = is_reference & (operands < CONSTANTS)
    sources = row_of[np.where(is_scalar, operands >> 1, -1)]
    return _Built(numbers, operations, operands, is_reference, sources, row_of)


def _to_program(
    builder: ScalarBuilder,
    arguments: Sequence[tuple[tuple[int, ...], np.dtype, int]],
    results: Sequence[Sequence[int]],
    types: Sequence[tuple[tuple[int, ...], np.dtype]],
) -> ScalarProgram:
    """The program of the scalars on which results depend.

    Args:
      builder: holds the scalars.
      arguments: shape, dtype and level of each argument.
      results: references of each result, in row-major order.
      types: shape and dtype of each result.

    Raises:
      TooManyOperations: they are too many.
    """
    outputs = [np.array(result, np.int64) for result in results]
    needed = _needed_scalars(builder, outputs)
    built = _arrays(builder, needed)
    operations, operands = built.operations, built.operands
    builder.check_needed(int(np.count_nonzero(operations > Op.CONSTANT)))
    carried = _needed_entries(builder, built)
    levels = _levels(builder, built, [level for *_, level in arguments], carried)
    kinds = np.array(builder.kinds, np.uint8)
    # Quotients by a divisor that others share are products with its reciprocal, which precedes the
    # first of them.
    is_shared = np.zeros(len(needed) + 1, bool)
    is_shared[_shared_divisors(builder, built)] = True
    divides = (operations == _DIV) & is_shared[built.sources[:, 1]]
    one = np.array(ONE)[kinds[needed]]
    is_reciprocal = divides & (operands[:, 0] == one)
    begins = np.zeros(len(needed), bool)
    divisors, first = np.unique(np.where(divides, operands[:, 1], -1), return_index=True)
    begins[first[divisors >= 0]] = True
    references = operands[built.is_reference]
    loops = [(builder.loops[loop], entries) for loop, entries in carried.items()]
    ends = [array[entries] for loop, entries in loops for array in (loop.starts, loop.ends)]
    everything = np.concatenate([references, one[begins], *outputs, *ends])
    constants = np.unique(everything[everything >= CONSTANTS] & -2)
    # Constants come first.
    sizes = begins.astype(int) + ~is_reciprocal
    places = len(constants) + np.cumsum(sizes) - sizes
    new = np.zeros(len(kinds) + 1, np.int64)
    reciprocal_of = np.zeros(len(kinds) + 1, np.int64)
    reciprocal_of[operands[begins, 1] >> 1] = places[begins]
    new[needed] = np.where(
        is_reciprocal, reciprocal_of[np.where(divides, operands[:, 1] >> 1, 0)], places + begins
    )

    def renumber(old: np.ndarray) -> np.ndarray:
        is_constant = old >= CONSTANTS
        place = np.where(
            is_constant,
            np.searchsorted(constants, old & -2),
            new[np.where(is_constant, 0, old >> 1)],
        )
        return 2 * place + (old & 1)

    count = len(constants) + int(sizes.sum())
    program = ScalarProgram(
        operations=np.full(count, _CONSTANT, np.uint8),
        operands=np.full((count, 3), -1, np.int32),
        kinds=np.empty(count, np.uint8),
        levels=np.zeros(count, np.uint8),
        constants=np.zeros(count),
        arguments=tuple(arguments),
        results=tuple(
            renumber(output).astype(np.int32).reshape(shape)
            for output, (shape, _) in zip(outputs, types, strict=True)
        ),
        result_types=tuple(np.dtype(dtype) for _, dtype in types),
        tables=tuple(builder.tables),
        loops=_loops(builder, carried, renumber),
    )
    numbers = (constants - CONSTANTS) >> 1
    program.constants[: len(constants)] = np.array(builder.constants)[numbers]
    program.kinds[: len(constants)] = np.array(builder.constant_kinds)[numbers]

    def write(
        where: np.ndarray,
        rows: np.ndarray,
        codes: Any,
        new_operands: np.ndarray,
        new_levels: np.ndarray,
    ) -> None:
        program.operations[where], program.operands[where] = codes, new_operands
        program.kinds[where], program.levels[where] = kinds[needed[rows]], new_levels

    new_operands = operands.copy()
    new_operands[built.is_reference] = renumber(references)
    new_operands[np.isin(operations, _TO_A_KIND), 1] = -1
    for row in np.flatnonzero(operations == _CARRIED).tolist():
        loop, entry, _ = operands[row].tolist()
        new_operands[row, :2] = list(carried).index(loop), carried[loop].index(entry)
    begin = np.flatnonzero(begins)
    inverse = np.stack([renumber(one[begin]), new_operands[begin, 1], np.full(len(begin), -1)], 1)
    write(places[begin], begin, _DIV, inverse, levels[built.sources[begin, 1]])
    new_operands[divides, 1] = 2 * reciprocal_of[operands[divides, 1] >> 1]
    kept = np.flatnonzero(~is_reciprocal)
    codes = np.where(divides, _MUL, operations)[kept]
    write(new[needed[kept]], kept, codes, new_operands[kept], levels[kept])
    return program


def _loops(
    builder: ScalarBuilder,
    carried: dict[int, list[int]],
    renumber: Callable[[np.ndarray], np.ndarray],
) -> tuple[Loop, ...]:
    """The loops that are needed; one within a loop that is not needed is in that loop's own."""
    numbers = {loop: number for number, loop in enumerate(carried)}
    loops = list[Loop]()
    for loop, entries in carried.items():
        length, starts, ends, parent = builder.loops[loop]
        while parent >= 0 and parent not in numbers:
            parent = builder.loops[parent].parent
        new_starts, new_ends = (
            renumber(x[entries].astype(np.int64)).astype(np.int32) for x in (starts, ends)
        )
        loops.append(Loop(length, new_starts, new_ends, numbers.get(parent, -1)))
    return tuple(loops)


def _needed_scalars(builder: ScalarBuilder, results: Sequence[np.ndarray]) -> np.ndarray:
    """Numbers of the scalars that results depend on, in order."""
    loops = [
        (loop.starts.tolist(), loop.ends.tolist(), loop.has_condition) for loop in builder.loops
    ]
    operations = builder.operations
    is_needed = bytearray(builder.size)
    outputs = np.concatenate([*results, np.zeros(0, np.int64)])
    stack = np.unique(outputs[outputs < CONSTANTS] >> 1).tolist()
    pop, push = stack.pop, stack.append
    while stack:
        number = pop()
        if is_needed[number]:
            continue
        is_needed[number] = 1
        # Most time is spent here, so the last operands come before what is special.
        operation = operations[number]
        code = operation[0]
        if code in TWO_REFERENCES:
            _, x, y = operation
            if x < CONSTANTS and not is_needed[x >> 1]:
                push(x >> 1)
            if y < CONSTANTS and not is_needed[y >> 1]:
                push(y >> 1)
        elif code > _CONSTANT:
            for x in operation[1:2] if code in ONE_REFERENCE else operation[1:]:
                if x < CONSTANTS and not is_needed[x >> 1]:
                    push(x >> 1)
        elif code == _CARRIED:
            _, loop, chosen, _ = operation
            starts, ends, has_condition = loops[loop]
            for entry in {chosen, 0} if has_condition else (chosen,):
                stack += [x >> 1 for x in (starts[entry], ends[entry]) if x < CONSTANTS]
    return np.flatnonzero(np.frombuffer(is_needed, np.uint8))


def _needed_entries(builder: ScalarBuilder, built: _Built) -> dict[int, list[int]]:
    """For each loop that is needed, the entries of what it carries that are."""
    carried: dict[int, set[int]] = {}
    for loop, entry, _ in built.operands[built.operations == _CARRIED].tolist():
        carried.setdefault(loop, {0} if builder.loops[loop].has_condition else set()).add(entry)
    return {loop: sorted(carried[loop]) for loop in sorted(carried)}


def _shared_divisors(builder: ScalarBuilder, built: _Built) -> np.ndarray:
    """Rows of the scalars by which others are divided often: at many places, or in the iterations
    of a loop.
    """
    loop_of = np.full(len(built.numbers) + 1, -1)
    """The innermost loop in which each scalar is computed: that of one of its operands."""
    if builder.loops:
        loops = loop_of.tolist()
        carried = np.flatnonzero(built.operations == _CARRIED)
        for row, (loop, _, is_after) in zip(
            carried.tolist(), built.operands[carried].tolist(), strict=True
        ):
            loops[row] = builder.loops[loop].parent if is_after else loop
        raise_to_operands(loops, range(len(built.numbers)), built.sources)
        loop_of = np.array(loops)
    quotients = np.flatnonzero(built.operations == _DIV)
    divisors = built.sources[quotients, 1]
    times = np.where(loop_of[quotients] > loop_of[divisors], _SHARED_DIVISIONS, 1)
    count = np.bincount(divisors, times, len(built.numbers) + 1)[:-1]
    return np.flatnonzero(count >= _SHARED_DIVISIONS)


def _levels(
    builder: ScalarBuilder,
    built: _Built,
    of_arguments: Sequence[int],
    carried: dict[int, list[int]],
) -> np.ndarray:
    """The level of each scalar that is needed; all that a loop carries has one level."""
    count = len(built.numbers)
    operations = built.operations
    is_input, is_load = operations == _INPUT, operations == _LOAD
    # Tables are the same for all.
    of_arrays = np.array([*of_arguments, *(0 for _ in builder.tables), 0])
    arrays = np.where(is_input, built.operands[:, 0], array_operand(built.operands[:, 1]))  # type: ignore[arg-type]
    has_array = (is_input | is_load) & (arrays >= 0)
    least = np.zeros(count + 1, np.int64)
    least[:-1][has_array] = of_arrays[arrays[has_array]]
    rows = built.sources
    of_loops = dict.fromkeys(carried, 0)
    entries = np.flatnonzero(operations == _CARRIED)
    loops = built.operands[entries, 0]
    rows_of = {loop: entries[loops == loop] for loop in carried}
    # What a loop starts from is computed before anything that it carries.
    begins = {int(rows_of[loop][0]): loop for loop in carried}
    bounds = [*sorted(begins), count]

    def of_carried(levels: list[int], loop: int, array: np.ndarray) -> int:
        scalars = (x >> 1 for x in array[carried[loop]].tolist() if x < CONSTANTS)
        return max((levels[row] for row in built.row_of[[*scalars]].tolist()), default=0)

    while True:
        levels = least.tolist()
        raise_to_operands(levels, range(bounds[0]), rows[: bounds[0]])
        for first, last in itertools.pairwise(bounds):
            loop = begins[first]
            level = max(of_loops[loop], of_carried(levels, loop, builder.loops[loop].starts))
            of_loops[loop] = level
            for row in rows_of[loop].tolist():
                levels[row] = level
            raise_to_operands(levels, range(first, last), rows[first:last])
        at_ends = {
            loop: max(of_loops[loop], of_carried(levels, loop, builder.loops[loop].ends))
            for loop in carried
        }
        if at_ends == of_loops:
            return np.array(levels, np.uint8)
        of_loops = at_ends
