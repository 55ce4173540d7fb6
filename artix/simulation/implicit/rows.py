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

    def resolvent(
        self, center: Impulses, rates: Rates, lagged: Lagged, share: Array | float, is_convex: Array | bool
    ) -> tuple[Impulses, Slopes]:
        """The impulses of all rows' resolvents, and their slopes.

        Args:
          center: the impulses lambda0.
          rates: the rows' velocities.
          lagged: what convex laws keep constant.
          share: the response r of each resolvent as a share of the row's own.
          is_convex: whether contacts follow the convex law instead of Coulomb's.
        """
        dofs = resolve_dofs(self.dofs, center.dofs, rates.dofs, lagged.friction, share, self.sweep)
        bounds = center.distances, center.distances
        if self.bounds is not None:
            bounds = _resolve_bounds(self.bounds, center.distances, rates.bounds, share)
        contacts = center.contacts, jnp.zeros_like(center.contacts, shape=(0, 3, 3))
        if self.contacts is not None:
            each = self.contacts.each
            contacts = _coulomb(each, center.contacts, rates.contacts, share)
            if is_convex is not False:
                cone = _convex(each, center.contacts, rates.contacts, lagged.slip, share)
                pairs = zip(cone, contacts, strict=True)
                contacts = tuple(jnp.where(is_convex, ours, theirs) for ours, theirs in pairs)
        impulses = Impulses(dofs[0], bounds[0], contacts[0])
        return impulses, Slopes(dofs[1], bounds[1], contacts[1])

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
        dofs = impulses.dofs._replace(
            friction=jnp.clip(impulses.dofs.friction, -lagged.friction, lagged.friction)
        )
        contacts = impulses.contacts
        if self.contacts is not None:
            normal = jnp.maximum(contacts[:, 2], 0)
            reach = self.contacts.each.friction * normal
            length = _length(contacts)
            factor = jnp.where(length > reach, reach / jnp.where(length > reach, length, 1), 1)
            contacts = jnp.concatenate([contacts[:, :2] * factor[:, None], normal[:, None]], axis=1)
        return Impulses(dofs, impulses.distances, contacts)


def resolve_dofs(
    row: BoundRow, center: BoundImpulses, rate: Array, budget: Array, share: Array | float, sweep: Sweep
) -> tuple[BoundImpulses, BoundImpulses]:
    """The resolvents of drives, friction and limits, [n] each, and their slopes."""
    response = share * row.response
    inverse = 1 / response

    def pull(rate: Array) -> Array:
        free = response / (1 - row.in_matrix * row.gain * response)
        own = row._replace(response=response, drive=row.drive._replace(response=free))
        return drive_impulse(own, rate - response * center.drive, sweep)

    drive, drive_rise = jax.jvp(pull, (rate,), (jnp.ones_like(rate),))
    stopping = center.friction - rate * inverse
    friction = jnp.clip(stopping, -budget, budget)
    free = rate - response * center.limit
    limit = (jnp.clip(free, row.lower_velocity, row.upper_velocity) - free) * inverse
    beyond = (free < row.lower_velocity) | (free > row.upper_velocity)
    slopes = BoundImpulses(
        -drive_rise,
        jnp.where(jnp.abs(stopping) < budget, inverse, 0),
        jnp.where(beyond, inverse, 0),
    )
    return BoundImpulses(drive, friction, limit), slopes


def _resolve_bounds(row: VelocityBounds, center: Array, rate: Array, share: Array | float) -> tuple[Array, Array]:
    response = share * row.response
    free = rate - response * center
    held = (free < row.lower) | (free > row.upper) | (row.lower == row.upper)
    impulse = (jnp.clip(free, row.lower, row.upper) - free) / response
    return impulse, jnp.where(held, 1 / response, 0)


def _responses(row: ContactRow, share: Array | float) -> tuple[Array, Array, Array]:
    """Tangential and normal responses of a resolvent, and the normal one with the softness."""
    normal = share * (row.normal - row.softness)
    return share * row.tangential, normal, normal + row.softness


def _coulomb(row: ContactRow, center: Array, rate: Array, share: Array | float) -> tuple[Array, Array]:
    tangential, rigid, normal = _responses(row, share)
    push = center[:, 2] * (rigid / normal) - (rate[:, 2] + row.approach) / normal
    pushes = push > 0
    push = jnp.where(pushes, push, 0)
    pull = center[:, :2] - rate[:, :2] / tangential[:, None]
    length, reach = _length(pull), row.friction * push
    slides = length > reach
    direction = pull / jnp.where(slides, length, 1)[:, None]
    factor = jnp.where(slides, reach / jnp.where(slides, length, 1), 1)
    impulse = jnp.concatenate([pull * factor[:, None], push[:, None]], axis=1)
    along = jnp.where(slides, factor, 0)
    inward = jnp.where(slides & pushes, row.friction, 0) / normal
    slope = _blocks(
        direction,
        jnp.where(pushes, factor, 0) / tangential,
        -jnp.where(pushes, along, 0) / tangential,
        inward,
        jnp.zeros_like(inward),
        jnp.where(pushes, 1 / normal, 0),
    )
    return impulse, slope


def _convex(row: ContactRow, center: Array, rate: Array, slip: Array, share: Array | float) -> tuple[Array, Array]:
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
    impulse = jnp.concatenate(
        [pull * factor[:, None], (jnp.where(sticks, push, pressed) / scale)[:, None]], axis=1
    )
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


def _blocks(
    direction: Array, isotropic: Array, along: Array, inward: Array, outward: Array, normal: Array
) -> Array:
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
