"""Settings of an articulation: flags, iteration counts, overall velocity limits, motions and drive types."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.articulation import Articulation
from artix.model.joints import Axis
from artix.physx.enums import ArticulationDriveType, ArticulationFlag, ArticulationMotion
from artix.physx.simulation import AnyArticulation, ArticulationSimulation
from artix.simulation.common.report import Residual

Array = jax.Array


def get_articulation_flags(simulation: ArticulationSimulation) -> ArticulationFlag:
    """``getArticulationFlags``: what :func:`set_articulation_flags` sets.

    Args:
      simulation: the articulation in its scene.

    Returns:
      The flags that are set.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> print(physx.ArticulationFlag.FIX_BASE in physx.get_articulation_flags(simulation))
      False
    """
    flags = ArticulationFlag(0)
    if simulation.topology.fixed_base:
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

    Args:
      simulation: the articulation in its scene.
      flags: the flags to set; all others are cleared.

    Returns:
      The simulation with these flags.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> flags = physx.ArticulationFlag.FIX_BASE | physx.ArticulationFlag.DRIVE_LIMITS_ARE_FORCES
      >>> print(physx.get_articulation_flags(physx.set_articulation_flags(simulation, flags)) == flags)
      True
    """
    topology = simulation.topology
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
    """``setArticulationFlag``: one flag; the others stay. See :func:`set_articulation_flags`.

    Args:
      simulation: the articulation in its scene.
      flag: the flag.
      value: whether to set it or to clear it; static.

    Returns:
      The simulation with the flag set or cleared.

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
    """``getSolverIterationCounts``: the numbers of sweeps of the solver of a step.

    Args:
      simulation: the articulation in its scene.

    Returns:
      Position iterations and velocity iterations; see :class:`artix.SolverOptions`.

    Examples:
      >>> from artix import physx
      >>> print(physx.get_solver_iteration_counts(physx.create_simulation(artix.robots.load("cart_pole"))))
      (4, 1)
    """
    return simulation.options.position_iterations, simulation.options.velocity_iterations


def set_solver_iteration_counts(
    simulation: ArticulationSimulation, position_iterations: int, velocity_iterations: int = 1
) -> ArticulationSimulation:
    """``setSolverIterationCounts``: the counts are static, so :func:`simulate` is compiled anew for each pair of them.

    Args:
      simulation: the articulation in its scene.
      position_iterations: sweeps over all rows before positions move, 1 to 255.
      velocity_iterations: sweeps after that, which change only velocities, 0 to 255.

    Returns:
      The simulation with these counts.

    Raises:
      ValueError: a count is out of range.

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
    """``getSolverResidual``: how much the last sweeps of the last step still corrected the velocities of rows.

    Args:
      simulation: the articulation in its scene.

    Returns:
      The residuals of the position and of the velocity iterations [rad/s or m/s], zero before the first step; see
      :class:`artix.Residual`.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.simulate(physx.create_simulation(artix.robots.load("cart_pole")), 0.01)
      >>> position, velocity = physx.get_solver_residual(simulation)
      >>> print(position.max < 1e-3, velocity.max < 1e-3)
      True True
    """
    return simulation.report.position_residual, simulation.report.velocity_residual


def get_max_com_linear_velocity(simulation: ArticulationSimulation) -> Array:
    """``getMaxCOMLinearVelocity``: the speed limit of the whole articulation's centre of mass.

    Args:
      simulation: the articulation in its scene.

    Returns:
      The limit [m/s], ``inf`` for none, shape [].

    Examples:
      >>> from artix import physx
      >>> print(physx.get_max_com_linear_velocity(physx.create_simulation(artix.robots.load("quadruped"))))
      inf
    """
    return _limit(simulation.max_com_linear_velocity, simulation)


