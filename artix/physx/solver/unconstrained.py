"""Velocities after external and inertial forces, before any constraint acts."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.model.articulation import Articulation, State
from artix.simulation.common.step_start import (
    StepStart,
    generalized_force,
    inertial_wrenches,
    link_motion,
    response,
)

Array = jax.Array


class Unconstrained(NamedTuple):
    """Velocities after external and inertial forces, before constraints act."""

    acceleration: Array
    """Generalised acceleration, [nv]."""
    velocity: Array
    """Generalised velocity, [nv]."""
    motion: Array
    """Velocities of the links' centres of mass, [L, 6]; because of velocity products they differ from J velocity."""
    loaded_motion: Array
    """Velocities of the links if only the external forces had acted, [L, 6]."""


def clamp_joint_velocities(articulation: Articulation, state: State) -> State:
    """Scales all joint velocities by a common factor so that none exceeds its limit."""
    speed, limit = jnp.abs(state.joint_velocity), articulation.max_joint_velocity
    fast = speed > limit
    ratio = jnp.where(fast, limit, 1) / jnp.where(fast, speed, 1)
    return state.replace(joint_velocity=state.joint_velocity * jnp.min(ratio, initial=1))


def unconstrained_velocities(
    at_start: StepStart, velocity: Array, wrench: Array, joint_force: Array, dt: Array
) -> Unconstrained:
    """Advances velocities by external wrenches [L, 6], generalised forces of the joints [nv] and velocity products."""
    loaded = response(at_start, generalized_force(at_start, wrench))
    motion = link_motion(at_start, velocity)
    turning = inertial_wrenches(at_start, motion, at_start.velocity_product)
    acceleration = loaded + response(at_start, joint_force - generalized_force(at_start, turning))
    return Unconstrained(
        acceleration=acceleration,
        velocity=velocity + dt * acceleration,
        motion=motion + dt * (link_motion(at_start, acceleration) + at_start.velocity_product),
        loaded_motion=motion + dt * link_motion(at_start, loaded),
    )
