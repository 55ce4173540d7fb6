"""Converts the traced program of one robot to a scalar program, by evaluating it on references to
scalars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr

from artix.compiler.jax_internals import long_call
from artix.compiler.program import AxesOfAll
from artix.compiler.scalar_branches import with_branches
from artix.compiler.scalar_builder import ZERO, LargeArgument, ScalarBuilder, Value
from artix.compiler.scalar_evaluation import Evaluator
from artix.compiler.scalar_order import to_program
from artix.compiler.scalar_program import ScalarProgram, kind_of
from artix.compiler.scalar_transpose import transposed

#: Larger arguments get scalars only for the entries that are read.
_MAX_ENTRIES = 1_000


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
        return _ended(to_program(builder, arguments, references, types), has_loops)


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
        return _ended(to_program(builder, arguments, references, types_of_linear), has_loops)


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
