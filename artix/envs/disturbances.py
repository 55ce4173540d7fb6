"""Disturbances: sensor noise and pushes, drawn at random in every control step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs import random_numbers
from artix.model.checks import as_number

Array = jax.Array

#: Largest errors of sensors in Playground's Go1 task: joint positions [rad] and velocities [rad/s],
#: gyro [rad/s], projected gravity, linear velocity [m/s].
GO1_NOISE = {
    "joint_position": 0.03,
    "joint_velocity": 1.5,
    "gyro": 0.2,
    "gravity": 0.05,
    "linear_velocity": 0.1,
}


def as_noise_scales(scales: Mapping[str, float], known: Mapping[str, int]) -> dict[str, float]:
    """The scales as Python numbers; refuses noise on measurements that a task does not have.

    Raises:
      TypeError: they are no mapping, for instance one number.
      ValueError: a name is not among ``known``, or a scale is negative or not finite.
    """
    if not isinstance(scales, Mapping):
        raise TypeError(
            f"noise_scales must map {', '.join(known)} to their largest errors; found {scales!r}"
        )
    for name in scales:
        if name not in known:
            raise ValueError(
                f"no measurement called {name!r} to put noise on; choose from: {', '.join(known)}"
            )
    return {name: as_number(f"noise of {name}", scale, 0) for name, scale in scales.items()}


def draw_noise(
    key: Array, scales: Mapping[str, float], sizes: Mapping[str, int], dtype
) -> dict[str, Array]:
    """Uniform errors in [-scale, scale] of each measurement.

    Args:
      key: a JAX random key.
      scales: largest error of each measurement; zero where a name is missing.
      sizes: length of each measurement.
      dtype: dtype of the results.

    Returns:
      The errors of each measurement in ``sizes``, by name.

    Examples:
      >>> from artix.envs import disturbances
      >>> drawn = disturbances.draw_noise(
      ...     jax.random.key(0), {"gyro": 0.2}, {"gyro": 3}, jnp.float32
      ... )
      >>> bool(jnp.all(jnp.abs(drawn["gyro"]) <= 0.2))
      True
    """
    uniform = 2 * random_numbers.uniform(key, sum(sizes.values()), dtype) - 1
    parts, start = {}, 0
    for name, size in sizes.items():
        parts[name] = scales.get(name, 0.0) * uniform[start : start + size]
        start += size
    return parts


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
      TypeError: they are no :class:`Pushes`.
      ValueError: the bounds of the speed are not two numbers, negative, reversed or not finite, or
        the mean time is not positive.
    """
    if not isinstance(pushes, Pushes):
        raise TypeError(
            f"pushes: expected artix.envs.disturbances.Pushes or None; found {pushes!r}"
        )
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
