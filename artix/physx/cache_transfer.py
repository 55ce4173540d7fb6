"""Moves state between an articulation and its cache: ``copyInternalStateToCache`` and ``applyCache``."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.kinematics.forward import screw_pitches
from artix.kinematics.frames import frame_velocity
from artix.model.checks import check_quaternion, check_vector
from artix.physx.accessors import wake_if
from artix.physx.cache import ArticulationCache, check_cache
from artix.physx.enums import ArticulationCacheFlag as Flag
from artix.physx.fields import FIELDS, Field
from artix.physx.simulation import ArticulationSimulation

Array = jax.Array

_TARGETS = Flag.JOINT_TARGET_POSITIONS | Flag.JOINT_TARGET_VELOCITIES
#: What both functions move: by flag, the field of the cache and that of the simulation.
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
    (Flag.JOINT_TARGET_VELOCITIES, Field("joint_target_velocities"), FIELDS["JOINT_TARGET_VELOCITY"]),
    (Flag.LINK_FORCE, Field("link_force"), FIELDS["LINK_FORCE"]),
    (Flag.LINK_TORQUE, Field("link_torque"), FIELDS["LINK_TORQUE"]),
)
_COPIED = (
    *_STATE,
    (Flag.ACCELERATION, Field("joint_acceleration"), FIELDS["JOINT_ACCELERATION"]),
    (Flag.LINK_ACCELERATION, Field("link_acceleration"), Field("report.link_acceleration")),
    (Flag.LINK_INCOMING_JOINT_FORCE, Field("link_incoming_joint_force"), FIELDS["LINK_INCOMING_JOINT_FORCE"]),
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

    All other flags have no effect: as in PhysX, targets and link forces are write-only, and there are no sensors for
    ``SENSOR_FORCES``.

    Args:
      simulation: the articulation in its scene.
      cache: its cache.
      flags: what to read; static.

    Returns:
      The cache with the fields that the flags name.

    Raises:
      ValueError: the cache was made for another articulation.

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationCacheFlag as Flag
      >>> pole = artix.robots.load("cart_pole")
      >>> simulation = physx.simulate(physx.create_simulation(pole), 0.01)
      >>> cache = physx.copy_internal_state_to_cache(simulation, physx.create_cache(pole), Flag.ALL)
      >>> print(cache.joint_position, cache.link_velocity.shape)
      [0. 0.] (3, 6)
    """
    check_cache(simulation, cache)
    flags = Flag(flags)
    for flag, in_cache, field in _COPIED:
        if flag in flags:
            cache = in_cache.written(cache, field.of(simulation))
    if Flag.ROOT_VELOCITIES in flags:
        acceleration = simulation.report.link_acceleration[0]
        moved = {"world_lin_accel": acceleration[:3], "world_ang_accel": acceleration[3:]}
        cache = cache.replace(root_link_data=cache.root_link_data.replace(**moved))
    if Flag.LINK_VELOCITY in flags:
        cache = cache.replace(link_velocity=frame_velocity(simulation.articulation, simulation.state, offset="com"))
    if Flag.JOINT_SOLVER_FORCES in flags:
        cache = cache.replace(joint_solver_forces=_efforts(simulation))
    return cache


def apply_cache(
    simulation: ArticulationSimulation, cache: ArticulationCache, flags: Flag, *, autowake: bool = True
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

    All other flags name read-only fields and have no effect, as in PhysX. Poses and velocities of links always follow
    from the state, so ``update_kinematic`` is not needed.

    Args:
      simulation: the articulation in its scene.
      cache: its cache.
      flags: what to write; static.
      autowake: whether to wake the articulation, for at least the reset value of the wake counter. A non-zero velocity,
        force or torque, or a changed target, wakes it in any case.

    Returns:
      The changed simulation.

    Raises:
      ValueError: the cache was made for another articulation, a field has the wrong shape, or the root's quaternion is
        written, known and of length zero.
      TypeError: a field has another dtype than the articulation.

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationCacheFlag as Flag
      >>> pole = artix.robots.load("cart_pole")
      >>> simulation, cache = physx.create_simulation(pole), physx.create_cache(pole)
      >>> cache = cache.replace(joint_position=jnp.array([0.5, 0.1]))
      >>> print(physx.apply_cache(simulation, cache, Flag.POSITION).state.joint_position)
      [0.5 0.1]
    """
    check_cache(simulation, cache)
    flags = Flag(flags)
    changed, moves = simulation, []
    for flag, in_cache, field in _WRITTEN:
        if flag not in flags:
            continue
        value, before = in_cache.of(cache), field.of(simulation)
        check_vector(f"cache.{in_cache.path}", value, before.shape, simulation.dtype, "as create_cache makes it")
        changed = field.written(changed, value)
        # A pose wakes nothing, and a target only if it changes.
        if flag not in Flag.ROOT_TRANSFORM | Flag.POSITION:
            moves.append(jnp.any((value - before if flag in _TARGETS else value) != 0))
    if Flag.ROOT_TRANSFORM in flags:
        check_quaternion("cache.root_link_data.transform", cache.root_link_data.transform, any_length=True)
    return wake_if(changed, jnp.asarray(autowake) | jnp.any(jnp.array(moves, bool)))


def _efforts(simulation: ArticulationSimulation) -> Array:
    """The components of the incoming joint forces along the DOFs, [n]: the sum of drives, limits and loads."""
    tree = simulation.topology
    torque_first = jnp.roll(simulation.report.incoming_joint_force, 3, axis=1)
    link, axis = tree.dof_link, tree.dof_axis
    efforts = torque_first[link, axis]
    if not tree.has_helical:
        return efforts
    return efforts + screw_pitches(simulation.articulation) * torque_first[link, axis % 3 + 3]
