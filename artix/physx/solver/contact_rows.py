"""Contacts with the ground in Gauss-Seidel sweeps, by PhysX's law: their rows, and one sweep over
them.

Every pair of a shape and a surface has one normal row per contact, and two tangential rows for each
of its two friction anchors; see :mod:`artix.physx.solver.friction_anchors`. A sweep solves normal
rows first, then friction.

Contacts of a step are determined here too, what is unsupported is refused, and the report is
written.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.ground import Ground, Plane
from artix.contact.ground_contacts import GroundContacts, contacts_with_ground
from artix.kinematics.contact_points import Contacts
from artix.kinematics.forward import kinematics
from artix.math import spatial
from artix.math.arrays import largest_magnitude, matmul, square_root
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.geometry import GeometryType
from artix.physx.solver.friction_anchors import (
    FrictionAnchors,
    PairAnchors,
    Patch,
    manifolds,
    move_anchors,
    pair_of_contacts,
    patches_of,
    present,
    update_anchors,
)
from artix.physx.solver.joint_rows import Sweep
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import ContactReport
from artix.simulation.common.step_start import StepStart, point_row

Array = jax.Array


class AnchoredContacts(NamedTuple):
    """The contacts of a step, and the friction anchors of the previous step."""

    ground_contacts: GroundContacts
    ground: Ground
    reference: Array
    """The reference point in the world, [3]."""
    anchors: FrictionAnchors | None
    """``None`` without memory: every step then has new anchors."""


class NormalRow(NamedTuple):
    """Normal rows of contacts, each with a leading axis [K]."""

    wrench: Array
    """Wrench of a unit impulse on the link at its centre of mass, [6]."""
    direction: Array
    """Derivative of the separation rate with respect to the generalised velocity, [nv]."""
    effect: Array
    """Change of the generalised velocity per unit impulse, [nv]."""
    response: Array
    """Rate per impulse."""
    softened: Array
    """Impulse per rate; 0 for a contact that is too far away to count."""
    free_rate: Array
    """Separation rate before any impulse."""
    gap: Array
    """Gap at the start of the step [m]. For bouncing contacts, TGS changes it as if the bounce had
    already happened."""
    error_reduction: Array
    """Fraction of the gap that a sweep closes, or of a penetration that it removes."""
    target_rate: Array
    """Separation rate after a bounce; 0 without one."""
    bounces: Array
    """Whether the contact bounces."""


class FrictionRow(NamedTuple):
    """Friction anchors, each with leading axes [P, 2 anchors, 2 tangents] unless said otherwise."""

    wrench: Array
    direction: Array
    effect: Array
    response: Array
    softened: Array
    """Impulse per rate times the relaxation; 0 for an anchor that is absent."""
    free_rate: Array
    error: Array
    """Displacement of the anchor along the tangent at the start of the step [m]."""
    friction: Array
    """Largest tangential impulse of an anchor per normal impulse of the pair, [P]."""
    floor: Array
    """Lower bound of the normal impulse that counts for friction, [P]."""


class ContactRows(NamedTuple):
    """All contacts with the ground."""

    normal: NormalRow
    friction: FrictionRow
    patches: tuple[tuple[int, ...], ...]
    """The contacts of each pair, in the order in which they are solved."""
    links: tuple[int, ...]
    """The link of each pair."""
    max_separation_speed: float

    @property
    def contact_links(self) -> np.ndarray:
        """The link of each contact, [K]."""
        return np.array(self.links, int)[pair_of_contacts(self.patches)]


class StepContacts(NamedTuple):
    """The rows of a step's contacts, and what is kept of them for the next step."""

    rows: ContactRows
    anchors: list[PairAnchors]
    search_poses: Array
    """World poses of the pairs' links when their contacts were last searched, [P, 7]."""


#: Fraction of a penetration that one PGS sweep removes, and underrelaxation of friction, both as in
#: PhysX.
PENETRATION_REDUCTION = 0.8


