"""Corrects the momentum of a floating articulation, which would otherwise drift because of discretisation."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math import spatial

Array = jax.Array


class Momentum(NamedTuple):
    """Linear momentum [3] and angular momentum about the centre of mass [3]."""

    linear: Array
    angular: Array


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


def turn_to_momentum(inertia: Array, angular: Array, target: Array, *, magnitude_only: bool) -> Array:
    """The angular velocity [3, 1] that changes the angular momentum of the rigid whole to a target.

    Args:
      inertia: total inertia about the centre of mass [kg m^2], [3, 3, 1].
      angular: current angular momentum about the centre of mass, [3, 1].
      target: the desired one, [3, 1].
      magnitude_only: whether to correct only the magnitude, as PhysX does.
    """
    wanted = _with_magnitude(angular, target) if magnitude_only else target
    return spatial.apply(spatial.inverse(inertia), wanted - angular)


def _with_magnitude(vector: Array, other: Array) -> Array:
    """A vector scaled to the length of another."""
    now, wanted = jnp.sum(vector**2), jnp.sum(other**2)
    both = (now > 0) & (wanted > 0)
    return vector * jnp.where(both, jnp.sqrt(jnp.where(both, wanted, 1) / jnp.where(both, now, 1)), 0)
