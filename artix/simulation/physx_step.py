"""One step as PhysX's articulation solver takes it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.actuation.spatial_tendons import path_lengths
from artix.articulation import Articulation, State
from artix.bodies import Placement
from artix.frames import link_poses, link_velocities
from artix.simulation.frozen import Frozen, freeze, generalized_force, link_bodies, link_motion, response
from artix.simulation.gauss_seidel import Impulses, Progress, Rows, no_impulses, sweep_once
from artix.simulation.momentum_correction import momentum_of, restore_momentum
from artix.simulation.options import Control, SolverOptions
from artix.simulation.positions import Configuration, advance, start_configuration, to_state
from artix.simulation.rows import constraint_rows
from artix.simulation.sweep import Sweep
from artix.simulation.unconstrained import (
    Unconstrained,
    clamp_joint_velocities,
    external_wrenches,
    unconstrained_velocities,
)
from artix.topology import Topology

Array = jax.Array


class Solution(NamedTuple):
    """What the sweeps found."""

    change: Array
    """Change of the generalised velocity by constraints (and by forces that act every iteration), [nv]."""
    mean_change: Array
    """The same of the velocities that moved the positions, [nv]."""
    impulses: Impulses
    configuration: Configuration
    """Where the articulation is at the end of the step."""


class StepReport(NamedTuple):
    """What a step tells besides the next state; classical quantities in world axes, linear part first.

    Attributes:
      joint_acceleration: [rad/s^2 or m/s^2], shape [n].
      link_velocity: velocities of the links' centres of mass after the step, shape [L, 6].
      link_acceleration: accelerations of the links' centres of mass during the step, shape [L, 6].
      incoming_joint_force: wrench that each link's parent exerts on it through their joint, at the origin and in the
        axes of the child joint frame, shape [L, 6]; zero for the root.
    """

    joint_acceleration: Array
    link_velocity: Array
    link_acceleration: Array
    incoming_joint_force: Array


def physx_step(
    articulation: Articulation, state: State, control: Control, dt: Array, options: SolverOptions
) -> tuple[State, StepReport]:
    """One step by PhysX's law; see :func:`artix.step`."""
    state = clamp_joint_velocities(articulation, state)
    frozen = freeze(articulation, state)
    topology = articulation.topology
    assert isinstance(topology, Topology)
    velocity = state.joint_velocity
    if not topology.fixed_base:
        velocity = jnp.concatenate([state.root_velocity, velocity])
    given, brake = external_wrenches(
        articulation, frozen, link_motion(frozen, velocity), control.external_force, dt
    )
    joint_force = jnp.zeros_like(state.joint_velocity) if control.joint_force is None else control.joint_force
    joint_force = jnp.clip(joint_force, -articulation.max_joint_force, articulation.max_joint_force)
    commanded = jnp.pad(joint_force, (topology.num_base_dofs, 0))
    every_iteration = options.external_forces_every_iteration
    early = brake if every_iteration else given + brake
    free = unconstrained_velocities(
        frozen, velocity, early, jnp.zeros_like(commanded) if every_iteration else commanded, dt
    )
    free = _corrected(articulation, frozen, free)
    late = response(frozen, generalized_force(frozen, given) + commanded) if every_iteration else None
    rows = constraint_rows(articulation, topology, frozen, state.joint_position, free.motion, control, joint_force)
    solution = _solve(articulation, topology, frozen, rows, free, late, state, dt, options)
    return _finish(articulation, topology, frozen, rows, free, solution, given + brake, state, dt)


def _corrected(articulation: Articulation, frozen: Frozen, free: Unconstrained) -> Unconstrained:
    """Gives a floating articulation the momentum that external forces alone would have given it."""
    if articulation.topology.num_base_dofs == 0:
        return free
    body = (articulation.link_mass, frozen.inertia, frozen.center)
    target = momentum_of(*body, free.loaded_motion)
    motion = restore_momentum(*body, free.motion, target)
    return free._replace(motion=motion, velocity=jnp.concatenate([motion[0], free.velocity[6:]]))


