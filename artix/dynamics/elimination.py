"""Elimination along the paths of a tree: the factors of ``M = U D U^T`` where M has a mass matrix's pattern.

Eliminating the entries from the leaves upwards keeps the pattern of M: row i of ``L = U^T`` is zero but for the entries
on the path from the root to i (Featherstone 2005, *Efficient factorization of the joint-space inertia matrix for
branched kinematic trees*). What the eliminated entries leave behind concerns the path above them alone, and passes from
level to level as one small matrix for each entry (a frontal matrix of Duff and Reid 1983, *The multifrontal solution of
indefinite sparse symmetric linear equations*). All arrays have the batch as their last axis, see :mod:`artix.lanes`.
"""

from __future__ import annotations

import dataclasses
import itertools
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from artix.tree import stage

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Paths:
    """A tree of n matrix entries."""

    parent: tuple[int, ...]
    """The entry above each, -1 for none; smaller than the entry itself."""

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Entries by depth; the children of one entry are neighbours, in the order of their parents."""
        levels = [self._children(-1)]
        while below := tuple(child for entry in levels[-1] for child in self._children(entry)):
            levels.append(below)
        return tuple(levels)

    def _children(self, entry: int) -> tuple[int, ...]:
        return tuple(child for child, parent in enumerate(self.parent) if parent == entry)

    def above(self, entry: int) -> list[int]:
        """The entries from the root to the one above an entry."""
        parent = self.parent[entry]
        return [] if parent < 0 else [*self.above(parent), parent]

    @cached_property
    def in_levels(self) -> np.ndarray:
        """For each entry its place in the levels, one after the other, [n]."""
        return np.argsort(np.concatenate([np.array(level) for level in self.levels]))

    def children(self, depth: int) -> list[int]:
        """How many children each entry of a level has."""
        return [len(self._children(entry)) for entry in self.levels[depth]]

    def rows(self, depth: int) -> np.ndarray:
        """Places in the flattened matrix of column i from the root down to i, for the entries i of a level."""
        size = len(self.parent)
        return np.array([[above * size + i for above in [*self.above(i), i]] for i in self.levels[depth]])

    @cached_property
    def starts(self) -> np.ndarray:
        """Where the factors' numbers of each level begin, and their count."""
        return np.cumsum([0, *(depth * len(level) for depth, level in enumerate(self.levels))])

    @cached_property
    def places(self) -> np.ndarray:
        """For each entry of a full matrix [n, n] its place among the factors' numbers.

        The count of the numbers stands for zero, the number after it for one.
        """
        size, count = len(self.parent), int(self.starts[-1])
        places = np.full((size, size), count)
        for depth, level in enumerate(self.levels):
            for k, i in enumerate(level):
                first = self.starts[depth] + k * depth
                places[self.above(i), i] = np.arange(first, first + depth)
                places[i, i] = count + 1
        return places


def eliminate(paths: Paths, matrix: Array, added: Array) -> tuple[Array, Array]:
    """Factors a matrix.

    Args:
      paths: its pattern.
      matrix: the matrix, [n, n, T], of which only the upper half on the paths counts.
      added: what to add to its diagonal, [n, T].

    Returns:
      The numbers of U on the paths above the diagonal, by level, and 1 / D, [n, T].
    """
    columns = matrix.reshape(-1, matrix.shape[-1])
    diagonal = _take(added, np.concatenate([np.array(level) for level in paths.levels]))
    fronts: Array | None = None
    numbers, inverses = [], []
    for depth in range(len(paths.levels) - 1, -1, -1):
        level, first = paths.levels[depth], sum(map(len, paths.levels[:depth]))
        rows = _take(columns, paths.rows(depth).ravel()).reshape(len(level), depth + 1, -1)
        rows = rows if fronts is None else rows + fronts[:, depth]
        inverse = 1 / (rows[:, depth] + diagonal[first : first + len(level)])
        above = rows[:, :depth]
        lower, inverse = stage(above * inverse[:, None], inverse)
        numbers.append(lower.reshape(len(level) * depth, lower.shape[-1]))
        inverses.append(inverse)
        if depth:
            left = -lower[:, :, None] * above[:, None]
            left = left if fronts is None else left + fronts[:, :depth, :depth]
            fronts = stage(_summed_to_parents(left, paths.children(depth - 1)))
    return jnp.concatenate(numbers[::-1]), _take(jnp.concatenate(inverses[::-1]), paths.in_levels)


