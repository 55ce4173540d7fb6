"""Schedules scalar programs so that few scalars live at once: in a GPU thread's registers, or near a CPU's core."""

from __future__ import annotations

import heapq

import numpy as np

from artix.evaluation.scalar_order import depth_first, reorder
from artix.evaluation.scalar_program import Op, ScalarProgram


def fewest_live(program: ScalarProgram) -> ScalarProgram:
    """The program ordered by greedy list scheduling.

    Of the operations whose operands are computed, the next is the one after which the fewest scalars are live; ties are
    broken by depth-first order. Inputs are read before their first use. Results are written as soon as they are
    computed, and stay live only if other scalars need them. After J. R. Goodman and W.-C. Hsu, *Code scheduling and
    register allocation in large basic blocks* (1988).

    Args:
      program: the program.
    """
    program = depth_first(program)
    leaf = (program.operations <= Op.CONSTANT).tolist()

    operands = [
        () if is_leaf else tuple({x >> 1 for x in row if x >= 0})
        for is_leaf, row in zip(leaf, program.operands.tolist(), strict=True)
    ]
    order = _Scheduler(operands, leaf, program.stages.tolist()).order()
    return reorder(program, np.array(_with_leaves(order, operands, leaf), np.int64))


class _Scheduler:
    """Greedy list scheduling.

    Args:
      operands: for each scalar the indices of its operands, which precede it.
      leaf: whether each scalar is an input, a constant or carried by a loop.
      stages: of each scalar; those of one stage come before those of the next.
    """

    def __init__(self, operands: list[tuple[int, ...]], leaf: list[bool], stages: list[int]) -> None:
        self._operands, self._leaf = operands, leaf
        self._stage = [stage << 32 for stage in stages]
        self._users: list[list[int]] = [[] for _ in operands]
        for number, needed in enumerate(operands):
            for x in needed:
                self._users[x].append(number)
        self._left = [len(users) for users in self._users]
        """Number of users of each scalar that are not scheduled yet."""
        self._missing = [sum(not leaf[x] for x in needed) for needed in operands]
        self._done = bytearray(len(operands))

    def _growth(self, number: int) -> int:
        """The change in the number of live scalars by an operation, after all changes of the stages before."""
        left = self._left
        return self._stage[number] + (left[number] > 0) - sum(left[x] == 1 for x in self._operands[number])

    def order(self) -> list[int]:
        """Numbers of all operations."""
        growth, done, left, missing = self._growth, self._done, self._left, self._missing
        ready = [(growth(n), n) for n, count in enumerate(missing) if not count and not self._leaf[n]]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            _, number = heapq.heappop(ready)
            if done[number]:
                continue
            done[number] = 1
            order.append(number)
            for x in self._operands[number]:
                left[x] -= 1
                if left[x] == 1:  # Its last user now ends its life, so that user is queued again with smaller growth.
                    user = next(u for u in self._users[x] if not done[u])
                    if not missing[user]:
                        heapq.heappush(ready, (growth(user), user))
            for user in self._users[number]:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, (growth(user), user))
        return order


def _with_leaves(order: list[int], operands: list[tuple[int, ...]], leaf: list[bool]) -> list[int]:
    """The order with what is not computed before its first use; what is only a result comes first."""
    used = {x for needed in operands for x in needed}
    complete = [number for number, is_leaf in enumerate(leaf) if is_leaf and number not in used]
    included = set(complete)
    for number in order:
        for x in operands[number]:
            if leaf[x] and x not in included:
                included.add(x)
                complete.append(x)
        complete.append(number)
    return complete
