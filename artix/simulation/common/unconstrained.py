"""Velocities after gravity, loads, damping and inertial forces, before any constraint acts."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math import spatial
from artix.model.articulation import Articulation, State
from artix.simulation.common.step_start import (
    StepStart,
    generalized_force,
    inertial_wrenches,
    link_motion,
    response,
    spins,
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


def link_resistance(
    articulation: Articulation, at_start: StepStart, motion: Array, given: Array, dt: Array
) -> tuple[Array, Array]:
    """Wrenches at the links' centres of mass, [L, 6] each: what damping takes away from the given ones, and brakes.

    Link damping also attenuates gravity and loads by ``1 - damping dt``, as in PhysX. A link beyond its speed limit
    is braked to it within the step.
    """
    a = articulation
    taken, brakes = [], []
    for k, damping, limit in (
        (0, a.link_linear_damping, a.max_link_linear_velocity),
        (3, a.link_angular_damping, a.max_link_angular_velocity),
    ):
        velocity = motion[:, k : k + 3].T
        momentum = spins(at_start, velocity) if k else at_start.mass[None] * velocity
        square = spatial.dot(velocity, velocity)
        fast = square > limit**2
        speed = jnp.sqrt(jnp.where(fast, square, 1))
        excess = jnp.where(fast, 1 - jnp.where(fast, limit, 1) / speed, 0)
        rate = jnp.where(damping > 0, jnp.minimum(damping, 1 / dt), 0)
        brakes.append(-momentum * (rate + excess / dt)[None])
        taken.append(given[:, k : k + 3].T * (rate * dt)[None])
    return jnp.concatenate(taken).T, jnp.concatenate(brakes).T


def gravity_and_loads(articulation: Articulation, load: Array | None) -> Array:
    """Wrenches of gravity and of external loads on the links at their centres of mass, [L, 6]."""
    a = articulation
    linear = (a.link_mass * a.gravity_scale)[:, None] * a.gravity[None]
    weight = jnp.concatenate([linear, jnp.zeros_like(linear)], axis=1)
    return weight if load is None else weight + load


def momenta_about_centers(at_start: StepStart, motion: Array) -> Array:
    """Linear and angular momenta [L, 6] of the links about their own centres of mass."""
    return jnp.concatenate([at_start.mass[:, None] * motion[:, :3], spins(at_start, motion[:, 3:].T).T], axis=1)


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