def substitute(paths: Paths, numbers: Array, inverse_diagonal: Array, right: Array) -> Array:
    """The solution of ``U D U^T x = right``, [n, T], from what :func:`eliminate` returns."""
    lowers = [_level(paths, numbers, depth) for depth in range(len(paths.levels))]
    order = np.concatenate([np.array(level) for level in paths.levels])
    ends = np.cumsum([len(level) for level in paths.levels])[:-1]
    rights = jnp.split(_take(right, order), ends)
    inverses = jnp.split(_take(inverse_diagonal, order), ends)
    passed: Array | None = None
    for depth in range(len(paths.levels) - 1, -1, -1):
        if passed is not None:
            rights[depth] = rights[depth] + passed[:, depth]
        if depth:
            left = -lowers[depth] * rights[depth][:, None]
            left = left if passed is None else left + passed[:, :depth]
            passed = stage(_summed_to_parents(left, paths.children(depth - 1)))
    path = (rights[0] * inverses[0])[:, None]
    found = [path[:, 0]]
    for depth in range(1, len(paths.levels)):
        path = _spread_to_children(path, paths.children(depth - 1))
        x = stage(rights[depth] * inverses[depth] - jnp.sum(lowers[depth] * path, axis=1))
        found.append(x)
        path = jnp.concatenate([path, x[:, None]], axis=1)
    return _take(jnp.concatenate(found), paths.in_levels)


def invert_upper(paths: Paths, numbers: Array) -> Array:
    """The numbers of U^-1, arranged as those of U."""
    # Above an entry i of U^-1 stand -(the rows of U^-1 on the path) l_i; the path's rows pass from level to level.
    shape = (len(paths.levels[0]), 1, 1, numbers.shape[-1])
    path, found = jnp.ones(shape, numbers.dtype), [numbers[:0]]
    for depth in range(1, len(paths.levels)):
        path = _spread_to_children(path, paths.children(depth - 1))
        lower = _level(paths, numbers, depth)
        row = stage(-jnp.sum(lower[:, :, None] * path, axis=1))
        found.append(row.reshape(-1, numbers.shape[-1]))
        if depth + 1 < len(paths.levels):
            wider = jnp.pad(path, ((0, 0), (0, 0), (0, 1), (0, 0)))
            last = jnp.concatenate([row, jnp.ones_like(row[:, :1])], axis=1)
            path = stage(jnp.concatenate([wider, last[:, None]], axis=1))
    return jnp.concatenate(found)


def full_matrix(paths: Paths, numbers: Array, diagonal: float) -> Array:
    """An upper triangular matrix [n, n, ...] from its numbers and its constant diagonal."""
    ends = jnp.asarray([0, diagonal], numbers.dtype).reshape(2, *(1,) * (numbers.ndim - 1))
    ends = jnp.broadcast_to(ends, (2, *numbers.shape[1:]))
    return _take(jnp.concatenate([numbers, ends]), paths.places.ravel()).reshape(
        *paths.places.shape, *numbers.shape[1:]
    )


def _take(x: Array, index: np.ndarray) -> Array:
    return x if np.array_equal(index, np.arange(len(x))) else x.at[index].get(mode="promise_in_bounds")


def _level(paths: Paths, numbers: Array, depth: int) -> Array:
    """The numbers of one level, [entries, depth, T]."""
    first, end = paths.starts[depth], paths.starts[depth + 1]
    return numbers[first:end].reshape(len(paths.levels[depth]), depth, numbers.shape[-1])


def _summed_to_parents(x: Array, children: list[int]) -> Array:
    """Sums of neighbours [m, ...], as many as each parent has children."""
    if all(count == 1 for count in children):
        return x
    ends = np.cumsum([0, *children])
    return jnp.stack([jnp.sum(x[first:end], axis=0) for first, end in itertools.pairwise(ends)])


def _spread_to_children(x: Array, children: list[int]) -> Array:
    """The parents' items [m, ...], one for each child."""
    return _take(x, np.repeat(np.arange(len(children)), children))
