"""The contacts of an implicit step, and their velocities per generalised velocity.

A contact with the ground moves with a point of its link. A contact between two links moves with a
point of the first link relative to the coincident point of the second. DOFs that move both links
cancel in this difference, so contact between two links changes neither the linear nor the angular
momentum of the whole.

Few links touch something, but each may have many contacts. For a link with a single contact, three
motions matter: those of the point along the contact's axes. For a link with several contacts, such
as a flat foot, it is six, however many contacts there are. The same holds for two links that touch
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.ground_contacts import GroundContacts
from artix.contact.link_contacts import LinkContacts
from artix.contact.scene import ShapePairs
from artix.contact.selection import looked_up
from artix.kinematics.contact_points import (
    Contacts,
    contact_frames,
    contact_jacobian,
    contact_points,
    motions_at,
    motions_by,
    moves_links,
)
from artix.kinematics.forward import Kinematics, kinematics
from artix.math import spatial, struct
from artix.math.arrays import identity, joined, matmul
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology
from artix.simulation.implicit.rows import motion_slices, num_motions
from artix.simulation.implicit.system import in_columns, side_by_side

Array = jax.Array


class JoinedContacts:
    """K contacts of several kinds, as arrays of all."""

    @property
    def normal(self) -> Array:
        """Normals, [K, 3]."""
        return self._joined("normal")

    @property
    def gap(self) -> Array:
        """[K]."""
        return self._joined("gap")

    @property
    def friction(self) -> Array:
        """[K]."""
        return self._joined("friction")

    @property
    def restitution(self) -> Array:
        """[K]."""
        return self._joined("restitution")

    @property
    def compliance(self) -> Array:
        """[K]."""
        return self._joined("compliance")

    @property
    def relaxation_time(self) -> Array:
        """[K]."""
        return self._joined("relaxation_time")

    def _joined(self, name: str) -> Array:
        """What all kinds have by this name, one after another."""
        raise NotImplementedError


class Touches(JoinedContacts, struct.PyTreeNode):
    """All K contacts: those with the ground, articulation by articulation, then those between
    links.
    """

    ground_contacts: tuple[GroundContacts | None, ...]
    """Contacts of each articulation with the ground, and the shapes they belong to."""
    between: LinkContacts | None
    """Contacts between links. Their points are relative to the first articulation's reference
    point."""
    pairs: ShapePairs = struct.field(pytree_node=False)
    """The pairs of shapes that can touch each other."""

    @property
    def grounds(self) -> tuple[Contacts | None, ...]:
        """Contacts of each articulation with the ground."""
        return tuple(None if ground is None else ground.contacts for ground in self.ground_contacts)

    @property
    def is_spread(self) -> bool:
        """Whether it is known that no link has more than one contact."""
        grounds = [ground for ground in self.ground_contacts if ground is not None]
        if self.between is not None or any(ground.source is not None for ground in grounds):
            return False
        links = [ground.contacts.links or ground.geometries for ground in grounds]
        return all(len(set(each)) == len(each) for each in links)

    def moved(self, trees: Sequence[Topology]) -> np.ndarray:
        """Which contacts each DOF moves, for contacts with the ground on known links, [K, n]."""
        grounds = self.ground_contacts
        counts = [0 if ground is None else len(ground.geometries) for ground in grounds]
        moved = np.zeros((sum(counts), sum(tree.num_dofs for tree in trees)), bool)
        row, column = 0, 0
        for tree, ground, count in zip(trees, grounds, counts, strict=True):
            if ground is not None:
                links = tree.geometry_links(ground.geometries)
                block = tree.dof_moves_link.T[links]
                moved[row : row + count, column : column + tree.num_dofs] = block
            row, column = row + count, column + tree.num_dofs
        return moved

    def is_external(self, number: int) -> bool:
        """Whether an articulation can touch anything other than itself."""
        return self.ground_contacts[number] is not None or (
            len(self.grounds) > 1 and self.between is not None
        )

    def _joined(self, name: str) -> Array:
        return joined(
            [getattr(part, name) for part in (*self.grounds, self.between) if part is not None]
        )


def contact_reaches(
    articulations: Sequence[Articulation], states: Sequence[State], touches: Touches
) -> tuple[Array, Array, list[np.ndarray]]:
    """Link motions per generalised velocity, [S, nv], contact velocities per motion, [K, 3, S], and
    the contacts that share motions, group by group in the order of these.
    """
    kins = [kinematics(*member) for member in zip(articulations, states, strict=True)]
    sizes, parts = [one.topology.nv for one in articulations], []
    for k, ground in enumerate(touches.ground_contacts):
        if ground is not None:
            direction, reach, groups = _on_ground(articulations[k], kins[k], ground)
            parts.append((in_columns(direction, sizes, k), reach, groups))
    if touches.between is not None:
        parts.append(_between_links(articulations, kins, touches.pairs, touches.between))
    directions, reaches, grouped = zip(*parts, strict=True)
    firsts = np.cumsum([0, *(len(reach) for reach in reaches)])
    groups = [first + which for first, part in zip(firsts, grouped, strict=False) for which in part]
    reach = side_by_side(reaches, [len(direction) for direction in directions])
    return joined(directions), reach, groups


def contact_blocks(
    reading: Array, effect: Array, reach: Array, groups: Sequence[np.ndarray]
) -> Array:
    """The velocities of each contact per impulse on it, [K, 3, 3].

    Only motions of one group meet in a contact. All couplings of the motions of a robot of hulls
    would be two million products, of which almost none are needed.

    Args:
      reading: velocities of the motions by coordinates of the change of velocity, [S, nv].
      effect: changes of the coordinates per impulse along the motions, [S, nv].
      reach: contact velocities per motion, [K, 3, S].
      groups: the contacts that share motions.
    """
    spans, blocks, order = motion_slices(groups), [], []
    for size in sorted({num_motions(len(which)) for which in groups}):
        alike = [k for k, which in enumerate(groups) if num_motions(len(which)) == size]
        parts = np.array([spans[k].start for k in alike])[:, None] + np.arange(size)
        number = np.repeat(np.arange(len(alike)), [len(groups[k]) for k in alike])
        contacts = np.concatenate([groups[k] for k in alike])
        coupling = matmul(reading[parts], jnp.swapaxes(effect[parts], 1, 2))[number]
        along = reach[contacts[:, None, None], np.arange(3)[:, None], parts[number][:, None]]
        blocks.append(jnp.sum(matmul(along, coupling)[:, :, None] * along[:, None], axis=3))
        order.append(contacts)
    return jnp.concatenate(blocks)[np.argsort(np.concatenate(order))]


def contact_directions(
    articulations: Sequence[Articulation], states: Sequence[State], touches: Touches
) -> Array:
    """Derivatives of the contact velocities (two tangents, normal) by the generalised velocity,
    [K, 3, nv].
    """
    kins = [kinematics(*member) for member in zip(articulations, states, strict=True)]
    sizes, parts = [one.topology.nv for one in articulations], []
    for k, ground in enumerate(touches.ground_contacts):
        if ground is not None and ground.source is not None:
            linear = motions_by(
                articulations[k], kins[k], _moves(articulations[k], ground), ground.contacts.point.T
            )[:3]
            parts.append(
                in_columns(_along(contact_frames(ground.contacts.normal), linear), sizes, k)
            )
        elif ground is not None:
            links, contacts = (
                articulations[k].topology.geometry_links(ground.geometries),
                ground.contacts,
            )
            jacobian = contact_jacobian(
                articulations[k], kins[k], links, contacts.point, contact_frames(contacts.normal)
            )
            parts.append(in_columns(jacobian, sizes, k))
    if touches.between is not None:
        between, frames = touches.between, contact_frames(touches.between.normal)
        linear = _moved_by(articulations, kins, _relative(touches.pairs, between), between.point.T)[
            :3
        ]
        parts.append(_along(frames, linear))
    return joined(parts)


def _along(frames: Array, linear: Array) -> Array:
    """Motions [3, K, nv] along the axes of frames [K, 3, 3], [K, 3, nv]."""
    return jnp.sum(frames[:, :, :, None] * jnp.moveaxis(linear, 0, 1)[:, None], axis=2)


def _moves(articulation: Articulation, ground: GroundContacts) -> Array:
    """Which generalised velocities move contacts whose links are data, [K, nv]."""
    assert ground.body is not None
    tree = articulation.topology
    return looked_up(moves_links(tree, tree.body_link), ground.body, articulation.dtype)


def _on_ground(
    articulation: Articulation, kin: Kinematics, ground: GroundContacts
) -> tuple[Array, Array, list[np.ndarray]]:
    if ground.source is not None:
        frames, moves = contact_frames(ground.contacts.normal), _moves(articulation, ground)
        groups = [np.array([k]) for k in range(len(frames))]
        return _grouped(
            frames,
            ground.contacts.point.T,
            groups,
            lambda middle: motions_by(articulation, kin, moves, middle),
        )
    links, contacts = articulation.topology.geometry_links(ground.geometries), ground.contacts
    place = contact_points(articulation, kin, links, contacts.point)
    # By shapes where the links are data.
    together = np.array(contacts.links or ground.geometries, int)
    groups = [np.flatnonzero(together == one) for one in dict.fromkeys(together.tolist())]
    of_groups = links[np.array([which[0] for which in groups], int)]
    return _grouped(
        contact_frames(contacts.normal),
        place,
        groups,
        lambda middle: motions_at(articulation, kin, of_groups, middle),
    )


def _between_links(
    articulations: Sequence[Articulation],
    kins: Sequence[Kinematics],
    pairs: ShapePairs,
    between: LinkContacts,
) -> tuple[Array, Array, list[np.ndarray]]:
    relative = _relative(pairs, between)
    groups = [np.array([k]) for k in range(len(between.gap))]
    if isinstance(relative, np.ndarray):
        alike = [tuple(row) for row in relative.tolist()]
        groups = [
            np.array([k for k, row in enumerate(alike) if row == kind])
            for kind in dict.fromkeys(alike)
        ]
    firsts = np.array([which[0] for which in groups], int)
    return _grouped(
        contact_frames(between.normal),
        between.point.T,
        groups,
        lambda middle: _moved_by(articulations, kins, relative[firsts], middle),
    )


def _moved_by(
    articulations: Sequence[Articulation], kins: Sequence[Kinematics], moves: Any, point: Array
) -> Array:
    """:func:`motions_by` of all articulations, for points relative to the first one's reference
    point, [6, K, nv].
    """
    columns = np.cumsum([0, *(one.topology.nv for one in articulations)])
    points = []
    for k, (articulation, kin) in enumerate(zip(articulations, kins, strict=True)):
        place = point if k == 0 else point + (kins[0].reference - kin.reference)[:, None]
        points.append(motions_by(articulation, kin, moves[:, columns[k] : columns[k + 1]], place))
    return points[0] if len(points) == 1 else jnp.concatenate(points, axis=2)


def _relative(pairs: ShapePairs, between: LinkContacts) -> Array | np.ndarray:
    """How the generalised velocities move the first link of each contact against the second,
    [K, nv].

    The result is static if all candidates are contacts.
    """
    ((count, candidates),) = between.choice.groups
    if count == candidates:
        return pairs.moves
    number = between.choice.candidate
    return looked_up(pairs.moves, number, number.dtype)


def _grouped(
    frames: Array, place: Array, groups: list[np.ndarray], motions: Callable[[Array], Array]
) -> tuple[Array, Array, list[np.ndarray]]:
    """The motions of groups of contacts, [S, nv], the contacts' velocities per those, [K, 3, S],
    and the groups.

    Args:
      frames: tangents and normals, [K, 3, 3].
      place: the points relative to the reference point, [3, K].
      groups: indices of the contacts of each group.
      motions: linear and angular motions [6, groups, nv] at points of the groups [3, groups].
    """
    middle = jnp.stack([jnp.mean(place[:, which], axis=1) for which in groups], axis=1)
    moving = motions(middle)
    sizes = [num_motions(len(which)) for which in groups]
    direction: list[Array] = []
    reach: list[Array] = [frames[:0]] * len(frames)
    for k, which in enumerate(groups):
        if sizes[k] == 3:  # Along the contact's own axes: these motions are its velocity.
            direction.append(matmul(frames[which[0]], moving[:3, k]))
            local = [identity(3, frames.dtype)]
        else:
            direction.append(moving[:, k])
            levers = [place[:, contact] - middle[:, k] for contact in which]
            local = [
                jnp.concatenate([frame, spatial.cross(lever[:, None], frame.T).T], axis=1)
                for frame, lever in zip(frames[which], levers, strict=True)
            ]
        for contact, numbers in zip(which, local, strict=True):
            reach[contact] = jnp.pad(numbers, ((0, 0), (sum(sizes[:k]), sum(sizes[k + 1 :]))))
    return jnp.concatenate(direction), jnp.stack(reach), groups
