"""The laws of all rows of a step, as resolvents.

A row has a velocity ``u = J v`` and an impulse ``lambda``, which its law relates: a drive, dry
friction and the limits of a DOF; bounds of other velocities, which are equal for hard relations;
contact with Coulomb friction. With a response r, the resolvent of a law at a centre ``lambda0`` is
the impulse that satisfies it where the row's velocity is ``u + r (lambda - lambda0)``, that is,
with ``x = u - r lambda0``::

    bounds of a velocity      lambda = (clip(x, lower, upper) - x) / r
    friction within f         lambda = clip(-x / r, -f, f)
    Coulomb's contact         lambda_n = max(0, -x_n / r),  lambda_t = -x_t / r within |.| <= mu lambda_n

A law holds wherever its resolvent returns its centre. The change from centre to resolvent measures
how far it is from being satisfied, with r = the row's own response.

Newton's method needs slopes. Let S be the decrease of a resolvent per velocity, with the row's own
response w. A change du of the velocity then changes the resolvent by ``S (w dlambda - du)``, so the
impulse that the resolvent will return is ``lambda + (resolvent - lambda - S du) / (1 - S w)``.
Where a bound or friction holds a row, S w = 1, and a small share of w is added to keep the quotient
finite.

With contact smoothing E, a contact's normal law is ``lambda_n u_n = E`` instead of
``lambda_n u_n = 0``.
"""  # noqa: E501

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.traces import shared
from artix.model.joints import JointFrictions
from artix.simulation.common.drives import DriveRow, Sweep, within_envelope, within_limit

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
    held_response: Array | None = None
    """Velocity per impulse while contacts hold, from which linear functions tell whether friction
    stops a DOF; ``None`` for ``response``."""


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


class VelocityBounds(NamedTuple):
    """E rows whose velocities are bounded: distances of loop joints, and hard relations with equal
    bounds.
    """

    direction: Array
    """J, [E, nv]."""
    lower: Array
    upper: Array
    response: Array
    """Velocity per impulse, [E]."""


class ContactRow(NamedTuple):
    """One contact (or all, with a leading axis [K]): two tangents, then the normal."""

    reach: Array
    """Derivative of its velocity by the link motions, [3, S]."""
    approach: Array
    """The largest speed at which the contact may close: minus the lower bound of its normal
    velocity."""
    softness: Array
    """Velocity at which a compliant contact yields, per normal impulse."""
    friction: Array
    tangential: Array
    """An upper bound of the tangential velocity per tangential impulse."""
    normal: Array
    """The normal velocity per normal impulse, softness included."""
    smoothing: Array | None = None
    """E, the product of normal impulse and normal rate; ``None`` for zero."""


class Linear(NamedTuple):
    """An impulse as a linear function of its row's velocity, near the current one."""

    change: Array
    """What is added to the impulse at the current velocity."""
    slope: Array
    """Decrease of the impulse per velocity."""


def held(change: Array, is_held: Array, inverse: Array, share: Array | float) -> Linear:
    """The linear function of scalar rows of which each is either held or open, from the change to
    their own resolvent and the inverses of their responses.
    """
    factor = jnp.where(is_held, 1 / share, 1)
    return Linear(factor * change, jnp.where(is_held, inverse / share, 0))


@shared
def drive_impulse(row: BoundRow, velocity: Array, sweep: Sweep) -> Array:
    """The drive's impulse within its bounds, or what they take away; ``velocity`` is that without
    this impulse.
    """
    inside, wanted = row.in_matrix * row.gain, _unlimited_impulse(row, velocity)
    there = velocity + (1 - row.in_matrix) * row.response * wanted
    unlimited = row.push - row.gain * velocity
    force = within_envelope(row.drive, within_limit(row.drive, wanted, sweep), wanted, there, sweep)
    # A drive in the matrix responds to the change of velocity, so less than the whole impulse is
    # lost.
    return (force - row.in_matrix * unlimited) / (1 - inside * row.response)


def _unlimited_impulse(row: BoundRow, velocity: Array) -> Array:
    """The whole impulse of the drive without its limit."""
    outside = (1 - row.in_matrix) * row.gain
    return (row.push - row.gain * velocity) / (1 + outside * row.response)


