"""Loop joints in Gauss-Seidel sweeps: what is held is corrected like a hard mimic joint, a distance like a limit."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.model.articulation import Articulation
from artix.simulation.common.limits import limit_impulses
from artix.simulation.common.loop_closures import LoopClosures, distance_gaps
from artix.simulation.common.step_start import HIGHEST, StepStart
from artix.simulation.common.sweep import Sweep

Array = jax.Array

# A row that leaves less than this of the largest mobility, in units of the rounding error, moves nothing.
_FIXED = 100


class LoopRow(NamedTuple):
    """One row of a loop joint (or all, with a leading axis [R])."""

    direction: Array
    """Change of the row's rate by the generalised velocity, [nv]; also the generalised force of a unit impulse."""
    effect: Array
    """Change of the generalised velocity by a unit impulse, [nv]."""
    response: Array
    """Rate per impulse."""
    error: Array
    """What shall vanish, at the start of the step [m or rad]; the length of a distance."""
    is_held: Array
    """Whether it shall vanish, or is a distance."""
    lower_gap: Array
    """Distance less the least one at the start of the step [m], ``inf`` where none is set."""
    upper_gap: Array
    """Largest distance less the distance, likewise."""

    @property
    def softened(self) -> Array:
        """Impulse per rate."""
        return 1 / self.response


def loop_rows(articulation: Articulation, at_start: StepStart, loops: LoopClosures) -> LoopRow:
    """The rows of all loop joints."""
    direction, error = loops.rows.jacobian, loops.rows.error
    effect = jnp.matmul(direction, at_start.inverse_mass, precision=HIGHEST)
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
    """The accumulated impulses of what is held or of a least distance, and of a largest distance.

    Args:
      row: the row.
      old: the impulses so far.
      rate: of the row now.
      displacement: of the row since the start of the step.
      sweep: the sweep; one that moves positions removes a part of the error, others bring the rate to zero.
    """
    error = row.error + displacement
    wanted = -sweep.error_reduction * error / sweep.h if sweep.moves_positions else 0
    held = old[0] + (wanted - rate) * row.softened
    lower, upper = limit_impulses(row, *old, rate, displacement, sweep)
    return jnp.where(row.is_held, held, lower), jnp.where(row.is_held, 0, upper)
