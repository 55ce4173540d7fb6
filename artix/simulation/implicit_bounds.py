"""What bounds the motion in the implicit solver: DOFs, and distances of loop joints."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.articulation import Articulation, State
from artix.constraints.drives import DriveRow
from artix.constraints.frozen import HIGHEST, Frozen
from artix.constraints.implicit_rows import BoundRow, DistanceRow
from artix.constraints.loop_closures import LoopClosures
from artix.constraints.rows import Commands
from artix.simulation.bound_sweeps import Impulses, sweep_over_bounds
from artix.simulation.implicit_system import ERROR_REDUCTION, ImplicitSystem
from artix.simulation.options import SolverOptions
from artix.tree import Tree

Array = jax.Array

# A DOF that hard relations leave less than this of its mobility, in units of the rounding error, is locked.
_LOCKED = 100


class Bounded(NamedTuple):
    """The velocities within all bounds."""

    moving_velocity: Array
    """Of the positions, [nv]; it also corrects errors of hard mimic joints, which leaves no velocity behind."""
    velocity: Array
    """At the end of the step, [nv]."""
    moving_corrections: Array
    """What the last sweep corrected of the velocities of DOFs and distances, and what hard relations still lack."""
    corrections: Array
    """The same of the velocity at the end."""
    loop_impulse: Array
    """Impulses on all rows of the loop joints' anchors."""


def bounded(
    articulation: Articulation,
    state: State,
    frozen: Frozen,
    commands: Commands,
    system: ImplicitSystem,
    loops: LoopClosures | None,
    dt: Array,
    options: SolverOptions,
) -> Bounded:
    """Sweeps over all bounds, while the hard relations hold."""
    hard = system.hard
    response = system.response if hard is None else hard.response_within(system.response)
    rows = _bound_rows(articulation, state, frozen, commands, system, response, dt)
    if options.smooth_friction:  # It is in the system.
        none = jnp.zeros_like(rows.response)
        rows = rows._replace(friction=rows.friction.replace(static=none, dynamic=none))
    distances = None if loops is None else _distance_rows(articulation, loops, response, dt)
    found = []
    # Without mimic joints both velocities are one.
    targets = [None] if hard is None else [hard.position_target, hard.target]
    for target in targets if len(frozen.topology.mimic_dofs) else targets[-1:]:
        start = system.velocity if target is None or hard is None else hard.held(system.velocity, target)
        velocity, impulses, corrections = sweep_over_bounds(frozen.topology, rows, distances, start, dt, options)
        if target is not None and hard is not None:
            corrections = jnp.concatenate([corrections, hard.missing(velocity, target)])
        found.append((velocity, corrections))
    loop_impulse = _loop_impulses(frozen.topology, system, loops, distances, impulses)
    return Bounded(found[0][0], found[-1][0], found[0][1], found[-1][1], loop_impulse)


def _loop_impulses(
    topology: Tree,
    system: ImplicitSystem,
    loops: LoopClosures | None,
    distances: DistanceRow | None,
    impulses: Impulses,
) -> Array:
    """Impulses on all rows of the loop joints' anchors: what holds the velocity that the bounds alone would leave."""
    given = jnp.zeros_like(system.velocity)
    if loops is None or distances is None:
        return given[:0]
    across = sum(impulses.distances)
    given = given.at[topology.num_base_dofs + topology.depth_first_dofs].set(sum(impulses.dofs))
    given = given + jnp.matmul(across, distances.direction, precision=HIGHEST)
    total = jnp.zeros_like(loops.rows.error).at[loops.distances].set(across)
    if len(loops.held) and system.hard is not None:
        unheld = system.velocity + jnp.matmul(system.response, given, precision=HIGHEST)
        total = total.at[loops.held].set(system.hard.impulses(unheld, system.hard.target)[-len(loops.held) :])
    return total


def _distance_rows(articulation: Articulation, loops: LoopClosures, response: Array, dt: Array) -> DistanceRow:
    """The rows of all distances, for a response [nv, nv] within the hard relations."""
    direction, length = loops.rows.jacobian[loops.distances], loops.rows.error[loops.distances]
    least, largest = (
        bound[loops.joints] for bound in (articulation.loop_joints.min_distance, articulation.loop_joints.max_distance)
    )
    effect = jnp.matmul(direction, response.T, precision=HIGHEST)
    mobility = jnp.sum(direction * effect, axis=1)
    free = mobility > _LOCKED * jnp.finfo(dt.dtype).eps * jnp.max(jnp.abs(response))
    drift = dt * loops.rows.bias[loops.distances]
    return DistanceRow(
        direction=direction,
        effect=jnp.where(free[:, None], effect, 0),
        response=jnp.where(free, mobility, 1),
        # No distance is negative.
        lower_velocity=jnp.where(least > 0, -_approach(length - least, dt), -jnp.inf) - drift,
        upper_velocity=_approach(largest - length, dt) - drift,
    )


def _bound_rows(
    articulation: Articulation,
    state: State,
    frozen: Frozen,
    commands: Commands,
    system: ImplicitSystem,
    within: Array,
    dt: Array,
) -> BoundRow:
    """The rows of all DOFs in the order of the sweep, for a response [nv, nv] ``within`` the hard relations."""
    topology, q = frozen.topology, state.joint_position
    base, friction = topology.num_base_dofs, articulation.friction
    unheld, response = (jnp.diagonal(matrix)[base:] for matrix in (system.response, within))
    # What the hard relations lock has nothing left to bound; its impulses shall be finite.
    moves = response > _LOCKED * jnp.finfo(dt.dtype).eps * unheld
    response = jnp.where(moves, response, unheld)
    rows = BoundRow(
        effect=jnp.where(moves[:, None], within[:, base:].T, 0),
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
