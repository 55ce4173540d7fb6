"""One converged step: springs, dampers and hard relations in one linear system, inequalities by projected sweeps."""

from __future__ import annotations

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
from artix.simulation.common.report import StepReport, residual_of
from artix.simulation.common.springs import Springs, coupling_springs, spring_efforts
from artix.simulation.common.step_start import HIGHEST, StepStart, evaluate_step_start, has_tendons, link_motion
from artix.simulation.common.unconstrained import gravity_and_loads, link_resistance
from artix.simulation.implicit.bounds import Bounded, bounded
from artix.simulation.implicit.contact_bounds import Touching, contact_rows
from artix.simulation.implicit.contact_report import contact_reports
from artix.simulation.implicit.response import Response
from artix.simulation.implicit.rows import with_drives_chosen
from artix.simulation.implicit.system import (
    Acting,
    ImplicitSystem,
    drive_inertia,
    implicit_system,
)

Array = jax.Array
_T = TypeVar("_T")

#: Newton steps that bring loop joints back onto their closures after the positions have moved; with the Jacobian of the
#: step's start, each leaves about the part of the error by which the Jacobian has turned.
_CLOSING_STEPS = 2


class _Solved(NamedTuple):
    """A step up to its velocities."""

    at_start: StepStart
    motion: Array
    """Velocities of the links' centres of mass at the start, [L, 6]."""
    wrench: Array
    """Gravity, loads and what brakes the links, at their centres of mass, [L, 6]."""
    acting: Acting
    loops: LoopClosures | None
    touching: Touching | None
    system: ImplicitSystem
    found: Bounded


def implicit_step(
    articulation: Articulation,
    state: State,
    control: Control,
    dt: Array,
    options: SolverOptions,
    touching: Touching | None = None,
) -> tuple[State, ContactMemory | None]:
    """One converged step, see :func:`artix.step`, and what to remember of its contacts."""
    solved = _solved(articulation, state, control, dt, options, touching)
    return _end(articulation, state, solved), _memory(solved)


def implicit_step_and_report(
    articulation: Articulation,
    state: State,
    control: Control,
    dt: Array,
    options: SolverOptions,
    touching: Touching | None = None,
) -> tuple[State, StepReport]:
    """One converged step; see :func:`artix.step_and_report`."""
    solved = _solved(articulation, state, control, dt, options, touching)
    end = _end(articulation, state, solved)
    return end, _report(articulation, state, solved, end, options)


def _solved(
    articulation: Articulation,
    state: State,
    control: Control,
    dt: Array,
    options: SolverOptions,
    touching: Touching | None,
) -> _Solved:
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
    found = bounded(articulation, state, at_start, acting, system, loops, touching, options)
    return _Solved(at_start, motion, given - taken + brake, acting, loops, touching, system, found)


def _end(articulation: Articulation, state: State, solved: _Solved) -> State:
    """The state after the step."""
    at_start, acting, loops, found = solved.at_start, solved.acting, solved.loops, solved.found
    base, dt = at_start.topology.num_base_dofs, acting.dt
    end, moved = _moved(articulation, state, solved.system, loops, dt * found.moving_velocity)
    end = end.replace(joint_velocity=found.velocity[base:])
    if base == 0:
        return end
    moments, carried = mass_and_momentum(articulation, state)
    momentum = carried[:, 0] + dt * _outer_wrench(articulation, solved, moments)
    on_ground = solved.touching is not None and solved.touching.touches.ground is not None
    if acting.springs or loops or on_ground:
        # PhysX's tendons, loop joints with the world and contacts act on the whole. What they do is what the velocity
        # found takes, not the impulses found: the difference, rounding, would carry away feet that stand.
        acceleration = _acceleration(articulation, state, solved)
        needed = rigid_body_forces(articulation, state, None, acting.wrench, gravity=True)[:6]
        momentum = momentum + dt * (needed + matmul(at_start.mass_matrix[:6], acceleration))
    start = end.replace(root_velocity=found.velocity[:6])
    free = _floating_end(articulation, start, moments.first / moments.mass, moved[:3], momentum, dt)
    return _where_free(at_start, free, end.replace(root_pose=state.root_pose))