def contact_rows(
    articulation: Articulation,
    at_start: StepStart,
    touching: AnchoredContacts,
    motion: Array,
    dt: Array,
    options: SolverOptions,
) -> StepContacts:
    """The contacts of a step; ``motion`` [L, 6] are the links' velocities before any impulse."""
    contacts = touching.ground_contacts.contacts
    patches = patches_of(
        at_start.topology, touching.ground_contacts.geometries, len(touching.ground.surfaces)
    )
    links = tuple(contacts.links[numbers[0]] for numbers in patches)
    before = None if touching.anchors is None else touching.anchors.search_poses
    point, near, search_poses = manifolds(
        articulation,
        at_start,
        touching.ground_contacts,
        patches,
        before,
        touching.reference,
        options.contact_distance,
    )
    normal = _normal_rows(articulation, at_start, contacts, point, near, motion, dt, options)
    anchors = [
        _anchor(at_start, touching, p, links[p], _patch(contacts, point, near, numbers))
        for p, numbers in enumerate(patches)
    ]
    floor = _floor(normal, contacts.gap, near, patches, dt, options)
    friction = _friction_rows(
        articulation, at_start, contacts, patches, links, anchors, floor, motion, options
    )
    rows = ContactRows(normal, friction, patches, links, options.separation_speed)
    return StepContacts(rows, anchors, search_poses)


def relaxation(options: SolverOptions) -> float:
    """Fraction of an error that a sweep removes. PhysX's TGS, with its many small steps, removes
    less.
    """
    if options.solver == "tgs":
        return min(PENETRATION_REDUCTION, 2 / options.position_iterations**0.5)
    return PENETRATION_REDUCTION


def _patch(contacts: Contacts, point: Array, near: Array, numbers: tuple[int, ...]) -> Patch:
    index = np.array(numbers)
    return Patch(near[index], point[index], contacts.gap[index], contacts.normal[index[0]])


def _anchor(
    at_start: StepStart, touching: AnchoredContacts, pair: int, link: int, patch: Patch
) -> PairAnchors:
    if touching.anchors is None:
        nowhere = jnp.zeros_like(patch.point, shape=(2, 3))
        return update_anchors(
            patch, PairAnchors(nowhere, nowhere, patch.normal, jnp.zeros_like(patch.gap[0]))
        )
    return update_anchors(
        patch, move_anchors(touching.anchors, pair, at_start.frame.take([link]), touching.reference)
    )


def _normal_rows(
    articulation: Articulation,
    at_start: StepStart,
    contacts: Contacts,
    point: Array,
    near: Array,
    motion: Array,
    dt: Array,
    options: SolverOptions,
) -> NormalRow:
    links = np.array(contacts.links, int)
    wrench = point_row(at_start, links, point, contacts.normal)
    direction, effect, response = _responses(at_start, links, wrench)
    rate = jnp.sum(wrench * motion[links], axis=1)
    restitution = jnp.zeros_like(rate) if contacts.restitution is None else contacts.restitution
    gap = contacts.gap
    softness = mobility_softness(articulation, at_start)[links]
    bounces = (restitution > 0) & (rate < -options.restitution_threshold) & (-rate > gap / dt)
    target = jnp.where(bounces, -restitution * rate, 0)
    reduction = jnp.where(gap > 0, jnp.ones_like(gap), relaxation(options))
    if options.solver == "tgs":
        # Between the bounce and the end of the step the contact separates.
        after = dt + gap / jnp.where(bounces, rate, jnp.ones_like(rate))
        gap = gap + jnp.where(bounces, target * after, 0)
    softened = jnp.where(near, 1 / (response + softness), 0)
    return NormalRow(
        wrench, direction, effect, response, softened, rate, gap, reduction, target, bounces
    )


def _floor(
    rows: NormalRow,
    gap: Array,
    near: Array,
    patches: tuple[tuple[int, ...], ...],
    dt: Array,
    options: SolverOptions,
) -> Array:
    """The normal impulse with which friction starts: a quarter of the mean that each contact would
    need alone, [P].
    """
    closing = gap / dt if options.solver == "tgs" else jnp.maximum(gap / dt, 0)
    alone = jnp.maximum((rows.target_rate - rows.free_rate - closing) * rows.softened, 0)
    every = []
    for numbers in patches:
        index = np.array(numbers)
        count = jnp.maximum(jnp.sum(near[index].astype(alone.dtype)), 1)
        every.append(0.25 * jnp.sum(alone[index]) / count)
    return jnp.stack(every)


