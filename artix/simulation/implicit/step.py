"""One converged step: springs, dampers and hard relations in one linear system, inequalities by projected sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from artix.dynamics.inverse import rigid_body_forces
from artix.dynamics.momentum import about
from artix.dynamics.newton_euler import gravity_wrenches
from artix.kinematics.bodies import Inertias
from artix.kinematics.configuration import integrate
from artix.kinematics.links import link_accelerations, link_frames, link_velocities
from artix.kinematics.solve import kinematics
from artix.kinematics.velocities import generalized_velocity
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.simulation.common.commands import commands_of
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.joint_forces import incoming_joint_forces
from artix.simulation.common.loop_closures import LoopClosures, closure_errors, loop_closures, loop_wrenches
from artix.simulation.common.momentum_correction import Momentum
from artix.simulation.common.momentum_end import mass_and_momentum, with_momentum
from artix.simulation.common.options import Control, SolverOptions
from artix.simulation.common.report import ContactReport, StepReport, residual_of
from artix.simulation.common.springs import Springs, coupling_springs, spring_efforts
from artix.simulation.common.step_start import HIGHEST, StepStart, evaluate_step_start, has_tendons, link_motion
from artix.simulation.common.unconstrained import gravity_and_loads, link_resistance
from artix.simulation.implicit.bounds import AllBounded, Bounded, bounded
from artix.simulation.implicit.contact_bounds import Touching, contact_rows
from artix.simulation.implicit.contact_report import contact_reports
from artix.simulation.implicit.members import dof_order
from artix.simulation.implicit.response import Response
from artix.simulation.implicit.rows import with_drives_chosen
from artix.simulation.implicit.system import (
    Acting,
    ImplicitSystem,
    Prepared,
    drive_inertia,
    implicit_system,
)

Array = jax.Array
_T = TypeVar("_T")

#: Newton steps that bring loop joints back onto their closures after the positions have moved. They use the Jacobian at
#: the start of the step, so each leaves a fraction of the error equal to the relative change of the Jacobian.
_CLOSING_STEPS = 2


class _Solved(NamedTuple):
    """A step of one or several articulations, solved for velocities."""

    parts: list[Prepared]
    touching: Touching | None
    found: AllBounded


def implicit_step(
    articulations: Sequence[Articulation],
    states: Sequence[State],
    controls: Sequence[Control],
    dt: Array,
    options: SolverOptions,
    touching: Touching | None = None,
) -> tuple[list[State], ContactMemory | None]:
    """One converged step (see :func:`artix.step`), and its contact memory."""
    solved = _solved(articulations, states, controls, dt, options, touching)
    return _ends(solved), _memory(solved)


def implicit_step_and_report(
    articulations: Sequence[Articulation],
    states: Sequence[State],
    controls: Sequence[Control],
    dt: Array,
    options: SolverOptions,
    touching: Touching | None = None,
) -> tuple[list[State], list[StepReport]]:
    """One converged step with reports (see :func:`artix.step_and_report`). All share the contacts between links."""
    solved = _solved(articulations, states, controls, dt, options, touching)
    ends = _ends(solved)
    return ends, _reports(solved, ends, options)


def _solved(
    articulations: Sequence[Articulation],
    states: Sequence[State],
    controls: Sequence[Control],
    dt: Array,
    options: SolverOptions,
    touching: Touching | None,
) -> _Solved:
    parts = [_prepared(articulations[k], states[k], controls[k], dt, options) for k in range(len(states))]
    return _Solved(parts, touching, bounded(parts, touching, options))


def _prepared(
    articulation: Articulation, state: State, control: Control, dt: Array, options: SolverOptions
) -> Prepared:
    tree = articulation.topology
    at_start = evaluate_step_start(articulation, state, with_all=has_tendons(tree) or len(tree.mimic_dofs) > 0)
    motion = link_motion(at_start, generalized_velocity(articulation, state))
    given = gravity_and_loads(articulation, control.external_force)
    taken, brake = link_resistance(articulation, at_start, motion, given, dt)
    load = jnp.zeros_like(given) if control.external_force is None else control.external_force
    acting = Acting(
        commands=commands_of(articulation, control),
        wrench=load - taken + brake,
        springs=coupling_springs(articulation, at_start, state.joint_position, options.tendon_law),
        drive_inertia=drive_inertia(articulation, at_start),
        in_matrix=jnp.ones_like(state.joint_velocity),
        dt=dt,
        smooth_friction=options.smooth_friction,
    )
    acting = with_drives_chosen(articulation, state, at_start, acting, options)
    loops = loop_closures(articulation, state)
    system = implicit_system(articulation, state, at_start, acting, loops)
    return Prepared(articulation, state, at_start, motion, given - taken + brake, acting, loops, system)


def _ends(solved: _Solved) -> list[State]:
    """The states after the step."""
    touched = [solved.touching is not None and solved.touching.touches.is_external(k) for k in range(len(solved.parts))]
    return [_end(*one) for one in zip(solved.parts, solved.found.each, touched, strict=True)]


def _end(part: Prepared, found: Bounded, is_touched: bool) -> State:
    """The state of one articulation after the step."""
    articulation, state, at_start, acting, loops = part.articulation, part.state, part.at_start, part.acting, part.loops
    base, dt = at_start.topology.num_base_dofs, acting.dt
    end, moved = _moved(articulation, state, part.system, loops, dt * found.moving_velocity)
    end = end.replace(joint_velocity=found.velocity[base:])
    if base == 0:
        return end
    moments, carried = mass_and_momentum(articulation, state)
    momentum = carried[:, 0] + dt * _outer_wrench(part, moments)
    if acting.springs or loops or is_touched:
        # PhysX's tendons, loop joints with the world and contacts act on the whole. Their total is computed from the
        # velocity, not from the impulses: otherwise rounding errors would make standing feet drift.
        acceleration = _acceleration(part, found)
        needed = rigid_body_forces(articulation, state, None, acting.wrench, gravity=True)[:6]
        momentum = momentum + dt * (needed + matmul(at_start.mass_matrix[:6], acceleration))
    start = end.replace(root_velocity=found.velocity[:6])
    free = _floating_end(articulation, start, moments.first / moments.mass, moved[:3], momentum, dt)
    return _where_free(at_start, free, end.replace(root_pose=state.root_pose))


def _reports(solved: _Solved, ends: list[State], options: SolverOptions) -> list[StepReport]:
    parts, found = solved.parts, solved.found
    wrenches = [part.wrench for part in parts]
    grounds: list[ContactReport | None] = [None] * len(parts)
    between = None
    if solved.touching:
        members = [part.articulation for part in parts], [part.state for part in parts]
        touches, acting = solved.touching.touches, [part.acting for part in parts]
        response = Response.joined([part.response for part in parts])
        rows = contact_rows(*members, touches, response, acting, options)
        impulses, dt = found.impulses.contacts, acting[0].dt
        grounds, between, on_links = contact_reports(*members, touches, rows, impulses, found.velocity, dt)
        wrenches = [wrench + contact for wrench, contact in zip(wrenches, on_links, strict=True)]
    reports = []
    for part, own, wrench, end, ground in zip(parts, found.each, wrenches, ends, grounds, strict=True):
        report = _report(part, own, wrench, end)
        residuals = residual_of(found.moving_corrections), residual_of(found.corrections)
        reports.append(
            report.replace(
                contacts=ground,
                link_contacts=between,
                position_residual=residuals[0],
                velocity_residual=residuals[1],
            )
        )
    return reports


def _report(part: Prepared, found: Bounded, wrench: Array, end: State) -> StepReport:
    """The report on one articulation, without contacts and residuals; ``wrench`` [L, 6] acts on its links."""
    articulation, state, at_start, dt = part.articulation, part.state, part.at_start, part.acting.dt
    tree, acceleration = at_start.topology, _acceleration(part, found)
    link_acceleration = link_accelerations(articulation, state, acceleration)
    link_velocity = link_motion(at_start, found.velocity)
    if tree.num_base_dofs:
        link_velocity = _where_free(at_start, link_velocities(articulation, end), link_velocity)
    on_link_b = wrench[:0]
    if part.loops:
        on_links, on_link_b = loop_wrenches(at_start, part.loops, found.loop_impulse / dt)
        wrench = wrench + on_links
    tendons = _tendon_wrenches(part.acting.springs, found.velocity, jnp.zeros_like(wrench), dt)
    end_frame = link_frames(tree, kinematics(articulation, end))
    forces = incoming_joint_forces(articulation, at_start, end_frame, part.motion, link_acceleration, wrench, tendons)
    none = residual_of(acceleration[:0])
    return StepReport(
        joint_acceleration=acceleration[tree.num_base_dofs :],
        link_velocity=link_velocity,
        link_acceleration=link_acceleration,
        incoming_joint_force=forces,
        loop_joint_force=on_link_b,
        position_residual=none,
        velocity_residual=none,
    )


def _memory(solved: _Solved) -> ContactMemory | None:
    """The impulses of contacts and dry friction, from which the next step starts."""
    if solved.touching is None:
        return None
    dofs, _, contacts = jax.lax.stop_gradient(solved.found.impulses)
    order = dof_order([part.at_start.topology for part in solved.parts])
    impulse = solved.touching.choice.recorded(contacts)
    return ContactMemory(impulse, jnp.zeros_like(dofs.friction).at[order].set(dofs.friction))


def _acceleration(part: Prepared, found: Bounded) -> Array:
    """The mean generalised acceleration, [nv]."""
    return (found.velocity - generalized_velocity(part.articulation, part.state)) / part.acting.dt


def _outer_wrench(part: Prepared, moments: Inertias) -> Array:
    """The external wrench about the root's centre of mass, [6]; ``moments`` are the mass moments of the whole."""
    articulation = part.articulation
    weightless = gravity_and_loads(articulation.replace(gravity_scale=1 - articulation.gravity_scale), None)
    besides = _total_wrench(part.at_start, part.acting.wrench - weightless)
    return gravity_wrenches(articulation, moments.mass, moments.first)[:, 0] + besides


