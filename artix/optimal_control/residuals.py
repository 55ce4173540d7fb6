"""Residuals for costs and constraints: scale them, concatenate them, and return them from your
function.

Their derivatives are the closed-form ones of artix's quantities, in the same kernel as your
function; derivatives that vanish cost nothing there. Torques and contact forces are
``knot.control`` and ``knot.contact_force`` as they are.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import artix
from artix.math.arrays import check_finite, square_root
from artix.math.spatial import rotation_matrix
from artix.model.checks import as_array, check_not_negative, check_quaternion

Array = jax.Array


def frame_pose(
    articulation: artix.Articulation, state: artix.State, frame: str, target: Array
) -> Array:
    """Displacement and rotation of a frame from a target pose.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: name of a link or an additional frame.
      target: world pose, position [m] and quaternion xyzw, shape [7].

    Returns:
      Position of the frame relative to the target [m], then the rotation vector from the target to
      the frame [rad], both in world axes, shape [6].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: ``target`` or an array of the state has the wrong shape, or a known target a
        number that is not finite or a quaternion not of length 1.
      TypeError: ``target`` is not an array, or it or an array of the state has another dtype than
        the articulation.

    Identity: zero where ``target`` is ``artix.frame_pose(a, s, frame)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> pose = artix.frame_pose(arm, state, "tool")
      >>> bool(jnp.allclose(optimal_control.frame_pose(arm, state, "tool", pose), 0, atol=1e-6))
      True
    """
    pose = artix.frame_pose(articulation, state, frame)
    target = _target(target, (7,), pose.dtype, "position and quaternion xyzw")
    check_quaternion("target", target)
    return pose_difference(target, pose)


def pose_difference(start: Array, end: Array) -> Array:
    """From one pose to another: displacement [m], then rotation vector [rad], both in world axes,
    [6].
    """
    (x0, w0), (x, w) = (start[3:6], start[6]), (end[3:6], end[6])
    vector, scalar = w0 * x - w * x0 - jnp.cross(x, x0), w * w0 + jnp.sum(x * x0)
    sign = jnp.where(scalar < 0, -1.0, 1.0).astype(end.dtype)
    turn = artix.lie.so3_log(jnp.concatenate([sign * vector, sign * scalar[None]]))
    return jnp.concatenate([end[:3] - start[:3], turn])


def frame_position(
    articulation: artix.Articulation, state: artix.State, frame: str, target: Array
) -> Array:
    """Position of a frame's origin relative to a target.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: name of a link or an additional frame.
      target: where the origin should be, in world axes [m], shape [3].

    Returns:
      In world axes [m], shape [3].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: ``target`` or an array of the state has the wrong shape, or a known target is not
        finite.
      TypeError: ``target`` is not an array, or it or an array of the state has another dtype than
        the articulation.

    Identity: the first three entries of :func:`frame_pose`.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> target = artix.frame_pose(arm, state, "tool")[:3] - jnp.array([0.1, 0.0, 0.0])
      >>> print(optimal_control.frame_position(arm, state, "tool", target))
      [0.1 0.  0. ]
    """
    position = artix.frame_pose(articulation, state, frame)[:3]
    return position - _target(target, (3,), position.dtype, "a position")


def center_of_mass(articulation: artix.Articulation, state: artix.State, target: Array) -> Array:
    """Position of the articulation's centre of mass relative to a target.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      target: where the centre of mass should be, in world axes [m], shape [3].

    Returns:
      In world axes [m], shape [3].

    Raises:
      ValueError: ``target`` or an array of the state has the wrong shape, or a known target is not
        finite.
      TypeError: ``target`` is not an array, or it or an array of the state has another dtype than
        the articulation.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(robot)
      >>> lower = artix.center_of_mass(robot, state) - jnp.array([0.0, 0.0, 0.05])
      >>> print(optimal_control.center_of_mass(robot, state, lower))
      [0.   0.   0.05]
    """
    position = artix.center_of_mass(articulation, state)
    return position - _target(target, (3,), position.dtype, "a position")


def centroidal_momentum(
    articulation: artix.Articulation, state: artix.State, target: Array
) -> Array:
    """Momentum about the centre of mass minus a target.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      target: linear [kg m/s], then angular momentum about the centre of mass [kg m^2/s], in world
        axes, shape [6].

    Returns:
      The difference [kg m/s, kg m^2/s], in world axes, shape [6].

    Raises:
      ValueError: ``target`` or an array of the state has the wrong shape, or a known target is not
        finite.
      TypeError: ``target`` is not an array, or it or an array of the state has another dtype than
        the articulation.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> forward = jnp.zeros(6).at[0].set(5.0)
      >>> # it is at rest
      >>> print(optimal_control.centroidal_momentum(robot, artix.neutral_state(robot), forward))
      [-5.  0.  0.  0.  0.  0.]
    """
    momentum = artix.centroidal_momentum(articulation, state)
    return momentum - _target(target, (6,), momentum.dtype, "linear, then angular momentum")


def _target(value: Array, shape: tuple[int, ...], dtype: Any, meaning: str) -> Array:
    """A target as an array of this shape and dtype, of finite numbers if they are known."""
    target = as_array("target", value, shape, dtype, meaning)
    check_finite("target", target)
    return target


def posture(articulation: artix.Articulation, state: artix.State, nominal: artix.State) -> Array:
    """The displacement from a nominal configuration, as :func:`artix.difference` measures it.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      nominal: the state with the nominal configuration.

    Returns:
      Shape [nv] [m, rad].

    Raises:
      ValueError: an array of a state has the wrong shape.
      TypeError: an array of a state has another dtype than the articulation.

    Identity: ``integrate(a, nominal, posture(a, s, nominal))`` has the configuration of ``s``.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> standing = artix.neutral_state(robot)
      >>> optimal_control.posture(robot, standing, standing).shape
      (18,)
    """
    return artix.difference(articulation, nominal, state)


def friction_cone(
    contact_force: Array, friction: float | Array, least_normal: float | Array = 0.0
) -> Array:
    """By how much forces on points of level ground violate their friction cones; inside, no entry
    is positive.

    Use it as an inequality constraint, or through :func:`violation` as a cost.

    Args:
      contact_force: forces on K points in world axes, as ``knot.contact_force`` of a schedule,
        shape [3 K] [N].
      friction: coefficient of friction.
      least_normal: smallest normal force of a standing foot [N].

    Returns:
      For each point, the tangential force in excess of ``friction`` times the normal force, and by
      how much the normal force falls short of the smallest allowed one [N], shape [2 K].

    Raises:
      ValueError: the forces are not forces of points, or the coefficient is negative.

    Examples:
      >>> optimal_control.friction_cone(jnp.array([3.0, 4.0, 20.0]), 0.5).tolist()
      [-5.0, -20.0]
    """
    if contact_force.ndim != 1 or len(contact_force) % 3:
        raise ValueError(
            "contact_force: expected shape [3 K], the forces on K points; found "
            f"{contact_force.shape}"
        )
    check_not_negative("friction", friction)
    x, y, normal = contact_force.reshape(-1, 3).T
    return jnp.stack(
        [square_root(x**2 + y**2) - friction * normal, least_normal - normal], axis=1
    ).reshape(-1)


def wrench_cone(
    contact_force: Array,
    friction: float | Array,
    half_length: float | Array,
    half_width: float | Array,
    least_normal: float | Array = 0.0,
    poses: Array | None = None,
) -> Array:
    """By how much wrenches on rectangular soles on level ground leave their cones; inside, no entry
    is positive.

    A sole neither slips, nor tips, nor turns on the spot exactly if forces on its four corners,
    within friction pyramids along its sides, add up to its wrench. Caron, Pham and Nakamura,
    *Stability of surface contacts for humanoid robots: closed-form formulae of the contact wrench
    cone for rectangular support areas*, ICRA 2015. Use it as :func:`friction_cone`; for a pyramid
    within the circular cone, divide the coefficient by ``sqrt(2)``.

    Args:
      contact_force: wrenches on K soles about their centres in world axes, force [N], then torque
        [N m], as ``knot.contact_force`` of a schedule of type ``"weld"``, shape [6 K].
      friction: coefficient of friction.
      half_length: half the length of a sole, along its x axis [m].
      half_width: half its width, along its y axis [m].
      least_normal: smallest normal force of a standing sole [N].
      poses: world poses of the soles, shape [K, 7], of which only the rotations matter; ``None``
        for sides along the world's axes.

    Returns:
      For each sole, four rows of friction [N], four of tipping [N m], eight of turning [N m], and
      by how much the normal force falls short of the smallest allowed one [N], shape [17 K].

    Raises:
      ValueError: the forces are not wrenches, ``poses`` does not fit them, or a number is negative.
      TypeError: ``poses`` has another dtype.

    Examples:
      >>> standing = jnp.array([0.0, 0.0, 100.0, 0.0, -4.0, 0.0])  # 4 cm in front of the centre
      >>> print(optimal_control.wrench_cone(standing, 0.6, 0.1, 0.05).max())
      -5.0
      >>> # it tips over a shorter sole
      >>> print(optimal_control.wrench_cone(standing, 0.6, 0.03, 0.05).max())
      1.0
    """
    if contact_force.ndim != 1 or len(contact_force) % 6:
        raise ValueError(
            f"contact_force: expected shape [6 K], wrenches on K soles; found {contact_force.shape}"
        )
    for name, value in (
        ("friction", friction),
        ("half_length", half_length),
        ("half_width", half_width),
    ):
        check_not_negative(name, value)
    vectors = contact_force.reshape(-1, 2, 3)
    if poses is not None:
        count = len(vectors)
        poses = as_array("poses", poses, (count, 7), contact_force.dtype, "a pose for each sole")
        vectors = jnp.einsum("jik,kaj->kai", rotation_matrix(poses[:, 3:].T), vectors)
    (fx, fy, fz), (tx, ty, tz) = vectors[:, 0].T, vectors[:, 1].T
    slip, tip_x, tip_y = friction * fz, half_width * fz, half_length * fz
    rows = [
        fx - slip,
        -fx - slip,
        fy - slip,
        -fy - slip,
        tx - tip_x,
        -tx - tip_x,
        ty - tip_y,
        -ty - tip_y,
    ]
    for sign in (1.0, -1.0):
        about_x, about_y = (
            half_width * fx + sign * friction * tx,
            half_length * fy + sign * friction * ty,
        )
        turn = sign * tz - friction * (tip_x + tip_y)
        rows += [
            turn + about_x + about_y,
            turn + about_x - about_y,
            turn - about_x + about_y,
            turn - about_x - about_y,
        ]
    return jnp.stack([*rows, least_normal - fz], axis=1).reshape(-1)


def violation(inequality: Array) -> Array:
    """The positive part of numbers that should not be positive: a residual that turns an inequality
    into a soft cost.

    Args:
      inequality: the numbers, of any shape and unit.

    Returns:
      ``max(inequality, 0)``, of the same shape, in the same unit.

    Examples:
      >>> print(optimal_control.violation(jnp.array([-1.0, 2.0])))
      [0. 2.]
    """
    return jnp.maximum(inequality, 0)
