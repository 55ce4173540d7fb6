"""Hard relations of the implicit solver: hard mimic joints and loop joints, held exactly in one system.

The relations ``J v = target`` take impulses ``lambda`` with ``(J R J^T) lambda = target - J v``, R being the response
of the articulation with its springs. Relations that follow from others, or closures that are singular, leave that
matrix singular. It is inverted with a small regularisation, and a few proximal iterations take the regularisation out
again (Carpentier, Budhiraja and Mansard, RSS 2021): relations that can be met are met, the impulses of others stay
finite.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.dynamics.factorization import inverse_of_unsymmetric
from artix.model.articulation import Articulation, State
from artix.simulation.common.loop_closures import LoopClosures
from artix.simulation.common.mimic import mimic_directions, mimic_errors
from artix.simulation.common.step_start import HIGHEST, StepStart

Array = jax.Array

#: Regularisation in units of the rounding error of the matrix's largest entry.
_REGULARIZATION = 10
#: Each iteration multiplies what is left of an error by ``regularisation / (regularisation + eigenvalue)``.
_PROXIMAL_ITERATIONS = 3


class HardRows(NamedTuple):
    """H hard relations and the impulses with which they answer."""

    direction: Array
    """J, [H, nv]."""
    target: Array
    """The velocities that the relations shall have at the end of the step, [H]."""
    position_target: Array
    """The same of the velocities that move the positions, which also correct errors of mimic joints."""
    solve: Array
    """The regularised inverse of ``J R J^T``, [H, H]."""
    back: Array
    """Change of the generalised velocity per velocity missing, ``R J^T solve``, [nv, H]."""

    def missing(self, velocity: Array, target: Array) -> Array:
        """What a generalised velocity [nv] lacks of a target [H]."""
        return target - _matmul(self.direction, velocity)

    def held(self, velocity: Array, target: Array) -> Array:
        """The generalised velocity [nv] brought to a target [H]."""
        for _ in range(_PROXIMAL_ITERATIONS):
            velocity = velocity + _matmul(self.back, self.missing(velocity, target))
        return velocity

    def impulses(self, velocity: Array, target: Array) -> Array:
        """The impulses [H] that do so."""
        total = jnp.zeros_like(target)
        for _ in range(_PROXIMAL_ITERATIONS):
            # What no impulse changes, such as rates out of a planar linkage's plane, lacks rounding errors alone. The
            # regularised inverse would make forces of them: 5 N across a four-bar linkage of 3 kg.
            missing = _matmul(self.direction, _matmul(self.back, self.missing(velocity, target)))
            total = total + _matmul(self.solve, missing)
            velocity = velocity + _matmul(self.back, missing)
        return total

    def response_within(self, response: Array) -> Array:
        """The response [nv, nv] to impulses while the relations hold."""
        for _ in range(_PROXIMAL_ITERATIONS):
            response = response - _matmul(self.back, _matmul(self.direction, response))
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
    """The hard relations of an articulation; ``None`` if its topology can have none.

    Args:
      articulation: the articulation.
      state: at the start of the step.
      at_start: the articulation there.
      loops: its loop joints there.
      response: change of the generalised velocity per generalised impulse, [nv, nv].
      dt: the step [s].
      error_reduction: part of the error of a mimic joint that the velocities of the positions correct.
    """
    directions, targets, corrections = [], [], []
    mimic, topology = articulation.mimic, at_start.topology
    if len(topology.mimic_dofs):
        hard = (mimic.natural_frequency == 0) | (mimic.damping_ratio == 0)
        # Compliant and padded joints have empty rows.
        directions.append(jnp.where(hard[:, None], mimic_directions(mimic, topology), 0))
        error = jnp.where(hard, mimic_errors(mimic, topology, state.joint_position), 0)
        targets.append(jnp.zeros_like(error))
        corrections.append(-error_reduction / dt * error)
    if loops is not None and len(loops.held):
        directions.append(loops.rows.jacobian[loops.held])
        # Such that the velocity is zero in the rows as they will be after the step.
        targets.append(-dt * loops.rows.bias[loops.held])
        corrections.append(jnp.zeros_like(targets[-1]))
    if not directions:
        return None
    direction, target, correction = map(jnp.concatenate, (directions, targets, corrections))
    effect = _matmul(response, direction.T)
    coupling = _matmul(direction, effect)
    largest = jnp.max(jnp.abs(coupling))
    regularization = jnp.where(largest > 0, _REGULARIZATION * jnp.finfo(dt.dtype).eps * largest, 1)
    solve = inverse_of_unsymmetric(coupling + regularization * jnp.eye(len(coupling), dtype=dt.dtype))
    return HardRows(direction, target, target + correction, solve, _matmul(effect, solve))


def _matmul(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=HIGHEST)
