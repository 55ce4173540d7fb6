"""Closed-form derivatives of the motion of frames with respect to the configuration and the
velocity.

The frame, the point and the axes are as in :func:`artix.frame_velocity`. The rows of a matrix are
the six numbers that the differentiated function returns, so they include the motion of ``"local"``
axes.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.kinematics.columns import (
    NUM_ROOT,
    changes_by_displacement,
    changes_by_velocity,
    generalized_columns,
    hessian_columns,
)
from artix.kinematics.forward import (
    Kinematics,
    body_accelerations,
    dof_motions,
    generalized_motions,
    kinematics,
    root_motion,
)
from artix.kinematics.frames import (
    Axes,
    Frame,
    Frames,
    Offset,
    check_axes,
    check_single,
    cross_rows,
    link_frames,
    link_of_frame,
    locate_frame,
    mask_column,
    origin,
    per_frame,
    to_axes,
)
from artix.math import spatial
from artix.math.arrays import block_matrix, take
from artix.math.spatial import Motion, Transforms
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector

Array = jax.Array


class FrameVelocityDerivatives(NamedTuple):
    """Derivatives of the velocity of a frame [m/s, rad/s]: [6, nv] each, or [L, 6, nv] for every
    link.

    Attributes:
      configuration: with respect to the configuration along :func:`artix.integrate`, per m or rad.
      velocity: with respect to the generalised velocity, the frame's Jacobian [m or 1].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.kinematics.frame_velocity_derivatives(arm, state, "tool")
      >>> print(derivatives.configuration.shape, derivatives.velocity.shape)
      (6, 7) (6, 7)
    """

    configuration: Array
    velocity: Array


class FrameAccelerationDerivatives(NamedTuple):
    """Derivatives of the acceleration of a frame [m/s^2, rad/s^2]: [6, nv] each, or [L, 6, nv] for
    every link.

    Attributes:
      configuration: with respect to the configuration along :func:`artix.integrate`, per m or rad.
      velocity: with respect to the generalised velocity, per m/s or rad/s.
      acceleration: with respect to the generalised acceleration, the frame's Jacobian [m or 1].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.kinematics.frame_acceleration_derivatives(
      ...     arm, state, jnp.zeros(7), "tool"
      ... )
      >>> print([array.shape for array in derivatives])
      [(6, 7), (6, 7), (6, 7)]
    """

    configuration: Array
    velocity: Array
    acceleration: Array


class PointMotions(NamedTuple):
    """Motions of the unit displacements about the reference point, [3, 1 or k, c], and of points
    they move, [3, k, 1].

    All are relative to the inertial frame that moves with the root's centre of mass.
    """

    motions: Motion
    first: Motion
    second: Motion
    rate: Motion
    point: Array
    velocity: Array
    angular: Array
    acceleration: Array
    """Classical accelerations of the points."""
    angular_acceleration: Array
    moved: Array
    """Which point moves with which displacement, [1, k, c]."""


class _Frames(NamedTuple):
    """k frames, the motions that the derivatives at their points consist of, and the velocities of
    the points.
    """

    placement: Transforms
    points: PointMotions
    jacobian: Array
    """[6, k, nv]"""
    velocity: Array
    """[3, k, 1]"""
    angular: Array
    """[3, k, 1]"""
    axes: Axes


@quantity
def frame_velocity_derivatives(
    articulation: Articulation,
    state: State,
    frame: Frames = None,
    offset: Offset = None,
    *,
    axes: Axes = "world_aligned",
) -> FrameVelocityDerivatives:
    """Derivatives of :func:`artix.frame_velocity`, Pinocchio's ``getFrameVelocityDerivatives``.

    The first three rows are ``getPointVelocityDerivatives``.

    Args:
      frame: which frame, every link by default; see :func:`artix.frame_velocity`.
      offset: which point; see :func:`artix.frame_velocity`.
      axes: which axes; see :func:`artix.frame_velocity`.

    Returns:
      The derivatives with respect to the configuration (along :func:`artix.integrate`) and the
      generalised velocity, [6, nv] each; [L, 6, nv] for every link, [k, 6, nv] for several frames.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: ``axes`` is not one of the three.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.kinematics.frame_velocity_derivatives(arm, state, "tool")
      >>> print(
      ...     jnp.allclose(
      ...         derivatives.velocity, artix.frame_jacobian(arm, state, "tool"), atol=1e-5
      ...     )
      ... )
      True
    """
    frames = _locate(articulation, state, None, frame, offset, axes)
    change = _velocity_by_configuration(articulation, frames)
    parts = (
        _in_axes(frames, change, frames.velocity, frames.angular),
        to_axes(frames.placement, frames.jacobian, frames.axes),
    )
    return FrameVelocityDerivatives(*(per_frame(part, frame) for part in parts))


@quantity
def frame_acceleration_derivatives(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    frame: Frames = None,
    offset: Offset = None,
    *,
    axes: Axes = "world_aligned",
    classical: bool = False,
) -> FrameAccelerationDerivatives:
    """Derivatives of :func:`artix.frame_acceleration`, Pinocchio's
    ``getFrameAccelerationDerivatives``.

    For classical accelerations the first three rows are ``getPointClassicAccelerationDerivatives``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      frame: which frame, every link by default; see :func:`artix.frame_velocity`.
      offset: which point; see :func:`artix.frame_velocity`.
      axes: which axes; see :func:`artix.frame_velocity`.
      classical: whether to differentiate classical accelerations, see
        :func:`artix.frame_acceleration`.

    Returns:
      The derivatives with respect to the configuration (along :func:`artix.integrate`), the
      generalised velocity and the generalised acceleration, [6, nv] each; [L, 6, nv] for every
      link, [k, 6, nv] for several frames.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: ``axes`` is not one of the three.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.kinematics.frame_acceleration_derivatives(
      ...     arm, state, jnp.zeros(7), "tool"
      ... )
      >>> print(
      ...     jnp.allclose(
      ...         derivatives.acceleration, artix.frame_jacobian(arm, state, "tool"), atol=1e-5
      ...     )
      ... )
      True
    """
    frames = _locate(articulation, state, acceleration, frame, offset, axes)
    points = frames.points
    jacobian = frames.jacobian
    v, omega = frames.velocity, frames.angular
    linear, alpha = points.acceleration, points.angular_acceleration
    by_configuration = _columns(articulation, points, acceleration_changes(points))
    by_velocity = _columns(articulation, points, acceleration_changes_by_velocity(points))
    if frames.axes == "world":  # The point does not move with the frame.
        moved = jacobian[:3]
        of_point = spatial.cross(alpha, moved) + spatial.cross(omega, spatial.cross(omega, moved))
        by_configuration = by_configuration.at[:3].add(-of_point)
    if not classical:
        linear = linear - spatial.cross(omega, v)
        change = _velocity_by_configuration(articulation, frames)
        by_configuration = by_configuration.at[:3].add(-_cross_change(change, v, omega))
        by_velocity = by_velocity.at[:3].add(-_cross_change(jacobian, v, omega))
    parts = (
        _in_axes(frames, by_configuration, linear, alpha),
        to_axes(frames.placement, by_velocity, frames.axes),
        to_axes(frames.placement, jacobian, frames.axes),
    )
    return FrameAccelerationDerivatives(*(per_frame(part, frame) for part in parts))


@quantity
def frame_kinematic_hessian(
    articulation: Articulation,
    state: State,
    frame: Frames = None,
    offset: Offset = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Derivative of :func:`artix.frame_jacobian` with respect to the configuration.

    Its product with nu over the last axis is :func:`artix.frame_jacobian_rate`. Pinocchio's
    ``getFrameKinematicHessian``; Haviland and Corke, *Manipulator differential kinematics*,
    Robotics and Automation Magazine 2023.

    Args:
      frame: which frame, every link by default; see :func:`artix.frame_velocity`.
      offset: which point; see :func:`artix.frame_velocity`.
      axes: which axes; see :func:`artix.frame_velocity`.

    Returns:
      ``[:, i, j]`` is the derivative of column i while the configuration moves along entry j, shape
      [6, nv, nv] [m or 1]; [L, 6, nv, nv] for every link, [k, 6, nv, nv] for several frames.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: ``axes`` is not one of the three.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> hessian = artix.kinematics.frame_kinematic_hessian(arm, state, "tool")
      >>> rate = artix.frame_jacobian_rate(arm, state, "tool")
      >>> print(jnp.allclose(hessian @ artix.generalized_velocity(arm, state), rate, atol=1e-4))
      True
    """
    axes = check_axes(axes)
    tree = articulation.topology
    kin = kinematics(articulation, state)
    body, placement = locate_frame(articulation, kin, frame, offset)
    point = origin(kin, placement, axes)
    support = jnp.asarray(mask_column(tree, body)).T.astype(point.dtype)
    support = jnp.pad(support, ((0, 0), (tree.num_base_dofs, 0)), constant_values=1)
    motions = generalized_motions(articulation, kin)[:, None] * support[None]
    columns = hessian_columns(tree, Motion.from_rows(motions))
    jacobian = jnp.concatenate(
        [motions[:3] + spatial.cross(motions[3:], point[..., None]), motions[3:]]
    )
    linear = columns[:3] + spatial.cross(columns[3:], point[..., None, None])
    if axes != "world":
        linear = linear + spatial.cross(motions[3:, ..., None], jacobian[:3, :, None])
    columns = jnp.concatenate([linear, columns[3:]])
    if axes == "local":  # The axes rotate with the frame.
        columns = columns - cross_rows(jacobian[3:, :, None], jacobian[..., None])
    return per_frame(to_axes(placement, columns, axes), frame)