@shared
def linear_dofs(
    row: BoundRow,
    sweep: Sweep,
    center: BoundImpulses,
    rates: BoundImpulses,
    budget: Array,
    share: Array | float,
) -> tuple[BoundImpulses, tuple[Linear, Linear, Linear]]:
    """The changes from impulses to the resolvents of drives, friction and limits, [n] each, with
    the DOFs' own responses, and linear functions.

    Changes are free of cancellation, which rows that hold would magnify.

    Args:
      row: the DOFs.
      sweep: the time over which forces act.
      center: the impulses.
      rates: the velocities at which each of the laws is, [n].
      budget: the largest impulses of friction, [n].
      share: the response of the rows' springs as a share of their own.
    """
    response, inverse = row.response, 1 / row.response
    # The law holds for any response. With that of a free leg, friction seems to stop a joint that
    # moves on slowly with the body on a foot that sticks.
    per_rate = inverse if row.held_response is None else 1 / row.held_response
    drive, drives = _linear_drives(row, sweep, center.drive, rates.drive, share)
    stopping = center.friction - rates.friction * per_rate
    sticks = jnp.abs(stopping) < budget
    sliding = jnp.clip(stopping, -budget, budget) - center.friction
    friction = jnp.where(sticks, -rates.friction / response, sliding)
    limit, beyond = _bounded(
        row.lower_velocity, row.upper_velocity, response, center.limit, rates.limit
    )
    held_by_friction = held(friction, sticks, inverse, share)
    held_by_limit = held(limit, beyond, inverse, share)
    return BoundImpulses(drive, friction, limit), (drives, held_by_friction, held_by_limit)


def _linear_drives(
    row: BoundRow, sweep: Sweep, center: Array, rate: Array, share: Array | float
) -> tuple[Array, Linear]:
    """The same for drives. One without an envelope is linear within its limit, with what is outside
    the matrix, and takes what is in the matrix away beyond it.
    """
    response, inside = row.response, row.in_matrix * row.gain
    remainder = 1 - inside * response
    alone = row._replace(drive=row.drive._replace(response=response / remainder))

    def pull(rate: Array) -> Array:
        return drive_impulse(alone, rate - response * center, sweep)

    if row.drive.envelope is not None:
        impulse, rise = jax.jvp(pull, (rate,), (jnp.ones_like(rate),))
        factor = 1 / (1 + (1 - share) * rise * response)
        return impulse - center, Linear(factor * (impulse - center), -factor * rise)
    change, outside = pull(rate) - center, (1 - row.in_matrix) * row.gain
    wanted = _unlimited_impulse(alone, rate - response * center)
    is_within = within_limit(row.drive, wanted, sweep) == wanted
    factor = jnp.where(is_within, 1 + outside * response, remainder)
    return change, Linear(factor * change, jnp.where(is_within, outside, -inside))


def linear_bounds(
    row: VelocityBounds, center: Array, rate: Array, share: Array | float
) -> tuple[Array, Linear]:
    """The same for bounds of velocities, of which equal ones always hold."""
    change, beyond = _bounded(row.lower, row.upper, row.response, center, rate)
    always = row.lower == row.upper
    change = jnp.where(always, (row.lower - rate) / row.response, change)
    return change, held(change, beyond | always, 1 / row.response, share)


def _bounded(
    lower: Array, upper: Array, response: Array, center: Array, rate: Array
) -> tuple[Array, Array]:
    """What keeps velocities within their bounds, as changes of impulses, and whether something
    does.
    """
    free = rate - response * center
    beyond = (free < lower) | (free > upper)
    bound = jnp.clip(free, lower, upper)
    return jnp.where(beyond, (bound - rate) / response, -center), beyond


