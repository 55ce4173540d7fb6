"""Sums of many scalars: reductions, products of matrices, and sums over the subtrees and paths of
trees.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from artix.compiler.scalar_builder import ONE, ZERO, ScalarBuilder
from artix.compiler.scalar_functions import Binary


def reduce_rows(
    builder: ScalarBuilder, kind: int, rule: Binary, entries: Sequence[int], order: np.ndarray
) -> list[int]:
    """Combines the entries of each row, in order.

    Args:
      builder: builds the scalars.
      kind: kind of the entries.
      rule: combines two entries.
      entries: entries of the array.
      order: numbers of the entries of each row, [rows, entries per row].
    """
    columns = order.T.tolist()
    results = [entries[number] for number in columns[0]]
    for column in columns[1:]:
        results = rule(builder, kind, results, [entries[number] for number in column])
    return results


def accumulate_rows(
    builder: ScalarBuilder, kind: int, rule: Binary, entries: Sequence[int], order: np.ndarray
) -> list[int]:
    """:func:`reduce_rows` with all partial results, in the order of the entries."""
    columns = order.T.tolist()
    sums = [entries[number] for number in columns[0]]
    results = list(entries)
    for position, column in enumerate(columns):
        if position:
            sums = rule(builder, kind, sums, [entries[number] for number in column])
        for number, scalar in zip(column, sums, strict=True):
            results[number] = scalar
    return results


def matrix_product(builder: ScalarBuilder, kind: int, a: np.ndarray, b: np.ndarray) -> list[int]:
    """Products of matrices of references, without multiplications by zero.

    Args:
      builder: builds the scalars.
      kind: kind of the entries, which are floats.
      a: [batch, m, k].
      b: [batch, k, n].

    Returns:
      The references of [batch, m, n] in row-major order.
    """
    for mask, other in ((b, a), (a.swapaxes(1, 2), b.swapaxes(1, 2))):
        if len(mask) == 1 and _is_mask(mask, kind):
            sums = _sums_by_mask(builder, kind, other[0], mask[0] != ZERO[kind])
            return sums.ravel().tolist() if mask is b else sums.T.ravel().tolist()
    terms = (a != ZERO[kind])[:, :, None, :] & (b != ZERO[kind]).swapaxes(1, 2)[:, None]
    batch, row, column, inner = np.nonzero(terms)
    products = builder.multiply(
        kind, a[batch, row, inner].tolist(), b[batch, inner, column].tolist()
    )
    counts = terms.reshape(-1, terms.shape[-1]).sum(axis=1)
    return _segment_sums(builder, kind, products, counts)


def _segment_sums(
    builder: ScalarBuilder, kind: int, entries: list[int], counts: np.ndarray
) -> list[int]:
    """Sums of consecutive segments with the given numbers of entries."""
    sums = [ZERO[kind]] * len(counts)
    firsts = np.cumsum(counts) - counts
    for position in range(int(counts.max(initial=0))):
        segments = np.flatnonzero(counts > position)
        numbers = (firsts[segments] + position).tolist()
        indices = segments.tolist()
        terms = [entries[number] for number in numbers]
        if position:
            terms = builder.add(kind, [sums[index] for index in indices], terms)
        for index, term in zip(indices, terms, strict=True):
            sums[index] = term
    return sums


def _is_mask(references: np.ndarray, kind: int) -> bool:
    return bool(np.all((references == ZERO[kind]) | (references == ONE[kind])))


class SumPlan(NamedTuple):
    """Sums over sets of entries that share partial sums, which are numbered after the entries."""

    stages: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...]
    """For each stage, the numbers of both operands of its sums, from earlier stages, and of the
    sums."""
    results: tuple[int, ...]
    """The number of each set's sum; -1 for empty sets."""


def plan_of_sums(sets: np.ndarray) -> SumPlan:
    """Plans sums over sets that often contain each other, such as the subtrees or the paths of a
    tree.

    Args:
      sets: which entries each set contains, bool [entries, sets].
    """
    return _plan_of_sums(sets.tobytes(), *sets.shape)


@functools.lru_cache(maxsize=256)
def _plan_of_sums(mask: bytes, entries: int, count: int) -> SumPlan:
    sets = np.frombuffer(mask, bool).reshape(entries, count).T
    sizes = sets.sum(axis=1)
    numbers: dict[bytes, int] = {}
    summed: list[tuple[np.ndarray, int]] = []
    stage_of = [0] * entries
    stages: list[tuple[list[int], list[int], list[int]]] = []
    results = [-1] * count
    for position in np.argsort(sizes, kind="stable").tolist():
        members = sets[position]
        if not sizes[position]:
            continue
        number = numbers.get(members.tobytes())
        if number is None:
            rest, parts = members.copy(), []
            for other, other_number in reversed(summed):  # largest first
                if not np.any(other & ~rest):
                    parts.append(other_number)
                    rest &= ~other
            parts += np.flatnonzero(rest).tolist()
            number = parts[0]
            for part in parts[1:]:
                stage = max(stage_of[number], stage_of[part])
                if stage == len(stages):
                    stages.append(([], [], []))
                for operands, column in zip(
                    (number, part, len(stage_of)), stages[stage], strict=True
                ):
                    column.append(operands)
                number = len(stage_of)
                stage_of.append(stage + 1)
            numbers[members.tobytes()] = number
            if len(parts) > 1:
                summed.append((members, number))
        results[position] = number
    return SumPlan(tuple((tuple(a), tuple(b), tuple(c)) for a, b, c in stages), tuple(results))


def _sums_by_mask(
    builder: ScalarBuilder, kind: int, rows: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Sums over the sets of a mask [entries, sets] of each row of entries, [rows, sets]."""
    plan, length = plan_of_sums(mask), len(rows)
    values = dict(enumerate(rows.T.tolist()))
    values[-1] = [ZERO[kind]] * length
    for a, b, sums in plan.stages:
        first, second = (
            [scalar for number in numbers for scalar in values[number]] for numbers in (a, b)
        )
        results = builder.add(kind, first, second)
        for position, number in enumerate(sums):
            values[number] = results[position * length : (position + 1) * length]
    return np.array([values[number] for number in plan.results], np.int64).reshape(-1, length).T
