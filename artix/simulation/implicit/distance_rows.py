"""Bounds of the distances of loop joints in the implicit solver."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul
from artix.model.articulation import Articulation
from artix.simulation.common.loop_closures import LoopClosures, distance_gaps
from artix.simulation.implicit.dof_rows import LOCKED, approach_speed
from artix.simulation.implicit.system import ERROR_REDUCTION

Array = jax.Array


class DistanceRow(NamedTuple):
    """The distance of a loop joint's two origins (or all, with a leading axis [D])."""

    direction: Array
    """Derivative of the rate by the generalised velocity, [nv]; also the generalised force of a unit impulse."""
    effect: Array
    """Change of the generalised velocity per unit impulse, [nv]."""
    response: Array
    """Rate per impulse."""
    lower_velocity: Array
    """Smallest rate that the lower bound allows."""
    upper_velocity: Array
    """Largest rate that the upper bound allows."""


def distance_rows(articulation: Articulation, loops: LoopClosures, response: Array, dt: Array) -> DistanceRow:
    """The rows of all distances, for a response [nv, nv] under the hard relations."""
    direction = loops.rows.jacobian[loops.distances]
    lower_gap, upper_gap = distance_gaps(articulation, loops)
    effect = matmul(direction, response.T)
    mobility = jnp.sum(direction * effect, axis=1)
    free = mobility > LOCKED * jnp.finfo(dt.dtype).eps * jnp.max(jnp.abs(response))
    drift = dt * loops.rows.bias[loops.distances]
    # A taut rope is a loop joint: errors of the steps' linearisation must not add up, so they are undone as those of
    # hard relations, faster than penetrations.
    time_constant = dt / ERROR_REDUCTION
    return DistanceRow(
        direction=direction,
        effect=jnp.where(free[:, None], effect, 0),
        response=jnp.where(free, mobility, 1),
        lower_velocity=-approach_speed(lower_gap, lower_gap < jnp.inf, dt, time_constant) - drift,
        upper_velocity=approach_speed(upper_gap, upper_gap < jnp.inf, dt, time_constant) - drift,
    )
