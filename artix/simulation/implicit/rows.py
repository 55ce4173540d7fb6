"""Rows of the implicit solver: bounds of DOFs and of loop joints' distances."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from artix.math.arrays import take
from artix.model.articulation import Articulation, State
from artix.simulation.common.drives import DriveRow, exceeds_bounds
from artix.simulation.common.limits import room
from artix.simulation.common.loop_closures import LoopClosures, distance_gaps
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.step_start import HIGHEST, StepStart
from artix.simulation.common.sweep import implicit_sweep
from artix.simulation.implicit.impulses import BoundRow, DistanceRow
from artix.simulation.implicit.members import joined, side_by_side
from artix.simulation.implicit.response import Response
from artix.simulation.implicit.system import ERROR_REDUCTION, Acting, drive_impulses, unlimited_velocity

Array = jax.Array

#: The largest speed [rad/s or m/s] at which a DOF returns into its limits. It keeps this speed, which is energy.
_MAX_RETURN_SPEED = 1.0

# A DOF is locked if hard relations leave less than this of its mobility, in units of the rounding error.
_LOCKED = 100


def bound_rows(articulation: Articulation, state: State, acting: Acting, free: Response, within: Response) -> BoundRow:
    """The rows of all DOFs in the order of the sweep.

    Args:
      articulation: the articulation.
      state: its state at the start of the step.
      acting: the forces during the step.
      free: the response to impulses without the hard relations.
      within: the response under the hard relations; ``free`` itself without any.
    """
    topology, q, dt = articulation.topology, state.joint_position, acting.dt
    base, friction = topology.num_base_dofs, articulation.friction
    if acting.smooth_friction:  # Then the linear system contains it.
        friction = friction.replace(static=jnp.zeros_like(q), dynamic=jnp.zeros_like(q))
    response, effect = within.diagonal[base:], within.effects[base:]
    if within is not free:
        # A DOF that hard relations lock needs no bounds, but its impulses must be finite.
        unheld = free.diagonal[base:]
        moves = response > _LOCKED * jnp.finfo(dt.dtype).eps * unheld
        response, effect = jnp.where(moves, response, unheld), jnp.where(moves[:, None], effect, 0)
    drives = drive_impulses(articulation, state, acting)
    rows = BoundRow(
        effect=effect,
        response=response,
        drive=_drive_row(
            articulation, acting, response / (1 - acting.in_matrix * drives.gain * response), 1 / response
        ),
        gain=drives.gain,
        push=drives.push,
        in_matrix=acting.in_matrix,
        friction=friction,
        lower_velocity=-_approach(room(articulation.joint_lower_limit, q, -1), dt),
        upper_velocity=_approach(room(articulation.joint_upper_limit, q, 1), dt),
        max_velocity=articulation.max_joint_velocity,
    )
    return jax.tree.map(lambda leaf: take(leaf, topology.depth_first_dofs, axis=0), rows)


def all_bound_rows(
    articulations: Sequence[Articulation],
    states: Sequence[State],
    acting: Sequence[Acting],
    free: Sequence[Response],
    within: Sequence[Response],
) -> BoundRow:
    """:func:`bound_rows` of several articulations, one after another."""
    rows = [bound_rows(*one) for one in zip(articulations, states, acting, free, within, strict=True)]
    effect = side_by_side([row.effect for row in rows], [one.topology.nv for one in articulations])
    return joined([row._replace(effect=row.effect[:, :0]) for row in rows])._replace(effect=effect)


def with_drives_chosen(
    articulation: Articulation, state: State, at_start: StepStart, acting: Acting, options: SolverOptions
) -> Acting:
    """Moves drives to the sweeps that would exceed their limits in the linear system without other bounds."""
    velocity = unlimited_velocity(*jax.lax.stop_gradient((articulation, state, at_start, acting)))
    velocity = velocity[articulation.topology.num_base_dofs :]
    drives, none = drive_impulses(articulation, state, acting), jnp.zeros_like(velocity)
    row = _drive_row(articulation, acting, none, none)
    sweep = implicit_sweep(acting.dt, drive_limits_are_forces=options.drive_limits_are_forces)
    exceeds = exceeds_bounds(row, drives.push - drives.gain * velocity, velocity, sweep)
    return acting.replace(in_matrix=1 - exceeds.astype(velocity.dtype))


def _drive_row(articulation: Articulation, acting: Acting, response: Array, softened: Array) -> DriveRow:
    return DriveRow(
        drive=articulation.drive,
        envelope=articulation.envelope,
        position_error=jnp.zeros_like(response),
        target_velocity=acting.commands.target_velocity,
        response=response,
        softened=softened,
        joint_force=acting.commands.joint_force,
    )


def distance_rows(articulation: Articulation, loops: LoopClosures, response: Array, dt: Array) -> DistanceRow:
    """The rows of all distances, for a response [nv, nv] under the hard relations."""
    direction = loops.rows.jacobian[loops.distances]
    lower_gap, upper_gap = distance_gaps(articulation, loops)
    effect = jnp.matmul(direction, response.T, precision=HIGHEST)
    mobility = jnp.sum(direction * effect, axis=1)
    free = mobility > _LOCKED * jnp.finfo(dt.dtype).eps * jnp.max(jnp.abs(response))
    drift = dt * loops.rows.bias[loops.distances]
    return DistanceRow(
        direction=direction,
        effect=jnp.where(free[:, None], effect, 0),
        response=jnp.where(free, mobility, 1),
        lower_velocity=-_approach(lower_gap, dt) - drift,
        upper_velocity=_approach(upper_gap, dt) - drift,
    )


def _approach(gap: Array, dt: Array) -> Array:
    """The speed at which a DOF may approach a limit at this distance; negative where it must retreat."""
    finite = jnp.isfinite(gap)
    distance = jnp.where(finite, gap, 0)
    inside = jnp.maximum(ERROR_REDUCTION * distance / dt, -_MAX_RETURN_SPEED)
    return jnp.where(finite, jnp.where(distance < 0, inside, distance / dt), jnp.inf)
