"""Bounds of DOFs in the implicit solver: actuator limits, dry friction, position and velocity limits.

Springs and dampers are already in the linear system. What remains are inequalities, and drives beyond their limits.
Each is an impulse that projected Gauss-Seidel sweeps correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import joined
from artix.model.articulation import Articulation, State
from artix.model.joints import JointFrictions
from artix.simulation.common.control import room
from artix.simulation.common.drives import DriveRow, exceeds_bounds, within_envelope, within_limit
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.step_start import StepStart
from artix.simulation.common.sweep import Sweep, implicit_sweep
from artix.simulation.implicit.members import side_by_side
from artix.simulation.implicit.system import Acting, Response, drive_impulses, return_time, unlimited_velocity

Array = jax.Array

#: The largest speed [rad/s or m/s] at which a DOF returns into its limits. It keeps this speed, which is energy.
_MAX_RETURN_SPEED = 1.0

# A DOF is locked if hard relations leave less than this of its mobility, in units of the rounding error.
LOCKED = 100


class BoundRow(NamedTuple):
    """One DOF (or all, with a leading axis [n])."""

    effect: Array
    """Changes of the coordinates per unit impulse, [nv]; see ``Response``."""
    response: Array
    """Velocity per impulse."""
    drive: DriveRow
    gain: Array
    """Decrease of the drive's impulse per velocity."""
    push: Array
    """The drive's impulse at zero velocity."""
    in_matrix: Array
    """1 if the solver's matrix contains the drive, 0 if the row has all of its impulse."""
    friction: JointFrictions
    lower_velocity: Array
    """The smallest velocity that its limits of position and speed allow; that of position counts if they disagree."""
    upper_velocity: Array
    """The largest."""
    reading: Array | None = None
    """Derivative of its velocity by the coordinates, [nv]; ``None`` if these are the generalised velocity."""
    start: Array | None = None
    """Its velocity at zero coordinates."""


class BoundImpulses(NamedTuple):
    """Accumulated impulses of one DOF (or of all, [n])."""

    drive: Array
    """Impulse of the drive; for a drive in the matrix, the part that its bounds take away."""
    friction: Array
    limit: Array
    """Impulse of the limits of position and speed, positive at the lower ones."""

    @property
    def total(self) -> Array:
        """Total impulse of the DOF."""
        return self.drive + self.friction + self.limit


