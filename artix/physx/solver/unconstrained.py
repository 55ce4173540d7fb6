"""Velocities after external and inertial forces, before any constraint acts, and the momentum that they keep."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.model.articulation import Articulation, State
from artix.simulation.common.momentum_end import Momentum, turn_to_momentum
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


def momentum_of(mass: Array, inertia: Array, center: Array, motion: Array) -> Momentum:
    """The momentum of links: masses [L], inertias [L, 3, 3], centres [L, 3] and velocities [L, 6]."""
    linear = jnp.sum(mass[:, None] * motion[:, :3], axis=0)
    total = jnp.sum(mass)
    arm = center - jnp.sum(mass[:, None] * center, axis=0)[None] / total
    relative = motion[:, :3] - linear[None] / total
    # Not a matrix product, because products of many small matrices are slow.
    spin = jnp.sum(inertia * motion[:, None, 3:], axis=2)
    return Momentum(linear, jnp.sum(spin + mass[:, None] * jnp.cross(arm, relative), axis=0))


def restore_momentum(
    mass: Array, inertia: Array, center: Array, motion: Array, target: Momentum, *, magnitude_only: bool
) -> Array:
    """Adds one rigid-body motion to all links so that they have a given momentum.

    Args:
      mass: masses of the links [kg], [L].
      inertia: inertias about their centres of mass in world axes [kg m^2], [L, 3, 3].
      center: centres of mass [m], [L, 3].
      motion: velocities of the links, [L, 6].
      target: the desired momentum.
      magnitude_only: whether to correct only the magnitude of the angular momentum, as PhysX does.

    Returns:
      The corrected velocities, [L, 6].
    """
    total = jnp.sum(mass)
    arm = center - jnp.sum(mass[:, None] * center, axis=0)[None] / total
    square = jnp.sum(arm**2, axis=1)[:, None, None] * jnp.eye(3, dtype=arm.dtype)[None]
    composite = jnp.sum(inertia + mass[:, None, None] * (square - arm[:, :, None] * arm[:, None, :]), axis=0)
    angular = momentum_of(mass, inertia, center, motion).angular
    turn = turn_to_momentum(
        composite[:, :, None], angular[:, None], target.angular[:, None], magnitude_only=magnitude_only
    )[:, 0]
    turned = motion + jnp.concatenate([jnp.cross(turn[None], arm), jnp.broadcast_to(turn[None], arm.shape)], axis=1)
    shift = (target.linear - jnp.sum(mass[:, None] * turned[:, :3], axis=0)) / total
    return turned + jnp.concatenate([shift, jnp.zeros_like(shift)])[None]
