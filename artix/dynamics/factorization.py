"""Factorising the mass matrix along the tree: ``M = U D U^T``, and the solves that this makes cheap.

Eliminating the DOFs from the leaves upwards leaves the ancestor pattern of M as it is. What the elimination of all that
lies below DOF j makes of the inertia that j moves is its *articulated-body inertia* ``I^A_j`` (Featherstone 2008,
chapter 7): ``D_j = S_j . I^A_j S_j`` and ``U_ij = S_i . I^A_j S_j / D_j`` for DOF i above j. The factors are therefore
kept as spatial vectors, six numbers per DOF, and a solve runs through the levels of the tree once up and once down. The
root's six velocities count as six DOFs in a row.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, TypeAlias, TypeGuard

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

from artix import spatial
from artix.bodies import Inertias
from artix.dynamics.inertia import spatial_inertias
from artix.topology import Topology, level_schedule
from artix.tree import Tree, stage, take

Array = jax.Array

# In jaxlib 0.10 two LAPACK calls of one program that run at the same time on a CPU of few threads wait for each other
# for ever: `sum(vmap(cho_solve)(a, b) for a, b in pairs)` with two pairs of 256 matrices hangs on two cores (jaxlib
# 0.10.2; 0.12 does not). With that version the tree's factorisation serves wherever there is one; deep trees and padded
# fleets have none, and one operation on them never runs two calls at a time.
LAPACK_IS_SAFE = not jaxlib.__version__.startswith("0.10.")
# Where the tree's factorisation pays, float32, batch 4096, two CPU cores, forward dynamics per articulation against
# LAPACK's Cholesky of the dense matrix: 18 DOFs 4.8 us against 3.7, 29 DOFs 10.3 against 10.4, 35 DOFs 12.7 against
# 13.7, 43 DOFs 14.8 against 19.5. Its program is the larger one (29 DOFs: 1,300 instructions more) and grows with the
# depth, so that deep trees such as a 64-link chain keep to the dense matrix. Arrays with the batch last were no faster
# (9.8 against 10.2 us for 29 DOFs) and took twice as long to compile.
_FEWEST_DOFS = 40 if LAPACK_IS_SAFE else 0
_DEEPEST = 40


class TreeFactors(NamedTuple):
    """The mass matrix's factors as spatial vectors."""

    motions: Array
    """S_j, unit motions of the generalised velocity, [6, nv]."""
    forces: Array
    """I^A_j S_j, [6, nv]."""
    inverse_diagonal: Array
    """1 / D_j, [nv]."""


class DenseFactors(NamedTuple):
    """The mass matrix's factors as arrays."""

    upper: Array
    """U, unit upper triangular, [nv, nv]."""
    diagonal: Array
    """D, [nv]."""


Factors: TypeAlias = "TreeFactors | DenseFactors"


class Elimination(NamedTuple):
    """The tree of the generalised velocity's entries: every entry hangs below the one that moves it."""

    parent: np.ndarray
    """The entry above each, -1 at the top, [nv]."""
    body: np.ndarray
    """The body that each entry is the last to move, -1 for none, [nv]."""
    levels: tuple[np.ndarray, ...]
    """Entries by depth."""


@functools.lru_cache(maxsize=256)
def elimination(tree: Topology) -> Elimination:
    """The elimination tree of a topology's mass matrix."""
    base = tree.num_base_dofs
    parent = list(range(-1, base - 1))
    last = {0: base - 1}
    for dof, body in enumerate(tree.dof_body.tolist()):
        first = tree.dof_column[dof] == 0
        parent.append(last[int(tree.body_parent[body])] if first else base + dof - 1)
        last[body] = base + dof
    bodies = np.full(tree.nv, -1)
    for body, entry in last.items():
        if entry >= 0:
            bodies[entry] = body
    # level_schedule lists what hangs below a first item; a virtual one above the tops serves as such.
    levels = level_schedule(np.concatenate([[-1], np.array(parent, int) + 1]))
    return Elimination(np.array(parent, int), bodies, tuple(level - 1 for level in levels))


def follows_tree(tree: Tree) -> TypeGuard[Topology]:
    """Whether the mass matrix is factorised along the tree, a static choice; see the measurements above."""
    return isinstance(tree, Topology) and tree.nv >= _FEWEST_DOFS and len(elimination(tree).levels) <= _DEEPEST


def factorize_along_tree(tree: Topology, motions: Array, inertias: Inertias, armature: Array) -> TreeFactors:
    """The factors of the mass matrix; arguments as :func:`eliminate_along_tree`."""
    return eliminate_along_tree(tree, motions, inertias, armature)[0]


