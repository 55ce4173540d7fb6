"""The stiffness that all contacts of an articulation with the ground add to a Newton step.

The contacts of a body add up to a stiffness for its six motions. The stiffnesses of all bodies that
a joint moves, brought to one point, are one for the motions of its body. So the matrix follows as
the mass matrix does by the composite-rigid-body algorithm, with stiffnesses in place of inertias:
the product of a DOF's motion and the stiffness of its body is projected onto the motions of the
DOFs above it. For many bodies that touch, this takes far fewer operations than adding up matrices
of all DOFs, body by body.

Stiffnesses are about the origins of bodies, which are near. Those of contacts that hold are 1e5
times the masses, so that one about a point a metre away would round what the ankle of a foot feels.

Featherstone, *Rigid Body Dynamics Algorithms*, 2008, section 6.2.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.contact_points import motions_by
from artix.kinematics.forward import Kinematics
from artix.math import spatial, struct
from artix.math.arrays import masked_sum, matmul, take
from artix.model.articulation import Articulation
from artix.model.topology import Topology

Array = jax.Array


class _Stiffness(NamedTuple):
    """Force and moment about a point per motion there, [3, 3, n] each."""

    force: Array
    force_by_turning: Array
    moment: Array
    moment_by_turning: Array

    @classmethod
    def at(cls, lever: Array, force: Array) -> _Stiffness:
        """About points from which others, where forces per velocity act, have levers [3, n]."""
        by_turning = _turned(lever, force)
        return cls(force, by_turning, _moment(lever, force), _moment(lever, by_turning))

    def about(self, lever: Array) -> _Stiffness:
        """About other points, from which the present ones have levers [3, n]."""
        by_turning = self.force_by_turning + _turned(lever, self.force)
        turning = self.moment_by_turning + _moment(lever, by_turning) + _turned(lever, self.moment)
        return _Stiffness(self.force, by_turning, self.moment + _moment(lever, self.force), turning)

    def taken(self, index: np.ndarray) -> _Stiffness:
        return _Stiffness(*(take(part, index) for part in self))

    def added_up(self, mask: Array | np.ndarray) -> _Stiffness:
        """Sums of those that a mask [n, m] tells, m of them."""
        count = mask.shape[1]
        sums = (masked_sum(part.reshape(9, len(mask)), mask) for part in self)
        return _Stiffness(*(part.reshape(3, 3, count) for part in sums))

    def __add__(self, other: _Stiffness) -> _Stiffness:  # type: ignore[override]
        return _Stiffness(*map(jnp.add, self, other))


def _moment(lever: Array, columns: Array) -> Array:
    """``[l] A``: the moments of forces."""
    return spatial.cross(lever[:, None], columns)


def _turned(lever: Array, rows: Array) -> Array:
    """``-A [l]``: what turning about a point does by the velocity at a lever."""
    return _moment(lever, rows.swapaxes(0, 1)).swapaxes(0, 1)


class TreeContacts(struct.PyTreeNode):
    """Where K contacts are on an articulation."""

    frames: Array
    """Their axes in the world, as rows, [3, 3, K]."""
    lever: Array
    """Their points relative to the origins of their bodies, [3, K]."""
    motions: Array
    """For each DOF, the motions at the origin of its body per generalised velocity, [6, nv, nv]."""
    above: Array
    """The origin of each body relative to that of its parent, [3, B]."""
    on_bodies: Array
    """Which contacts are on which bodies, zeros and ones, [K, B]."""
    topology: Topology = struct.field(pytree_node=False)

    def stiffness(self, slopes: Array) -> Array:
        """``J^T slopes J`` for slopes [K, 3, 3], [nv, nv]."""
        tree, numbers = self.topology, np.arange(self.topology.num_bodies)
        along = spatial.multiply(jnp.moveaxis(slopes, 0, -1), self.frames)
        points = _Stiffness.at(self.lever, spatial.multiply(self.frames.swapaxes(0, 1), along))
        every = points.added_up(self.on_bodies)
        for level in reversed(tree.body_levels):
            moved = every.taken(level).about(take(self.above, level))
            every = every + moved.added_up(tree.body_parent[level][:, None] == numbers)
        body = _bodies_of_velocities(tree)
        each, index = every.taken(body), np.arange(tree.nv)
        linear, angular = self.motions[:3, index, index], self.motions[3:, index, index]
        onto = jnp.concatenate(
            [
                spatial.apply(each.force, linear) + spatial.apply(each.force_by_turning, angular),
                spatial.apply(each.moment, linear) + spatial.apply(each.moment_by_turning, angular),
            ]
        )
        back = jnp.concatenate(
            [
                spatial.apply_transposed(each.force, linear)
                + spatial.apply_transposed(each.moment, angular),
                spatial.apply_transposed(each.force_by_turning, linear)
                + spatial.apply_transposed(each.moment_by_turning, angular),
            ]
        )
        columns, rows = (jnp.sum(side[:, :, None] * self.motions, axis=0) for side in (onto, back))
        return columns.T + jnp.where(body[:, None] == body, 0, rows)


def _bodies_of_velocities(tree: Topology) -> np.ndarray:
    """The body that each generalised velocity moves first, [nv]."""
    return np.concatenate([np.zeros(tree.num_base_dofs, int), tree.dof_body])


def tree_contacts(
    articulation: Articulation, kin: Kinematics, on_bodies: Array, place: Array, frames: Array
) -> TreeContacts:
    """Contacts on bodies, zeros and ones [K, B], at points [3, K] relative to the reference point,
    with frames [K, 3, 3].
    """
    tree = articulation.topology
    origin = jnp.concatenate([jnp.zeros_like(kin.position[:, :1]), kin.position[:, 1:]], axis=1)
    moved = _bodies_of_velocities(tree)
    base = np.ones((tree.num_bodies, tree.num_base_dofs), bool)
    moves = np.concatenate([base, tree.dof_moves_body.T], axis=1)
    return TreeContacts(
        jnp.moveaxis(frames, 0, -1),
        place - matmul(origin, on_bodies.T),
        motions_by(articulation, kin, moves[moved], take(origin, moved)),
        origin - take(origin, np.maximum(tree.body_parent, 0)),
        on_bodies,
        tree,
    )


# About how many products the stiffness takes, besides what is the same either way.


def products_by_groups(tree: Topology, links: np.ndarray) -> int:
    """By matrices of all DOFs, one for each group of contacts of a link."""
    moves, products = tree.num_base_dofs + tree.dof_moves_link.sum(axis=0), 0
    for link, count in zip(*np.unique(links, return_counts=True), strict=True):
        size = 3 if count == 1 else 6
        products += size * int(moves[link]) * (size + int(moves[link]))
    return products


def products_by_points(tree: Topology, count: int) -> int:
    """By matrices of all DOFs, for contacts whose links are data."""
    pairs = int(np.count_nonzero(tree.dof_ancestors | tree.dof_ancestors.T))
    base = tree.num_base_dofs
    return 3 * count * (3 * tree.nv + base * (base + 2 * tree.num_dofs) + pairs)


def products_along_tree(tree: Topology, links: np.ndarray) -> int:
    """Along the tree, of bodies with contacts below them; a contact that is alone on its link takes
    some more.
    """
    has_some = np.zeros(tree.num_bodies, bool)
    has_some[tree.link_body[links]] = True
    single = np.count_nonzero(np.bincount(links) == 1)
    return _along_tree(tree, tree.body_ancestors @ has_some) + 54 * int(single)


def products_of_data(tree: Topology, count: int) -> int:
    """Along the tree, for contacts whose links are data: each may be on each body."""
    return _along_tree(tree, np.ones(tree.num_bodies, bool)) + count * (54 + 36 * tree.num_bodies)


def _along_tree(tree: Topology, is_needed: np.ndarray) -> int:
    base, of_velocity = tree.num_base_dofs, is_needed[_bodies_of_velocities(tree)]
    above = np.concatenate([np.full(base, base), base + tree.dof_ancestors.sum(axis=0)])
    pairs = 12 * int(above[of_velocity].sum())
    return 72 * int(of_velocity.sum()) + pairs + 90 * int(is_needed.sum())
