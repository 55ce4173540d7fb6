"""All rows of a step, and their laws as resolvents.

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
import numpy as np

from artix.math.arrays import matmul
from artix.simulation.common.sweep import Sweep
from artix.simulation.implicit.blocks import times
from artix.simulation.implicit.contact_rows import ContactRow, ContactRows
from artix.simulation.implicit.dof_rows import BoundImpulses, BoundRow, drive_impulse
from artix.simulation.implicit.laws import Impulses

Array = jax.Array


class VelocityBounds(NamedTuple):
    """E rows whose velocities are bounded: distances of loop joints, and hard relations with equal bounds."""

    direction: Array
    """J, [E, nv]."""
    lower: Array
    upper: Array
    response: Array
    """Velocity per impulse, [E]."""


class Rates(NamedTuple):
    """Velocities of all rows."""

    dofs: Array
    """[n]."""
    bounds: Array
    """[E]."""
    contacts: Array
    """Two tangential ones, then the normal one, [K, 3]."""


class Slopes(NamedTuple):
    """Decreases of the rows' impulses per velocity."""

    dofs: BoundImpulses
    """Of drives, friction and limits, [n] each."""
    bounds: Array
    """[E]."""
    contacts: Array
    """[K, 3, 3]."""

    def changes(self, rates: Rates) -> Impulses:
        """The changes of all impulses for changes of the velocities."""
        return Impulses(
            BoundImpulses(*(-slope * rates.dofs for slope in self.dofs)),
            -self.bounds * rates.bounds,
            -times(self.contacts, rates.contacts),
        )


class Lagged(NamedTuple):
    """What convex laws keep constant while Newton's method solves them."""

    slip: Array
    """De Saxce's correction s of each contact, [K]."""
    friction: Array
    """The largest friction impulse of each DOF: static friction, or dynamic once the DOF slips, [n]."""


