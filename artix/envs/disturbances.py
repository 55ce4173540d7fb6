"""Disturbances: pushes."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs import random_numbers

Array = jax.Array


class Pushes(NamedTuple):
    """Pushes that change a robot's velocity instantly, at random times and in random horizontal
    directions.
    """

    speed: tuple[float, float] = (0.0, 1.0)
    """Bounds of the velocity change [m/s]; its magnitude is uniform between them."""
    mean_time: float = 7.0
    """Mean time between pushes [s]; intervals are exponentially distributed."""


def check_pushes(pushes: Pushes) -> None:
    """Refuses pushes that cannot be drawn.

    Raises:
      ValueError: the bounds of the speed are not two numbers, negative, reversed or not finite, or
        the mean time is not positive.
    """
    low, high = pushes.speed if np.shape(pushes.speed) == (2,) else (math.nan, math.nan)
    if not 0 <= low <= high < math.inf:
        raise ValueError(
            "pushes: expected bounds of the speed with 0 <= lower <= upper [m/s], found "
            f"{pushes.speed}"
        )
    if not pushes.mean_time > 0:
        raise ValueError(
            f"pushes: the mean time between pushes must be positive [s]; found {pushes.mean_time}"
        )


def draw_push(key: Array, pushes: Pushes, dt: float, dtype) -> Array:
    """Draws the change of the root's velocity in one control step, [3] [m/s]. It is zero in most
    steps.

    Args:
      key: a JAX random key.
      pushes: how pushes are drawn.
      dt: the control period [s].
      dtype: dtype of the result.

    Examples:
      >>> from artix.envs import disturbances
      >>> always = disturbances.Pushes(speed=(0.5, 0.5), mean_time=1e-9)
      >>> push = disturbances.draw_push(jax.random.key(0), always, 0.02, jnp.float32)
      >>> round(float(jnp.linalg.norm(push)), 3)
      0.5
    """
    uniform = random_numbers.uniform(key, 3, dtype)
    low, high = map(float, pushes.speed)
    speed = low + (high - low) * uniform[0]
    angle = 2 * jnp.pi * uniform[1]
    happens = uniform[2] < -jnp.expm1(jnp.asarray(-dt / pushes.mean_time, dtype))
    velocity = speed * jnp.stack([jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle)])
    return jnp.where(happens, velocity, 0)


def pushed(state: artix.State, velocity: Array) -> artix.State:
    """Adds a change [3] [m/s] in world axes to the root's velocity."""
    return state.replace(root_velocity=state.root_velocity.at[:3].add(velocity))
