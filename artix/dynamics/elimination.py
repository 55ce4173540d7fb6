"""Elimination along the paths of a tree: the factors of ``M = U D U^T`` where M has a mass matrix's pattern.

Eliminating the entries from the leaves upwards keeps the pattern of M: column j of U is zero except for the entries on
the path from the root to j (Featherstone 2005, *Efficient factorization of the joint-space inertia matrix for branched
kinematic trees*). Entries of the same depth do not couple with each other and are eliminated together.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import struct
from artix.math.arrays import matmul, take
from artix.model.topology import Topology

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Paths:
    """A tree of n matrix entries, and their order by depth, in which each level is a slice."""

    parent: tuple[int, ...]
    """The entry above each, -1 for none; smaller than the entry itself."""

    @staticmethod
    def of(tree: Topology) -> Paths:
        """The paths of a topology's mass matrix."""
        return _paths_of(tree)

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Entries by depth."""
        depth: list[int] = []
        for parent in self.parent:
            depth.append(0 if parent < 0 else depth[parent] + 1)
        count = max(depth, default=-1) + 1
        return tuple(tuple(np.flatnonzero(np.array(depth) == level).tolist()) for level in range(count))

    @cached_property
    def order(self) -> np.ndarray:
        """All entries in the order of the levels, [n]."""
        return np.concatenate([np.zeros(0, int), *(np.array(level) for level in self.levels)])

    @cached_property
    def place(self) -> np.ndarray:
        """The position of each entry in that order, [n]."""
        return np.argsort(self.order)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The positions of each level in that order."""
        ends = np.cumsum([0, *(len(level) for level in self.levels)]).tolist()
        return tuple(slice(first, end) for first, end in itertools.pairwise(ends))

    @cached_property
    def pattern(self) -> np.ndarray:
        """``[i, j]``: whether the entry at position i is that at position j or one of its ancestors, [n, n]."""
        above = np.eye(len(self.parent), dtype=bool)
        for place, entry in enumerate(self.order.tolist()):
            if self.parent[entry] >= 0:
                above[:, place] |= above[:, self.place[self.parent[entry]]]
        return above

    def parents(self, depth: int) -> np.ndarray:
        """For each entry of a level, the position of its parent within the level above."""
        above = list(self.levels[depth - 1])
        return np.array([above.index(self.parent[entry]) for entry in self.levels[depth]])


@functools.lru_cache(maxsize=256)
def _paths_of(tree: Topology) -> Paths:
    coupled = tree.mass_matrix_halves[0]
    above = [np.flatnonzero(coupled[:entry, entry]) for entry in range(tree.nv)]
    return Paths(tuple(int(path[-1]) if len(path) else -1 for path in above))


class PathFactors(struct.PyTreeNode):
    """The factors of ``M = U D U^T`` along the paths of a tree."""

    columns: tuple[Array, ...]
    """The columns of U above the diagonal by level, in the order of the levels, [entries above, entries] each."""
    inverse_diagonal: Array
    """1 / D, [n]."""
    paths: Paths = struct.field(pytree_node=False)

    @property
    def upper(self) -> Array:
        """U, unit upper triangular, [n, n]."""
        size, place = len(self.paths.parent), self.paths.place
        columns = [jnp.pad(column, ((0, size - len(column)), (0, 0))) for column in self.columns]
        strict = take(take(jnp.concatenate(columns, axis=1), place, 0), place)
        return strict + jnp.eye(size, dtype=strict.dtype)

    def solve_upper(self, rights: Array) -> Array:
        """``U^-1 rights``, [n, m], from the leaves upwards."""
        left, levels = take(rights, self.paths.order, 0), []
        for column, level in zip(reversed(self.columns), reversed(self.paths.slices), strict=True):
            levels.append(left[level])
            left = left[: level.start] - matmul(column, left[level])
        return take(jnp.concatenate(levels[::-1]), self.paths.place, 0)

    def solve_upper_transposed(self, rights: Array) -> Array:
        """``U^-T rights``, [n, m], from the root downwards."""
        right = take(rights, self.paths.order, 0)
        x = right[:0]
        for column, level in zip(self.columns, self.paths.slices, strict=True):
            x = jnp.concatenate([x, right[level] - matmul(column.T, x)])
        return take(x, self.paths.place, 0)


def eliminate(paths: Paths, matrix: Array, added: Array) -> PathFactors:
    """The factors of a matrix.

    Args:
      paths: its pattern.
      matrix: the matrix, [n, n]; only the entries of its upper half on the paths are read.
      added: what to add to its diagonal, [n].
    """
    pattern = np.asarray(np.triu(paths.pattern, 1), matrix.dtype)
    left = take(take(matrix, paths.order, 0), paths.order) * pattern
    diagonal = take(jnp.diagonal(matrix) + added, paths.order)
    columns, inverses = [], []
    for level in reversed(paths.slices):
        above = slice(0, level.start)
        inverse, column = 1 / diagonal[level], left[above, level]
        scaled = column * inverse[None]
        left = left[above, above] - matmul(scaled, column.T) * pattern[above, above]
        diagonal = diagonal[above] - jnp.sum(scaled * column, axis=1)
        columns.append(scaled)
        inverses.append(inverse)
    return PathFactors(tuple(columns[::-1]), take(jnp.concatenate(inverses[::-1]), paths.place), paths)
