"""Hard relations of the implicit solver: hard mimic joints and loop joints, held exactly in one system.

The relations ``J v = target`` need impulses ``lambda`` with ``(J R J^T) lambda = target - J v``, where R is the
response of the articulation with its springs. This matrix is singular if relations are redundant or a closure is
singular. It is inverted with a small regularisation, which a few proximal iterations remove (Carpentier, Budhiraja and
Mansard, RSS 2021): consistent relations are satisfied, and impulses stay finite for the others.
"""

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
#: Each iteration multiplies the remaining error by ``regularisation / (regularisation + eigenvalue)``.
_PROXIMAL_ITERATIONS = 3


class HardRows(NamedTuple):
    """H hard relations, and how their impulses follow from velocities."""

    direction: Array
    """J, [H, nv]."""
    target: Array
    """Target velocities of the relations at the end of the step, [H]."""
    position_target: Array
    """Target velocities of the motion of the positions, which also corrects errors of mimic joints, [H]."""
    solve: Array
    """The regularised inverse of ``J R J^T``, [H, H]."""
    back: Array
    """Change of the generalised velocity per missing velocity, ``R J^T solve``, [nv, H]."""

    def missing(self, velocity: Array, target: Array) -> Array:
        """The difference [H] between a target and the relations' velocities for a generalised velocity [nv]."""
        return target - matmul(self.direction, velocity)

    def held(self, velocity: Array, target: Array) -> Array:
        """Corrects a generalised velocity [nv] to a target [H]."""
        for _ in range(_PROXIMAL_ITERATIONS):
            velocity = velocity + matmul(self.back, self.missing(velocity, target))
        return velocity

    def impulses(self, velocity: Array, target: Array) -> Array:
        """The impulses [H] of this correction."""
        total = jnp.zeros_like(target)
        for _ in range(_PROXIMAL_ITERATIONS):
            # Rates that no impulse can change, such as those out of a planar linkage's plane, miss their targets only
            # by rounding. The regularised inverse would turn that into forces: 5 N across a four-bar linkage of 3 kg.
            missing = matmul(self.direction, matmul(self.back, self.missing(velocity, target)))
            total = total + matmul(self.solve, missing)
            velocity = velocity + matmul(self.back, missing)
        return total

    def response_within(self, response: Array) -> Array:
        """The response [nv, nv] to impulses under the relations."""
        for _ in range(_PROXIMAL_ITERATIONS):
            response = response - matmul(self.back, matmul(self.direction, response))
        return response


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
    return HardRows(direction, target, target + correction, solve, matmul(effect, solve))
