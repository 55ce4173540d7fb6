"""Factorises the mass matrix along the tree, ``M = U D U^T``, by one of three algorithms.

The topology decides. Where paths have up to ``DEEPEST_PATH`` entries, elimination proceeds level by
level and follows the tree's sparsity: column j of U is zero except for the entries on the path from
the root to j (Featherstone 2005, *Efficient factorization of the joint-space inertia matrix for
branched kinematic trees*). Entries of the same depth do not couple with each other and are
eliminated together.

Deeper trees use articulated bodies (Featherstone 1983, *The calculation of robot dynamics using
articulated-body inertias*; 2008, section 7.3). From the leaves upwards, each entry subtracts
``F D^-1 F^T``, with ``F = I^A S`` and ``D = S . F``, from the articulated inertia that it moves,
and passes the projected inertia on to its parent. All quantities refer to one point and world axes,
so no transforms are needed between links. The cost grows linearly.

Matrices with other patterns are split in halves. With blocks A, B and C,

    [A  B ]   [U_A  W  ] [D_A    ]   [U_A  W  ]^T     W = B U_C^-T D_C^-1
    [B' C ] = [     U_C] [    D_C] . [     U_C]       U_A D_A U_A^T = A - W D_C W^T

so each half takes only a few matrix products.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from functools import cached_property
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from artix.dynamics.inertia import Inertias, spatial_inertias
from artix.math import spatial, struct
from artix.math.arrays import block_matrix, identity, masked_sum, matmul, take
from artix.math.gaussian_elimination import inverse_with_pivoting
from artix.model.topology import Topology

Array = jax.Array


class DenseFactors(struct.PyTreeNode):
    """The factors of ``M = U D U^T`` as full matrices."""

    upper: Array
    """U, unit upper triangular, [n, n]."""
    inverse_upper: Array
    """U^-1, [n, n]."""
    inverse_diagonal: Array
    """1 / D, [n]."""

    def solve_upper(self, rights: Array) -> Array:
        """``U^-1 rights``, [n, m]."""
        return matmul(self.inverse_upper, rights)

    def solve_upper_transposed(self, rights: Array) -> Array:
        """``U^-T rights``, [n, m]."""
        return matmul(self.inverse_upper.T, rights)


def factorize_dense(matrix: Array, added: Array) -> DenseFactors:
    """The factors of a symmetric positive definite matrix.

    Args:
      matrix: the matrix, [n, n]; only its upper half is read.
      added: what to add to its diagonal, [n].
    """
    size = len(added)
    if size <= 1:
        eye = jnp.asarray(np.eye(size), matrix.dtype)
        return DenseFactors(eye, eye, 1 / (jnp.sum(eye * matrix, axis=0) + added))
    cut = size // 2
    lower = factorize_dense(matrix[cut:, cut:], added[cut:])
    # The U of a single entry is the identity.
    coupling = matrix[:cut, cut:]
    if cut < size - 1:
        coupling = matmul(coupling, lower.inverse_upper.T)
    corner = coupling * lower.inverse_diagonal[None]
    rest = matrix[:cut, :cut] - matmul(corner, coupling.T)
    upper = factorize_dense(rest, added[:cut])
    inverse = corner if cut == size - 1 else matmul(corner, lower.inverse_upper)
    inverse = inverse if cut == 1 else matmul(upper.inverse_upper, inverse)
    zero = jnp.zeros_like(matrix, shape=(size - cut, cut))
    return DenseFactors(
        block_matrix(upper.upper, corner, zero, lower.upper),
        block_matrix(upper.inverse_upper, -inverse, zero, lower.inverse_upper),
        jnp.concatenate([upper.inverse_diagonal, lower.inverse_diagonal]),
    )


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
        return tuple(
            tuple(np.flatnonzero(np.array(depth) == level).tolist()) for level in range(count)
        )

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
        """``[i, j]``: whether the entry at position i is that at position j or one of its
        ancestors, [n, n].
        """
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
    """The columns of U above the diagonal by level, in the order of the levels,
    [entries above, entries] each."""
    inverse_diagonal: Array
    """1 / D, [n]."""
    paths: Paths = struct.field(pytree_node=False)

    @property
    def upper(self) -> Array:
        """U, unit upper triangular, [n, n]."""
        size = len(self.paths.parent)
        place = self.paths.place
        columns = [jnp.pad(column, ((0, size - len(column)), (0, 0))) for column in self.columns]
        strict = take(take(jnp.concatenate(columns, axis=1), place, 0), place)
        return strict + identity(size, strict.dtype)

    def solve_upper(self, rights: Array) -> Array:
        """``U^-1 rights``, [n, m], from the leaves upwards."""
        rest = take(rights, self.paths.order, 0)
        levels = []
        for column, level in zip(reversed(self.columns), reversed(self.paths.slices), strict=True):
            levels.append(rest[level])
            rest = rest[: level.start] - matmul(column, rest[level])
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
    schur = take(take(matrix, paths.order, 0), paths.order) * pattern
    diagonal = take(jnp.diagonal(matrix) + added, paths.order)
    columns = []
    inverses = []
    for level in reversed(paths.slices):
        above = slice(0, level.start)
        inverse = 1 / diagonal[level]
        column = schur[above, level]
        scaled = column * inverse[None]
        schur = schur[above, above] - matmul(scaled, column.T) * pattern[above, above]
        diagonal = diagonal[above] - jnp.sum(scaled * column, axis=1)
        columns.append(scaled)
        inverses.append(inverse)
    return PathFactors(
        tuple(columns[::-1]), take(jnp.concatenate(inverses[::-1]), paths.place), paths
    )


class ArticulatedFactors(struct.PyTreeNode):
    """The factors of ``M = U D U^T``, where column j of U has ``S_i . F_j / D_j`` above the
    diagonal.
    """

    motions: Array
    """Unit motions S, [6, nv]; all arrays here are in the order of the levels."""
    forces: Array
    """Forces F required for unit accelerations while everything below moves freely, [6, nv]."""
    inverses: Array
    """1 / D, [nv]."""
    paths: Paths = struct.field(pytree_node=False)

    @property
    def inverse_diagonal(self) -> Array:
        """1 / D in the order of the entries, [nv]."""
        return take(self.inverses, self.paths.place)

    @property
    def upper(self) -> Array:
        """U, unit upper triangular, [nv, nv]."""
        place = self.paths.place
        unit = np.eye(len(self.inverses), dtype=self.inverses.dtype)
        above = (
            matmul(self.motions.T, self.forces * self.inverses[None]) * (self.paths.pattern - unit)
            + unit
        )
        return take(take(above, place, 0), place)

    def solve_upper(self, rights: Array) -> Array:
        """``U^-1 rights`` for right-hand sides [nv, m]: the forces left over while everything above
        is held.
        """
        right = take(rights, self.paths.order, 0).T
        force = None
        levels = []
        for depth, level in reversed([*enumerate(self.paths.slices)]):
            below = _to_parents(self.paths, depth + 1, force, (6, len(right)), right)
            rest = right[:, level] - spatial.dot(self.motions[:, None, level], below)
            force = below + self.forces[:, None, level] * (rest * self.inverses[level])[None]
            levels.append(rest)
        return take(jnp.concatenate(levels[::-1], axis=1).T, self.paths.place, 0)

    def solve_upper_transposed(self, rights: Array) -> Array:
        """``U^-T x`` for x [nv, m]: accelerations, from those with everything above held."""
        right = take(rights, self.paths.order, 0).T
        levels = []
        motion = jnp.zeros_like(right, shape=(6, len(right), len(self.paths.levels[0])))
        for depth, level in enumerate(self.paths.slices):
            above = take(motion, self.paths.parents(depth)) if depth else motion
            solution = (
                right[:, level]
                - spatial.dot(self.forces[:, None, level], above) * self.inverses[level]
            )
            motion = above + self.motions[:, None, level] * solution[None]
            levels.append(solution)
        return take(jnp.concatenate(levels, axis=1).T, self.paths.place, 0)


def factorize_articulated(
    tree: Topology, motions: Array, inertias: Inertias, added: Array
) -> ArticulatedFactors:
    """The factors of a tree's mass matrix.

    Args:
      tree: the tree.
      motions: unit motions of the generalised velocity, linear part first, [6, nv].
      inertias: mass moments of the bodies about the same point.
      added: what to add to the diagonal, [nv].
    """
    return _eliminate(tree, motions, inertias, added)[0]


def projected_inertias(tree: Topology, motions: Array, inertias: Inertias, added: Array) -> Array:
    """The articulated inertia that each entry passes on to the one above, ``I^A - F D^-1 F^T``,
    [6, 6, nv].

    The arguments are as in :func:`factorize_articulated`.
    """
    return _eliminate(tree, motions, inertias, added)[1]


def _eliminate(
    tree: Topology, motions: Array, inertias: Inertias, added: Array
) -> tuple[ArticulatedFactors, Array]:
    paths = Paths.of(tree)
    if not tree.nv:
        nothing = jnp.zeros_like(motions[0])
        return ArticulatedFactors(motions, motions, nothing, paths), jnp.zeros_like(
            motions, shape=(6, 6, 0)
        )
    rigid = spatial_inertias(inertias)
    rigid = take(
        jnp.concatenate([rigid, jnp.zeros_like(rigid[..., :1])], axis=-1),
        _bodies(tree)[paths.order],
    )
    motions = take(motions, paths.order)
    added = take(added, paths.order)
    passed = None
    levels = []
    for depth, level in reversed([*enumerate(paths.slices)]):
        inertia = rigid[..., level] + _to_parents(paths, depth + 1, passed, (6, 6), motions)
        force = spatial.apply(inertia, motions[:, level])
        inverse = 1 / (spatial.dot(motions[:, level], force) + added[level])
        passed = inertia - spatial.symmetric_from_upper(
            force[:, None] * (force * inverse[None])[None]
        )
        levels.append((force, inverse, passed))
    forces, inverses, passed = (
        jnp.concatenate(parts, axis=-1) for parts in zip(*levels[::-1], strict=True)
    )
    return ArticulatedFactors(motions, forces, inverses, paths), take(passed, paths.place)


def _to_parents(
    paths: Paths, depth: int, x: Array | None, shape: tuple[int, ...], like: Array
) -> Array:
    """Sums over the children in a level, [..., entries of the level above]; zeros where there is no
    such level.
    """
    above = len(paths.levels[depth - 1])
    if x is None:
        return jnp.zeros_like(like, shape=(*shape, above))
    return masked_sum(x, paths.parents(depth)[:, None] == np.arange(above)[None])


@functools.lru_cache(maxsize=256)
def _bodies(tree: Topology) -> np.ndarray:
    """The body of each entry that is its body's last; the number of bodies for all other entries,
    [nv].
    """
    base = tree.num_base_dofs
    dofs = tree.dof_body
    bodies = np.full(tree.nv, tree.num_bodies)
    bodies[:base][-1:] = 0
    is_last = np.diff(dofs, append=-1) != 0
    bodies[base:][is_last] = dofs[is_last]
    return bodies


# The longest paths, for one and for many right-hand sides, for which elimination takes fewer scalar
# operations than articulated bodies. Elimination / articulated bodies take, for forward dynamics of
# chains of 4, 8, 12, 16, 20 and 32 joints, 1,998 / 2,233, 4,342 / 4,573, 7,198 / 6,913, 10,694 /
# 9,253, 14,958 / 11,593 and 33,638 / 18,613; for a floating humanoid with paths of 13 entries
# 18,907 / 17,712; for the derivatives of forward dynamics of chains of 12, 16 and 20 joints 24,605
# / 32,185, 44,031 / 52,645 and 72,209 / 78,097. In float32 the error for chains of 64 entries is
# 2e-2 by elimination and 5e-4 by articulated bodies.
DEEPEST_PATH = 11
DEEPEST_PATH_OF_MANY = 20

Factors: TypeAlias = PathFactors | ArticulatedFactors | DenseFactors


class MassProduct(NamedTuple):
    """A tree's mass matrix as a product: its upper half is the upper half of
    ``motions^T momenta``.
    """

    motions: Array
    """Unit motions of the generalised velocity, [6, nv]."""
    momenta: Array
    """Momenta of the composite bodies for these motions, [6, nv]."""
    inertias: Inertias
    """Mass moments of the bodies about the same point."""
    added: Array
    """Added to the matrix's diagonal, such as armature, [nv]."""


