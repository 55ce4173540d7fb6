"""Relations between velocities of a step: equations of hard mimic and loop joints, and bounds of
distances.

An equation is ``J v = target``. A bound lets a velocity reach it within the step, but not pass it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.dynamics.factorization import inverse_of_unsymmetric
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.simulation.common.couplings import (
    LoopClosures,
    distance_gaps,
    mimic_directions,
    mimic_errors,
)
from artix.simulation.common.step_start import StepStart

Array = jax.Array

#: Fraction of a position error that hard mimic joints and loop joints correct per step (Baumgarte),
#: as in PhysX.
ERROR_REDUCTION = 0.8

#: The largest speed [rad/s or m/s] at which a DOF returns into its limits. It keeps this speed,
#: which is energy.
_MAX_RETURN_SPEED = 1.0

#: Regularisation in units of the rounding error of the matrix's largest entry.
_REGULARIZATION = 10


class HardRows(NamedTuple):
    """H hard relations."""

    direction: Array
    """J, [H, nv]."""
    target: Array
    """Target velocities of the relations at the end of the step, [H]."""
    position_target: Array
    """Target velocities of the motion of the positions, which also corrects errors of mimic joints,
    [H]."""
    back: Array
    """Change of the generalised velocity per missing velocity, ``R J^T (J R J^T)^-1``, regularised,
    [nv, H]."""


def hard_rows(
    articulation: Articulation,
    state: State,
    at_start: StepStart,
    loops: LoopClosures | None,
    response: Array,
    dt: Array,
) -> HardRows | None:
    """The hard relations of an articulation; ``None`` if its topology has none.

    Args:
      articulation: the articulation.
      state: its state at the start of the step.
      at_start: the articulation at the start of the step.
      loops: its loop joints at the start of the step.
      response: change of the generalised velocity per generalised impulse, [nv, nv].
      dt: the step [s].
    """
    directions, targets, corrections = [], [], []
    mimic, topology = articulation.mimic, at_start.topology
    if len(topology.mimic_dofs):
        hard = (mimic.natural_frequency == 0) | (mimic.damping_ratio == 0)
        # Compliant joints have empty rows.
        directions.append(jnp.where(hard[:, None], mimic_directions(mimic, topology), 0))
        error = jnp.where(hard, mimic_errors(mimic, topology, state.joint_position), 0)
        targets.append(jnp.zeros_like(error))
        corrections.append(-ERROR_REDUCTION / dt * error)
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
    solve = inverse_of_unsymmetric(
        coupling + regularization * jnp.eye(len(coupling), dtype=dt.dtype)
    )
    return HardRows(direction, target, target + correction, matmul(effect, solve))


def approach_speed(gap: Array, exists: Array, dt: Array, time_constant: Array) -> Array:
    """The speed towards a bound at this distance that a step of length dt allows; infinite unless
    the bound ``exists``.

    It is negative beyond the bound: what lies beyond it over ``time_constant``, both times in s.
    """
    distance = jnp.where(exists, gap, 0)
    inside = jnp.maximum(distance / time_constant, -_MAX_RETURN_SPEED)
    return jnp.where(exists, jnp.where(distance < 0, inside, distance / dt), jnp.inf)


class DistanceRows(NamedTuple):
    """The distances of D loop joints' two origins."""

    direction: Array
    """Derivatives of the rates by the generalised velocity, [D, nv]."""
    lower_velocity: Array
    """Smallest rates that the lower bounds allow, [D]."""
    upper_velocity: Array
    """Largest rates that the upper bounds allow, [D]."""


def distance_rows(articulation: Articulation, loops: LoopClosures, dt: Array) -> DistanceRows:
    """The rows of all distances."""
    lower_gap, upper_gap = distance_gaps(articulation, loops)
    drift = dt * loops.rows.bias[loops.distances]
    # A taut rope is a loop joint: errors of the steps' linearisation must not add up, so they are
    # undone as those of hard relations, faster than penetrations.
    time_constant = dt / ERROR_REDUCTION
    return DistanceRows(
        direction=loops.rows.jacobian[loops.distances],
        lower_velocity=-approach_speed(lower_gap, lower_gap < jnp.inf, dt, time_constant) - drift,
        upper_velocity=approach_speed(upper_gap, upper_gap < jnp.inf, dt, time_constant) - drift,
    )
