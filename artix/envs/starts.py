"""Random states to start from."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import artix
from artix.envs import random_numbers

Array = jax.Array


def standing(
    articulation: artix.Articulation, key: Array, joint_position: Array, height: float | Array, speed: float = 0.5
) -> artix.State:
    """In a given pose, somewhere, turned anyhow about the vertical, slightly moving: Playground's Go1.

    Args:
      articulation: the robot.
      key: a JAX random key.
      joint_position: the pose [rad], [n].
      height: of the root [m].
      speed: largest of each component of the root's velocity [m/s, rad/s].

    Returns:
      A state whose x and y are within half a metre of the origin.
    """
    dtype = articulation.dtype
    uniform = 2 * random_numbers.uniform(key, 9, dtype) - 1
    half = 0.5 * jnp.pi * uniform[2]
    position = jnp.concatenate([0.5 * uniform[:2], jnp.asarray(height, dtype)[None]])
    turned = jnp.stack([jnp.zeros((), dtype), jnp.zeros((), dtype), jnp.sin(half), jnp.cos(half)])
    return artix.State(
        root_pose=jnp.concatenate([position, turned]),
        root_velocity=speed * uniform[3:],
        joint_position=jnp.asarray(joint_position, dtype),
        joint_velocity=jnp.zeros_like(joint_position),
    )