def set_max_com_linear_velocity(simulation: ArticulationSimulation, limit: float | Array) -> ArticulationSimulation:
    """``setMaxCOMLinearVelocity``, removed in PhysX 5.6: limits the speed of the whole articulation's centre of mass.

    After each step :func:`simulate` changes the velocity of a floating root, and all links move with it as one rigid
    body. A fixed base has no such limit.

    Args:
      simulation: the articulation in its scene.
      limit: the largest speed [m/s], shape []; ``inf`` for none.

    Returns:
      The simulation with this limit.

    Raises:
      ValueError: the limit is negative or NaN. A limit that is traced is not checked.

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
    """``getMaxCOMAngularVelocity``: the limit of the articulation's angular velocity as a whole.

    Args:
      simulation: the articulation in its scene.

    Returns:
      The limit [rad/s], ``inf`` for none, shape [].

    Examples:
      >>> from artix import physx
      >>> print(physx.get_max_com_angular_velocity(physx.create_simulation(artix.robots.load("quadruped"))))
      inf
    """
    return _limit(simulation.max_com_angular_velocity, simulation)


def set_max_com_angular_velocity(simulation: ArticulationSimulation, limit: float | Array) -> ArticulationSimulation:
    """``setMaxCOMAngularVelocity``, removed in PhysX 5.6: limits the articulation's angular velocity as a whole.

    This is its angular momentum divided by its inertia, both about the centre of mass of the whole articulation. After
    each step :func:`simulate` changes the velocity of a floating root, and all links move with it as one rigid body. A
    fixed base has no such limit.

    Args:
      simulation: the articulation in its scene.
      limit: the largest magnitude [rad/s], shape []; ``inf`` for none.

    Returns:
      The simulation with this limit.

    Raises:
      ValueError: the limit is negative or NaN. A limit that is traced is not checked.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> print(physx.get_max_com_angular_velocity(physx.set_max_com_angular_velocity(simulation, 5.0)))
      5.0
    """
    return simulation.replace(max_com_angular_velocity=_checked(limit, simulation))


def get_motion(articulation: AnyArticulation, joint: str, axis: Axis) -> ArticulationMotion:
    """``getMotion``: whether a joint moves along an axis, and whether that motion has a limit.

    Args:
      articulation: the articulation or its simulation; its limits must be concrete, not traced.
      joint: the joint's name.
      axis: an axis of the child joint frame.

    Returns:
      ``LOCKED`` if the joint does not move along the axis, ``LIMITED`` if it has a finite lower or upper limit there,
      else ``FREE``.

    Raises:
      KeyError: there is no such joint.

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
    parameters = _parameters(articulation)
    limits = parameters.joint_lower_limit[dof], parameters.joint_upper_limit[dof]
    return ArticulationMotion.LIMITED if np.any(np.isfinite(limits)) else ArticulationMotion.FREE


def get_drive_type(articulation: AnyArticulation, joint: str, axis: Axis) -> ArticulationDriveType:
    """The ``driveType`` of ``getDriveParams``: whether a drive sets a force or an acceleration.

    Args:
      articulation: the articulation or its simulation; its drives must be concrete, not traced.
      joint: the joint's name.
      axis: an axis of the child joint frame.

    Returns:
      ``NONE`` if the joint does not move along the axis or the drive has neither stiffness nor damping, else
      ``ACCELERATION`` or ``FORCE``.

    Raises:
      KeyError: there is no such joint.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> print(physx.get_drive_type(pole, "slide", artix.Axis.X).name)
      NONE
    """
    dof = _dof(articulation, joint, axis)
    drive = _parameters(articulation).drive
    if dof is None or not (drive.stiffness[dof] > 0 or drive.damping[dof] > 0):
        return ArticulationDriveType.NONE
    return ArticulationDriveType.ACCELERATION if drive.is_acceleration[dof] > 0 else ArticulationDriveType.FORCE


def _parameters(articulation: AnyArticulation) -> Articulation:
    return articulation.articulation if isinstance(articulation, ArticulationSimulation) else articulation


def _dof(articulation: AnyArticulation, joint: str, axis: Axis) -> int | None:
    """The DOF of a joint's axis; ``None`` if the axis is locked."""
    tree = articulation.topology
    dofs = tree.dofs(joint)
    free = tree.dof_axis[dofs].tolist()
    return dofs.start + free.index(int(axis)) if int(axis) in free else None


def _limit(limit: Array | None, simulation: ArticulationSimulation) -> Array:
    return jnp.asarray(jnp.inf, simulation.dtype) if limit is None else limit


def _checked(limit: float | Array, simulation: ArticulationSimulation) -> Array:
    if not isinstance(limit, jax.core.Tracer) and (math.isnan(limit) or limit < 0):
        raise ValueError(f"the limit must not be negative; found {limit}")
    return jnp.asarray(limit, simulation.dtype)
