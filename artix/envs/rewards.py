"""Reward terms: pure functions of named signals, and their weighted sum.

Names and definitions are those of MuJoCo Playground's Go1 and G1 joystick tasks, so that results
can be compared. Costs have negative weights. The parameter names of a term say which signals it
needs; a task provides signals under these names, and :func:`weighted_terms` matches the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs.terms import call, check_mapping, check_signals, pair_of
from artix.math.arrays import square_root
from artix.model.articulation import Articulation
from artix.model.checks import as_number

Array = jax.Array

#: A command whose norm is below this means: stand still.
STANDING = 0.01
#: Joints should stay within this fraction of their range, about its middle.
SOFT_LIMIT = 0.95


def tracking_lin_vel(command: Array, linear_velocity: Array, tracking_sigma: float) -> Array:
    """Tracking of the commanded velocity: ``exp(-|error|^2 / sigma)``, x and y in the robot's
    axes.
    """
    return jnp.exp(-jnp.sum((command[:2] - linear_velocity[:2]) ** 2) / tracking_sigma)


def tracking_ang_vel(command: Array, angular_velocity: Array, tracking_sigma: float) -> Array:
    """Tracking of the commanded yaw rate: ``exp(-error^2 / sigma)``, about the robot's z axis."""
    return jnp.exp(-((command[2] - angular_velocity[2]) ** 2) / tracking_sigma)


def tracking_mean_yaw_rate(command: Array, mean_yaw_rate: Array, tracking_sigma: float) -> Array:
    """As ``tracking_ang_vel``, but of the mean over about half a stride.

    The trunk of a biped turns to and fro with every step, which hides whether it follows a command.
    """
    return jnp.exp(-((command[2] - mean_yaw_rate) ** 2) / tracking_sigma)


def lin_vel_z(world_linear_velocity: Array) -> Array:
    """Squared vertical speed."""
    return world_linear_velocity[2] ** 2


def ang_vel_xy(world_angular_velocity: Array) -> Array:
    """Squared roll and pitch rates."""
    return jnp.sum(world_angular_velocity[:2] ** 2)


def orientation(up: Array) -> Array:
    """Squared horizontal part of the robot's z axis: zero upright."""
    return jnp.sum(up[:2] ** 2)


def base_height(height: Array, target_height: float) -> Array:
    """Squared error of the root's height."""
    return (height - target_height) ** 2


def pose(joint_position: Array, default_position: Array, pose_weight: Array) -> Array:
    """Closeness of the joints to the default pose: ``exp(-weighted squared distance)``."""
    return jnp.exp(-jnp.sum(pose_weight * (joint_position - default_position) ** 2))


def stand_still(command: Array, joint_position: Array, default_position: Array) -> Array:
    """Distance of the joints from the default pose, while the command is to stand still."""
    return jnp.where(_stands(command), jnp.sum(jnp.abs(joint_position - default_position)), 0)


def alive() -> Array:
    """1 in every step."""
    return jnp.where(True, 1.0, 0.0)


def termination(terminated: Array) -> Array:
    """1 in the step that terminates the episode."""
    return jnp.where(terminated, 1.0, 0.0)


def dof_pos_limits(joint_position: Array, soft_lower: Array, soft_upper: Array) -> Array:
    """Total distance of joints beyond their soft limits."""
    below, above = soft_lower - joint_position, joint_position - soft_upper
    return jnp.sum(jnp.maximum(below, 0) + jnp.maximum(above, 0))


def torques(joint_force: Array) -> Array:
    """Euclidean norm of the joint forces plus the sum of their magnitudes."""
    return square_root(_squared(joint_force)) + jnp.sum(jnp.abs(joint_force))


def energy(joint_velocity: Array, joint_force: Array) -> Array:
    """Sum of the magnitudes of the joints' powers."""
    return jnp.sum(jnp.abs(joint_velocity) * jnp.abs(joint_force))


def action_rate(action: Array, last_action: Array) -> Array:
    """Squared change of the action."""
    return _squared(action - last_action)


def dof_vel(joint_velocity: Array) -> Array:
    """Squared joint velocities."""
    return _squared(joint_velocity)


def dof_acc(joint_acceleration: Array) -> Array:
    """Squared joint accelerations."""
    return _squared(joint_acceleration)


def feet_slip(command: Array, feet_velocity: Array, contact: Array) -> Array:
    """Squared horizontal speed of feet in contact with the ground, while the command is to move."""
    slip = jnp.sum(feet_velocity[:, :2] ** 2, axis=-1)
    return jnp.where(_stands(command), 0, jnp.sum(jnp.where(contact, slip, 0)))


