"""Distributes the equal parts of a robot, such as its legs, over neighbouring threads of a GPU.

Two or four threads, the lanes of a robot, execute the same instructions for different legs. What
belongs to no leg is computed by all of them, bit for bit alike; sums over legs are exchanged
between them. So a kernel has a third to a half of the instructions: on a GPU, a step of few robots
takes the time in which its code is read.

The legs are found in the program itself, by :mod:`artix.compiler.lane_groups`. Where they are
mirror images, some lanes hold the negative of their scalar.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from artix.compiler.lane_groups import Graph, Parts, lanes_of_inputs
from artix.compiler.scalar_program import DTYPES, Kind, Loop, Op, ScalarProgram, array_operand

#: Lanes are used where they leave at most this share of the operations, and where these are so many
#: that their code exceeds an instruction cache of 128 kB. Shorter code is read once, and with more
#: threads than the GPU runs at a time, what is computed for each lane anew costs more than lanes
#: gain.
WORTH, LEAST = 0.6, 8192

_INPUT, _CARRIED, _CONSTANT, _LOAD = int(Op.INPUT), int(Op.CARRIED), int(Op.CONSTANT), int(Op.LOAD)
_ADD, _SUB, _MUL, _DIV, _SELECT = int(Op.ADD), int(Op.SUB), int(Op.MUL), int(Op.DIV), int(Op.SELECT)
_ODD = {int(op) for op in (Op.SIN, Op.TAN, Op.ASIN, Op.ATAN, Op.SINH, Op.TANH, Op.CBRT, Op.SIGN)}
_EVEN = {int(op) for op in (Op.COS, Op.COSH, Op.ABS, Op.IS_FINITE)}
_FLOAT = int(Kind.FLOAT32)


def in_lanes(program: ScalarProgram) -> tuple[ScalarProgram, int]:
    """The program of one lane, and the number of lanes; the program itself and 1 if lanes do not
    pay.

    Args:
      program: the program of one robot, without items.
    """
    if program.size < LEAST or not len(program.operations) or program.levels.max() > 1:
        return program, 1
    graph = Graph(program)
    lanes, inputs = lanes_of_inputs(graph)
    if lanes == 1:
        return program, 1
    parts = Parts(graph, inputs)
    if parts.size > WORTH * program.size:
        return program, 1
    result = _Writer(graph, parts, lanes).program()
    return (result, lanes) if result.size <= WORTH * program.size else (program, 1)


class _Held(NamedTuple):
    """A scalar of the new program, and for each lane the sign with which it counts."""

    reference: int
    signs: tuple[int, ...]


class _Writer:
    """Writes the program of one lane.

    Args:
      graph: the program.
      parts: what becomes one.
      lanes: the number of lanes.
    """

    def __init__(self, graph: Graph, parts: Parts, lanes: int) -> None:
        self._graph, self._parts, self._lanes = graph, parts, lanes
        self._plus = (1,) * lanes
        self._rows: list[tuple[int, int, int, int]] = []
        self._kinds: list[int] = []
        self._levels: list[int] = []
        self._constants: list[float] = []
        self._known: dict[object, int] = {}
        self._tables = list(graph.program.tables)
        self._uniform: dict[int, int] = {}
        """References of scalars that are the same for all lanes."""
        self._held: dict[int, _Held] = {}
        """What stands for each group."""
        self._places = self._entry_places()

    def program(self) -> ScalarProgram:
        """The program."""
        old, graph = self._graph.program, self._graph
        needed = [x for result in old.results for x in result.ravel().tolist()]
        needed += [*graph.starts.values(), *graph.ends.values()]
        for x in needed:
            self._write_all(x >> 1)
        results = [
            np.array([self._same(x) for x in result.ravel().tolist()], np.int32).reshape(
                result.shape
            )
            for result in old.results
        ]
        loops = [self._loop(number, loop) for number, loop in enumerate(old.loops)]
        return old._replace(
            operations=np.array([row[0] for row in self._rows], np.uint8),
            operands=np.array([row[1:] for row in self._rows], np.int32).reshape(-1, 3),
            kinds=np.array(self._kinds, np.uint8),
            levels=np.array(self._levels, np.uint8),
            constants=np.array(self._constants),
            results=tuple(results),
            tables=tuple(self._tables),
            loops=tuple(loops),
        )

    # New scalars

    def _add(self, op: int, kind: int, *operands: int) -> int:
        """The reference of an operation, which is written once."""
        a, b, c = (*operands, -1, -1, -1)[:3]
        key = (op, kind, a, b, c)
        if key not in self._known:
            level = max((self._levels[x >> 1] for x in operands if x >= 0), default=0)
            if op == _LOAD:
                array, arguments = array_operand(b), self._graph.program.arguments
                level = max(level, arguments[array][2] if array < len(arguments) else 0)
            self._known[key] = self._new((op, a, b, c), kind, 1 if op == Op.LANE else level)
        return self._known[key]

    def _new(
        self, row: tuple[int, int, int, int], kind: int, level: int, constant: float = 0.0
    ) -> int:
        self._rows.append(row)
        self._kinds.append(kind)
        self._levels.append(level)
        self._constants.append(constant)
        return 2 * (len(self._rows) - 1)

    def _constant(self, value: float, kind: int) -> int:
        key = ("constant", kind, abs(value) if kind >= _FLOAT else value)
        if key not in self._known:
            self._known[key] = self._new(
                (_CONSTANT, -1, -1, -1), kind, 0, abs(value) if kind >= _FLOAT else value
            )
        return self._known[key] ^ int(kind >= _FLOAT and np.signbit(value))

    def _lane(self) -> int:
        return self._add(int(Op.LANE), int(Kind.INT32))

    def _by_lane(self, values: Sequence[float], kind: int) -> int:
        """A known number of each lane."""
        key = ("table", kind, tuple(values))
        if key not in self._known:
            place = len(self._graph.program.arguments) + len(self._tables)
            self._tables.append(np.array(values, DTYPES[Kind(kind)]))
            self._known[key] = self._add(_LOAD, kind, self._lane(), array_operand(place))
        return self._known[key]

    def _kind(self, reference: int) -> int:
        return self._kinds[reference >> 1]

    def _plain(self, held: _Held) -> int:
        """The scalar without signs: multiplied by them where they differ between lanes."""
        if held.signs == self._plus:
            return held.reference
        kind, row = self._kind(held.reference), self._rows[held.reference >> 1]
        if row[0] == _CONSTANT:
            value = self._constants[held.reference >> 1] * (-1 if held.reference & 1 else 1)
            return self._by_lane([value * sign for sign in held.signs], kind)
        return self._add(_MUL, kind, held.reference, self._by_lane(held.signs, kind))

    def _normal(self, reference: int, signs: Sequence[int]) -> _Held:
        """With a positive sign in the first lane."""
        if signs[0] > 0:
            return _Held(reference, tuple(signs))
        return _Held(reference ^ 1, tuple(-sign for sign in signs))

    # Operands

    def _same(self, reference: int) -> int:
        """A scalar of the old program for all lanes."""
        number = reference >> 1
        if number in self._uniform:
            return self._uniform[number] ^ (reference & 1)
        if self._graph.ops[number] == _CONSTANT:
            return self._constant(self._graph.constants[number], self._graph.kinds[number]) ^ (
                reference & 1
            )
        held, lane = self._held[self._parts.group_of[number]], self._parts.lanes[number]
        minus = int(held.signs[lane] < 0) ^ (held.reference & 1)
        row = (held.reference & ~1, -2 - lane)
        return (
            self._add(int(Op.OF_LANE), self._kind(held.reference), *row) ^ minus ^ (reference & 1)
        )

    def _together(self, references: dict[int, int]) -> _Held:
        """Scalars of the old program by lane, as one."""
        graph, parts = self._graph, self._parts
        first = next(iter(references.values()))
        places = [references.get(lane, first) for lane in range(self._lanes)]
        signs = [place & 1 for place in places]
        numbers = {x >> 1 for x in references.values()}
        groups = {parts.group_of.get(number, -1) for number in numbers}
        if len(groups) == 1 and -1 not in groups:
            held = self._held[groups.pop()]
            return self._normal(
                held.reference,
                [-each if minus else each for each, minus in zip(held.signs, signs, strict=True)],
            )
        kind = graph.kinds[first >> 1]
        if len(numbers) == 1:
            return self._normal(self._same(first & ~1), [-1 if minus else 1 for minus in signs])
        if all(graph.ops[number] == _CONSTANT for number in numbers):
            return self._known_together(places, kind)
        values = [self._plain(self._together({lane: x})) for lane, x in enumerate(places)]
        value = values[0]
        for lane in range(1, self._lanes):
            if values[lane] != values[0]:
                number = self._constant(lane, int(Kind.INT32))
                here = self._add(int(Op.EQ), int(Kind.BOOL), self._lane(), number)
                value = self._add(_SELECT, kind, here, values[lane], value)
        return _Held(value, self._plus)

    def _known_together(self, places: Sequence[int], kind: int) -> _Held:
        """Constants of the old program, one for each lane, as one."""
        values = [self._graph.constants[x >> 1] * (-1 if x & 1 else 1) for x in places]
        if kind == Kind.BOOL:
            number = self._by_lane([int(value) for value in values], int(Kind.INT32))
            zero = self._constant(0, int(Kind.INT32))
            return _Held(self._add(int(Op.NE), kind, number, zero), self._plus)
        if kind >= _FLOAT and len({abs(value) for value in values}) == 1:
            signs = [-1 if np.signbit(value) else 1 for value in values]
            return self._normal(self._constant(abs(values[0]), kind), signs)
        return _Held(self._by_lane(values, kind), self._plus)

    # Writing

    def _write_all(self, number: int) -> None:
        """Writes a scalar and all that it needs."""
        stack = [number]
        while stack:
            top = stack[-1]
            missing = [k for k in self._needs(top) if not self._is_written(k)]
            if self._is_written(top) or not missing:
                stack.pop()
                if not self._is_written(top):
                    self._write(top)
            else:
                stack += missing

    def _is_written(self, number: int) -> bool:
        group = self._parts.group_of.get(number)
        is_done = number in self._uniform if group is None else group in self._held
        return is_done or self._graph.ops[number] == _CONSTANT

    def _needs(self, number: int) -> Iterator[int]:
        group, parts = self._parts.group_of.get(number), self._parts
        if group is not None:
            return (x >> 1 for k in parts.groups[group].values() for x in self._graph.operands[k])
        references = (
            self._graph.leaves[number]
            if parts.is_reduction(number)
            else self._graph.operands[number]
        )
        return (x >> 1 for x in references)

    def _write(self, number: int) -> None:
        group = self._parts.group_of.get(number)
        if group is not None:
            self._held[group] = self._grouped(self._parts.groups[group])
        elif self._parts.is_reduction(number):
            self._uniform[number] = self._reduced(number)
        else:
            self._uniform[number] = self._copied(number)

    def _copied(self, number: int) -> int:
        graph = self._graph
        op, kind, row = graph.ops[number], graph.kinds[number], graph.rows[number]
        if op == _INPUT:
            return self._new((op, row[0], row[1], row[2]), kind, int(graph.program.levels[number]))
        if op == _CARRIED:
            place = self._places[row[0], row[1]]
            return self._new((op, row[0], place, row[2]), kind, int(graph.program.levels[number]))
        operands = [self._same(x) for x in graph.operands[number]]
        return self._add(op, kind, *operands, *((row[1],) if op == _LOAD else ()))

    def _grouped(self, members: dict[int, int]) -> _Held:
        graph = self._graph
        first = next(iter(members.values()))
        op, kind, row = graph.ops[first], graph.kinds[first], graph.rows[first]
        if op == _INPUT:
            entries = [graph.rows[members.get(lane, first)][1] for lane in range(self._lanes)]
            index = self._by_lane(entries, int(Kind.INT32))
            return _Held(self._add(_LOAD, kind, index, array_operand(row[0])), self._plus)
        if op == _CARRIED:
            entry = self._places[self._parts.entries[row[0], row[1]]]
            return _Held(self._new((op, row[0], entry, row[2]), kind, 1), self._plus)
        aligned = {lane: self._parts.aligned(k) for lane, k in members.items()}
        operands = [
            self._together({lane: each[place] for lane, each in aligned.items()})
            for place in range(len(aligned[next(iter(members))]))
        ]
        return self._computed(_ADD if op == _SUB and kind >= _FLOAT else op, kind, operands, row)

    def _computed(self, op: int, kind: int, operands: list[_Held], row: list[int]) -> _Held:
        """An operation of lanes, with the signs of its operands in its result where possible."""
        if op in (_MUL, _DIV) and kind >= _FLOAT:
            a, b = operands
            return _Held(self._add(op, kind, a.reference, b.reference), _times(a.signs, b.signs))
        if op in (_ADD, _SELECT) and kind >= _FLOAT:
            *condition, a, b = operands
            if a.signs != b.signs:
                b = _Held(self._plain(_Held(b.reference, _times(a.signs, b.signs))), a.signs)
            before = [self._plain(each) for each in condition]
            return _Held(self._add(op, kind, *before, a.reference, b.reference), a.signs)
        if op in _ODD and kind >= _FLOAT:
            return _Held(self._add(op, kind, operands[0].reference), operands[0].signs)
        if op in _EVEN:
            return _Held(self._add(op, kind, operands[0].reference), self._plus)
        array = (row[1],) if op == _LOAD else ()
        return _Held(
            self._add(op, kind, *(self._plain(each) for each in operands), *array), self._plus
        )

    def _reduced(self, number: int) -> int:
        """What a tree combines: each lane its own leaves, then the lanes, then what is the same for
        all.
        """
        graph, parts = self._graph, self._parts
        op, kind = graph.family(number), graph.kinds[number]
        assert op is not None
        same: list[int] = []
        by_group: dict[int, list[dict[int, int]]] = defaultdict(list)
        for x in graph.leaves[number]:
            group = parts.group_of.get(x >> 1)
            if group is None:
                same.append(x)
                continue
            lane = parts.lanes[x >> 1]
            rows = by_group[group]
            row = next((row for row in rows if lane not in row), None)
            if row is None:
                rows.append({})
                row = rows[-1]
            row[lane] = x
        partial: _Held | None = None
        for rows in by_group.values():
            for row in rows:
                if len(row) < self._lanes:
                    same += row.values()
                    continue
                held = self._together(row)
                partial = (
                    held
                    if partial is None
                    else self._computed(op, kind, [partial, held], [-1, -1, -1])
                )
        total: int | None = None
        if partial is not None:
            total = self._plain(partial)
            # The lanes add in the same pairs, so all have the same bits.
            for bit in range(self._lanes.bit_length() - 1):
                other = self._add(int(Op.SHUFFLE), kind, total & ~1, -2 - (1 << bit)) ^ (total & 1)
                total = self._add(op, kind, total, other)
        for x in same:
            value = self._same(x)
            total = value if total is None else self._add(op, kind, total, value)
        assert total is not None
        return total

    # Loops

    def _entry_places(self) -> dict[tuple[int, int], int]:
        """The new number of each entry that a loop carries, by the entry that stands for it."""
        counts: Counter[int] = Counter()
        places: dict[tuple[int, int], int] = {}
        for place in self._graph.starts:
            if self._parts.entries.get(place, place) == place:
                places[place] = counts[place[0]]
                counts[place[0]] += 1
        return places

    def _loop(self, number: int, loop: Loop) -> Loop:
        parts = self._parts
        same: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for place, stands_for in parts.entries.items():
            same[stands_for][parts.carried[place]] = place[1]
        ends: list[list[int]] = []
        for references in (self._graph.starts, self._graph.ends):
            row = []
            for place in self._places:
                if place[0] == number and place in parts.entries:
                    by_lane = {
                        lane: references[number, entry] for lane, entry in same[place].items()
                    }
                    row.append(self._plain(self._together(by_lane)))
                elif place[0] == number:
                    row.append(self._same(references[place]))
            ends.append(row)
        return loop._replace(starts=np.array(ends[0], np.int32), ends=np.array(ends[1], np.int32))


def _times(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(x * y for x, y in zip(one, other, strict=True))
