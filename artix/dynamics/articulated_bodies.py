"""Solving with the mass matrix by articulated bodies: bodies with all that moves freely below them.

The entries of the generalised velocity are eliminated from the leaves upwards (Featherstone 1983, *The calculation of
robot dynamics using articulated-body inertias*; 2008, section 7.3): each takes its share ``F D^-1 F^T``, of
``F = I^A S`` and ``D = S . F``, off the inertia of what it moves, and the rest is passed on to what moves it. All is
about one point and in world axes, so that nothing is transformed on the way.

This takes a number of operations proportional to that of the entries, and where a tree goes on one to one, its levels
are alike and one loop goes through them: as short a program for 64 of them as for four.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from artix import spatial
from artix.bodies import Inertias
from artix.devices import scan
from artix.dynamics.elimination import Paths, full_matrix, numbers_of
from artix.dynamics.inertia import spatial_inertias
from artix.lanes import batch_last
from artix.tangents import times
from artix.topology import Topology
from artix.tree import masked_sum, stage, take

Array = jax.Array
Runs: TypeAlias = tuple[Array, ...]
"""An array for each of :attr:`Paths.runs`, [levels, ..., entries]."""


# Articulated-body inertias of the humanoid (runs of up to 7 levels, batch 512) take 4.2 us without and 5.7 with loops.
_SHORT_RUN = 8


@struct.dataclass
class ArticulatedFactors:
    """The factors of ``M = U D U^T``, where column j of U has ``S_i . F_j / D_j`` above the diagonal."""

    motions: Runs
    """Unit motions S, [levels, 6, entries]."""
    forces: Runs
    """What these take, as accelerations, while all below moves freely: F, [levels, 6, entries]."""
    inverse_diagonals: Runs
    """1 / D, [levels, entries]."""
    paths: Paths = struct.field(pytree_node=False)

    @property
    def inverse_diagonal(self) -> Array:
        """1 / D, [nv]."""
        return _in_order(self.paths, self.inverse_diagonals)

    @property
    def upper(self) -> Array:
        """U, unit upper triangular, [nv, nv]."""
        motions, forces = (_in_order(self.paths, runs) for runs in (self.motions, self.forces))
        numbers = numbers_of(self.paths, times(motions.T, forces * self.inverse_diagonal))
        return full_matrix(self.paths, numbers, 1)


def factorize(tree: Topology, motions: Array, inertias: Inertias, added: Array) -> ArticulatedFactors:
    """The factors of a tree's mass matrix.

    Args:
      tree: the tree.
      motions: unit motions of the generalised velocity, linear part first, [6, nv].
      inertias: those of the bodies, about the same point.
      added: what to add to the diagonal, [nv].
    """
    return batch_last(_factors, tree)(motions, inertias, added)


def factorize_and_solve(tree: Topology, motions: Array, inertias: Inertias, added: Array, right: Array) -> Array:
    """The solution [nv] for the matrix of :func:`factorize`."""
    return batch_last(_factors_and_solution, tree)(motions, inertias, added, right)


def relative_columns(factors: ArticulatedFactors, rights: Array) -> Array:
    """``D^-1 U^-1 right`` for right sides [nv, m]: how each entry accelerates while all above it is held."""
    return batch_last(_relative)(factors, rights)


def absolute_columns(factors: ArticulatedFactors, relative: Array) -> Array:
    """``U^-T x`` for :func:`relative_columns` x [nv, m]: how it accelerates when nothing is held."""
    return batch_last(_absolute)(factors, relative)


def solve_columns(factors: ArticulatedFactors, rights: Array) -> Array:
    """The solutions [nv, m] of ``U D U^T x = right``."""
    return batch_last(_solutions)(factors, rights)


@jax.custom_batching.custom_vmap
def solve(factors: ArticulatedFactors, right: Array) -> Array:
    """The solution x [nv] of ``U D U^T x = right``."""
    return _solutions(factors, right[:, None])[:, 0]


@solve.def_vmap
def _solve_batch(size: int, mapped: list, factors: ArticulatedFactors, right: Array) -> tuple[Array, bool]:
    if not any(jax.tree.leaves(mapped[0])):  # Many right sides of one matrix go through its levels together.
        return solve_columns(factors, right.T).T, True
    axes = jax.tree.map(lambda is_mapped: 0 if is_mapped else None, mapped)
    found = jax.vmap(batch_last(_solutions), axes, axis_size=size)(factors, right[..., None])
    return found[..., 0], True


def passed_on(tree: Topology, motions: Array, inertias: Inertias, added: Array) -> Array:
    """The articulated inertia that each entry passes on to the one above, ``I^A - F D^-1 F^T``, [6, 6, nv].

    The arguments are those of :func:`factorize`.
    """
    *_, passed = _eliminated(tree, motions, inertias, added)
    return _in_order(Paths.of(tree), passed)


def _factors(tree: Topology, motions: Array, inertias: Inertias, added: Array) -> ArticulatedFactors:
    return ArticulatedFactors(*_eliminated(tree, motions, inertias, added)[:3], Paths.of(tree))


def _factors_and_solution(tree: Topology, motions: Array, inertias: Inertias, added: Array, right: Array) -> Array:
    return _solutions(_factors(tree, motions, inertias, added), right[:, None])[:, 0]


def _solutions(factors: ArticulatedFactors, rights: Array) -> Array:
    return _absolute(factors, _relative(factors, rights))


def _eliminated(tree: Topology, motions: Array, inertias: Inertias, added: Array) -> tuple[Runs, Runs, Runs, Runs]:
    """Motions, forces, inverse diagonals, and what is passed on."""
    paths = Paths.of(tree)
    of_entries = stage(*(take(_padded(part), _bodies(tree)) for part in inertias))
    items = [_by_runs(paths, x) for x in (motions, *of_entries, added)]
    inertia = jnp.zeros_like(motions, shape=(6, 6, 0))
    found = []
    for run, *rows in reversed([*zip(paths.runs, *items, strict=True)]):
        inertia, results = _through(run, _eliminate_level, _to_parents(paths, run.stop, inertia), rows, reverse=True)
        found.append(results)
    forces, inverse_diagonals, passed = zip(*found[::-1], strict=True)
    return items[0], forces, inverse_diagonals, passed


def _eliminate_level(below: Array, level: list[Array]) -> tuple[Array, tuple[Array, Array, Array]]:
    """From what all below pass on, [6, 6, entries], to what is passed on."""
    motion, mass, first, second, added = level
    inertia = stage(below + spatial_inertias(Inertias(mass, first, second)))
    force = spatial.apply(inertia, motion)
    inverse = 1 / (spatial.dot(motion, force) + added)
    force, inverse = stage(force, inverse)
    passed = inertia - force[:, None] * (force * inverse[None])[None]
    return passed, (force, inverse, passed)


def _relative(factors: ArticulatedFactors, rights: Array) -> Array:
    paths = factors.paths
    force = jnp.zeros_like(rights, shape=(6, rights.shape[1], 0))
    found = []
    for run, *rows in reversed([*_runs(factors, rights)]):
        force, relative = _through(run, _force_of_level, _to_parents(paths, run.stop, force), rows, reverse=True)
        found.append(relative)
    return _in_order(paths, tuple(found[::-1])).T


def _absolute(factors: ArticulatedFactors, relative: Array) -> Array:
    paths = factors.paths
    motion = jnp.zeros_like(relative, shape=(6, relative.shape[1], len(paths.levels[0])))
    found = []
    for run, *rows in _runs(factors, relative):
        motion, solution = _through(run, _motion_of_level, _to_children(paths, run.start, motion), rows)
        found.append(solution)
    return _in_order(paths, tuple(found)).T


def _runs(factors: ArticulatedFactors, columns: Array) -> Iterator[tuple[range, Array, Array, Array, Array]]:
    """The levels of each run, their factors, and the columns' items [levels, m, entries]."""
    items = _by_runs(factors.paths, columns.T)
    return zip(factors.paths.runs, factors.motions, factors.forces, factors.inverse_diagonals, items, strict=True)