class StepRows(NamedTuple):
    """The rows of all articulations of a step."""

    places: np.ndarray
    """Indices of the DOFs in the generalised velocity, [n]."""
    dofs: BoundRow
    bounds: VelocityBounds | None
    contacts: ContactRows | None
    sweep: Sweep

    def rates(self, velocity: Array) -> Rates:
        """The rows' velocities ``J v`` for a generalised velocity [nv]."""
        none = velocity[:0]
        bounds = none if self.bounds is None else matmul(self.bounds.direction, velocity)
        if self.contacts is None:
            return Rates(velocity[self.places], bounds, none.reshape(0, 3))
        motions = matmul(self.contacts.links.direction, velocity)
        return Rates(velocity[self.places], bounds, matmul(self.contacts.each.reach, motions))

    def force(self, impulses: Impulses) -> Array:
        """The generalised impulse ``J^T lambda``, [nv]."""
        total = jnp.zeros_like(impulses.contacts, shape=self.dofs.effect.shape[-1])
        total = total.at[self.places].add(impulses.dofs.total)
        if self.bounds is not None:
            total = total + matmul(impulses.distances, self.bounds.direction)
        if self.contacts is not None:
            on_links = self.contacts.on_links(impulses.contacts)
            total = total + matmul(on_links, self.contacts.links.direction)
        return total

    def stiffness(self, slopes: Slopes) -> Array:
        """``J^T diag(slopes) J``, [nv, nv]."""
        size = self.dofs.effect.shape[-1]
        diagonal = jnp.zeros_like(slopes.contacts, shape=size).at[self.places].add(slopes.dofs.total)
        matrix = jnp.diag(diagonal)
        if self.bounds is not None:
            direction = self.bounds.direction
            matrix = matrix + matmul(direction.T * slopes.bounds, direction)
        if self.contacts is not None:
            reach, direction = self.contacts.each.reach, self.contacts.links.direction
            pulled = jnp.sum(slopes.contacts[:, :, :, None] * reach[:, None], axis=2)
            width = len(direction)
            on_links = matmul(reach.reshape(-1, width).T, pulled.reshape(-1, width))
            matrix = matrix + matmul(direction.T, matmul(on_links, direction))
        return matrix

    def none(self) -> Impulses:
        """No impulses."""
        zero = jnp.zeros_like(self.dofs.response)
        bounds = zero[:0] if self.bounds is None else jnp.zeros_like(self.bounds.lower)
        count = 0 if self.contacts is None else self.contacts.num_contacts
        contacts = jnp.zeros_like(zero, shape=(count, 3))
        return Impulses(BoundImpulses(zero, zero, zero), bounds, contacts)

    def correction(self, rates: Rates) -> Array:
        """De Saxce's correction ``mu |u_t|`` of each contact, [K]."""
        if self.contacts is None:
            return rates.contacts[:, 2]
        return self.contacts.each.friction * _length(rates.contacts)

    def resolvent(self, center: Impulses, rates: Rates, lagged: Lagged, share: Array) -> tuple[Impulses, Slopes]:
        """The impulses of all rows' resolvents, with the convex law of contacts, and their slopes.

        Args:
          center: the impulses lambda0.
          rates: the rows' velocities.
          lagged: what convex laws keep constant.
          share: the response r of each resolvent as a share of the row's own.
        """
        dofs = _resolve_dofs(self, center.dofs, rates.dofs, lagged.friction, share)
        bounds = center.distances, center.distances
        if self.bounds is not None:
            bounds = _resolve_bounds(self.bounds, center.distances, rates.bounds, share)
        contacts = center.contacts, jnp.zeros_like(center.contacts, shape=(0, 3, 3))
        if self.contacts is not None:
            each = self.contacts.each
            contacts = _convex(each, center.contacts, rates.contacts, lagged.slip, share)
        impulses = Impulses(dofs[0], bounds[0], contacts[0])
        return impulses, Slopes(dofs[1], bounds[1], contacts[1])

    def active_sets(self, center: Impulses, rates: Rates, lagged: Lagged, share: float) -> tuple[Impulses, Slopes]:
        """The impulses of linear laws, and their slopes: what holds, slides and is open at ``center`` remains so.

        A row with its own response decides which; ``share`` is that of what holds. Arguments as for
        :meth:`resolvent`.
        """
        dofs = _active_dofs(self, center.dofs, rates.dofs, lagged.friction, share)
        bounds = center.distances, center.distances
        if self.bounds is not None:
            bounds = _active_bounds(self.bounds, center.distances, rates.bounds, share)
        contacts = center.contacts, jnp.zeros_like(center.contacts, shape=(0, 3, 3))
        if self.contacts is not None:
            contacts = _active_contacts(self.contacts.each, center.contacts, rates.contacts, share)
        impulses = Impulses(dofs[0], bounds[0], contacts[0])
        return impulses, Slopes(dofs[1], bounds[1], contacts[1])

    def residual(self, impulses: Impulses, rates: Rates, lagged: Lagged) -> Array:
        """How far the laws of all rows are from being satisfied, as velocities, [R]."""
        one = jnp.ones_like(self.sweep.dt)
        dofs, _ = _resolve_dofs(self, impulses.dofs, rates.dofs, lagged.friction, one)
        bounds, contacts = impulses.distances, impulses.contacts
        if self.bounds is not None:
            bounds, _ = _resolve_bounds(self.bounds, bounds, rates.bounds, one)
        if self.contacts is not None:
            contacts = _coulomb(self.contacts.each, contacts, rates.contacts)
        wanted = Impulses(dofs, bounds, contacts)
        return self.velocities(jax.tree.map(jnp.subtract, wanted, impulses))

    def velocities(self, impulses: Impulses) -> Array:
        """Impulses as the velocities that they give to their own rows, [R]."""
        dofs, bounds, contacts = impulses
        parts = [own * self.dofs.response for own in dofs]
        if self.bounds is not None:
            parts.append(bounds * self.bounds.response)
        if self.contacts is not None:
            each = self.contacts.each
            scale = jnp.stack([each.tangential, each.tangential, each.normal], axis=1)
            parts.append((contacts * scale).reshape(-1))
        return jnp.concatenate(parts)

    def admissible(self, impulses: Impulses, lagged: Lagged) -> Impulses:
        """The impulses cut to what friction allows, and contacts that do not pull."""
        dofs = impulses.dofs._replace(friction=jnp.clip(impulses.dofs.friction, -lagged.friction, lagged.friction))
        contacts = impulses.contacts
        if self.contacts is not None:
            normal = jnp.maximum(contacts[:, 2], 0)
            reach = self.contacts.each.friction * normal
            length = _length(contacts)
            factor = jnp.where(length > reach, reach / jnp.where(length > reach, length, 1), 1)
            contacts = jnp.concatenate([contacts[:, :2] * factor[:, None], normal[:, None]], axis=1)
        return Impulses(dofs, impulses.distances, contacts)


