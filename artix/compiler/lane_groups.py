"""Finds the equal parts of a robot, such as its legs, in a scalar program, for
:mod:`artix.compiler.lanes`.

Weisfeiler and Leman's colours tell operations apart by what they compute and by what is computed
from them, whatever their signs. Inputs of one colour are the same quantity of different legs, and
inputs that are combined belong to the same leg. Operations of different legs whose operands
correspond are the same operation.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator

from artix.compiler.scalar_program import Kind, Op, ScalarProgram

_INPUT, _CARRIED, _CONSTANT, _LOAD = int(Op.INPUT), int(Op.CARRIED), int(Op.CONSTANT), int(Op.LOAD)
_ADD, _SUB = int(Op.ADD), int(Op.SUB)
_COMMUTATIVE = {
    int(op) for op in (Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX, Op.AND, Op.OR, Op.XOR, Op.EQ, Op.NE)
}
#: Operations of which many can be done in any order; differences are sums.
_FAMILIES = {_ADD: _ADD, _SUB: _ADD} | {int(op): int(op) for op in (Op.MIN, Op.MAX, Op.AND, Op.OR)}
_FLOAT = int(Kind.FLOAT32)
#: The distances within which scalars are told apart: too near, joints of one leg look alike; too
#: far, no leg is like another if they are visited one after the other somewhere, as in a
#: Gauss-Seidel sweep. The search ends where it has not become better for some steps.
_LEAST_DISTANCE, _PATIENCE = 3, 4
#: What each lane computes for itself, the same for all lanes, or is not known yet.
_UNIFORM, _UNKNOWN = -1, -2


class Graph:
    """The program as lists, with its trees of sums and the like, and the colours of its scalars."""

    def __init__(self, program: ScalarProgram) -> None:
        self.program = program
        self.ops: list[int] = program.operations.tolist()
        self.kinds: list[int] = program.kinds.tolist()
        self.stages: list[int] = program.stages.tolist()
        self.constants: list[float] = program.constants.tolist()
        self.rows: list[list[int]] = program.operands.tolist()
        self.operands: list[list[int]] = [
            [x for x in row if x >= 0] if op > _CONSTANT else []
            for op, row in zip(self.ops, self.rows, strict=True)
        ]
        self.starts = {
            (a, b): x
            for a, loop in enumerate(program.loops)
            for b, x in enumerate(loop.starts.tolist())
        }
        self.ends = {
            (a, b): x
            for a, loop in enumerate(program.loops)
            for b, x in enumerate(loop.ends.tolist())
        }
        self.leaves = self._trees()
        self.inputs = [k for k, op in enumerate(self.ops) if op == _INPUT]
        self.coarse = self._coarse()
        self.colors = self._upstream()

    def family(self, number: int) -> int | None:
        """The operation whose order does not matter, if it is one."""
        op = self.ops[number]
        return None if op in (_ADD, _SUB) and self.kinds[number] < _FLOAT else _FAMILIES.get(op)

    def _trees(self) -> dict[int, list[int]]:
        """For each operation of a family, the leaves of its tree as references; inner nodes are
        used in it alone.
        """
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
            terms: list[int] = []
            for place, x in enumerate(self.operands[number]):
                minus = int(op == _SUB and place == 1)
                child = x >> 1
                if (
                    self.inner[child]
                    and self.family(child) == family
                    and (family == _ADD or not x & 1)
                ):
                    terms += [leaf ^ (x & 1) ^ minus for leaf in leaves[child]]
                else:
                    terms.append(x ^ minus)
            leaves[number] = terms
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
            colors[number] = hash(
                (name, self.kinds[number], place, number_of, row[2] if op == _CARRIED else 0)
            )
        around = [
            self.leaves.get(number, operands) for number, operands in enumerate(self.operands)
        ]
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
        for place, colors in enumerate(
            itertools.islice(self._neighbourhoods(), _LEAST_DISTANCE, None)
        ):
            count, *_ = self.classes(colors)
            if count > most:
                best, most, distance = colors, count, place
            if place - distance >= _PATIENCE:
                return best
        raise AssertionError("neighbourhoods grow without end")

    def _upstream(self) -> list[int]:
        """Colours by what scalars are computed from: inputs and carried scalars, which keep their
        coarse colours.
        """
        colors = list(self.coarse)
        for number, op in enumerate(self.ops):
            if op > _CONSTANT:
                each = [colors[x >> 1] for x in self.operands[number]]
                if op in _COMMUTATIVE:
                    each.sort()
                array = self.rows[number][1] if op == _LOAD else 0
                colors[number] = hash(
                    (4, _ADD if op == _SUB else op, self.kinds[number], array, *each)
                )
            elif op == _CONSTANT:
                colors[number] = hash(
                    (2, self.kinds[number], float(f"{self.constants[number]:.6g}"))
                )
        return colors

    def classes(self, colors: list[int]) -> tuple[int, int, dict[int, list[int]]]:
        """How many inputs have as many others of their colour as there are lanes, the lanes, and
        inputs by colour.
        """
        classes: dict[int, list[int]] = defaultdict(list)
        for number in self.inputs:
            classes[colors[number]].append(number)
        counts = Counter(len(members) for members in classes.values())
        count, lanes = max((size * counts[size], size) for size in (2, 4))
        return count, lanes, classes


def lanes_of_inputs(graph: Graph) -> tuple[int, dict[int, int]]:
    """The number of lanes, and the lane of each input that belongs to one."""
    count, lanes, classes = graph.classes(graph.coarse)
    if not count:
        return 1, {}
    class_of = {
        k: color for color, members in classes.items() if len(members) == lanes for k in members
    }
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


def _joined(graph: Graph, class_of: dict[int, int]) -> dict[int, list[int]]:
    """For each input of a class, those that belong to the same part: what is combined, and has no
    two of a class.
    """
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


class Parts:
    """Which lane each scalar belongs to, and which scalars of different lanes become one."""

    def __init__(self, graph: Graph, inputs: dict[int, int]) -> None:
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
        """For each entry that a loop carries in a lane, its loop and the entry that stands for it
        and the others."""
        self._group()

    @property
    def size(self) -> int:
        """Number of operations of a lane, without those that lanes exchange and that choose between
        them.
        """
        ops, inner = self._graph.ops, self._graph.inner
        is_here = [ops[next(iter(group.values()))] > _CONSTANT for group in self.groups]
        alike = (
            k
            for k, op in enumerate(ops)
            if op > _CONSTANT and k not in self.group_of and not inner[k]
        )
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
                    known.pop()
                    if len(known) == 1
                    else _UNIFORM
                    if known or _UNKNOWN not in around
                    else _UNKNOWN
                )
        return lanes

    def is_reduction(self, number: int) -> bool:
        """Whether it combines several lanes by a tree."""
        leaves = self._graph.leaves.get(number)
        if leaves is None or self.lanes[number] != _UNIFORM:
            return False
        return len({self.lanes[x >> 1] for x in leaves} - {_UNIFORM}) > 1

    def aligned(self, number: int) -> list[int]:
        """The operands as references, in an order that is the same in all lanes; of a difference,
        as of a sum.
        """
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
            kind: tuple[object, ...] = (
                _ADD if op == _SUB and graph.kinds[number] >= _FLOAT else op,
            )
            kind = (*kind, graph.kinds[number], graph.colors[number])
            kind = (*kind, graph.rows[number][1] if op == _LOAD else 0)
            kind = (*kind, *(self._sign_free(x) for x in self.aligned(number)))
            groups = waiting[kind]
            place = next(
                (k for k, group in enumerate(groups) if lane not in self.groups[group]), None
            )
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
