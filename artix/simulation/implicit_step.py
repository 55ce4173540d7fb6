"""One converged step: all springs and dampers implicit in one linear system, inequalities by projected sweeps."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.articulation import Articulation, State
from artix.configuration import integrate
from artix.constraints.drives import DriveRow
from artix.constraints.frozen import (
    HIGHEST,
    Frozen,
    freeze,
    generalized_force,
    inertial_wrenches,
    link_bodies,
    link_motion,
)
from artix.constraints.implicit_rows import BoundImpulses, BoundRow, solve_bounds
from artix.constraints.mimic import mimic_directions, mimic_errors
from artix.constraints.rows import Commands, position_error
from artix.constraints.springs import Springs, coupling_springs, spring_efforts
from artix.constraints.sweep import Sweep
from artix.simulation.joint_forces import incoming_joint_forces
from artix.simulation.momentum_end import momentum_after, with_momentum
from artix.simulation.options import Control, SolverOptions, commands_of
from artix.simulation.report import StepReport, residual_of
from artix.simulation.unconstrained import external_wrenches

Array = jax.Array

#: Part of a position error that a hard relation or a limit corrects in one step (Baumgarte); PhysX's too.
ERROR_REDUCTION = 0.8


class _System(NamedTuple):
    """The velocity that springs, dampers and hard relations leave, and how impulses change it."""

    velocity: Array
    """[nv]."""
    response: Array
    """Change of the generalised velocity [nv] per generalised impulse [nv]."""
    drive_gain: Array
    """Impulse that each drive takes back per velocity, [n]."""
    drive_push: Array
    """Impulse of each drive at zero velocity, [n]."""


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
    turning = inertial_wrenches(frozen, motion, frozen.velocity_product)
    force = generalized_force(frozen, given + brake - turning) + jnp.pad(commands.joint_force, (base, 0))
    springs = coupling_springs(articulation, frozen, state.joint_position, options.tendon_law)
    free = _solve_springs(articulation, state, frozen, commands, springs, velocity, force, dt)
    (moving, moved_last), (new, last) = _bounded(articulation, state, frozen, commands, free, dt, options)
    acceleration = (new - velocity) / dt
    link_acceleration = link_motion(frozen, acceleration) + frozen.velocity_product
    end = integrate(articulation, state, dt * moving).replace(joint_velocity=new[base:])
    link_velocity = link_motion(frozen, new)
    if base:
        target = momentum_after(frozen, motion, link_acceleration, dt)
        floating = with_momentum(
            articulation, frozen, end, dt * moving[:3], target, target.linear, dt, magnitude_only=False
        )
        end, link_velocity = _where_free(frozen, floating, (end.replace(root_pose=state.root_pose), link_velocity))
    end_frame, _, _ = link_bodies(articulation, end)
    tendons = _tendon_wrenches(springs, new, jnp.zeros_like(given), dt)
    forces = incoming_joint_forces(articulation, frozen, end_frame, motion, link_acceleration, given + brake, tendons)
    residuals = [residual_of(found) for found in (moved_last, last)]
    return end, StepReport(acceleration[base:], link_velocity, link_acceleration, forces, *residuals)


def _where_free(frozen: Frozen, floating: tuple[State, Array], fixed: tuple[State, Array]) -> tuple[State, Array]:
    """Chooses by the base of the articulation; among padded ones, some have a fixed base."""
    free = frozen.topology.base_is_free
    return floating if free is None else jax.tree.map(lambda x, y: jnp.where(free, x, y), floating, fixed)


def _solve_springs(
    articulation: Articulation,
    state: State,
    frozen: Frozen,
    commands: Commands,
    springs: list[Springs],
    velocity: Array,
    force: Array,
    dt: Array,
) -> _System:
    """Solves ``(Mh + dt D + dt^2 K) (nu' - nu) = dt (force + forces of springs and dampers at nu)``."""
    topology, drive, base = frozen.topology, articulation.drive, frozen.topology.num_base_dofs
    inertia = jnp.where(drive.is_acceleration > 0, 1 / jnp.diagonal(frozen.inverse_mass)[base:], 1)
    error = position_error(topology, state.joint_position, commands.target_position)
    gain = dt * inertia * (dt * drive.stiffness + drive.damping)
    push = dt * inertia * (drive.stiffness * error + drive.damping * commands.target_velocity)
    diagonal = gain + dt * articulation.friction.viscous
    matrix = frozen.mass_matrix + jnp.diag(jnp.pad(diagonal, (base, 0)))
    impulse = dt * force + jnp.pad(push - diagonal * velocity[base:], (base, 0))
    for group in springs:
        impulse = impulse - dt * jnp.matmul(spring_efforts(group, velocity, dt), group.force, precision=HIGHEST)
        stiffened = dt * (dt * group.stiffness + group.damping)
        matrix = matrix + jnp.einsum("s,sv,sw->vw", stiffened, group.force, group.rate, precision=HIGHEST)
    if any(group.transmitted is not None for group in springs):  # PhysX's fixed tendons: the matrix is not symmetric.
        response = jnp.linalg.inv(matrix)
    else:
        response = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(matrix), True), jnp.eye(topology.nv, dtype=dt.dtype))
    return _System(velocity + jnp.matmul(response, impulse, precision=HIGHEST), response, gain, push)


