"""The sweeps of one step, and the motion of positions with them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.compiler.jax_internals import scan
from artix.kinematics.frames import frame_pose
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation, State
from artix.physx.solver.dof_laws import Sweep
from artix.physx.solver.gauss_seidel import (
    Progress,
    Rows,
    SweepImpulses,
    SweepOrder,
    no_impulses,
    sweep_once,
    sweep_order,
)
from artix.physx.solver.positions import (
    Configuration,
    Unconstrained,
    advance,
    start_configuration,
    to_state,
    with_drift_of,
)
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.spatial_tendons import path_lengths
from artix.simulation.common.step_start import StepStart, link_motion

Array = jax.Array


class Solution(NamedTuple):
    """The result of the sweeps."""

    change: Array
    """Change of the generalised velocity by impulses, [nv]."""
    mean_change: Array
    """The same for the velocities that moved the positions, [nv]."""
    impulses: SweepImpulses
    configuration: Configuration
    """Configuration at the end of the step."""
    position_corrections: Array
    """Corrections of the rows' velocities in the last position sweep; see :func:`sweep_once`."""
    velocity_corrections: Array
    """The same for the last velocity sweep, or the last position sweep if there are no velocity sweeps."""


class _Carry(NamedTuple):
    """The carry of the position sweeps."""

    change: Array
    total_change: Array
    """Sum over all sweeps so far."""
    impulses: SweepImpulses
    configuration: Configuration
    progress: Progress


def iterate(
    articulation: Articulation,
    state: State,
    at_start: StepStart,
    rows: Rows,
    free: Unconstrained,
    late: Array | None,
    dt: Array,
    options: SolverOptions,
    *,
    keeps_drift: bool,
) -> Solution:
    """Takes all position and velocity sweeps of a step.

    Args:
      state: its state at the start of the step.
      at_start: the articulation at the start of the step.
      rows: all rows.
      free: velocities without constraints.
      late: generalised acceleration [nv] by forces that act in every sweep, or ``None``.
      dt: length of the step [s].
      options: the solver and the numbers of sweeps.
      keeps_drift: whether spherical joints keep their drift off their free axes.
    """
    temporal, count = options.solver == "tgs", options.position_iterations
    h = dt / count if temporal else dt
    zero = jnp.zeros_like(free.velocity)
    order = sweep_order(at_start.topology, () if rows.contacts is None else rows.contacts.links)

    def with_lengths(progress: Progress, moved: Configuration, elapsed: Array) -> Progress:
        return _with_lengths(articulation, state, at_start, rows, free, progress, moved, elapsed, keeps_drift)

    def position_sweep(carry: _Carry, number: Array) -> tuple[_Carry, Array]:
        change = carry.change if late is None else carry.change + h * late
        progress = carry.progress
        if temporal:
            progress = with_lengths(progress, carry.configuration, number * h)
        sweep = _sweep(options, dt, h, number * h if temporal else jnp.zeros_like(h), moves_positions=True)
        change, impulses, corrected = sweep_once(rows, order, change, carry.impulses, progress, free.velocity, sweep)
        configuration = carry.configuration
        if temporal:
            configuration, progress = _advanced(at_start, rows, free, change, configuration, progress, h)
        return _Carry(change, carry.total_change + change, impulses, configuration, progress), corrected

    configuration = start_configuration(at_start, state)
    unmoved = jnp.zeros((0, 6) if rows.contacts is None or not temporal else free.motion.shape, zero.dtype)
    lengths = _lengths(articulation, state, at_start, at_start.frame)
    progress = Progress(zero, jnp.zeros_like(state.joint_position), lengths, unmoved)
    carry, corrections = scan(
        position_sweep,
        _Carry(zero, zero, no_impulses(rows), configuration, progress),
        jnp.arange(count).astype(dt.dtype),
    )
    mean_change, progress = (carry.total_change / count, carry.progress) if temporal else (carry.change, progress)
    configuration = carry.configuration
    if temporal:
        progress = with_lengths(progress, configuration, dt)
    else:
        configuration, _ = _advanced(at_start, rows, free, carry.change, configuration, progress, dt)
    change, impulses, last = carry.change, carry.impulses, corrections
    if options.velocity_iterations:
        sweep = _sweep(options, dt, h, dt if temporal else jnp.zeros_like(dt), moves_positions=False)
        change, impulses, last = _velocity_sweeps(
            rows, order, change, impulses, progress, free.velocity, sweep, options.velocity_iterations
        )
    return Solution(change, mean_change, impulses, configuration, corrections[-1], last[-1])


