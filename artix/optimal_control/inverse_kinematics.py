"""Inverse kinematics: configurations that put frames where you want them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.kinematics.configuration import move
from artix.math.arrays import chosen, matmul
from artix.math.gaussian_elimination import lu_factorize
from artix.math.tangents import without_derivatives
from artix.model.checks import check_count, check_finite, check_quaternion
from artix.optimal_control.checks import as_array, check_names, known
from artix.optimal_control.residuals import pose_difference

Array = jax.Array
MIN_DAMPING, MAX_DAMPING = 1e-7, 1e3


class InverseKinematics(NamedTuple):
    """The result of :func:`inverse_kinematics`.

    Attributes:
      state: the configuration, at rest.
      position_error: largest distance of a frame from its target [m], [].
      rotation_error: largest angle of a frame from its target [rad], [].
      solved: whether both are within the tolerances, [] of bool.

    The errors of a target out of reach say by how much it is missed.

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
    near: artix.State | None = None,
    rotation_weight: float | Array = 0.3,
    iterations: int = 30,
    position_tolerance: float = 1e-4,
    rotation_tolerance: float = 1e-3,
) -> InverseKinematics:
    """Finds a configuration within the joint limits by damped least squares, from several seeds at once.

    Levenberg-Marquardt on the Gauss-Newton matrix of closed-form Jacobians. A joint at a limit that would leave it is
    held there. Of the seeds that reach the targets, the one that ends nearest to a posture counts. So a path that
    starts each search from the last result, as first of the seeds, is followed without jumps to another posture.
    Nakamura and Hanafusa, *Inverse kinematic solutions with singularity robustness for robot manipulator
    control*, 1986; Marquardt 1963. Use ``jax.vmap`` over targets.

    *Derivatives*, in both modes, are implicit: those of the configuration by targets and by the numbers of the
    articulation, through the equation it solves rather than through the iterations. An arm with joints to spare moves
    by the least displacement, and a joint at its limit moves with it. They are right where ``solved`` is true; the
    errors and the seeds have none.

    A limit of a spherical joint bounds a component of its rotation vector, but what is held there is the motion about
    the axis of that component. The two agree while the joint has turned about that axis only.

    Args:
      articulation: the articulation; a floating base moves, too.
      frames: names of F links or additional frames.
      targets: their world poses, position [m] and quaternion xyzw, shape [F, 7].
      seeds: S configurations to start from, each array with a leading axis [S]; ``jax.vmap`` of
        :func:`artix.random_state` makes random ones within the limits.
      near: the preferred posture; the first seed if ``None``. Nearness is the length of :func:`artix.difference`, in
        which a metre counts as a radian.
      rotation_weight: weight of a radian relative to a metre [m], one number for all frames; 0 for positions only,
        which ignores ``rotation_tolerance``.
      iterations: number of iterations; there is no test of convergence.
      position_tolerance: distance [m] below which a target counts as reached.
      rotation_tolerance: angle [rad] below which it does.

    Returns:
      Of the configurations that reach the targets, the one nearest to ``near``; if there is none, the one with the
      least weighted error.

    Raises:
      KeyError: no link or frame has this name.
      TypeError: an array has another dtype than the articulation, or ``iterations`` is no whole number.
      ValueError: there is no frame, a frame occurs twice, an array has the wrong shape, or a known one has a quaternion
        not of length 1 or a number that is not finite.

    Warns:
      UserWarning: known seeds lie outside the joint limits; they start from the nearest position within.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> goal = artix.frame_pose(arm, artix.random_state(arm, jax.random.key(0)), "tool")
      >>> seeds = jax.vmap(lambda key: artix.random_state(arm, key))(jax.random.split(jax.random.key(1), 8))
      >>> bool(optimal_control.inverse_kinematics(arm, ["tool"], goal[None], seeds).solved)
      True
    """
    check_names("frames", frames)
    names = tuple(frames)
    if not names:
        raise ValueError("frames: give the name of at least one frame")
    check_count("iterations", iterations)
    dtype, num_dofs = articulation.dtype, articulation.topology.num_dofs
    targets = as_array("targets", targets, (len(names), 7), dtype, f"a pose for each of {list(names)}")
    for field, size in (("root_pose", 7), ("joint_position", num_dofs)):
        value = getattr(seeds, field)
        as_array(f"seeds.{field}", value, ("S", size), dtype, "with a leading axis over seeds")
        if len(value) != len(seeds.joint_position) or not len(value):
            raise ValueError(f"seeds.{field}: expected a row for each seed, at least one; found shape {value.shape}")
    near = jax.tree.map(lambda leaf: leaf[0], seeds) if near is None else near
    for field, size in (("root_pose", 7), ("joint_position", num_dofs)):
        as_array(f"near.{field}", getattr(near, field), (size,), dtype, "one configuration")
    poses = {"targets": targets, "seeds.root_pose": seeds.root_pose, "near.root_pose": near.root_pose}
    positions = {"seeds.joint_position": seeds.joint_position, "near.joint_position": near.joint_position}
    for name, array in (poses | positions).items():
        check_finite(name, array)
    for name, pose in poses.items():
        check_quaternion(name, pose)
    _warn_of_seeds_beyond_limits(articulation, seeds.joint_position)
    weight = jnp.asarray(rotation_weight, dtype)
    if weight.ndim:
        raise ValueError(f"rotation_weight: expected one number for all frames; found shape {weight.shape}")
    given, wanted = articulation, targets
    articulation, targets, seeds, near = without_derivatives((articulation, targets, seeds, near))

    def from_seed(seed: artix.State) -> tuple[artix.State, Array]:
        position = jnp.clip(seed.joint_position, articulation.joint_lower_limit, articulation.joint_upper_limit)
        rest = jnp.zeros_like
        start = artix.State(seed.root_pose, rest(seed.root_velocity), position, rest(seed.joint_velocity))

        def body(carry, _):
            state, damping, cost = carry
            trial = _trial(articulation, names, targets, state, damping, weight)
            error = _errors(articulation, names, targets, trial, weight)
            better = jnp.sum(error**2) < cost
            state = chosen(better, trial, state)
            damping = jnp.clip(damping * jnp.where(better, 0.2, 5.0).astype(cost.dtype), MIN_DAMPING, MAX_DAMPING)
            return (state, damping, jnp.where(better, jnp.sum(error**2), cost)), None

        cost = jnp.sum(_errors(articulation, names, targets, start, weight) ** 2)
        first = start, jnp.asarray(1e-2, articulation.dtype), cost
        (state, _, cost), _ = jax.lax.scan(body, first, length=iterations)
        return state, cost

    def judge(state: artix.State) -> tuple[Array, Array, Array]:
        errors = _errors(articulation, names, targets, state, jnp.ones_like(weight)).reshape(-1, 2, 3)
        distance, angle = jnp.max(jnp.linalg.norm(errors, axis=2), axis=0)
        return distance, angle, jnp.sum(artix.difference(articulation, near, state) ** 2)

    states, costs = jax.vmap(from_seed)(seeds)
    distances, angles, away = jax.vmap(judge)(states)
    solved = (distances <= position_tolerance) & ((angles <= rotation_tolerance) | (weight == 0))
    # Which seed has the smallest error among those that reach the target is decided by rounding.
    order = jnp.where(jnp.any(solved), jnp.where(solved, away, jnp.inf), costs)
    best = jnp.argmin(jnp.where(jnp.isnan(order), jnp.inf, order))
    state = jax.tree.map(lambda leaf: leaf[best], states)
    configuration = _implicit(given, names, wanted, state, weight)
    return InverseKinematics(configuration, distances[best], angles[best], solved[best])