def eliminate_along_tree(
    tree: Topology, motions: Array, inertias: Inertias, armature: Array
) -> tuple[TreeFactors, Array]:
    """The factors of the mass matrix, by elimination level by level, and what each entry passes on to the one above.

    The latter are articulated-body inertias less what the entries take themselves, ``I^A - U D^-1 U^T``, [6, 6, nv].

    Args:
      tree: the topology.
      motions: unit motions of the generalised velocity, [6, nv].
      inertias: the bodies' inertias about the reference point.
      armature: what to add to the diagonal, [nv].
    """
    order = elimination(tree)
    own = _padded(spatial_inertias(inertias))
    forces: list[Array] = []
    inverses: list[Array] = []
    passed: list[Array] = []
    for depth in reversed(range(len(order.levels))):
        level = order.levels[depth]
        inertia = take(own, np.where(order.body[level] < 0, tree.num_bodies, order.body[level]))
        if passed:
            inertia = inertia + _sum_by_parent(order, depth + 1, passed[-1])
        motion = take(motions, level)
        force = spatial.apply(inertia, motion)
        inverse = 1 / (spatial.dot(motion, force) + take(armature, level))
        force, inverse, inertia = stage(force, inverse, inertia)
        passed.append(inertia - force[:, None] * (force * inverse[None])[None])
        forces.append(force)
        inverses.append(inverse)
    factors = TreeFactors(motions, _in_order(order, forces[::-1]), _in_order(order, inverses[::-1]))
    return factors, _in_order(order, passed[::-1])


def solve_along_tree(tree: Tree, factors: TreeFactors, right: Array) -> Array:
    """The solution x [nv] of ``M x = right``: ``U^-1`` upwards, ``D^-1``, then ``U^-T`` downwards."""
    assert isinstance(tree, Topology)
    order = elimination(tree)
    motions, forces, inverses = factors
    scaled: list[Array] = []
    passed_on = None
    for depth in reversed(range(len(order.levels))):
        level = order.levels[depth]
        rest = take(right, level)
        if passed_on is not None:
            passed_on = _sum_by_parent(order, depth + 1, passed_on)
            rest = rest - spatial.dot(take(motions, level), passed_on)
        rest = stage(rest * take(inverses, level))
        scaled.append(rest)
        step = take(forces, level) * rest[None]
        passed_on = step if passed_on is None else passed_on + step
    solution: list[Array] = []
    above = jnp.zeros_like(motions, shape=(6, 1))
    for depth, (level, rest) in enumerate(zip(order.levels, scaled[::-1], strict=True)):
        if depth:
            above = take(above, np.searchsorted(order.levels[depth - 1], order.parent[level]))
            rest = rest - take(inverses, level) * spatial.dot(take(forces, level), above)
        solution.append(rest)
        above = stage(above + take(motions, level) * rest[None])
    return _in_order(order, solution)


def dense_factors(tree: Tree, factors: TreeFactors) -> DenseFactors:
    """The same factors as arrays."""
    above = np.triu(np.asarray(tree.mass_matrix_halves[0]), 1)
    motions, forces, inverses = factors
    products = sum(motions[k][:, None] * (forces[k] * inverses)[None] for k in range(6))
    eye = jnp.eye(tree.nv, dtype=motions.dtype)
    return DenseFactors(jnp.asarray(above, motions.dtype) * products + eye, 1 / inverses)


def factorize_dense(matrix: Array) -> DenseFactors:
    """The factors of a matrix, the last row eliminated first, which keeps the tree's pattern.

    By LAPACK: rank-one updates written out took 34,024 instructions for 30 DOFs.
    """
    upper = jnp.linalg.cholesky(matrix[::-1, ::-1])[::-1, ::-1]
    root = jnp.diagonal(upper)
    return DenseFactors(upper / root[None], root**2)


def solve_dense(factors: DenseFactors, right: Array) -> Array:
    """The solution x [nv] of ``U D U^T x = right``."""
    upper, diagonal = factors
    rest = jax.scipy.linalg.solve_triangular(upper, right, unit_diagonal=True) / diagonal
    return jax.scipy.linalg.solve_triangular(upper, rest, trans=1, unit_diagonal=True)


def _padded(x: Array) -> Array:
    """With one item of zeros more."""
    return jnp.concatenate([x, jnp.zeros_like(x[..., :1])], axis=-1)


def _in_order(order: Elimination, by_level: list[Array]) -> Array:
    return take(jnp.concatenate(by_level, axis=-1), np.argsort(np.concatenate(order.levels)))


def _sum_by_parent(order: Elimination, depth: int, x: Array) -> Array:
    """Sums what the entries at a depth pass on, over the entries with one parent: items of the level above."""
    above, parents = order.levels[depth - 1], order.parent[order.levels[depth]]
    if np.array_equal(parents, above):
        return x
    children = [np.flatnonzero(parents == parent) for parent in above]
    padded, most = _padded(x), max(map(len, children))
    places = np.array([np.pad(found, (0, most - len(found)), constant_values=len(parents)) for found in children])
    return sum(take(padded, places[:, k]) for k in range(most))  # type: ignore[return-value]
