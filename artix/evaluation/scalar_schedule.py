"""An order of a scalar program in which few scalars live at once: what a thread of a GPU keeps in its registers."""

from __future__ import annotations

import heapq

import numpy as np

from artix.evaluation.scalar_order import depth_first, reordered
from artix.evaluation.scalar_program import Op, ScalarProgram


def fewest_live(program: ScalarProgram) -> ScalarProgram:
    """The same program, ordered by greedy list scheduling.

    Of the operations that can be computed next, that one comes first after which the fewest scalars live; of equals the
    first in depth-first order. Inputs are no operations here: each is read before its first use. Results are
    written as soon as they are made, and live on only if others need them. The idea is that of J. R. Goodman and
    W.-C. Hsu, *Code scheduling and register allocation in large basic blocks* (1988).

    Args:
      program: the program.
    """
    program = depth_first(program)
    leaf = (program.operations <= Op.CONSTANT).tolist()
    is_input = (program.operations == Op.INPUT).tolist()
    operands = [
        () if is_leaf else tuple({x >> 1 for x in row if x >= 0})
        for is_leaf, row in zip(leaf, program.operands.tolist(), strict=True)
    ]
    order = _Scheduler(operands, leaf).order()
    return reordered(program, np.array(_with_leaves(order, operands, leaf, is_input), np.int64))


class _Scheduler:
    """Picks operations one after another.

    Args:
      operands: numbers of the scalars of which each is made, in an order in which it could be computed.
      leaf: whether it is an input or a constant.
    """

    def __init__(self, operands: list[tuple[int, ...]], leaf: list[bool]) -> None:
        self._operands, self._leaf = operands, leaf
        self._users: list[list[int]] = [[] for _ in operands]
        for number, needed in enumerate(operands):
            for x in needed:
                self._users[x].append(number)
        self._left = [len(users) for users in self._users]
        """How many users of each are not computed yet."""
        self._missing = [sum(not leaf[x] for x in needed) for needed in operands]
        self._done = bytearray(len(operands))

    def _growth(self, number: int) -> int:
        """By how many more scalars live after an operation. Constants are part of instructions."""
        left = self._left
        return (left[number] > 0) - sum(left[x] == 1 for x in self._operands[number])

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
                if left[x] == 1:  # its last user now ends it, and may be put in again as more attractive
                    user = next(u for u in self._users[x] if not done[u])
                    if not missing[user]:
                        heapq.heappush(ready, (growth(user), user))
            for user in self._users[number]:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, (growth(user), user))
        return order


def _with_leaves(
    order: list[int], operands: list[tuple[int, ...]], leaf: list[bool], is_input: list[bool]
) -> list[int]:
    """The order with inputs and constants before their first use; those that only results have come first."""
    used = {x for needed in operands for x in needed}
    whole = [number for number, is_leaf in enumerate(leaf) if is_leaf and number not in used]
    placed = set(whole)
    for number in order:
        for x in operands[number]:
            if leaf[x] and x not in placed:
                placed.add(x)
                whole.append(x)
        whole.append(number)
    return whole
