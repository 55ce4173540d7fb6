"""Moves state between an articulation and its cache: ``copyInternalStateToCache`` and ``applyCache``."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.kinematics.bodies import screw_pitches
from artix.kinematics.links import link_velocities
from artix.kinematics.tree import where_live
from artix.model.checks import check_quaternion, check_vector
from artix.physx.cache import ArticulationCache, RootLinkData, check_cache
from artix.physx.enums import ArticulationCacheFlag as Flag
from artix.physx.simulation import ArticulationSimulation
from artix.physx.sleeping import wake_if

Array = jax.Array


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
    state, report, flags = simulation.state, simulation.report, Flag(flags)
    fields: dict[str, Array] = {}
    if Flag.VELOCITY in flags:
        fields["joint_velocity"] = state.joint_velocity
    if Flag.ACCELERATION in flags:
        fields["joint_acceleration"] = report.joint_acceleration
    if Flag.POSITION in flags:
        fields["joint_position"] = state.joint_position
    if Flag.FORCE in flags:
        fields["joint_force"] = simulation.joint_force
    if Flag.LINK_VELOCITY in flags:
        fields["link_velocity"] = link_velocities(simulation.articulation, state)
    if Flag.LINK_ACCELERATION in flags:
        fields["link_acceleration"] = report.link_acceleration
    if Flag.JOINT_SOLVER_FORCES in flags:
        fields["joint_solver_forces"] = _efforts(simulation)
    if Flag.LINK_INCOMING_JOINT_FORCE in flags:
        fields["link_incoming_joint_force"] = report.incoming_joint_force
    return cache.replace(root_link_data=_read_root(simulation, cache.root_link_data, flags), **fields)


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
    for name, shape in _written_fields(simulation, flags).items():
        value = getattr(cache.root_link_data if hasattr(cache.root_link_data, name) else cache, name)
        check_vector(f"cache.{name}", value, shape, simulation.dtype, "as create_cache makes it")
    if Flag.ROOT_TRANSFORM in flags:
        check_quaternion("cache.root_link_data.transform", cache.root_link_data.transform)
    state = simulation.state.replace(**_state_fields(cache, flags))
    changed = simulation.replace(state=state, **_load_fields(simulation, cache, flags))
    return wake_if(changed, jnp.asarray(autowake) | _is_moved(simulation, changed, flags))


def _state_fields(cache: ArticulationCache, flags: Flag) -> dict[str, Array]:
    """The fields of the state that the flags write."""
    root, fields = cache.root_link_data, {}
    if Flag.VELOCITY in flags:
        fields["joint_velocity"] = cache.joint_velocity
    if Flag.ROOT_TRANSFORM in flags:
        fields["root_pose"] = root.transform
    if Flag.ROOT_VELOCITIES in flags:
        fields["root_velocity"] = jnp.concatenate([root.world_lin_vel, root.world_ang_vel])
    if Flag.POSITION in flags:
        fields["joint_position"] = cache.joint_position
    return fields


def _load_fields(simulation: ArticulationSimulation, cache: ArticulationCache, flags: Flag) -> dict[str, Array]:
    """The forces and targets that the flags write."""
    fields = {}
    if Flag.FORCE in flags:
        fields["joint_force"] = cache.joint_force
    if Flag.JOINT_TARGET_POSITIONS in flags:
        fields["drive_target"] = cache.joint_target_positions
    if Flag.JOINT_TARGET_VELOCITIES in flags:
        fields["drive_target_velocity"] = cache.joint_target_velocities
    if flags & (Flag.LINK_FORCE | Flag.LINK_TORQUE):
        force = cache.link_force if Flag.LINK_FORCE in flags else simulation.external_force[:, :3]
        torque = cache.link_torque if Flag.LINK_TORQUE in flags else simulation.external_force[:, 3:]
        fields["external_force"] = jnp.concatenate([force, torque], axis=1)
    return fields


def _is_moved(before: ArticulationSimulation, after: ArticulationSimulation, flags: Flag) -> Array:
    """Whether the written values wake the articulation regardless of ``autowake``."""
    moves = {
        Flag.VELOCITY: after.state.joint_velocity,
        Flag.ROOT_VELOCITIES: after.state.root_velocity,
        Flag.FORCE: after.joint_force,
        Flag.JOINT_TARGET_POSITIONS: after.drive_target - before.drive_target,
        Flag.JOINT_TARGET_VELOCITIES: after.drive_target_velocity - before.drive_target_velocity,
        Flag.LINK_FORCE: after.external_force[:, :3],
        Flag.LINK_TORQUE: after.external_force[:, 3:],
    }
    moved = [jnp.any(values != 0) for flag, values in moves.items() if flag in flags]
    return jnp.any(jnp.array(moved, bool))


def _written_fields(simulation: ArticulationSimulation, flags: Flag) -> dict[str, tuple[int, ...]]:
    """The fields that flags write, with their shapes."""
    n, links = (simulation.topology.num_dofs,), (simulation.topology.num_links, 3)
    fields: dict[Flag, dict[str, tuple[int, ...]]] = {
        Flag.VELOCITY: {"joint_velocity": n},
        Flag.ROOT_TRANSFORM: {"transform": (7,)},
        Flag.ROOT_VELOCITIES: {"world_lin_vel": (3,), "world_ang_vel": (3,)},
        Flag.POSITION: {"joint_position": n},
        Flag.FORCE: {"joint_force": n},
        Flag.JOINT_TARGET_POSITIONS: {"joint_target_positions": n},
        Flag.JOINT_TARGET_VELOCITIES: {"joint_target_velocities": n},
        Flag.LINK_FORCE: {"link_force": links},
        Flag.LINK_TORQUE: {"link_torque": links},
    }
    return {name: shape for flag, group in fields.items() if flag in flags for name, shape in group.items()}


def _read_root(simulation: ArticulationSimulation, root: RootLinkData, flags: Flag) -> RootLinkData:
    state, acceleration = simulation.state, simulation.report.link_acceleration[0]
    if Flag.ROOT_TRANSFORM in flags:
        root = root.replace(transform=state.root_pose)
    if Flag.ROOT_VELOCITIES in flags:
        root = root.replace(
            world_lin_vel=state.root_velocity[:3],
            world_ang_vel=state.root_velocity[3:],
            world_lin_accel=acceleration[:3],
            world_ang_accel=acceleration[3:],
        )
    return root


def _efforts(simulation: ArticulationSimulation) -> Array:
    """The components of the incoming joint forces along the DOFs, [n]: the sum of drives, limits and loads."""
    tree = simulation.topology
    torque_first = jnp.roll(simulation.report.incoming_joint_force, 3, axis=1)
    link, axis = jnp.asarray(tree.dof_link), jnp.asarray(tree.dof_axis)
    efforts = torque_first[link, axis]
    if tree.has_helical:
        efforts = efforts + screw_pitches(simulation.articulation) * torque_first[link, axis % 3 + 3]
    return where_live(tree, efforts)
