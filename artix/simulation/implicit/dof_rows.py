"""Bounds of DOFs in the implicit solver: actuator limits, dry friction, position and velocity
limits.

Springs and dampers are already in the linear system. What remains are inequalities, and drives that
have limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import joined, shared
from artix.model.articulation import Articulation, State
from artix.model.joints import JointFrictions
from artix.simulation.common.control import room
from artix.simulation.common.drives import (
    DriveRow,
    Sweep,
    has_envelopes,
    within_envelope,
    within_limit,
)
from artix.simulation.implicit.relations import approach_speed
from artix.simulation.implicit.system import Acting, Response, drive_impulses, return_time

Array = jax.Array


class BoundRow(NamedTuple):
    """One DOF (or all, with a leading axis [n])."""

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
    """The smallest velocity that its limits of position and speed allow; that of position counts if
    they disagree."""
    upper_velocity: Array
    """The largest."""


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


def bound_rows(
    articulation: Articulation, state: State, acting: Acting, free: Response, enveloped: bool
) -> BoundRow:
    """The rows of all DOFs of an articulation, whose response to impulses is ``free``;
    ``enveloped`` if any drive of the step has an envelope.
    """
    topology, q, dt = articulation.topology, state.joint_position, acting.dt
    base, friction = topology.num_base_dofs, articulation.friction
    if acting.smooth_friction:  # Then the linear system contains it.
        friction = friction.replace(static=jnp.zeros_like(q), dynamic=jnp.zeros_like(q))
    response = free.diagonal[base:]
    drives = drive_impulses(articulation, state, acting)
    lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
    largest = articulation.max_joint_velocity
    least = -approach_speed(room(lower, q, -1), jnp.isfinite(lower), dt, return_time(dt))
    most = approach_speed(room(upper, q, 1), jnp.isfinite(upper), dt, return_time(dt))
    return BoundRow(
        response=response,
        drive=DriveRow(
            drive=articulation.drive,
            envelope=articulation.envelope if enveloped else None,
            position_error=jnp.zeros_like(response),
            target_velocity=acting.commands.target_velocity,
            response=response / (1 - acting.in_matrix * drives.gain * response),
            softened=1 / response,
            joint_force=acting.commands.joint_force,
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
) -> BoundRow:
    """:func:`bound_rows` of several articulations, one after another."""
    enveloped = any(map(has_envelopes, articulations))
    members = zip(articulations, states, acting, free, strict=True)
    return joined([bound_rows(*member, enveloped) for member in members])


def is_unlimited(articulation: Articulation) -> Array:
    """1 for DOFs whose drives have neither a limit nor an envelope, 0 for the others, [n]."""
    limited = jnp.isfinite(articulation.drive.max_force) | jnp.isfinite(
        articulation.envelope.max_effort
    )
    return 1 - limited.astype(articulation.dtype)


def bound_imbalance(row: BoundRow, impulses: BoundImpulses, velocity: Array, sweep: Sweep) -> Array:
    """The residual of a DOF's laws with its active bounds, as an impulse; zero at a solution.

    The laws are one equation for the DOF's velocity and total impulse, which together determine how
    both change. If a bound holds the DOF (sticking friction counts as one), its velocity equals the
    bound. Otherwise its impulse is that of the drive at this velocity plus that of sliding
    friction.

    Args:
      row: the DOF.
      found: its impulses, which tell which bounds are active.
      velocity: its velocity with these impulses.
      sweep: the sweep.
    """
    budget, friction = row.friction.dynamic * sweep.dt, impulses.friction
    sticks = _sticks(row, impulses, velocity, sweep)
    slides = jnp.where(sticks, 0, jnp.sign(friction)) * budget
    held = sticks | (impulses.limit != 0)
    # If friction and a limit hold it, the limit counts.
    bound = active_bound(impulses.limit, row.lower_velocity, row.upper_velocity)
    drive = impulses.drive + friction - slides
    wanted = drive_impulse(row, velocity - row.response * drive, sweep)
    return jnp.where(held, (bound - velocity) / row.response, wanted - drive)


@shared
def drive_impulse(row: BoundRow, velocity: Array, sweep: Sweep) -> Array:
    """The drive's impulse within its bounds, or what they take away; ``velocity`` is that without
    this impulse.
    """
    inside = row.in_matrix * row.gain
    unlimited = row.push - row.gain * velocity
    wanted = unlimited / (1 + (row.gain - inside) * row.response)
    there = velocity + (1 - row.in_matrix) * row.response * wanted
    force = within_envelope(row.drive, within_limit(row.drive, wanted, sweep), wanted, there, sweep)
    # A drive in the matrix responds to the change of velocity, so less than the whole impulse is
    # lost.
    return (force - row.in_matrix * unlimited) / (1 - inside * row.response)


def _sticks(row: BoundRow, impulses: BoundImpulses, velocity: Array, sweep: Sweep) -> Array:
    """Whether dry friction holds a DOF."""
    stops = jnp.abs(impulses.friction - velocity / row.response) <= row.friction.static * sweep.dt
    return stops & ((row.friction.static > 0) | (row.friction.dynamic > 0))


def active_bound(impulse: Array, lower: Array, upper: Array) -> Array:
    """The bound of a velocity at which its limit pushes; zero where none does."""
    return jnp.where(impulse < 0, upper, jnp.where(impulse > 0, lower, 0))
