"""Inverse kinematics: configurations in which frames are where they shall be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

import artix
from artix.math.gaussian_elimination import lu_factorize
from artix.optimal_control.residuals import pose_difference

Array = jax.Array
LEAST_DAMPING, MOST_DAMPING = 1e-7, 1e3


class InverseKinematics(NamedTuple):
    """The result of :func:`inverse_kinematics`.

    Attributes:
      state: the best configuration that was found, at rest.
      position_error: largest distance of a frame from its target [m], [].
      rotation_error: largest angle of a frame from its target [rad], [].
      solved: whether both are within the tolerances, [] of bool.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> goal = artix.frame_pose(arm, artix.random_state(arm, jax.random.key(0)), "tool")
      >>> seeds = jax.vmap(lambda key: artix.random_state(arm, key))(jax.random.split(jax.random.key(1), 8))
      >>> found = optimal_control.inverse_kinematics(arm, ["tool"], goal[None], seeds)
      >>> found.state.joint_position.shape, bool(found.position_error < 1e-4)
      ((7,), True)
    """

    state: artix.State
    position_error: Array
    rotation_error: Array
    solved: Array


def inverse_kinematics(
    articulation: artix.Articulation,
    frames: Sequence[str],
    targets: Array,
    seeds: artix.State,
    *,
    rotation_weight: float | Array = 0.3,
    iterations: int = 30,
    position_tolerance: float = 1e-4,
    rotation_tolerance: float = 1e-3,
) -> InverseKinematics:
    """Damped least squares within the joints' limits from several seeds at once, of which the best counts.

    Levenberg-Marquardt with the Gauss-Newton matrix of closed-form Jacobians; joints at a limit that would
    leave it are held there. Nakamura and Hanafusa, *Inverse kinematic solutions with singularity robustness for robot
    manipulator control*, 1986; Marquardt 1963. Batch over targets by ``jax.vmap``.

    Args:
      articulation: the articulation; a floating base moves, too.
      frames: names of F links or additional frames.
      targets: their world poses, position [m] and quaternion xyzw, shape [F, 7].
      seeds: S configurations to start from, each array with a leading axis [S]; ``jax.vmap`` of
        :func:`artix.random_state` makes random ones within the limits.
      rotation_weight: how much a radian counts beside a metre [m]; 0 for positions alone, and then
        ``rotation_tolerance`` has no part.
      iterations: number of iterations; there is no test of convergence.
      position_tolerance: distance [m] below which a target counts as reached.
      rotation_tolerance: angle [rad] below which it does.

    Returns:
      The configuration with the least weighted error, and whether that is small. The function is not meant to be
      differentiated: differentiate the equation that it solves, by :func:`artix.frame_jacobian`.

    Raises:
      KeyError: no link or frame has such a name.
      ValueError: there is no frame, or an array has the wrong shape.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> goal = artix.frame_pose(arm, artix.random_state(arm, jax.random.key(0)), "tool")
      >>> seeds = jax.vmap(lambda key: artix.random_state(arm, key))(jax.random.split(jax.random.key(1), 8))
      >>> bool(optimal_control.inverse_kinematics(arm, ["tool"], goal[None], seeds).solved)
      True
    """
    names = tuple(frames)
    if not names:
        raise ValueError("frames: no frame was given whose pose shall be reached")
    if targets.shape != (len(names), 7):
        raise ValueError(f"targets: expected shape ({len(names)}, 7), a pose for each of {list(names)}; found "
                         f"{targets.shape}")  # fmt: skip
    if seeds.joint_position.ndim != 2:
        raise ValueError(
            f"seeds.joint_position: expected shape [S, {articulation.topology.num_dofs}], a leading axis over seeds; "
            f"found {seeds.joint_position.shape}"
        )
    weight = jnp.asarray(rotation_weight, articulation.dtype)

    def from_seed(seed: artix.State) -> tuple[artix.State, Array]:
        position = jnp.clip(seed.joint_position, articulation.joint_lower_limit, articulation.joint_upper_limit)
        rest = jnp.zeros_like
        start = artix.State(seed.root_pose, rest(seed.root_velocity), position, rest(seed.joint_velocity))

        def body(carry, _):
            state, damping, cost = carry
            trial = _trial(articulation, names, targets, state, damping, weight)
            error = _errors(articulation, names, targets, trial, weight)
            better = jnp.sum(error**2) < cost
            state = jax.tree.map(lambda new, old: jnp.where(better, new, old), trial, state)
            damping = jnp.clip(damping * jnp.where(better, 0.2, 5.0).astype(cost.dtype), LEAST_DAMPING, MOST_DAMPING)
            return (state, damping, jnp.where(better, jnp.sum(error**2), cost)), None

        cost = jnp.sum(_errors(articulation, names, targets, start, weight) ** 2)
        first = start, jnp.asarray(1e-2, articulation.dtype), cost
        (state, _, cost), _ = jax.lax.scan(body, first, length=iterations)
        return state, cost

    states, costs = jax.vmap(from_seed)(seeds)
    best = jnp.argmin(costs)
    state = jax.tree.map(lambda leaf: leaf[best], states)
    errors = _errors(articulation, names, targets, state, jnp.ones_like(weight)).reshape(-1, 2, 3)
    distance, angle = jnp.max(jnp.linalg.norm(errors, axis=2), axis=0)
    solved = (distance <= position_tolerance) & ((angle <= rotation_tolerance) | (weight == 0))
    return InverseKinematics(state, distance, angle, solved)


@artix.quantity
def _errors(
    articulation: artix.Articulation, frames: tuple[str, ...], targets: Array, state: artix.State, weight: Array
) -> Array:
    """Positions and rotation vectors from targets to frames, the latter weighted, [6 F]."""
    scale = jnp.concatenate([jnp.ones(3, weight.dtype), jnp.broadcast_to(weight, (3,))])
    poses = [artix.frame_pose(articulation, state, frame) for frame in frames]
    return jnp.concatenate([scale * pose_difference(targets[k], pose) for k, pose in enumerate(poses)])


@artix.quantity
def _trial(
    articulation: artix.Articulation,
    frames: tuple[str, ...],
    targets: Array,
    state: artix.State,
    damping: Array,
    weight: Array,
) -> artix.State:
    """A damped Gauss-Newton step, within the limits."""
    scale = jnp.concatenate([jnp.ones(3, weight.dtype), jnp.broadcast_to(weight, (3,))])
    error = _errors(articulation, frames, targets, state, weight)
    slope = jnp.concatenate(
        [scale[:, None] * _error_jacobian(articulation, state, f, targets[k]) for k, f in enumerate(frames)]
    )
    base, position = articulation.topology.num_base_dofs, state.joint_position
    lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
    gradient = jnp.matmul(error, slope, precision=jax.lax.Precision.HIGHEST)
    out = ((position <= lower) & (gradient[base:] > 0)) | ((position >= upper) & (gradient[base:] < 0))
    free = jnp.concatenate([jnp.ones(base, bool), ~out])
    slope = jnp.where(free[None], slope, jnp.zeros_like(slope))
    gradient = jnp.where(free, gradient, jnp.zeros_like(gradient))
    matrix = jnp.matmul(slope.T, slope, precision=jax.lax.Precision.HIGHEST) + damping * jnp.eye(
        len(free), dtype=weight.dtype
    )
    moved = artix.integrate(articulation, state, -lu_factorize(matrix).solve(gradient))
    return moved.replace(joint_position=jnp.clip(moved.joint_position, lower, upper))


def _error_jacobian(articulation: artix.Articulation, state: artix.State, frame: str, target: Array) -> Array:
    """Derivative of :func:`pose_difference` by the configuration, [6, nv]."""
    jacobian = artix.frame_jacobian(articulation, state, frame)
    turn = pose_difference(target, artix.frame_pose(articulation, state, frame))[3:]
    by_turn = artix.lie.so3_left_jacobian_inverse(turn)
    return jnp.concatenate([jacobian[:3], jnp.matmul(by_turn, jacobian[3:], precision=jax.lax.Precision.HIGHEST)])
