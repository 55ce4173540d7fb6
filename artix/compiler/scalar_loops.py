"""Loops whose bodies are built once, because unrolled they would make a program long."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from artix.compiler.scalar_builder import CONSTANTS, ONE, TRUE, ZERO, ScalarBuilder, Value
from artix.compiler.scalar_functions import integer, logical
from artix.compiler.scalar_program import Kind, Op, kind_of
from artix.compiler.scalar_transpose import NotLinear, any_linear

_CARRIED, _INDEX, _BOOL = int(Op.CARRIED), int(Kind.INT32), int(Kind.BOOL)


class _Changing(NamedTuple):
    """The entries of what a loop carries that its iterations change."""

    entries: set[int]
    guessed: set[int]
    """Those of them of which that is not known yet."""


class Loops:
    """Builds loops.

    Args:
      builder: holds the scalars.
    """

    def __init__(self, builder: ScalarBuilder) -> None:
        self._builder = builder
        self._depth = 0
        self._num_open = 0
        """How many kept loops are being evaluated, one within the other."""
        self._has_grown = False
        """Whether more was seen to change in the last evaluation of the outermost of them."""
        self._is_needed = TRUE
        self._changing: dict[int, _Changing] = {}
        """For each loop that was kept in the outermost one being evaluated, the entries that its
        iterations change."""

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluates a loop, in the context: several times if it is kept, and with it all loops
        within it.

        What changed in such a loop once is taken to change the next time.
        """
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._changing.clear()

    @contextlib.contextmanager
    def only_if(self, is_needed: int) -> Iterator[None]:
        """Evaluates what is needed only if a bool is true: loops, in the context, do not begin
        where it is false.
        """
        before = self._is_needed
        self._is_needed = logical(self._builder, Op.AND, before, is_needed)
        try:
            yield
        finally:
            self._is_needed = before

    def was_kept(self, equation: Any) -> bool:
        """Whether a loop was kept before, in the outermost one being evaluated."""
        return id(equation) in self._changing

    def repeated(
        self,
        body: Callable[[int, list[Value]], Sequence[Value]],
        carry: Sequence[Value],
        types: Sequence[Any],
        length: int,
        equation: Any,
    ) -> list[Value]:
        """What a loop carries after its last iteration.

        What the body leaves as it is, such as zeros, is the same in all iterations, and known if it
        is known at the start.

        Args:
          body: what it carries into the next iteration, given the reference of the iteration's
            number and what is carried.
          carry: what is carried into the first iteration.
          types: shapes and dtypes of what is carried.
          length: number of iterations.
          equation: what the loop is in the traced program.

        Raises:
          UnsupportedOperation: there are no scalars of these types, or they are to be transposed.
        """
        builder = self._builder
        kinds = [_INDEX, *_kinds(types)]
        starts = [ZERO[_INDEX], *_references(builder, carry, types)]

        def following(before: Sequence[int]) -> list[int]:
            number = integer(builder, Op.ADD, before[0], ONE[_INDEX])
            return [
                number,
                *_references(builder, body(before[0], _values(builder, before[1:], types)), types),
            ]

        changing = self._changing_in(equation, starts, types)
        return _values(
            builder, self._carried(following, starts, kinds, length, changing)[1:], types
        )

    def repeated_while(
        self,
        condition: Callable[[Sequence[Value]], Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
        carry: Sequence[Value],
        types: Sequence[Any],
        equation: Any,
        second: Sequence[Value] | None = None,
    ) -> list[Value]:
        """What a loop carries when its condition is no longer true; otherwise as :meth:`repeated`.

        A robot whose condition never becomes false never ends: a condition needs a largest number
        of iterations. If what is carried into the second iteration is evaluated already, ``second``
        spares another evaluation.
        """
        builder = self._builder

        def with_condition(values: Sequence[Value]) -> list[int]:
            return [
                *builder.references(condition(values), _BOOL),
                *_references(builder, values, types),
            ]

        def following(before: Sequence[int]) -> list[int]:
            return with_condition(body(_values(builder, before[1:], types)))

        kinds = [_BOOL, *_kinds(types)]
        starts = with_condition(carry)
        starts[0] = logical(builder, Op.AND, starts[0], self._is_needed)
        changing = self._changing_in(equation, starts, types)
        if second is not None:
            changing.entries.update(_differing(starts, with_condition(second)))
        before = self._is_needed
        self._is_needed = TRUE  # The body is computed only where the loop has begun.
        try:
            return _values(builder, self._carried(following, starts, kinds, 0, changing)[1:], types)
        finally:
            self._is_needed = before

    def _changing_in(self, equation: Any, starts: Sequence[int], types: Sequence[Any]) -> _Changing:
        """What is known to change in a loop, or, if it is new, what probably does.

        What is not known at the start changes in nearly all loops, and so do counters, flags and
        other single numbers. Each further guess that holds spares an evaluation of the body.
        """
        changing = self._changing.get(id(equation))
        if changing is None:
            is_single = [True, *(not x.shape for x in types for _ in range(x.size))]
            guessed = {
                entry
                for entry, (start, single) in enumerate(zip(starts, is_single, strict=True))
                if start < CONSTANTS or single
            }
            changing = self._changing[id(equation)] = _Changing(set(guessed), guessed)
        return changing

    def _carried(
        self,
        following: Callable[[Sequence[int]], list[int]],
        starts: list[int],
        kinds: Sequence[int],
        length: int,
        changing: _Changing,
    ) -> list[int]:
        """The entries after a loop, given those at its start and a function of those of one
        iteration.

        ``changing``, the entries that are known to change, grows until no others do: here, or, for
        a loop within another one that is kept, when that one is evaluated again.
        """
        builder = self._builder
        outer = builder.loop
        loop = builder.new_loop()

        def carried(entry: int, is_after: int) -> int:
            return (
                builder.make(kinds[entry], _CARRIED, loop, entry, is_after)
                if entry in changing.entries
                else starts[entry]
            )

        builder.loop = loop
        self._num_open += 1
        try:
            while True:
                is_outermost = self._num_open == 1
                if is_outermost:
                    self._has_grown = False
                before = [carried(entry, 0) for entry in range(len(starts))]
                ends = following(before)
                changed = _differing(before, ends)
                wrong = changing.guessed - changed
                changing.guessed.difference_update(wrong)
                changing.entries.difference_update(wrong)
                self._has_grown |= bool(wrong) or not changed <= changing.entries
                changing.entries.update(changed)
                if not (is_outermost and self._has_grown):
                    break
        finally:
            builder.loop = outer
            self._num_open -= 1
        if any_linear(builder, [*starts, *ends]):
            raise NotLinear("a loop over linear scalars, which is transposed as a whole")
        builder.end_loop(loop, length, starts, ends)
        return [carried(entry, 1) for entry in range(len(starts))]


def _differing(some: Sequence[int], others: Sequence[int]) -> set[int]:
    return {entry for entry, (x, y) in enumerate(zip(some, others, strict=True)) if x != y}


def _kinds(types: Sequence[Any]) -> list[int]:
    return [int(kind_of(x.dtype)) for x in types for _ in range(x.size)]


def _references(builder: ScalarBuilder, values: Sequence[Value], types: Sequence[Any]) -> list[int]:
    """The references of all entries, one value after another."""
    pairs = zip(values, types, strict=True)
    return [x for value, aval in pairs for x in builder.references(value, kind_of(aval.dtype))]


def _values(builder: ScalarBuilder, references: Sequence[int], types: Sequence[Any]) -> list[Value]:
    values, first = list[Value](), 0
    for aval in types:
        values.append(
            builder.as_value(
                references[first : first + aval.size], aval.shape, np.dtype(aval.dtype)
            )
        )
        first += aval.size
    return values


def entry_of_iteration(builder: ScalarBuilder, array: np.ndarray, iteration: int) -> Value:
    """Row ``iteration``, a reference, of a known array."""
    kind = kind_of(array.dtype)
    columns = np.ascontiguousarray(array.reshape(len(array), -1).T)
    references = [
        builder.constant(column[0].item(), kind)
        if (column == column[0]).all()
        else builder.entry(kind, builder.table_of(column), iteration)
        for column in columns
    ]
    return builder.as_value(references, array.shape[1:], array.dtype)
