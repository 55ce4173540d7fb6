"""Loop joints in Gauss-Seidel sweeps: held rows act like hard mimic joints, distances like limits."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul
from artix.model.articulation import Articulation
from artix.physx.solver.dof_laws import limit_impulses
from artix.simulation.common.loop_closures import LoopClosures, distance_gaps
from artix.simulation.common.step_start import StepStart
from artix.simulation.common.sweep import Sweep

Array = jax.Array

# A row is ignored if its mobility is below this fraction of the largest one, in units of the rounding error.
_FIXED = 100


class LoopRow(NamedTuple):
    """One row of a loop joint (or all, with a leading axis [R])."""

    direction: Array
    """Derivative of the row's rate by the generalised velocity, [nv]; also the generalised force of a unit impulse."""
    effect: Array
    """Change of the generalised velocity per unit impulse, [nv]."""
    response: Array
    """Rate per impulse."""
    error: Array
    """Error at the start of the step [m or rad]; for a distance, its length."""
    is_held: Array
    """Whether the row is held at zero; otherwise it is a distance."""
    lower_gap: Array
    """Distance minus its lower bound at the start of the step [m]; ``inf`` without a bound."""
    upper_gap: Array
    """Upper bound minus the distance at the start of the step [m]; ``inf`` without a bound."""

    @property
    def softened(self) -> Array:
        """Impulse per rate."""
        return 1 / self.response


def loop_rows(articulation: Articulation, at_start: StepStart, loops: LoopClosures) -> LoopRow:
    """The rows of all loop joints."""
    direction, error = loops.rows.jacobian, loops.rows.error
    effect = matmul(direction, at_start.inverse_mass)
    response = jnp.sum(direction * effect, axis=1)
    moves = response > _FIXED * jnp.finfo(error.dtype).eps * jnp.max(response, initial=0)
    lower_gap, upper_gap = (
        jnp.full_like(error, jnp.inf).at[loops.distances].set(gap) for gap in distance_gaps(articulation, loops)
    )
    return LoopRow(
        direction=direction,
        effect=jnp.where(moves[:, None], effect, 0),
        response=jnp.where(moves, response, 1),
        error=error,
        is_held=jnp.ones_like(error, bool).at[loops.distances].set(False),
        lower_gap=lower_gap,
        upper_gap=upper_gap,
    )


def loop_impulses(
    row: LoopRow, old: tuple[Array, Array], rate: Array, displacement: Array, sweep: Sweep
) -> tuple[Array, Array]:
    """The accumulated impulses of a held row or of a distance's lower bound, and of its upper bound.

    Args:
      row: the row.
      old: the impulses so far.
      rate: rate of the row now.
      displacement: displacement of the row since the start of the step.
      sweep: the sweep. A position sweep removes a fraction of the error; a velocity sweep brings the rate to zero.
    """
    error = row.error + displacement
    wanted = -sweep.error_reduction * error / sweep.h if sweep.moves_positions else 0
    held = old[0] + (wanted - rate) * row.softened
    lower, upper = limit_impulses(row, *old, rate, displacement, sweep)
    return jnp.where(row.is_held, held, lower), jnp.where(row.is_held, 0, upper)
