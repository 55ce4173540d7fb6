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

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import matmul

Array = jax.Array


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
    tangential: Array
    """An upper bound of the tangential velocity per tangential impulse."""
    normal: Array
    """The normal velocity per normal impulse, softness included."""
    smoothing: Array | None = None
    """E, the product of normal impulse and normal rate; ``None`` for zero."""


class ContactRows(NamedTuple):
    """All K contacts."""

    motions: Array
    """Derivatives of the S motions of touching links by the generalised velocity, [S, nv]."""
    each: ContactRow
    pattern: np.ndarray | None = None
    """Which entries of ``J^T slopes J`` can differ from zero, [nv, nv], where links are data; ``None`` for all."""

    @property
    def num_contacts(self) -> int:
        """K."""
        return len(self.each.approach)

    def on_links(self, impulse: Array) -> Array:
        """Converts impulses [K, 3] to impulses on the link motions, [S]."""
        return matmul(impulse.reshape(-1), self.each.reach.reshape(impulse.size, -1))


def contact_rates(row: ContactRow, impulse: Array, motions: Array) -> Array:
    """The contact rates [..., 3] in the laws for motions [S]; the normal one must not be negative."""
    rate = matmul(row.reach, motions)
    return rate.at[..., 2].add(row.approach + row.softness * impulse[..., 2])


def contact_imbalance(row: ContactRow, found: Array, rate: Array) -> Array:
    """The residual [3] of the contact laws, as an impulse, at an impulse [3] and its velocity [3]."""
    normal = _normal(row, found[2], rate[2])
    tangents = _within_disc(found[:2] - rate[:2] / row.tangential, row.friction * normal)
    return jnp.concatenate([tangents, normal[None]]) - found


def law_derivatives(rows: ContactRow, impulse: Array, rate: Array) -> tuple[Array, Array]:
    """Derivatives of :func:`contact_imbalance` by the impulses, softness included, and by the rates, [K, 3, 3] each."""
    by_impulse, by_rate = jax.vmap(jax.jacfwd(contact_imbalance, (1, 2)))(rows, impulse, rate)
    return by_impulse.at[:, :, 2].add(by_rate[:, :, 2] * rows.softness[:, None]), by_rate


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