def bound_rows(articulation: Articulation, state: State, acting: Acting, free: Response, within: Response) -> BoundRow:
    """The rows of all DOFs.

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
        moves = response > LOCKED * jnp.finfo(dt.dtype).eps * unheld
        response, effect = jnp.where(moves, response, unheld), jnp.where(moves[:, None], effect, 0)
    drives = drive_impulses(articulation, state, acting)
    lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
    largest = articulation.max_joint_velocity
    least = -approach_speed(room(lower, q, -1), jnp.isfinite(lower), dt, return_time(dt))
    most = approach_speed(room(upper, q, 1), jnp.isfinite(upper), dt, return_time(dt))
    return BoundRow(
        effect=effect,
        response=response,
        drive=_drive_row(
            articulation, acting, response / (1 - acting.in_matrix * drives.gain * response), 1 / response
        ),
        gain=drives.gain,
        push=drives.push,
        in_matrix=acting.in_matrix,
        friction=friction,
        lower_velocity=jnp.clip(-largest, least, most),
        upper_velocity=jnp.clip(largest, least, most),
    )


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


def is_unlimited(articulation: Articulation) -> Array:
    """1 for DOFs whose drives have neither a limit nor an envelope, 0 for the others, [n]."""
    limited = jnp.isfinite(articulation.drive.max_force) | jnp.isfinite(articulation.envelope.max_effort)
    return 1 - limited.astype(articulation.dtype)


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


def approach_speed(gap: Array, exists: Array, dt: Array, time_constant: Array) -> Array:
    """The speed towards a bound at this distance that a step of length dt allows; infinite unless the bound ``exists``.

    It is negative beyond the bound: what lies beyond it over ``time_constant``, both times in s.
    """
    distance = jnp.where(exists, gap, 0)
    inside = jnp.maximum(distance / time_constant, -_MAX_RETURN_SPEED)
    return jnp.where(exists, jnp.where(distance < 0, inside, distance / dt), jnp.inf)


def solve_bounds(row: BoundRow, old: BoundImpulses, velocity: Array, sweep: Sweep) -> tuple[BoundImpulses, Array]:
    """Solves one DOF in a sweep: the new impulses, and the sum of their changes."""
    # A drive in the matrix that loses some of its impulse makes its joint softer, which invalidates the impulses of
    # other rows. Full corrections of such rows can diverge (joints at their limits beside limited drives: 1e43 rad/s
    # after 60 sweeps). This fraction is safe but slow; drives known to reach their limits are not in the matrix.
    wanted = drive_impulse(row, velocity - row.response * old.drive, sweep)
    drive = old.drive + (1 - row.in_matrix * row.gain * row.response) * (wanted - old.drive)
    velocity = velocity + row.response * (drive - old.drive)
    stopping = old.friction - velocity / row.response
    sliding = jnp.clip(stopping, -row.friction.dynamic * sweep.dt, row.friction.dynamic * sweep.dt)
    friction = jnp.where(jnp.abs(stopping) > row.friction.static * sweep.dt, sliding, stopping)
    # Without friction a DOF at rest must not stick: its derivatives would be those of a locked DOF.
    friction = jnp.where((row.friction.static > 0) | (row.friction.dynamic > 0), friction, old.friction)
    velocity = velocity + row.response * (friction - old.friction)
    limit = limit_impulse(old.limit, row.lower_velocity, row.upper_velocity, velocity, row.response)
    new = BoundImpulses(drive, friction, limit)
    return new, sum(after - before for after, before in zip(new, old, strict=True))  # type: ignore[return-value]


def bound_imbalance(row: BoundRow, found: BoundImpulses, velocity: Array, sweep: Sweep) -> Array:
    """The residual of a DOF's laws with its active bounds, as an impulse; zero once the sweeps have converged.

    The laws are one equation for the DOF's velocity and total impulse, which together determine how both change. If a
    bound holds the DOF (sticking friction counts as one), its velocity equals the bound. Otherwise its impulse is that
    of the drive at this velocity plus that of sliding friction.

    Args:
      row: the DOF.
      found: its impulses, which tell which bounds are active.
      velocity: its velocity with these impulses.
      sweep: the sweep.
    """
    budget, friction = row.friction.dynamic * sweep.dt, found.friction
    sticks = _sticks(row, found, velocity, sweep)
    slides = jnp.where(sticks, 0, jnp.sign(friction)) * budget
    held = sticks | (found.limit != 0)
    # If friction and a limit hold it, the limit counts, which solve_bounds applies last.
    bound = active_bound(found.limit, row.lower_velocity, row.upper_velocity)
    drive = found.drive + friction - slides
    wanted = drive_impulse(row, velocity - row.response * drive, sweep)
    return jnp.where(held, (bound - velocity) / row.response, wanted - drive)


def with_change(row: BoundRow, found: BoundImpulses, velocity: Array, change: Array, sweep: Sweep) -> BoundImpulses:
    """Adds a change of the total impulse to that of the bound that holds the DOF, or to the drive's if none does.

    Args:
      row: the DOF.
      found: its impulses, which tell which bounds are active.
      velocity: its velocity with these impulses.
      change: the change of their total.
      sweep: the sweep.
    """
    budget, sticks = row.friction.static * sweep.dt, _sticks(row, found, velocity, sweep)
    limited = found.limit != 0
    stuck = sticks & ~limited  # as in bound_imbalance
    limit = found.limit + change
    limit = jnp.where(found.limit > 0, jnp.maximum(limit, 0), jnp.minimum(limit, 0))
    return BoundImpulses(
        drive=found.drive + jnp.where(stuck | limited, 0, change),
        friction=jnp.where(stuck, jnp.clip(found.friction + change, -budget, budget), found.friction),
        limit=jnp.where(limited, limit, 0),
    )


def drive_impulse(row: BoundRow, velocity: Array, sweep: Sweep) -> Array:
    """The drive's impulse within its bounds, or what they take away; ``velocity`` is that without this impulse."""
    inside = row.in_matrix * row.gain
    unlimited = row.push - row.gain * velocity
    wanted = unlimited / (1 + (row.gain - inside) * row.response)
    there = velocity + (1 - row.in_matrix) * row.response * wanted
    given = within_envelope(row.drive, within_limit(row.drive, wanted, sweep), wanted, there, sweep)
    # A drive in the matrix responds to the change of velocity, so less than the whole impulse is lost.
    return (given - row.in_matrix * unlimited) / (1 - inside * row.response)


def _sticks(row: BoundRow, found: BoundImpulses, velocity: Array, sweep: Sweep) -> Array:
    """Whether dry friction holds a DOF."""
    stops = jnp.abs(found.friction - velocity / row.response) <= row.friction.static * sweep.dt
    return stops & ((row.friction.static > 0) | (row.friction.dynamic > 0))


def limit_impulse(old: Array, lower: Array, upper: Array, velocity: Array, response: Array) -> Array:
    """The impulse that keeps a velocity between two bounds, instead of an ``old`` one with which it is ``velocity``."""
    free = velocity - response * old
    return (jnp.clip(free, lower, upper) - free) / response


def active_bound(impulse: Array, lower: Array, upper: Array) -> Array:
    """The bound of a velocity at which its :func:`limit_impulse` pushes; zero where none does."""
    return jnp.where(impulse < 0, upper, jnp.where(impulse > 0, lower, 0))
