"""Newton's method on the laws of all contacts at once, where hard relations couple everything.

Other steps solve the laws of DOFs and contacts together, see :mod:`artix.simulation.implicit.newton`. The laws of
:mod:`artix.simulation.implicit.contact_rows` are piecewise smooth. Once the sweeps know which contacts stick, slide and
separate, a Newton step solves the laws exactly, however stiff the coupling between contacts. A contact's law gives the
change of its impulse as a function of the change of its velocity, so the system to solve has the size of the link
motions, however many contacts there are. The law of a sticking contact does not determine its impulse, so a small
regularisation is added. It also chooses among impulses with the same effect, such as those under the four feet of a
table.

Alart and Curnier, 1991; Acary, Bremond and Huber, *On solving contact problems with Coulomb friction*, 2018.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul
from artix.math.gaussian_elimination import lu_factorize
from artix.simulation.implicit.blocks import inverses, product, times
from artix.simulation.implicit.contact_rows import ContactRow, ContactRows, contact_imbalance, contact_rates

Array = jax.Array

#: Regularisation of the laws, in units of a contact's impulse per velocity. It slows Newton's method down but does not
#: change its solution, because residuals are computed without it.
_REGULARIZATION = 1e-3


def newton_change(contacts: ContactRows, impulse: Array, motions: Array) -> Array:
    """The changes of all impulses [K, 3] that solve the linearised laws.

    Args:
      contacts: the contacts.
      impulse: their impulses, [K, 3].
      motions: the link motions with these impulses, [S].
    """
    rows, links = contacts.each, contacts.links
    rates = contact_rates(rows, impulse, motions)
    missing = jax.vmap(contact_imbalance)(rows, impulse, rates)
    by_impulse, by_rate = law_derivatives(rows, impulse, rates)
    # For each contact: (by_impulse - regularisation) change + by_rate (change of its rates) = -missing
    inverse = inverses(by_impulse - _REGULARIZATION * jnp.eye(3, dtype=impulse.dtype))
    stiffness = product(product(inverse, by_rate), rows.reach)
    alone = -times(inverse, missing)
    size = len(motions)
    if impulse.size <= size:  # Solve for the impulses themselves.
        by_impulses = matmul(links.coupling, rows.reach.reshape(-1, size).T)
        matrix = jnp.eye(impulse.size, dtype=impulse.dtype) + matmul(stiffness.reshape(-1, size), by_impulses)
        return lu_factorize(matrix).solve(alone.reshape(-1)).reshape(impulse.shape)
    matrix = jnp.eye(size, dtype=impulse.dtype) + matmul(
        links.coupling, matmul(rows.reach.reshape(-1, size).T, stiffness.reshape(-1, size))
    )
    moved = lu_factorize(matrix).solve(matmul(links.coupling, contacts.on_links(alone)))
    return alone - jnp.sum(stiffness * moved, axis=2)


def law_derivatives(rows: ContactRow, impulse: Array, rate: Array) -> tuple[Array, Array]:
    """Derivatives of :func:`contact_imbalance` by the impulses, softness included, and by the rates, [K, 3, 3] each."""
    by_impulse, by_rate = jax.vmap(jax.jacfwd(contact_imbalance, (1, 2)))(rows, impulse, rate)
    return by_impulse.at[:, :, 2].add(by_rate[:, :, 2] * rows.softness[:, None]), by_rate
