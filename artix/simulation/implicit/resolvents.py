"""The laws of all rows of a step, as resolvents.

A row has a velocity ``u = J v`` and an impulse ``lambda``, which its law relates: a drive, dry friction
and the limits of a DOF; bounds of other velocities, which are equal for hard relations; contact with
Coulomb friction. With a response r, the resolvent of a law at a centre ``lambda0`` is the impulse that
satisfies it where the row's velocity is ``u + r (lambda - lambda0)``, that is, with ``x = u - r lambda0``::

    bounds of a velocity      lambda = (clip(x, lower, upper) - x) / r
    friction within f         lambda = clip(-x / r, -f, f)
    Coulomb's contact         lambda_n = max(0, -x_n / r),  lambda_t = -x_t / r within |.| <= mu lambda_n
    contact, convex           lambda = the point of the friction cone nearest to -(x + s n) / r

A law holds wherever its resolvent returns its centre. With a small r, resolvents make Newton's method
fast; with r = the row's own response, the change from centre to resolvent measures how far a law is
from being satisfied. In the convex law of a contact, De Saxce's correction ``s = mu |u_t|`` is constant.
It is Coulomb's law once s is right, and maximal dissipation otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.simulation.common.sweep import Sweep
from artix.simulation.implicit.contact_rows import ContactRow
from artix.simulation.implicit.dof_rows import BoundImpulses, BoundRow, drive_impulse

Array = jax.Array


class VelocityBounds(NamedTuple):
    """E rows whose velocities are bounded: distances of loop joints, and hard relations with equal bounds."""

    direction: Array
    """J, [E, nv]."""
    lower: Array
    upper: Array
    response: Array
    """Velocity per impulse, [E]."""


def resolve_dofs(
    row: BoundRow, sweep: Sweep, center: BoundImpulses, rate: Array, budget: Array, share: Array
) -> tuple[BoundImpulses, BoundImpulses]:
    """The resolvents of drives, friction and limits, [n] each, and their slopes."""
    response = share * row.response
    inverse = 1 / response
    drive, drive_slope = _resolve_drives(row, sweep, center.drive, rate, response)
    stopping = center.friction - rate * inverse
    friction = jnp.clip(stopping, -budget, budget)
    free = rate - response * center.limit
    limit = (jnp.clip(free, row.lower_velocity, row.upper_velocity) - free) * inverse
    beyond = (free < row.lower_velocity) | (free > row.upper_velocity)
    slopes = BoundImpulses(
        drive_slope,
        jnp.where(jnp.abs(stopping) < budget, inverse, 0),
        jnp.where(beyond, inverse, 0),
    )
    return BoundImpulses(drive, friction, limit), slopes


def active_dofs(
    row: BoundRow, sweep: Sweep, center: BoundImpulses, rate: Array, budget: Array, share: float
) -> tuple[BoundImpulses, BoundImpulses]:
    """The impulses of drives, friction and limits where what sticks and pushes remains so, and their slopes."""
    inverse = 1 / (share * row.response)
    drive, drive_slope = _resolve_drives(row, sweep, center.drive, rate, share * row.response)
    stopping = center.friction - rate / row.response
    sticks = jnp.abs(stopping) < budget
    friction = jnp.where(sticks, center.friction - rate * inverse, jnp.clip(stopping, -budget, budget))
    free = rate - row.response * center.limit
    below, above = free < row.lower_velocity, free > row.upper_velocity
    bound = jnp.where(below, row.lower_velocity, jnp.where(above, row.upper_velocity, rate))
    limit = jnp.where(below | above, center.limit + (bound - rate) * inverse, 0)
    slopes = BoundImpulses(drive_slope, jnp.where(sticks, inverse, 0), jnp.where(below | above, inverse, 0))
    return BoundImpulses(drive, friction, limit), slopes


def _resolve_drives(row: BoundRow, sweep: Sweep, center: Array, rate: Array, response: Array) -> tuple[Array, Array]:
    def pull(rate: Array) -> Array:
        free = response / (1 - row.in_matrix * row.gain * response)
        own = row._replace(response=response, drive=row.drive._replace(response=free))
        return drive_impulse(own, rate - response * center, sweep)

    drive, rise = jax.jvp(pull, (rate,), (jnp.ones_like(rate),))
    return drive, -rise


def resolve_bounds(row: VelocityBounds, center: Array, rate: Array, share: Array | float) -> tuple[Array, Array]:
    """The resolvents of bounds of velocities, and their slopes."""
    response = share * row.response
    free = rate - response * center
    held = (free < row.lower) | (free > row.upper) | (row.lower == row.upper)
    impulse = (jnp.clip(free, row.lower, row.upper) - free) / response
    return impulse, jnp.where(held, 1 / response, 0)


def active_bounds(row: VelocityBounds, center: Array, rate: Array, share: float) -> tuple[Array, Array]:
    """The impulses of bounds where what pushes remains so, and their slopes."""
    free = rate - row.response * center
    below, above = free < row.lower, free > row.upper
    held = below | above | (row.lower == row.upper)
    inverse = 1 / (share * row.response)
    bound = jnp.where(above, row.upper, row.lower)
    impulse = jnp.where(held, center + (jnp.where(held, bound, 0) - rate) * inverse, 0)
    return impulse, jnp.where(held, inverse, 0)


def coulomb(row: ContactRow, center: Array, rate: Array) -> Array:
    """The resolvent of Coulomb's law with a contact's own response."""
    push, pull = _alone(row, center, rate)
    reach = row.friction * jnp.maximum(push, 0)
    length = tangential_length(pull)
    slides = length > reach
    factor = jnp.where(slides, reach / jnp.where(slides, length, 1), 1)
    return jnp.concatenate([pull * factor[:, None], jnp.maximum(push, 0)[:, None]], axis=1)


def active_contacts(row: ContactRow, center: Array, rate: Array, share: float) -> tuple[Array, Array]:
    """Semismooth Newton on Coulomb's resolvents, in closed form.

    Where a contact slides along -d, its friction is ``mu lambda_n d``, and across d it answers the velocity by
    ``-k u``, with k = mu lambda_n / |u_t| at the solution.
    """
    push, pull = _alone(row, center, rate)
    pushes = push > 0
    length, reach = tangential_length(pull), row.friction * push
    slides = pushes & (length > reach)
    sticks = pushes & ~slides
    tangential, _, normal = _responses(row, share)
    held = (center[:, 2] * (normal - row.softness) - rate[:, 2] - row.approach) / normal
    held = jnp.where(pushes, held, 0)
    direction = pull / jnp.where(slides, length, 1)[:, None]
    part = jnp.where(slides, reach / jnp.where(slides, length, 1), 0)
    across = part / ((1 - part + share) * row.tangential)
    sideways = rate[:, :2] - direction * jnp.sum(direction * rate[:, :2], axis=1)[:, None]
    sliding = (row.friction * held)[:, None] * direction - across[:, None] * sideways
    sticking = center[:, :2] - rate[:, :2] / tangential[:, None]
    friction = jnp.where(slides[:, None], sliding, jnp.where(sticks[:, None], sticking, 0))
    slope = _blocks(
        direction,
        jnp.where(sticks, 1 / tangential, across),
        -across,
        jnp.where(slides, row.friction / normal, 0),
        jnp.zeros_like(across),
        jnp.where(pushes, 1 / normal, 0),
    )
    return jnp.concatenate([friction, held[:, None]], axis=1), slope


def _alone(row: ContactRow, center: Array, rate: Array) -> tuple[Array, Array]:
    """The normal impulse [K] and friction [K, 2] that would stop a contact with its own response."""
    softened = row.approach + row.softness * center[:, 2]
    push = center[:, 2] - (rate[:, 2] + softened) / row.normal
    return push, center[:, :2] - rate[:, :2] / row.tangential[:, None]


def _responses(row: ContactRow, share: Array | float) -> tuple[Array, Array, Array]:
    """Tangential and normal responses of a resolvent, and the normal one with the softness."""
    normal = share * (row.normal - row.softness)
    return share * row.tangential, normal, normal + row.softness


def convex_contacts(row: ContactRow, center: Array, rate: Array, slip: Array, share: Array) -> tuple[Array, Array]:
    """The projection onto the friction cone in the metric of the responses.

    Normal components are scaled by ``c``, after which the projection is Euclidean and the friction mu / c.
    """
    tangential, rigid, normal = _responses(row, share)
    scale = jnp.sqrt(normal / tangential)
    mu = row.friction / scale
    push = scale * (center[:, 2] * (rigid / normal) - (rate[:, 2] + row.approach + slip) / normal)
    pull = center[:, :2] - rate[:, :2] / tangential[:, None]
    length = tangential_length(pull)
    sticks, opens = (push > 0) & (length <= mu * push), mu * length <= -push
    slides = ~sticks & ~opens
    safe = jnp.where(slides, length, 1)
    direction = pull / safe[:, None]
    share_of_normal = 1 / (1 + mu**2)
    pressed = jnp.where(slides, (mu * length + push) * share_of_normal, 0)
    factor = jnp.where(sticks, 1, mu * pressed / safe)
    impulse = jnp.concatenate([pull * factor[:, None], (jnp.where(sticks, push, pressed) / scale)[:, None]], axis=1)
    outward = jnp.where(slides, mu * share_of_normal, 0) / (scale * tangential)
    slope = _blocks(
        direction,
        factor / tangential,
        jnp.where(slides, mu**2 * share_of_normal - factor, 0) / tangential,
        outward,
        outward,
        jnp.where(sticks, 1, jnp.where(slides, share_of_normal, 0)) / normal,
    )
    return impulse, slope


def _blocks(direction: Array, isotropic: Array, along: Array, inward: Array, outward: Array, normal: Array) -> Array:
    """Blocks [K, 3, 3]: ``isotropic I + along d d^T`` for tangents, ``inward d``, ``outward d^T``, normal."""
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
