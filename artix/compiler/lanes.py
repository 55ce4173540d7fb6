"""Distributes the equal parts of a robot, such as its legs, over neighbouring threads of a GPU.

Two or four threads, the lanes of a robot, execute the same instructions for different legs. What belongs to no leg is
computed by all of them, bit for bit alike; sums over legs are exchanged between them. So a kernel has a third to a
half of the instructions: on a GPU, a step of few robots takes the time in which its code is read.

The legs are found in the program itself: Weisfeiler and Leman's colours tell operations apart by what they compute and
by what is computed from them, whatever their signs. Inputs of one colour are the same quantity of different legs, and
inputs that are combined belong to the same leg. Operations of different legs whose operands correspond become one.
Where legs are mirror images, some lanes hold the negative of their scalar.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from artix.compiler.scalar_program import Kind, Loop, Op, ScalarProgram, array_operand

#: Lanes are used where they leave at most this share of the operations, and where these are so many that their code
#: exceeds an instruction cache of 128 kB. Shorter code is read once, and with more threads than the GPU runs at a time,
#: what is computed for each lane anew costs more than lanes gain.
WORTH, LEAST = 0.6, 8192

_INPUT, _CARRIED, _CONSTANT, _LOAD = int(Op.INPUT), int(Op.CARRIED), int(Op.CONSTANT), int(Op.LOAD)
_ADD, _SUB, _MUL, _DIV, _SELECT = int(Op.ADD), int(Op.SUB), int(Op.MUL), int(Op.DIV), int(Op.SELECT)
_COMMUTATIVE = {int(op) for op in (Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX, Op.AND, Op.OR, Op.XOR, Op.EQ, Op.NE)}
#: Operations of which many can be done in any order; differences are sums.
_FAMILIES = {_ADD: _ADD, _SUB: _ADD} | {int(op): int(op) for op in (Op.MIN, Op.MAX, Op.AND, Op.OR)}
_ODD = {int(op) for op in (Op.SIN, Op.TAN, Op.ASIN, Op.ATAN, Op.SINH, Op.TANH, Op.CBRT, Op.SIGN)}
_EVEN = {int(op) for op in (Op.COS, Op.COSH, Op.ABS, Op.IS_FINITE)}
_FLOAT = int(Kind.FLOAT32)
#: The distances within which scalars are told apart: too near, joints of one leg look alike; too far, no leg is like
#: another if they are visited one after the other somewhere, as in a Gauss-Seidel sweep. The search ends where it has
#: not become better for some steps.
_LEAST_DISTANCE, _PATIENCE = 3, 4
#: What each lane computes for itself, the same for all lanes, or is not known yet.
_UNIFORM, _UNKNOWN = -1, -2


def in_lanes(program: ScalarProgram) -> tuple[ScalarProgram, int]:
    """The program of one lane, and the number of lanes; the program itself and 1 if lanes do not pay.

    Args:
      program: the program of one robot, without items.
    """
    if program.size < LEAST or not len(program.operations) or program.levels.max() > 1:
        return program, 1
    graph = _Graph(program)
    lanes, inputs = _lanes_of_inputs(graph)
    if lanes == 1:
        return program, 1
    parts = _Parts(graph, inputs)
    if parts.size > WORTH * program.size:
        return program, 1
    result = _Writer(graph, parts, lanes).program()
    return (result, lanes) if result.size <= WORTH * program.size else (program, 1)


class _Graph:
    """The program as lists, with its trees of sums and the like, and the colours of its scalars."""

    def __init__(self, program: ScalarProgram) -> None:
        self.program = program
        self.ops: list[int] = program.operations.tolist()
        self.kinds: list[int] = program.kinds.tolist()
        self.stages: list[int] = program.stages.tolist()
        self.constants: list[float] = program.constants.tolist()
        self.rows: list[list[int]] = program.operands.tolist()
        self.operands: list[list[int]] = [
            [x for x in row if x >= 0] if op > _CONSTANT else [] for op, row in zip(self.ops, self.rows, strict=True)
        ]
        self.starts = {(a, b): x for a, loop in enumerate(program.loops) for b, x in enumerate(loop.starts.tolist())}
        self.ends = {(a, b): x for a, loop in enumerate(program.loops) for b, x in enumerate(loop.ends.tolist())}
        self.leaves = self._trees()
        self.inputs = [k for k, op in enumerate(self.ops) if op == _INPUT]
        self.coarse = self._coarse()
        self.colors = self.upstream(self.coarse)

    def family(self, number: int) -> int | None:
        """The operation whose order does not matter, if it is one."""
        op = self.ops[number]
        return _FAMILIES.get(op) if (op != _ADD and op != _SUB) or self.kinds[number] >= _FLOAT else None

    def _trees(self) -> dict[int, list[int]]:
        """For each operation of a family, the leaves of its tree as references; inner nodes are used in it alone."""
        users: list[list[int]] = [[] for _ in self.ops]
        for number, references in enumerate(self.operands):
            for x in references:
                users[x >> 1].append(number)
        program = self.program
        outside = {x >> 1 for result in program.results for x in result.ravel().tolist()}
        outside |= {x >> 1 for references in (self.starts, self.ends) for x in references.values()}
        self.inner = bytearray(len(self.ops))
        leaves: dict[int, list[int]] = {}
        for number, op in enumerate(self.ops):
            family = self.family(number)
            if family is None:
                continue
            own: list[int] = []
            for place, x in enumerate(self.operands[number]):
                minus = int(op == _SUB and place == 1)
                child = x >> 1
                if self.inner[child] and self.family(child) == family and (family == _ADD or not x & 1):
                    own += [leaf ^ (x & 1) ^ minus for leaf in leaves[child]]
                else:
                    own.append(x ^ minus)
            leaves[number] = own
            user = users[number][0] if len(users[number]) == 1 else -1
            is_inside = user >= 0 and number not in outside and self.family(user) == family
            if is_inside and self.stages[user] == self.stages[number]:
                signs = [x & 1 for x in self.operands[user] if x >> 1 == number]
                self.inner[number] = family == _ADD or not signs[0]
        self.roots: list[int] = list(range(len(self.ops)))
        for number in range(len(self.ops) - 1, -1, -1):
            if self.inner[number]:
                self.roots[number] = self.roots[users[number][0]]
        return leaves

    def _neighbourhoods(self) -> Iterator[list[int]]:
        """Colours by what is around scalars, at ever larger distances."""
        colors = [0] * len(self.ops)
        for number, op in enumerate(self.ops):
            row = self.rows[number]
            number_of = float(f"{self.constants[number]:.6g}") if op == _CONSTANT else 0.0
            name = _ADD if op == _SUB else op
            place = row[0] if op in (_INPUT, _CARRIED) else row[1] if op == _LOAD else 0
            colors[number] = hash((name, self.kinds[number], place, number_of, row[2] if op == _CARRIED else 0))
        around = [self.leaves.get(number, operands) for number, operands in enumerate(self.operands)]
        carried = [(k, *self.rows[k][:2]) for k, op in enumerate(self.ops) if op == _CARRIED]
        while True:
            seen = [0] * len(self.ops)
            for place, result in enumerate(self.program.results):
                for x in result.ravel().tolist():
                    seen[x >> 1] += hash((5, place))
            for number, loop, entry in carried:
                for role, references in ((6, self.starts), (7, self.ends)):
                    seen[references[loop, entry] >> 1] += hash((role, colors[number]))
            new = list(colors)
            for number, op in enumerate(self.ops):
                if op <= _CONSTANT or self.inner[number]:
                    continue
                color, is_free = colors[number], op in _COMMUTATIVE
                total = 0
                for place, x in enumerate(around[number]):
                    role = 0 if is_free else place
                    seen[x >> 1] += hash((color, role))
                    total += hash((colors[x >> 1], role, 8))
                new[number] = hash((color, total))
            for number, loop, entry in carried:
                ends = (references[loop, entry] >> 1 for references in (self.starts, self.ends))
                new[number] = hash((colors[number], *(colors[end] for end in ends)))
            colors = [hash(pair) for pair in zip(new, seen, strict=True)]
            yield colors

    def _coarse(self) -> list[int]:
        """The neighbourhoods in which most inputs have others like them."""
        best, most, distance = [0] * len(self.ops), 0, 0
        for place, colors in enumerate(itertools.islice(self._neighbourhoods(), _LEAST_DISTANCE, None)):
            count, *_ = self.classes(colors)
            if count > most:
                best, most, distance = colors, count, place
            if place - distance >= _PATIENCE:
                return best
        raise AssertionError("neighbourhoods grow without end")

    def upstream(self, coarse: list[int]) -> list[int]:
        """Colours by what scalars are computed from: inputs and carried scalars of these colours."""
        colors = list(coarse)
        for number, op in enumerate(self.ops):
            if op > _CONSTANT:
                each = [colors[x >> 1] for x in self.operands[number]]
                if op in _COMMUTATIVE:
                    each.sort()
                array = self.rows[number][1] if op == _LOAD else 0
                colors[number] = hash((4, _ADD if op == _SUB else op, self.kinds[number], array, *each))
            elif op == _CONSTANT:
                colors[number] = hash((2, self.kinds[number], float(f"{self.constants[number]:.6g}")))
        return colors

    def classes(self, colors: list[int]) -> tuple[int, int, dict[int, list[int]]]:
        """How many inputs have as many others of their colour as there are lanes, the lanes, and inputs by colour."""
        classes: dict[int, list[int]] = defaultdict(list)
        for number in self.inputs:
            classes[colors[number]].append(number)
        counts = Counter(len(members) for members in classes.values())
        count, lanes = max((size * counts[size], size) for size in (2, 4))
        return count, lanes, classes


def _lanes_of_inputs(graph: _Graph) -> tuple[int, dict[int, int]]:
    """The number of lanes, and the lane of each input that belongs to one."""
    count, lanes, classes = graph.classes(graph.coarse)
    if not count:
        return 1, {}
    class_of = {k: color for color, members in classes.items() if len(members) == lanes for k in members}
    parts = _joined(graph, class_of)
    result: dict[int, int] = {}
    for members in classes.values():
        if len(members) != lanes or members[0] in result:
            continue
        for lane, member in enumerate(sorted(members, key=lambda k: graph.rows[k][1])):
            for other in parts[member]:
                result.setdefault(other, lane)
    # A class that is not spread over all lanes would only be slow.
    whole = {
        color for color, members in classes.items()
        if len(members) == lanes and len({result.get(k) for k in members}) == lanes
    }  # fmt: skip
    return lanes, {k: lane for k, lane in result.items() if class_of[k] in whole}


def _joined(graph: _Graph, class_of: dict[int, int]) -> dict[int, list[int]]:
    """For each input of a class, those that belong to the same part: what is combined, and has no two of a class."""
    parent = {k: k for k in class_of}

    def find(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    empty: frozenset[int] = frozenset()
    inside: list[frozenset[int]] = [empty] * len(graph.ops)
    for number, op in enumerate(graph.ops):
        if number in class_of:
            inside[number] = frozenset((number,))
        if op <= _CONSTANT:
            continue
        references = graph.leaves.get(number, graph.operands[number])
        every = empty.union(*(inside[x >> 1] for x in references))
        if len(every) < 2:
            inside[number] = every
            continue
        roots = {find(k) for k in every}
        members = [k for root in roots for k in every if find(k) == root]
        if len({class_of[k] for k in members}) < len(members):
            continue  # Of several parts.
        first, *others = roots
        for other in others:
            parent[other] = first
        inside[number] = every if len(every) < 64 else frozenset((next(iter(every)),))
    parts: dict[int, list[int]] = defaultdict(list)
    for k in class_of:
        parts[find(k)].append(k)
    return {k: parts[find(k)] for k in class_of}


class _Parts:
    """Which lane each scalar belongs to, and which scalars of different lanes become one."""

    def __init__(self, graph: _Graph, inputs: dict[int, int]) -> None:
        self._graph, self._inputs = graph, inputs
        self.carried: dict[tuple[int, int], int] = dict.fromkeys(graph.starts, _UNKNOWN)
        for loop, each in enumerate(graph.program.loops):
            if each.has_condition:
                self.carried[loop, 0] = _UNIFORM
        while True:
            self.lanes = self._spread()
            carried = {place: self._lane_of_entry(place) for place in self.carried}
            if carried == self.carried:
                break
            self.carried = carried
        self.carried = {place: max(lane, _UNIFORM) for place, lane in self.carried.items()}
        self.lanes = self._spread()
        self.group_of: dict[int, int] = {}
        self.groups: list[dict[int, int]] = []
        """For each group, its scalars by lane."""
        self.entries: dict[tuple[int, int], tuple[int, int]] = {}
        """For each entry that a loop carries in a lane, its loop and the entry that stands for it and the others."""
        self._group()

    @property
    def size(self) -> int:
        """Number of operations of a lane, without those that lanes exchange and that choose between them."""
        ops, inner = self._graph.ops, self._graph.inner
        is_here = [ops[next(iter(group.values()))] > _CONSTANT for group in self.groups]
        alike = (k for k, op in enumerate(ops) if op > _CONSTANT and k not in self.group_of and not inner[k])
        return sum(is_here) + sum(1 for _ in alike)

    def _lane_of_entry(self, place: tuple[int, int]) -> int:
        before = self.carried[place]
        if before == _UNIFORM:
            return before
        ends = self._graph.starts[place], self._graph.ends[place]
        known = {self.lanes[x >> 1] for x in ends if not self._is_constant(x)} - {_UNKNOWN}
        known |= {before} - {_UNKNOWN}
        return _UNKNOWN if not known else known.pop() if len(known) == 1 else _UNIFORM

    def _is_constant(self, reference: int) -> bool:
        return self._graph.ops[reference >> 1] == _CONSTANT

    def _spread(self) -> list[int]:
        graph = self._graph
        lanes = [_UNIFORM] * len(graph.ops)
        for number, op in enumerate(graph.ops):
            if op == _INPUT:
                lanes[number] = self._inputs.get(number, _UNIFORM)
            elif op == _CARRIED:
                lanes[number] = self.carried[graph.rows[number][0], graph.rows[number][1]]
            elif op > _CONSTANT:
                around = {lanes[x >> 1] for x in graph.leaves.get(number, graph.operands[number])}
                known = around - {_UNIFORM, _UNKNOWN}
                lanes[number] = (
                    known.pop() if len(known) == 1 else _UNIFORM if known or _UNKNOWN not in around else _UNKNOWN
                )
        return lanes

    def is_reduction(self, number: int) -> bool:
        """Whether it combines several lanes by a tree."""
        leaves = self._graph.leaves.get(number)
        if leaves is None or self.lanes[number] != _UNIFORM:
            return False
        return len({self.lanes[x >> 1] for x in leaves} - {_UNIFORM}) > 1

    def aligned(self, number: int) -> list[int]:
        """The operands as references, in an order that is the same in all lanes; of a difference, as of a sum."""
        graph, references = self._graph, self._graph.operands[number]
        if graph.ops[number] == _SUB and graph.kinds[number] >= _FLOAT:
            references = [references[0], references[1] ^ 1]
        elif graph.ops[number] == _SUB:
            return references
        if graph.ops[number] not in _COMMUTATIVE:
            return references
        return sorted(references, key=self._sign_free)

    def _sign_free(self, reference: int) -> tuple[int, int]:
        number = reference >> 1
        if number in self.group_of:
            return 1, self.group_of[number]
        return 0, self._graph.colors[number]

    def _group(self) -> None:
        graph, waiting = self._graph, defaultdict[tuple[object, ...], list[int]](list)
        self._group_entries()
        for number, op in enumerate(graph.ops):
            lane = self.lanes[number]
            if lane < 0 or (op == _CARRIED and self._join_carried(number)):
                continue
            kind: tuple[object, ...] = (_ADD if op == _SUB and graph.kinds[number] >= _FLOAT else op,)
            kind = (*kind, graph.kinds[number], graph.colors[number])
            kind = (*kind, graph.rows[number][1] if op == _LOAD else 0)
            kind = (*kind, *(self._sign_free(x) for x in self.aligned(number)))
            groups = waiting[kind]
            place = next((k for k, group in enumerate(groups) if lane not in self.groups[group]), None)
            if place is None:
                groups.append(len(self.groups))
                self.groups.append({})
                place = len(groups) - 1
            self.groups[groups[place]][lane] = number
            self.group_of[number] = groups[place]

    def _group_entries(self) -> None:
        graph = self._graph
        classes = defaultdict[tuple[int, ...], dict[int, list[int]]](lambda: defaultdict(list))
        for (loop, entry), lane in self.carried.items():
            if lane >= 0:
                ends = graph.starts[loop, entry], graph.ends[loop, entry]
                classes[(loop, *(graph.coarse[x >> 1] for x in ends))][lane].append(entry)
        for (loop, *_), by_lane in classes.items():
            for rank in range(max(map(len, by_lane.values()))):
                same = [entries[rank] for entries in by_lane.values() if rank < len(entries)]
                for entry in same:
                    self.entries[loop, entry] = loop, min(same)
        self._carried_groups: dict[tuple[int, int, int], int] = {}

    def _join_carried(self, number: int) -> bool:
        loop, entry, is_after = self._graph.rows[number]
        key = (*self.entries[loop, entry], is_after)
        if key not in self._carried_groups:
            self._carried_groups[key] = len(self.groups)
            self.groups.append({})
        group = self._carried_groups[key]
        self.groups[group][self.lanes[number]] = number
        self.group_of[number] = group
        return True


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

    def __init__(self, graph: _Graph, parts: _Parts, lanes: int) -> None:
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
            np.array([self._same(x) for x in result.ravel().tolist()], np.int32).reshape(result.shape)
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

    def _new(self, row: tuple[int, int, int, int], kind: int, level: int, constant: float = 0.0) -> int:
        self._rows.append(row)
        self._kinds.append(kind)
        self._levels.append(level)
        self._constants.append(constant)
        return 2 * (len(self._rows) - 1)

    def _constant(self, value: float, kind: int) -> int:
        key = ("constant", kind, abs(value) if kind >= _FLOAT else value)
        if key not in self._known:
            self._known[key] = self._new((_CONSTANT, -1, -1, -1), kind, 0, abs(value) if kind >= _FLOAT else value)
        return self._known[key] ^ int(kind >= _FLOAT and np.signbit(value))

    def _lane(self) -> int:
        return self._add(int(Op.LANE), int(Kind.INT32))

    def _by_lane(self, values: Sequence[float], kind: int) -> int:
        """A known number of each lane."""
        key = ("table", kind, tuple(values))
        if key not in self._known:
            dtype = {Kind.INT32: np.int32, Kind.FLOAT32: np.float32, Kind.FLOAT64: np.float64}[Kind(kind)]
            place = len(self._graph.program.arguments) + len(self._tables)
            self._tables.append(np.array(values, dtype))
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
            value = (
                -self._constants[held.reference >> 1] if held.reference & 1 else self._constants[held.reference >> 1]
            )
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
            return self._constant(self._graph.constants[number], self._graph.kinds[number]) ^ (reference & 1)
        held, lane = self._held[self._parts.group_of[number]], self._parts.lanes[number]
        minus = int(held.signs[lane] < 0) ^ (held.reference & 1)
        row = (held.reference & ~1, -2 - lane)
        return self._add(int(Op.OF_LANE), self._kind(held.reference), *row) ^ minus ^ (reference & 1)

    def _together(self, references: dict[int, int]) -> _Held:
        """Scalars of the old program by lane, as one."""
        graph, parts = self._graph, self._parts
        first = next(iter(references.values()))
        signs = [references.get(lane, first) & 1 for lane in range(self._lanes)]
        numbers = {x >> 1 for x in references.values()}
        groups = {parts.group_of.get(number, -1) for number in numbers}
        if len(groups) == 1 and -1 not in groups:
            held = self._held[groups.pop()]
            return self._normal(
                held.reference, [-each if minus else each for each, minus in zip(held.signs, signs, strict=True)]
            )
        kind = graph.kinds[first >> 1]
        if len(numbers) == 1:
            return self._normal(self._same(first & ~1), [-1 if minus else 1 for minus in signs])
        if all(graph.ops[number] == _CONSTANT for number in numbers):
            return self._known_together(references, kind)
        places = [references.get(lane, first) for lane in range(self._lanes)]
        own = [self._plain(self._together({lane: x})) for lane, x in enumerate(places)]
        value = own[0]
        for lane in range(1, self._lanes):
            if own[lane] != own[0]:
                number = self._constant(lane, int(Kind.INT32))
                here = self._add(int(Op.EQ), int(Kind.BOOL), self._lane(), number)
                value = self._add(_SELECT, kind, here, own[lane], value)
        return _Held(value, self._plus)

    def _known_together(self, references: dict[int, int], kind: int) -> _Held:
        first = next(iter(references.values()))
        places = [references.get(lane, first) for lane in range(self._lanes)]
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
        references = self._graph.leaves[number] if parts.is_reduction(number) else self._graph.operands[number]
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
            signs = [x * y for x, y in zip(a.signs, b.signs, strict=True)]
            return _Held(self._add(op, kind, a.reference, b.reference), tuple(signs))
        if op in (_ADD, _SELECT) and kind >= _FLOAT:
            *condition, a, b = operands
            if a.signs != b.signs:
                b = _Held(self._plain(_Held(b.reference, self._times(a.signs, b.signs))), a.signs)
            before = [self._plain(each) for each in condition]
            return _Held(self._add(op, kind, *before, a.reference, b.reference), a.signs)
        if op in _ODD and kind >= _FLOAT:
            return _Held(self._add(op, kind, operands[0].reference), operands[0].signs)
        if op in _EVEN:
            return _Held(self._add(op, kind, operands[0].reference), self._plus)
        array = (row[1],) if op == _LOAD else ()
        return _Held(self._add(op, kind, *(self._plain(each) for each in operands), *array), self._plus)

    def _times(self, one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
        return tuple(x * y for x, y in zip(one, other, strict=True))

    def _reduced(self, number: int) -> int:
        """What a tree combines: each lane its own leaves, then the lanes, then what is the same for all."""
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
                partial = held if partial is None else self._computed(op, kind, [partial, held], [-1, -1, -1])
        total: int | None = None
        if partial is not None:
            total = self._plain(partial)
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
                    by_lane = {lane: references[number, entry] for lane, entry in same[place].items()}
                    row.append(self._plain(self._together(by_lane)))
                elif place[0] == number:
                    row.append(self._same(references[place]))
            ends.append(row)
        return loop._replace(starts=np.array(ends[0], np.int32), ends=np.array(ends[1], np.int32))
