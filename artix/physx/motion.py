"""Root and link accessors of ``PxArticulationReducedCoordinate``, and ``updateKinematic``."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.model.checks import check_quaternion, check_vector
from artix.physx.enums import ArticulationKinematicFlag
from artix.physx.simulation import AnyArticulation, ArticulationSimulation
from artix.physx.sleeping import wake_if

Array = jax.Array

_ALL_KINEMATICS = ArticulationKinematicFlag.POSITION | ArticulationKinematicFlag.VELOCITY


def get_links(articulation: AnyArticulation) -> tuple[int, ...]:
    """``getLinks``: the indices of the links in the order of their creation.

    Every array is in the order of these indices (PhysX's low-level index, breadth-first), not in the order of creation;
    ``topology.link_names`` has the names.

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


def get_root_global_pose(simulation: ArticulationSimulation) -> Array:
    """``getRootGlobalPose``: where the root link's frame is.

    Args:
      simulation: the articulation in its scene.

    Returns:
      World pose of the frame, position [m] and quaternion xyzw, shape [7].

    Examples:
      >>> from artix import physx
      >>> print(physx.get_root_global_pose(physx.create_simulation(artix.robots.load("quadruped"))))
      [0. 0. 0. 0. 0. 0. 1.]
    """
    return simulation.state.root_pose


def set_root_global_pose(
    simulation: ArticulationSimulation, pose: Array, *, autowake: bool | Array = True
) -> ArticulationSimulation:
    """``setRootGlobalPose``: moves the root link's frame, and all links with it; velocities stay.

    Args:
      simulation: the articulation in its scene.
      pose: world pose of the frame, position [m] and unit quaternion xyzw, shape [7].
      autowake: whether to wake the articulation.

    Returns:
      The simulation with the root at this pose.

    Raises:
      ValueError: the pose has the wrong shape, or is known and has a quaternion not of length 1.
      TypeError: it has another dtype than the articulation.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> raised = physx.set_root_global_pose(simulation, jnp.array([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0]))
      >>> print(raised.state.root_pose[:3])
      [0.  0.  0.5]
    """
    check_vector("pose", pose, (7,), simulation.dtype, "position, quaternion xyzw")
    check_quaternion("pose", pose)
    return wake_if(simulation.replace(state=simulation.state.replace(root_pose=pose)), autowake)


def get_root_linear_velocity(simulation: ArticulationSimulation) -> Array:
    """``getRootLinearVelocity``: the velocity of the root link's centre of mass.

    Args:
      simulation: the articulation in its scene.

    Returns:
      World axes [m/s], shape [3].

    Examples:
      >>> from artix import physx
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.1, 0.1, 0.1))
      >>> falling = physx.simulate(physx.create_simulation(builder.build()), 0.1)
      >>> print(physx.get_root_linear_velocity(falling)[2])  # 9.81 m/s^2 for 0.1 s
      -0.981
    """
    return simulation.state.root_velocity[:3]


def set_root_linear_velocity(
    simulation: ArticulationSimulation, velocity: Array, *, autowake: bool | Array = True
) -> ArticulationSimulation:
    """``setRootLinearVelocity``: sets the velocity of the root link's centre of mass.

    A fixed base stores the velocity and does not move; in PhysX its links' velocities follow until the next step.

    Args:
      simulation: the articulation in its scene.
      velocity: of the centre of mass, world axes [m/s], shape [3].
      autowake: whether to wake the articulation; a velocity other than zero wakes it in any case.

    Returns:
      The simulation with this velocity.

    Raises:
      ValueError: the velocity has the wrong shape.
      TypeError: it has another dtype than the articulation.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> gliding = physx.set_root_linear_velocity(simulation, jnp.array([0.5, 0.0, 0.0]))
      >>> print(gliding.state.root_velocity)
      [0.5 0.  0.  0.  0.  0. ]
    """
    return _set_root_velocity(simulation, velocity, simulation.state.root_velocity[3:], velocity, autowake)


def get_root_angular_velocity(simulation: ArticulationSimulation) -> Array:
    """``getRootAngularVelocity``: the angular velocity of the root link.

    Args:
      simulation: the articulation in its scene.

    Returns:
      World axes [rad/s], shape [3].

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> turning = physx.set_root_angular_velocity(simulation, jnp.array([0.0, 0.0, 1.0]))
      >>> print(physx.get_root_angular_velocity(turning))
      [0. 0. 1.]
    """
    return simulation.state.root_velocity[3:]


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

    Returns:
      The simulation with this velocity.

    Raises:
      ValueError: the velocity has the wrong shape.
      TypeError: it has another dtype than the articulation.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("quadruped"))
      >>> turning = physx.set_root_angular_velocity(simulation, jnp.array([0.0, 0.0, 1.0]))
      >>> print(turning.state.root_velocity)
      [0. 0. 0. 0. 0. 1.]
    """
    return _set_root_velocity(simulation, simulation.state.root_velocity[:3], velocity, velocity, autowake)


def get_link_acceleration(simulation: ArticulationSimulation, link: int | Array) -> Array:
    """``getLinkAcceleration``: acceleration of one link in the last step, zero before the first.

    Args:
      simulation: the articulation in its scene.
      link: the link's index, not its position in the order of creation.

    Returns:
      Mean classical acceleration of its centre of mass [m/s^2], then angular [rad/s^2], world axes, shape [6].

    Raises:
      IndexError: there is no such link. An index that is traced is not checked.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> simulation = physx.create_simulation(pole).replace(joint_force=jnp.array([12.0, 0.0]))
      >>> cart = pole.topology.link_index("cart")
      >>> print(physx.get_link_acceleration(physx.simulate(simulation, 0.01), cart)[0])  # along x [m/s^2]
      11.428
    """
    count = simulation.topology.num_links
    if not isinstance(link, jax.core.Tracer) and not 0 <= int(link) < count:
        raise IndexError(f"link {link} does not exist; links are numbered 0 to {count - 1}")
    return simulation.report.link_acceleration[link]


def update_kinematic(
    simulation: ArticulationSimulation, flags: ArticulationKinematicFlag = _ALL_KINEMATICS
) -> ArticulationSimulation:
    """``updateKinematic``: clears the last step's results; link poses and velocities always follow from the state.

    Like PhysX's ``eUPDATE_KINEMATIC`` on a GPU, it zeroes the accelerations and incoming joint forces of the last step,
    which do not belong to the new state.

    Args:
      simulation: the articulation in its scene.
      flags: which parts of the state have changed; makes no difference.

    Returns:
      The simulation with a report of zeros, as before its first step.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> simulation = physx.create_simulation(pole).replace(joint_force=jnp.array([12.0, 0.0]))
      >>> simulation = physx.update_kinematic(physx.simulate(simulation, 0.01))
      >>> print(physx.get_link_acceleration(simulation, 1))  # that of the last step is gone
      [0. 0. 0. 0. 0. 0.]
    """
    ArticulationKinematicFlag(flags)
    return simulation.replace(report=jax.tree.map(jnp.zeros_like, simulation.report))


def _set_root_velocity(
    simulation: ArticulationSimulation, linear: Array, angular: Array, given: Array, autowake: bool | Array
) -> ArticulationSimulation:
    check_vector("velocity", given, (3,), simulation.dtype, "world axes")
    moved = simulation.replace(state=simulation.state.replace(root_velocity=jnp.concatenate([linear, angular])))
    return wake_if(moved, jnp.any(given != 0) | jnp.asarray(autowake))