def _friction_rows(
    articulation: Articulation,
    at_start: StepStart,
    contacts: Contacts,
    patches: tuple[tuple[int, ...], ...],
    links: tuple[int, ...],
    anchors: list[PairAnchors],
    floor: Array,
    motion: Array,
    options: SolverOptions,
) -> FrictionRow:
    on_link = jnp.stack([one.on_link for one in anchors])
    dragged = on_link - jnp.stack([one.on_ground for one in anchors])
    count = jnp.stack([one.total for one in anchors])
    first = np.array([numbers[0] for numbers in patches])
    of_link = np.array(links, int)
    tangents = _tangents(contacts.normal[first], motion[of_link, :3])
    shape = (len(patches), 2, 2)
    point, direction = (
        jnp.broadcast_to(each, (*shape, 3)).reshape(-1, 3)
        for each in (on_link[:, :, None], tangents[:, None])
    )
    owner = np.repeat(of_link, 4)
    wrench = point_row(at_start, owner, point, direction)
    rows, effect, response = _responses(at_start, owner, wrench)
    softness = mobility_softness(articulation, at_start)[owner]
    is_there = jnp.repeat(present(count).reshape(-1), 2)
    softened = jnp.where(is_there, relaxation(options) / (response + softness), 0)
    rate = jnp.sum(wrench * motion[owner], axis=1)
    error = jnp.where(
        is_there, jnp.sum(direction * jnp.repeat(dragged.reshape(-1, 3), 2, axis=0), axis=1), 0
    )
    friction = contacts.friction[first] * jnp.where(count == 2, 0.5, 1.0).astype(error.dtype)
    return FrictionRow(
        wrench=wrench.reshape(*shape, 6),
        direction=rows.reshape(*shape, -1),
        effect=effect.reshape(*shape, -1),
        response=response.reshape(shape),
        softened=softened.reshape(shape),
        free_rate=rate.reshape(shape),
        error=error.reshape(shape),
        friction=friction,
        floor=floor,
    )


def _tangents(normal: Array, velocity: Array) -> Array:
    """Two tangents [P, 2, 3]: along the velocity of the link's centre of mass if it moves, and
    across it.
    """
    n, v = normal.T, velocity.T
    along = v - spatial.dot(n, v) * n
    square = spatial.dot(along, along)
    x, y, z = n
    zero = jnp.zeros_like(x)
    steep = jnp.abs(x) >= 0.70710678
    fixed = jnp.where(steep, jnp.stack([-y, x, zero]), jnp.stack([zero, -z, y]))
    first = jnp.where(square > 1e-4, along, fixed)
    first = first * jax.lax.rsqrt(spatial.dot(first, first))
    return jnp.stack([first, spatial.cross(n, first)]).transpose(2, 0, 1)


def _responses(at_start: StepStart, links: np.ndarray, wrench: Array) -> tuple[Array, Array, Array]:
    """Directions and effects [k, nv], and responses [k], for unit wrenches [k, 6] on links."""
    direction = jnp.sum(wrench[:, :, None] * at_start.jacobian[links], axis=1)
    effect = matmul(direction, at_start.inverse_mass)
    return direction, effect, jnp.sum(direction * effect, axis=1)


def mobility_softness(articulation: Articulation, at_start: StepStart) -> Array:
    """PhysX's softening of rows, which depends on the mobility of a link, [L]."""
    linear = at_start.jacobian[:, :3]
    mobility = jnp.sum(matmul(linear, at_start.inverse_mass) * linear, axis=2)
    return articulation.link_cfm_scale * jnp.max(mobility, axis=1)


class ContactImpulses(NamedTuple):
    """Accumulated impulses of all contacts."""

    normal: Array
    """[K]."""
    friction: Array
    """Impulses along the tangents of the anchors, [P, 2, 2]."""
    slips: Array
    """Whether an anchor of each pair slipped in the last sweep, [P]."""


def no_contact_impulses(rows: ContactRows) -> ContactImpulses:
    """The impulses before the first sweep."""
    friction = jnp.zeros_like(rows.friction.error)
    return ContactImpulses(
        jnp.zeros_like(rows.normal.gap), friction, jnp.zeros(friction.shape[:1], bool)
    )


