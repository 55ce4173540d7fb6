"""The control of least cost at one knot, free or within bounds."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul

Array = jax.Array
#: Projected Newton steps, and step lengths tried in each; a dozen controls converge within five
#: steps.
STEPS, LENGTHS = 8, 6
#: Rows of a triangular system that LAPACK solves at once.
BLOCK = 12


class Box(NamedTuple):
    """Bounds of changes of controls, [m] or with a leading axis over knots."""

    lower: Array
    upper: Array


def free_gains(hessian: Array, gradient: Array, cross: Array) -> tuple[Array, Array]:
    """The control ``feedforward + gain dx`` at which ``1/2 u hessian u + u (gradient + cross dx)``
    is least.

    Args:
      hessian: [m, m], positive definite.
      gradient: [m].
      cross: [m, n].

    Returns:
      feedforward [m] and gain [m, n].
    """
    solution = _solve(hessian, jnp.concatenate([gradient[:, None], cross], axis=1))
    return -solution[:, 0], -solution[:, 1:]


def box_gains(hessian: Array, gradient: Array, cross: Array, box: Box) -> tuple[Array, Array]:
    """:func:`free_gains` within bounds: a control that its bound holds has no gain.

    Args:
      hessian: [m, m], positive definite.
      gradient: [m].
      cross: [m, n].
      box: bounds [m], with zero within.

    Returns:
      feedforward [m] and gain [m, n].
    """
    feedforward, free = box_minimum(hessian, gradient, box)
    free_rows = jnp.where(free[:, None], cross, jnp.zeros_like(cross))
    return feedforward, -_solve(free_block(hessian, free), free_rows)


def box_minimum(hessian: Array, gradient: Array, box: Box) -> tuple[Array, Array]:
    """The minimum of ``1/2 u hessian u + gradient u`` within bounds, by projected Newton steps.

    Bertsekas, *Projected Newton methods for optimization problems with simple constraints*, SIAM
    1982.

    Args:
      hessian: [m, m], positive definite.
      gradient: [m].
      box: bounds [m].

    Returns:
      The minimiser, [m], and which of its entries are free of bounds, [m] of bool.
    """

    def value(point: Array) -> Array:
        return jnp.sum(point * (gradient + 0.5 * matmul(hessian, point)))

    def improved(point: Array, _: None) -> tuple[Array, None]:
        slope, free = _slope_and_free(hessian, gradient, point, box)
        step = -_solve(
            free_block(hessian, free), jnp.where(free, slope, jnp.zeros_like(slope))[:, None]
        )[:, 0]
        lengths = 0.5 ** jnp.arange(LENGTHS, dtype=point.dtype)
        points = jnp.clip(point + lengths[:, None] * step, box.lower, box.upper)
        values = jax.vmap(value)(points)
        best = jnp.argmin(values)
        return jnp.where(values[best] < value(point), points[best], point), None

    start = jnp.clip(-_solve(hessian, gradient[:, None])[:, 0], box.lower, box.upper)
    point = jax.lax.scan(improved, start, length=STEPS)[0]
    return point, _slope_and_free(hessian, gradient, point, box)[1]


def _slope_and_free(hessian: Array, gradient: Array, point: Array, box: Box) -> tuple[Array, Array]:
    slope = gradient + matmul(hessian, point)
    held = ((point <= box.lower) & (slope > 0)) | ((point >= box.upper) & (slope < 0))
    return slope, ~held


def free_block(hessian: Array, free: Array) -> Array:
    """The Hessian, with rows and columns of the identity for controls that a bound holds."""
    return jnp.where(
        free[:, None] & free[None], hessian, jnp.eye(len(hessian), dtype=hessian.dtype)
    )


def _solve(matrix: Array, rights: Array) -> Array:
    """Solves a positive definite system [m, m] for right sides [m, k], by Cholesky and block
    substitution.

    LAPACK starts its own threads for larger triangular systems, which costs more than they save and
    ten times as much when processors are busy. Blocks stay below that size.
    """
    factor = jnp.linalg.cholesky(matrix)
    blocks = [slice(k, k + BLOCK) for k in range(0, len(factor), BLOCK)]

    def substituted(right: Array, transposed: bool) -> Array:
        known: list[Array] = []
        for block in blocks[::-1] if transposed else blocks:
            part = right[block]
            if known and transposed:
                part = part - matmul(factor[block.stop :, block].T, jnp.concatenate(known[::-1]))
            elif known:
                part = part - matmul(factor[block, : block.start], jnp.concatenate(known))
            known.append(
                jax.scipy.linalg.solve_triangular(
                    factor[block, block], part, lower=True, trans=int(transposed)
                )
            )
        return jnp.concatenate(known[::-1] if transposed else known)

    return substituted(substituted(rights, False), True)
