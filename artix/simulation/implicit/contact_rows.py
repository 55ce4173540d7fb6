"""Contacts as rows of the implicit solver, three velocities each: two tangential ones and a normal
one.

Contacts move with their links. For a link with a single contact, three motions matter, those of the
point. For a link with several, such as a flat foot, it is six, however many contacts there are. The
rest of the solver works with these motions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.ground_contacts import GroundContacts
from artix.contact.selection import Choice
from artix.kinematics.configuration import generalized_velocity
from artix.kinematics.contact_points import contact_frames, contact_points
from artix.kinematics.forward import kinematics
from artix.math import struct
from artix.math.arrays import joined, matmul, square_root, take
from artix.model.articulation import Articulation, State
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_motions import (
    JoinedContacts,
    Touches,
    contact_blocks,
    contact_directions,
    contact_reaches,
)
from artix.simulation.implicit.contact_stiffness import (
    TreeContacts,
    products_along_tree,
    products_by_groups,
    products_by_points,
    products_of_data,
    tree_contacts,
)
from artix.simulation.implicit.joint_rows import return_time
from artix.simulation.implicit.resolvents import ContactRow
from artix.simulation.implicit.rows import ContactRows
from artix.simulation.implicit.system import Acting, Response

Array = jax.Array


def contact_rates(row: ContactRow, impulse: Array, motions: Array) -> Array:
    """The contact rates [..., 3] in the laws for motions [S]; the normal one must not be
    negative.
    """
    rate = matmul(row.reach, motions)
    return rate.at[..., 2].add(row.approach + row.softness * impulse[..., 2])


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
    velocity = joined(
        [generalized_velocity(*member) for member in zip(articulations, states, strict=True)]
    )
    closing = matmul(reach[:, 2], matmul(motions, velocity))
    # The largest entry of a response is on its diagonal because the response is positive
    # semidefinite.
    largest = jnp.max(response.diagonal)
    fall = _fall(articulations, contacts)
    each = contact_row(contacts, reach, block, closing, fall, largest, dt, options)
    shared = tuple(tuple(which.tolist()) for which in groups)
    coupled = _coupled(articulations, contacts)
    return ContactRows(motions, each, shared, coupled, *_trees(articulations, states, contacts))


def contact_row(
    contacts: JoinedContacts,
    reach: Array | None,
    block: Array,
    closing: Array,
    fall: Array,
    largest: Array,
    dt: Array,
    options: SolverOptions,
) -> ContactRow:
    """The laws of contacts.

    Args:
      contacts: the contacts.
      reach: their velocities per motion, [K, 3, S], if rows compute velocities by it.
      block: their velocities per impulse of their own, [K, 3, 3].
      closing: their normal velocities at the start, [K].
      fall: accelerations along the normals at which what they touch would fall, [K].
      largest: the largest entry of the response, [].
      dt: length of the step [s].
      options: the solver's options.
    """
    softness = _softness(contacts, dt)
    tangential = jnp.maximum(block[:, 0, 0], block[:, 1, 1]) + jnp.abs(block[:, 0, 1])
    least = _MIN_MOBILITY * jnp.finfo(dt.dtype).eps * largest
    normal = jnp.maximum(block[:, 2, 2], least) + softness
    return ContactRow(
        reach=cast(Array, reach),
        approach=_approach(contacts, closing, fall, dt, options),
        softness=softness,
        friction=contacts.friction,
        tangential=jnp.maximum(tangential, least),
        normal=normal,
        smoothing=jnp.full_like(normal, options.contact_smoothing)
        if options.contact_smoothing
        else None,
    )


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
            tree = _tree(articulation, state, ground)
        trees.append(tree)
        places.append((velocity, first, count))
        velocity, first = velocity + articulation.topology.nv, first + count
    return tuple(trees), tuple(places)


def _tree(articulation: Articulation, state: State, ground: GroundContacts) -> TreeContacts | None:
    topology, contacts = articulation.topology, ground.contacts
    numbers = np.arange(topology.num_bodies)
    if ground.body is not None:
        count = len(contacts.gap)
        if products_of_data(topology, count) >= products_by_points(topology, count):
            return None
        kin, place = kinematics(articulation, state), contacts.point.T
        is_on = ground.body[:, None] == jnp.asarray(numbers, ground.body.dtype)
    else:
        links = topology.geometry_links(ground.geometries)
        if products_along_tree(topology, links) > products_by_groups(topology, links):
            return None
        kin = kinematics(articulation, state)
        place = contact_points(articulation, kin, links, contacts.point)
        is_on = jnp.asarray(topology.link_body[links][:, None] == numbers)
    on_bodies = is_on.astype(contacts.gap.dtype)
    return tree_contacts(articulation, kin, on_bodies, place, contact_frames(contacts.normal))


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


def _softness(contacts: JoinedContacts, dt: Array) -> Array:
    """Velocity per impulse at which a compliant contact yields, ``1 / (k dt (dt + tau))``; Castro
    et al., SAP, 2022.
    """
    return contacts.compliance / (dt * (dt + contacts.relaxation_time))


def _fall(articulations: Sequence[Articulation], contacts: Touches) -> Array:
    """The acceleration with which gravity closes the gaps, [K]. It is zero between links, which
    fall together.
    """
    falls = [
        fall_on_ground(articulation, ground)
        for articulation, ground in zip(articulations, contacts.ground_contacts, strict=True)
        if ground is not None
    ]
    if contacts.between is not None:
        falls.append(jnp.zeros_like(contacts.between.gap))
    return joined(falls)


def fall_on_ground(articulation: Articulation, ground: GroundContacts) -> Array:
    """The same for an articulation's contacts with the ground, [K]."""
    fall = -jnp.sum(ground.contacts.normal * articulation.gravity, axis=1)
    return fall * _gravity_scale(articulation, ground)


def _gravity_scale(articulation: Articulation, ground: GroundContacts) -> Array:
    """How much gravity pulls the link of each contact, [K]."""
    if ground.gravity_scale is not None:
        return ground.gravity_scale
    links = articulation.topology.geometry_links(ground.geometries)
    return take(articulation.gravity_scale, links)


def _approach(
    contacts: JoinedContacts, closing: Array, fall: Array, dt: Array, options: SolverOptions
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


def _share_closed(contacts: JoinedContacts, options: SolverOptions) -> Array | int:
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


def _rebound(contacts: JoinedContacts, closing: Array, fall: Array, dt: Array) -> Array:
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
