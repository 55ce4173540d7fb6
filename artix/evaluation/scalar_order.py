"""Turns built scalars into programs, puts these in other orders, and says how many scalars live at once in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from artix.evaluation.scalar_builder import CONSTANTS, ONE, ScalarBuilder
from artix.evaluation.scalar_program import Loop, Op, ScalarProgram, array_operand

_INPUT, _CARRIED, _CONSTANT = int(Op.INPUT), int(Op.CARRIED), int(Op.CONSTANT)
_MUL, _DIV, _LOAD = int(Op.MUL), int(Op.DIV), int(Op.LOAD)

#: Operations with a single reference, their first operand.
_ONE_REFERENCE = (int(Op.CONVERT), _LOAD)

#: From this number on, quotients with the same divisor become products with its reciprocal.
_SHARED_DIVISIONS = 3


def to_program(
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
    needed = _needed_scalars(builder, results)
    builder.check_needed(needed)
    carried = _needed_entries(builder, needed)
    writer = _Writer(builder, _levels(builder, needed, [level for *_, level in arguments], carried), carried)
    reciprocals = _shared_divisors(builder, needed)
    for number in needed:
        operation = builder.operations[number]
        if operation[0] == _DIV and operation[2] >> 1 in reciprocals:
            writer.divide(number, operation)
        else:
            writer.write(number, operation)
    result_references = tuple(
        writer.references_of(result).reshape(shape) for result, (shape, _) in zip(results, types, strict=True)
    )
    loops = _loops(builder, writer, carried)
    return ScalarProgram(
        operations=np.array(writer.operations, np.uint8),
        operands=np.array(writer.operands, np.int32).reshape(-1, 3),
        kinds=np.array(writer.kinds, np.uint8),
        levels=np.array(writer.levels, np.uint8),
        constants=np.array(writer.constants, np.float64),
        arguments=tuple(arguments),
        results=result_references,
        result_types=tuple(np.dtype(dtype) for _, dtype in types),
        tables=tuple(builder.tables),
        loops=loops,
    )


def _loops(builder: ScalarBuilder, writer: _Writer, carried: dict[int, list[int]]) -> tuple[Loop, ...]:
    """The loops that are needed; one within a loop that is not needed is in that loop's own."""
    numbers = {loop: number for number, loop in enumerate(carried)}
    loops = list[Loop]()
    for loop, entries in carried.items():
        length, starts, ends, parent = builder.loops[loop]
        while parent >= 0 and parent not in numbers:
            parent = builder.loops[parent].parent
        starts, ends = (writer.references_of(references[entries]) for references in (starts, ends))
        loops.append(Loop(length, starts, ends, numbers.get(parent, -1)))
    return tuple(loops)


def _needed_scalars(builder: ScalarBuilder, results: Sequence[Sequence[int]]) -> list[int]:
    """Numbers of the scalars that results depend on, in order."""
    operations = builder.operations
    live = bytearray(len(operations))

    def need(references: Iterable[int]) -> None:
        for x in references:
            if x < CONSTANTS:
                live[x >> 1] = 1

    def need_operands(numbers: Iterable[int]) -> set[tuple[int, int]]:
        """Marks the operands of what is live; returns the entries of loops among it."""
        found = set()
        for number in numbers:
            if live[number]:
                operation = operations[number]
                if operation[0] == _CARRIED:
                    found.add((operation[1], operation[2]))
                    if builder.loops[operation[1]].has_condition:
                        found.add((operation[1], 0))
                elif operation[0] != _INPUT:
                    for x in operation[1:2] if operation[0] in _ONE_REFERENCE else operation[1:]:
                        if x < CONSTANTS:
                            live[x >> 1] = 1
        return found

    for result in results:
        need(result)
    known = set[tuple[int, int]]()
    while (entries := need_operands(range(len(operations) - 1, -1, -1))) != known:
        for loop, entry in entries - known:
            need(int(x[entry]) for x in (builder.loops[loop].starts, builder.loops[loop].ends))
        known = entries
    return np.flatnonzero(np.frombuffer(live, np.uint8)).tolist()