def _warn_of_seeds_beyond_limits(articulation: artix.Articulation, positions: Array) -> None:
    """Says which seeds will start from their joints' limits instead."""
    seeds, lower, upper = map(known, (positions, articulation.joint_lower_limit, articulation.joint_upper_limit))
    if seeds is None or lower is None or upper is None:
        return
    beyond = (seeds < lower) | (seeds > upper)
    if beyond.any():
        seed, dof = np.argwhere(beyond)[0]
        topology: Any = articulation.topology
        joint = topology.dof_names[dof]
        warnings.warn(
            f"seeds.joint_position: {beyond.any(axis=1).sum()} of {len(seeds)} seeds lie outside the joint limits and "
            f"start from the nearest position within them; seed {seed} has {joint!r} at {seeds[seed, dof]:.6g}, "
            f"outside [{lower[dof]:.6g}, {upper[dof]:.6g}]",
            stacklevel=3,
        )


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
    error = _errors(articulation, frames, targets, state, weight)
    slope = _slope(articulation, frames, targets, state, weight)
    base, position = articulation.topology.num_base_dofs, state.joint_position
    lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
    gradient = matmul(error, slope)
    out = ((position <= lower) & (gradient[base:] > 0)) | ((position >= upper) & (gradient[base:] < 0))
    free = jnp.concatenate([jnp.ones(base, bool), ~out])
    slope = jnp.where(free[None], slope, jnp.zeros_like(slope))
    gradient = jnp.where(free, gradient, jnp.zeros_like(gradient))
    matrix = matmul(slope.T, slope) + damping * jnp.eye(len(free), dtype=weight.dtype)
    moved = move(articulation, state, -lu_factorize(matrix).solve(gradient))
    return moved.replace(joint_position=jnp.clip(moved.joint_position, lower, upper))