def _resolve_dofs(
    rows: StepRows, center: BoundImpulses, rate: Array, budget: Array, share: Array
) -> tuple[BoundImpulses, BoundImpulses]:
    """The resolvents of drives, friction and limits, [n] each, and their slopes."""
    row = rows.dofs
    response = share * row.response
    inverse = 1 / response
    drive, drive_slope = _resolve_drives(rows, center.drive, rate, response)
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


def _active_dofs(
    rows: StepRows, center: BoundImpulses, rate: Array, budget: Array, share: float
) -> tuple[BoundImpulses, BoundImpulses]:
    row = rows.dofs
    inverse = 1 / (share * row.response)
    drive, drive_slope = _resolve_drives(rows, center.drive, rate, share * row.response)
    stopping = center.friction - rate / row.response
    sticks = jnp.abs(stopping) < budget
    friction = jnp.where(sticks, center.friction - rate * inverse, jnp.clip(stopping, -budget, budget))
    free = rate - row.response * center.limit
    below, above = free < row.lower_velocity, free > row.upper_velocity
    bound = jnp.where(below, row.lower_velocity, jnp.where(above, row.upper_velocity, rate))
    limit = jnp.where(below | above, center.limit + (bound - rate) * inverse, 0)
    slopes = BoundImpulses(drive_slope, jnp.where(sticks, inverse, 0), jnp.where(below | above, inverse, 0))
    return BoundImpulses(drive, friction, limit), slopes


def _resolve_drives(rows: StepRows, center: Array, rate: Array, response: Array) -> tuple[Array, Array]:
    row = rows.dofs

    def pull(rate: Array) -> Array:
        free = response / (1 - row.in_matrix * row.gain * response)
        own = row._replace(response=response, drive=row.drive._replace(response=free))
        return drive_impulse(own, rate - response * center, rows.sweep)

    drive, rise = jax.jvp(pull, (rate,), (jnp.ones_like(rate),))
    return drive, -rise


def _resolve_bounds(row: VelocityBounds, center: Array, rate: Array, share: Array | float) -> tuple[Array, Array]:
    response = share * row.response
    free = rate - response * center
    held = (free < row.lower) | (free > row.upper) | (row.lower == row.upper)
    impulse = (jnp.clip(free, row.lower, row.upper) - free) / response
    return impulse, jnp.where(held, 1 / response, 0)


def _active_bounds(row: VelocityBounds, center: Array, rate: Array, share: float) -> tuple[Array, Array]:
    free = rate - row.response * center
    below, above = free < row.lower, free > row.upper
    held = below | above | (row.lower == row.upper)
    inverse = 1 / (share * row.response)
    bound = jnp.where(above, row.upper, row.lower)
    impulse = jnp.where(held, center + (jnp.where(held, bound, 0) - rate) * inverse, 0)
    return impulse, jnp.where(held, inverse, 0)


def _coulomb(row: ContactRow, center: Array, rate: Array) -> Array:
    """The resolvent of Coulomb's law with a contact's own response."""
    push, pull = _alone(row, center, rate)
    reach = row.friction * jnp.maximum(push, 0)
    length = _length(pull)
    slides = length > reach
    factor = jnp.where(slides, reach / jnp.where(slides, length, 1), 1)
    return jnp.concatenate([pull * factor[:, None], jnp.maximum(push, 0)[:, None]], axis=1)


def _active_contacts(row: ContactRow, center: Array, rate: Array, share: float) -> tuple[Array, Array]:
    """Semismooth Newton on Coulomb's resolvents, in closed form.

    Where a contact slides along -d, its friction is ``mu lambda_n d``, and across d it answers the velocity by
    ``-k u``, with k = mu lambda_n / |u_t| at the solution.
    """
    push, pull = _alone(row, center, rate)
    pushes = push > 0
    length, reach = _length(pull), row.friction * push
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


def _convex(row: ContactRow, center: Array, rate: Array, slip: Array, share: Array) -> tuple[Array, Array]:
    """The projection onto the friction cone in the metric of the responses.

    Normal components are scaled by ``c``, after which the projection is Euclidean and the friction mu / c.
    """
    tangential, rigid, normal = _responses(row, share)
    scale = jnp.sqrt(normal / tangential)
    mu = row.friction / scale
    push = scale * (center[:, 2] * (rigid / normal) - (rate[:, 2] + row.approach + slip) / normal)
    pull = center[:, :2] - rate[:, :2] / tangential[:, None]
    length = _length(pull)
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


def _length(vectors: Array) -> Array:
    """Lengths of the tangential parts of vectors [K, 3] or [K, 2]."""
    square = vectors[:, 0] ** 2 + vectors[:, 1] ** 2
    return jnp.sqrt(square)
