"""Contacts with the ground as bounds of an implicit step's velocity."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.constraints.contact_points import contact_jacobian, contact_points, motions_at
from artix.constraints.contacts import Contacts, contact_frames
from artix.contact.selection import Choice
from artix.kinematics.solve import kinematics
from artix.kinematics.velocities import generalized_velocity
from artix.math import spatial, struct
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_rows import ContactRow, ContactRows, LinkMotions
from artix.simulation.implicit.system import ERROR_REDUCTION, Acting

Array = jax.Array


class Touching(struct.PyTreeNode):
    """The contacts of a step."""

    contacts: Contacts
    choice: Choice
    remembered: ContactMemory | None = None
    """Impulses with which to begin, of the contacts; ``None`` for none."""


def contact_rows(
    articulation: Articulation,
    state: State,
    contacts: Contacts,
    response: Array,
    acting: Acting,
    options: SolverOptions,
) -> ContactRows:
    """The rows of all contacts, for a response [nv, nv] within the hard relations."""
    direction, reach = _reaches(articulation, state, contacts)
    effect, dt = matmul(direction, response.T), acting.dt
    coupling = matmul(direction, effect.T)
    if not any(group.transmitted is not None for group in acting.springs):  # PhysX's fixed tendons do not answer alike.
        coupling = jnp.where(np.tri(len(coupling), dtype=bool), coupling, coupling.T)
    links = LinkMotions(direction, effect, coupling)
    block = jnp.sum(matmul(reach, links.coupling)[:, :, None] * reach[:, None], axis=3)
    softness = _softness(contacts, dt)
    closing = matmul(reach[:, 2], links.of(generalized_velocity(articulation, state)))
    tangential = jnp.maximum(block[:, 0, 0], block[:, 1, 1]) + jnp.abs(block[:, 0, 1])
    # What hard relations lock shall get no impulse from a division by its vanishing mobility.
    least = _LEAST_MOBILITY * jnp.finfo(dt.dtype).eps * jnp.max(jnp.abs(response))
    normal = jnp.maximum(block[:, 2, 2] + softness, least)
    stiffened = block + jnp.diag(jnp.array([0, 0, 1], block.dtype)) * softness[:, None, None]
    stiffened = stiffened + least * jnp.eye(3, dtype=block.dtype)
    each = ContactRow(
        reach=reach,
        approach=_approach(contacts, closing, dt, options),
        softness=softness,
        friction=contacts.friction,
        block=block,
        sticking=jnp.moveaxis(spatial.inverse(jnp.moveaxis(stiffened, 0, -1)), -1, 0),
        tangential=jnp.maximum(tangential, least),
        normal=normal,
        smoothing=jnp.full_like(normal, options.contact_smoothing) if options.contact_smoothing else None,
    )
    return ContactRows(links, each)


def contact_impulse(articulation: Articulation, state: State, contacts: Contacts, impulse: Array) -> Array:
    """The generalised impulse [nv] of impulses [K, 3] on the contacts' rows."""
    direction = _directions(articulation, state, contacts)
    return matmul(impulse.reshape(-1), direction.reshape(-1, direction.shape[-1]))


def _reaches(articulation: Articulation, state: State, contacts: Contacts) -> tuple[Array, Array]:
    """The motions of the links that touch per generalised velocity, [S, nv], and the contacts' per those, [K, 3, S]."""
    kin, frames = kinematics(articulation, state), contact_frames(contacts.normal)
    numbers = np.array(contacts.links, int)
    place = contact_points(articulation, kin, numbers, contacts.point)
    links = np.array(list(dict.fromkeys(contacts.links)), int)
    of_link = [np.flatnonzero(numbers == link) for link in links]
    middle = jnp.stack([jnp.mean(place[:, which], axis=1) for which in of_link], axis=1)
    motions = motions_at(articulation, kin, links, middle)
    sizes = [3 if len(which) == 1 else 6 for which in of_link]
    direction = jnp.concatenate([motions[:size, k] for k, size in enumerate(sizes)])
    reach: list[Array] = [frames[:0]] * len(numbers)
    for k, which in enumerate(of_link):
        for contact in which:
            local = frames[contact]
            if sizes[k] == 6:
                lever = place[:, contact] - middle[:, k]
                local = jnp.concatenate([local, spatial.cross(lever[:, None], local.T).T], axis=1)
            reach[contact] = jnp.pad(local, ((0, 0), (sum(sizes[:k]), sum(sizes[k + 1 :]))))
    return direction, jnp.stack(reach)


def _directions(articulation: Articulation, state: State, contacts: Contacts) -> Array:
    """The contacts' velocities along two tangents and the normal, per generalised velocity, [K, 3, nv]."""
    kin, frames = kinematics(articulation, state), contact_frames(contacts.normal)
    return contact_jacobian(articulation, kin, contacts.links, contacts.point, frames)


#: What hard relations leave less than this of its mobility, in units of the rounding error, is locked.
_LEAST_MOBILITY = 100


def _softness(contacts: Contacts, dt: Array) -> Array:
    """How fast a compliant contact gives way per impulse, ``1 / (k dt (dt + tau))``; Castro et al., SAP, 2022."""
    if contacts.compliance is None:
        return jnp.zeros_like(contacts.gap)
    return contacts.compliance / (dt * (dt + _relaxation(contacts)))


def _approach(contacts: Contacts, closing: Array, dt: Array, options: SolverOptions) -> Array:
    """The speed at which contacts may close; negative where they have to separate.

    Args:
      contacts: they.
      closing: their normal velocities at the start of the step, [K].
      dt: the step [s].
      options: the speeds at which restitution begins and penetration ends.
    """
    gap = contacts.gap
    excess = jnp.minimum(gap + options.allowed_penetration, 0)
    inside = jnp.maximum(ERROR_REDUCTION * excess / dt, -options.max_separation_speed)
    if contacts.compliance is not None:
        inside = jnp.where(contacts.compliance > 0, gap / (dt + _relaxation(contacts)), inside)
    approach = jnp.where(gap > 0, gap / dt, inside)
    if contacts.restitution is None:
        return approach
    hits = (closing < -options.restitution_threshold) & (gap + dt * closing <= 0)
    return jnp.where(hits, jnp.minimum(approach, contacts.restitution * closing), approach)


def _relaxation(contacts: Contacts) -> Array:
    return jnp.zeros_like(contacts.gap) if contacts.relaxation_time is None else contacts.relaxation_time
