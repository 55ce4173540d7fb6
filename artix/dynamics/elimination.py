"""Elimination along the paths of a tree: the factors of ``M = U D U^T`` where M has a mass matrix's pattern.

Eliminating the entries from the leaves upwards keeps the pattern of M: row i of ``L = U^T`` is zero but for the entries
on the path from the root to i (Featherstone 2005, *Efficient factorization of the joint-space inertia matrix for
branched kinematic trees*), and so is row i of its inverse. What the eliminated entries leave behind concerns the path
above them alone, and passes from level to level as one small matrix for each entry (a frontal matrix of Duff and Reid
1983, *The multifrontal solution of indefinite sparse symmetric linear equations*).

The recursions are meant for :mod:`artix.lanes`. With the inverse known, solving needs none.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from artix.spatial import sum_of_products, total
from artix.topology import Topology
from artix.tree import after, masked_sum, stage, take

Array = jax.Array


@functools.lru_cache(maxsize=256)
def _paths_of(tree: Topology) -> Paths:
    coupled = tree.mass_matrix_halves[0]
    above = [np.flatnonzero(coupled[:entry, entry]) for entry in range(tree.nv)]
    return Paths(tuple(int(path[-1]) if len(path) else -1 for path in above))


@dataclasses.dataclass(frozen=True)
class Paths:
    """A tree of n matrix entries. The *numbers* of a unit triangular matrix are those on the paths, level by level."""

    parent: tuple[int, ...]
    """The entry above each, -1 for none; smaller than the entry itself."""

    @staticmethod
    def of(tree: Topology) -> Paths:
        """The paths of a topology's mass matrix."""
        return _paths_of(tree)

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Entries by depth; the children of one entry are neighbours, in the order of their parents."""
        levels = [self._children(-1)]
        while below := tuple(child for entry in levels[-1] for child in self._children(entry)):
            levels.append(below)
        return tuple(levels)

    @cached_property
    def by_level(self) -> np.ndarray:
        """All entries in the order of the levels, [n]."""
        return np.concatenate([np.array(level) for level in self.levels])

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The upper and the lower entry of each number."""
        pairs = [(above, i) for i in self.by_level.tolist() for above in self.above(i)]
        upper, lower = np.array(pairs, int).reshape(-1, 2).T
        return upper, lower

    @cached_property
    def places(self) -> np.ndarray:
        """Where the entries of a full matrix [n, n] lie among its numbers, then a zero and the diagonal's one."""
        places = np.full((len(self.parent),) * 2, len(self.pairs[0]))
        places[self.pairs] = np.arange(len(self.pairs[0]))
        np.fill_diagonal(places, len(self.pairs[0]) + 1)
        return places

    @cached_property
    def on_path(self) -> np.ndarray:
        """The entries from the root to each entry, itself included, then -1, [n, depths]."""
        rows = np.full((len(self.parent), len(self.levels)), -1)
        for entry, row in enumerate(rows):
            path = [*self.above(entry), entry]
            row[: len(path)] = path
        return rows

    @cached_property
    def selections(self) -> tuple[np.ndarray, np.ndarray]:
        """0/1 matrices [n, numbers]: which entry is the upper and which is the lower one of each number."""
        return tuple(np.arange(len(self.parent))[:, None] == entries[None] for entries in self.pairs)

    @cached_property
    def runs(self) -> tuple[range, ...]:
        """The levels, cut wherever they do not go on one to one."""
        depths = range(1, len(self.levels))
        cuts = [0, *(depth for depth in depths if set(self.children(depth - 1)) != {1}), len(self.levels)]
        return tuple(range(first, end) for first, end in itertools.pairwise(cuts))

    @cached_property
    def below_one(self) -> Paths:
        """The same tree with one entry more, the first, above all."""
        return Paths((-1, *(parent + 1 for parent in self.parent)))

    def above(self, entry: int) -> list[int]:
        """The entries from the root to the one above an entry."""
        parent = self.parent[entry]
        return [] if parent < 0 else [*self.above(parent), parent]

    def children(self, depth: int) -> list[int]:
        """How many children each entry of a level has."""
        return [len(self._children(entry)) for entry in self.levels[depth]]

    def families(self, depth: int) -> list[int]:
        """How many children each inner entry of a level has; inner are those that have any."""
        return [count for count in self.children(depth) if count]

    def inner(self, depth: int) -> np.ndarray:
        """Places of the inner entries of a level in it."""
        return np.flatnonzero(self.children(depth))

    def parents_of_inner(self, depth: int) -> np.ndarray:
        """For each inner entry of a level, the place of its parent among the inner ones above."""
        counts = self.families(depth - 1)
        return np.repeat(np.arange(len(counts)), counts)[self.inner(depth)]

    def _children(self, entry: int) -> tuple[int, ...]:
        return tuple(child for child, parent in enumerate(self.parent) if parent == entry)


