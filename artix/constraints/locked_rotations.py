"""Rows of joints that lock one or two rotations, as angles that stay defined however far the free axes rotate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import spatial

Array = jax.Array


class RotationRows(NamedTuple):
    """Locked angles and their dependence on the angular velocity z of frame a relative to b, in the axes of frame a.

    Attributes:
      error: the angles that should vanish, [3, K].
      projection: the matrix P whose product with z is their rate, [3, 3, K].
      drift: ``dP/dt z``, [3, K].
    """

    error: Array
    projection: Array
    drift: Array


def locked_rotations(locked: Sequence[tuple[int, ...]], turn: Array, angular: Array) -> RotationRows:
    """The rows of K joints.

    With all three rotations locked, or none, the angles are the rotation vector and P the identity, which has the same
    null space as their derivative. With two locked, they are the components of the cross product of the two free axes.
    With one locked, the angle is the twist about that axis, whose rate is along the bisector of the two frames' axes.

    Args:
      locked: which of the axes 0 .. 2 of frame a each joint locks, K tuples.
      turn: rotation of frame b in frame a, unit quaternions [4, K].
      angular: relative angular velocity z, [3, K].
    """
    error = -spatial.quaternion_log(turn)
    projection = jnp.broadcast_to(spatial.identity_like(error), (3, *error.shape))
    rows = RotationRows(error, projection, jnp.zeros_like(error))
    for count, make in ((2, _two_locked), (1, _one_locked)):
        chosen = np.array([len(axes) == count for axes in locked])
        if chosen.any():
            # The only locked or the only free axis; axis 0 for all other joints, whose result is not used.
            single = [sum(axes) if count == 1 else 3 - sum(axes) for axes in locked]
            unit = np.eye(3)[np.where(chosen, single, 0)].T
            special = make(jnp.asarray(unit, turn.dtype), turn, angular)
            rows = RotationRows(*(jnp.where(chosen, new, old) for new, old in zip(special, rows, strict=True)))
    return rows


def _two_locked(unit: Array, turn: Array, angular: Array) -> RotationRows:
    axis = spatial.rotate(turn, unit)
    rate = -spatial.cross(angular, axis)
    aligned, aligned_rate = spatial.dot(axis, unit), spatial.dot(rate, unit)
    projection = aligned[None, None] * spatial.identity_like(axis) - axis[:, None] * unit[None]
    drift = aligned_rate[None] * angular - spatial.dot(angular, unit)[None] * rate
    return RotationRows(spatial.cross(axis, unit), projection, drift)


def _one_locked(unit: Array, turn: Array, angular: Array) -> RotationRows:
    turn = jnp.where(turn[3] < 0, -turn, turn)
    sine, cosine = spatial.dot(turn[:3], unit), turn[3]
    # The twist is undefined where the axes are opposite; zero keeps values and derivatives finite.
    exists = sine**2 + cosine**2 > 1e-9
    sine, cosine = jnp.where(exists, sine, jnp.zeros_like(sine)), jnp.where(exists, cosine, jnp.ones_like(cosine))
    axis = spatial.rotate(turn, unit)
    scale = 2 * (sine**2 + cosine**2)  # 1 + axis . unit
    bisector = (unit + axis) / scale[None]
    rate = -spatial.dot(spatial.cross(angular, axis), unit)
    drift = -spatial.dot(bisector, angular) * rate / scale
    return RotationRows(-2 * unit * jnp.arctan2(sine, cosine)[None], unit[:, None] * bisector[None], unit * drift[None])
