"""The rows of joints in the implicit solver: actuator limits, dry friction, position and velocity
limits of DOFs, and the bounds of loop joints' distances.

Springs and dampers are already in the linear system. What remains are inequalities, and what limits
take away from drives. A bound of a position lets the velocity reach it within the step, but not
pass it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import joined
from artix.model.articulation import Articulation, State
from artix.simulation.common.control import room
from artix.simulation.common.couplings import ERROR_REDUCTION, LoopClosures, distance_gaps
from artix.simulation.common.drives import DriveRow, has_envelopes
from artix.simulation.implicit.resolvents import BoundRow
from artix.simulation.implicit.system import Acting, Response, drive_impulses

Array = jax.Array

#: Time constant [s] with which a penetration, or what lies beyond a limit, is undone. The velocity
#: stays, and with it energy: with PhysX's 0.8 of it in a step of 5 ms, jammed humanoids gained ten
#: times as much in the mean, at most 5 J.
_RETURN_TIME = 0.025

#: The largest speed [rad/s or m/s] at which a DOF returns into its limits. It keeps this speed,
#: which is energy.
_MAX_RETURN_SPEED = 1.0


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


def approach_speed(gap: Array, exists: Array, dt: Array, time_constant: Array) -> Array:
    """The speed towards a bound at this distance that a step of length dt allows; infinite unless
    the bound ``exists``.

    It is negative beyond the bound: what lies beyond it over ``time_constant``, both times in s.
    """
    distance = jnp.where(exists, gap, 0)
    # Two divisions for all bounds, not for each of them: a quadruped has 24.
    inside = jnp.maximum(distance * (1 / time_constant), -_MAX_RETURN_SPEED)
    return jnp.where(exists, jnp.where(distance < 0, inside, distance * (1 / dt)), jnp.inf)


def return_time(dt: Array) -> Array:
    """A penetration over this time [s] is the speed at which a step of length dt undoes it; so
    beyond a limit.
    """
    return jnp.maximum(_RETURN_TIME, dt / ERROR_REDUCTION)


class DistanceRows(NamedTuple):
    """The distances of D loop joints' two origins."""

    direction: Array
    """Derivatives of the rates by the generalised velocity, [D, nv]."""
    lower_velocity: Array
    """Smallest rates that the lower bounds allow, [D]."""
    upper_velocity: Array
    """Largest rates that the upper bounds allow, [D]."""


def distance_rows(articulation: Articulation, loops: LoopClosures, dt: Array) -> DistanceRows:
    """The rows of all distances."""
    lower_gap, upper_gap = distance_gaps(articulation, loops)
    drift = dt * loops.rows.bias[loops.distances]
    # A taut rope is a loop joint: errors of the steps' linearisation must not add up, so they are
    # undone as those of hard relations, faster than penetrations.
    time_constant = dt / ERROR_REDUCTION
    return DistanceRows(
        direction=loops.rows.jacobian[loops.distances],
        lower_velocity=-approach_speed(lower_gap, lower_gap < jnp.inf, dt, time_constant) - drift,
        upper_velocity=approach_speed(upper_gap, upper_gap < jnp.inf, dt, time_constant) - drift,
    )


def has_dry_friction(articulation: Articulation) -> bool:
    """Whether any DOF may have dry friction."""
    return not {"friction.static", "friction.dynamic"} <= {*articulation.absent}