def _report(
    articulation: Articulation, state: State, solved: _Solved, end: State, options: SolverOptions
) -> StepReport:
    at_start, dt, found = solved.at_start, solved.acting.dt, solved.found
    tree, acceleration = at_start.topology, _acceleration(articulation, state, solved)
    link_acceleration = link_accelerations(articulation, state, acceleration)
    link_velocity = link_motion(at_start, found.velocity)
    if tree.num_base_dofs:
        link_velocity = _where_free(at_start, link_velocities(articulation, end), link_velocity)
    wrench, on_link_b = solved.wrench, solved.wrench[:0]
    if solved.loops:
        on_links, on_link_b = loop_wrenches(at_start, solved.loops, found.loop_impulse / dt)
        wrench = wrench + on_links
    contacts = between = None
    if solved.touching:
        kin, hard = kinematics(articulation, state), solved.system.hard
        response = solved.system.response
        if hard is not None:
            response = Response(None, hard.response_within(response.matrix))
        touches = solved.touching.touches
        rows = contact_rows(articulation, state, touches, response, solved.acting, options)
        found_of = (touches, rows, found.impulses.contacts, found.velocity, dt)
        contacts, between, on_links = contact_reports(articulation, kin, *found_of)
        wrench = wrench + on_links
    tendons = _tendon_wrenches(solved.acting.springs, found.velocity, jnp.zeros_like(wrench), dt)
    end_frame = link_frames(tree, kinematics(articulation, end))
    forces = incoming_joint_forces(articulation, at_start, end_frame, solved.motion, link_acceleration, wrench, tendons)
    return StepReport(
        joint_acceleration=acceleration[tree.num_base_dofs :],
        link_velocity=link_velocity,
        link_acceleration=link_acceleration,
        incoming_joint_force=forces,
        loop_joint_force=on_link_b,
        position_residual=residual_of(found.moving_corrections),
        velocity_residual=residual_of(found.corrections),
        contacts=contacts,
        link_contacts=between,
    )


def _memory(solved: _Solved) -> ContactMemory | None:
    """The impulses of contacts and of dry friction that the next step begins with."""
    if solved.touching is None:
        return None
    dofs, _, contacts = jax.lax.stop_gradient(solved.found.impulses)
    order = solved.at_start.topology.depth_first_dofs
    impulse = solved.touching.choice.recorded(contacts)
    return ContactMemory(impulse, jnp.zeros_like(dofs.friction).at[order].set(dofs.friction))


def _acceleration(articulation: Articulation, state: State, solved: _Solved) -> Array:
    """The mean generalised acceleration, [nv]."""
    return (solved.found.velocity - generalized_velocity(articulation, state)) / solved.acting.dt


def _outer_wrench(articulation: Articulation, solved: _Solved, moments: Inertias) -> Array:
    """What acts on the whole from outside, about the root's centre of mass, [6]; ``moments`` are the whole's."""
    weightless = gravity_and_loads(articulation.replace(gravity_scale=1 - articulation.gravity_scale), None)
    besides = _total_wrench(solved.at_start, solved.acting.wrench - weightless)
    return gravity_wrenches(articulation, moments.mass, moments.first)[:, 0] + besides


def _total_wrench(at_start: StepStart, wrench: Array) -> Array:
    """Force and torque about the root's centre of mass of wrenches [L, 6] on the links, [6]."""
    force, torque = wrench[:, :3], wrench[:, 3:] + jnp.cross(at_start.center, wrench[:, :3])
    return jnp.sum(jnp.concatenate([force, torque], axis=1), axis=0)


def _floating_end(
    articulation: Articulation, end: State, center: Array, travelled: Array, momentum: Array, dt: Array
) -> State:
    """A floating articulation's end with a momentum [6], which is about where the root's centre of mass started."""
    target = Momentum(*jnp.split(about(center, momentum[:, None])[:, 0], 2))
    return with_momentum(articulation, end, center, travelled, target, target.linear, dt, magnitude_only=False)


def _moved(
    articulation: Articulation, state: State, system: ImplicitSystem, loops: LoopClosures | None, displacement: Array
) -> tuple[State, Array]:
    """The configuration after a displacement [nv], on the closures of all loop joints, and the whole displacement."""
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
    """Chooses by the base of the articulation; among padded ones, some have a fixed base."""
    free = at_start.topology.base_is_free
    return floating if free is None else jax.tree.map(lambda x, y: jnp.where(free, x, y), floating, fixed)


def _tendon_wrenches(springs: list[Springs], velocity: Array, none: Array, dt: Array) -> tuple[Array, Array]:
    """Wrenches [L, 6] of all tendons on the links, and what of them counts as transmitted by joints."""
    everything = transmitted = none
    for group in springs:
        effort = spring_efforts(group, velocity, dt)
        if group.wrench is not None:
            everything = everything - jnp.einsum("s,slk->lk", effort, group.wrench, precision=HIGHEST)
        if group.transmitted is not None:
            transmitted = transmitted - jnp.einsum("s,slk->lk", effort, group.transmitted, precision=HIGHEST)
    return everything, transmitted