@artix.quantity
def _implicit(
    articulation: artix.Articulation, frames: tuple[str, ...], targets: Array, state: artix.State, weight: Array
) -> artix.State:
    """A configuration that solves the problem, as a function of articulation and targets.

    It moves by the pseudo-inverse of the Jacobian times the change of the errors, which is zero but has a
    derivative. A joint at a limit is a function of that limit.
    """
    position, lower, upper = state.joint_position, articulation.joint_lower_limit, articulation.joint_upper_limit
    held = jnp.where(position <= lower, lower, jnp.where(position >= upper, upper, position))
    state = state.replace(joint_position=held)
    error = _errors(articulation, frames, targets, state, weight)
    change = error - jax.lax.stop_gradient(error)
    fixed = jax.lax.stop_gradient((articulation, targets, state, weight))
    slope = _slope(fixed[0], frames, *fixed[1:])
    free = jnp.concatenate([jnp.ones(slope.shape[1] - len(position), bool), (position > lower) & (position < upper)])
    slope = jnp.where(free[None], slope, jnp.zeros_like(slope))
    # The smaller of two equivalent matrices, damped by rounding.
    is_wide = slope.shape[0] <= slope.shape[1]
    matrix = matmul(slope, slope.T) if is_wide else matmul(slope.T, slope)
    damping = 10 * jnp.finfo(matrix.dtype).eps * (jnp.trace(matrix) + jnp.finfo(matrix.dtype).tiny)
    inverse = lu_factorize(matrix + damping * jnp.eye(len(matrix), dtype=matrix.dtype))
    step = matmul(slope.T, inverse.solve(change)) if is_wide else inverse.solve(matmul(slope.T, change))
    return move(articulation, state, -step)


def _slope(
    articulation: artix.Articulation, frames: tuple[str, ...], targets: Array, state: artix.State, weight: Array
) -> Array:
    """Derivative of :func:`_errors` by the configuration, [6 F, nv]."""
    scale = jnp.concatenate([jnp.ones(3, weight.dtype), jnp.broadcast_to(weight, (3,))])
    return jnp.concatenate(
        [scale[:, None] * _error_jacobian(articulation, state, f, targets[k]) for k, f in enumerate(frames)]
    )


def _error_jacobian(articulation: artix.Articulation, state: artix.State, frame: str, target: Array) -> Array:
    """Derivative of :func:`pose_difference` by the configuration, [6, nv]."""
    jacobian = artix.frame_jacobian(articulation, state, frame)
    turn = pose_difference(target, artix.frame_pose(articulation, state, frame))[3:]
    by_turn = artix.lie.so3_left_jacobian_inverse(turn)
    return jnp.concatenate([jacobian[:3], matmul(by_turn, jacobian[3:])])