def _solve(
    articulation: Articulation,
    topology: Topology,
    frozen: Frozen,
    rows: Rows,
    free: Unconstrained,
    late: Array | None,
    state: State,
    dt: Array,
    options: SolverOptions,
) -> Solution:
    """The sweeps over all rows, and the positions that follow from them."""
    count, temporal = options.position_iterations, options.solver == "tgs"
    h = dt / count if temporal else dt
    base = topology.num_base_dofs
    error_reduction = 2 / count**0.5 if temporal else 0.8

    def kind(moves_positions: bool, elapsed: Array) -> Sweep:
        return Sweep(
            temporal=temporal,
            moves_positions=moves_positions,
            restarts=moves_positions and late is not None,
            drive_limits_are_forces=options.drive_limits_are_forces,
            dt=dt,
            h=h,
            elapsed=elapsed,
            error_reduction=jnp.asarray(error_reduction, dt.dtype),
        )

    def lengths(configuration: Configuration) -> Array:
        if not topology.spatial_tendons:
            return jnp.zeros_like(dt, shape=(0,))
        if not temporal:
            return path_lengths(articulation, topology, frozen.frame)
        moved = to_state(articulation, topology, configuration, state)
        return path_lengths(articulation, topology, Placement.from_poses(link_poses(articulation, moved)))

    def position_sweep(carry, number):
        change, total, impulses, configuration, progress = carry
        if temporal:
            progress = progress._replace(path_length=lengths(configuration))
        if late is not None:
            change = change + h * late
        sweep = kind(True, number * h if temporal else jnp.zeros_like(h))
        change, impulses = sweep_once(rows, change, impulses, progress, free.velocity, sweep)
        if temporal:
            speed = (free.velocity + change)[base:]
            configuration = advance(topology, configuration, speed, free.motion + link_motion(frozen, change), h)
            row_velocity = rows.dofs.free_velocity + change[rows.dofs.index]
            progress = progress._replace(
                joint_motion=progress.joint_motion + h * speed, displacement=progress.displacement + h * row_velocity
            )
        return (change, total + change, impulses, configuration, progress), None

    def velocity_sweep(carry, _):
        change, impulses = carry
        return sweep_once(rows, change, impulses, progress, free.velocity, kind(False, elapsed)), None

    zero = jnp.zeros_like(free.velocity)
    configuration = start_configuration(frozen, state)
    progress = Progress(zero[base:], zero[base:], lengths(configuration))
    start = (zero, zero, no_impulses(rows), configuration, progress)
    (change, total, impulses, configuration, progress), _ = jax.lax.scan(
        position_sweep, start, jnp.arange(count).astype(dt.dtype)
    )
    mean_change = total / count if temporal else change
    if temporal:
        progress = progress._replace(path_length=lengths(configuration))
    else:
        motion = free.motion + link_motion(frozen, change)
        configuration = advance(topology, configuration, (free.velocity + change)[base:], motion, dt)
    elapsed = dt if temporal else jnp.zeros_like(dt)
    (change, impulses), _ = jax.lax.scan(
        velocity_sweep, (change, impulses), length=options.velocity_iterations
    )
    return Solution(change, mean_change, impulses, configuration)


def _finish(
    articulation: Articulation,
    topology: Topology,
    frozen: Frozen,
    rows: Rows,
    free: Unconstrained,
    solution: Solution,
    wrench: Array,
    state: State,
    dt: Array,
) -> tuple[State, StepReport]:
    """Positions, the second momentum correction, and the report."""
    base = topology.num_base_dofs
    velocity = free.velocity + solution.change
    by_constraints = link_motion(frozen, solution.change)
    motion = free.motion + by_constraints
    acceleration = free.acceleration + solution.change / dt
    link_acceleration = link_motion(frozen, free.acceleration) + frozen.velocity_product + by_constraints / dt
    configuration = solution.configuration
    joint_position = _within_prismatic_limits(articulation, topology, configuration.joint_position)
    configuration = configuration._replace(joint_position=joint_position)
    end = to_state(articulation, topology, configuration, state).replace(joint_velocity=velocity[base:])
    if base:
        moving = free.motion + link_motion(frozen, solution.mean_change)
        end = end.replace(root_velocity=velocity[:6])
        end, motion = _restored(articulation, frozen, end, configuration.root_center[:, 0], motion, moving, dt)
    report = StepReport(acceleration[base:], motion, link_acceleration, jnp.zeros_like(motion))
    return end, report


def _within_prismatic_limits(articulation: Articulation, topology: Topology, q: Array) -> Array:
    """Clips the positions of prismatic joints into their limits, as PhysX 5.6.1 does."""
    clipped = jnp.clip(q, articulation.joint_lower_limit, articulation.joint_upper_limit)
    return jnp.where(jnp.asarray(topology.dof_is_linear), clipped, q)


def _restored(
    articulation: Articulation, frozen: Frozen, end: State, travelled: Array, motion: Array, moving: Array, dt: Array
) -> tuple[State, Array]:
    """Corrects momentum and centre of mass at the new poses.

    ``travelled`` [3] is the displacement of the root's centre of mass, ``motion`` the final velocities at the old poses
    and ``moving`` those that moved the poses, [L, 6].
    """
    mass = articulation.link_mass
    total = jnp.sum(mass)
    target = momentum_of(mass, frozen.inertia, frozen.center, motion)
    _, center, inertia = link_bodies(articulation, end)
    corrected = restore_momentum(mass, inertia, center, link_velocities(articulation, end), target)
    wanted = jnp.sum(mass[:, None] * (frozen.center + dt * moving[:, :3]), axis=0) / total
    # Centres are relative to the root's centre of mass, which has travelled in between.
    shift = wanted - travelled - jnp.sum(mass[:, None] * center, axis=0) / total
    pose = jnp.concatenate([end.root_pose[:3] + shift, end.root_pose[3:]])
    return end.replace(root_pose=pose, root_velocity=corrected[0]), corrected
