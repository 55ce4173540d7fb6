"""Forces on links: gravity, loads, damping, and brakes beyond their speed limits."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math import spatial
from artix.model.articulation import Articulation
from artix.simulation.common.step_start import StepStart, spins

Array = jax.Array


def gravity_and_loads(articulation: Articulation, load: Array | None) -> Array:
    """Wrenches of gravity and of external loads on the links at their centres of mass, [L, 6]."""
    a = articulation
    linear = (a.link_mass * a.gravity_scale)[:, None] * a.gravity[None]
    weight = jnp.concatenate([linear, jnp.zeros_like(linear)], axis=1)
    return weight if load is None else weight + load


def link_resistance(
    articulation: Articulation, at_start: StepStart, motion: Array, wrench: Array, dt: Array
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
        taken.append(wrench[:, k : k + 3].T * (rate * dt)[None])
    return jnp.concatenate(taken).T, jnp.concatenate(brakes).T