def factorize_product(tree: Topology, product: MassProduct, *, many: bool = False) -> Factors:
    """The factors of a tree's mass matrix; ``many`` if there will be about as many right-hand sides
    as DOFs.
    """
    motions, momenta, inertias, added = product
    if tree.nv == 0:
        return factorize_dense(matmul(motions.T, momenta), added)
    if _is_deep(tree, many):
        return factorize_articulated(tree, motions, inertias, added)
    return eliminate(Paths.of(tree), matmul(motions.T, momenta), added)


def solve(factors: Factors, right: Array) -> Array:
    """The solution x [n] of ``U D U^T x = right``."""
    return solve_columns(factors, right[:, None])[:, 0]


def solve_columns(factors: Factors, rights: Array) -> Array:
    """:func:`solve` for right-hand sides [n, m]."""
    return factors.solve_upper_transposed(
        factors.solve_upper(rights) * factors.inverse_diagonal[:, None]
    )


def half_solve(factors: Factors, rights: Array) -> Array:
    """``D^-1/2 U^-1 right`` for the rows of ``rights``, [R, n]; the dot product of two is
    ``left . M^-1 right``.
    """
    return factors.solve_upper(rights.T).T * jnp.sqrt(factors.inverse_diagonal)[None]


def finish_solve(factors: Factors, half: Array) -> Array:
    """``M^-1 right`` from its half solve, [n]."""
    return factors.solve_upper_transposed((half * jnp.sqrt(factors.inverse_diagonal))[:, None])[
        :, 0
    ]