@shared
def linear_contacts(
    row: ContactRow, center: Array, rate: Array, share: Array | float
) -> tuple[Array, Linear]:
    """The changes to the resolvents of Coulomb's law with the contacts' own responses, and linear
    functions.

    Where a contact slides along -d, its friction is ``mu lambda_n d``, and across d it answers the
    velocity by ``-k u``, with k = mu lambda_n / |u_t| at the solution. ``sticking`` is the share of
    friction that holds.
    """
    rigid = 1 - row.softness / row.normal
    push = rigid * center[:, 2] - (rate[:, 2] + row.approach) / row.normal
    pull = center[:, :2] - rate[:, :2] / row.tangential[:, None]
    pressed, rise = _pressed(row, push, 1 / row.normal)
    factor = _yielding(row, rise, rigid, share)
    # Free of cancellation, which rows that hold would magnify.
    missing = -(rate[:, 2] + row.approach + row.softness * center[:, 2]) / row.normal
    missing = jnp.where((push > 0) & (row.smoothing is None), missing, pressed - center[:, 2])
    outward = factor * missing
    yields = factor * rise / row.normal

    length, reach = tangential_length(pull), row.friction * pressed
    pushes = pressed > 0
    slides = pushes & (length > reach)
    sticks = pushes & ~slides & (reach > 0)
    inverse = 1 / jnp.where(slides, length, 1)
    direction, part = pull * inverse[:, None], jnp.where(slides, reach * inverse, 0)
    within = jnp.where(sticks, 1, part)
    still = -rate[:, :2] / row.tangential[:, None]
    slip = jnp.where(sticks[:, None], still, pull * within[:, None] - center[:, :2])
    wrong = jnp.concatenate([slip, missing[:, None]], axis=1)
    across = jnp.where(sticks, 1 / share, part / (1 - part + share)) / row.tangential
    sideways = -across[:, None] * rate[:, :2]
    along = -jnp.sum(direction * sideways, axis=1) + row.friction * (center[:, 2] + outward)
    sliding = sideways + along[:, None] * direction - center[:, :2]
    friction = jnp.where(sticks[:, None], sideways, sliding)
    slope = _blocks(
        direction,
        across,
        jnp.where(slides, -across, 0),
        jnp.where(slides, row.friction * yields, 0),
        jnp.zeros_like(across),
        yields,
    )
    return wrong, Linear(jnp.concatenate([friction, outward[:, None]], axis=1), slope)


def _yielding(row: ContactRow, rise: Array, rigid: Array, share: Array | float) -> Array:
    """The factor ``1 / (1 - S w)`` of normal laws."""
    if row.smoothing is not None:
        return 1 / (1 - (1 - share) * rise * rigid)
    softness = 1 - rigid
    return jnp.where(rise > 0, 1 / (softness + share * rigid), 1)


def resolve_normal(row: ContactRow, center: Array, rate: Array) -> Array:
    """The resolvent of the normal law with the contact's own response."""
    rigid = 1 - row.softness / row.normal
    return _pressed(row, rigid * center - (rate + row.approach) / row.normal, 1 / row.normal)[0]


def resolve_friction(row: ContactRow, center: Array, rate: Array, normal: Array) -> Array:
    """The resolvent [2] of friction with the contact's own response, for a normal impulse."""
    pull = center - rate / row.tangential
    reach, length = row.friction * normal, jnp.sqrt(jnp.sum(pull**2))
    return pull * jnp.where(length > reach, reach / jnp.where(length > reach, length, 1), 1)


def _pressed(row: ContactRow, push: Array, inverse: Array) -> tuple[Array, Array]:
    """The normal impulse that is nearest to ``push``, and its change per push.

    With smoothing it is the positive root of ``x (x - push) = E inverse``.
    """
    if row.smoothing is None:
        return jnp.maximum(push, 0), (push > 0).astype(push.dtype)
    share = row.smoothing * inverse
    root = jnp.sqrt(push**2 + 4 * share)
    is_away = push <= 0
    # Without cancellation.
    pressed = jnp.where(
        is_away, 2 * share / jnp.where(is_away, root - push, 1), 0.5 * (push + root)
    )
    return pressed, pressed / root


def _blocks(
    direction: Array, isotropic: Array, along: Array, inward: Array, outward: Array, normal: Array
) -> Array:
    """Blocks [K, 3, 3]: ``isotropic I + along d d^T`` for tangents, ``inward d``, ``outward d^T``,
    normal.
    """
    x, y = direction[:, 0], direction[:, 1]
    cross = along * x * y
    rows = (
        (isotropic + along * x * x, cross, inward * x),
        (cross, isotropic + along * y * y, inward * y),
        (outward * x, outward * y, normal),
    )
    return jnp.stack([jnp.stack(row, axis=1) for row in rows], axis=1)


def tangential_length(vectors: Array) -> Array:
    """Lengths of the tangential parts of vectors [K, 3] or [K, 2]."""
    square = vectors[:, 0] ** 2 + vectors[:, 1] ** 2
    return jnp.sqrt(square)
