"""The reports of an implicit step."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from artix.kinematics.forward import kinematics
from artix.kinematics.frames import frame_acceleration, frame_velocity, link_frames
from artix.model.articulation import State
from artix.simulation.common.joint_forces import incoming_joint_forces
from artix.simulation.common.loop_closures import loop_wrenches
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import ContactReport, Residual, StepReport, all_finite, residual_of
from artix.simulation.common.springs import Springs, spring_efforts
from artix.simulation.common.step_start import HIGHEST, link_motion
from artix.simulation.implicit.contact_bounds import contact_rows
from artix.simulation.implicit.contact_report import contact_reports
from artix.simulation.implicit.solution import Bounded
from artix.simulation.implicit.step import Solved, mean_acceleration
from artix.simulation.implicit.system import Prepared, Response

Array = jax.Array


def step_reports(solved: Solved, ends: Sequence[State], options: SolverOptions) -> list[StepReport]:
    """The reports of a step that ends in given states. All share the contacts between links."""
    parts, found = solved.parts, solved.found
    wrenches = [part.wrench for part in parts]
    grounds: list[ContactReport | None] = [None] * len(parts)
    between = None
    if solved.touching:
        members = [part.articulation for part in parts], [part.state for part in parts]
        touches, acting = solved.touching.touches, [part.acting for part in parts]
        response = Response.joined([part.system.response for part in parts])
        rows = contact_rows(*members, touches, response, acting, options)
        impulses, dt = found.impulses.contacts, acting[0].dt
        grounds, between, on_links = contact_reports(*members, touches, rows, impulses, found.velocity, dt)
        wrenches = [wrench + contact for wrench, contact in zip(wrenches, on_links, strict=True)]
    residuals = residual_of(found.moving_corrections), residual_of(found.corrections)
    reports = []
    for k, ground in enumerate(grounds):
        one = parts[k], found.each[k], wrenches[k], ends[k], solved.energy_corrections[k]
        report = _report(*one, residuals, found.is_solved)
        reports.append(report.replace(contacts=ground, link_contacts=between))
    return reports


def _report(
    part: Prepared,
    found: Bounded,
    wrench: Array,
    end: State,
    correction: Array,
    residuals: tuple[Residual, Residual],
    is_solved: Array,
) -> StepReport:
    """The report on one articulation, without contacts; ``wrench`` [L, 6] acts on its links."""
    articulation, state, at_start, dt = part.articulation, part.state, part.at_start, part.acting.dt
    tree, acceleration = at_start.topology, mean_acceleration(part, found)
    link_acceleration = frame_acceleration(articulation, state, acceleration, offset="com", classical=True)
    link_velocity = (
        link_motion(at_start, found.velocity) if tree.fixed_base else frame_velocity(articulation, end, offset="com")
    )
    on_link_b = wrench[:0]
    if part.loops:
        on_links, on_link_b = loop_wrenches(at_start, part.loops, found.loop_impulse / dt)
        wrench = wrench + on_links
    tendons = _tendon_wrenches(part.acting.springs, found.velocity, jnp.zeros_like(wrench), dt)
    end_frame = link_frames(tree, kinematics(articulation, end))
    forces = incoming_joint_forces(articulation, at_start, end_frame, part.motion, link_acceleration, wrench, tendons)
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


def _tendon_wrenches(springs: list[Springs], velocity: Array, none: Array, dt: Array) -> tuple[Array, Array]:
    """Wrenches [L, 6] of all tendons on the links, and the part that counts as transmitted by joints."""
    everything = transmitted = none
    for group in springs:
        effort = spring_efforts(group, velocity, dt)
        if group.wrench is not None:
            everything = everything - jnp.einsum("s,slk->lk", effort, group.wrench, precision=HIGHEST)
        if group.transmitted is not None:
            transmitted = transmitted - jnp.einsum("s,slk->lk", effort, group.transmitted, precision=HIGHEST)
    return everything, transmitted