def _needed_entries(builder: ScalarBuilder, needed: Sequence[int]) -> dict[int, list[int]]:
    """For each loop that is needed, the entries of what it carries that are."""
    if not builder.loops:
        return {}
    found: dict[int, set[int]] = {}
    for number in needed:
        code, *operands = builder.operations[number]
        if code == _CARRIED:
            found.setdefault(operands[0], {0} if builder.loops[operands[0]].has_condition else set()).add(operands[1])
    return {loop: sorted(found[loop]) for loop in sorted(found)}


def _shared_divisors(builder: ScalarBuilder, needed: Sequence[int]) -> set[int]:
    """Numbers of the scalars by which others are divided often: at many places, or in the iterations of a loop."""
    count = Counter[int]()
    loops: dict[int, int] = {}
    """The innermost loop in which each scalar is computed: that of one of its operands."""
    for number in needed:
        code, *operands = builder.operations[number]
        if code == _CARRIED:
            loops[number] = builder.loops[operands[0]].parent if operands[2] else operands[0]
        elif code != _INPUT:
            references = operands[:1] if code in _ONE_REFERENCE else operands
            loops[number] = max((loops.get(x >> 1, -1) for x in references if x < CONSTANTS), default=-1)
        if code == _DIV and operands[1] < CONSTANTS:
            divisor = operands[1] >> 1
            is_repeated = loops[number] > loops.get(divisor, -1)
            count[divisor] += _SHARED_DIVISIONS if is_repeated else 1
    return {divisor for divisor, times in count.items() if times >= _SHARED_DIVISIONS}


def _levels(
    builder: ScalarBuilder, needed: Sequence[int], of_arguments: Sequence[int], carried: dict[int, list[int]]
) -> list[int]:
    """The level of each scalar that is needed; all that a loop carries has one level."""
    levels, of_loops = [0] * len(builder.operations), dict.fromkeys(carried, 0)
    while True:
        for number in needed:
            code, *operands = builder.operations[number]
            if code == _INPUT:
                levels[number] = of_arguments[operands[0]]
            elif code == _CARRIED:
                levels[number] = of_loops[operands[0]]
            else:
                references = operands[:1] if code in _ONE_REFERENCE else operands
                highest = [levels[x >> 1] for x in references if x < CONSTANTS]
                if code == _LOAD and array_operand(operands[1]) < len(of_arguments):  # Tables are the same for all.
                    highest.append(of_arguments[array_operand(operands[1])])
                levels[number] = max(highest, default=0)
        found = {
            loop: max(
                (levels[x >> 1] for array in builder.loops[loop][1:3] for x in array[entries] if x < CONSTANTS),
                default=0,
            )
            for loop, entries in carried.items()
        }
        if found == of_loops:
            return levels
        of_loops = found


