"""Contacts as rows of the implicit solver, three velocities each: two tangential ones and a normal one.

Signorini's and Coulomb's laws take the form of one equation for a contact's impulse ``x`` and velocity ``u``, after
Alart and Curnier: ``x_n = max(0, x_n - u_n / g_n)``, and ``x_t`` is the projection of ``x_t - u_t / g_t`` onto the disc
of radius ``friction x_n``. Its solutions do not depend on the positive ``g``, and satisfy De Saxce's cone condition. It
is differentiable wherever the contact clearly sticks, slides or separates.

With smoothing, contacts push before they touch: ``x_n u_n = E`` replaces ``x_n u_n = 0``. This is the stationarity
condition of a logarithmic barrier ``-E log(gap)``, the central path of interior-point methods.

Contacts move with their links. For a link with a single contact, three motions matter, those of the point. For a link
with several, such as a flat foot, it is six, however many contacts there are. The rest of the solver works with these
motions.

Alart and Curnier, *A mixed formulation for frictional contact problems prone to Newton like solution methods*, 1991.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import struct
from artix.math.arrays import matmul

Array = jax.Array


class LinkMotions(struct.PyTreeNode):
    """The S motions of touching links: three for a link with one contact, six for a link with several."""

    direction: Array
    """Derivatives by the generalised velocity or the coordinates, [S, nv]."""
    effect: Array
    """Changes of the coordinates per unit impulse, [S, nv]; see :mod:`artix.simulation.implicit.system`."""
    coupling: Array
    """Changes of the motions per unit impulse, [S, S]."""
    groups: tuple[tuple[int, ...], ...] = struct.field(pytree_node=False)
    """The contacts of each link, in the order of its motions."""
    start: Array | None = None
    """The motions at zero coordinates, [S]; ``None`` if the coordinates are the generalised velocity."""

    def of(self, velocity: Array) -> Array:
        """The motions [S] for a generalised velocity or coordinates [nv]."""
        motions = matmul(self.direction, velocity)
        return motions if self.start is None else self.start + motions

    def similar_links(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Contacts [G, m] and motions [G, 3 or 6] of links, together for G consecutive ones with m contacts each."""
        found, first = [], 0
        for count, alike in itertools.groupby(self.groups, len):
            contacts, size = np.array(list(alike)), num_motions(count)
            motions = first + np.arange(size * len(contacts)).reshape(-1, size)
            found.append((contacts, motions))
            first += motions.size
        return found


def num_motions(num_contacts: int) -> int:
    """How many motions of a link with so many contacts matter."""
    return 3 if num_contacts == 1 else 6


class ContactRow(NamedTuple):
    """One contact (or all, with a leading axis [K]): two tangents, then the normal."""

    reach: Array
    """Derivative of its velocity by the link motions, [3, S]."""
    approach: Array
    """The largest speed at which the contact may close: minus the lower bound of its normal velocity."""
    softness: Array
    """Velocity at which a compliant contact yields, per normal impulse."""
    friction: Array
    block: Array
    """Change of its velocity per impulse, [3, 3]."""
    sticking: Array
    """The impulse per velocity that stops all three at once, [3, 3]."""
    tangential: Array
    """An upper bound of the tangential velocity per tangential impulse."""
    normal: Array
    """The normal velocity per normal impulse, softness included."""
    smoothing: Array | None = None
    """E, the product of normal impulse and normal rate; ``None`` for zero."""


class ContactRows(NamedTuple):
    """All K contacts."""

    links: LinkMotions
    each: ContactRow

    @property
    def num_contacts(self) -> int:
        """K."""
        return len(self.each.approach)

    @property
    def direction(self) -> Array:
        """Derivatives of their velocities by the generalised velocity, [3 K, nv]."""
        return matmul(self._reach, self.links.direction)

    @property
    def effect(self) -> Array:
        """Changes of the generalised velocity per unit impulse, [3 K, nv]."""
        return matmul(self._reach, self.links.effect)

    def on_links(self, impulse: Array) -> Array:
        """Converts impulses [K, 3] to impulses on the link motions, [S]."""
        return matmul(impulse.reshape(-1), self._reach)

    def of_links(self, contacts: np.ndarray, motions: np.ndarray) -> ContactRows:
        """The rows of links with contacts [G, m] and motions [G, s], with leading axes [G]; see ``LinkMotions``."""
        links, each = self.links, jax.tree.map(lambda leaf: leaf[contacts], self.each)
        own = LinkMotions(
            direction=links.direction[motions],
            effect=links.effect[motions],
            coupling=links.coupling[motions[:, :, None], motions[:, None]],
            groups=(tuple(range(contacts.shape[1])),),
            start=None if links.start is None else links.start[motions],
        )
        reach = self.each.reach[contacts[:, :, None, None], np.arange(3)[:, None], motions[:, None, None]]
        return ContactRows(own, each._replace(reach=reach))

    @property
    def _reach(self) -> Array:
        return self.each.reach.reshape(3 * self.num_contacts, -1)


def contact_rates(row: ContactRow, impulse: Array, motions: Array) -> Array:
    """The contact rates [..., 3] in the laws for motions [S]; the normal one must not be negative."""
    rate = matmul(row.reach, motions)
    return rate.at[..., 2].add(row.approach + row.softness * impulse[..., 2])


def solve_contact_row(row: ContactRow, old: Array, rate: Array) -> Array:
    """Solves one contact in a sweep: its new impulse [3].

    If an impulse within the cone stops the contact, that is the solution. Otherwise the normal law is solved first, and
    then friction for the remaining tangential velocity.

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


def contact_residuals(rows: ContactRows, impulse: Array, velocity: Array) -> tuple[Array, Array, Array]:
    """How far impulses [K, 3] and a generalised velocity or coordinates [nv] are from the laws of all contacts.

    Returns:
      The rates in the laws, the residuals as impulses, and these as velocities, [K, 3] each.
    """
    each = rows.each
    rates = contact_rates(each, impulse, rows.links.of(velocity))
    imbalance = jax.vmap(contact_imbalance)(each, impulse, rates)
    per_impulse = jnp.stack([each.tangential, each.tangential, each.normal], axis=1)
    return rates, imbalance, per_impulse * imbalance


def _normal(row: ContactRow, impulse: Array, rate: Array) -> Array:
    """Solves the normal law, given that the rate changes by ``row.normal`` per impulse."""
    wanted = impulse - rate / row.normal
    if row.smoothing is None:
        return jnp.maximum(wanted, 0)
    # The positive root of x (x - wanted) = E / g, without cancellation.
    share = row.smoothing / row.normal
    root = jnp.sqrt(wanted**2 + 4 * share)
    return jnp.where(wanted > 0, 0.5 * (wanted + root), 2 * share / jnp.where(wanted > 0, 1, root - wanted))


def _within_disc(vector: Array, radius: Array) -> Array:
    """Projects a vector [2] onto a disc around zero."""
    square = jnp.sum(vector**2)
    outside = square > radius**2
    length = jnp.sqrt(jnp.where(outside, square, 1))
    return vector * jnp.where(outside, radius / length, 1)
