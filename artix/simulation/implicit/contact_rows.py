"""Contacts as rows of the implicit solver: three velocities each, two along the tangents and one along the normal.

Signorini's and Coulomb's laws are here one equation of a contact's impulse ``x`` and its velocity ``u``, after Alart
and Curnier: ``x_n = max(0, x_n - u_n / g_n)``, and ``x_t`` is the point nearest to ``x_t - u_t / g_t`` of the disc of
radius ``friction x_n``. Its solutions are the same for all positive ``g``, and those of De Saxce's cone condition; it
has a derivative wherever the contact clearly sticks, slides or separates.

A contact may push before it touches: ``x_n u_n = E`` then takes the place of ``x_n u_n = 0``, which is the stationarity
of a logarithmic barrier ``-E log(gap)``, the central path of interior-point methods.

Contacts move as their links do. A link with one contact has three motions that matter, those of the point; one with
more, such as a flat foot, has six, however many contacts there are: the rest of the solver sees these motions.

Alart and Curnier, *A mixed formulation for frictional contact problems prone to Newton like solution methods*, 1991.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul

Array = jax.Array


class LinkMotions(NamedTuple):
    """The motions of the links that touch, S in all: three of one contact's point, or six of a link with several."""

    direction: Array
    """Per generalised velocity, or per coordinate, [S, nv]."""
    effect: Array
    """Change of the coordinates by unit impulses, [S, nv]; see :mod:`artix.simulation.implicit.response`."""
    coupling: Array
    """Change of the motions by unit impulses, [S, S]."""
    start: Array | None = None
    """The motions where the coordinates are zero, [S]; ``None`` where these are the generalised velocity."""

    def of(self, velocity: Array) -> Array:
        """The motions [S] of a generalised velocity, or of coordinates, [nv]."""
        motions = matmul(self.direction, velocity)
        return motions if self.start is None else self.start + motions


class ContactRow(NamedTuple):
    """One contact (or all, with a leading axis [K]): two tangents, then the normal."""

    reach: Array
    """Its velocity per motion of the links, [3, S]."""
    approach: Array
    """What the normal velocity must at least be, with a minus sign: the speed at which the contact may close."""
    softness: Array
    """Velocity that compliance gives way per normal impulse."""
    friction: Array
    block: Array
    """Its velocity per impulse, [3, 3]."""
    sticking: Array
    """The impulse per velocity that stops all three at once, [3, 3]."""
    tangential: Array
    """An upper bound of the tangential velocity per tangential impulse."""
    normal: Array
    """The normal velocity per normal impulse, softness included."""
    smoothing: Array | None = None
    """E, what the normal impulse times the velocity that the law sees shall be; ``None`` for zero."""


class ContactRows(NamedTuple):
    """All contacts, K of them."""

    links: LinkMotions
    each: ContactRow

    @property
    def num_contacts(self) -> int:
        """K."""
        return len(self.each.approach)

    @property
    def direction(self) -> Array:
        """Their velocities per generalised velocity, [3 K, nv]."""
        return matmul(self._reach, self.links.direction)

    @property
    def effect(self) -> Array:
        """Change of the generalised velocity by unit impulses, [3 K, nv]."""
        return matmul(self._reach, self.links.effect)

    def on_links(self, impulse: Array) -> Array:
        """Impulses [K, 3] as impulses on the motions of the links, [S]."""
        return matmul(impulse.reshape(-1), self._reach)

    @property
    def _reach(self) -> Array:
        return self.each.reach.reshape(3 * self.num_contacts, -1)


def contact_rates(row: ContactRow, impulse: Array, motions: Array) -> Array:
    """The velocity [..., 3] that the laws see of motions [S]: the normal one shall not be negative."""
    rate = matmul(row.reach, motions)
    return rate.at[..., 2].add(row.approach + row.softness * impulse[..., 2])


def solve_contact_row(row: ContactRow, old: Array, rate: Array) -> Array:
    """Solves one contact in a sweep: its new impulse [3].

    If an impulse within the cone stops it, that one; else the normal law first, then friction for the tangential
    velocity that this leaves.

    Args:
      row: the contact.
      old: its impulse, [3].
      rate: see :func:`contact_rates`, [3].
    """
    normal = _normal(row, old[2], rate[2])
    slip = rate[:2] + row.block[:2, 2] * (normal - old[2])
    sliding = jnp.concatenate([_within_disc(old[:2] - slip / row.tangential, row.friction * normal), normal[None]])
    if row.smoothing is not None:
        return sliding
    stopping = old - jnp.sum(row.sticking * rate, axis=1)
    reach = row.friction * stopping[2]
    sticks = (stopping[2] > 0) & (stopping[0] ** 2 + stopping[1] ** 2 <= reach**2)
    return jnp.where(sticks, stopping, sliding)


def contact_imbalance(row: ContactRow, found: Array, rate: Array) -> Array:
    """The residual [3] of the contact laws, as an impulse, at an impulse [3] and its velocity [3]."""
    normal = _normal(row, found[2], rate[2])
    tangents = _within_disc(found[:2] - rate[:2] / row.tangential, row.friction * normal)
    return jnp.concatenate([tangents, normal[None]]) - found


def _normal(row: ContactRow, impulse: Array, rate: Array) -> Array:
    """The normal impulse by the law alone, if the rate changes by ``row.normal`` per impulse."""
    wanted = impulse - rate / row.normal
    if row.smoothing is None:
        return jnp.maximum(wanted, 0)
    # The positive root of x (x - wanted) = E / g, without cancellation.
    share = row.smoothing / row.normal
    root = jnp.sqrt(wanted**2 + 4 * share)
    return jnp.where(wanted > 0, 0.5 * (wanted + root), 2 * share / jnp.where(wanted > 0, 1, root - wanted))


def _within_disc(vector: Array, radius: Array) -> Array:
    """The nearest point to a vector [2] of a disc around zero."""
    square = jnp.sum(vector**2)
    outside = square > radius**2
    length = jnp.sqrt(jnp.where(outside, square, 1))
    return vector * jnp.where(outside, radius / length, 1)