def _total_wrench(at_start: StepStart, wrench: Array) -> Array:
    """Force and torque about the root's centre of mass of wrenches [L, 6] on the links, [6]."""
    force, torque = wrench[:, :3], wrench[:, 3:] + jnp.cross(at_start.center, wrench[:, :3])
    return jnp.sum(jnp.concatenate([force, torque], axis=1), axis=0)


def _floating_end(
    articulation: Articulation, end: State, center: Array, travelled: Array, momentum: Array, dt: Array
) -> State:
    """The end of a step with a momentum [6] about the initial position of the root's centre of mass."""
    target = Momentum(*jnp.split(about(center, momentum[:, None])[:, 0], 2))
    return with_momentum(articulation, end, center, travelled, target, target.linear, dt, magnitude_only=False)


def _moved(
    articulation: Articulation, state: State, system: ImplicitSystem, loops: LoopClosures | None, displacement: Array
) -> tuple[State, Array]:
    """The configuration after a displacement [nv], corrected to close all loops, and the total displacement."""
    end = integrate(articulation, state, displacement)
    if loops is None or not len(loops.held):
        return end, displacement
    assert system.hard is not None
    back = system.hard.back[:, -len(loops.held) :]
    for _ in range(_CLOSING_STEPS):
        correction = -jnp.matmul(back, closure_errors(articulation, end, loops), precision=HIGHEST)
        end, displacement = integrate(articulation, end, correction), displacement + correction
    return end, displacement


def _where_free(at_start: StepStart, floating: _T, fixed: _T) -> _T:
    """Chooses by the base of the articulation, which is data for padded articulations."""
    free = at_start.topology.base_is_free
    return floating if free is None else jax.tree.map(lambda x, y: jnp.where(free, x, y), floating, fixed)


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