class Travel(NamedTuple):
    """Displacements of the rows since the start of the step."""

    normal: Array
    """[K]."""
    friction: Array
    """[P, 2, 2]."""


def travel(rows: ContactRows, link_travel: Array) -> Travel:
    """The displacements of all rows for link displacements [L, 6]; see :class:`Progress`."""
    of_pair = link_travel[np.array(rows.links, int)]
    normal = jnp.sum(rows.normal.wrench * link_travel[rows.contact_links], axis=1)
    return Travel(normal, jnp.sum(rows.friction.wrench * of_pair[:, None, None], axis=3))


def solve_pair(
    rows: ContactRows,
    pair: int,
    change: Array,
    impulses: ContactImpulses,
    moved: Travel | None,
    sweep: Sweep,
) -> tuple[Array, ContactImpulses]:
    """Solves the rows of one pair once.

    Args:
      rows: rows of all contacts.
      pair: index of the pair.
      change: change of the generalised velocity by impulses so far, [nv].
      impulses: impulses of all contacts so far.
      moved: displacements of the rows with TGS; ``None`` with PGS.
      sweep: the sweep.
    """
    normal = impulses.normal
    for contact in rows.patches[pair]:
        row = jax.tree.map(lambda leaf, k=contact: leaf[k], rows.normal)
        displacement = None if moved is None else moved.normal[contact]
        least = _least_rate(row, displacement, rows.max_separation_speed, sweep)
        rate = row.free_rate + jnp.sum(row.direction * change)
        new = jnp.maximum(normal[contact] + row.softened * (least - rate), 0)
        change = change + row.effect * (new - normal[contact])
        normal = normal.at[contact].set(new)
    row_of_pair = jax.tree.map(lambda leaf: leaf[pair], rows.friction)
    pressed = jnp.maximum(sum(normal[contact] for contact in rows.patches[pair]), row_of_pair.floor)
    largest = row_of_pair.friction * pressed
    dragged = row_of_pair.error if moved is None else row_of_pair.error + moved.friction[pair]
    solve = _solve_discs if sweep.temporal else _solve_axes
    change, solved, slips = solve(
        row_of_pair, change, impulses.friction[pair], dragged, largest, sweep
    )
    friction = impulses.friction.at[pair].set(solved)
    return change, ContactImpulses(normal, friction, impulses.slips.at[pair].set(slips))


def _least_rate(
    row: NormalRow, moved: Array | None, max_separation_speed: float, sweep: Sweep
) -> Array:
    """The smallest separation rate that a sweep allows."""
    gap = row.gap if moved is None else row.gap + moved - row.target_rate * sweep.elapsed
    closing = jnp.maximum(row.error_reduction * gap / sweep.h, -max_separation_speed)
    if not sweep.moves_positions:
        closing = jnp.maximum(closing, 0)
    if not sweep.temporal:
        closing = jnp.where(row.bounces, 0, closing)
    return row.target_rate - closing


def _solve_axes(
    friction: FrictionRow, change: Array, old: Array, dragged: Array, largest: Array, sweep: Sweep
):
    """PGS: one tangent after the other, each within the friction limit. Only position sweeps
    correct errors.
    """
    new = []
    slips = []
    for anchor in range(2):
        for axis in range(2):
            bias = dragged[anchor, axis] / sweep.h if sweep.moves_positions else 0
            rate = friction.free_rate[anchor, axis] + jnp.sum(
                friction.direction[anchor, axis] * change
            )
            total = old[anchor, axis] - friction.softened[anchor, axis] * (bias + rate)
            slips.append(jnp.abs(total) > largest)
            new.append(jnp.clip(total, -largest, largest))
            change = change + friction.effect[anchor, axis] * (new[-1] - old[anchor, axis])
    return change, jnp.stack(new).reshape(2, 2), jnp.any(jnp.stack(slips))