def _velocity_sweeps(
    rows: Rows,
    order: SweepOrder,
    change: Array,
    impulses: SweepImpulses,
    progress: Progress,
    velocity: Array,
    sweep: Sweep,
    count: int,
) -> tuple[Array, SweepImpulses, Array]:
    """Sweeps after the positions have moved. Their corrections have a leading axis ``count``."""

    def once(carry: tuple[Array, SweepImpulses], _) -> tuple[tuple[Array, SweepImpulses], Array]:
        change, impulses, corrected = sweep_once(rows, order, carry[0], carry[1], progress, velocity, sweep)
        return (change, impulses), corrected

    (change, impulses), corrections = scan(once, (change, impulses), length=count)
    return change, impulses, corrections


def _sweep(options: SolverOptions, dt: Array, h: Array, elapsed: Array, *, moves_positions: bool) -> Sweep:
    temporal = options.solver == "tgs"
    return Sweep(
        temporal=temporal,
        moves_positions=moves_positions,
        restarts=moves_positions and options.external_forces_every_iteration,
        drive_limits_are_forces=options.drive_limits_are_forces,
        dt=dt,
        h=h,
        elapsed=elapsed,
        error_reduction=jnp.asarray(2 / options.position_iterations**0.5 if temporal else 0.8, dt.dtype),
    )


def _advanced(
    at_start: StepStart,
    rows: Rows,
    free: Unconstrained,
    change: Array,
    configuration: Configuration,
    progress: Progress,
    time: Array,
) -> tuple[Configuration, Progress]:
    """Moves positions with the current velocities for a time."""
    velocity = free.velocity + change
    motion = free.motion + link_motion(at_start, change)
    row_velocity = rows.dofs.free_velocity + change[rows.dofs.place]
    progress = progress._replace(
        motion=progress.motion + time * velocity, displacement=progress.displacement + time * row_velocity
    )
    joints = velocity[at_start.topology.num_base_dofs :]
    return advance(at_start.topology, configuration, joints, motion, time), progress


def _with_lengths(
    articulation: Articulation,
    state: State,
    at_start: StepStart,
    rows: Rows,
    free: Unconstrained,
    progress: Progress,
    moved: Configuration,
    elapsed: Array,
    keeps_drift: bool,
) -> Progress:
    """The progress with tendon lengths and link displacements for the configuration."""
    topology = at_start.topology
    if not topology.spatial_tendons and rows.contacts is None:
        return progress
    frame = _moved_frames(articulation, state, at_start, moved, keeps_drift)
    progress = progress._replace(path_length=_lengths(articulation, state, at_start, frame))
    if rows.contacts is None:
        return progress
    center = frame @ Transforms.from_poses(articulation.link_com_pose)
    # PhysX moves centres of mass with the links, and sums rotations in the initial axes.
    caused = link_motion(at_start, progress.motion - elapsed * free.velocity)
    turned = elapsed * free.motion[:, 3:] + caused[:, 3:]
    return progress._replace(link_travel=jnp.concatenate([center.position.T - at_start.center, turned], axis=1))


def _moved_frames(
    articulation: Articulation, state: State, at_start: StepStart, moved: Configuration, keeps_drift: bool
) -> Transforms:
    """The frames of the moved links, relative to the root's centre of mass at the start of the step."""
    topology = at_start.topology
    # The root's initial position is left out: far from the origin it would cost digits.
    origin = state.root_pose.at[:3].set(at_start.frame.position[:, 0])
    end = to_state(articulation, topology, moved, state.replace(root_pose=origin))
    if keeps_drift:
        articulation, _ = with_drift_of(articulation, topology, moved, end)
    return Transforms.from_poses(frame_pose(articulation, end))


def _lengths(articulation: Articulation, state: State, at_start: StepStart, frame: Transforms) -> Array:
    """Lengths [S] of the spatial tendons' paths for these link frames."""
    topology = at_start.topology
    if not topology.spatial_tendons:
        return jnp.zeros_like(state.joint_position, shape=(0,))
    return path_lengths(articulation, topology, frame)