class _Writer:
    """Writes scalars one after another, constants before their first use.

    Args:
      builder: holds the scalars.
      levels: the level of each.
      carried: for each loop that is needed, the entries of what it carries.
    """

    def __init__(self, builder: ScalarBuilder, levels: Sequence[int], carried: dict[int, list[int]]) -> None:
        self.operations: list[int] = []
        self.operands: list[tuple[int, int, int]] = []
        self.kinds: list[int] = []
        self.levels: list[int] = []
        self.constants: list[float] = []
        self._builder, self._levels = builder, levels
        self._references: dict[int, int] = {}
        self._reciprocals: dict[int, int] = {}
        self._places = {
            (loop, entry): (number, place)
            for number, (loop, entries) in enumerate(carried.items())
            for place, entry in enumerate(entries)
        }

    def _append(self, operation: int, operands: tuple[int, ...], kind: int, level: int, constant: float = 0) -> int:
        self.operations.append(operation)
        self.operands.append((*operands, *(-1,) * (3 - len(operands))))  # type: ignore[arg-type]
        self.kinds.append(kind)
        self.levels.append(level)
        self.constants.append(constant)
        return 2 * (len(self.kinds) - 1)

    def reference_of(self, reference: int) -> int:
        """The reference, in the program, of a scalar that is written or constant."""
        scalar = reference & -2
        position = self._references.get(scalar)
        if position is None:
            number = (scalar - CONSTANTS) >> 1
            builder = self._builder
            position = self._append(_CONSTANT, (), builder.constant_kinds[number], 0, builder.constants[number])
            self._references[scalar] = position
        return position | (reference & 1)

    def references_of(self, references: Iterable[int]) -> np.ndarray:
        """The references, in the program, of scalars that are written or constant."""
        return np.array([self.reference_of(int(x)) for x in references], np.int32)

    def write(self, number: int, operation: tuple[int, ...]) -> None:
        """Writes a scalar."""
        code, *operands = operation
        if code == _CARRIED:
            operands = [*self._places[operands[0], operands[1]], operands[2]]
        elif code != _INPUT:
            count = 1 if code in _ONE_REFERENCE else len(operands)
            operands = [*map(self.reference_of, operands[:count]), *(operands[1:] if code == _LOAD else ())]
        kind, level = self._builder.kinds[number], self._levels[number]
        self._references[2 * number] = self._append(code, tuple(operands), kind, level)

    def divide(self, number: int, operation: tuple[int, ...]) -> None:
        """Writes a quotient as a product with a shared reciprocal."""
        _, numerator, divisor = operation
        kind = self._builder.kinds[number]
        reciprocal = self._reciprocals.get(divisor)
        if reciprocal is None:
            one, by = self.reference_of(ONE[kind]), self.reference_of(divisor)
            reciprocal = self._append(_DIV, (one, by), kind, self.levels[by >> 1])
            self._reciprocals[divisor] = reciprocal
        if numerator == ONE[kind]:
            self._references[2 * number] = reciprocal
            return
        by = self.reference_of(numerator)
        level = max(self.levels[by >> 1], self.levels[reciprocal >> 1])
        self._references[2 * number] = self._append(_MUL, (by, reciprocal), kind, level)


def reorder(program: ScalarProgram, order: np.ndarray) -> ScalarProgram:
    """The program in another order.

    Args:
      program: the program.
      order: numbers of its scalars, each after its operands; others are dropped.
    """
    position = np.full(len(program.operations), -1, np.int64)
    position[order] = np.arange(len(order))

    def renumber(references: np.ndarray) -> np.ndarray:
        return np.where(references < 0, references, 2 * position[references >> 1] + (references & 1)).astype(np.int32)

    operations, operands = program.operations[order], program.operands[order].copy()
    has_references = operations > Op.CARRIED
    operands[has_references] = renumber(operands[has_references])
    return program._replace(
        operations=operations,
        operands=operands,
        kinds=program.kinds[order],
        levels=program.levels[order],
        constants=program.constants[order],
        results=tuple(renumber(result) for result in program.results),
        loops=tuple(loop._replace(starts=renumber(loop.starts), ends=renumber(loop.ends)) for loop in program.loops),
    )


def live(program: ScalarProgram) -> int:
    """The largest number of scalars live at once, without constants; results live until they are computed.

    What a loop needs in each iteration is counted until its last use in one.

    Args:
      program: the program.
    """
    first, last = _lives(program)
    return int(np.cumsum(np.bincount(first, minlength=last.max(initial=0) + 2) - np.bincount(last + 1)).max(initial=0))


def lifetime(program: ScalarProgram) -> int:
    """How many operations all scalars together live, as counted by :func:`live`: its mean times their number."""
    first, last = _lives(program)
    return int(np.sum(last - first))


def _lives(program: ScalarProgram) -> tuple[np.ndarray, np.ndarray]:
    """For each scalar that is no constant, its place and that of its last use."""
    operands = np.where((program.operations <= Op.CARRIED)[:, None], -1, program.operands) >> 1
    numbers = np.broadcast_to(np.arange(len(operands))[:, None], operands.shape)
    last, used = np.arange(len(operands)), operands >= 0
    np.maximum.at(last, operands[used], numbers[used])
    first = np.flatnonzero(program.operations != Op.CONSTANT)
    return first, last[first]
