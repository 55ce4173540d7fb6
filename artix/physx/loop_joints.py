"""Loop joints of the cache: ``computeCoefficientMatrix`` and ``computeLambda``, by clean mathematics.

PhysX's own functions, deprecated since 5.4, sum all rows of a joint into one column, and read back the impulse of the
first joint for every joint. Here a joint has one row per locked axis.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.checks import check_vector
from artix.constraints.anchors import anchor_rows, loop_anchors
from artix.couplings import LoopJointType
from artix.dynamics.inverse import bias_force
from artix.dynamics.solve import mass_matrix_inverse
from artix.physx.cache import AnyArticulation, ArticulationCache, check_cache, num_loop_rows
from artix.physx.simulation import ArticulationSimulation

Array = jax.Array
HIGHEST = jax.lax.Precision.HIGHEST

#: ``computeLambda`` has converged when no impulse changes by more, PhysX's number.
TOLERANCE = 1e-5


def get_coefficient_matrix_size(articulation: AnyArticulation) -> int:
    """``getCoefficientMatrixSize``: the number of entries of ``cache.coefficient_matrix``, rows times nv.

    PhysX counts one column of n entries per loop joint, artix one row of nv entries per locked axis of a loop joint.
    """
    return num_loop_rows(articulation.topology) * articulation.topology.nv


def compute_coefficient_matrix(simulation: ArticulationSimulation, cache: ArticulationCache) -> ArticulationCache:
    """``computeCoefficientMatrix``: the Jacobian J of all loop joints into ``cache.coefficient_matrix``, shape [r, nv].

    Forces ``cache.lambda_`` on the rows act as the generalised force ``J^T lambda``. The rows of a joint are its locked
    axes, translations before rotations, in the axes of the frame on ``link_a``, whose motion relative to ``link_b``
    they measure; one row, the distance, for a distance joint. Row by row this is PhysX's memory order.
    """
    check_cache(simulation, cache)
    anchors = loop_anchors(simulation.articulation)
    return cache.replace(coefficient_matrix=anchor_rows(simulation.articulation, simulation.state, anchors).jacobian)


def compute_lambda(
    simulation: ArticulationSimulation, cache: ArticulationCache, joint_torque: Array, *, max_iterations: int = 10
) -> tuple[ArticulationCache, Array]:
    """``computeLambda``: the forces of the loop joints under which their frames have no relative acceleration.

    Solves ``J M^-1 J^T lambda = -(J nu'_free + dJ/dt nu)`` for the least forces where rows are redundant, by proximal
    iterations (Carpentier, Budhiraja and Mansard, *Proximal and sparse resolution of constrained dynamic equations*,
    RSS 2021). ``nu'_free`` is the acceleration under gravity, velocities, armature and ``joint_torque`` alone, at the
    state of the simulation, which stands for PhysX's ``initialState``.

    Args:
      simulation: the articulation in its scene.
      cache: its cache.
      joint_torque: joint forces [N m or N], shape [n].
      max_iterations: proximal iterations, all of which are done; static.

    Returns:
      The cache with ``lambda_`` [N or N m] and ``coefficient_matrix``, shape [r] and [r, nv], and whether the last
      iteration changed no force by more than 1e-5 of the largest or of one, a boolean.

    Raises:
      ValueError: an array has the wrong shape, the cache was made for another articulation, or a loop joint is of type
        distance, whose force depends on which bound it touches.
      TypeError: an array has another dtype than the articulation.
    """
    check_cache(simulation, cache)
    articulation, state, tree = simulation.articulation, simulation.state, simulation.topology
    check_vector("joint_torque", joint_torque, (tree.num_dofs,), simulation.dtype, "n joint DOFs")
    anchors = loop_anchors(articulation)
    for joint in tree.loop_joints:
        if joint.type is LoopJointType.DISTANCE:
            raise ValueError(
                f"loop joint {joint.name!r}: a distance joint is an inequality; compute_lambda solves equations"
            )
    rows = anchor_rows(articulation, state, anchors)
    inverse = mass_matrix_inverse(articulation, state)
    force = jnp.pad(joint_torque, (tree.num_base_dofs, 0)) - bias_force(articulation, state)
    response = jnp.matmul(rows.jacobian, inverse, precision=HIGHEST)
    drift = jnp.matmul(response, force, precision=HIGHEST) + rows.bias
    inertia = jnp.matmul(response, rows.jacobian.T, precision=HIGHEST)
    found, converged = _least_forces(inertia, drift, max_iterations)
    return cache.replace(coefficient_matrix=rows.jacobian, lambda_=found), converged


def _least_forces(inertia: Array, drift: Array, max_iterations: int) -> tuple[Array, Array]:
    """The least x with ``inertia x = -drift``, and whether it has converged."""
    count, dtype = len(drift), drift.dtype
    if count == 0:
        return drift, jnp.asarray(True)
    softness = jnp.finfo(dtype).eps ** 0.5 * jnp.max(jnp.diagonal(inertia))
    lower = jnp.linalg.cholesky(inertia + softness * jnp.eye(count, dtype=dtype))
    found, change = jnp.zeros_like(drift), jnp.zeros_like(drift)
    for _ in range(max_iterations):
        residual = jnp.matmul(inertia, found, precision=HIGHEST) + drift
        change = -jax.scipy.linalg.cho_solve((lower, True), residual)
        found = found + change
    scale = jnp.maximum(1, jnp.max(jnp.abs(found)))
    return found, jnp.max(jnp.abs(change)) <= TOLERANCE * scale