def _solve_discs(
    friction: FrictionRow, change: Array, old: Array, dragged: Array, largest: Array, sweep: Sweep
):
    """TGS: both tangents of an anchor together, within a disc. Errors include the motion during the
    step.
    """
    new = []
    slips = []
    for anchor in range(2):
        bias = dragged[anchor] / sweep.h
        rate = friction.free_rate[anchor] + jnp.sum(friction.direction[anchor] * change, axis=1)
        total = old[anchor] - friction.softened[anchor] * (bias + rate)
        square = jnp.sum(total**2)
        slides = ~(square <= largest**2)  # Friction that is NaN does not stick.
        scale = jnp.where(
            slides, largest * jax.lax.rsqrt(jnp.where(slides, square, jnp.ones_like(square))), 1
        )
        new.append(scale * total)
        slips.append(slides)
        change = change + jnp.sum(
            friction.effect[anchor] * (new[-1] - old[anchor])[:, None], axis=0
        )
    return change, jnp.stack(new), jnp.any(jnp.stack(slips))


_SHAPES = (GeometryType.SPHERE, GeometryType.CAPSULE, GeometryType.BOX)


def check_rigid(articulation: Articulation, ground: Ground, options: SolverOptions) -> None:
    """Raises ``ValueError`` for compliant shapes or surfaces, if their numbers are not traced."""
    every = {
        f"ground.surfaces[{k}]": surface.stiffness for k, surface in enumerate(ground.surfaces)
    }
    every["articulation.geometry"] = articulation.geometry.stiffness
    for where, stiffness in every.items():
        if not isinstance(stiffness, jax.core.Tracer) and not np.all(np.isinf(stiffness)):
            raise ValueError(
                f"solver={options.solver!r} has only rigid contacts, but {where}.stiffness is "
                "finite: make it inf, or use solver='implicit'"
            )


def check_solvable(
    articulation: Articulation,
    ground: Ground,
    contacts: GroundContacts,
    anchors: FrictionAnchors | None,
) -> None:
    """Raises ``ValueError`` for unsupported surfaces and shapes, and for a memory of another
    size.
    """
    topology = articulation.topology
    for k, surface in enumerate(ground.surfaces):
        if not isinstance(surface, Plane):
            raise ValueError(
                f"solver='pgs' and 'tgs' support only planes; ground.surfaces[{k}] is a "
                f"{type(surface).__name__}: use solver='implicit'"
            )
    for k in sorted(set(contacts.geometries)):
        shape = topology.geometries[k]
        if shape.type not in _SHAPES:
            raise ValueError(
                f"solver='pgs' and 'tgs' support spheres, capsules and boxes; {shape.name!r} is "
                f"{shape.type.noun}: use solver='implicit', or make it a sensor"
            )
    if anchors is not None:
        pairs = len(patches_of(topology, contacts.geometries, len(ground.surfaces)))
        check_vector(
            "memory.on_link",
            anchors.on_link,
            (pairs, 2, 3),
            articulation.dtype,
            "P pairs of shape and surface",
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
    """The report on all contacts. A pair's friction is divided among its contacts by their normal
    impulses.

    Args:
      at_start: the articulation at the start of the step.
      touching: the contacts.
      rows: their rows.
      impulses: their impulses.
      corrections: corrections of the rows' rates in the last sweep, [K + 4 P].
      change: change of the generalised velocity by all impulses, [nv].
      dt: length of the step [s].
    """
    contacts = touching.ground_contacts.contacts
    pair = pair_of_contacts(rows.patches)
    index = np.array(contacts.links, int)
    frame = at_start.frame.take(index)
    place = spatial.rotate(frame.rotation, contacts.point.T) + frame.position
    tangents = rows.friction.wrench[:, 0, :, :3]
    pressed = jnp.stack([sum(impulses.normal[k] for k in numbers) for numbers in rows.patches])[
        pair
    ]
    share = jnp.where(pressed > 0, impulses.normal / jnp.where(pressed > 0, pressed, 1), 0)
    pull = share[:, None] * jnp.sum(impulses.friction, axis=1)[pair]
    force = (
        jnp.sum(pull[:, :, None] * tangents[pair], axis=1)
        + impulses.normal[:, None] * contacts.normal
    ) / dt
    rate = rows.friction.free_rate[:, 0] + jnp.sum(rows.friction.direction[:, 0] * change, axis=-1)
    touches = impulses.normal > 0
    slips = impulses.slips[pair]
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
        residual=largest_magnitude(missed),
    )
