"""Branches: what counts only where a condition holds is computed only there.

``jnp.where(is_fast, change, 0)`` computes the change of every robot. If much of a program is needed
for such selections by one condition alone, that part becomes the body of a loop of at most one
turn: a vector of robots, or a warp, enters it if one of them has to. The derivative of what only
fast motion needs is a quarter of the gradient of a quadruped's step.

A part is in several branches, one after the other, where some of it needs what follows from others
of it. It could also have what is zero wherever the condition does not hold, such as multiples of
what was selected: that moved another 7 % of a quadruped's gradient into branches, which then
yielded twice as many scalars, and took as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from artix.compiler.scalar_order import renumbered
from artix.compiler.scalar_program import Kind, Loop, Op, ScalarProgram

_CARRIED, _CONSTANT = int(Op.CARRIED), int(Op.CONSTANT)
_MUL, _SELECT = int(Op.MUL), int(Op.SELECT)

#: The share of a program's operations from which a part is worth what enters and leaves it.
_LEAST_SHARE = 0.1

#: Operations for each scalar that a part yields. To yield one takes about four: what it was is
#: loaded, and the new one blended with it, stored, and loaded again.
_LEAST_WORK = 10

#: Selections by one condition from which its part is looked for.
_LEAST_SELECTIONS = 16

#: More branches than this, one after the other, are not made.
_MOST_BRANCHES = 4


def with_branches(program: ScalarProgram) -> ScalarProgram:
    """The program, with branches where they are worth it; otherwise the same one."""
    part = None
    for from_zero in (True, False):
        selections = _selections(program, from_zero)
        if part is None and len(selections) >= _LEAST_SELECTIONS:
            part = _part(program, selections)
    if part is None:
        return program
    writer = _Writer(program, part)
    if not writer.write_operands():
        return program
    branched = writer.program()
    return branched if _is_in_order(branched) else program


class _Part(NamedTuple):
    """What is needed only where a condition holds."""

    condition: int
    """Number of the condition."""
    branch_of: list[int]
    """For each scalar, the branch in which it is computed; -1 elsewhere, and once more at the
    end."""
    sources: np.ndarray
    """Numbers of the scalars that are operands, [N, 3]; N where there is none."""
    places: list[int]
    """The number of the program's loops before each branch."""


def _selections(program: ScalarProgram, from_zero: bool) -> np.ndarray:
    """Numbers of the selections between something and zero, or anything, by the condition that has
    most.
    """
    operands, is_selection = program.operands, program.operations == _SELECT
    if from_zero:
        is_zero = (program.operations == _CONSTANT) & (program.constants == 0)
        is_selection &= is_zero[np.maximum(operands[:, 2], 0) >> 1]
    numbers = np.flatnonzero(is_selection)
    if not len(numbers):
        return numbers
    conditions = operands[numbers, 0] >> 1
    return numbers[conditions == np.bincount(conditions).argmax()]


def _part(program: ScalarProgram, selections: np.ndarray) -> _Part | None:
    """What is needed only for these selections; ``None`` if that is too little."""
    condition = int(program.operands[selections[0], 0]) >> 1
    count, stages = len(program.operations), program.stages
    references = np.where(
        (program.operations > _CONSTANT)[:, None] & (program.operands >= 0),
        program.operands >> 1,
        count,
    )
    is_repeated = np.array([bool(nest) for nest in program.nests])[stages]
    may_be_within = (program.operations > _CONSTANT) & ~is_repeated
    may_be_within &= program.levels == program.levels[condition]
    is_used_elsewhere = np.append(~may_be_within, True)
    is_used_elsewhere[condition] = True
    for arrays in [program.results, *((loop.starts, loop.ends) for loop in program.loops)]:
        for array in arrays:
            is_used_elsewhere[array.ravel() >> 1] = True
    elsewhere, within = is_used_elsewhere.tolist(), [False] * (count + 1)
    is_selection = np.zeros(count, bool)
    is_selection[selections] = True
    selects = is_selection.tolist()
    columns = references.T.tolist()
    backwards = [reversed(each) for each in (range(count), *columns)]
    for number, first, second, third in zip(*backwards, strict=True):
        if not elsewhere[number]:
            within[first] = within[second] = within[third] = True
        elif selects[number]:
            within[second] = elsewhere[third] = True
        else:
            elsewhere[first] = elsewhere[second] = elsewhere[third] = True
    is_within = [used and not others for used, others in zip(within, elsewhere, strict=True)]
    _leave_out_roots(program, references, is_within)
    exits = {k for k in selections.tolist() if not is_within[k] and is_within[references[k, 1]]}
    if sum(is_within) < max(_LEAST_SHARE * program.size, _LEAST_WORK * len(exits), 1):
        return None
    branch_of = _branches(columns, is_within, exits)
    num_branches, branches = max(branch_of) + 1, np.array(branch_of[:-1])
    if num_branches > _MOST_BRANCHES:
        return None
    begins, places = np.array([begin for begin, _ in program.bodies], np.int64), [0]
    for branch in range(num_branches):
        stage = stages[branches == branch].max(initial=stages[condition])
        places.append(max(places[-1], int(np.count_nonzero(begins < stage))))
    return _Part(condition, branch_of, references, places[1:])


