"""Random initial states."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import artix
from artix.envs import random_numbers

Array = jax.Array


def standing(
    articulation: artix.Articulation, key: Array, joint_position: Array, height: float | Array, speed: float = 0.5
) -> artix.State:
    """A given pose with random position, heading and velocity, as in Playground's Go1.

    Args:
      articulation: the robot.
      key: a JAX random key.
      joint_position: the pose [rad], [n].
      height: height of the root [m].
      speed: largest value of each component of the root's velocity [m/s, rad/s].

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


@artix.quantity
def on_ground(articulation: artix.Articulation, state: artix.State, ground: artix.Ground, gap: float | Array) -> Array:
    """The height of the root at which the robot's closest contact point is ``gap`` above the ground, [] [m].

    On a slope, lowering the robot reduces a gap only by the cosine of the slope angle; this is taken into account.

    Args:
      articulation: the robot.
      state: its configuration; the height of the root is ignored.
      ground: what it stands on.
      gap: the distance [m].

    Examples:
      >>> from artix.envs import starts
      >>> robot, ground = artix.robots.load("quadruped"), artix.Ground.flat()
      >>> height = starts.on_ground(robot, artix.neutral_state(robot), ground, 0.01)
      >>> state = artix.neutral_state(robot)
      >>> state = state.replace(root_pose=state.root_pose.at[2].set(height))
      >>> print(artix.geometry_distances(artix.Scene(robot, ground=ground), state).min())
      0.01
    """
    contacts = artix.ground_contacts(artix.Scene(articulation, ground=ground), state).contacts
    return state.root_pose[2] + jnp.max((gap - contacts.gap) / contacts.normal[:, 2])
