"""Hard relations of a step, ``J v = target``: hard mimic joints and loop joints."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.dynamics.factorization import inverse_of_unsymmetric
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.simulation.common.loop_closures import LoopClosures
from artix.simulation.common.mimic import mimic_directions, mimic_errors
from artix.simulation.common.step_start import StepStart

Array = jax.Array

#: Regularisation in units of the rounding error of the matrix's largest entry.
_REGULARIZATION = 10


class HardRows(NamedTuple):
    """H hard relations."""

    direction: Array
    """J, [H, nv]."""
    target: Array
    """Target velocities of the relations at the end of the step, [H]."""
    position_target: Array
    """Target velocities of the motion of the positions, which also corrects errors of mimic joints, [H]."""
    back: Array
    """Change of the generalised velocity per missing velocity, ``R J^T (J R J^T)^-1``, regularised, [nv, H]."""


def hard_rows(
    articulation: Articulation,
    state: State,
    at_start: StepStart,
    loops: LoopClosures | None,
    response: Array,
    dt: Array,
    error_reduction: float,
) -> HardRows | None:
    """The hard relations of an articulation; ``None`` if its topology has none.

    Args:
      articulation: the articulation.
      state: its state at the start of the step.
      at_start: the articulation at the start of the step.
      loops: its loop joints at the start of the step.
      response: change of the generalised velocity per generalised impulse, [nv, nv].
      dt: the step [s].
      error_reduction: fraction of a mimic joint's position error that is corrected.
    """
    directions, targets, corrections = [], [], []
    mimic, topology = articulation.mimic, at_start.topology
    if len(topology.mimic_dofs):
        hard = (mimic.natural_frequency == 0) | (mimic.damping_ratio == 0)
        # Compliant joints have empty rows.
        directions.append(jnp.where(hard[:, None], mimic_directions(mimic, topology), 0))
        error = jnp.where(hard, mimic_errors(mimic, topology, state.joint_position), 0)
        targets.append(jnp.zeros_like(error))
        corrections.append(-error_reduction / dt * error)
    if loops is not None and len(loops.held):
        directions.append(loops.rows.jacobian[loops.held])
        # Chosen so that the velocity is zero in the rows as they are after the step.
        targets.append(-dt * loops.rows.bias[loops.held])
        corrections.append(jnp.zeros_like(targets[-1]))
    if not directions:
        return None
    direction, target, correction = map(jnp.concatenate, (directions, targets, corrections))
    effect = matmul(response, direction.T)
    coupling = matmul(direction, effect)
    largest = jnp.max(jnp.abs(coupling))
    regularization = jnp.where(largest > 0, _REGULARIZATION * jnp.finfo(dt.dtype).eps * largest, 1)
    solve = inverse_of_unsymmetric(coupling + regularization * jnp.eye(len(coupling), dtype=dt.dtype))
    return HardRows(direction, target, target + correction, matmul(effect, solve))