def _force_of_level(below: Array, level: list[Array]) -> tuple[Array, Array]:
    """What all below pass on of the forces on them, [6, m, entries], and ``D^-1 U^-1 right``, [m, entries]."""
    motion, force, inverse, right = level
    relative = stage((right - spatial.dot(motion[:, None], below)) * inverse[None])
    return below + force[:, None] * relative[None], relative


def _motion_of_level(above: Array, level: list[Array]) -> tuple[Array, Array]:
    """Accelerations of what is above, [6, m, entries], and the solutions [m, entries]."""
    motion, force, inverse, relative = level
    solution = stage(relative - spatial.dot(force[:, None], above) * inverse[None])
    return above + motion[:, None] * solution[None], solution


# --- runs -----------------------------------------------------------------------------------------------------------


def _through(run: range, level: Callable[[Array, Any], tuple[Array, Any]], start: Array, rows: Any, reverse=False):
    """Goes through the levels of a run, in a loop if it is long."""
    return scan(level, start, rows, reverse=reverse, unroll=len(run) if len(run) <= _SHORT_RUN else 1)


@functools.lru_cache(maxsize=256)
def _bodies(tree: Topology) -> np.ndarray:
    """The body that each entry is the last to move, one more than there are for none, [nv]."""
    base, dofs = tree.num_base_dofs, tree.dof_body
    bodies = np.full(tree.nv, tree.num_bodies)
    bodies[:base][-1:] = 0
    is_last = np.diff(dofs, append=-1) != 0
    bodies[base:][is_last] = dofs[is_last]
    return bodies


def _padded(x: Array) -> Array:
    """With one item of zeros more."""
    return jnp.concatenate([x, jnp.zeros_like(x[..., :1])], axis=-1)


def _by_runs(paths: Paths, x: Array) -> Runs:
    """The items [..., nv] of each run."""
    found = []
    for run in paths.runs:
        entries = np.array([paths.levels[depth] for depth in run])
        items = take(x, entries.ravel()).reshape(*x.shape[:-1], *entries.shape)
        found.append(stage(jnp.moveaxis(items, -2, 0)))
    return tuple(found)


def _in_order(paths: Paths, runs: Runs) -> Array:
    """The items [..., nv] of all runs."""
    items = [jax.lax.collapse(jnp.moveaxis(run, 0, -2), run.ndim - 2) for run in runs]
    return take(jnp.concatenate(items, axis=-1), np.argsort(paths.by_level))


def _parents(paths: Paths, depth: int) -> np.ndarray:
    """For each entry of a level, the place of its parent in the level above."""
    counts = paths.children(depth - 1)
    return np.repeat(np.arange(len(counts)), counts)


def _to_parents(paths: Paths, depth: int, x: Array) -> Array:
    """Sums over the children in a level, which need not exist: [..., children] -> [..., entries above]."""
    above = len(paths.levels[depth - 1])
    if x.shape[-1] == 0:
        return jnp.zeros_like(x, shape=(*x.shape[:-1], above))
    return masked_sum(x, _parents(paths, depth)[:, None] == np.arange(above)[None])


def _to_children(paths: Paths, depth: int, x: Array) -> Array:
    """What each entry of a level gets from the one above it, which need not exist."""
    return take(x, _parents(paths, depth)) if depth else x