def _leave_out_roots(program: ScalarProgram, sources: np.ndarray, is_within: list[bool]) -> None:
    """Leaves out of a part what needs nothing of it and neither a float nor a word, in place.

    The body of a loop is what depends on what it carries, so such scalars could not be in it.
    """
    may_have_factor = np.append(program.kinds >= Kind.UINT32, False)
    has_none = ~may_have_factor[sources].any(axis=1)
    for number in np.flatnonzero(np.array(is_within[:-1]) & has_none).tolist():
        if not any(is_within[source] for source in sources[number].tolist()):
            is_within[number] = False


def _branches(columns: list[list[int]], is_within: list[bool], exits: set[int]) -> list[int]:
    """The branch of each scalar: the number of exits on the longest way to the first one that it
    leads to.

    Args:
      columns: the scalars that are the first, second and third operands.
      is_within: which scalars are in a branch; False once more at the end.
      exits: the selections by which others need them.
    """
    count = len(is_within) - 1
    rank = [0] * (count + 1)
    first_exit = min(exits, default=count)
    following = [each[first_exit:] for each in columns]
    for number, first, second, third in zip(range(first_exit, count), *following, strict=True):
        most = rank[first]
        if rank[second] > most:
            most = rank[second]
        if rank[third] > most:
            most = rank[third]
        rank[number] = most + 1 if number in exits else most
    branch_of = [count if within else -1 for within in is_within]
    # Most scalars are in no branch.
    leads_on = np.array(is_within[:-1])
    leads_on[list(exits)] = True
    firsts, seconds, thirds = columns
    for number in np.flatnonzero(leads_on)[::-1].tolist():
        branch, second = branch_of[number], seconds[number]
        if number in exits:
            branch = rank[number] - 1
        else:
            if branch_of[first := firsts[number]] > branch:
                branch_of[first] = branch
            if branch_of[third := thirds[number]] > branch:
                branch_of[third] = branch
        if branch_of[second] > branch:
            branch_of[second] = branch
    return branch_of


def _is_in_order(program: ScalarProgram) -> bool:
    """Whether each loop needs only what is computed before it begins or ends."""
    stages = program.stages
    return all(
        (stages[loop.starts >> 1] < begin).all() and (stages[loop.ends >> 1] < end).all()
        for loop, (begin, end) in zip(program.loops, program.bodies, strict=True)
    )


