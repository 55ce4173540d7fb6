"""Sensor noise."""

from __future__ import annotations

from collections.abc import Mapping

import jax

from artix.envs import random_numbers
from artix.model.checks import as_number

Array = jax.Array

#: Largest errors in Playground's Go1 task: joint positions [rad] and velocities [rad/s], gyro
#: [rad/s], projected gravity, linear velocity [m/s].
GO1 = {
    "joint_position": 0.03,
    "joint_velocity": 1.5,
    "gyro": 0.2,
    "gravity": 0.05,
    "linear_velocity": 0.1,
}


def as_scales(scales: Mapping[str, float], known: Mapping[str, int]) -> dict[str, float]:
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
      >>> from artix.envs import noise
      >>> drawn = noise.draw_noise(jax.random.key(0), {"gyro": 0.2}, {"gyro": 3}, jnp.float32)
      >>> bool(jnp.all(jnp.abs(drawn["gyro"]) <= 0.2))
      True
    """
    uniform = 2 * random_numbers.uniform(key, sum(sizes.values()), dtype) - 1
    parts, start = {}, 0
    for name, size in sizes.items():
        parts[name] = scales.get(name, 0.0) * uniform[start : start + size]
        start += size
    return parts
