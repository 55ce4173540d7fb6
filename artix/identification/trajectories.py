"""Motions that make parameters visible: Fourier series within a robot's limits (Swevers et al.,
T-RO 1997).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from artix import Articulation, State, joint_torque_regressor, neutral_state
from artix.identification.estimation import movable_links
from artix.identification.log import Log

Array = jax.Array


def exciting_trajectory(
    robot: Articulation,
    duration: float = 20.0,
    *,
    harmonics: int = 5,
    period: float = 0.01,
    max_speed: float = 2.0,
    max_acceleration: float = 10.0,
    margin: float = 0.05,
    iterations: int = 50,
    seed: int = 0,
) -> Log:
    """A periodic motion from which a robot's inertias can be identified well.

    Each joint follows ``q_i(t) = q_i0 + sum_k a_ik sin(k w t) + b_ik cos(k w t)`` with
    ``w = 2 pi / duration``. Joints are scaled to stay within their limits; the coefficients
    maximise the determinant of the information ``Y^T Y`` of the inertial parameters (D-optimality).
    Check it for collisions, and start it from rest by a slow approach to its first sample.

    Args:
      robot: the robot, with limits and guessed inertias.
      duration: one period of the motion [s].
      harmonics: number of frequencies; the highest is ``harmonics / duration`` [Hz].
      period: time between samples [s].
      max_speed: the highest joint speed, if the robot's own limit is not lower [rad/s or m/s].
      max_acceleration: the highest joint acceleration [rad/s^2 or m/s^2].
      margin: part of the range of a joint that is left free at either end. Unlimited joints move
        within half a turn to either side, or 0.5 m.
      iterations: iterations of L-BFGS; 0 for a random series within the limits.
      seed: seed of the first coefficients.

    Returns:
      The motion, with velocities and accelerations.

    Raises:
      ValueError: a number is not positive, ``margin`` is not less than a half, or the robot cannot
        have a :class:`Log`.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> motion = artix.identification.exciting_trajectory(arm, duration=10.0, iterations=0)
      >>> print(motion.position.shape, bool((abs(motion.velocity) <= 2.0 + 1e-9).all()))
      (1000, 7) True
    """
    numbers = {"duration": duration, "harmonics": harmonics, "period": period}
    numbers |= {"max_speed": max_speed, "max_acceleration": max_acceleration}
    for name, value in numbers.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name}: expected a positive number; found {value!r}")
    if not 0 <= margin < 0.5:
        raise ValueError(f"margin: expected a share from 0 to less than 0.5; found {margin!r}")
    series = _Series(robot, duration, harmonics, max_speed, max_acceleration, margin)
    count = robot.topology.num_dofs
    start = (
        np.random.default_rng(seed).normal(size=(2, harmonics, count))
        / np.arange(1, harmonics + 1)[:, None]
    )
    time = np.arange(0, duration, period)
    coefficients = start
    if iterations:
        # Some ten samples of the fastest frequency show all that there is.
        coarse = np.linspace(0, duration, 20 * harmonics, endpoint=False)
        coefficients = _most_informative(robot, series, coarse, start, iterations)
    with jax.enable_x64(True):
        position, velocity, acceleration = (
            np.asarray(x) for x in series(jnp.asarray(time), jnp.asarray(coefficients))
        )
    return Log(robot, time, position, velocity, acceleration)


class _Series:
    """The motion of all joints for coefficients of any size, scaled to respect the limits."""

    def __init__(
        self,
        robot: Articulation,
        duration: float,
        harmonics: int,
        max_speed: float,
        max_acceleration: float,
        margin: float,
    ) -> None:
        unlimited = np.where(robot.topology.dof_is_linear, 0.5, np.pi)
        lower = np.asarray(robot.joint_lower_limit, float)
        upper = np.asarray(robot.joint_upper_limit, float)
        lower = np.where(
            lower > -1e4, lower, np.where(upper < 1e4, upper - 2 * unlimited, -unlimited)
        )
        upper = np.where(upper < 1e4, upper, lower + 2 * unlimited)
        self._middle = 0.5 * (lower + upper)
        self._reach = (0.5 - margin) * (upper - lower)
        self._speed = np.minimum(np.asarray(robot.max_joint_velocity, float), max_speed)
        self._acceleration = np.full(len(lower), max_acceleration)
        self._frequencies = 2 * np.pi / duration * np.arange(1, harmonics + 1)
        self._fine = np.linspace(0, duration, 40 * harmonics, endpoint=False)

    def __call__(self, time: Array, coefficients: Array) -> tuple[Array, Array, Array]:
        """Positions, velocities and accelerations at these times, [N, n] each."""
        highest = [
            jnp.abs(x).max(axis=0) for x in self._unscale(jnp.asarray(self._fine), coefficients)
        ]
        bounds = (self._reach, self._speed, self._acceleration)
        factors = jnp.stack(
            [jnp.asarray(bound) / high for bound, high in zip(bounds, highest, strict=True)]
        )
        # Between the samples that the largest values were taken from, a series is at most 1 %
        # larger.
        factor = 0.99 * factors.min(axis=0)
        position, velocity, acceleration = self._unscale(time, coefficients)
        return (
            jnp.asarray(self._middle) + factor * position,
            factor * velocity,
            factor * acceleration,
        )

    def _unscale(self, time: Array, coefficients: Array) -> tuple[Array, Array, Array]:
        frequencies = jnp.asarray(self._frequencies)
        phases = time[:, None] * frequencies
        sine, cosine = jnp.sin(phases), jnp.cos(phases)
        a, b = coefficients
        position = sine @ a + cosine @ b
        velocity = (frequencies * cosine) @ a - (frequencies * sine) @ b
        acceleration = -(frequencies**2 * sine) @ a - (frequencies**2 * cosine) @ b
        return position, velocity, acceleration


def _most_informative(
    robot: Articulation, series: _Series, time: np.ndarray, start: np.ndarray, iterations: int
) -> np.ndarray:
    topology = robot.topology
    chosen = [topology.link_index(link) for link in movable_links(robot)]
    columns = np.array([10 * link + k for link in chosen for k in range(10)], int)
    with jax.enable_x64(True):
        precise = robot.astype("float64")
        rest = neutral_state(precise)

        def rows(position: Array, velocity: Array, acceleration: Array) -> Array:
            state = State(rest.root_pose, rest.root_velocity, position, velocity)
            return joint_torque_regressor(precise, state, acceleration)[:, columns]

        def loss(flat: Array) -> Array:
            motion = series(jnp.asarray(time), flat.reshape(start.shape))
            table = jax.vmap(rows)(*motion).reshape(-1, len(columns))
            # Columns of the length that they had at first, so that units do not matter.
            table = table / jnp.asarray(lengths)
            information = table.T @ table / len(table)
            # The determinant of all parameters is zero; what is not determined adds a constant.
            return -jnp.linalg.slogdet(information + 1e-6 * jnp.eye(len(columns)))[1]

        motion = series(jnp.asarray(time), jnp.asarray(start))
        first = np.asarray(jax.jit(jax.vmap(rows))(*motion)).reshape(-1, len(columns))
        lengths = np.linalg.norm(first, axis=0) / np.sqrt(len(first))
        lengths = np.where(lengths > 1e-9, lengths, 1.0)
        value_and_slope = jax.jit(jax.value_and_grad(loss))
        solution = minimize(
            lambda flat: tuple(np.asarray(x, float) for x in value_and_slope(jnp.asarray(flat))),
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations},
        )
    return solution.x.reshape(start.shape)
