"""Sleeping of an articulation as a whole: who wakes it and puts it to sleep, and the thresholds that it keeps."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from artix.physx.simulation import WAKE_COUNTER_RESET, ArticulationSimulation

Array = jax.Array


def is_sleeping(simulation: ArticulationSimulation) -> Array:
    """``isSleeping``: a boolean, shape []."""
    return simulation.is_asleep


def wake_up(simulation: ArticulationSimulation) -> ArticulationSimulation:
    """``wakeUp``: awake, with the wake counter at its reset value of 0.4 s."""
    return set_wake_counter(simulation, WAKE_COUNTER_RESET)


def put_to_sleep(simulation: ArticulationSimulation) -> ArticulationSimulation:
    """``putToSleep``: asleep, with all velocities, forces and the wake counter zero; targets and positions stay."""
    state = simulation.state
    return simulation.replace(
        state=state.replace(
            root_velocity=jnp.zeros_like(state.root_velocity), joint_velocity=jnp.zeros_like(state.joint_velocity)
        ),
        joint_force=jnp.zeros_like(simulation.joint_force),
        external_force=jnp.zeros_like(simulation.external_force),
        wake_counter=jnp.zeros_like(simulation.wake_counter),
        is_asleep=jnp.ones_like(simulation.is_asleep),
    )


def wake_if(simulation: ArticulationSimulation, condition: bool | Array) -> ArticulationSimulation:
    """What PhysX's ``autowake`` does where the condition holds: awake, the wake counter at least at its reset value."""
    counter = jnp.maximum(simulation.wake_counter, jnp.asarray(WAKE_COUNTER_RESET, simulation.dtype))
    return simulation.replace(
        wake_counter=jnp.where(condition, counter, simulation.wake_counter),
        is_asleep=jnp.where(condition, jnp.zeros_like(simulation.is_asleep), simulation.is_asleep),
    )


def get_wake_counter(simulation: ArticulationSimulation) -> Array:
    """``getWakeCounter`` [s], shape []."""
    return simulation.wake_counter


def set_wake_counter(simulation: ArticulationSimulation, wake_counter: float | Array) -> ArticulationSimulation:
    """``setWakeCounter`` [s]: a positive value wakes the articulation; zero leaves it as it is.

    Raises:
      ValueError: the value is negative or not finite.
    """
    counter = _checked("wake_counter", wake_counter, simulation)
    asleep = jnp.where(counter > 0, jnp.zeros_like(simulation.is_asleep), simulation.is_asleep)
    return simulation.replace(wake_counter=counter, is_asleep=asleep)


def get_sleep_threshold(simulation: ArticulationSimulation) -> Array:
    """``getSleepThreshold`` [m^2/s^2], shape []."""
    return simulation.sleep_threshold


def set_sleep_threshold(simulation: ArticulationSimulation, threshold: float | Array) -> ArticulationSimulation:
    """``setSleepThreshold``: mass-normalised kinetic energy [m^2/s^2]; raises ``ValueError`` for a negative one."""
    return simulation.replace(sleep_threshold=_checked("sleep_threshold", threshold, simulation))


def get_stabilization_threshold(simulation: ArticulationSimulation) -> Array:
    """``getStabilizationThreshold`` [m^2/s^2], shape []."""
    return simulation.stabilization_threshold


def set_stabilization_threshold(simulation: ArticulationSimulation, threshold: float | Array) -> ArticulationSimulation:
    """``setStabilizationThreshold`` [m^2/s^2], which artix keeps without effect: it has no stabilisation.

    Raises:
      ValueError: the value is negative or not finite.
    """
    return simulation.replace(stabilization_threshold=_checked("stabilization_threshold", threshold, simulation))


def _checked(name: str, value: float | Array, simulation: ArticulationSimulation) -> Array:
    """A number as an array [] of the articulation's dtype; traced ones are not looked at."""
    if not isinstance(value, jax.core.Tracer) and not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and not negative; found {value}")
    return jnp.broadcast_to(jnp.asarray(value, simulation.dtype), jnp.shape(simulation.wake_counter))
