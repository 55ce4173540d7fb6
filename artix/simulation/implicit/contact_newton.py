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
from artix.math.gaussian_elimination import eliminated
from artix.simulation.implicit.contact_rows import ContactRow, contact_imbalance

Array = jax.Array

#: Of the matrix, whose diagonal is about one, in units of its rounding error.
_REGULARIZATION = 30


def newton_change(rows: ContactRow, impulse: Array, rate: Array) -> Array:
    """The changes of all impulses [K, 3] that bring the laws to zero as far as they are linear.

    Args:
      rows: the contacts.
      impulse: their impulses, [K, 3].
      rate: see :func:`artix.simulation.implicit.contact_rows.contact_rates`, [K, 3].
    """
    missing = jax.vmap(contact_imbalance)(rows, impulse, rate).reshape(-1)
    matrix = imbalance_matrix(rows, impulse, rate)
    least = _REGULARIZATION * jnp.finfo(matrix.dtype).eps
    change = eliminated(matrix + least * jnp.eye(len(matrix), dtype=matrix.dtype)).solve(missing)
    return change.reshape(-1, 3)


def imbalance_matrix(rows: ContactRow, impulse: Array, rate: Array) -> Array:
    """By how much what the laws lack shrinks with the impulses, [3 K, 3 K]."""
    by_impulse, by_rate = law_derivatives(rows, impulse, rate)
    count = len(impulse)
    delassus = matmul(rows.direction.reshape(3 * count, -1), rows.effect.reshape(3 * count, -1).T)
    answers = jnp.sum(by_rate[:, :, :, None] * delassus.reshape(count, 1, 3, -1), axis=2)
    return -answers.reshape(3 * count, -1) - block_diagonal(by_impulse)


def law_derivatives(rows: ContactRow, impulse: Array, rate: Array) -> tuple[Array, Array]:
    """Derivatives of :func:`contact_imbalance` by the impulses, softness included, and by the rates, [K, 3, 3] each."""
    by_impulse, by_rate = jax.vmap(jax.jacfwd(contact_imbalance, (1, 2)))(rows, impulse, rate)
    return by_impulse.at[:, :, 2].add(by_rate[:, :, 2] * rows.softness[:, None]), by_rate


def block_diagonal(blocks: Array) -> Array:
    """Blocks [K, 3, 3] on the diagonal of a matrix [3 K, 3 K]."""
    count = len(blocks)
    onto = jnp.eye(count, dtype=blocks.dtype)
    return (blocks[:, :, None] * onto[:, None, :, None]).reshape(3 * count, 3 * count)