def feet_clearance(feet_velocity: Array, feet_height: Array, max_foot_height: float) -> Array:
    """Height error of the feet, weighted by the square root of their horizontal speed."""
    square = jnp.sum(feet_velocity[:, :2] ** 2, axis=-1)
    root = jnp.where(square > 0, jnp.where(square > 0, square, 1) ** 0.25, 0)
    return jnp.sum(jnp.abs(feet_height - max_foot_height) * root)


def feet_height(
    command: Array, swing_peak: Array, first_contact: Array, max_foot_height: float
) -> Array:
    """Squared relative error of a swing's peak height, counted at landing, while the command is to
    move.
    """
    error = swing_peak / max_foot_height - 1
    return jnp.where(_stands(command), 0, jnp.sum(jnp.where(first_contact, error**2, 0)))


def feet_air_time(command: Array, air_time: Array, first_contact: Array) -> Array:
    """Time in the air beyond 0.1 s, counted at landing, while the command is to move."""
    return jnp.where(_stands(command), 0, jnp.sum(jnp.where(first_contact, air_time - 0.1, 0)))


def single_stance(command: Array, contact: Array, contact_time: Array, air_time: Array) -> Array:
    """For bipeds, while the command is to move: how long one foot has been in the air while the
    other stands, to 0.4 s.

    Zero once the standing foot has been in contact for 0.6 s. Modelled on Isaac Lab's
    ``feet_air_time_positive_biped``, which has no such limit. It does not exclude hopping on one
    leg.
    """
    alone = (jnp.sum(contact.astype(air_time.dtype)) == 1) & (
        jnp.sum(jnp.where(contact, contact_time, 0)) < 0.6
    )
    swing = jnp.minimum(jnp.sum(jnp.where(contact, 0, air_time)), 0.4)
    return jnp.where(alone & ~_stands(command), swing, 0)


def feet_down(command: Array, contact: Array) -> Array:
    """The fraction of the feet that are in the air, while the command is to stand still."""
    share = jnp.mean(jnp.where(contact, 0.0, 1.0).astype(command.dtype))
    return jnp.where(_stands(command), share, 0)


def feet_in_turn(command: Array, contact: Array, feet_group: np.ndarray) -> Array:
    """How much two groups of feet stand in turn, from 0 to 1, while the command is to move.

    The difference between the fractions of the feet on the ground. The groups are the diagonals of
    a quadruped, which trots at 1, the tripods of a robot with six legs, and the feet of a biped.
    """
    down = contact.astype(command.dtype)
    one, other = (jnp.mean(down[np.flatnonzero(feet_group == k)]) for k in (0, 1))
    return jnp.where(_stands(command), 0, jnp.abs(one - other))


def uneven_steps(command: Array, last_air_time: Array, last_contact_time: Array) -> Array:
    """How much the feet differ in their last times in the air and on the ground, while the command
    is to move.

    The variance of the times over the feet, relative to the square of their mean, but at most 1.
    Isaac Lab's ``air_time_variance_penalty`` is the variance itself.
    """
    uneven = _relative_variance(last_air_time) + _relative_variance(last_contact_time)
    return jnp.where(_stands(command), 0, jnp.minimum(uneven, 1))


def feet_on_time(command: Array, contact: Array, phase: Array, feet_group: np.ndarray) -> Array:
    """The fraction of the feet that stand in their half of the gait's period and swing in the
    other.

    While the command is to move. Periodic rewards of this kind are from Siekmann et al.,
    *Sim-to-real learning of all common bipedal gaits via periodic reward composition*, 2021.
    """
    on_time = contact == (
        jnp.sin(phase + jnp.asarray(np.pi * np.asarray(feet_group), phase.dtype)) < 0
    )
    return jnp.where(_stands(command), 0, jnp.mean(on_time.astype(command.dtype)))


def _relative_variance(times: Array) -> Array:
    """The variance over the square of the mean; a mean below 20 ms counts as 20 ms."""
    mean = jnp.mean(times)
    return jnp.mean((times - mean) ** 2) / jnp.maximum(mean, 0.02) ** 2


def _stands(command: Array) -> Array:
    return _squared(command) < STANDING**2


def _squared(x: Array) -> Array:
    return jnp.sum(x**2)


