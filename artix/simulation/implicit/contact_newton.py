"""Newton's method on the laws of all contacts at once.

The laws of :mod:`artix.simulation.implicit.contact_rows` are piecewise smooth. Once the sweeps have found out which
contacts stick, slide and separate, a Newton step solves them exactly, whatever the stiffness of what is between the
contacts. Redundant contacts (four feet of a table) leave its matrix singular: a small regularisation then finds a
change that meets the laws but for what the next step takes out.

Alart and Curnier, 1991; Acary, Bremond and Huber, *On solving contact problems with Coulomb friction*, 2018.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul
from artix.math.gaussian_elimination import eliminated_regularized
from artix.simulation.implicit.contact_rows import ContactRow, contact_imbalance

Array = jax.Array


def newton_change(rows: ContactRow, impulse: Array, rate: Array) -> Array:
    """The changes of all impulses [K, 3] that bring the laws to zero as far as they are linear.

    Args:
      rows: the contacts.
      impulse: their impulses, [K, 3].
      rate: see :func:`artix.simulation.implicit.contact_rows.contact_rates`, [K, 3].
    """
    missing = jax.vmap(contact_imbalance)(rows, impulse, rate).reshape(-1)
    matrix = imbalance_matrix(rows, impulse, rate)
    return eliminated_regularized(matrix).solve(missing).reshape(-1, 3)


def imbalance_matrix(rows: ContactRow, impulse: Array, rate: Array) -> Array:
    """By how much what the laws lack shrinks with the impulses, [3 K, 3 K]."""
    by_impulse, by_rate = law_derivatives(rows, impulse, rate)
    count = len(impulse)
    delassus = matmul(rows.direction.reshape(3 * count, -1), rows.effect.reshape(3 * count, -1).T)
    return -answers_to_rates(by_rate, delassus) - block_diagonal(by_impulse)


def answers_to_rates(by_rate: Array, rates: Array) -> Array:
    """Derivatives of the laws by the contacts' rates, [K, 3, 3], times what changes these, [3 K, R]."""
    count = len(by_rate)
    return jnp.sum(by_rate[:, :, :, None] * rates.reshape(count, 1, 3, -1), axis=2).reshape(3 * count, -1)


def law_derivatives(rows: ContactRow, impulse: Array, rate: Array) -> tuple[Array, Array]:
    """Derivatives of :func:`contact_imbalance` by the impulses, softness included, and by the rates, [K, 3, 3] each."""
    by_impulse, by_rate = jax.vmap(jax.jacfwd(contact_imbalance, (1, 2)))(rows, impulse, rate)
    return by_impulse.at[:, :, 2].add(by_rate[:, :, 2] * rows.softness[:, None]), by_rate


def block_diagonal(blocks: Array) -> Array:
    """Blocks [K, 3, 3] on the diagonal of a matrix [3 K, 3 K]."""
    count = len(blocks)
    onto = jnp.eye(count, dtype=blocks.dtype)
    return (blocks[:, :, None] * onto[:, None, :, None]).reshape(3 * count, 3 * count)
