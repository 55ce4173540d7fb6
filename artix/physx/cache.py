"""``PxArticulationCache`` as a pytree in PhysX's order of links and DOFs, created, packed, filled
and applied.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.forward import joint_efforts
from artix.kinematics.frames import frame_velocity
from artix.math import struct
from artix.math.arrays import check_finite
from artix.model.checks import check_quaternion, check_vector
from artix.model.couplings import LoopJointType
from artix.model.topology import Topology
from artix.physx.enums import FIELDS, Field, flags_of
from artix.physx.enums import ArticulationCacheFlag as Flag
from artix.physx.simulation import AnyArticulation, ArticulationSimulation, check_in_scene, wake_if

Array = jax.Array


class RootLinkData(struct.PyTreeNode):
    """``PxArticulationRootLinkData``: the root link's pose and motion.

    Attributes:
      transform: world pose of the root link's frame, position [m] and quaternion xyzw, shape [7].
        (PhysX's ``PxTransform`` has the quaternion first; here only the direct-GPU buffers do.)
      world_lin_vel: velocity of its centre of mass [m/s], world axes, shape [3].
      world_ang_vel: its angular velocity [rad/s], world axes, shape [3].
      world_lin_accel: acceleration of its centre of mass in the last step [m/s^2], world axes,
        shape [3]; read only.
      world_ang_accel: its angular acceleration in the last step [rad/s^2], world axes, shape [3];
        read only.

    Examples:
      >>> from artix import physx
      >>> cache = physx.create_cache(artix.robots.load("quadruped"))
      >>> print(cache.root_link_data.transform.shape, cache.root_link_data.world_lin_vel.shape)
      (7,) (3,)
    """

    transform: Array
    world_lin_vel: Array
    world_ang_vel: Array
    world_lin_accel: Array
    world_ang_accel: Array


class ArticulationCache(struct.PyTreeNode):
    """``PxArticulationCache``: inputs and results of the functions on an articulation.

    L links, n joint DOFs, nv generalised velocities (n, or 6 + n for a floating base), L' = L, or L
    - 1 for a fixed base, r rows of loop joints. Where PhysX reserves n + 6 entries, a field has
    only the nv that are used. World axes and SI units; unless noted otherwise, wrenches and
    velocities are linear first and at the links' centres of mass. Build a cache with
    :func:`create_cache`; :func:`copy_internal_state_to_cache` and :func:`apply_cache` list which
    flag moves which field.

    Attributes:
      external_forces: input of ``compute_generalized_external_force`` only [N, N m], shape [L, 6].
      dense_jacobian: from ``compute_dense_jacobian`` [m or 1], shape [6 L', nv].
      mass_matrix: from ``compute_mass_matrix`` [kg, kg m or kg m^2], shape [nv, nv]; from the
        deprecated ``compute_generalized_mass_matrix``, shape [n, n].
      coriolis_force: from ``compute_coriolis_compensation`` [N or N m], shape [nv].
      gravity_compensation_force: from ``compute_gravity_compensation`` [N or N m], shape [nv].
      centroidal_momentum_matrix: from ``compute_centroidal_momentum_matrix``, shape [6, nv].
      centroidal_momentum_bias: from ``compute_centroidal_momentum_matrix`` [N, N m], shape [6].
      joint_velocity: joint velocities [rad/s or m/s], shape [n].
      joint_acceleration: joint accelerations [rad/s^2 or m/s^2], shape [n].
      joint_position: joint positions [rad or m], shape [n].
      joint_force: joint forces [N m or N]: the applied ones, or the input or result of inverse
        dynamics, shape [n].
      joint_solver_forces: efforts [N m or N] that the joints transmitted along their DOFs in the
        last step, from all causes, shape [n]; removed in PhysX 5.4.
      sensor_forces: force sensors, which artix does not have, shape [0, 6]; PhysX 5.4 removed them
        in favour of ``link_incoming_joint_force``.
      joint_target_positions: targets of the drives [rad or m], shape [n].
      joint_target_velocities: target velocities of the drives [rad/s or m/s], shape [n].
      link_velocity: velocities of the links [m/s, rad/s], shape [L, 6].
      link_acceleration: classical accelerations of the links in the last step [m/s^2, rad/s^2],
        shape [L, 6].
      link_incoming_joint_force: wrench [N, N m] of the parent on each link through its joint in the
        last step, at the origin and in the axes of the child joint frame, shape [L, 6].
      link_force: forces on the links during the next step [N], shape [L, 3].
      link_torque: torques on the links during the next step [N m], shape [L, 3].
      root_link_data: the root link.
      coefficient_matrix: from ``compute_coefficient_matrix``, shape [r, nv].
      lambda_: from ``compute_lambda`` (``lambda`` is a keyword of Python) [N or N m], shape [r].
      version: identifies the articulation that the cache was made for; static. Functions refuse any
        other cache.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> cache = physx.create_cache(pole).replace(joint_acceleration=jnp.array([1.0, 0.0]))
      >>> cache = physx.compute_joint_force(physx.create_simulation(pole), cache)
      >>> print(cache.joint_force)  # to accelerate the cart at 1 m/s^2
      [1.2 0.1]
    """

    external_forces: Array
    dense_jacobian: Array
    mass_matrix: Array
    coriolis_force: Array
    gravity_compensation_force: Array
    centroidal_momentum_matrix: Array
    centroidal_momentum_bias: Array
    joint_velocity: Array
    joint_acceleration: Array
    joint_position: Array
    joint_force: Array
    joint_solver_forces: Array
    sensor_forces: Array
    joint_target_positions: Array
    joint_target_velocities: Array
    link_velocity: Array
    link_acceleration: Array
    link_incoming_joint_force: Array
    link_force: Array
    link_torque: Array
    root_link_data: RootLinkData
    coefficient_matrix: Array
    lambda_: Array
    version: int = struct.field(pytree_node=False)


def create_cache(articulation: AnyArticulation) -> ArticulationCache:
    """``createCache``: a cache of zeros.

    The quaternion of the root's pose is zero, too. Read the state into the cache
    (:func:`copy_internal_state_to_cache`), or write a unit quaternion, before you apply
    ``ROOT_TRANSFORM``.

    Args:
      articulation: the articulation or its simulation.

    Returns:
      The cache, in the articulation's dtype; :class:`ArticulationCache` has the shapes.

    Examples:
      >>> from artix import physx
      >>> cache = physx.create_cache(artix.robots.load("quadruped"))
      >>> print(cache.mass_matrix.shape, cache.joint_force.shape)
      (18, 18) (12,)
    """
    tree = articulation.topology
    n = tree.num_dofs
    links = tree.num_links
    nv = tree.nv
    rows = num_loop_rows(tree)

    def zeros(*shape: int) -> Array:
        return jnp.zeros(shape, articulation.dtype)

    return ArticulationCache(
        external_forces=zeros(links, 6),
        dense_jacobian=zeros(6 * (links - (tree.num_base_dofs == 0)), nv),
        mass_matrix=zeros(nv, nv),
        coriolis_force=zeros(nv),
        gravity_compensation_force=zeros(nv),
        centroidal_momentum_matrix=zeros(6, nv),
        centroidal_momentum_bias=zeros(6),
        joint_velocity=zeros(n),
        joint_acceleration=zeros(n),
        joint_position=zeros(n),
        joint_force=zeros(n),
        joint_solver_forces=zeros(n),
        sensor_forces=zeros(0, 6),
        joint_target_positions=zeros(n),
        joint_target_velocities=zeros(n),
        link_velocity=zeros(links, 6),
        link_acceleration=zeros(links, 6),
        link_incoming_joint_force=zeros(links, 6),
        link_force=zeros(links, 3),
        link_torque=zeros(links, 3),
        root_link_data=RootLinkData(zeros(7), zeros(3), zeros(3), zeros(3), zeros(3)),
        coefficient_matrix=zeros(rows, nv),
        lambda_=zeros(rows),
        version=hash(tree),
    )


def zero_cache(cache: ArticulationCache) -> ArticulationCache:
    """``zeroCache``: sets all fields to zero except, as in PhysX, ``coefficient_matrix`` and
    ``lambda_``.

    Args:
      cache: the cache.

    Returns:
      The cache of zeros, for the same articulation.

    Examples:
      >>> from artix import physx
      >>> cache = physx.create_cache(artix.robots.load("cart_pole")).replace(
      ...     joint_force=jnp.ones(2)
      ... )
      >>> print(physx.zero_cache(cache).joint_force)
      [0. 0.]
    """
    zeros = jax.tree.map(jnp.zeros_like, cache)
    return zeros.replace(coefficient_matrix=cache.coefficient_matrix, lambda_=cache.lambda_)


def get_cache_data_size(articulation: AnyArticulation) -> int:
    """``getCacheDataSize``: the size of PhysX 5.6.1's cache for this articulation, in its float32
    layout.

    PhysX reserves n + 6 entries for generalised vectors and pads 3-vectors, so this is not the size
    of artix's cache.

    Args:
      articulation: the articulation or its simulation.

    Returns:
      The size [B].

    Examples:
      >>> from artix import physx
      >>> print(physx.get_cache_data_size(artix.robots.load("arm7")) > 0)  # [B]
      True
    """
    n = articulation.topology.num_dofs
    links = articulation.topology.num_links
    wide = n + 6
    # External forces, velocities, accelerations, incoming joint forces
    spatial_vectors = 4 * 8 * links
    matrices = 6 * links * wide + wide**2  # dense Jacobian, mass matrix
    compensations = 2 * wide
    centroidal = 6 * wide + 6
    link_loads = 2 * 3 * links
    root_link_data = 7 + 4 * 3
    return 4 * (
        spatial_vectors
        + matrices
        + compensations
        + centroidal
        + 6 * n
        + link_loads
        + root_link_data
    )


def pack_joint_data(articulation: AnyArticulation, maximum: Array) -> Array:
    """``packJointData``: from six axes per joint to the DOFs.

    Args:
      articulation: the articulation or its simulation.
      maximum: a number for each axis of each joint, link i's from ``6 (i - 1)`` on in the order of
        :class:`artix.Axis`, shape [6 (L - 1)]; any unit.

    Returns:
      The numbers of the free axes, shape [n], in the same unit.

    Identity: ``pack_joint_data(a, unpack_joint_data(a, x)) == x``.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> maximum = jnp.arange(12.0)  # six axes of two joints, twist, swing1, swing2, x, y, z
      >>> print(physx.pack_joint_data(pole, maximum))  # x of the first, swing1 of the second
      [3. 7.]
    """
    tree = articulation.topology
    check_vector(
        "maximum", maximum, (6 * (tree.num_links - 1),), articulation.dtype, "six axes per joint"
    )
    return jnp.asarray(maximum)[_axis_indices(tree)]


def unpack_joint_data(articulation: AnyArticulation, reduced: Array) -> Array:
    """``unpackJointData``: from the DOFs to six axes per joint, with zeros for locked axes.

    Args:
      articulation: the articulation or its simulation.
      reduced: a number for each DOF, shape [n]; any unit.

    Returns:
      A number for each axis of each joint, in the order of :func:`pack_joint_data`, shape
      [6 (L - 1)], in the same unit.

    Identity: ``pack_joint_data(a, unpack_joint_data(a, x)) == x``.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> print(physx.unpack_joint_data(pole, jnp.array([1.0, 2.0])).reshape(2, 6))
      [[0. 0. 0. 1. 0. 0.]
       [0. 2. 0. 0. 0. 0.]]
    """
    tree = articulation.topology
    check_vector("reduced", reduced, (tree.num_dofs,), articulation.dtype, "n joint DOFs")
    return (
        jnp.zeros(6 * (tree.num_links - 1), articulation.dtype).at[_axis_indices(tree)].set(reduced)
    )


def check_cache(simulation: ArticulationSimulation, cache: ArticulationCache) -> None:
    """Raises ``ValueError`` unless the cache was made for this articulation, as PhysX checks its
    version.

    Raises ``TypeError`` for what is not a simulation.
    """
    check_in_scene(simulation)
    if cache.version != hash(simulation.topology):
        raise ValueError(
            "cache: it was made for another articulation, or for this one before its links or "
            "joints changed; create a new one with artix.physx.create_cache(articulation)"
        )


def num_loop_rows(tree: Topology) -> int:
    """Number of scalar constraints of all loop joints."""
    return sum(
        1 if joint.type is LoopJointType.DISTANCE else len(joint.locked_axes)
        for joint in tree.loop_joints
    )


def _axis_indices(tree: Topology) -> np.ndarray:
    """Index of each DOF among six axes per joint, [n]."""
    return 6 * (tree.dof_link - 1) + tree.dof_axis


_TARGETS = Flag.JOINT_TARGET_POSITIONS | Flag.JOINT_TARGET_VELOCITIES
#: What both functions move: by flag, the fields of the cache and of the simulation.
_STATE = (
    (Flag.VELOCITY, Field("joint_velocity"), FIELDS["JOINT_VELOCITY"]),
    (Flag.ROOT_TRANSFORM, Field("root_link_data.transform"), FIELDS["ROOT_GLOBAL_POSE"]),
    (Flag.ROOT_VELOCITIES, Field("root_link_data.world_lin_vel"), FIELDS["ROOT_LINEAR_VELOCITY"]),
    (Flag.ROOT_VELOCITIES, Field("root_link_data.world_ang_vel"), FIELDS["ROOT_ANGULAR_VELOCITY"]),
    (Flag.POSITION, Field("joint_position"), FIELDS["JOINT_POSITION"]),
    (Flag.FORCE, Field("joint_force"), FIELDS["JOINT_FORCE"]),
)
_WRITTEN = (
    *_STATE,
    (Flag.JOINT_TARGET_POSITIONS, Field("joint_target_positions"), FIELDS["JOINT_TARGET_POSITION"]),
    (
        Flag.JOINT_TARGET_VELOCITIES,
        Field("joint_target_velocities"),
        FIELDS["JOINT_TARGET_VELOCITY"],
    ),
    (Flag.LINK_FORCE, Field("link_force"), FIELDS["LINK_FORCE"]),
    (Flag.LINK_TORQUE, Field("link_torque"), FIELDS["LINK_TORQUE"]),
)
_COPIED = (
    *_STATE,
    (Flag.ACCELERATION, Field("joint_acceleration"), FIELDS["JOINT_ACCELERATION"]),
    (Flag.LINK_ACCELERATION, Field("link_acceleration"), Field("report.link_acceleration")),
    (
        Flag.LINK_INCOMING_JOINT_FORCE,
        Field("link_incoming_joint_force"),
        FIELDS["LINK_INCOMING_JOINT_FORCE"],
    ),
)


def copy_internal_state_to_cache(
    simulation: ArticulationSimulation, cache: ArticulationCache, flags: Flag
) -> ArticulationCache:
    """``copyInternalStateToCache``: reads the articulation's state.

    ===============================  ===========================================================================
    flag                             fields
    ===============================  ===========================================================================
    ``VELOCITY``                     ``joint_velocity``
    ``ACCELERATION``                 ``joint_acceleration``, of the last step
    ``POSITION``                     ``joint_position``
    ``FORCE``                        ``joint_force``, the applied ones
    ``LINK_VELOCITY``                ``link_velocity``
    ``LINK_ACCELERATION``            ``link_acceleration``, of the last step
    ``ROOT_TRANSFORM``               ``root_link_data.transform``
    ``ROOT_VELOCITIES``              the velocities and accelerations of ``root_link_data``
    ``JOINT_SOLVER_FORCES``          ``joint_solver_forces``, of the last step
    ``LINK_INCOMING_JOINT_FORCE``    ``link_incoming_joint_force``, of the last step
    ===============================  ===========================================================================

    All other flags have no effect: as in PhysX, targets and link forces are write-only, and there
    are no sensors for ``SENSOR_FORCES``.

    Args:
      simulation: the articulation in its scene.
      cache: its cache.
      flags: what to read; static.

    Returns:
      The cache with the fields that the flags name.

    Raises:
      ValueError: the cache was made for another articulation, or there is no such flag.
      TypeError: the flags are of another enumeration.

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationCacheFlag as Flag
      >>> pole = artix.robots.load("cart_pole")
      >>> simulation = physx.simulate(physx.create_simulation(pole), 0.01)
      >>> cache = physx.copy_internal_state_to_cache(simulation, physx.create_cache(pole), Flag.ALL)
      >>> print(cache.joint_position, cache.link_velocity.shape)
      [0. 0.] (3, 6)
    """  # noqa: E501
    check_cache(simulation, cache)
    flags = flags_of(Flag, "flags", flags)
    for flag, in_cache, field in _COPIED:
        if flag in flags:
            cache = in_cache.write(cache, field.read(simulation))
    if Flag.ROOT_VELOCITIES in flags:
        acceleration = simulation.report.link_acceleration[0]
        moved = {"world_lin_accel": acceleration[:3], "world_ang_accel": acceleration[3:]}
        cache = cache.replace(root_link_data=cache.root_link_data.replace(**moved))
    if Flag.LINK_VELOCITY in flags:
        cache = cache.replace(
            link_velocity=frame_velocity(simulation.articulation, simulation.state, offset="com")
        )
    if Flag.JOINT_SOLVER_FORCES in flags:
        cache = cache.replace(
            joint_solver_forces=joint_efforts(
                simulation.articulation, simulation.report.incoming_joint_force
            )
        )
    return cache


def apply_cache(
    simulation: ArticulationSimulation,
    cache: ArticulationCache,
    flags: Flag,
    *,
    autowake: bool = True,
) -> ArticulationSimulation:
    """``applyCache``: writes the articulation's state, forces and targets.

    ===============================  ===========================================================================
    flag                             fields
    ===============================  ===========================================================================
    ``VELOCITY``                     ``joint_velocity``
    ``ROOT_TRANSFORM``               ``root_link_data.transform``
    ``ROOT_VELOCITIES``              ``root_link_data.world_lin_vel`` and ``world_ang_vel``
    ``POSITION``                     ``joint_position``
    ``FORCE``                        ``joint_force``, which persists
    ``JOINT_TARGET_POSITIONS``       ``joint_target_positions``, which persist
    ``JOINT_TARGET_VELOCITIES``      ``joint_target_velocities``, which persist
    ``LINK_FORCE``                   ``link_force``, for one step
    ``LINK_TORQUE``                  ``link_torque``, for one step
    ===============================  ===========================================================================

    All other flags name read-only fields and have no effect, as in PhysX. Poses and velocities of
    links always follow from the state, so ``update_kinematic`` is not needed.

    Args:
      simulation: the articulation in its scene.
      cache: its cache.
      flags: what to write; static.
      autowake: whether to wake the articulation, for at least the reset value of the wake counter.
        A non-zero velocity, force or torque, or a changed target, wakes it in any case.

    Returns:
      The changed simulation.

    Raises:
      ValueError: the cache was made for another articulation, there is no such flag, a field that
        is written has the wrong shape, or is known and has a number that is not finite or a
        quaternion of length zero.
      TypeError: a field has another dtype than the articulation, or the flags are of another
        enumeration.

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationCacheFlag as Flag
      >>> pole = artix.robots.load("cart_pole")
      >>> simulation, cache = physx.create_simulation(pole), physx.create_cache(pole)
      >>> cache = cache.replace(joint_position=jnp.array([0.5, 0.1]))
      >>> print(physx.apply_cache(simulation, cache, Flag.POSITION).state.joint_position)
      [0.5 0.1]
    """  # noqa: E501
    check_cache(simulation, cache)
    flags = flags_of(Flag, "flags", flags)
    changed = simulation
    moves = []
    if Flag.ROOT_TRANSFORM in flags:
        check_quaternion(
            "cache.root_link_data.transform", cache.root_link_data.transform, any_length=True
        )
    for flag, in_cache, field in _WRITTEN:
        if flag not in flags:
            continue
        value = in_cache.read(cache)
        before = field.read(simulation)
        check_vector(
            f"cache.{in_cache.path}",
            value,
            before.shape,
            simulation.dtype,
            "as create_cache makes it",
        )
        check_finite(f"cache.{in_cache.path}", value)
        changed = field.write(changed, value)
        # A pose wakes nothing, and a target only if it changes.
        if flag not in Flag.ROOT_TRANSFORM | Flag.POSITION:
            moves.append(jnp.any((value - before if flag in _TARGETS else value) != 0))
    return wake_if(changed, jnp.asarray(autowake) | jnp.any(jnp.array(moves, bool)))
