"""What the contacts of an implicit step have done."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.constraints.contact_points import contact_points
from artix.constraints.contacts import Contacts, contact_frames
from artix.kinematics.solve import Kinematics, link_centers
from artix.math import spatial
from artix.math.arrays import matmul
from artix.model.articulation import Articulation
from artix.simulation.common.report import ContactReport
from artix.simulation.implicit.contact_rows import ContactRows, contact_imbalance, contact_rates

Array = jax.Array


def contact_report(
    articulation: Articulation,
    kin: Kinematics,
    contacts: Contacts,
    rows: ContactRows,
    impulse: Array,
    velocity: Array,
    dt: Array,
) -> tuple[ContactReport, Array]:
    """The report, and the wrenches on the links at their centres of mass, [L, 6].

    Args:
      articulation: the articulation.
      kin: its kinematics at the start of the step.
      contacts: they.
      rows: their rows.
      impulse: their impulses, [K, 3].
      velocity: the generalised velocity at the end of the step, [nv].
      dt: the step [s].
    """
    links = np.array(contacts.links, int)
    frames = contact_frames(contacts.normal)
    force = jnp.sum(impulse[:, :, None] * frames, axis=1) / dt
    place = contact_points(articulation, kin, links, contacts.point)
    lever = place - link_centers(articulation, kin)[:, links]
    wrench = jnp.concatenate([force, spatial.cross(lever, force.T).T], axis=1)
    onto = jnp.asarray(links[None] == np.arange(articulation.topology.num_links)[:, None], force.dtype)
    on_links = matmul(onto, wrench)
    rates = contact_rates(rows.each, impulse, rows.links.of(velocity))
    lacking = jax.vmap(contact_imbalance)(rows.each, impulse, rates)
    # In touch and within the cone but for rounding.
    held = impulse[:, 2] * contacts.friction
    pull = jnp.sum(impulse[:, :2] ** 2, axis=1)
    touches = impulse[:, 2] > 0
    sticks = touches & (pull < (held * (1 - _BORDER)) ** 2)
    square = jnp.sum(rates[:, :2] ** 2, axis=1)
    report = ContactReport(
        links=contacts.links,
        point=(place + kin.reference[:, None]).T,
        normal=contacts.normal,
        gap=contacts.gap,
        force=force,
        impulse=impulse,
        slip=jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0),
        sticks=sticks,
        slides=touches & ~sticks,
        link_force=on_links[:, :3],
        residual=jnp.max(jnp.abs(lacking), initial=0),
    )
    return report, on_links


#: Part of the friction that counts as all of it.
_BORDER = 1e-5
