"""How a scalar program is cut into functions, and where in memory they keep what they pass on to others."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from artix.evaluation.kernels.llvm_ir import ProgramLists
from artix.evaluation.kernels.machine import KernelError
from artix.evaluation.scalar_program import Kind, Op, ScalarProgram

#: Bytes of a scalar in memory, by kind.
BYTES = {Kind.BOOL: 1, Kind.INT32: 4, Kind.FLOAT32: 4, Kind.FLOAT64: 8}
_KINDS = {"bool": Kind.BOOL, "int32": Kind.INT32, "float32": Kind.FLOAT32, "float64": Kind.FLOAT64}

#: A level is cut into so many functions at most, none of which has fewer operations than this. LLVM compiles them side
#: by side, and takes more than twice as long for one of twice the size; but what functions pass on goes through memory.
#: Cut where few scalars are alive, a step of a humanoid (40,000 operations, float32, AVX-512, two cores) compiles in
#: 3.1, 2.0, 1.3 and 1.6 s as one, two, four and eight functions and takes 0.41, 0.36, 0.37 and 0.39 us; cut into
#: functions of 10,000 operations wherever that falls, it took twice the time of one.
MOST_PARTS, LEAST_OPERATIONS = 4, 2_500


def kind_of(dtype: np.dtype) -> Kind:
    """The kind of the entries of an array.

    Raises:
      KernelError: if kernels have no such kind.
    """
    name = np.dtype(dtype).name
    if name not in _KINDS:
        raise KernelError(f"kernels know arrays of bool, int32, float32 and float64, not of {name}")
    return _KINDS[name]


class Part(NamedTuple):
    """A function: some operations of one level."""

    level: int
    operations: list[int]
    stores: list[int]
    """References that are written to their slots when all is computed, besides those of its own operations."""


class Plan:
    """The functions of a program and the layout of the memory that a task of a kernel works in.

    Scalars that are needed outside the function that makes them have a slot: one lane of those of level 0, all lanes
    of others. So do all distinct entries of results; those of arguments that depend on the robot lie in one block.

    Args:
      program: the program.
      width: how many robots there are in a block, one in each lane.
    """

    def __init__(self, program: ScalarProgram, width: int) -> None:
        self.program, self.width = program, width
        self.lists = ProgramLists(program)
        for _, dtype, _ in program.arguments:
            kind_of(dtype)
        for references, dtype in zip(program.results, program.result_types, strict=True):
            kinds = set(program.kinds[references.ravel() >> 1].tolist())
            if kinds - {int(kind_of(dtype))}:
                raise KernelError(f"a result of type {np.dtype(dtype).name} has entries of another kind")
        self._size = 0
        self._scalars: dict[int, int] = {}
        self._vectors: dict[int, int] = {}
        self.blocks: dict[int, int] = {}
        """Where the entries of arguments of levels 1 and 2 lie that are used."""
        self._results = sorted({int(r) for result in program.results for r in np.unique(result)})
        self._find_live()
        self._cut()
        self._place()

    @property
    def has_items(self) -> bool:
        """Whether there is a level 2."""
        return any(level == 2 for _, _, level in self.program.arguments)

    @property
    def size(self) -> int:
        """Bytes of memory of a task."""
        return self._size

    def scalar_slot(self, number: int) -> int:
        """Where a scalar of level 0 is kept."""
        return self._scalars[number]

    def vector_slot(self, reference: int) -> int | None:
        """Where all lanes of a scalar or its negative are kept, if they are."""
        number, lists = reference >> 1, self.lists
        if not reference & 1 and lists.operations[number] == Op.INPUT and lists.levels[number]:
            argument, entry, _ = lists.operands[number]
            return self.blocks[argument] + entry * self.width * BYTES[Kind(lists.kinds[number])]
        return self._vectors.get(reference)

    def place(self, reference: int) -> int:
        """Where all lanes of a scalar or its negative are kept."""
        slot = self.vector_slot(reference)
        if slot is None:
            raise KeyError(reference)
        return slot

    def result_slots(self, result: int) -> list[int]:
        """Where the entries of a result are kept."""
        return [self.place(reference) for reference in self.program.results[result].ravel().tolist()]

    def _find_live(self) -> None:
        lists = self.lists
        live = np.zeros(len(lists.operations), bool)
        live[[r >> 1 for r in self._results]] = True
        marks = live.tolist()
        for number in range(len(marks) - 1, -1, -1):
            if marks[number] and lists.operations[number] > Op.CONSTANT:
                for reference in lists.operands[number]:
                    if reference >= 0:
                        marks[reference >> 1] = True
        self._live = [number for number, mark in enumerate(marks) if mark]

    def _cut(self) -> None:
        """Cuts each level into functions, and finds what they need of each other."""
        lists = self.lists
        self.parts: list[Part] = []
        home: dict[int, int] = {}
        levels: list[list[int]] = [[], [], []]
        for number in self._live:
            if lists.operations[number] > Op.CONSTANT:
                levels[lists.levels[number]].append(number)
        for level, operations in enumerate(levels):
            bounds = [0, *_narrow_places(lists, operations), len(operations)]
            for first, last in itertools.pairwise(bounds):
                for number in operations[first:last]:
                    home[number] = len(self.parts)
                self.parts.append(Part(level, operations[first:last], []))
        self.kept: set[int] = set()
        """Scalars that are needed outside the function that makes them."""
        for index, part in enumerate(self.parts):
            for number in part.operations:
                for reference in lists.operands[number]:
                    source = reference >> 1  # -1 where there is none
                    if home.get(source, index) != index:
                        self.kept.add(source)
        self.inputs = [number for number in self._live if lists.operations[number] == Op.INPUT]
        last_of_level = {part.level: part for part in self.parts}
        self.fills: list[int] = []
        """References of level 0 that all lanes of results have."""
        for reference in self._results:
            number = reference >> 1
            if lists.operations[number] == Op.CONSTANT or lists.levels[number] == 0:
                self.fills.append(reference)
                if lists.operations[number] > Op.CONSTANT:
                    self.kept.add(number)
            elif reference & 1:
                part = self.parts[home[number]] if number in home else last_of_level[lists.levels[number]]
                part.stores.append(reference)
            elif lists.operations[number] != Op.INPUT:
                self.kept.add(number)

    def _place(self) -> None:
        lists = self.lists
        for number in self.inputs:
            argument = lists.operands[number][0]
            if lists.levels[number] and argument not in self.blocks:
                shape, dtype, _ = self.program.arguments[argument]
                entries = max(math.prod(shape), self.width)  # a whole square is turned at the least
                self.blocks[argument] = self._take(entries * self.width * BYTES[kind_of(dtype)])
        for number in sorted(self.kept):
            if lists.levels[number]:
                self._vectors[2 * number] = self._take_vector(number)
        for reference in self._results:
            if self.vector_slot(reference) is None:
                self._vectors[reference] = self._take_vector(reference >> 1)
        for number in sorted({*self.kept, *self.inputs}):
            if lists.levels[number] == 0:
                self._scalars[number] = self._size
                self._size += 8
        self._take(0)

    def _take_vector(self, number: int) -> int:
        return self._take(self.width * BYTES[Kind(self.lists.kinds[number])])

    def _take(self, size: int) -> int:
        """Takes memory; all but slots of single lanes begin at multiples of 64 bytes."""
        start = -(-self._size // 64) * 64
        self._size = start + size
        return start


def _narrow_places(lists: ProgramLists, operations: list[int]) -> list[int]:
    """Where a level is cut: of the middle of each stretch, before the operation where the fewest scalars are alive."""
    count = len(operations)
    pieces = min(MOST_PARTS, count // LEAST_OPERATIONS)
    if pieces < 2:
        return []
    place_of = {number: place for place, number in enumerate(operations)}
    last_use = np.arange(count)
    for place, number in enumerate(operations):
        for reference in lists.operands[number]:
            source = place_of.get(reference >> 1)  # None of what is of another level, or no operand
            if source is not None:
                last_use[source] = place
    changes = np.zeros(count + 1, int)
    changes[1:] += 1  # what is made at k is alive before k + 1, ...
    np.add.at(changes, last_use + 1, -1)  # until its last use
    alive = np.cumsum(changes)
    windows = [(int(count * (k - 0.3) / pieces), int(count * (k + 0.3) / pieces)) for k in range(1, pieces)]
    return [first + int(np.argmin(alive[first:last])) for first, last in windows]
