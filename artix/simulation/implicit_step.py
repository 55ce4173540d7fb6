"""One converged step: springs, dampers and hard relations in one linear system, inequalities by projected sweeps."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp

from artix.articulation import Articulation, State
from artix.configuration import integrate
from artix.constraints.frozen import HIGHEST, Frozen, freeze, link_motion
from artix.constraints.loop_closures import LoopClosures, closure_errors, loop_closures, loop_wrenches
from artix.constraints.springs import Springs, coupling_springs, spring_efforts
from artix.dynamics.momentum import about, mass_center
from artix.dynamics.newton_euler import body_wrenches, generalized_forces, newton_euler
from artix.frames import link_frames, link_velocities
from artix.kinematics import kinematics
from artix.simulation.implicit_bounds import bounded
from artix.simulation.implicit_system import ImplicitSystem, implicit_system
from artix.simulation.joint_forces import incoming_joint_forces
from artix.simulation.momentum_correction import Momentum
from artix.simulation.momentum_end import with_momentum
from artix.simulation.options import Control, SolverOptions, commands_of
from artix.simulation.report import StepReport, residual_of
from artix.simulation.unconstrained import external_wrenches

Array = jax.Array
_T = TypeVar("_T")

#: Newton steps that bring loop joints back onto their closures after the positions have moved; with the Jacobian of the
#: step's start, each leaves about the part of the error by which the Jacobian has turned.
_CLOSING_STEPS = 2


def implicit_step(
    articulation: Articulation, state: State, control: Control, dt: Array, options: SolverOptions
) -> tuple[State, StepReport]:
    """One converged step; see :func:`artix.step`."""
    frozen = freeze(articulation, state)
    base = frozen.topology.num_base_dofs
    velocity = jnp.concatenate([state.root_velocity, state.joint_velocity]) if base else state.joint_velocity
    motion = link_motion(frozen, velocity)
    given, brake = external_wrenches(articulation, frozen, motion, control.external_force, dt)
    commands = commands_of(articulation, control)
    kin = kinematics(articulation, state)
    moving = newton_euler(articulation, kin, state, None, gravity=False)
    resisting = moving.force - body_wrenches(articulation, kin, given + brake)
    force = jnp.pad(commands.joint_force, (base, 0)) - generalized_forces(frozen.topology, moving.motions, resisting)
    springs = coupling_springs(articulation, frozen, state.joint_position, options.tendon_law)
    loops = loop_closures(articulation, state)
    smoothing = options.smooth_friction
    system = implicit_system(articulation, state, frozen, commands, springs, loops, velocity, force, dt, smoothing)
    found = bounded(articulation, state, frozen, commands, system, loops, dt, options)
    new = found.velocity
    acceleration = (new - velocity) / dt
    link_acceleration = link_motion(frozen, acceleration) + frozen.velocity_product
    end, moved = _moved(articulation, state, system, loops, dt * found.moving_velocity)
    end = end.replace(joint_velocity=new[base:])
    link_velocity = link_motion(frozen, new)
    if base:
        # By Newton's and Euler's laws: the momentum M nu at the start, and what acts on the whole.
        momentum = jnp.matmul(frozen.momenta, new, precision=HIGHEST) + dt * jnp.sum(moving.force, axis=1)
        start = end.replace(root_velocity=new[:6])
        free = _floating_end(articulation, start, mass_center(articulation, kin), moved[:3], momentum, dt)
        link_velocity = _where_free(frozen, link_velocities(articulation, free), link_velocity)
        end = _where_free(frozen, free, end.replace(root_pose=state.root_pose))
    end_frame = link_frames(frozen.topology, kinematics(articulation, end))
    tendons = _tendon_wrenches(springs, new, jnp.zeros_like(given), dt)
    on_links, on_link_b = loop_wrenches(frozen, loops, found.loop_impulse / dt) if loops else (0 * given, given[:0])
    forces = incoming_joint_forces(
        articulation, frozen, end_frame, motion, link_acceleration, given + brake + on_links, tendons
    )
    residuals = [residual_of(corrections) for corrections in (found.moving_corrections, found.corrections)]
    return end, StepReport(acceleration[base:], link_velocity, link_acceleration, forces, on_link_b, *residuals)


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


def _where_free(frozen: Frozen, floating: _T, fixed: _T) -> _T:
    """Chooses by the base of the articulation; among padded ones, some have a fixed base."""
    free = frozen.topology.base_is_free
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
