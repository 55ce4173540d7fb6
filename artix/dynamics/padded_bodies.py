"""The articulated-body algorithm on trees that are data, link by link.

The method is that of :mod:`artix.dynamics.articulated_bodies`. There the tree says which entries of the generalised
velocity can be eliminated together. Here each link eliminates its own entries; one that it lacks moves nothing.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.dynamics.inertia import spatial_inertias
from artix.kinematics.bodies import Inertias
from artix.kinematics.recursions import inwards, outwards
from artix.kinematics.tree import rows_by_body
from artix.math import spatial, struct
from artix.math.arrays import matmul, take
from artix.model.padded_topology import PaddedTopology

Array = jax.Array


class Entries(struct.PyTreeNode):
    """The entries of the generalised velocity that belong to one link, or of all links but the root (last axis)."""

    motions: Array
    """Unit motions S, [k, 6]."""
    forces: Array
    """Forces F required for unit accelerations while everything below moves freely, [k, 6]."""
    inverses: Array
    """1 / D with ``D = S . F``, [k]."""


class PaddedFactors(struct.PyTreeNode):
    """The factors of ``M = U D U^T``, where column j of U has ``S_i . F_j / D_j`` above the diagonal."""

    root: Entries
    """Those of the root's six entries, or of none."""
    links: Entries
    """Those of the other links, with the link axis last."""
    tree: PaddedTopology

    @property
    def inverse_diagonal(self) -> Array:
        """1 / D, [nv]; one for entries that the tree lacks."""
        return _joined(self.tree, self.root.inverses, self.links.inverses, 1.0)

    @property
    def upper(self) -> Array:
        """U, unit upper triangular, [nv, nv]."""
        motions, scaled = (
            _joined(self.tree, of_root, of_links, 0.0)
            for of_root, of_links in (
                (self.root.motions, self.links.motions),
                (self.root.forces * self.root.inverses[:, None], self.links.forces * self.links.inverses[:, None]),
            )
        )
        unit = jnp.eye(self.tree.nv, dtype=motions.dtype)
        pattern = jnp.asarray(self.tree.mass_matrix_halves[0], motions.dtype)
        return matmul(motions, scaled.T) * (pattern * (1 - unit)) + unit

    def solve_upper(self, rights: Array) -> Array:
        """``U^-1 rights`` for right-hand sides [nv, m]: the forces left over while everything above is held."""
        of_root, of_links = _split(self.tree, rights)
        nothing = jnp.zeros_like(rights, shape=(6, rights.shape[1]))
        below, lefts = inwards(self.tree, _leave, nothing, (self.links, of_links))
        return _joined(self.tree, _leave(below, (self.root, of_root))[1], lefts, rights)

    def solve_upper_transposed(self, rights: Array) -> Array:
        """``U^-T x`` for x [nv, m]: accelerations, from those with everything above held."""
        of_root, of_links = _split(self.tree, rights)
        motion, solution = _accelerate(jnp.zeros_like(rights, shape=(6, rights.shape[1])), (self.root, of_root))
        solutions = outwards(self.tree, _accelerate, motion, (self.links, of_links))
        return _joined(self.tree, solution, solutions, rights)


def factorize(tree: PaddedTopology, motions: Array, inertias: Inertias, added: Array) -> PaddedFactors:
    """The factors of a tree's mass matrix.

    Args:
      tree: the tree.
      motions: unit motions of the generalised velocity, linear part first, [6, nv].
      inertias: mass moments of the bodies about the same point.
      added: what to add to the diagonal, [nv]; one for entries that the tree lacks.
    """
    rigid = spatial_inertias(inertias)
    (root_motions, joint_motions), (root_added, joint_added) = _split(tree, motions.T), _split(tree, added)
    has_dof = tree.body_has_dof[: len(joint_added), 1:]
    joint_added = jnp.where(has_dof, joint_added, jnp.ones_like(joint_added))
    items = rigid[..., 1:], joint_motions, joint_added
    below, links = inwards(tree, _eliminate, jnp.zeros_like(rigid[..., 0]), items)
    return PaddedFactors(_eliminate(below, (rigid[..., 0], root_motions, root_added))[1], links, tree)


def _eliminate(below: Array, item: tuple[Array, Array, Array]) -> tuple[Array, Entries]:
    """The articulated inertia that a link passes on to its parent, and its entries."""
    rigid, motions, added = item
    inertia, forces, inverses = below + rigid, list[Array](), list[Array]()
    for motion, more in zip(motions[::-1], added[::-1], strict=True):
        force = spatial.apply(inertia, motion)
        inverse = 1 / (spatial.dot(motion, force) + more)
        inertia = inertia - spatial.symmetric_from_upper(force[:, None] * (force * inverse)[None])
        forces.append(force)
        inverses.append(inverse)
    return inertia, Entries(motions, _stacked(forces[::-1], motions), _stacked(inverses[::-1], added))


def _leave(below: Array, item: tuple[Entries, Array]) -> tuple[Array, Array]:
    """The forces [6, m] that a link passes on to its parent, and those left over for its entries, [k, m]."""
    (entries, rights), lefts = item, list[Array]()
    for k in reversed(range(len(rights))):
        left = rights[k] - spatial.dot(entries.motions[k][:, None], below)
        below = below + entries.forces[k][:, None] * (left * entries.inverses[k])[None]
        lefts.append(left)
    return below, _stacked(lefts[::-1], rights)


def _accelerate(above: Array, item: tuple[Entries, Array]) -> tuple[Array, Array]:
    """The acceleration [6, m] of a link, and those of its entries, [k, m]."""
    (entries, rights), solutions = item, list[Array]()
    for k in range(len(rights)):
        solution = rights[k] - spatial.dot(entries.forces[k][:, None], above) * entries.inverses[k]
        above = above + entries.motions[k][:, None] * solution[None]
        solutions.append(solution)
    return above, _stacked(solutions, rights)


def _stacked(rows: list[Array], like: Array) -> Array:
    return jnp.stack(rows) if rows else jnp.zeros_like(like)


def _split(tree: PaddedTopology, rows: Array) -> tuple[Array, Array]:
    """Rows [nv, ...] of the generalised velocity as those of the root [6 or 0, ...] and of links, [k, ..., L-1]."""
    base = tree.num_base_dofs
    return rows[:base], rows_by_body(tree, jnp.moveaxis(rows[base:], 0, -1))


def _joined(tree: PaddedTopology, of_root: Array, of_links: Array, elsewhere: Array | float) -> Array:
    """The inverse of :func:`_split`: rows [nv, ...], with those of ``elsewhere`` for DOFs that the tree lacks."""
    joints, *others = (take(row, tree.dof_link - 1) for row in of_links)
    for column, row in enumerate(others, start=1):
        joints = jnp.where(tree.dof_column == column, row, joints)
    joints = jnp.moveaxis(joints, -1, 0)
    elsewhere = jnp.broadcast_to(jnp.asarray(elsewhere, joints.dtype), (tree.nv, *joints.shape[1:]))[
        tree.num_base_dofs :
    ]
    is_live = tree.dof_is_live.reshape(-1, *(1 for _ in joints.shape[1:]))
    return jnp.concatenate([of_root, jnp.where(is_live, joints, elsewhere)])
