"""Solves with the mass matrix by the articulated-body algorithm.

The entries of the generalised velocity are eliminated from the leaves upwards (Featherstone 1983, *The calculation of
robot dynamics using articulated-body inertias*; 2008, section 7.3): each subtracts ``F D^-1 F^T``, with ``F = I^A S``
and ``D = S . F``, from the articulated inertia that it moves, and passes the projected inertia on to its parent.
All quantities refer to a common point and world axes, so no transforms are needed between links. The cost grows
linearly with the number of entries.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from artix.dynamics.elimination import Paths
from artix.dynamics.inertia import spatial_inertias
from artix.kinematics.bodies import Inertias
from artix.math import spatial, struct
from artix.math.arrays import masked_sum, matmul, take
from artix.model.topology import Topology

Array = jax.Array


class ArticulatedFactors(struct.PyTreeNode):
    """The factors of ``M = U D U^T``, where column j of U has ``S_i . F_j / D_j`` above the diagonal."""

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
        place, unit = self.paths.place, np.eye(len(self.inverses), dtype=self.inverses.dtype)
        above = matmul(self.motions.T, self.forces * self.inverses[None]) * (self.paths.pattern - unit) + unit
        return take(take(above, place, 0), place)

    def solve_upper(self, rights: Array) -> Array:
        """``U^-1 rights`` for right-hand sides [nv, m]: the forces left over while everything above is held."""
        right, force, levels = take(rights, self.paths.order, 0).T, None, []
        for depth, level in reversed([*enumerate(self.paths.slices)]):
            below = _to_parents(self.paths, depth + 1, force, (6, len(right)), right)
            left = right[:, level] - spatial.dot(self.motions[:, None, level], below)
            force = below + self.forces[:, None, level] * (left * self.inverses[level])[None]
            levels.append(left)
        return take(jnp.concatenate(levels[::-1], axis=1).T, self.paths.place, 0)

    def solve_upper_transposed(self, rights: Array) -> Array:
        """``U^-T x`` for x [nv, m]: accelerations, from those with everything above held."""
        right, levels = take(rights, self.paths.order, 0).T, []
        motion = jnp.zeros_like(right, shape=(6, len(right), len(self.paths.levels[0])))
        for depth, level in enumerate(self.paths.slices):
            above = take(motion, self.paths.parents(depth)) if depth else motion
            solution = right[:, level] - spatial.dot(self.forces[:, None, level], above) * self.inverses[level]
            motion = above + self.motions[:, None, level] * solution[None]
            levels.append(solution)
        return take(jnp.concatenate(levels, axis=1).T, self.paths.place, 0)


def factorize(tree: Topology, motions: Array, inertias: Inertias, added: Array) -> ArticulatedFactors:
    """The factors of a tree's mass matrix.

    Args:
      tree: the tree.
      motions: unit motions of the generalised velocity, linear part first, [6, nv].
      inertias: mass moments of the bodies about the same point.
      added: what to add to the diagonal, [nv].
    """
    return _eliminated(tree, motions, inertias, added)[0]


def projected_inertias(tree: Topology, motions: Array, inertias: Inertias, added: Array) -> Array:
    """The articulated inertia that each entry passes on to the one above, ``I^A - F D^-1 F^T``, [6, 6, nv].

    The arguments are those of :func:`factorize`.
    """
    return _eliminated(tree, motions, inertias, added)[1]


def _eliminated(tree: Topology, motions: Array, inertias: Inertias, added: Array) -> tuple[ArticulatedFactors, Array]:
    paths = Paths.of(tree)
    if not tree.nv:
        nothing = jnp.zeros_like(motions[0])
        return ArticulatedFactors(motions, motions, nothing, paths), jnp.zeros_like(motions, shape=(6, 6, 0))
    rigid = spatial_inertias(inertias)
    rigid = take(jnp.concatenate([rigid, jnp.zeros_like(rigid[..., :1])], axis=-1), _bodies(tree)[paths.order])
    motions, added = take(motions, paths.order), take(added, paths.order)
    passed, levels = None, []
    for depth, level in reversed([*enumerate(paths.slices)]):
        inertia = rigid[..., level] + _to_parents(paths, depth + 1, passed, (6, 6), motions)
        force = spatial.apply(inertia, motions[:, level])
        inverse = 1 / (spatial.dot(motions[:, level], force) + added[level])
        passed = inertia - spatial.symmetric_from_upper(force[:, None] * (force * inverse[None])[None])
        levels.append((force, inverse, passed))
    forces, inverses, passed = (jnp.concatenate(parts, axis=-1) for parts in zip(*levels[::-1], strict=True))
    return ArticulatedFactors(motions, forces, inverses, paths), take(passed, paths.place)


def _to_parents(paths: Paths, depth: int, x: Array | None, shape: tuple[int, ...], like: Array) -> Array:
    """Sums over the children in a level, [..., entries of the level above]; zeros where there is no such level."""
    above = len(paths.levels[depth - 1])
    if x is None:
        return jnp.zeros_like(like, shape=(*shape, above))
    return masked_sum(x, paths.parents(depth)[:, None] == np.arange(above)[None])


@functools.lru_cache(maxsize=256)
def _bodies(tree: Topology) -> np.ndarray:
    """The body of each entry that is its body's last; the number of bodies for all other entries, [nv]."""
    base, dofs = tree.num_base_dofs, tree.dof_body
    bodies = np.full(tree.nv, tree.num_bodies)
    bodies[:base][-1:] = 0
    is_last = np.diff(dofs, append=-1) != 0
    bodies[base:][is_last] = dofs[is_last]
    return bodies