def _bounded(
    articulation: Articulation,
    state: State,
    frozen: Frozen,
    commands: Commands,
    free: _System,
    dt: Array,
    options: SolverOptions,
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The velocities [nv] that move the positions, and those that are left after the step.

    They differ by what corrects the position errors of hard mimic joints, which leaves no velocity behind. With each go
    the corrections of the DOFs' velocities by the last sweep, [n].
    """
    found = []
    for correction in (ERROR_REDUCTION, 0.0) if len(frozen.topology.mimic_dofs) else (0.0,):
        system = _hold_mimics(articulation, state, frozen, free, correction, dt)
        rows = _bound_rows(articulation, state, frozen, commands, system, dt)
        found.append(_project(rows, system.velocity, dt, options))
    return found[0], found[-1]


def _hold_mimics(
    articulation: Articulation, state: State, frozen: Frozen, system: _System, correction: float, dt: Array
) -> _System:
    """Projects velocity and responses onto the hard mimic joints, a part of whose position errors it corrects."""
    mimic, topology = articulation.mimic, frozen.topology
    if len(topology.mimic_dofs) == 0:
        return system
    hard = (mimic.natural_frequency == 0) | (mimic.damping_ratio == 0)
    rows = jnp.where(hard[:, None], mimic_directions(mimic, topology), 0)
    wanted = jnp.where(hard, -correction / dt * mimic_errors(mimic, topology, state.joint_position), 0)
    effect = jnp.matmul(system.response, rows.T, precision=HIGHEST)
    read = jnp.matmul(rows, system.response, precision=HIGHEST)
    coupling = jnp.matmul(rows, effect, precision=HIGHEST)
    # Compliant and padded joints have empty rows, and relations that follow from others leave the matrix singular.
    tiny = 10 * jnp.finfo(dt.dtype).eps * jnp.max(jnp.abs(coupling))
    size = jnp.where(jnp.diagonal(coupling) > 0, tiny, 1)
    solve = jnp.linalg.inv(coupling + jnp.diag(size))
    back = jnp.matmul(effect, solve, precision=HIGHEST)
    missing = wanted - jnp.matmul(rows, system.velocity, precision=HIGHEST)
    return system._replace(
        velocity=system.velocity + jnp.matmul(back, missing, precision=HIGHEST),
        response=system.response - jnp.matmul(back, read, precision=HIGHEST),
    )


def _bound_rows(
    articulation: Articulation, state: State, frozen: Frozen, commands: Commands, system: _System, dt: Array
) -> BoundRow:
    """The rows of all DOFs in the order of the sweep."""
    topology, q = frozen.topology, state.joint_position
    base, friction = topology.num_base_dofs, articulation.friction
    response = jnp.diagonal(system.response)[base:]
    rows = BoundRow(
        place=base + jnp.arange(topology.num_dofs),
        effect=system.response[:, base:].T,
        response=response,
        drive=DriveRow(
            drive=articulation.drive,
            envelope=articulation.envelope,
            position_error=jnp.zeros_like(q),
            target_velocity=commands.target_velocity,
            response=response / (1 - system.drive_gain * response),
            softened=1 / response,
            joint_force=commands.joint_force,
        ),
        gain=system.drive_gain,
        push=system.drive_push,
        friction=friction,
        lower_velocity=-_approach(q - articulation.joint_lower_limit, dt),
        upper_velocity=_approach(articulation.joint_upper_limit - q, dt),
        max_velocity=articulation.max_joint_velocity,
    )
    return jax.tree.map(lambda leaf: leaf[topology.depth_first_dofs], rows)


def _approach(gap: Array, dt: Array) -> Array:
    """The speed at which a DOF may approach a limit at this distance; negative where it must retreat."""
    finite = jnp.isfinite(gap)
    distance = jnp.where(finite, gap, 0)
    return jnp.where(finite, jnp.where(distance < 0, ERROR_REDUCTION, 1) * distance / dt, jnp.inf)


def _project(rows: BoundRow, velocity: Array, dt: Array, options: SolverOptions) -> tuple[Array, Array]:
    """The generalised velocity [nv] after all sweeps over the bounds, and what the last of them corrected, [n]."""
    sweep = Sweep(
        temporal=False,
        moves_positions=True,
        restarts=False,
        drive_limits_are_forces=options.drive_limits_are_forces,
        dt=dt,
        h=dt,
        elapsed=jnp.zeros_like(dt),
        error_reduction=jnp.asarray(ERROR_REDUCTION, dt.dtype),
    )

    def turn(velocity: Array, inputs: tuple[BoundRow, BoundImpulses]) -> tuple[Array, tuple[BoundImpulses, Array]]:
        row, old = inputs
        new, change = solve_bounds(row, old, velocity[row.place], sweep)
        return velocity + row.effect * change, (new, row.response * change)

    def once(carry: tuple[Array, BoundImpulses, Array], _) -> tuple[tuple[Array, BoundImpulses, Array], None]:
        velocity, (impulses, corrected) = jax.lax.scan(turn, carry[0], (rows, carry[1]))
        return (velocity, impulses, corrected), None

    zero = jnp.zeros_like(rows.response)
    start = (velocity, BoundImpulses(zero, zero, zero, zero, zero), zero)
    velocity, _, corrected = jax.lax.scan(once, start, length=options.position_iterations)[0]
    return velocity, corrected


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
