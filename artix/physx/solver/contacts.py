"""The contacts of a step with ``"pgs"`` or ``"tgs"``: finds them, refuses what is unsupported, and reports on them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.ground import Ground
from artix.contact.ground_contacts import GroundContacts, contacts_with_ground
from artix.contact.plane import Plane
from artix.kinematics.forward import kinematics
from artix.math import spatial
from artix.math.arrays import matmul, square_root
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.geometry import GeometryType
from artix.physx.solver.contact_rows import AnchoredContacts, ContactImpulses, ContactRows
from artix.physx.solver.friction_anchors import FrictionAnchors, pair_of_contacts, patches_of
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import ContactReport
from artix.simulation.common.step_start import StepStart

Array = jax.Array


_SHAPES = (GeometryType.SPHERE, GeometryType.CAPSULE, GeometryType.BOX)


def check_rigid(articulation: Articulation, ground: Ground, options: SolverOptions) -> None:
    """Raises ``ValueError`` for compliant shapes or surfaces, if their numbers are not traced."""
    every = {f"ground.surfaces[{k}]": surface.stiffness for k, surface in enumerate(ground.surfaces)}
    every["articulation.geometry"] = articulation.geometry.stiffness
    for where, stiffness in every.items():
        if not isinstance(stiffness, jax.core.Tracer) and not np.all(np.isinf(stiffness)):
            raise ValueError(
                f"solver={options.solver!r} has only rigid contacts, but {where}.stiffness is finite: make it inf, or "
                "use solver='implicit'"
            )


def check_solvable(
    articulation: Articulation, ground: Ground, contacts: GroundContacts, anchors: FrictionAnchors | None
) -> None:
    """Raises ``ValueError`` for unsupported surfaces and shapes, and for a memory of another size."""
    topology = articulation.topology
    for k, surface in enumerate(ground.surfaces):
        if not isinstance(surface, Plane):
            raise ValueError(
                f"solver='pgs' and 'tgs' support only planes; ground.surfaces[{k}] is a {type(surface).__name__}: use "
                "solver='implicit'"
            )
    for k in sorted(set(contacts.geometries)):
        shape = topology.geometries[k]
        if shape.type not in _SHAPES:
            raise ValueError(
                f"solver='pgs' and 'tgs' support spheres, capsules and boxes; {shape.name!r} is a {shape.type.value}: "
                "use solver='implicit', or make it a sensor"
            )
    if anchors is not None:
        pairs = len(patches_of(topology, contacts.geometries, len(ground.surfaces)))
        check_vector(
            "memory.on_link", anchors.on_link, (pairs, 2, 3), articulation.dtype, "P pairs of shape and surface"
        )


def find_contacts(
    articulation: Articulation, state: State, ground: Ground | None, anchors: FrictionAnchors | None
) -> AnchoredContacts | None:
    """The contacts with the ground at the start of a step."""
    if ground is None:
        return None
    kin = kinematics(articulation, state)
    contacts = contacts_with_ground(articulation, kin, ground)
    check_solvable(articulation, ground, contacts, anchors)
    return AnchoredContacts(contacts, ground, kin.reference, anchors)


def contact_wrenches(rows: ContactRows, impulses: ContactImpulses, dt: Array, links: int) -> Array:
    """Mean wrenches of all contacts on the links at their centres of mass, [L, 6]."""
    of_anchor = np.repeat(np.array(rows.links, int), 4)
    wrench = jnp.concatenate([rows.normal.wrench, rows.friction.wrench.reshape(-1, 6)])
    impulse = jnp.concatenate([impulses.normal, jnp.ravel(impulses.friction)])
    onto = np.concatenate([rows.contact_links, of_anchor])[None] == np.arange(links)[:, None]
    return matmul(jnp.asarray(onto, impulse.dtype), impulse[:, None] * wrench) / dt


def contact_report(
    at_start: StepStart,
    touching: AnchoredContacts,
    rows: ContactRows,
    impulses: ContactImpulses,
    corrections: Array,
    change: Array,
    dt: Array,
) -> ContactReport:
    """The report on all contacts. A pair's friction is divided among its contacts by their normal impulses.

    Args:
      at_start: the articulation at the start of the step.
      touching: the contacts.
      rows: their rows.
      impulses: their impulses.
      corrections: corrections of the rows' rates in the last sweep, [K + 4 P].
      change: change of the generalised velocity by all impulses, [nv].
      dt: length of the step [s].
    """
    contacts, pair = touching.ground_contacts.contacts, pair_of_contacts(rows.patches)
    index = np.array(contacts.links, int)
    frame = at_start.frame.take(index)
    place = spatial.rotate(frame.rotation, contacts.point.T) + frame.position
    tangents = rows.friction.wrench[:, 0, :, :3]
    pressed = jnp.stack([sum(impulses.normal[k] for k in numbers) for numbers in rows.patches])[pair]
    share = jnp.where(pressed > 0, impulses.normal / jnp.where(pressed > 0, pressed, 1), 0)
    pull = share[:, None] * jnp.sum(impulses.friction, axis=1)[pair]
    force = (jnp.sum(pull[:, :, None] * tangents[pair], axis=1) + impulses.normal[:, None] * contacts.normal) / dt
    rate = rows.friction.free_rate[:, 0] + jnp.sum(rows.friction.direction[:, 0] * change, axis=-1)
    touches, slips = impulses.normal > 0, impulses.slips[pair]
    response = jnp.concatenate([rows.normal.response, jnp.ravel(rows.friction.response)])
    moves = response > 0
    missed = jnp.where(moves, corrections / jnp.where(moves, response, 1), 0)
    links = at_start.topology.num_links
    return ContactReport(
        links=contacts.links,
        geometries=touching.ground_contacts.geometries,
        point=(place + touching.reference[:, None]).T,
        normal=contacts.normal,
        gap=contacts.gap,
        force=force,
        impulse=jnp.concatenate([pull, impulses.normal[:, None]], axis=1),
        slip=square_root(jnp.sum(rate**2, axis=1)[pair]),
        sticks=touches & ~slips,
        slides=touches & slips,
        link_force=contact_wrenches(rows, impulses, dt, links)[:, :3],
        omitted=touching.ground_contacts.omitted,
        residual=jnp.max(jnp.abs(missed), initial=0),
    )
