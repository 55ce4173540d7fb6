"""Puts an articulation to sleep and wakes it up; wake counters and thresholds."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.model.checks import as_number
from artix.physx.simulation import ArticulationSimulation
from artix.physx.solver import sleeping

Array = jax.Array


def is_sleeping(simulation: ArticulationSimulation) -> Array:
    """``isSleeping``: whether the wake counters of all links are zero.

    Args:
      simulation: the articulation in its scene.

    Returns:
      Boolean, shape [].

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> print(physx.is_sleeping(simulation), physx.is_sleeping(physx.put_to_sleep(simulation)))
      False True
    """
    return sleeping.is_sleeping(simulation.sleep)


def wake_up(simulation: ArticulationSimulation) -> ArticulationSimulation:
    """``wakeUp``: wakes the articulation.

    Args:
      simulation: the articulation in its scene.

    Returns:
      The simulation with the wake counters of all links at their reset value of 0.4 s.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.put_to_sleep(physx.create_simulation(artix.robots.load("cart_pole")))
      >>> print(physx.get_wake_counter(physx.wake_up(simulation)))  # [s]
      0.4
    """
    return simulation.replace(sleep=sleeping.wake_up(simulation.articulation))


def put_to_sleep(simulation: ArticulationSimulation) -> ArticulationSimulation:
    """``putToSleep``: stops the articulation and puts it to sleep.

    Args:
      simulation: the articulation in its scene.

    Returns:
      The simulation with velocities, joint forces, link forces and wake counters of zero; poses, joint positions and
      drive targets stay.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.put_to_sleep(physx.create_simulation(artix.robots.load("cart_pole")))
      >>> print(physx.simulate(simulation, 0.01).state.joint_velocity, physx.get_wake_counter(simulation))
      [0. 0.] 0.0
    """
    state, sleep = sleeping.put_to_sleep(simulation.articulation, simulation.state)
    return simulation.replace(
        state=state,
        sleep=sleep,
        joint_force=jnp.zeros_like(simulation.joint_force),
        external_force=jnp.zeros_like(simulation.external_force),
    )


def wake_if(simulation: ArticulationSimulation, condition: bool | Array) -> ArticulationSimulation:
    """PhysX's ``autowake``: where the condition holds, raises the wake counters to at least their reset value."""
    return simulation.replace(sleep=sleeping.woken_if(condition, simulation.sleep))


def get_wake_counter(simulation: ArticulationSimulation) -> Array:
    """``getWakeCounter``: how long the articulation stays awake without moving.

    Args:
      simulation: the articulation in its scene.

    Returns:
      The largest of the links' counters [s], shape [].

    Examples:
      >>> from artix import physx
      >>> print(physx.get_wake_counter(physx.create_simulation(artix.robots.load("cart_pole"))))  # [s]
      0.4
    """
    return jnp.max(simulation.sleep.wake_counter)


def set_wake_counter(simulation: ArticulationSimulation, wake_counter: float | Array) -> ArticulationSimulation:
    """``setWakeCounter`` of all links: a positive value wakes the articulation, zero lets it sleep at once.

    Args:
      simulation: the articulation in its scene.
      wake_counter: how long it stays awake without moving [s].

    Returns:
      The simulation with this counter for every link.

    Raises:
      ValueError: the number is negative or not finite. A number that is traced is not checked.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> print(physx.is_sleeping(physx.set_wake_counter(simulation, 0.0)))
      True
    """
    return simulation.replace(sleep=sleeping.wake_up(simulation.articulation, wake_counter))


def get_sleep_threshold(simulation: ArticulationSimulation) -> Array:
    """``getSleepThreshold``: the kinetic energy per mass below which links may fall asleep.

    Args:
      simulation: the articulation in its scene.

    Returns:
      The threshold [m^2/s^2], shape [].

    Examples:
      >>> from artix import physx
      >>> print(physx.get_sleep_threshold(physx.create_simulation(artix.robots.load("cart_pole"))))
      0.005
    """
    return simulation.sleep_threshold


def set_sleep_threshold(simulation: ArticulationSimulation, threshold: float | Array) -> ArticulationSimulation:
    """``setSleepThreshold``: sets the kinetic energy per mass below which links may fall asleep.

    Args:
      simulation: the articulation in its scene.
      threshold: compared as :func:`artix.simulation.step_with_sleep` describes [m^2/s^2]; zero keeps the articulation
        awake.

    Returns:
      The simulation with this threshold.

    Raises:
      ValueError: the number is negative or not finite. A number that is traced is not checked.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> print(physx.get_sleep_threshold(physx.set_sleep_threshold(simulation, 0.0)))  # never sleeps
      0.0
    """
    return simulation.replace(sleep_threshold=_threshold("sleep_threshold", threshold, simulation))


def get_stabilization_threshold(simulation: ArticulationSimulation) -> Array:
    """``getStabilizationThreshold``: the threshold of PhysX's stabilisation, which artix does not implement.

    Args:
      simulation: the articulation in its scene.

    Returns:
      Kinetic energy per mass [m^2/s^2], shape [].

    Examples:
      >>> from artix import physx
      >>> print(physx.get_stabilization_threshold(physx.create_simulation(artix.robots.load("cart_pole"))))
      0.001
    """
    return simulation.stabilization_threshold


def set_stabilization_threshold(simulation: ArticulationSimulation, threshold: float | Array) -> ArticulationSimulation:
    """``setStabilizationThreshold``: stored without effect, since artix does not implement stabilisation.

    Args:
      simulation: the articulation in its scene.
      threshold: kinetic energy per mass [m^2/s^2].

    Returns:
      The simulation with this threshold.

    Raises:
      ValueError: the number is negative or not finite. A number that is traced is not checked.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> print(physx.get_stabilization_threshold(physx.set_stabilization_threshold(simulation, 0.5)))
      0.5
    """
    return simulation.replace(stabilization_threshold=_threshold("stabilization_threshold", threshold, simulation))


def _threshold(name: str, value: float | Array, simulation: ArticulationSimulation) -> Array:
    return jnp.asarray(as_number(name, value, 0), simulation.dtype)
