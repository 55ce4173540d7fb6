"""Identification of a robot's inertias from measured torques.

The torques are linear in the dynamic parameters of the links: ``tau = Y pi``, where Y is
:func:`artix.joint_torque_regressor`. One QR factorisation reduces all samples to a triangle R with
10 L columns, such that ``|Y pi - tau|^2 = |R pi - z|^2 + const``. The samples are not needed after
that. Not every pi describes physical bodies, but every choice of log-Cholesky parameters does. The
Levenberg-Marquardt method therefore solves the least-squares problem in these parameters.

Joint torques do not determine every parameter; for example, they do not depend on a mass on a
vertical first axis. Such parameters stay near the guess. The method recovers the *base parameters*,
which are the combinations of pi that affect the torques, and so it predicts every torque. Single
precision cannot separate base parameters from the others, so use double precision.

``python -m artix.examples.identification`` identifies the seven-axis arm from 4,000 noisy samples.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

import artix
from artix.identification.estimation import movable_links

Array = jax.Array


class Measurements(NamedTuple):
    """N samples of a robot's motion and torques."""

    states: artix.State
    """The states; every array has a leading axis [N]."""
    acceleration: Array
    """Generalised accelerations, [N, nv] [m/s^2, rad/s^2]."""
    force: Array
    """Measured generalised forces, without the part that accelerates the armature, [N, nv]
    [N, N m]."""


class Evidence(NamedTuple):
    """The measurements reduced to ``R pi = z``, to be solved for the dynamic parameters pi by least
    squares.
    """

    triangle: Array
    """R, [10 L, 10 L]."""
    target: Array
    """z, [10 L]."""


def simulate_measurements(
    robot: artix.Articulation, key: Array, count: int, noise: float
) -> Measurements:
    """Simulates random motions of a robot and its torques with Gaussian noise.

    Args:
      robot: the robot, with its true inertias.
      key: a random key.
      count: the number N of samples.
      noise: standard deviation of the noise [N m].
    """
    keys = jax.random.split(key, 4)
    states = jax.vmap(lambda k: artix.random_state(robot, k))(jax.random.split(keys[0], count))
    shape, dtype = (count, robot.topology.nv), robot.dtype
    velocity = jax.random.normal(keys[1], (count, robot.topology.num_dofs), dtype)
    states = states.replace(joint_velocity=2 * velocity)
    acceleration = 5 * jax.random.normal(keys[2], shape, dtype)

    force = _torques(robot, states, acceleration)
    return Measurements(
        states, acceleration, force + noise * jax.random.normal(keys[3], shape, dtype)
    )


def gather_evidence(robot: artix.Articulation, measured: Measurements) -> Evidence:
    """Reduces all measurements by one QR factorisation. The inertias of ``robot`` do not matter.

    Raises:
      TypeError: the arrays of the robot are not in double precision.
    """
    if robot.dtype != jnp.float64:
        raise TypeError(
            f"identification needs float64, found {robot.dtype}: enable JAX's x64 mode and use "
            "robot.astype('float64')"
        )
    regressor = jax.vmap(lambda s, acc: artix.joint_torque_regressor(robot, s, acc))
    rows = regressor(measured.states, measured.acceleration)
    width = rows.shape[-1]
    stacked = jnp.concatenate([rows.reshape(-1, width), measured.force.reshape(-1, 1)], axis=1)
    triangle = jnp.linalg.qr(stacked, mode="r")
    return Evidence(triangle[:width, :width], triangle[:width, width])


