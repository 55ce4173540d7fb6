"""Contacts as rows of the implicit solver, three velocities each: two tangential ones and a normal
one.

Signorini's and Coulomb's laws take the form of one equation for a contact's impulse ``x`` and
velocity ``u``, after Alart and Curnier: ``x_n = max(0, x_n - u_n / g_n)``, and ``x_t`` is the
projection of ``x_t - u_t / g_t`` onto the disc of radius ``friction x_n``. Its solutions do not
depend on the positive ``g``, and satisfy De Saxce's cone condition. It is differentiable wherever
the contact clearly sticks, slides or separates.

With smoothing, contacts push before they touch: ``x_n u_n = E`` replaces ``x_n u_n = 0``. This is
the stationarity condition of a logarithmic barrier ``-E log(gap)``, the central path of
interior-point methods.

Contacts move with their links. For a link with a single contact, three motions matter, those of the
point. For a link with several, such as a flat foot, it is six, however many contacts there are. The
rest of the solver works with these motions.

Alart and Curnier, *A mixed formulation for frictional contact problems prone to Newton like
solution methods*, 1991.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.ground_contacts import GroundContacts
from artix.contact.selection import Choice
from artix.kinematics.configuration import generalized_velocity
from artix.kinematics.contact_points import contact_frames, contact_points
from artix.kinematics.forward import Kinematics, kinematics
from artix.math import spatial, struct
from artix.math.arrays import joined, matmul, square_root, take
from artix.model.articulation import Articulation, State
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_motions import (
    Touches,
    contact_blocks,
    contact_directions,
    contact_reaches,
    motion_slices,
)
from artix.simulation.implicit.contact_stiffness import (
    TreeContacts,
    products_along_tree,
    products_by_groups,
    products_by_points,
    products_of_data,
    tree_contacts,
)
from artix.simulation.implicit.system import Acting, Response, return_time

Array = jax.Array


def inverses(blocks: Array) -> Array:
    """The inverse of each block."""
    return jnp.moveaxis(spatial.inverse(jnp.moveaxis(blocks, 0, -1)), -1, 0)


def times(blocks: Array, vectors: Array) -> Array:
    """Blocks times vectors, [K, 3]."""
    return jnp.sum(blocks * vectors[:, None], axis=2)


def times_transposed(blocks: Array, vectors: Array) -> Array:
    """Transposed blocks times vectors, [K, 3]."""
    return jnp.sum(blocks * vectors[:, :, None], axis=1)


def product(blocks: Array, others: Array) -> Array:
    """Blocks times others, [K, 3, S]."""
    return jnp.sum(blocks[:, :, :, None] * others[:, None], axis=2)


class ContactRow(NamedTuple):
    """One contact (or all, with a leading axis [K]): two tangents, then the normal."""

    reach: Array
    """Derivative of its velocity by the link motions, [3, S]."""
    approach: Array
    """The largest speed at which the contact may close: minus the lower bound of its normal
    velocity."""
    softness: Array
    """Velocity at which a compliant contact yields, per normal impulse."""
    friction: Array
    tangential: Array
    """An upper bound of the tangential velocity per tangential impulse."""
    normal: Array
    """The normal velocity per normal impulse, softness included."""
    smoothing: Array | None = None
    """E, the product of normal impulse and normal rate; ``None`` for zero."""


class ContactRows(struct.PyTreeNode):
    """All K contacts."""

    motions: Array
    """Derivatives of the S motions of touching links by the generalised velocity, [S, nv]."""
    each: ContactRow
    groups: tuple[tuple[int, ...], ...] = struct.field(pytree_node=False)
    """The contacts that share motions, group by group in the order of these."""
    coupled: tuple[tuple[int, ...], ...] | None = struct.field(pytree_node=False, default=None)
    """For each velocity those that contacts can couple it with, where links are data; ``None`` for
    all."""
    trees: tuple[TreeContacts | None, ...] = ()
    """For each articulation whose contacts with the ground touch many of its bodies, where they are
    on its tree."""
    places: tuple[tuple[int, int, int], ...] = struct.field(pytree_node=False, default=())
    """For each articulation its first velocity and its first contact with the ground, and the
    number of those."""

    @property
    def num_contacts(self) -> int:
        """K."""
        return len(self.each.approach)

    def on_links(self, impulse: Array) -> Array:
        """Converts impulses [K, 3] to impulses on the link motions, [S]."""
        return matmul(impulse.reshape(-1), self.each.reach.reshape(impulse.size, -1))

    def stiffness(self, slopes: Array) -> Array:
        """``J^T slopes J`` for slopes [K, 3, 3], [nv, nv]: many contacts of one link add up to one
        matrix for its six motions.
        """
        total = jnp.zeros_like(slopes, shape=(self.motions.shape[1],) * 2)
        is_done = np.zeros(self.num_contacts, bool)
        for tree, (velocity, first, count) in zip(self.trees, self.places, strict=True):
            if tree is not None:
                is_done[first : first + count] = True
                end = velocity + tree.topology.nv
                block = tree.stiffness(slopes[first : first + count])
                total = total.at[velocity:end, velocity:end].set(block)
        return total if np.all(is_done) else total + self._of_groups(slopes, is_done)

    def _of_groups(self, slopes: Array, is_done: np.ndarray) -> Array:
        """The same for all contacts but some, group by group."""
        pulled: list[Array] = []
        parts: list[Array] = []
        groups = [np.array(which) for which in self.groups]
        for which, part in zip(groups, motion_slices(groups), strict=True):
            if is_done[which[0]]:
                continue
            parts.append(self.motions[part])
            along = take(self.each.reach[:, :, part], which, axis=0)
            yielding = product(take(slopes, which, axis=0), along)
            width = part.stop - part.start
            on_motions = matmul(along.reshape(-1, width).T, yielding.reshape(-1, width))
            pulled.append(matmul(on_motions, self.motions[part]))
        forces, motions = jnp.concatenate(pulled), jnp.concatenate(parts)
        if self.coupled is None:
            return matmul(motions.T, forces)
        # The zeros of links that are data are not known, so only the others are computed.
        columns = []
        for number, coupled in enumerate(self.coupled):
            rows = np.array(coupled)
            entries = matmul(take(motions, rows).T, forces[:, number])
            columns.append(jnp.zeros_like(forces[0]).at[rows].set(entries))
        return jnp.stack(columns, axis=1)


def contact_rates(row: ContactRow, impulse: Array, motions: Array) -> Array:
    """The contact rates [..., 3] in the laws for motions [S]; the normal one must not be
    negative.
    """
    rate = matmul(row.reach, motions)
    return rate.at[..., 2].add(row.approach + row.softness * impulse[..., 2])


def contact_imbalance(row: ContactRow, impulse: Array, rate: Array) -> Array:
    """The residual [3] of the contact laws, as an impulse, at an impulse [3] and its velocity
    [3].
    """
    normal = _normal(row, impulse[2], rate[2])
    tangents = _within_disc(impulse[:2] - rate[:2] / row.tangential, row.friction * normal)
    return jnp.concatenate([tangents, normal[None]]) - impulse


def law_derivatives(rows: ContactRow, impulse: Array, rate: Array) -> tuple[Array, Array]:
    """Derivatives of :func:`contact_imbalance` by the impulses, softness included, and by the
    rates, [K, 3, 3] each.
    """
    by_impulse, by_rate = jax.vmap(jax.jacfwd(contact_imbalance, (1, 2)))(rows, impulse, rate)
    return by_impulse.at[:, :, 2].add(by_rate[:, :, 2] * rows.softness[:, None]), by_rate


def _normal(row: ContactRow, impulse: Array, rate: Array) -> Array:
    """Solves the normal law, given that the rate changes by ``row.normal`` per impulse."""
    wanted = impulse - rate / row.normal
    if row.smoothing is None:
        return jnp.maximum(wanted, 0)
    # The positive root of x (x - wanted) = E / g, without cancellation.
    share = row.smoothing / row.normal
    root = jnp.sqrt(wanted**2 + 4 * share)
    return jnp.where(
        wanted > 0, 0.5 * (wanted + root), 2 * share / jnp.where(wanted > 0, 1, root - wanted)
    )


def _within_disc(vector: Array, radius: Array) -> Array:
    """Projects a vector [2] onto a disc around zero."""
    square = jnp.sum(vector**2)
    outside = square > radius**2
    length = jnp.sqrt(jnp.where(outside, square, 1))
    return vector * jnp.where(outside, radius / length, 1)


class Touching(struct.PyTreeNode):
    """The contacts of a step."""

    touches: Touches
    choice: Choice
    remembered: ContactMemory | None = None
    """Initial impulses of the contacts, or ``None``."""
    nearest: Touches | None = None
    """The nearest of many contacts with the ground, which probably are all that push; ``None`` if
    there are few. No derivatives."""


def contact_rows(
    articulations: Sequence[Articulation],
    states: Sequence[State],
    contacts: Touches,
    response: Response,
    acting: Sequence[Acting],
    options: SolverOptions,
) -> ContactRows:
    """The rows of all contacts, for the responses of all articulations under their hard
    relations.
    """
    motions, reach, groups = contact_reaches(articulations, states, contacts)
    effect, dt = response.effect(motions), acting[0].dt
    block = contact_blocks(response.reading(motions), effect, reach, groups)
    softness = _softness(contacts, dt)
    velocity = joined(
        [generalized_velocity(*member) for member in zip(articulations, states, strict=True)]
    )
    closing = matmul(reach[:, 2], matmul(motions, velocity))
    tangential = jnp.maximum(block[:, 0, 0], block[:, 1, 1]) + jnp.abs(block[:, 0, 1])
    # The largest entry of a response is on its diagonal because the response is positive
    # semidefinite.
    least = _MIN_MOBILITY * jnp.finfo(dt.dtype).eps * jnp.max(response.diagonal)
    normal = jnp.maximum(block[:, 2, 2], least) + softness
    each = ContactRow(
        reach=reach,
        approach=_approach(contacts, closing, _fall(articulations, contacts), dt, options),
        softness=softness,
        friction=contacts.friction,
        tangential=jnp.maximum(tangential, least),
        normal=normal,
        smoothing=jnp.full_like(normal, options.contact_smoothing)
        if options.contact_smoothing
        else None,
    )
    shared = tuple(tuple(which.tolist()) for which in groups)
    coupled = _coupled(articulations, contacts)
    return ContactRows(motions, each, shared, coupled, *_trees(articulations, states, contacts))


def _trees(
    articulations: Sequence[Articulation], states: Sequence[State], contacts: Touches
) -> tuple[tuple[TreeContacts | None, ...], tuple[tuple[int, int, int], ...]]:
    """The trees of articulations of which many bodies touch the ground, and their places."""
    trees, places, velocity, first = [], [], 0, 0
    for articulation, state, ground in zip(
        articulations, states, contacts.ground_contacts, strict=True
    ):
        tree, count = None, 0 if ground is None else len(ground.contacts.gap)
        if ground is not None:
            tree = _tree(articulation, kinematics(articulation, state), ground)
        trees.append(tree)
        places.append((velocity, first, count))
        velocity, first = velocity + articulation.topology.nv, first + count
    return tuple(trees), tuple(places)


def _tree(
    articulation: Articulation, kin: Kinematics, ground: GroundContacts
) -> TreeContacts | None:
    topology, contacts = articulation.topology, ground.contacts
    frames, numbers = contact_frames(contacts.normal), np.arange(topology.num_bodies)
    if ground.body is not None:
        if products_of_data(topology, len(frames)) < products_by_points(topology, len(frames)):
            on_bodies = (ground.body[:, None] == jnp.asarray(numbers, frames.dtype)).astype(
                frames.dtype
            )
            return tree_contacts(articulation, kin, on_bodies, contacts.point.T, frames)
        return None
    links = topology.geometry_links(ground.geometries)
    if products_along_tree(topology, links) > products_by_groups(topology, links):
        return None
    on_bodies = jnp.asarray(topology.link_body[links][:, None] == numbers, frames.dtype)
    place = contact_points(articulation, kin, links, contacts.point)
    return tree_contacts(articulation, kin, on_bodies, place, frames)


def _coupled(
    articulations: Sequence[Articulation], contacts: Touches
) -> tuple[tuple[int, ...], ...] | None:
    """The velocities that contacts can couple each one with, if that needs to be said.

    A contact with the ground couples those that move its link, whichever link that is.
    """
    if contacts.between is not None or all(
        one is None or one.source is None for one in contacts.ground_contacts
    ):
        return None
    trees = [articulation.topology for articulation in articulations]
    ends = np.cumsum([tree.nv for tree in trees])
    pattern = np.zeros((ends[-1], ends[-1]), bool)
    for tree, end in zip(trees, ends, strict=True):
        pattern[end - tree.nv : end, end - tree.nv : end] = True  # The base moves all links.
        joints = tree.dof_ancestors | tree.dof_ancestors.T
        pattern[end - tree.num_dofs : end, end - tree.num_dofs : end] = joints
    return tuple(tuple(np.flatnonzero(row).tolist()) for row in pattern)


def contact_impulse(
    articulations: Sequence[Articulation],
    states: Sequence[State],
    contacts: Touches,
    impulse: Array,
) -> Array:
    """The generalised impulse [nv] of impulses [K, 3] on the contacts' rows."""
    direction = contact_directions(articulations, states, contacts)
    return matmul(impulse.reshape(-1), direction.reshape(-1, direction.shape[-1]))


