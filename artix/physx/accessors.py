"""PhysX's setters of an articulation in a scene, and its getters with arguments.

Setters return a new simulation, which is the old one but for what they set. What PhysX's getters
without arguments return are properties of :class:`ArticulationSimulation`.
"""

from __future__ import annotations

import dataclasses
import operator

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.frames import frame_pose
from artix.math import spatial
from artix.math.arrays import check_finite
from artix.model.articulation import Articulation
from artix.model.checks import as_number, check_quaternion, check_vector
from artix.model.joints import Axis
from artix.physx.enums import (
    ArticulationDriveType,
    ArticulationFlag,
    ArticulationKinematicFlag,
    ArticulationMotion,
    flags_of,
    of_type,
)
from artix.physx.simulation import (
    AnyArticulation,
    ArticulationSimulation,
    check_alone,
    check_in_scene,
    wake_if,
)
from artix.physx.solver import sleeping
from artix.simulation.common.report import cleared

Array = jax.Array

_ALL_KINEMATICS = ArticulationKinematicFlag.POSITION | ArticulationKinematicFlag.VELOCITY


def set_articulation_flags(
    simulation: ArticulationSimulation, flags: ArticulationFlag
) -> ArticulationSimulation:
    """``setArticulationFlags``: all flags at once; they are static.

    ``FIX_BASE`` changes the topology and with it the shape of every generalised vector: create a
    new cache afterwards. With ``DISABLE_SELF_COLLISION``, :func:`simulate` ignores the pairs of
    shapes in ``topology.geometry_pairs``.

    Args:
      simulation: the articulation in its scene.
      flags: the flags to set; all others are cleared.

    Raises:
      TypeError: the flags are of another enumeration.
      ValueError: there is no such flag.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> flags = physx.ArticulationFlag.FIX_BASE | physx.ArticulationFlag.DRIVE_LIMITS_ARE_FORCES
      >>> print(physx.set_articulation_flags(simulation, flags).articulation_flags == flags)
      True
    """
    check_in_scene(simulation)
    topology, flags = simulation.topology, flags_of(ArticulationFlag, "flags", flags)
    fixed = ArticulationFlag.FIX_BASE in flags
    articulation = simulation.articulation
    if fixed != topology.fixed_base:
        articulation = articulation.replace(
            topology=dataclasses.replace(topology, fixed_base=fixed)
        )
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

    Raises:
      TypeError: the flag is of another enumeration.
      ValueError: there is no such flag.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> fixed = physx.set_articulation_flag(simulation, physx.ArticulationFlag.FIX_BASE, True)
      >>> print(simulation.topology.nv, fixed.topology.nv)
      18 12
    """
    check_in_scene(simulation)
    flags, flag = simulation.articulation_flags, flags_of(ArticulationFlag, "flag", flag)
    return set_articulation_flags(simulation, flags | flag if value else flags & ~flag)


def set_solver_iteration_counts(
    simulation: ArticulationSimulation, position_iterations: int, velocity_iterations: int = 1
) -> ArticulationSimulation:
    """``setSolverIterationCounts``: the counts are static, so :func:`simulate` is compiled anew for
    each pair of them.

    Args:
      simulation: the articulation in its scene.
      position_iterations: sweeps over all rows before positions move, 1 to 255.
      velocity_iterations: sweeps after that, which change only velocities, 0 to 255.

    Raises:
      ValueError: a count is out of range.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> print(physx.set_solver_iteration_counts(simulation, 8, 2).solver_iteration_counts)
      (8, 2)
    """
    check_in_scene(simulation)
    if max(position_iterations, velocity_iterations) > 255:
        raise ValueError(
            f"PhysX allows at most 255 iterations; found {position_iterations} and "
            f"{velocity_iterations}; simulation.replace(options=...) has no such limit"
        )
    options = dataclasses.replace(
        simulation.options,
        position_iterations=position_iterations,
        velocity_iterations=velocity_iterations,
    )
    return simulation.replace(options=options)


def set_max_com_linear_velocity(
    simulation: ArticulationSimulation, limit: float | Array
) -> ArticulationSimulation:
    """``setMaxCOMLinearVelocity``, removed in PhysX 5.6: limits the speed of the whole
    articulation's centre of mass.

    After each step :func:`simulate` changes the velocity of a floating root, and all links move
    with it as one rigid body. A fixed base has no such limit.

    Args:
      simulation: the articulation in its scene.
      limit: the largest speed [m/s], shape []; ``inf`` for none.

    Raises:
      ValueError: the limit is not one number, negative or NaN. A limit that is traced is not
        checked; or the simulation is a batch.

    Examples:
      >>> from artix import physx
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.1, 0.1, 0.1))
      >>> simulation = physx.set_max_com_linear_velocity(
      ...     physx.create_simulation(builder.build()), 0.5
      ... )
      >>> # no faster, though it falls
      >>> print(physx.simulate(simulation, 0.1).root_linear_velocity[2])
      -0.5
    """
    return simulation.replace(max_com_linear_velocity=_check_limit(limit, simulation))


def set_max_com_angular_velocity(
    simulation: ArticulationSimulation, limit: float | Array
) -> ArticulationSimulation:
    """``setMaxCOMAngularVelocity``, removed in PhysX 5.6: limits the articulation's angular
    velocity as a whole.

    This is its angular momentum divided by its inertia, both about the centre of mass of the whole
    articulation. After each step :func:`simulate` changes the velocity of a floating root, and all
    links move with it as one rigid body. A fixed base has no such limit.

    Args:
      simulation: the articulation in its scene.
      limit: the largest magnitude [rad/s], shape []; ``inf`` for none.

    Raises:
      ValueError: the limit is not one number, negative or NaN. A limit that is traced is not
        checked; or the simulation is a batch.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> print(physx.set_max_com_angular_velocity(simulation, 5.0).com_angular_velocity_limit)
      5.0
    """
    return simulation.replace(max_com_angular_velocity=_check_limit(limit, simulation))


def _check_limit(limit: float | Array, simulation: ArticulationSimulation) -> Array:
    check_alone(simulation)
    infinite = not isinstance(limit, jax.core.Tracer) and np.array_equal(limit, np.inf)
    number = np.inf if infinite else as_number("limit", limit, 0)
    return jnp.asarray(number, simulation.dtype)


def wake_up(simulation: ArticulationSimulation) -> ArticulationSimulation:
    """``wakeUp``: wakes the articulation.

    Args:
      simulation: the articulation in its scene.

    Returns:
      The simulation with the wake counters of all links at their reset value of 0.4 s.

    Raises:
      TypeError: ``simulation`` is not an :class:`ArticulationSimulation`.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.put_to_sleep(physx.create_simulation(artix.robots.load("cart_pole")))
      >>> print(physx.wake_up(simulation).wake_counter)  # [s]
      0.4
    """
    check_in_scene(simulation)
    return simulation.replace(sleep=sleeping.wake_up(simulation.articulation))


def put_to_sleep(simulation: ArticulationSimulation) -> ArticulationSimulation:
    """``putToSleep``: stops the articulation and puts it to sleep.

    Args:
      simulation: the articulation in its scene.

    Returns:
      The simulation with velocities, joint forces, link forces and wake counters of zero; poses,
      joint positions and drive targets stay.

    Raises:
      TypeError: ``simulation`` is not an :class:`ArticulationSimulation`.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.put_to_sleep(physx.create_simulation(artix.robots.load("cart_pole")))
      >>> print(physx.simulate(simulation, 0.01).state.joint_velocity, simulation.wake_counter)
      [0. 0.] 0.0
    """
    check_in_scene(simulation)
    state, sleep = sleeping.put_to_sleep(simulation.articulation, simulation.state)
    return simulation.replace(
        state=state,
        sleep=sleep,
        joint_force=jnp.zeros_like(simulation.joint_force),
        external_force=jnp.zeros_like(simulation.external_force),
    )


def set_wake_counter(
    simulation: ArticulationSimulation, wake_counter: float | Array
) -> ArticulationSimulation:
    """``setWakeCounter`` of all links: a positive value wakes the articulation, zero lets it sleep
    at once.

    Args:
      simulation: the articulation in its scene.
      wake_counter: how long it stays awake without moving [s].

    Raises:
      ValueError: the number is negative or not finite. A number that is traced is not checked.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> print(physx.set_wake_counter(simulation, 0.0).is_sleeping)
      True
    """
    check_in_scene(simulation)
    return simulation.replace(sleep=sleeping.wake_up(simulation.articulation, wake_counter))


def set_sleep_threshold(
    simulation: ArticulationSimulation, threshold: float | Array
) -> ArticulationSimulation:
    """``setSleepThreshold``: sets the kinetic energy per mass below which links may fall asleep.

    Args:
      simulation: the articulation in its scene.
      threshold: compared as :func:`artix.step_with_sleep` describes [m^2/s^2]; zero keeps the
        articulation awake.

    Raises:
      ValueError: the number is negative or not finite. A number that is traced is not checked.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> print(physx.set_sleep_threshold(simulation, 0.0).sleep_threshold)  # never sleeps
      0.0
    """
    check_alone(simulation)
    return simulation.replace(
        sleep_threshold=jnp.asarray(as_number("sleep_threshold", threshold, 0), simulation.dtype)
    )


def set_root_global_pose(
    simulation: ArticulationSimulation, pose: Array, *, autowake: bool | Array = True
) -> ArticulationSimulation:
    """``setRootGlobalPose``: moves the root link's frame, and all links with it; velocities stay.

    Args:
      simulation: the articulation in its scene.
      pose: world pose of the frame, position [m] and unit quaternion xyzw, shape [7].
      autowake: whether to wake the articulation.

    Raises:
      ValueError: the pose is known and has a quaternion not of length 1 or a number that is not
        finite, or the simulation is a batch.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> raised = physx.set_root_global_pose(
      ...     simulation, jnp.array([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0])
      ... )
      >>> print(raised.state.root_pose[:3])
      [0.  0.  0.5]
    """
    check_alone(simulation)
    check_vector("pose", pose, (7,), simulation.dtype, "position, quaternion xyzw")
    check_quaternion("pose", pose)
    check_finite("pose", pose)
    return wake_if(simulation.replace(state=simulation.state.replace(root_pose=pose)), autowake)


def set_root_linear_velocity(
    simulation: ArticulationSimulation, velocity: Array, *, autowake: bool | Array = True
) -> ArticulationSimulation:
    """``setRootLinearVelocity``: sets the velocity of the root link's centre of mass.

    A fixed base stores the velocity and does not move; in PhysX its links' velocities follow until
    the next step.

    Args:
      simulation: the articulation in its scene.
      velocity: of the centre of mass, world axes [m/s], shape [3].
      autowake: whether to wake the articulation; a velocity other than zero wakes it in any case.

    Raises:
      ValueError: the velocity is known and has a number that is not finite, or another shape, or
        the simulation is a batch.
      TypeError: the velocity has another dtype than the articulation.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> gliding = physx.set_root_linear_velocity(simulation, jnp.array([0.5, 0.0, 0.0]))
      >>> print(gliding.state.root_velocity)
      [0.5 0.  0.  0.  0.  0. ]
    """
    check_alone(simulation)
    return _set_root_velocity(
        simulation, velocity, simulation.state.root_velocity[3:], velocity, autowake
    )


def set_root_angular_velocity(
    simulation: ArticulationSimulation, velocity: Array, *, autowake: bool | Array = True
) -> ArticulationSimulation:
    """``setRootAngularVelocity``: sets the angular velocity of the root link.

    The velocity of the root link's centre of mass stays. A fixed base does not move; see
    :func:`set_root_linear_velocity`.

    Args:
      simulation: the articulation in its scene.
      velocity: world axes [rad/s], shape [3].
      autowake: whether to wake the articulation; a velocity other than zero wakes it in any case.

    Raises:
      ValueError: the velocity is known and has a number that is not finite, or another shape, or
        the simulation is a batch.
      TypeError: the velocity has another dtype than the articulation.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> turning = physx.set_root_angular_velocity(simulation, jnp.array([0.0, 0.0, 1.0]))
      >>> print(turning.state.root_velocity)
      [0. 0. 0. 0. 0. 1.]
    """
    check_alone(simulation)
    return _set_root_velocity(
        simulation, simulation.state.root_velocity[:3], velocity, velocity, autowake
    )


def _set_root_velocity(
    simulation: ArticulationSimulation,
    linear: Array,
    angular: Array,
    velocity: Array,
    autowake: bool | Array,
) -> ArticulationSimulation:
    check_vector("velocity", velocity, (3,), simulation.dtype, "world axes")
    check_finite("velocity", velocity)
    moved = simulation.replace(
        state=simulation.state.replace(root_velocity=jnp.concatenate([linear, angular]))
    )
    return wake_if(moved, jnp.any(velocity != 0) | jnp.asarray(autowake))


def update_kinematic(
    simulation: ArticulationSimulation, flags: ArticulationKinematicFlag = _ALL_KINEMATICS
) -> ArticulationSimulation:
    """``updateKinematic``: clears the last step's results; link poses and velocities always follow
    from the state.

    Like PhysX's ``eUPDATE_KINEMATIC`` on a GPU, it zeroes the accelerations and incoming joint
    forces of the last step, which do not belong to the new state.

    Args:
      simulation: the articulation in its scene.
      flags: which parts of the state have changed; makes no difference.

    Returns:
      The simulation with a report of zeros, as before its first step.

    Raises:
      TypeError: the flags are of another enumeration.
      ValueError: there is no such flag.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> simulation = physx.create_simulation(pole).replace(joint_force=jnp.array([12.0, 0.0]))
      >>> simulation = physx.update_kinematic(physx.simulate(simulation, 0.01))
      >>> print(physx.get_link_acceleration(simulation, 1))  # the last step's is gone
      [0. 0. 0. 0. 0. 0.]
    """
    check_in_scene(simulation)
    flags_of(ArticulationKinematicFlag, "flags", flags)
    return simulation.replace(report=cleared(simulation.report))


def get_links(articulation: AnyArticulation) -> tuple[int, ...]:
    """``getLinks``: the indices of the links in the order of their creation.

    Every array is in the order of these indices (PhysX's low-level index, breadth-first), not in
    the order of creation; ``topology.link_names`` has the names.

    Args:
      articulation: the articulation or its simulation.

    Returns:
      The L indices.

    Examples:
      >>> from artix import physx
      >>> print(physx.get_links(artix.robots.load("cart_pole")))
      (0, 1, 2)
    """
    tree = articulation.topology
    return tuple(sorted(range(tree.num_links), key=tree.creation_index.__getitem__))


def get_link_acceleration(simulation: ArticulationSimulation, link: int | Array) -> Array:
    """``getLinkAcceleration``: acceleration of one link in the last step, zero before the first.

    Args:
      simulation: the articulation in its scene.
      link: the link's index, not its position in the order of creation.

    Returns:
      Mean classical acceleration of its centre of mass [m/s^2], then angular [rad/s^2], world axes,
      shape [6].

    Raises:
      IndexError: there is no such link. An index that is traced is not checked.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> simulation = physx.create_simulation(pole).replace(joint_force=jnp.array([12.0, 0.0]))
      >>> cart = pole.topology.link_index("cart")
      >>> # along x [m/s^2]
      >>> print(physx.get_link_acceleration(physx.simulate(simulation, 0.01), cart)[0])
      11.428
    """
    check_alone(simulation)
    count = simulation.topology.num_links
    if not isinstance(link, jax.core.Tracer) and not 0 <= operator.index(link) < count:
        raise IndexError(f"link {link} does not exist; links are numbered 0 to {count - 1}")
    return simulation.report.link_acceleration[link]


def get_motion(articulation: AnyArticulation, joint: str, axis: Axis) -> ArticulationMotion:
    """``getMotion``: whether a joint moves along an axis, and whether that motion has a limit.

    Args:
      articulation: the articulation or its simulation; its limits must be concrete, not traced.
      joint: the joint's name.
      axis: an axis of the child joint frame.

    Returns:
      ``LOCKED`` if the joint does not move along the axis, ``LIMITED`` if it has a finite lower or
      upper limit there, else ``FREE``.

    Raises:
      KeyError: there is no such joint.
      ValueError: there is no such axis.

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
      ``NONE`` if the joint does not move along the axis or the drive has neither stiffness nor
      damping, else ``ACCELERATION`` or ``FORCE``.

    Raises:
      KeyError: there is no such joint.
      ValueError: there is no such axis.

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
    return (
        ArticulationDriveType.ACCELERATION
        if drive.is_acceleration[dof] > 0
        else ArticulationDriveType.FORCE
    )


def _parameters(articulation: AnyArticulation) -> Articulation:
    return (
        articulation.articulation
        if isinstance(articulation, ArticulationSimulation)
        else articulation
    )


def _dof(articulation: AnyArticulation, joint: str, axis: Axis) -> int | None:
    """The DOF of a joint's axis; ``None`` if the axis is locked."""
    tree = articulation.topology
    dofs = tree.dofs(joint)
    free = tree.dof_axis[dofs].tolist()
    axis = of_type(Axis, "axis", axis)
    return dofs.start + free.index(axis) if axis in free else None


def get_world_bounds(
    simulation: ArticulationSimulation, link_bounds: Array, *, inflation: float = 1.01
) -> Array:
    """``getWorldBounds``: an axis-aligned box around boxes attached to the links.

    Args:
      simulation: the articulation in its scene.
      link_bounds: lower and upper corner of a box around each link in its own frame [m], shape
        [L, 2, 3]; a link whose lower corner exceeds its upper one is ignored.
      inflation: factor on the size of the result about its centre; PhysX's is 1.01.

    Returns:
      Lower and upper corner in the world [m], shape [2, 3]; infinite, lower above upper, if all
      links are ignored.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> boxes = jnp.array([[[-0.1, -0.1, -0.1], [0.1, 0.1, 0.1]]] * 3)  # around each link
      >>> print(physx.get_world_bounds(physx.create_simulation(pole), boxes, inflation=1.0))
      [[-0.1 -0.1 -0.1]
       [ 0.1  0.1  0.2]]
    """
    check_vector(
        "link_bounds",
        link_bounds,
        (simulation.topology.num_links, 2, 3),
        simulation.dtype,
        "L boxes",
    )
    poses = frame_pose(simulation.articulation, simulation.state).T
    rotation = spatial.rotation_matrix(poses[3:])
    lower, upper = link_bounds[:, 0].T, link_bounds[:, 1].T
    center = poses[:3] + spatial.apply(rotation, (lower + upper) / 2)
    half_size = spatial.apply(jnp.abs(rotation), (upper - lower) / 2)
    counts = jnp.all(lower <= upper, axis=0)[None]
    lowest = jnp.min(jnp.where(counts, center - half_size, jnp.inf), axis=1)
    highest = jnp.max(jnp.where(counts, center + half_size, -jnp.inf), axis=1)
    margin = jnp.where(lowest <= highest, (inflation - 1) * (highest - lowest) / 2, 0)
    return jnp.stack([lowest - margin, highest + margin])
