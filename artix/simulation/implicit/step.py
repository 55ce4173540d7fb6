"""The implicit step: springs and dampers in one linear system, all laws as rows of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.dynamics.inertia import Inertias
from artix.dynamics.momentum import about
from artix.dynamics.newton_euler import gravity_wrenches
from artix.kinematics.configuration import generalized_velocity, integrate
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.control import Control, commands_of
from artix.simulation.common.couplings import closure_errors, coupling_springs, loop_closures
from artix.simulation.common.momentum_end import Momentum, mass_and_momentum, with_momentum
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.step_start import (
    StepStart,
    evaluate_step_start,
    gravity_and_loads,
    has_loop_joints,
    has_tendons,
    link_motion,
    link_resistance,
)
from artix.simulation.implicit.contact_rows import Touching
from artix.simulation.implicit.fast_motion import with_bounded_energy, with_centered_forces
from artix.simulation.implicit.rows import RowImpulses
from artix.simulation.implicit.solution import AllBounded, Bounded, row_impulses, solved_bounds
from artix.simulation.implicit.system import (
    Acting,
    Prepared,
    drive_inertia,
    implicit_system,
    share_in_matrix,
)

Array = jax.Array


#: Newton steps that bring loop joints back onto their closures after the positions have moved. They
#: use the Jacobian at the start of the step, so each leaves a fraction of the error equal to the
#: relative change of the Jacobian.
_CLOSING_STEPS = 2


class Solved(NamedTuple):
    """A step of one or several articulations, solved for velocities."""

    parts: list[Prepared]
    touching: Touching | None
    solution: AllBounded
    ends: list[State]
    """The states after the step."""
    energy_corrections: list[Array]
    """Kinetic energy added by the bound on that of fast motion [J], []."""


def solve_step(
    articulations: Sequence[Articulation],
    states: Sequence[State],
    controls: Sequence[Control],
    dt: Array,
    options: SolverOptions,
    touching: Touching | None,
) -> Solved:
    """Solves one step (see :func:`artix.step`) of articulations that contacts may couple."""
    parts = [
        prepared(articulations[k], states[k], controls[k], dt, options) for k in range(len(states))
    ]
    return _ended(parts, touching, solved_bounds(parts, touching, options))


def prepared(
    articulation: Articulation, state: State, control: Control, dt: Array, options: SolverOptions
) -> Prepared:
    """Evaluates an articulation at the start of the step, and solves its linear system."""
    tree = articulation.topology
    has_springs = has_tendons(tree) or len(tree.mimic_dofs) > 0
    at_start = evaluate_step_start(articulation, state, with_all=has_springs)
    springs = []
    if has_springs:
        springs = coupling_springs(articulation, at_start, state.joint_position, options.tendon_law)
    velocity = generalized_velocity(articulation, state)
    motion = link_motion(at_start, velocity)
    loads = gravity_and_loads(articulation, control.external_force)
    taken, brake = link_resistance(articulation, at_start, motion, loads, dt)
    load = jnp.zeros_like(loads) if control.external_force is None else control.external_force
    acting = Acting(
        commands=commands_of(articulation, control),
        wrench=load - taken + brake,
        springs=springs,
        drive_inertia=drive_inertia(articulation, at_start),
        in_matrix=jnp.ones_like(articulation.armature),
        dt=dt,
        fast_impulse=jnp.zeros_like(velocity),
        smooth_friction=options.smooth_friction,
    )
    share = share_in_matrix(articulation, state, at_start, acting)
    acting = acting.replace(in_matrix=share)
    loops = loop_closures(articulation, state) if has_loop_joints(tree) else None
    acting, slow, system = with_centered_forces(articulation, state, acting, loops)
    if system.hard is not None:  # Hard relations are inputs of the solution, with derivatives.
        hard = implicit_system(articulation, state, at_start, acting, loops).hard
        system = system._replace(hard=hard)
    return Prepared(
        articulation, state, at_start, motion, loads - taken + brake, acting, loops, slow, system
    )


def _ended(parts: list[Prepared], touching: Touching | None, solution: AllBounded) -> Solved:
    ends, corrections = [], []
    pushes = row_impulses(parts, touching, solution.impulses)
    for k, (part, bounded_part) in enumerate(zip(parts, solution.each, strict=True)):
        is_touched = touching is not None and touching.touches.is_external(k)
        end, correction = bounded_end(part, bounded_part, is_touched, pushes[k])
        ends.append(end)
        corrections.append(correction)
    return Solved(parts, touching, solution, ends, corrections)


def bounded_end(
    part: Prepared, solution: Bounded, is_touched: bool, rows: RowImpulses
) -> tuple[State, Array]:
    """The state of one articulation after the step, and the energy [J] that the bound on that of
    fast motion adds.

    Args:
      part: the articulation.
      solution: its velocities.
      is_touched: whether anything else can touch it.
      rows: the impulses of all rows on it.
    """
    start = part.articulation, part.state, part.acting, part.loops, part.slow
    end = _end(part, solution, is_touched)
    return with_bounded_energy(*start, solution.velocity, end, rows)


def _end(part: Prepared, solution: Bounded, is_touched: bool) -> State:
    """The state of one articulation after the step."""
    articulation, state, at_start, acting, loops = (
        part.articulation,
        part.state,
        part.at_start,
        part.acting,
        part.loops,
    )
    base, dt = at_start.topology.num_base_dofs, acting.dt
    moved = dt * solution.moving_velocity
    end = integrate(articulation, state, moved)
    if loops:
        end, moved = _close_loops(part, end, moved)
    end = end.replace(joint_velocity=solution.velocity[base:])
    if base == 0:
        return end
    moments, carried = mass_and_momentum(articulation, state)
    momentum = carried[:, 0] + dt * _outer_wrench(part, moments)
    if acting.springs or loops or is_touched:
        # PhysX's tendons, loop joints with the world and contacts act on the whole.
        momentum = momentum + solution.added_momentum
    start = end.replace(root_velocity=solution.velocity[:6])
    return _floating_end(articulation, start, moments.first / moments.mass, moved[:3], momentum, dt)


def _close_loops(part: Prepared, end: State, displacement: Array) -> tuple[State, Array]:
    """Closes the loops of an articulation after its positions have moved; also the total
    displacement, [nv].
    """
    loops, hard = part.loops, part.system.hard
    if loops is None or hard is None or not len(loops.held):
        return end, displacement
    back = hard.back[:, -len(loops.held) :]
    for _ in range(_CLOSING_STEPS):
        correction = -matmul(back, closure_errors(part.articulation, end, loops))
        end, displacement = integrate(part.articulation, end, correction), displacement + correction
    return end, displacement


def mean_acceleration(part: Prepared, solution: Bounded) -> Array:
    """The mean generalised acceleration during the step, [nv]."""
    return (
        solution.velocity - generalized_velocity(part.articulation, part.state)
    ) / part.acting.dt


def _outer_wrench(part: Prepared, moments: Inertias) -> Array:
    """The external wrench about the root's centre of mass, [6]; ``moments`` are the mass moments of
    the whole.
    """
    articulation = part.articulation
    weightless = gravity_and_loads(
        articulation.replace(gravity_scale=1 - articulation.gravity_scale), None
    )
    besides = _total_wrench(part.at_start, part.acting.wrench - weightless)
    return gravity_wrenches(articulation, moments.mass, moments.first)[:, 0] + besides


def _total_wrench(at_start: StepStart, wrench: Array) -> Array:
    """Force and torque about the root's centre of mass of wrenches [L, 6] on the links, [6]."""
    force, torque = wrench[:, :3], wrench[:, 3:] + jnp.cross(at_start.center, wrench[:, :3])
    return jnp.sum(jnp.concatenate([force, torque], axis=1), axis=0)


def _floating_end(
    articulation: Articulation,
    end: State,
    center: Array,
    travelled: Array,
    momentum: Array,
    dt: Array,
) -> State:
    """The end of a step with a momentum [6] about the initial position of the root's centre of
    mass.
    """
    target = Momentum(*jnp.split(about(center, momentum[:, None])[:, 0], 2))
    return with_momentum(
        articulation, end, center, travelled, target, target.linear, dt, magnitude_only=False
    )


def contact_memory(solved: Solved) -> ContactMemory:
    """The impulses of contacts and dry friction, from which the next step starts."""
    assert solved.touching is not None
    dofs, _, contacts = jax.lax.stop_gradient(solved.solution.impulses)
    return ContactMemory(solved.touching.choice.recorded(contacts), dofs.friction)