#: The share of the smallest gaps that closes in one step. Without it they would vanish only as 1 /
#: steps.
_LEAST_SHARE_CLOSED = 0.05

#: A direction is locked if its remaining mobility is below this, in units of the rounding error.
_MIN_MOBILITY = 100


def _softness(contacts: Touches, dt: Array) -> Array:
    """Velocity per impulse at which a compliant contact yields, ``1 / (k dt (dt + tau))``; Castro
    et al., SAP, 2022.
    """
    return contacts.compliance / (dt * (dt + contacts.relaxation_time))


def _fall(articulations: Sequence[Articulation], contacts: Touches) -> Array:
    """The acceleration with which gravity closes the gaps, [K]. It is zero between links, which
    fall together.
    """
    falls = [
        -jnp.sum(ground.contacts.normal * articulation.gravity, axis=1)
        * _gravity_scale(articulation, ground)
        for articulation, ground in zip(articulations, contacts.ground_contacts, strict=True)
        if ground is not None
    ]
    if contacts.between is not None:
        falls.append(jnp.zeros_like(contacts.between.gap))
    return joined(falls)


def _gravity_scale(articulation: Articulation, ground: GroundContacts) -> Array:
    """How much gravity pulls the link of each contact, [K]."""
    if ground.gravity_scale is not None:
        return ground.gravity_scale
    links = articulation.topology.geometry_links(ground.geometries)
    return take(articulation.gravity_scale, links)