def inverse_of(factors: Factors) -> Array:
    """The inverse of a factorised matrix, [n, n]."""
    diagonal = factors.inverse_diagonal
    half = factors.solve_upper(identity(len(diagonal), diagonal.dtype))
    return spatial.symmetric_from_upper(matmul(half.T, half * diagonal[:, None]))


def split_inverse(tree: Topology, product: MassProduct) -> tuple[Array, Array]:
    """The matrix ``half`` [nv, nv] and weights [nv] of a tree's inverse mass matrix
    ``half diag(weight) half^T``.

    ``half`` is as sparse as the tree: a row is zero except for the entries on the path from its own
    to the root.
    """
    factors = factorize_product(tree, product, many=True)
    half = factors.solve_upper(identity(len(product.added), product.added.dtype)).T
    return half, factors.inverse_diagonal


def inverse_of_unsymmetric(matrix: Array) -> Array:
    """The inverse of any matrix [n, n], by elimination with pivoting."""
    return _known_inverse(matrix, inverse_with_pivoting(jax.lax.stop_gradient(matrix)))


def inverse_of_product(tree: Topology, matrix: Array, product: MassProduct) -> Array:
    """The inverse [nv, nv] of a tree's mass matrix; derivatives use ``matrix``, the product
    multiplied out.
    """
    return _inverse_from_factors(
        matrix, product.added, factorize_product(tree, jax.lax.stop_gradient(product), many=True)
    )


def _inverse_from_factors(matrix: Array, added: Array, factors: Factors) -> Array:
    """The inverse from constant factors; it is differentiated as the inverse of
    ``matrix + diag(added)``.
    """
    return _known_inverse(matrix + jnp.diag(added), inverse_of(factors))


@jax.custom_jvp
def _known_inverse(matrix: Array, inverse: Array) -> Array:
    """The constant ``inverse``, with the derivative of the inverse of ``matrix``."""
    return inverse


@_known_inverse.defjvp
def _known_inverse_jvp(primals, tangents):
    inverse = _known_inverse(*primals)
    return inverse, -matmul(matmul(inverse, tangents[0]), inverse)


@functools.lru_cache(maxsize=256)
def _is_deep(tree: Topology, many: bool) -> bool:
    return len(Paths.of(tree).levels) > (DEEPEST_PATH_OF_MANY if many else DEEPEST_PATH)