#: All terms by name.
TERMS: dict[str, Callable[..., Array]] = {
    term.__name__: term
    for term in (
        tracking_lin_vel,
        tracking_ang_vel,
        tracking_mean_yaw_rate,
        lin_vel_z,
        ang_vel_xy,
        orientation,
        base_height,
        pose,
        stand_still,
        alive,
        termination,
        dof_pos_limits,
        torques,
        energy,
        action_rate,
        dof_vel,
        dof_acc,
        feet_slip,
        feet_clearance,
        feet_height,
        feet_air_time,
        single_stance,
        feet_down,
        feet_in_turn,
        uneven_steps,
        feet_on_time,
    )
}


def soft_limits(articulation: Articulation) -> tuple[Array, Array]:
    """The limits within which joints should stay: the middle 95 % of their ranges, as in MuJoCo
    Playground.

    Args:
      articulation: the articulation.

    Returns:
      The lower and upper soft limits [rad or m], shape [n] each. A joint without a range, which has
      one limit or none, keeps its limits as they are.

    Examples:
      >>> from artix.envs import rewards
      >>> robot = artix.robots.load("quadruped")
      >>> lower, upper = rewards.soft_limits(robot)
      >>> print(robot.joint_lower_limit[8], robot.joint_upper_limit[8])  # a knee
      -2.7 0.0
      >>> print(lower[8], upper[8])
      -2.6325 -0.0675
    """
    lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
    has_range = jnp.isfinite(lower) & jnp.isfinite(upper)
    margin = jnp.where(
        has_range, 0.5 * (1 - SOFT_LIMIT) * jnp.where(has_range, upper - lower, 0), 0
    )
    return lower + margin, upper - margin


Weights = Mapping[str, float | tuple[float, Callable[..., Array]] | None]
"""The weight of each reward term, by name; ``(weight, function)`` for one of your own, ``None`` to
leave it out."""


def weighted_terms(weights: Weights, signals: Mapping[str, Any]) -> dict[str, Array]:
    """Evaluates reward terms and multiplies them by their weights.

    Args:
      weights: weights of the terms, by name.
      signals: values for the parameters of the terms, by name.

    Returns:
      Each weighted term by name, []; the reward is their sum.

    Raises:
      ValueError: as :func:`check_weights`, or a term is not a scalar.

    Examples:
      >>> from artix.envs import rewards
      >>> def warmth(temperature):
      ...     return temperature - 20.0
      >>> weights = {"action_rate": -0.1, "warmth": (2.0, warmth)}
      >>> signals = {
      ...     "action": jnp.ones(3),
      ...     "last_action": jnp.zeros(3),
      ...     "temperature": jnp.array(21.0),
      ... }
      >>> {
      ...     name: round(float(term), 3)
      ...     for name, term in rewards.weighted_terms(weights, signals).items()
      ... }
      {'action_rate': -0.3, 'warmth': 2.0}
    """
    check_weights(weights, signals)
    terms = {}
    for name, each in weights.items():
        if each is None:
            continue
        weight, term = _weight_and_term(weights, name)
        terms[name] = weight * call(term, signals)
        if jnp.shape(terms[name]):
            raise ValueError(
                f"reward {name!r} must be a scalar; found the shape {jnp.shape(terms[name])}"
            )
    return terms


def check_weights(weights: Weights, signals: Iterable[str]) -> None:
    """Refuses terms that do not exist, and terms that need a signal the task does not have.

    Args:
      weights: weights of the terms, by name.
      signals: names of the task's signals.

    Raises:
      TypeError: ``weights`` is no mapping.
      ValueError: a term or a signal does not exist (the message lists those that do), or a weight
        is not finite.
    """
    check_mapping("rewards", weights, "'pose': 0.5")
    signals = tuple(signals)
    for name, each in weights.items():
        if each is None:
            continue
        _, term = _weight_and_term(weights, name)
        check_signals(f"reward {name!r}", term, signals)


def _weight_and_term(weights: Weights, name: str) -> tuple[float, Callable[..., Array]]:
    weight = weights[name]
    assert weight is not None
    if isinstance(weight, tuple):
        number, term = pair_of("rewards", name, weight, TERMS, "(weight, function)")
        return as_number(f"weight of reward {name!r}", number), term
    if name not in TERMS:
        raise ValueError(
            f"no reward called {name!r}; choose from: {', '.join(TERMS)}; one of your own is "
            "(weight, function)"
        )
    return as_number(f"weight of reward {name!r}", weight), TERMS[name]
