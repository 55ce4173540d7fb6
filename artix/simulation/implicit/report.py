"""The reports of an implicit step: accelerations, joint forces, and the forces, impulses and slip
of contacts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.quantity import subprogram
from artix.contact.ground_contacts import GroundContacts
from artix.contact.selection import looked_up
from artix.kinematics.contact_points import contact_frames, contact_points
from artix.kinematics.forward import Kinematics, kinematics, link_centers
from artix.kinematics.frames import frame_acceleration, frame_velocity, link_frames
from artix.math import spatial
from artix.math.arrays import largest_magnitude, matmul, square_root, take
from artix.model.articulation import Articulation, State
from artix.simulation.common.couplings import Springs, loop_wrenches, spring_efforts
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import (
    ContactReport,
    LinkContactReport,
    Residual,
    StepReport,
    all_finite,
    residual_of,
)
from artix.simulation.common.step_start import HIGHEST, incoming_joint_forces, link_motion
from artix.simulation.implicit.contact_motions import Touches
from artix.simulation.implicit.contact_rows import contact_rates, contact_rows
from artix.simulation.implicit.many_rows import BlockRows, ManyTouches, SolvedStacks
from artix.simulation.implicit.resolvents import ContactRow
from artix.simulation.implicit.row_equations import contact_imbalance
from artix.simulation.implicit.rows import ContactRows
from artix.simulation.implicit.solution import Bounded
from artix.simulation.implicit.step import Solved, mean_acceleration
from artix.simulation.implicit.system import Prepared, Response, parted

Array = jax.Array

#: Relative distance to the edge of the friction cone below which a contact counts as sliding.
_BORDER = 1e-5


class _Done(NamedTuple):
    """The results of K contacts, named as in the reports."""

    force: Array
    impulse: Array
    slip: Array
    sticks: Array
    slides: Array
    imbalance: Array
    """Residual of the contact laws for each impulse, [K, 3]."""

    def part(self, which: slice) -> _Done:
        """Those of some contacts."""
        return _Done(*(array[which] for array in self))

    def at(self, ground: GroundContacts) -> _Done:
        """The same of all points of which these contacts are the nearest, zero for the others."""
        return _Done(*(ground.spread(values) for values in self))

    def reported(self) -> dict[str, Array]:
        """What both kinds of reports contain."""
        shared = self._asdict()
        missed = shared.pop("imbalance")
        return shared | {"residual": largest_magnitude(missed)}


def contact_reports(
    articulations: Sequence[Articulation],
    states: Sequence[State],
    touches: Touches,
    rows: ContactRows,
    impulse: Array,
    velocity: Array,
    dt: Array,
) -> tuple[list[ContactReport | None], LinkContactReport | None, list[Array]]:
    """Reports on all contacts of a step.

    Args:
      articulations: the articulations.
      states: their states at the start of the step.
      touches: the contacts.
      rows: their rows.
      impulse: their impulses, [K, 3].
      velocity: generalised velocity of all articulations at the end of the step, [nv].
      dt: length of the step [s].

    Returns:
      A report on each articulation's contacts with the ground, one on all contacts between links,
      and the wrenches on each articulation's links at their centres of mass, [L, 6].
    """
    rates = contact_rates(rows.each, impulse, matmul(rows.motions, velocity))
    done = _done(touches, rows.each, impulse, rates, dt)
    kins = [kinematics(*member) for member in zip(articulations, states, strict=True)]
    reports: list[ContactReport | None] = []
    wrenches: list[list[Array]] = [[] for _ in articulations]
    first = 0
    for k, ground in enumerate(touches.ground_contacts):
        report = None
        if ground is not None:
            count = len(ground.contacts.gap)
            report, wrench = _ground_report(
                articulations[k], kins[k], ground, done.part(slice(first, first + count))
            )
            wrenches[k].append(wrench)
            first += count
        reports.append(report)
    between = None
    if touches.between is not None:
        between, on_links = _link_report(
            articulations, kins, touches, done.part(slice(first, None))
        )
        for collected, wrench in zip(wrenches, on_links, strict=True):
            collected.append(wrench)
    totals = [
        sum(collected[1:], start=collected[0])
        if collected
        else jnp.zeros((one.topology.num_links, 6), one.dtype)
        for collected, one in zip(wrenches, articulations, strict=True)
    ]
    return reports, between, totals


def _done(touches: Any, each: ContactRow, impulse: Array, rates: Array, dt: Array) -> _Done:
    """The results of contacts with these impulses and velocities, [K, 3], those in the laws."""
    frames = contact_frames(touches.normal)
    force = jnp.sum(impulse[:, :, None] * frames, axis=1) / dt
    imbalance = jax.vmap(contact_imbalance)(each, impulse, rates)
    # Touching, and inside the cone up to rounding.
    held = impulse[:, 2] * touches.friction
    pull = jnp.sum(impulse[:, :2] ** 2, axis=1)
    touching = impulse[:, 2] > 0
    sticks = touching & (pull < (held * (1 - _BORDER)) ** 2)
    slip = square_root(jnp.sum(rates[:, :2] ** 2, axis=1))
    return _Done(force, impulse, slip, sticks, touching & ~sticks, imbalance)


def _ground_report(
    articulation: Articulation, kin: Kinematics, ground: GroundContacts, done: _Done
) -> tuple[ContactReport, Array]:
    """The report on an articulation's contacts with the ground, and their wrenches [L, 6] on its
    links.
    """
    if ground.source is not None:
        done, ground = done.at(ground), ground.source.replace(omitted=ground.omitted)
    contacts = ground.contacts
    links = articulation.topology.geometry_links(ground.geometries)
    place = contact_points(articulation, kin, links, contacts.point)
    lever = place - take(link_centers(articulation, kin), links)
    wrench = jnp.concatenate([done.force, spatial.cross(lever, done.force.T).T], axis=1)
    numbers = np.arange(articulation.topology.num_links, dtype=np.int32)[:, None]
    onto = jnp.asarray(links[None] == numbers, wrench.dtype)
    on_links = matmul(onto, wrench)
    report = ContactReport(
        links=contacts.links,
        geometries=ground.geometries,
        point=(place + kin.reference[:, None]).T,
        normal=contacts.normal,
        gap=contacts.gap,
        **done.reported(),
        link_force=on_links[:, :3],
        omitted=ground.omitted,
    )
    return report, on_links


def _link_report(
    articulations: Sequence[Articulation],
    kins: Sequence[Kinematics],
    touches: Touches,
    done: _Done,
) -> tuple[LinkContactReport, list[Array]]:
    contacts, pairs = touches.between, touches.pairs
    assert contacts is not None
    geometries, links = (
        looked_up(table, contacts.pair, jnp.int32) for table in (pairs.numbers, pairs.links)
    )
    sizes = [one.topology.num_links for one in articulations]
    numbers = jnp.arange(sum(sizes), dtype=jnp.int32)[:, None]
    onto = (numbers == links[:, 0]).astype(done.force.dtype) - (numbers == links[:, 1]).astype(
        done.force.dtype
    )
    moment = spatial.cross(contacts.point.T, done.force.T).T
    at_reference = matmul(onto, jnp.concatenate([done.force, moment], axis=1))
    wrenches = []
    for articulation, kin, wrench in zip(
        articulations, kins, parted(at_reference, sizes), strict=True
    ):
        centers = link_centers(articulation, kin)
        if kin is not kins[0]:
            centers = centers + (kin.reference - kins[0].reference)[:, None]
        turning = wrench[:, 3:] - spatial.cross(centers, wrench[:, :3].T).T
        wrenches.append(jnp.concatenate([wrench[:, :3], turning], axis=1))
    report = LinkContactReport(
        geometries=geometries,
        links=links,
        point=contacts.point + kins[0].reference,
        normal=contacts.normal,
        gap=contacts.gap,
        **done.reported(),
        link_force=at_reference[:, :3],
        omitted=contacts.omitted,
    )
    return report, wrenches


def step_reports(solved: Solved, options: SolverOptions) -> list[StepReport]:
    """The reports of a step. All share the contacts between links."""
    parts, solution = solved.parts, solved.solution
    wrenches = [part.wrench for part in parts]
    grounds: list[ContactReport | None] = [None] * len(parts)
    between = None
    if solved.touching:
        members = [part.articulation for part in parts], [part.state for part in parts]
        touches, acting = solved.touching.touches, [part.acting for part in parts]
        response = Response.joined([part.system.response for part in parts])
        rows = contact_rows(*members, touches, response, acting, options)
        impulses, dt = solution.impulses.contacts, acting[0].dt
        grounds, between, on_links = contact_reports(
            *members, touches, rows, impulses, solution.velocity, dt
        )
        wrenches = [wrench + contact for wrench, contact in zip(wrenches, on_links, strict=True)]
    residuals = residual_of(solution.moving_corrections), residual_of(solution.corrections)
    reports = []
    for k, ground in enumerate(grounds):
        one = parts[k], solution.each[k], wrenches[k], solved.ends[k], solved.energy_corrections[k]
        report = _report(*one, residuals, solution.is_solved)
        reports.append(report.replace(contacts=ground, link_contacts=between))
    return reports


def _report(
    part: Prepared,
    solution: Bounded,
    wrench: Array,
    end: State,
    correction: Array,
    residuals: tuple[Residual, Residual],
    is_solved: Array,
) -> StepReport:
    """The report on one articulation, without contacts; ``wrench`` [L, 6] acts on its links."""
    articulation, state, at_start, dt = part.articulation, part.state, part.at_start, part.acting.dt
    tree, acceleration = at_start.topology, mean_acceleration(part, solution)
    link_acceleration = frame_acceleration(
        articulation, state, acceleration, offset="com", classical=True
    )
    link_velocity = (
        link_motion(at_start, solution.velocity)
        if tree.fixed_base
        else frame_velocity(articulation, end, offset="com")
    )
    on_link_b = wrench[:0]
    if part.loops:
        on_links, on_link_b = loop_wrenches(at_start, part.loops, solution.loop_impulse / dt)
        wrench = wrench + on_links
    tendons = _tendon_wrenches(part.acting.springs, solution.velocity, jnp.zeros_like(wrench), dt)
    end_frame = link_frames(tree, kinematics(articulation, end))
    forces = incoming_joint_forces(
        articulation, at_start, end_frame, part.motion, link_acceleration, wrench, tendons
    )
    return StepReport(
        joint_acceleration=acceleration[tree.num_base_dofs :],
        link_velocity=link_velocity,
        link_acceleration=link_acceleration,
        incoming_joint_force=forces,
        loop_joint_force=on_link_b,
        position_residual=residuals[0],
        velocity_residual=residuals[1],
        is_finite=all_finite(end),
        is_solved=is_solved,
        energy_correction=correction,
    )


def _tendon_wrenches(
    springs: list[Springs], velocity: Array, none: Array, dt: Array
) -> tuple[Array, Array]:
    """Wrenches [L, 6] of all tendons on the links, and the part that counts as transmitted by
    joints.
    """
    everything = transmitted = none
    for group in springs:
        effort = spring_efforts(group, velocity, dt)
        if group.wrench is not None:
            everything = everything - jnp.einsum(
                "s,slk->lk", effort, group.wrench, precision=HIGHEST
            )
        if group.transmitted is not None:
            transmitted = transmitted - jnp.einsum(
                "s,slk->lk", effort, group.transmitted, precision=HIGHEST
            )
    return everything, transmitted


# --- steps of many bodies, see :mod:`artix.simulation.implicit.many_bodies` ---------------------


def stack_reports(
    solved: SolvedStacks, touches: ManyTouches, links: Sequence[np.ndarray], dt: Array
) -> tuple[list[StepReport], LinkContactReport]:
    """The reports of each stack, with a leading axis [n], and one on the contacts between shapes.

    Args:
      solved: the step.
      touches: its contacts.
      links: the numbers of the links of each stack in the scene, [n, L] each.
      dt: length of the step [s].
    """
    contacts, solution = solved.rows.contacts, solved.solution
    assert isinstance(contacts, BlockRows)
    impulse, each = solution.impulses.contacts, contacts.each
    rates = contacts.rates(solution.velocity)
    rates = rates.at[:, 2].add(each.approach + each.softness * impulse[:, 2])
    done = _done(touches, each, impulse, rates, dt)
    between, on_links = _stacks_link_report(
        touches, done.part(slice(touches.num_ground, None)), links
    )
    residual = residual_of(solved.outcome.residual)
    reports, first = [], 0
    for k, part in enumerate(solved.parts):
        ground, report = touches.grounds[k], None
        wrench = jax.vmap(_about_centers, in_axes=(0, 0, 0, None))(
            part.articulation, part.state, on_links[links[k]], touches.origin
        )
        if ground is not None:
            count, many = ground.contacts.gap.shape
            mine = done.part(slice(first, first + count * many))
            stack = _Done(*(x.reshape(count, many, *x.shape[1:]) for x in mine))
            one = part.articulation, part.state, ground, stack
            report, pushed = jax.vmap(_ground_report_of)(*one)
            wrench = wrench + pushed
            first += count * many
        ends = solved.bounded[k], part.wrench + wrench, solved.ends[k]
        correction = solved.energy_corrections[k]
        of_member = jax.vmap(_member_report_of, in_axes=(0, 0, 0, 0, 0, None, None))
        whole = of_member(part, *ends, correction, residual, solved.outcome.is_solved)
        reports.append(whole.replace(contacts=report))
    return reports, between


def _stacks_link_report(
    touches: ManyTouches, done: _Done, links: Sequence[np.ndarray]
) -> tuple[LinkContactReport, Array]:
    """The report, and the wrenches [L, 6] on all links about the origin of the contacts."""
    contacts, pairs = touches.between, touches.pairs
    shapes, on = (
        jnp.asarray(table, jnp.int32)[contacts.pair] for table in (pairs.numbers, pairs.links)
    )
    numbers = jnp.arange(sum(one.size for one in links), dtype=jnp.int32)[:, None]
    onto = (numbers == on[:, 0]).astype(done.force.dtype)
    onto = onto - (numbers == on[:, 1]).astype(done.force.dtype)
    moment = spatial.cross(contacts.point.T, done.force.T).T
    wrench = matmul(onto, jnp.concatenate([done.force, moment], axis=1))
    report = LinkContactReport(
        geometries=shapes,
        links=on,
        point=contacts.point + touches.origin,
        normal=contacts.normal,
        gap=contacts.gap,
        **done.reported(),
        link_force=wrench[:, :3],
        omitted=contacts.omitted,
    )
    return report, wrench


@subprogram
def _about_centers(articulation: Articulation, state: State, wrench: Array, origin: Array) -> Array:
    """Wrenches [L, 6] about a point as those at the links' centres of mass."""
    kin = kinematics(articulation, state)
    centers = link_centers(articulation, kin) + (kin.reference - origin)[:, None]
    turning = wrench[:, 3:] - spatial.cross(centers, wrench[:, :3].T).T
    return jnp.concatenate([wrench[:, :3], turning], axis=1)


@subprogram
def _ground_report_of(
    articulation: Articulation, state: State, ground: GroundContacts, done: _Done
) -> tuple[ContactReport, Array]:
    return _ground_report(articulation, kinematics(articulation, state), ground, done)


@subprogram
def _member_report_of(
    part: Prepared,
    solution: Bounded,
    wrench: Array,
    end: State,
    correction: Array,
    residual: Residual,
    is_solved: Array,
) -> StepReport:
    residuals = residual, residual
    return _report(part, solution, wrench, end, correction, residuals, is_solved)
