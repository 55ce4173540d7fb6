"""Reports on an implicit step's contacts: forces, impulses and slip."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.constraints.contact_points import Contacts, contact_frames, contact_points
from artix.contact.link_contacts import LinkContacts, pair_links, shapes_of_pairs
from artix.kinematics.solve import Kinematics, link_centers
from artix.math import spatial
from artix.math.arrays import matmul
from artix.model.articulation import Articulation
from artix.model.topology import Topology
from artix.simulation.common.report import ContactReport, LinkContactReport
from artix.simulation.implicit.contact_rows import ContactRows, contact_imbalance, contact_rates
from artix.simulation.implicit.touches import Touches

Array = jax.Array

#: Part of the friction that counts as all of it.
_BORDER = 1e-5


class _Done(NamedTuple):
    """What contacts have done, K of them; named as in the reports."""

    force: Array
    impulse: Array
    slip: Array
    sticks: Array
    slides: Array
    lacking: Array
    """What each impulse lacks by the laws, [K, 3]."""

    def part(self, which: slice) -> _Done:
        return _Done(*(array[which] for array in self))


def contact_reports(
    articulation: Articulation,
    kin: Kinematics,
    touches: Touches,
    rows: ContactRows,
    impulse: Array,
    velocity: Array,
    dt: Array,
) -> tuple[ContactReport | None, LinkContactReport | None, Array]:
    """The reports on contacts with the ground and between links, and the wrenches on links at their centres, [L, 6].

    Args:
      articulation: the articulation.
      kin: its kinematics at the start of the step.
      touches: the contacts.
      rows: their rows.
      impulse: their impulses, [K, 3].
      velocity: the generalised velocity at the end of the step, [nv].
      dt: the step [s].
    """
    done = _done(touches, rows, impulse, velocity, dt)
    on_ground = between = None
    wrenches = []
    if touches.ground is not None:
        part = done.part(slice(None, touches.num_on_ground))
        on_ground, wrench = _ground_report(articulation, kin, touches.ground, part)
        wrenches.append(wrench)
    if touches.between is not None:
        part = done.part(slice(touches.num_on_ground, None))
        between, wrench = _link_report(articulation, kin, touches.between, part)
        wrenches.append(wrench)
    return on_ground, between, sum(wrenches[1:], start=wrenches[0])


def _done(touches: Touches, rows: ContactRows, impulse: Array, velocity: Array, dt: Array) -> _Done:
    frames = contact_frames(touches.normal)
    force = jnp.sum(impulse[:, :, None] * frames, axis=1) / dt
    rates = contact_rates(rows.each, impulse, rows.links.of(velocity))
    lacking = jax.vmap(contact_imbalance)(rows.each, impulse, rates)
    # In touch and within the cone but for rounding.
    held = impulse[:, 2] * touches.friction
    pull = jnp.sum(impulse[:, :2] ** 2, axis=1)
    touching = impulse[:, 2] > 0
    sticks = touching & (pull < (held * (1 - _BORDER)) ** 2)
    square = jnp.sum(rates[:, :2] ** 2, axis=1)
    slip = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
    return _Done(force, impulse, slip, sticks, touching & ~sticks, lacking)


def _ground_report(
    articulation: Articulation, kin: Kinematics, contacts: Contacts, done: _Done
) -> tuple[ContactReport, Array]:
    links = np.array(contacts.links, int)
    place = contact_points(articulation, kin, links, contacts.point)
    lever = place - link_centers(articulation, kin)[:, links]
    wrench = jnp.concatenate([done.force, spatial.cross(lever, done.force.T).T], axis=1)
    onto = jnp.asarray(links[None] == np.arange(articulation.topology.num_links)[:, None], wrench.dtype)
    on_links = matmul(onto, wrench)
    report = ContactReport(
        links=contacts.links,
        point=(place + kin.reference[:, None]).T,
        normal=contacts.normal,
        gap=contacts.gap,
        force=done.force,
        impulse=done.impulse,
        slip=done.slip,
        sticks=done.sticks,
        slides=done.slides,
        link_force=on_links[:, :3],
        residual=jnp.max(jnp.abs(done.lacking), initial=0),
    )
    return report, on_links


def _link_report(
    articulation: Articulation, kin: Kinematics, contacts: LinkContacts, done: _Done
) -> tuple[LinkContactReport, Array]:
    topology = articulation.topology
    assert isinstance(topology, Topology)
    of_pair = contacts.pair[:, None] == jnp.arange(len(topology.geometry_pairs), dtype=contacts.pair.dtype)

    def looked_up(table: np.ndarray) -> Array:
        """The entries [K, 2] of a table of pairs, [P, 2]."""
        return jnp.sum(jnp.where(of_pair[:, :, None], jnp.asarray(table, jnp.int32), 0), axis=1, dtype=jnp.int32)

    links = looked_up(pair_links(topology))
    numbers = jnp.arange(topology.num_links, dtype=jnp.int32)[:, None]
    onto = (numbers == links[:, 0]).astype(done.force.dtype) - (numbers == links[:, 1]).astype(done.force.dtype)
    moment = spatial.cross(contacts.point.T, done.force.T).T
    at_reference = matmul(onto, jnp.concatenate([done.force, moment], axis=1))
    centers = link_centers(articulation, kin)
    turning = at_reference[:, 3:] - spatial.cross(centers, at_reference[:, :3].T).T
    report = LinkContactReport(
        geometries=looked_up(shapes_of_pairs(topology)),
        links=links,
        point=contacts.point + kin.reference,
        normal=contacts.normal,
        gap=contacts.gap,
        force=done.force,
        impulse=done.impulse,
        slip=done.slip,
        sticks=done.sticks,
        slides=done.slides,
        link_force=at_reference[:, :3],
        omitted=contacts.omitted,
        residual=jnp.max(jnp.abs(done.lacking), initial=0),
    )
    return report, jnp.concatenate([at_reference[:, :3], turning], axis=1)