@quantity
def frame_kinematic_regressor(
    articulation: Articulation,
    state: State,
    frame: Frame,
    offset: Offset = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Sensitivity of a frame's pose to errors in the joint placements, for kinematic calibration.

    Pinocchio's ``computeFrameKinematicRegressor`` and ``computeJointKinematicRegressor``.

    Args:
      frame: the name of a link or additional frame, or a link's index; see
        :func:`artix.frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.
      axes: axes of the frame's displacement, see :func:`artix.frame_jacobian`.

    Returns:
      Shape [6, 6 (L - 1)] [m or 1], six columns per link 1 .. L-1: the displacement of the frame
      (linear, then angular) per displacement of the link's placement at joint position zero, in the
      axes of that placement; zero for links that do not carry the frame.

    Raises:
      KeyError: no link or frame has this name.
      TypeError: these are several frames.
      ValueError: ``axes`` is not one of the three.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> regressor = artix.kinematics.frame_kinematic_regressor(arm, state, "tool")
      >>> # by how much the tool rises if a joint sits higher
      >>> lift = regressor[2].reshape(-1, 6)[:, 2]
      >>> print(regressor.shape, lift)
      (6, 48) [1. 1. 1. 1. 1. 1. 1. 1.]
    """
    check_single(frame)
    axes = check_axes(axes)
    tree = articulation.topology
    kin = kinematics(articulation, state)
    _, placement = locate_frame(articulation, kin, frame, offset)
    point = origin(kin, placement, axes)
    above = link_frames(tree, kin).take(np.maximum(tree.parent[1:], 0))
    parent = Transforms.from_poses(articulation.joint_parent_pose[1:])
    child = Transforms.from_poses(articulation.joint_child_pose[1:])
    places = (above @ parent).times_inverse(child)
    rotation = spatial.rotation_matrix(places.rotation)
    arm = jnp.broadcast_to(point, places.position.shape) - places.position
    by_rotation = -spatial.multiply(spatial.skew(arm), rotation)
    blocks = block_matrix(rotation, by_rotation, jnp.zeros_like(rotation), rotation)
    carries = jnp.asarray(tree.link_ancestors)[1:, link_of_frame(articulation, frame)[0][0]]
    rows = jnp.moveaxis(blocks * carries[None, None].astype(point.dtype), -1, 1)
    return to_axes(placement, rows.reshape(6, -1), axes)


# --- internals ----------------------------------------------------------------------------------


def _locate(
    articulation: Articulation,
    state: State,
    acceleration: Array | None,
    frame: Frames,
    offset: Offset,
    axes: Axes,
) -> _Frames:
    axes = check_axes(axes)
    kin = kinematics(articulation, state)
    body, placement = locate_frame(articulation, kin, frame, offset)
    points = point_motions(
        articulation, kin, state, acceleration, origin(kin, placement, axes), body
    )
    flight = root_motion(articulation.topology, state.root_velocity).linear
    jacobian = _columns(articulation, points, moved_points(points), translation=True)
    return _Frames(
        placement, points, jacobian, points.velocity + flight[..., None], points.angular, axes
    )


def _velocity_by_configuration(articulation: Articulation, frames: _Frames) -> Array:
    """Derivatives of the velocities about the origins of the axes, in world axes, [6, k, nv]."""
    rows = _columns(articulation, frames.points, velocity_changes(frames.points))
    if frames.axes != "world":
        return rows
    # The point does not move with the frame.
    return rows.at[:3].add(-spatial.cross(frames.angular, frames.jacobian[:3]))


def _in_axes(frames: _Frames, rows: Array, linear: Array, angular: Array) -> Array:
    """From derivatives of vectors in world axes to derivatives of their components in the axes,
    which may move.
    """
    if frames.axes != "local":
        return rows
    rotation = frames.jacobian[3:]
    of_axes = jnp.concatenate([spatial.cross(rotation, linear), spatial.cross(rotation, angular)])
    return to_axes(frames.placement, rows - of_axes, frames.axes)


def _cross_change(change: Array, linear: Array, angular: Array) -> Array:
    """Changes [3, k, nv] of ``angular x linear`` for changes [6, k, nv] of the velocity."""
    return spatial.cross(change[3:], linear) + spatial.cross(angular, change[:3])


def point_motions(
    articulation: Articulation,
    kin: Kinematics,
    state: State,
    acceleration: Array | None,
    point: Array,
    body,
) -> PointMotions:
    """The motions that derivatives at points [3, k] consist of; the points are fixed in the bodies
    ``body`` [k].
    """
    tree = articulation.topology
    if acceleration is not None:
        check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    joints = dof_motions(tree, kin)
    velocities, accelerations = body_accelerations(tree, joints, state, acceleration)
    motions, first, second, rate = moving_displacements(
        articulation, kin, joints, velocities, accelerations
    )
    v, omega = velocities.take(body)
    a, alpha = accelerations.take(body)
    velocity = v + spatial.cross(omega, point)
    linear = a + spatial.cross(alpha, point) + spatial.cross(omega, velocity)
    moves = take(jnp.asarray(tree.dof_moves_body), body)
    moved = jnp.concatenate([jnp.ones_like(moves, shape=(NUM_ROOT, moves.shape[1])), moves]).T[None]
    point, velocity, omega, linear, alpha = (
        x[..., None] for x in (point, velocity, omega, linear, alpha)
    )
    moved = moved.astype(point.dtype)
    return PointMotions(motions, first, second, rate, point, velocity, omega, linear, alpha, moved)


def moving_displacements(
    articulation: Articulation,
    kin: Kinematics,
    joints: Motion,
    velocities: Motion,
    accelerations: Motion,
) -> list[Motion]:
    """Motions S of the root's rotations and the DOFs, then ``first``, ``second`` and ``rate``,
    [3, 1, 3 + n] each.

    Seen from the links, unit displacements change the velocities by ``first`` and the accelerations
    by ``second - v x first``; unit velocities change the accelerations by ``rate - v x S``.
    """
    tree = articulation.topology
    count = NUM_ROOT + tree.num_dofs
    changes = changes_by_displacement(tree, kin, joints, velocities, accelerations)
    rate = changes_by_velocity(tree, joints, velocities, changes.first)
    return [Motion(*(part[:, None, :count] for part in motion)) for motion in (*changes, rate)]


def moved_points(points: PointMotions) -> Array:
    """How unit displacements move points that they carry along, [6, k, c]."""
    linear = points.motions.linear + spatial.cross(points.motions.angular, points.point)
    return jnp.concatenate([linear, jnp.broadcast_to(points.motions.angular, linear.shape)])


def velocity_changes(points: PointMotions) -> Array:
    """How unit displacements change the velocities of points that they carry along, [6, k, c]."""
    motions, first = points.motions, points.first
    linear = (
        first.linear
        + spatial.cross(first.angular, points.point)
        + spatial.cross(motions.angular, points.velocity)
    )
    return jnp.concatenate([linear, first.angular + spatial.cross(motions.angular, points.angular)])


def acceleration_changes(points: PointMotions) -> Array:
    """How unit displacements change the classical accelerations of points that they carry along,
    [6, k, c].
    """
    motions, first, second = points.motions, points.first, points.second
    linear = (
        second.linear
        + spatial.cross(second.angular, points.point)
        + 2 * spatial.cross(first.angular, points.velocity)
        + spatial.cross(motions.angular, points.acceleration)
    )
    angular = (
        second.angular
        - spatial.cross(points.angular, first.angular)
        + spatial.cross(motions.angular, points.angular_acceleration)
    )
    return jnp.concatenate([linear, angular])


def acceleration_changes_by_velocity(points: PointMotions) -> Array:
    """How unit velocities change the classical accelerations of points that they move,
    [6, k, c].
    """
    angular = points.motions.angular
    rate = points.rate
    linear = (
        rate.linear
        + spatial.cross(rate.angular, points.point)
        + 2 * spatial.cross(angular, points.velocity)
    )
    return jnp.concatenate([linear, rate.angular - spatial.cross(points.angular, angular)])


def _columns(
    articulation: Articulation, points: PointMotions, rows: Array, translation: bool = False
) -> Array:
    """From [6, k, 3 + n] to [6, k, nv]; the columns of the root's translation are unit vectors, or
    zero.
    """
    tree = articulation.topology
    columns = generalized_columns(tree, rows * points.moved)
    if translation and tree.num_base_dofs:
        unit = jnp.eye(6, NUM_ROOT, dtype=rows.dtype)
        columns = columns.at[..., :NUM_ROOT].set(unit[:, None])
    return columns