def eliminate(
    paths: Paths, rows: list[Array], added: Array, *, first_level: int = 0, kept: bool = True
) -> tuple[list[Array], list[Array]]:
    """Factors a matrix, or eliminates all entries but those of the levels before the first one.

    Args:
      paths: its pattern.
      rows: its rows up to the diagonal, on the paths, level by level, [entries, depth + 1] each.
      added: what to add to the diagonal, [n].
      first_level: the last level to be eliminated.
      kept: whether the results are written down. Where little is done with them, to compute them again is sooner
        compiled.

    Returns:
      The numbers of U, [entries, depth] each, and 1 / D, [entries] each, level by level from the first one.
    """
    fronts = jnp.zeros_like(added, shape=(0, 1, 1))  # Of inner entries.
    found, inverses = [], []
    for depth in range(len(paths.levels) - 1, first_level - 1, -1):
        row, inner = rows[depth], paths.inner(depth)
        if len(inner):
            row = row + _placed(fronts[:, depth], inner, len(row))
        inverse = 1 / (row[:, depth] + take(added, np.array(paths.levels[depth]), 0))
        row = row[:, :depth]
        lower = row * inverse[:, None]
        if kept:
            lower, inverse = stage(lower, inverse)
        found.append(lower)
        inverses.append(inverse)
        if depth > first_level:
            counts = paths.families(depth - 1)
            left = _summed_to_parents(-lower[:, :, None] * row[:, None], counts)
            if len(inner):
                inner_counts = np.bincount(paths.parents_of_inner(depth), minlength=len(counts)).tolist()
                left = left + _summed_to_parents(fronts[:, :depth, :depth], inner_counts)
            fronts = stage(left)
    return found[::-1], inverses[::-1]


def joined(levels: list[Array]) -> Array:
    """What there is of each level, [entries, ...], in one row."""
    # To concatenate what is yet to be computed takes ten times as long to compile.
    return jnp.concatenate([stage(level.ravel()) for level in levels])


def substitute(paths: Paths, lower: list[Array]) -> Array:
    """The entries x of all levels but the first, with ``U^T x = 0`` and -1 in the first.

    Args:
      paths: the pattern.
      lower: the numbers of U level by level from the second one, [entries, depth] each.
    """
    path = -jnp.ones((len(paths.levels[0]), 1), lower[0].dtype)  # The x from the root to each entry of a level.
    found, entries = [], []
    for run in paths.runs:
        depths = [depth for depth in run if depth]
        for depth in depths:
            above = _spread_to_children(path, paths.children(depth - 1))
            path = stage(_below(above, -sum_of_products(lower[depth - 1], above, axis=1)[:, None]))
        if depths:
            found.append(path[:, depths[0] :].ravel())
            entries.append(np.array([paths.levels[depth] for depth in depths]).T.ravel())
    return take(jnp.concatenate(found), np.argsort(np.concatenate(entries)), 0)


def invert(paths: Paths, lower: list[Array]) -> list[Array]:
    """The numbers of U^-1 from those of U, [entries, depth] each, level by level."""
    # Above an entry i of U^-1 stand -(the rows of U^-1 on the path) l_i; the path's rows pass from level to level.
    path = jnp.ones((len(paths.families(0)), 1, 1), lower[0].dtype)
    found = lower[:1]
    for depth, numbers in enumerate(lower[1:], 1):
        row = stage(-_products_of_children(numbers, path, paths.families(depth - 1)))
        found = [*found, row]
        above = take(path, paths.parents_of_inner(depth), 0)  # What has no children needs no path.
        last = _padded(take(row, paths.inner(depth), 0), 1, 0, 1, value=1)
        path = stage(_below(_padded(above, 2, 0, 1), last[:, None]))
    return found


def _products_of_children(lower: Array, path: Array, counts: list[int]) -> Array:
    """Rows [m, d] of the children times the matrices [p, d, d] of their parents."""
    # All parents get as many places as one needs: to copy matrices for the children would take most of the memory.
    width = max(counts)
    places = np.concatenate([parent * width + np.arange(count) for parent, count in enumerate(counts)])
    siblings = _placed(lower, places, len(counts) * width).reshape(len(counts), width, lower.shape[1])
    products = sum_of_products(siblings[..., None], path[:, None], axis=2)
    return take(jax.lax.collapse(products, 0, 2), places, 0)


