"""Splits a scalar program into functions, and lays out the memory through which they pass
values.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from artix.compiler.kernels.machine import KernelError
from artix.compiler.kernels.program_lists import ProgramLists
from artix.compiler.kernels.straight_lines import copyable, encodable
from artix.compiler.kernels.transposition import tile_columns
from artix.compiler.scalar_program import BYTES, Kind, Op, ScalarProgram, kind_of

#: Operations of a function into which a level is split, and functions of a module. The time of
#: LLVM's register allocator grows faster than the size of a function, and a large function spills
#: more values than pass through memory where few are alive. Modules are compiled in parallel. In
#: functions of 200 operations instead of at most four functions, a step of a humanoid (30,000
#: operations, float32, AVX-512, November 2026) compiles in 1.3 instead of 2.0 s of CPU time and
#: takes 0.88 times as long; the gradient of a quadruped's step on the ground (54,000 operations)
#: compiles in 2.3 instead of 4.2 s and takes 0.72 times as long. Functions of 100 operations are
#: slower. With AVX2 alone, which has half the registers, the humanoid's step takes 1.05 to 1.1
#: times as long as in four functions.
PART_OPERATIONS, MODULE_PARTS = 200, 16


def result_kinds(program: ScalarProgram) -> list[Kind]:
    """The kinds of the results of a program.

    Raises:
      KernelError: a result has entries of another kind.
    """
    kinds = [kind_of(dtype) for dtype in program.result_types]
    for references, kind in zip(program.results, kinds, strict=True):
        if set(program.kinds[references.ravel() >> 1].tolist()) - {int(kind)}:
            raise KernelError(f"a result of kind {kind.name} has entries of another kind")
    return kinds


class Part(NamedTuple):
    """A function: some operations of one level and stage."""

    level: int
    stage: int
    operations: list[int]
    stores: list[int]
    """References stored in their slots at the end: negatives, and scalars of other functions."""
    nest: tuple[int, ...]
    """The loops that repeat it."""
    ended: int | None = None
    """The loop whose iterations end with it, where it stores what they carry into the next."""
    is_encoded: bool = False
    """Whether it is written in machine code rather than compiled by LLVM."""

    @property
    def is_empty(self) -> bool:
        """Whether it does nothing."""
        return not self.operations and not self.stores and self.ended is None

    @property
    def reads_ahead(self) -> bool:
        """Whether it requests arguments of the next block: once for each robot."""
        return self.level == 1 and not self.nest


class Plan:
    """The functions of a program and the layout of a task's memory.

    A scalar that is needed outside the function that computes it has a slot: for one lane if it is
    of level 0, or else for all lanes. So has every distinct entry of a result. The entries of an
    argument that depends on the robot are contiguous.

    Args:
      program: the program, without scalars that no result needs.
      width: robots per block, one in each lane.
    """

    def __init__(self, program: ScalarProgram, width: int) -> None:
        self.program, self.width = program, width
        self.lists = ProgramLists(program)
        self.result_kinds = result_kinds(program)
        self.size = 0
        """Bytes of a task's memory."""
        self._scalars: dict[int, int] = {}
        self._vectors: dict[int, int] = {}
        self._pointers: dict[int, int] = {}
        self.blocks: dict[int, int] = {}
        """Offsets of the entries of arguments of levels 1 and 2 that are used."""
        self.next_rows: dict[int, int] = {}
        """For such arguments of level 1, the slot of the address of the next block's rows."""
        self.nests, self.levels_of_loops = program.nests, program.levels_of_loops
        self._results = sorted({int(r) for result in program.results for r in np.unique(result)})
        self.is_copied = copyable(self.lists, width)
        """For each loop, whether machine code copies what it carries."""
        self._split()
        self._allocate_slots()

    @functools.cached_property
    def uses(self) -> np.ndarray:
        """How often each scalar is an operand, a result, or carried by a loop, [N]."""
        program = self.program
        operands = np.where((program.operations <= Op.CARRIED)[:, None], -1, program.operands)
        others = [result.ravel() for result in program.results]
        others += [np.array(loop.references, np.int64) for loop in program.loops]
        used = np.concatenate([operands.ravel(), *others])
        return np.bincount(used[used >= 0] >> 1, minlength=len(program.operations))

    @property
    def has_items(self) -> bool:
        """Whether there is a level 2."""
        return any(level == 2 for _, _, level in self.program.arguments)

    def rows_ahead(
        self, is_scattered: Callable[[int], bool]
    ) -> tuple[dict[int, int], dict[int, int], int, int]:
        """What :class:`~artix.compiler.kernels.slots.ReadAhead` takes, without arguments of
        scattered rows.
        """
        sizes = {}
        for argument in self.next_rows:
            shape, dtype, _ = self.program.arguments[argument]
            if not is_scattered(argument):
                sizes[argument] = math.prod(shape) * BYTES[kind_of(dtype)]
        count = sum(len(part.operations) for part in self.parts if part.reads_ahead)
        return sizes, self.next_rows, self.width, count

    def scalar_slot(self, number: int) -> int:
        """The slot of a scalar of level 0."""
        return self._scalars[number]

    def pointer_slot(self, array: int) -> int:
        """The slot of the pointer to an array, or of the pointers for each robot of a block."""
        return self._pointers[array]

    def vector_slot(self, reference: int) -> int | None:
        """The slot of all lanes of a scalar or its negative, if there is one."""
        number, lists = reference >> 1, self.lists
        if not reference & 1 and lists.operations[number] == Op.INPUT and lists.levels[number]:
            argument, entry, _ = lists.operands[number]
            return self.blocks[argument] + entry * self.width * BYTES[Kind(lists.kinds[number])]
        return self._vectors.get(reference)

    def slot(self, reference: int) -> int:
        """The slot of all lanes of a scalar or its negative."""
        slot = self.vector_slot(reference)
        if slot is None:
            raise KeyError(reference)
        return slot

    def result_slots(self, result: int) -> list[int]:
        """The slots of the entries of a result."""
        return [self.slot(reference) for reference in self.program.results[result].ravel().tolist()]

    def runs(self, result: int) -> list[tuple[int, int, bool]]:
        """Successive entries of a result: the first, their number, and whether they are the
        constant zero.

        Zeros are listed separately only in runs of at least two vectors.
        """
        lists, references = self.lists, self.program.results[result].ravel()
        zeros = [
            x
            for x in np.unique(references)
            if lists.operations[x >> 1] == Op.CONSTANT and not x & 1
        ]
        is_zero = np.isin(references, [x for x in zeros if lists.constants[x >> 1] == 0])
        bounds = np.flatnonzero(np.diff(np.r_[False, is_zero, False]))
        runs, last = [], 0
        for first, end in bounds.reshape(-1, 2).tolist():
            if end - first >= 2 * self.width:
                runs += [(last, first - last, False), (first, end - first, True)]
                last = end
        runs.append((last, references.size - last, False))
        return [run for run in runs if run[1]]

    def _split(self) -> None:
        """Splits each level into functions, and finds the scalars that they pass to each other."""
        lists = self.lists
        self.parts: list[Part] = []
        part_of = np.full(len(lists.operations), -1)
        count = len(self.nests)
        is_encoded = encodable(lists, self.width)
        ends = {after - 1 for _, after in self.program.bodies}
        computed = np.flatnonzero(self.program.operations > Op.CONSTANT)
        group_of = self.program.levels[computed].astype(int) * count + lists.stages[computed]
        for group in range(3 * count):
            operations = computed[group_of == group]
            level, stage = divmod(group, count)
            for numbers, encoded in _runs(operations, is_encoded):
                within = numbers.tolist()
                bounds = [0, *([] if encoded else _split_points(lists, within)), len(within)]
                for first, last in itertools.pairwise(bounds):
                    part_of[numbers[first:last]] = len(self.parts)
                    nest = self.nests[stage]
                    self.parts.append(
                        Part(level, stage, within[first:last], [], nest, is_encoded=encoded)
                    )
            if not len(operations) or (stage in ends and self.parts[-1].is_encoded):
                self.parts.append(Part(level, stage, [], [], self.nests[stage]))
        self._find_kept(part_of)
        self.arrays = lists.arrays_loaded
        """The arrays from which entries are loaded, with their levels."""
        self.inputs: list[int] = np.flatnonzero(self.program.operations == Op.INPUT).tolist()
        self._find_stores(part_of)

    def _find_kept(self, part_of: np.ndarray) -> None:
        lists, program = self.lists, self.program
        self.kept: set[int] = set()
        """Scalars that are needed outside the function that computes them."""
        self._last_reader: dict[int, int] = {}
        """For scalars that only functions of their own level need, the last of these."""
        last_of_stage = {(part.level, part.stage): index for index, part in enumerate(self.parts)}
        bodies = self.program.bodies
        last_of_loop = [
            last_of_stage[level, after - 1]
            for level, (_, after) in zip(self.levels_of_loops, bodies, strict=True)
        ]
        for number, index in enumerate(last_of_loop):
            part = self.parts[index]
            is_encoded = self.is_copied[number] and not part.operations
            self.parts[index] = part._replace(ended=number, is_encoded=is_encoded)

        def read(source: int, index: int, level: int, stage: int) -> None:
            """Keeps a scalar for the function of an index, or for what happens at the end of a
            stage.
            """
            self.kept.add(source)
            around = self.parts[part_of[source]].nest
            repeating = next((loop for loop in self.nests[stage] if loop not in around), None)
            if lists.levels[source] != level:
                index = len(self.parts)
            elif repeating is not None:  # Needed in each iteration.
                index = last_of_stage[level, bodies[repeating][1] - 1]
            self._last_reader[source] = max(index, self._last_reader.get(source, 0))

        readers = np.where(program.operations > Op.CONSTANT, part_of, -1)[:, None]
        # Operands of inputs are numbers of arguments and entries.
        sources = np.where((readers < 0) | (program.operands < 0), -1, program.operands >> 1)
        passed = (
            (sources >= 0)
            & (readers >= 0)
            & (part_of[sources] >= 0)
            & (part_of[sources] != readers)
        )
        count = len(part_of)
        pairs = np.unique((np.broadcast_to(readers, sources.shape) * count + sources)[passed])
        for index, source in zip(*(x.tolist() for x in np.divmod(pairs, count)), strict=True):
            read(source, index, self.parts[index].level, self.parts[index].stage)
        for loop, level, (first, after), last in zip(
            self.program.loops, self.levels_of_loops, bodies, last_of_loop, strict=True
        ):
            before = last_of_stage[level, first - 1]
            for source in (loop.starts >> 1).tolist():
                if part_of[source] >= 0:
                    read(source, before, level, first - 1)
            for source in (loop.ends >> 1).tolist():
                if part_of[source] not in (-1, last):
                    read(source, last, level, after - 1)

    def _find_stores(self, part_of: np.ndarray) -> None:
        """Finds what is stored besides the scalars themselves, for results."""
        lists = self.lists
        last_of_level = {part.level: part for part in self.parts}
        self.fills: list[int] = []
        """References of level 0 among the results, stored in all lanes."""
        for reference in self._results:
            number = reference >> 1
            if lists.operations[number] == Op.CONSTANT or lists.levels[number] == 0:
                self.fills.append(reference)
                if lists.operations[number] > Op.CONSTANT:
                    self.kept.add(number)
            elif reference & 1:
                part = (
                    self.parts[part_of[number]]
                    if part_of[number] >= 0
                    else last_of_level[lists.levels[number]]
                )
                part.stores.append(reference)
            elif lists.operations[number] > Op.CONSTANT:
                self.kept.add(number)

    def _allocate_slots(self) -> None:
        lists = self.lists
        for number in self.inputs:
            argument = lists.operands[number][0]
            if lists.levels[number] and argument not in self.blocks:
                shape, dtype, _ = self.program.arguments[argument]
                size = BYTES[kind_of(dtype)]
                entries = max(math.prod(shape), tile_columns(size, self.width))
                self.blocks[argument] = self._allocate(entries * self.width * size)
        self._allocate_carried()
        self._allocate_kept()
        for reference in self._results:
            if self.vector_slot(reference) is None:
                self._vectors[reference] = self._allocate_vector(reference >> 1)
        for argument in self.blocks:
            if self.program.arguments[argument][2] == 1:
                self.next_rows[argument] = self._allocate(8)
        for array, level in self.arrays.items():
            self._pointers[array] = self._allocate(8 * (self.width if level else 1))
        for number in sorted({*self.kept, *self.inputs}):
            if lists.levels[number] == 0:
                self._scalars[number] = self.size
                self.size += 8
        self._allocate(0)

    def _allocate_kept(self) -> None:
        """Allocates slots for scalars that functions pass to each other; slots no longer read are
        used again.
        """
        lists, results = self.lists, set(self._results)
        free: dict[int, list[int]] = {}
        ending: dict[int, list[int]] = {}
        for index, part in enumerate(self.parts):
            for number in ending.pop(index - 1, ()):
                free.setdefault(lists.kinds[number], []).append(self._vectors[2 * number])
            for number in [number for number in part.operations if number in self.kept]:
                if not lists.levels[number] or 2 * number in self._vectors:
                    continue
                unused = free.get(lists.kinds[number])
                self._vectors[2 * number] = (
                    unused.pop() if unused else self._allocate_vector(number)
                )
                last = self._last_reader.get(number, len(self.parts))
                if 2 * number not in results and last < len(self.parts):
                    ending.setdefault(last, []).append(number)

    def _allocate_carried(self) -> None:
        """Allocates a slot for each entry that a loop carries, the same in its body and after it.

        What is needed only to start a loop is in its slot from the beginning, so that nothing is
        copied.
        """
        lists, stages = self.lists, self.lists.stages
        self.carried: list[list[int]] = []
        """For each loop, the slots of what it carries."""
        of_loop: dict[tuple[int, int], list[int]] = {}
        for number in np.flatnonzero(self.program.operations == Op.CARRIED).tolist():
            of_loop.setdefault((lists.operands[number][0], lists.operands[number][1]), []).append(
                number
            )
        for index, (loop, level) in enumerate(
            zip(self.program.loops, self.levels_of_loops, strict=True)
        ):
            around, slots = self.nests[self.program.bodies[index][0]][:-1], list[int]()
            for entry, reference in enumerate(loop.starts.tolist()):
                number = reference >> 1
                is_alone = (
                    lists.levels[number] == level > 0
                    and self.uses[number] == 1
                    and not reference & 1
                )
                is_alone = is_alone and lists.operations[number] not in (Op.INPUT, Op.CONSTANT)
                is_alone = is_alone and self.nests[stages[number]] == around
                is_alone = is_alone and not (loop.has_condition and not entry)
                slot = self._vectors.get(reference) if is_alone else None
                if slot is None:
                    slot = self._allocate_vector(number) if level else self._allocate(8)
                if is_alone:
                    self._vectors[reference] = slot
                slots.append(slot)
                for carried in of_loop.get((index, entry), ()):
                    places = self._vectors if lists.levels[carried] else self._scalars
                    places[2 * carried if lists.levels[carried] else carried] = slot
            self.carried.append(slots)

    def starts(self, loop: int) -> list[tuple[int, int]]:
        """What is copied at the start of a loop: references, and their slots; the condition, if
        any, is first.
        """
        pairs = zip(self.program.loops[loop].starts.tolist(), self.carried[loop], strict=True)
        return [
            (reference, slot) for reference, slot in pairs if self.vector_slot(reference) != slot
        ]

    def condition_around(self, loop: int) -> int | None:
        """The slot of the condition of the loop, of lanes of the same level, in which this one is;
        if it is in one.
        """
        level, outer = self.levels_of_loops[loop], self.program.loops[loop].parent
        while outer >= 0:
            if self.program.loops[outer].has_condition and self.levels_of_loops[outer] == level > 0:
                return self.carried[outer][0]
            outer = self.program.loops[outer].parent
        return None

    def _allocate_vector(self, number: int) -> int:
        return self._allocate(self.width * BYTES[Kind(self.lists.kinds[number])])

    @property
    def num_constants(self) -> int:
        """How many constants machine code has at most: those of the program, their negatives and
        some masks.
        """
        return 2 * int(np.count_nonzero(self.program.operations == Op.CONSTANT)) + 8

    def reserve(self, end: int) -> None:
        """Extends the memory of a task."""
        self.size = max(self.size, end)

    def _allocate(self, size: int) -> int:
        """Allocates memory at a multiple of 64 bytes."""
        start = -(-self.size // 64) * 64
        self.size = start + size
        return start


def _runs(operations: np.ndarray, is_encoded: np.ndarray) -> list[tuple[np.ndarray, bool]]:
    """Successive operations that are encoded, or are not."""
    flags = is_encoded[operations]
    bounds = [0, *(np.flatnonzero(flags[1:] != flags[:-1]) + 1).tolist(), len(operations)]
    return [(operations[i:j], bool(flags[i])) for i, j in itertools.pairwise(bounds) if i < j]


def _split_points(lists: ProgramLists, operations: list[int]) -> list[int]:
    """Where a level is split: near equal parts, before the operation where the fewest scalars are
    alive.
    """
    count = len(operations)
    pieces = count // PART_OPERATIONS
    if pieces < 2:
        return []
    position_of = {number: position for position, number in enumerate(operations)}
    last_use = np.arange(count)
    for position, number in enumerate(operations):
        for reference in lists.operands[number]:
            source = position_of.get(reference >> 1)  # None for other levels and missing operands
            if source is not None:
                last_use[source] = position
    changes = np.zeros(count + 1, int)
    changes[1:] += 1  # a scalar computed at k is alive from before k + 1 ...
    np.add.at(changes, last_use + 1, -1)  # ... until its last use
    alive = np.cumsum(changes)
    windows = [
        (int(count * (k - 0.3) / pieces), int(count * (k + 0.3) / pieces)) for k in range(1, pieces)
    ]
    return [first + int(np.argmin(alive[first:last])) for first, last in windows]
