"""Contacts with the ground as bounds of an implicit step's velocity."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from artix.constraints.contact_points import contact_jacobian
from artix.constraints.contacts import Contacts, contact_frames
from artix.kinematics.solve import kinematics
from artix.kinematics.velocities import generalized_velocity
from artix.math import spatial
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_rows import ContactRow
from artix.simulation.implicit.system import ERROR_REDUCTION

Array = jax.Array


class Touching(struct.PyTreeNode):
    """The contacts of a step."""

    contacts: Contacts
    remembered: ContactMemory | None = None
    """Impulses with which to begin; ``None`` for none."""


def contact_rows(
    articulation: Articulation, state: State, contacts: Contacts, response: Array, dt: Array, options: SolverOptions
) -> ContactRow:
    """The rows of all contacts, for a response [nv, nv] within the hard relations."""
    direction = _directions(articulation, state, contacts)
    effect = matmul(direction, response.T)
    block = jnp.sum(direction[:, :, None] * effect[:, None], axis=3)
    softness = _softness(contacts, dt)
    closing = matmul(direction[:, 2], generalized_velocity(articulation, state))
    tangential = jnp.maximum(block[:, 0, 0], block[:, 1, 1]) + jnp.abs(block[:, 0, 1])
    # What hard relations lock shall get no impulse from a division by its vanishing mobility.
    least = _LEAST_MOBILITY * jnp.finfo(dt.dtype).eps * jnp.max(jnp.abs(response))
    normal = jnp.maximum(block[:, 2, 2] + softness, least)
    stiffened = block + jnp.diag(jnp.array([0, 0, 1], block.dtype)) * softness[:, None, None]
    stiffened = stiffened + least * jnp.eye(3, dtype=block.dtype)
    return ContactRow(
        direction=direction,
        effect=effect,
        approach=_approach(contacts, closing, dt, options),
        softness=softness,
        friction=contacts.friction,
        block=block,
        sticking=jnp.moveaxis(spatial.inverse(jnp.moveaxis(stiffened, 0, -1)), -1, 0),
        tangential=jnp.maximum(tangential, least),
        normal=normal,
    )


def contact_impulse(articulation: Articulation, state: State, contacts: Contacts, impulse: Array) -> Array:
    """The generalised impulse [nv] of impulses [K, 3] on the contacts' rows."""
    direction = _directions(articulation, state, contacts)
    return matmul(impulse.reshape(-1), direction.reshape(-1, direction.shape[-1]))


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