def inverse_on_paths(paths: Paths, inverse_numbers: Array, inverse_diagonal: Array) -> Array:
    """The inverse [n, n] of ``U D U^T`` from the numbers of U^-1 and 1 / D in the order of the levels."""
    # Entry [i, j] sums over what is above both, the entries themselves included: as many terms as their paths share.
    path, exists = paths.on_path, paths.on_path >= 0
    places = np.where(exists, paths.places[path, np.arange(len(path))[:, None]], len(inverse_numbers))
    ends = jnp.asarray([0, 1], inverse_numbers.dtype)
    columns = take(jnp.concatenate([inverse_numbers, ends]), places.ravel(), 0).reshape(path.shape)
    pivots = take(inverse_diagonal, np.argsort(paths.by_level)[path].ravel(), 0).reshape(path.shape)
    columns, scaled = stage(columns, columns * pivots)
    shared = np.asarray((path[:, None] == path[None]) & exists, columns.dtype)
    return stage(sum_of_products(scaled[:, None], columns[None], shared, axis=2))


def solve_on_paths(paths: Paths, inverse_numbers: Array, inverse_diagonal: Array, right: Array) -> Array:
    """The solution [n] of ``U D U^T x = right`` from the numbers of U^-1; the batch is where it may."""
    upper, lower = paths.selections
    right = after(right, inverse_numbers)  # Else it is spread over the paths before the elimination, and kept.
    half = right + masked_sum(inverse_numbers * masked_sum(right, lower), upper.T)
    half = half * inverse_diagonal
    return half + masked_sum(inverse_numbers * masked_sum(half, upper), lower.T)


def numbers_of(paths: Paths, matrix: Array) -> Array:
    """The numbers of a full matrix [n, n]."""
    upper, lower = paths.pairs
    return take(jax.lax.collapse(matrix, 0, 2), upper * len(paths.parent) + lower, 0)


def rows_of_product(paths: Paths, left: Array, right: Array) -> list[Array]:
    """The rows, for :func:`eliminate`, of the matrix with the upper half of ``left right^T``, factors [n, k]."""
    found = []
    path = left[:0, None]  # The left factor's rows from the root to each entry of a level, [entries, depth, k].
    for run in paths.runs:
        entries = np.array([paths.levels[depth] for depth in run])

        def of_run(rows: Array, entries: np.ndarray = entries) -> Array:
            return take(rows, entries.ravel(), 0).reshape(*entries.shape, *rows.shape[1:]).swapaxes(0, 1)

        last = of_run(left)
        path = stage(_below(_spread_to_children(path, paths.children(run[0] - 1)), last)) if run[0] else stage(last)
        products = stage(total(path[:, None] * of_run(right)[:, :, None], 3))
        found += [products[:, number, : depth + 1] for number, depth in enumerate(run)]
    return found


def full_matrix(paths: Paths, numbers: Array, diagonal: float) -> Array:
    """An upper triangular matrix [n, n] from its numbers and its constant diagonal."""
    ends = jnp.asarray([0, diagonal], numbers.dtype)
    return take(jnp.concatenate([numbers, ends]), paths.places.ravel(), 0).reshape(paths.places.shape)


def _below(above: Array, last: Array) -> Array:
    """The rows of paths, [m, d, ...], and some more, [m, e, ...]."""
    # A concatenation copies row by row, in short loops that LLVM unrolls: ten of them took a third of the time in which
    # the gradient of forward dynamics compiled.
    return _padded(above, 1, 0, last.shape[1]) + _padded(last, 1, above.shape[1], 0)


def _padded(x: Array, axis: int, before: int, after: int, value: float = 0) -> Array:
    widths = [(before, after, 0) if number == axis else (0, 0, 0) for number in range(x.ndim)]
    return jax.lax.pad(x, jnp.asarray(value, x.dtype), widths)


def _placed(x: Array, places: np.ndarray, size: int) -> Array:
    """Items [m, ...] at their places among zeros, [size, ...]."""
    first, end = int(places[0]), int(places[-1]) + 1
    if end - first == len(places):
        return x if len(x) == size else _padded(x, 0, first, size - end)
    numbers = np.full(size, len(places))
    numbers[places] = np.arange(len(places))
    return take(_padded(x, 0, 0, 1), numbers, 0)


def _summed_to_parents(x: Array, children: list[int]) -> Array:
    """Sums of neighbours [m, ...], as many as each parent has children."""
    if all(count == 1 for count in children):
        return x
    ends = np.cumsum([0, *children])
    return jnp.stack([total(x[first:end], 0) for first, end in itertools.pairwise(ends)])


def _spread_to_children(x: Array, children: list[int]) -> Array:
    """The parents' items [m, ...], one for each child."""
    return take(x, np.repeat(np.arange(len(children)), children), 0)