class _Writer:
    """Writes a program with branches.

    New scalars follow those of the program, until all are put in order by their keys: the number of
    a scalar of the program, or one between two of them. Constants come first.
    """

    def __init__(self, program: ScalarProgram, part: _Part) -> None:
        self._program, self._part = program, part
        self._operations: list[int] = program.operations.tolist()
        self._rows: dict[int, list[int]] = {}
        """The operands of scalars that are new, or whose operands change."""
        self._kinds: list[int] = program.kinds.tolist()
        self._levels: list[int] = program.levels.tolist()
        self._constants: list[float] = program.constants.tolist()
        is_constant = program.operations == _CONSTANT
        self._keys = np.where(is_constant, -3.0, np.arange(len(is_constant))).tolist()
        self._numbers_of_constants = {
            (self._kinds[k], self._constants[k]): k for k in np.flatnonzero(is_constant).tolist()
        }
        self._entries: list[list[tuple[int, int]]] = [[] for _ in part.places]
        """For each branch the references of what it carries, at the start and at the end, without
        the condition."""
        self._after: dict[int, int] = {}
        """For each scalar of a branch that others use the number under which they do."""
        self._factors: list[dict[int, int]] = [{} for _ in part.places]
        """For each branch, products of scalars from elsewhere with a one that it carries."""
        self._ones: dict[tuple[int, int], int] = {}
        """Their ones, by branch and kind."""
        self._loops, self._number_of = self._with_branches()

    def _with_branches(self) -> tuple[list[Loop], list[int]]:
        """All loops, of which branches are still empty, and the numbers of these."""
        loops, new_numbers, branches = list[Loop](), list[int](), list[int]()
        none = np.zeros(0, np.int32)
        for number in range(len(self._program.loops) + 1):
            for _ in range(self._part.places.count(number)):
                branches.append(len(loops))
                loops.append(Loop(0, none, none))
            if number < len(self._program.loops):
                loop = self._program.loops[number]
                new_numbers.append(len(loops))
                parent = -1 if loop.parent < 0 else new_numbers[loop.parent]
                loops.append(loop._replace(parent=parent))
        for number in np.flatnonzero(self._program.operations == _CARRIED).tolist():
            operands = self._operands(number)
            operands[0] = new_numbers[operands[0]]
        return loops, branches

    def _operands(self, number: int) -> list[int]:
        """The operands of a scalar, which may be changed."""
        if number not in self._rows:
            self._rows[number] = self._program.operands[number].tolist()
        return self._rows[number]

    def _new(self, operation: int, operands: list[int], kind: int, level: int, key: float) -> int:
        """The number of a new scalar."""
        self._operations.append(operation)
        self._rows[len(self._keys)] = [*operands, *[-1] * (3 - len(operands))]
        self._kinds.append(kind)
        self._levels.append(level)
        self._constants.append(0.0)
        self._keys.append(key)
        return len(self._keys) - 1

    def _constant(self, value: float, kind: int) -> int:
        """The number of a constant, which is not negative."""
        number = self._numbers_of_constants.get((kind, value))
        if number is None:
            number = self._new(_CONSTANT, [], kind, 0, -3)
            self._constants[number] = value
            self._numbers_of_constants[kind, value] = number
        return number

    def _carried(self, branch: int, start: int, end: int, is_after: int) -> int:
        """The number of a new entry of what a branch carries, as it is before or after it."""
        entries = self._entries[branch]
        entries.append((start, end))
        operands = [self._number_of[branch], len(entries), is_after]
        level = self._levels[self._part.condition]
        return self._new(_CARRIED, operands, self._kinds[start >> 1], level, -2)

    def _elsewhere(self, reference: int) -> int:
        """The reference of a scalar of a branch outside of it."""
        source = reference >> 1
        if source not in self._after:
            zero = 2 * self._constant(0, self._kinds[source])
            branch = self._part.branch_of[source]
            self._after[source] = self._carried(branch, zero, 2 * source, 1)
        return 2 * self._after[source] | (reference & 1)

    def write_operands(self) -> bool:
        """Scalars of a branch depend on what it carries: those that need no other one of it get an
        operand times one. Returns whether all have such an operand.
        """
        branch_of = np.array(self._part.branch_of)
        of_operands = branch_of[self._part.sources]
        differs = of_operands != branch_of[:-1, None]
        is_other = (differs & (of_operands != -1)).any(axis=1)
        enters = (branch_of[:-1] >= 0) & differs.all(axis=1)
        concerned = np.flatnonzero(is_other | enters)
        rows = branch_of[concerned].tolist(), of_operands[concerned].tolist()
        for number, branch, branches in zip(concerned.tolist(), *rows, strict=True):
            for place in range(3):
                if branches[place] not in (-1, branch):
                    operands = self._operands(number)
                    operands[place] = self._elsewhere(operands[place])
            if enters[number] and not self._write_factor(number, branch):
                return False
        return True

    def _write_factor(self, number: int, branch: int) -> bool:
        """Multiplies an operand, a float or a word, by the one that a branch carries, if there is
        one.
        """
        operands, kinds, factors = self._operands(number), self._kinds, self._factors[branch]
        places = [
            k for k in range(3) if operands[k] >= 0 and kinds[operands[k] >> 1] >= Kind.UINT32
        ]
        if not places:
            return False
        place = next((k for k in places if operands[k] >> 1 in factors), places[0])
        source = operands[place] >> 1
        if source not in factors:
            kind, level = kinds[source], self._levels[self._part.condition]
            if (branch, kind) not in self._ones:
                one = 2 * self._constant(1, kind)
                self._ones[branch, kind] = self._carried(branch, one, one, 0)
            one = 2 * self._ones[branch, kind]
            key = max(self._keys[source], -1) + 0.5
            factors[source] = self._new(_MUL, [2 * source, one], kind, level, key)
        operands[place] = 2 * factors[source] | (operands[place] & 1)
        return True

    def program(self) -> ScalarProgram:
        """The program in order."""
        condition, never = 2 * self._part.condition, 2 * self._constant(0, Kind.BOOL)
        for number, entries in zip(self._number_of, self._entries, strict=True):
            starts, ends = zip((condition, never), *entries, strict=True)
            self._loops[number] = Loop(0, np.array(starts, np.int32), np.array(ends, np.int32))
        count = len(self._program.operands)
        rows = np.full((len(self._keys), 3), -1, np.int32)
        rows[:count] = self._program.operands
        rows[[*self._rows]] = [*self._rows.values()]
        unordered = self._program._replace(
            operations=np.array(self._operations, np.uint8),
            operands=rows,
            kinds=np.array(self._kinds, np.uint8),
            levels=np.array(self._levels, np.uint8),
            constants=np.array(self._constants),
            loops=tuple(self._loops),
        )
        return renumbered(unordered, np.argsort(np.array(self._keys), kind="stable"))
