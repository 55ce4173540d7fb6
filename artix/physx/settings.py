"""Settings of an articulation: flags, iteration counts, limits of its velocity as a whole, motions and drive types."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.joints import Axis
from artix.model.topology import Topology
from artix.physx.cache import AnyArticulation
from artix.physx.enums import ArticulationDriveType, ArticulationFlag, ArticulationMotion
from artix.physx.simulation import ArticulationSimulation
from artix.simulation.common.report import Residual

Array = jax.Array


def get_articulation_flags(simulation: ArticulationSimulation) -> ArticulationFlag:
    """``getArticulationFlags``; raises ``TypeError`` for articulations padded to several topologies."""
    flags = ArticulationFlag(0)
    if _static_topology(simulation).fixed_base:
        flags |= ArticulationFlag.FIX_BASE
    if simulation.options.drive_limits_are_forces:
        flags |= ArticulationFlag.DRIVE_LIMITS_ARE_FORCES
    if simulation.disable_self_collision:
        flags |= ArticulationFlag.DISABLE_SELF_COLLISION
    return flags


def set_articulation_flags(simulation: ArticulationSimulation, flags: ArticulationFlag) -> ArticulationSimulation:
    """``setArticulationFlags``: all flags at once; they are static.

    ``FIX_BASE`` changes the topology and with it the shape of every generalised vector: make a new cache afterwards.
    ``DISABLE_SELF_COLLISION`` is kept without effect, as there are no contacts.

    Raises:
      TypeError: the articulation is padded to several topologies, where the base is data.
    """
    topology = _static_topology(simulation)
    fixed = ArticulationFlag.FIX_BASE in flags
    articulation = simulation.articulation
    if fixed != topology.fixed_base:
        articulation = articulation.replace(topology=dataclasses.replace(topology, fixed_base=fixed))
    forces = ArticulationFlag.DRIVE_LIMITS_ARE_FORCES in flags
    return simulation.replace(
        articulation=articulation,
        options=dataclasses.replace(simulation.options, drive_limits_are_forces=forces),
        disable_self_collision=ArticulationFlag.DISABLE_SELF_COLLISION in flags,
    )


def set_articulation_flag(
    simulation: ArticulationSimulation, flag: ArticulationFlag, value: bool
) -> ArticulationSimulation:
    """``setArticulationFlag``: one flag; see :func:`set_articulation_flags`."""
    flags = get_articulation_flags(simulation)
    return set_articulation_flags(simulation, flags | flag if value else flags & ~ArticulationFlag(flag))


def get_solver_iteration_counts(simulation: ArticulationSimulation) -> tuple[int, int]:
    """``getSolverIterationCounts``: position and velocity iterations."""
    return simulation.options.position_iterations, simulation.options.velocity_iterations


def set_solver_iteration_counts(
    simulation: ArticulationSimulation, position_iterations: int, velocity_iterations: int = 1
) -> ArticulationSimulation:
    """``setSolverIterationCounts``; static, so that another count compiles again.

    Raises:
      ValueError: fewer than 1 position or 0 velocity iterations, or more than 255 of either.
    """
    if max(position_iterations, velocity_iterations) > 255:
        raise ValueError(
            f"PhysX has at most 255 iterations; found {position_iterations} and {velocity_iterations}; "
            "simulation.replace(options=...) knows no such limit"
        )
    options = dataclasses.replace(
        simulation.options, position_iterations=position_iterations, velocity_iterations=velocity_iterations
    )
    return simulation.replace(options=options)


def get_solver_residual(simulation: ArticulationSimulation) -> tuple[Residual, Residual]:
    """``getSolverResidual``: of the position and of the velocity iterations of the last step, zero before the first.

    What the last sweep still had to correct of each row's velocity; see :class:`artix.Residual`.
    """
    return simulation.report.position_residual, simulation.report.velocity_residual


def get_max_com_linear_velocity(simulation: ArticulationSimulation) -> Array:
    """``getMaxCOMLinearVelocity`` [m/s], ``inf`` for none, shape []."""
    return _limit(simulation.max_com_linear_velocity, simulation)


def set_max_com_linear_velocity(simulation: ArticulationSimulation, limit: float | Array) -> ArticulationSimulation:
    """``setMaxCOMLinearVelocity`` [m/s], removed in PhysX 5.6: ``simulate`` scales the velocity of a floating base.

    Raises:
      ValueError: the limit is negative or NaN.
    """
    return simulation.replace(max_com_linear_velocity=_checked(limit, simulation))


def get_max_com_angular_velocity(simulation: ArticulationSimulation) -> Array:
    """``getMaxCOMAngularVelocity`` [rad/s], ``inf`` for none, shape []."""
    return _limit(simulation.max_com_angular_velocity, simulation)


def set_max_com_angular_velocity(simulation: ArticulationSimulation, limit: float | Array) -> ArticulationSimulation:
    """``setMaxCOMAngularVelocity`` [rad/s], likewise: angular momentum about the centre of mass over its inertia."""
    return simulation.replace(max_com_angular_velocity=_checked(limit, simulation))


def get_motion(articulation: AnyArticulation, joint: str, axis: Axis) -> ArticulationMotion:
    """``getMotion`` of a joint's axis, by the joint's name; limits must be concrete numbers."""
    dof = _dof(articulation, joint, axis)
    if dof is None:
        return ArticulationMotion.LOCKED
    parameters = articulation.articulation if isinstance(articulation, ArticulationSimulation) else articulation
    limits = parameters.joint_lower_limit[dof], parameters.joint_upper_limit[dof]
    return ArticulationMotion.LIMITED if np.any(np.isfinite(limits)) else ArticulationMotion.FREE


def get_drive_type(articulation: AnyArticulation, joint: str, axis: Axis) -> ArticulationDriveType:
    """The ``driveType`` of ``getDriveParams``; ``NONE`` where stiffness and damping are zero."""
    dof = _dof(articulation, joint, axis)
    parameters = articulation.articulation if isinstance(articulation, ArticulationSimulation) else articulation
    drive = parameters.drive
    if dof is None or not (drive.stiffness[dof] > 0 or drive.damping[dof] > 0):
        return ArticulationDriveType.NONE
    return ArticulationDriveType.ACCELERATION if drive.is_acceleration[dof] > 0 else ArticulationDriveType.FORCE


def _dof(articulation: AnyArticulation, joint: str, axis: Axis) -> int | None:
    """The DOF of a joint's axis, ``None`` where the axis is locked."""
    tree = _static_topology(articulation)
    dofs = tree.dofs(joint)
    free = tree.dof_axis[dofs].tolist()
    return dofs.start + free.index(int(axis)) if int(axis) in free else None


def _static_topology(articulation: AnyArticulation) -> Topology:
    tree = articulation.topology
    if not isinstance(tree, Topology):
        raise TypeError("a padded articulation has its topology as data; ask fleet.topologies[member] instead")
    return tree


def _limit(limit: Array | None, simulation: ArticulationSimulation) -> Array:
    return jnp.asarray(jnp.inf, simulation.dtype) if limit is None else limit


def _checked(limit: float | Array, simulation: ArticulationSimulation) -> Array:
    if not isinstance(limit, jax.core.Tracer) and (math.isnan(limit) or limit < 0):
        raise ValueError(f"the limit must not be negative; found {limit}")
    return jnp.asarray(limit, simulation.dtype)
