"""Settings of an articulation: flags, iteration counts, overall velocity limits, motions and drive types."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.checks import static_topology
from artix.model.joints import Axis
from artix.physx.enums import ArticulationDriveType, ArticulationFlag, ArticulationMotion
from artix.physx.simulation import AnyArticulation, ArticulationSimulation
from artix.simulation.common.report import Residual

Array = jax.Array

_PADDED = "the topology of a padded articulation is data; use fleet.topologies[member] instead"


def get_articulation_flags(simulation: ArticulationSimulation) -> ArticulationFlag:
    """``getArticulationFlags``; raises ``TypeError`` for articulations padded to several topologies.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> print(physx.ArticulationFlag.FIX_BASE in physx.get_articulation_flags(simulation))
      False
    """
    flags = ArticulationFlag(0)
    if static_topology(simulation, _PADDED).fixed_base:
        flags |= ArticulationFlag.FIX_BASE
    if simulation.options.drive_limits_are_forces:
        flags |= ArticulationFlag.DRIVE_LIMITS_ARE_FORCES
    if simulation.disable_self_collision:
        flags |= ArticulationFlag.DISABLE_SELF_COLLISION
    return flags


def set_articulation_flags(simulation: ArticulationSimulation, flags: ArticulationFlag) -> ArticulationSimulation:
    """``setArticulationFlags``: all flags at once; they are static.

    ``FIX_BASE`` changes the topology and with it the shape of every generalised vector: create a new cache afterwards.
    ``DISABLE_SELF_COLLISION`` is stored without effect: which shapes may collide is part of the articulation.

    Raises:
      TypeError: the articulation is padded to several topologies, where the base is data.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> flags = physx.ArticulationFlag.FIX_BASE | physx.ArticulationFlag.DRIVE_LIMITS_ARE_FORCES
      >>> print(physx.get_articulation_flags(physx.set_articulation_flags(simulation, flags)) == flags)
      True
    """
    topology = static_topology(simulation, _PADDED)
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
    """``setArticulationFlag``: one flag; see :func:`set_articulation_flags`.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> fixed = physx.set_articulation_flag(simulation, physx.ArticulationFlag.FIX_BASE, True)
      >>> print(simulation.topology.nv, fixed.topology.nv)
      18 12
    """
    flags = get_articulation_flags(simulation)
    return set_articulation_flags(simulation, flags | flag if value else flags & ~ArticulationFlag(flag))


def get_solver_iteration_counts(simulation: ArticulationSimulation) -> tuple[int, int]:
    """``getSolverIterationCounts``: position and velocity iterations.

    Examples:
      >>> from artix import physx
      >>> print(physx.get_solver_iteration_counts(physx.create_simulation(artix.robots.load("cart_pole"))))
      (4, 1)
    """
    return simulation.options.position_iterations, simulation.options.velocity_iterations


def set_solver_iteration_counts(
    simulation: ArticulationSimulation, position_iterations: int, velocity_iterations: int = 1
) -> ArticulationSimulation:
    """``setSolverIterationCounts``; the counts are static, so a new one triggers compilation.

    Raises:
      ValueError: fewer than 1 position or 0 velocity iterations, or more than 255 of either.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> print(physx.get_solver_iteration_counts(physx.set_solver_iteration_counts(simulation, 8, 2)))
      (8, 2)
    """
    if max(position_iterations, velocity_iterations) > 255:
        raise ValueError(
            f"PhysX allows at most 255 iterations; found {position_iterations} and {velocity_iterations}; "
            "simulation.replace(options=...) has no such limit"
        )
    options = dataclasses.replace(
        simulation.options, position_iterations=position_iterations, velocity_iterations=velocity_iterations
    )
    return simulation.replace(options=options)


def get_solver_residual(simulation: ArticulationSimulation) -> tuple[Residual, Residual]:
    """``getSolverResidual``: residuals of the position and velocity iterations of the last step, zero before the first.

    They measure how much the last sweep still had to correct each row's velocity; see :class:`artix.Residual`.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.simulate(physx.create_simulation(artix.robots.load("cart_pole")), 0.01)
      >>> position, velocity = physx.get_solver_residual(simulation)
      >>> print(position.max < 1e-3, velocity.max < 1e-3)
      True True
    """
    return simulation.report.position_residual, simulation.report.velocity_residual


def get_max_com_linear_velocity(simulation: ArticulationSimulation) -> Array:
    """``getMaxCOMLinearVelocity`` [m/s], ``inf`` for none, shape [].

    Examples:
      >>> from artix import physx
      >>> print(physx.get_max_com_linear_velocity(physx.create_simulation(artix.robots.load("quadruped"))))
      inf
    """
    return _limit(simulation.max_com_linear_velocity, simulation)


def set_max_com_linear_velocity(simulation: ArticulationSimulation, limit: float | Array) -> ArticulationSimulation:
    """``setMaxCOMLinearVelocity`` [m/s], removed in PhysX 5.6: ``simulate`` scales the velocity of a floating base.

    Raises:
      ValueError: the limit is negative or NaN.

    Examples:
      >>> from artix import physx
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.1, 0.1, 0.1))
      >>> simulation = physx.set_max_com_linear_velocity(physx.create_simulation(builder.build()), 0.5)
      >>> print(physx.get_root_linear_velocity(physx.simulate(simulation, 0.1))[2])  # no faster, though it falls
      -0.5
    """
    return simulation.replace(max_com_linear_velocity=_checked(limit, simulation))


def get_max_com_angular_velocity(simulation: ArticulationSimulation) -> Array:
    """``getMaxCOMAngularVelocity`` [rad/s], ``inf`` for none, shape [].

    Examples:
      >>> from artix import physx
      >>> print(physx.get_max_com_angular_velocity(physx.create_simulation(artix.robots.load("quadruped"))))
      inf
    """
    return _limit(simulation.max_com_angular_velocity, simulation)


def set_max_com_angular_velocity(simulation: ArticulationSimulation, limit: float | Array) -> ArticulationSimulation:
    """``setMaxCOMAngularVelocity`` [rad/s], removed in PhysX 5.6: limits angular momentum divided by inertia.

    Both are about the centre of mass of the whole articulation; ``simulate`` scales the velocity of a floating base.

    Raises:
      ValueError: the limit is negative or NaN.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> print(physx.get_max_com_angular_velocity(physx.set_max_com_angular_velocity(simulation, 5.0)))
      5.0
    """
    return simulation.replace(max_com_angular_velocity=_checked(limit, simulation))


def get_motion(articulation: AnyArticulation, joint: str, axis: Axis) -> ArticulationMotion:
    """``getMotion`` of a joint's axis, by the joint's name; limits must be concrete numbers.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> print(physx.get_motion(pole, "slide", artix.Axis.X).name)
      LIMITED
      >>> print(physx.get_motion(pole, "swing", artix.Axis.SWING1).name)
      FREE
    """
    dof = _dof(articulation, joint, axis)
    if dof is None:
        return ArticulationMotion.LOCKED
    parameters = articulation.articulation if isinstance(articulation, ArticulationSimulation) else articulation
    limits = parameters.joint_lower_limit[dof], parameters.joint_upper_limit[dof]
    return ArticulationMotion.LIMITED if np.any(np.isfinite(limits)) else ArticulationMotion.FREE


def get_drive_type(articulation: AnyArticulation, joint: str, axis: Axis) -> ArticulationDriveType:
    """The ``driveType`` of ``getDriveParams``; ``NONE`` if stiffness and damping are zero.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> print(physx.get_drive_type(pole, "slide", artix.Axis.X).name)
      NONE
    """
    dof = _dof(articulation, joint, axis)
    parameters = articulation.articulation if isinstance(articulation, ArticulationSimulation) else articulation
    drive = parameters.drive
    if dof is None or not (drive.stiffness[dof] > 0 or drive.damping[dof] > 0):
        return ArticulationDriveType.NONE
    return ArticulationDriveType.ACCELERATION if drive.is_acceleration[dof] > 0 else ArticulationDriveType.FORCE


def _dof(articulation: AnyArticulation, joint: str, axis: Axis) -> int | None:
    """The DOF of a joint's axis; ``None`` if the axis is locked."""
    tree = static_topology(articulation, _PADDED)
    dofs = tree.dofs(joint)
    free = tree.dof_axis[dofs].tolist()
    return dofs.start + free.index(int(axis)) if int(axis) in free else None


def _limit(limit: Array | None, simulation: ArticulationSimulation) -> Array:
    return jnp.asarray(jnp.inf, simulation.dtype) if limit is None else limit


def _checked(limit: float | Array, simulation: ArticulationSimulation) -> Array:
    if not isinstance(limit, jax.core.Tracer) and (math.isnan(limit) or limit < 0):
        raise ValueError(f"the limit must not be negative; found {limit}")
    return jnp.asarray(limit, simulation.dtype)