def identify(
    guess: artix.Articulation, evidence: Evidence, links: list[str], iterations: int = 60
) -> artix.Articulation:
    """Finds the link inertias that explain the measurements best, starting from a guess.

    Args:
      guess: the robot with estimated inertias.
      evidence: from :func:`gather_evidence`.
      links: names of the links to identify. The guess for each must have mass and extent in every
        direction.
      iterations: the number of Levenberg-Marquardt steps.

    Returns:
      The robot with new, physically consistent ``link_mass``, ``link_com_pose`` and
      ``link_inertia`` of these links. Everything else is as in the guess.
    """
    start = artix.log_cholesky_from_articulation(guess, links)

    def residual(theta: Array) -> Array:
        robot = artix.with_log_cholesky(guess, theta.reshape(start.shape), links)
        return evidence.triangle @ artix.dynamic_parameters(robot).ravel() - evidence.target

    def improve(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        theta, damping = carry
        error, jacobian = residual(theta), jax.jacfwd(residual)(theta)
        # Damping is relative to the scale of each column. QR avoids the normal equations, which
        # would square the condition number.
        scale = jnp.linalg.norm(jacobian, axis=0) + 1e-3 * jnp.linalg.norm(jacobian)
        rows = jnp.concatenate([jacobian, damping * jnp.diag(scale)])
        q, r = jnp.linalg.qr(rows)
        step = -jax.scipy.linalg.solve_triangular(r, q[: len(error)].T @ error)
        cost, trial = jnp.sum(error**2), jnp.sum(residual(theta + step) ** 2)
        better = trial < cost  # False for NaN.
        damping = jnp.clip(jnp.where(better, 0.4, 3.0) * damping, 1e-5, 1e3).astype(theta.dtype)
        return (jnp.where(better, theta + step, theta), damping), jnp.minimum(trial, cost)

    damping = jnp.asarray(0.1, guess.dtype)
    (theta, _), _ = jax.lax.scan(improve, (start.ravel(), damping), length=iterations)
    return artix.with_log_cholesky(guess, theta.reshape(start.shape), links)


def _torques(robot: artix.Articulation, states: artix.State, acceleration: Array) -> Array:
    """Generalised forces without the part that accelerates the armature, [N, nv]."""
    of_one = functools.partial(artix.inverse_dynamics, armature=False)
    return jax.vmap(of_one, in_axes=(None, 0, 0))(robot, states, acceleration)


def torque_error(robot: artix.Articulation, measured: Measurements) -> Array:
    """Root-mean-square difference between the robot's torques and the measured ones, [nv] [N m]."""
    difference = _torques(robot, measured.states, measured.acceleration) - measured.force
    return jnp.sqrt(jnp.mean(difference**2, axis=0))


def main() -> None:
    """Identifies the seven-axis arm from 4,000 noisy samples, starting from inertias a third
    off.
    """
    jax.config.update("jax_enable_x64", True)
    arm, noise = artix.robots.load("arm7", dtype="float64"), 0.1
    links = list(movable_links(arm))
    measured = jax.jit(lambda key: simulate_measurements(arm, key, 4000, noise))(jax.random.key(0))
    guess = disturbed(arm, jax.random.key(1), links, 0.3)
    estimate = jax.jit(
        lambda guess, measured: identify(guess, gather_evidence(guess, measured), links)
    )
    identified = estimate(guess, measured)
    unseen = jax.jit(lambda key: simulate_measurements(arm, key, 1000, 0.0))(jax.random.key(2))
    print(f"noise of the measured torques [N m]           {noise}")
    print(f"error of predicted torques, guessed [N m]     {torque_error(guess, unseen)}")
    print(f"error of predicted torques, identified [N m]  {torque_error(identified, unseen)}")


def disturbed(
    robot: artix.Articulation, key: Array, links: list[str], size: float
) -> artix.Articulation:
    """The robot with random errors in its log-Cholesky parameters: ``size`` in logarithms, a tenth
    in lengths [m].
    """
    theta = artix.log_cholesky_from_articulation(robot, links)
    scale = jnp.full(theta.shape, size, theta.dtype).at[:, 4:].multiply(0.1)
    return artix.with_log_cholesky(
        robot, theta + scale * jax.random.normal(key, theta.shape, theta.dtype), links
    )


if __name__ == "__main__":
    main()