def _approach(
    contacts: Touches, closing: Array, fall: Array, dt: Array, options: SolverOptions
) -> Array:
    """The largest speed at which contacts may close; negative if they must separate.

    Args:
      contacts: the contacts.
      closing: their normal velocities at the start of the step, [K].
      fall: accelerations with which gravity closes them, [K].
      dt: length of the step [s].
      options: options of the solver, with the thresholds for restitution and separation.
    """
    gap = contacts.gap
    excess = jnp.minimum(gap + options.allowed_penetration, 0)
    inside = jnp.maximum(excess / return_time(dt), -options.separation_speed)
    inside = jnp.where(contacts.compliance > 0, gap / (dt + contacts.relaxation_time), inside)
    approach = jnp.where(gap > 0, _share_closed(contacts, options) * gap / dt, inside)
    hits = (closing < -options.restitution_threshold) & (gap + dt * (closing - dt * fall) <= 0)
    return jnp.where(hits, jnp.minimum(approach, -_rebound(contacts, closing, fall, dt)), approach)


def _share_closed(contacts: Touches, options: SolverOptions) -> Array | int:
    """The largest share of its gap that a contact may close in one step, [K]: all of it unless it
    is rigid and small.

    Contacts at rest are open or closed by rounding errors of the root's height, 1e-7 m in float32.
    To close such gaps at once asks for 2e-5 m/s now and then, a jolt of all joints. Small gaps
    therefore close slowly. Not at all would leave nothing that keeps a robot's feet level: it would
    creep by 1e-6 m in a minute.
    """
    allowed = options.allowed_penetration
    if not allowed:
        return 1
    return jnp.where(
        contacts.compliance > 0, 1, jnp.clip(contacts.gap / allowed, _LEAST_SHARE_CLOSED, 1)
    )


def _rebound(contacts: Touches, closing: Array, fall: Array, dt: Array) -> Array:
    """The speed at which contacts that hit during a step separate at its end, [K].

    Steps of a free fall lie on a parabola whose speed is that of the step plus ``dt fall / 2``. On
    it, the speed at which the gap closes is known, and the step ends on the parabola that leaves
    the ground with the restitution times that speed. So a ball rebounds to the right height
    although it hits within a step.
    """
    half, height = 0.5 * dt * fall, jnp.maximum(contacts.gap, 0)
    impact = (closing - half) ** 2 + 2 * fall * height
    square = contacts.restitution**2 * impact - 2 * fall * height
    return jnp.maximum(square_root(square) - half, 0)
