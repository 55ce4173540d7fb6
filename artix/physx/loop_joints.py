"""Loop joints of the cache: ``computeCoefficientMatrix`` and ``computeLambda``, without PhysX's defects.

PhysX's own functions, deprecated since 5.4, sum all rows of a joint into one column and return the impulse of the first
joint for every joint. Here a joint has one row per locked axis.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.constraints.dynamics import constrained_forward_dynamics
from artix.constraints.frame_pairs import anchor_rows, loop_anchors
from artix.constraints.model import Constraints
from artix.model.checks import check_vector
from artix.physx.cache import ArticulationCache, check_cache, num_loop_rows
from artix.physx.simulation import AnyArticulation, ArticulationSimulation

Array = jax.Array

#: Relative residual of the rows up to which ``computeLambda`` counts as converged.
TOLERANCE = 1e-5


def get_coefficient_matrix_size(articulation: AnyArticulation) -> int:
    """``getCoefficientMatrixSize``: the number of entries of ``cache.coefficient_matrix``, rows times nv.

    PhysX has one column of n entries per loop joint, artix one row of nv entries per locked axis of a loop joint.

    Args:
      articulation: the articulation or its simulation.

    Returns:
      The number of entries; zero without loop joints.

    Examples:
      >>> from artix import physx
      >>> print(physx.get_coefficient_matrix_size(artix.robots.load("arm7")))  # no loop joint
      0
    """
    return num_loop_rows(articulation.topology) * articulation.topology.nv


def compute_coefficient_matrix(simulation: ArticulationSimulation, cache: ArticulationCache) -> ArticulationCache:
    """``computeCoefficientMatrix``: the Jacobian J of all loop joints into ``cache.coefficient_matrix``, shape [r, nv].

    Forces ``cache.lambda_`` on the rows amount to the generalised force ``J^T lambda``. The rows of a joint are its
    locked axes, translations before rotations. They measure the motion of the frame on ``link_a`` relative to
    ``link_b`` along its own axes. A distance joint has one row, the distance. Row by row this is PhysX's memory order.

    Args:
      simulation: the articulation in its state.
      cache: its cache.

    Returns:
      The cache with ``coefficient_matrix``.

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
      >>> below = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> point = artix.LoopJointType.SPHERICAL
      >>> pin = artix.LoopJoint(name="pin", link_a=None, link_b="lower", pose_a=below, type=point)
      >>> builder.add_loop_joint(pin)  # holds the elbow
      >>> held = builder.build()
      >>> cache = physx.compute_coefficient_matrix(physx.create_simulation(held), physx.create_cache(held))
      >>> print(cache.coefficient_matrix.shape)
      (3, 2)
    """
    check_cache(simulation, cache)
    anchors = loop_anchors(simulation.articulation)
    return cache.replace(coefficient_matrix=anchor_rows(simulation.articulation, simulation.state, anchors).jacobian)


def compute_lambda(
    simulation: ArticulationSimulation, cache: ArticulationCache, joint_torque: Array, *, max_iterations: int = 10
) -> tuple[ArticulationCache, Array]:
    """``computeLambda``: the forces of the loop joints that keep their frames from accelerating relative to each other.

    This is :func:`artix.constrained_forward_dynamics` under gravity, velocities, armature and ``joint_torque``, at the
    state of the simulation, which replaces PhysX's ``initialState``. The forces on redundant rows are the smallest.

    Args:
      simulation: the articulation in its scene.
      cache: its cache.
      joint_torque: joint forces [N m or N], shape [n].
      max_iterations: number of proximal iterations, all of which are carried out; static.

    Returns:
      The cache with ``lambda_`` [N or N m] and ``coefficient_matrix``, shape [r] and [r, nv], and a boolean: whether
      the frames' relative accelerations are below 1e-5 of the largest generalised acceleration or of one.

    Raises:
      ValueError: an array has the wrong shape, the cache was made for another articulation, or a loop joint is of type
        distance, which is not an equality constraint.
      TypeError: an array has another dtype than the articulation.

    Examples:
      >>> from artix import physx
      >>> builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
      >>> pin = artix.LoopJoint(
      ...     name="pin",
      ...     link_a=None,
      ...     link_b="lower",
      ...     pose_a=(0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0),
      ...     type=artix.LoopJointType.SPHERICAL,
      ... )
      >>> builder.add_loop_joint(pin)  # holds the elbow
      >>> held = builder.build()
      >>> simulation, cache = physx.create_simulation(held), physx.create_cache(held)
      >>> cache, solved = physx.compute_lambda(simulation, cache, jnp.array([1.0, 0.0]))
      >>> print(cache.lambda_.shape, solved)
      (3,) True
    """
    check_vector("joint_torque", joint_torque, (simulation.topology.num_dofs,), simulation.dtype, "n joint DOFs")
    cache = compute_coefficient_matrix(simulation, cache)
    if num_loop_rows(simulation.topology) == 0:
        return cache, jnp.asarray(True)
    constraints = Constraints.of_loop_joints(simulation.articulation)
    force = jnp.pad(joint_torque, (simulation.topology.num_base_dofs, 0))
    solution = constrained_forward_dynamics(
        simulation.articulation, simulation.state, force, constraints, iterations=max_iterations
    )
    scale = jnp.maximum(1, jnp.max(jnp.abs(solution.acceleration)))
    return cache.replace(lambda_=solution.constraint_force), solution.residual <= TOLERANCE * scale
