"""The compute functions of ``PxArticulationReducedCoordinate``, which write their results to the
cache.

Each reads the same inputs as PhysX's: poses, the root's velocity and parameters from the
simulation; joint velocities, accelerations, forces and link wrenches from the cache. By default the
result is physically correct; ``physx_compat=True`` reproduces PhysX 5.6.1 where it departs from its
own documentation.

PhysX's functions for loop joints, deprecated since 5.4, sum all rows of a joint into one column and
return the impulse of the first joint for every joint. Here a joint has one row per locked axis.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.constraints.dynamics import constrained_forward_dynamics
from artix.constraints.frame_pairs import anchor_rows, loop_anchors
from artix.constraints.model import Constraints
from artix.dynamics.forward import forward_dynamics
from artix.dynamics.inverse import coriolis_compensation, gravity_compensation
from artix.dynamics.mass_matrix import mass_matrix
from artix.dynamics.momentum import center_of_mass, centroidal_momentum_matrix
from artix.model.articulation import State
from artix.model.checks import check_vector
from artix.physx.cache import ArticulationCache, check_cache, num_loop_rows
from artix.physx.generalized import (
    coriolis_and_centrifugal_force,
    counteracting_joint_force,
    dense_jacobian,
    generalized_gravity_force,
    generalized_mass_matrix,
    joint_force_for,
)
from artix.physx.simulation import AnyArticulation, ArticulationSimulation, check_in_scene
from artix.physx.solver.positions import clamp_joint_velocities

Array = jax.Array


def compute_dense_jacobian(
    simulation: ArticulationSimulation, cache: ArticulationCache
) -> tuple[ArticulationCache, int, int]:
    """``computeDenseJacobian``: :func:`dense_jacobian` into ``cache.dense_jacobian``.

    Args:
      simulation: the articulation in its state.
      cache: its cache.

    Returns:
      The cache with ``dense_jacobian``, shape [6 L', nv] [m or 1], the number of rows and the
      number of columns. L' is L, or L - 1 for a fixed base. The rows of a link are the velocity of
      its centre of mass and its angular velocity, world axes.

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> simulation, cache = physx.create_simulation(pendulum), physx.create_cache(pendulum)
      >>> cache, rows, columns = physx.compute_dense_jacobian(simulation, cache)
      >>> print(rows, columns, cache.dense_jacobian[:, 0])  # of the two rods by the shoulder
      12 2 [-0.5  0.   0.   0.   1.   0.  -1.5  0.   0.   0.   1.   0. ]
    """
    check_cache(simulation, cache)
    jacobian = dense_jacobian(simulation.articulation, simulation.state)
    rows, columns = jacobian.shape
    return cache.replace(dense_jacobian=jacobian), rows, columns


def compute_mass_matrix(
    simulation: ArticulationSimulation, cache: ArticulationCache
) -> ArticulationCache:
    """``computeMassMatrix``: :func:`artix.mass_matrix`, without armature, into
    ``cache.mass_matrix``.

    Args:
      simulation: the articulation in its state.
      cache: its cache.

    Returns:
      The cache with ``mass_matrix``, shape [nv, nv] [kg, kg m or kg m^2].

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> simulation, cache = physx.create_simulation(pendulum), physx.create_cache(pendulum)
      >>> print(physx.compute_mass_matrix(simulation, cache).mass_matrix)
      [[2.667 0.834]
       [0.834 0.334]]
    """
    check_cache(simulation, cache)
    return cache.replace(mass_matrix=mass_matrix(simulation.articulation, simulation.state))


def compute_gravity_compensation(
    simulation: ArticulationSimulation, cache: ArticulationCache, *, physx_compat: bool = False
) -> ArticulationCache:
    """``computeGravityCompensation``: :func:`artix.gravity_compensation` into
    ``cache.gravity_compensation_force``.

    Args:
      simulation: the articulation in its state.
      cache: its cache.
      physx_compat: whether to ignore ``gravity_scale``, as PhysX ignores ``eDISABLE_GRAVITY`` here.

    Returns:
      The cache with ``gravity_compensation_force``, shape [nv] [N or N m].

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> simulation, cache = physx.create_simulation(pendulum, level), physx.create_cache(pendulum)
      >>> print(physx.compute_gravity_compensation(simulation, cache).gravity_compensation_force)
      [19.62   4.905]
    """
    check_cache(simulation, cache)
    articulation = simulation.articulation
    if physx_compat:
        articulation = articulation.replace(gravity_scale=jnp.ones_like(articulation.gravity_scale))
    return cache.replace(
        gravity_compensation_force=gravity_compensation(articulation, simulation.state)
    )


def compute_coriolis_compensation(
    simulation: ArticulationSimulation, cache: ArticulationCache, *, physx_compat: bool = False
) -> ArticulationCache:
    """``computeCoriolisCompensation``: :func:`artix.coriolis_compensation` into
    ``cache.coriolis_force``.

    The root's velocity is the simulation's.

    Args:
      simulation: the articulation in its state.
      cache: its cache, which gives the joint velocities [rad/s or m/s].
      physx_compat: whether to scale all joint velocities by one factor first so that none exceeds
        ``max_joint_velocity``, and to leave the scaled ones in the cache.

    Returns:
      The cache with ``coriolis_force``, shape [nv] [N or N m].

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> bent = artix.neutral_state(pendulum).replace(joint_position=jnp.array([0.0, jnp.pi / 2]))
      >>> simulation = physx.create_simulation(pendulum, bent)
      >>> cache = physx.create_cache(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> print(physx.compute_coriolis_compensation(simulation, cache).coriolis_force)
      [0. 2.]
    """
    state, cache = _moving(simulation, cache, physx_compat)
    return cache.replace(coriolis_force=coriolis_compensation(simulation.articulation, state))


def compute_generalized_external_force(
    simulation: ArticulationSimulation, cache: ArticulationCache, *, physx_compat: bool = False
) -> ArticulationCache:
    """``computeGeneralizedExternalForce``: joint forces that counteract ``cache.external_forces``.

    The result, in ``cache.joint_force``, is ``-sum_i J_i^T w_i`` for a fixed base; a floating root
    is free and carries no force.

    Args:
      simulation: the articulation in its state.
      cache: its cache, which gives the wrenches on the links.
      physx_compat: whether to add the gyroscopic torques of all links at the root's angular
        velocity, as PhysX does for a floating base.

    Returns:
      The cache with ``joint_force``, shape [n] [N or N m].

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> push = jnp.zeros((3, 6)).at[2, 0].set(10.0)  # 10 N along x on the lower rod
      >>> cache = physx.create_cache(pendulum).replace(external_forces=push)
      >>> cache = physx.compute_generalized_external_force(physx.create_simulation(pendulum), cache)
      >>> print(cache.joint_force)  # what counteracts it
      [15.  5.]
    """
    check_cache(simulation, cache)
    wrenches = cache.external_forces
    check_vector(
        "cache.external_forces",
        wrenches,
        (simulation.topology.num_links, 6),
        simulation.dtype,
        "L links",
    )
    force = counteracting_joint_force(
        simulation.articulation, simulation.state, wrenches, physx_compat=physx_compat
    )
    return cache.replace(joint_force=force)


def compute_joint_force(
    simulation: ArticulationSimulation, cache: ArticulationCache, *, physx_compat: bool = False
) -> ArticulationCache:
    """``computeJointForce``: joint forces for ``cache.joint_acceleration``, into
    ``cache.joint_force``.

    As in PhysX, gravity, velocities and armature are ignored: the result is ``M qdd`` for a fixed
    base; a floating root is free and carries no force. For the full equation of motion use
    :func:`artix.inverse_dynamics`.

    Args:
      simulation: the articulation in its state.
      cache: its cache, which gives the joint accelerations [rad/s^2 or m/s^2].
      physx_compat: as for :func:`compute_generalized_external_force`.

    Returns:
      The cache with ``joint_force``, shape [n] [N or N m].

    Raises:
      ValueError: the cache was made for another articulation.

    Identity: it is the matrix of :func:`compute_generalized_mass_matrix` times the accelerations.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> cache = physx.create_cache(pole).replace(joint_acceleration=jnp.array([1.0, 0.0]))
      >>> # the first column of M
      >>> print(physx.compute_joint_force(physx.create_simulation(pole), cache).joint_force)
      [1.2 0.1]
    """
    check_cache(simulation, cache)
    acceleration = cache.joint_acceleration
    _check_joints(simulation, "joint_acceleration", acceleration)
    force = joint_force_for(
        simulation.articulation, simulation.state, acceleration, physx_compat=physx_compat
    )
    return cache.replace(joint_force=force)


def compute_joint_acceleration(
    simulation: ArticulationSimulation, cache: ArticulationCache, *, physx_compat: bool = False
) -> ArticulationCache:
    """``computeJointAcceleration``: forward dynamics under ``cache.joint_force`` at
    ``cache.joint_velocity``.

    The result, in ``cache.joint_acceleration``, is that of :func:`artix.forward_dynamics` with
    gravity, velocities and armature. Drives, limits, friction, damping, tendons and link forces do
    not act, and a floating root carries no force.

    Args:
      simulation: the articulation in its state.
      cache: its cache, which gives the joint velocities and forces.
      physx_compat: as for :func:`compute_coriolis_compensation`.

    Returns:
      The cache with ``joint_acceleration``, shape [n] [rad/s^2 or m/s^2].

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> cache = physx.create_cache(pole).replace(joint_force=jnp.array([12.0, 0.0]))
      >>> print(
      ...     physx.compute_joint_acceleration(
      ...         physx.create_simulation(pole), cache
      ...     ).joint_acceleration
      ... )
      [ 11.428 -17.137]
    """
    state, cache = _moving(simulation, cache, physx_compat)
    _check_joints(simulation, "joint_force", cache.joint_force)
    base = simulation.topology.num_base_dofs
    force = jnp.pad(cache.joint_force, (base, 0))
    acceleration = forward_dynamics(simulation.articulation, state, force)[base:]
    return cache.replace(joint_acceleration=acceleration)


def compute_articulation_com(
    simulation: ArticulationSimulation, *, root_frame: bool = False
) -> Array:
    """``computeArticulationCOM``: :func:`artix.center_of_mass` in the world or the root's mass
    frame.

    Args:
      simulation: the articulation in its state.
      root_frame: whether the result is relative to the root's mass frame and in its axes.

    Returns:
      The centre of mass [m], shape [3].

    Raises:
      TypeError: ``simulation`` is not an :class:`ArticulationSimulation`.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("double_pendulum"))
      >>> print(physx.compute_articulation_com(simulation))
      [ 0.  0. -1.]
    """
    check_in_scene(simulation)
    return center_of_mass(
        simulation.articulation, simulation.state, "root" if root_frame else "world"
    )


def compute_centroidal_momentum_matrix(
    simulation: ArticulationSimulation, cache: ArticulationCache
) -> ArticulationCache:
    """``computeCentroidalMomentumMatrix``: :func:`artix.centroidal_momentum_matrix` at
    ``cache.joint_velocity``.

    PhysX requires a floating base, and the mass matrix and Coriolis compensation in the cache
    beforehand; artix requires neither.

    Args:
      simulation: the articulation in its state.
      cache: its cache, which gives the joint velocities [rad/s or m/s].

    Returns:
      The cache with ``centroidal_momentum_matrix``, shape [6, nv], and
      ``centroidal_momentum_bias``, shape [6]: linear [kg m/s, N], then angular about the centre of
      mass [kg m^2/s, N m], world axes.

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> robot = artix.robots.load("quadruped")
      >>> cache = physx.compute_centroidal_momentum_matrix(
      ...     physx.create_simulation(robot), physx.create_cache(robot)
      ... )
      >>> print(cache.centroidal_momentum_matrix[0, 0])  # the mass [kg]
      14.24
    """
    state, cache = _moving(simulation, cache, False)
    matrix, bias = centroidal_momentum_matrix(simulation.articulation, state)
    return cache.replace(centroidal_momentum_matrix=matrix, centroidal_momentum_bias=bias)


# --- deprecated in PhysX 5.5 and removed in 5.7 -------------------------------------------------


def compute_generalized_mass_matrix(
    simulation: ArticulationSimulation, cache: ArticulationCache
) -> ArticulationCache:
    """``computeGeneralizedMassMatrix``: the joints' inertia with a floating root free.

    With rows r of the root and j of the joints, it is ``M_jj - M_jr M_rr^-1 M_rj``; for a fixed
    base it is :func:`artix.mass_matrix`. Deprecated in PhysX 5.5.

    Args:
      simulation: the articulation in its state.
      cache: its cache.

    Returns:
      The cache with ``mass_matrix``, shape [n, n] [kg, kg m or kg m^2].

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> simulation, cache = physx.create_simulation(pendulum), physx.create_cache(pendulum)
      >>> print(physx.compute_generalized_mass_matrix(simulation, cache).mass_matrix)
      [[2.667 0.834]
       [0.834 0.334]]
    """
    check_cache(simulation, cache)
    return cache.replace(
        mass_matrix=generalized_mass_matrix(simulation.articulation, simulation.state)
    )


def compute_generalized_gravity_force(
    simulation: ArticulationSimulation, cache: ArticulationCache, *, physx_compat: bool = False
) -> ArticulationCache:
    """``computeGeneralizedGravityForce``: joint forces against gravity, in ``cache.joint_force``.

    A floating root is free and falls with its links, so the result is then zero unless
    ``gravity_scale`` differs between links. Deprecated in PhysX 5.5.

    Args:
      simulation: the articulation in its state.
      cache: its cache.
      physx_compat: as for :func:`artix.physx.generalized.generalized_gravity_force`.

    Returns:
      The cache with ``joint_force``, shape [n] [N or N m].

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> simulation, cache = physx.create_simulation(pendulum, level), physx.create_cache(pendulum)
      >>> print(physx.compute_generalized_gravity_force(simulation, cache).joint_force)
      [19.62   4.905]
    """
    check_cache(simulation, cache)
    force = generalized_gravity_force(
        simulation.articulation, simulation.state, physx_compat=physx_compat
    )
    return cache.replace(joint_force=force)


def compute_coriolis_and_centrifugal_force(
    simulation: ArticulationSimulation, cache: ArticulationCache, *, physx_compat: bool = False
) -> ArticulationCache:
    """``computeCoriolisAndCentrifugalForce``: joint forces against velocity effects at
    ``cache.joint_velocity``.

    A floating root is free: with rows r of the root and j of the joints, and the forces c of
    :func:`compute_coriolis_compensation`, the result is ``c_j - M_jr M_rr^-1 c_r``. Deprecated in
    PhysX 5.5.

    Args:
      simulation: the articulation in its state.
      cache: its cache, which gives the joint velocities [rad/s or m/s].
      physx_compat: as for :func:`compute_coriolis_compensation`.

    Returns:
      The cache with ``joint_force``, shape [n] [N or N m].

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> bent = artix.neutral_state(pendulum).replace(joint_position=jnp.array([0.0, jnp.pi / 2]))
      >>> simulation = physx.create_simulation(pendulum, bent)
      >>> cache = physx.create_cache(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> print(physx.compute_coriolis_and_centrifugal_force(simulation, cache).joint_force)
      [0. 2.]
    """
    state, cache = _moving(simulation, cache, physx_compat)
    return cache.replace(joint_force=coriolis_and_centrifugal_force(simulation.articulation, state))


def _moving(
    simulation: ArticulationSimulation, cache: ArticulationCache, physx_compat: bool
) -> tuple[State, ArticulationCache]:
    """The state with the cache's joint velocities, and the cache with the velocities actually
    used.
    """
    check_cache(simulation, cache)
    _check_joints(simulation, "joint_velocity", cache.joint_velocity)
    state = simulation.state.replace(joint_velocity=cache.joint_velocity)
    if physx_compat:
        state = clamp_joint_velocities(simulation.articulation, state)
    return state, cache.replace(joint_velocity=state.joint_velocity)


def _check_joints(simulation: ArticulationSimulation, name: str, value: Array) -> None:
    check_vector(
        f"cache.{name}", value, (simulation.topology.num_dofs,), simulation.dtype, "n joint DOFs"
    )


#: Relative residual of the rows up to which ``computeLambda`` counts as converged.
TOLERANCE = 1e-5


def get_coefficient_matrix_size(articulation: AnyArticulation) -> int:
    """``getCoefficientMatrixSize``: the number of entries of ``cache.coefficient_matrix``, rows
    times nv.

    PhysX has one column of n entries per loop joint, artix one row of nv entries per locked axis of
    a loop joint.

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


def compute_coefficient_matrix(
    simulation: ArticulationSimulation, cache: ArticulationCache
) -> ArticulationCache:
    """``computeCoefficientMatrix``: the Jacobian J of all loop joints into
    ``cache.coefficient_matrix``, shape [r, nv].

    Forces ``cache.lambda_`` on the rows amount to the generalised force ``J^T lambda``. The rows of
    a joint are its locked axes, translations before rotations. They measure the motion of the frame
    on ``link_a`` relative to ``link_b`` along its own axes. A distance joint has one row, the
    distance. Row by row this is PhysX's memory order.

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
      >>> cache = physx.compute_coefficient_matrix(
      ...     physx.create_simulation(held), physx.create_cache(held)
      ... )
      >>> print(cache.coefficient_matrix.shape)
      (3, 2)
    """
    check_cache(simulation, cache)
    anchors = loop_anchors(simulation.articulation)
    return cache.replace(
        coefficient_matrix=anchor_rows(simulation.articulation, simulation.state, anchors).jacobian
    )


def compute_lambda(
    simulation: ArticulationSimulation,
    cache: ArticulationCache,
    joint_torque: Array,
    *,
    max_iterations: int = 10,
) -> tuple[ArticulationCache, Array]:
    """``computeLambda``: the forces of the loop joints that keep their frames from accelerating
    relative to each other.

    This is :func:`artix.constrained_forward_dynamics` under gravity, velocities, armature and
    ``joint_torque``, at the state of the simulation, which replaces PhysX's ``initialState``. The
    forces on redundant rows are the smallest.

    Args:
      simulation: the articulation in its scene.
      cache: its cache.
      joint_torque: joint forces [N m or N], shape [n].
      max_iterations: number of proximal iterations, all of which are carried out; static.

    Returns:
      The cache with ``lambda_`` [N or N m] and ``coefficient_matrix``, shape [r] and [r, nv], and a
      boolean: whether the frames' relative accelerations are below 1e-5 of the largest generalised
      acceleration or of one.

    Raises:
      ValueError: the cache was made for another articulation, or a loop joint is of type distance,
        which is not an equality constraint.

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
    check_vector(
        "joint_torque",
        joint_torque,
        (simulation.topology.num_dofs,),
        simulation.dtype,
        "n joint DOFs",
    )
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
