"""Closed-form derivatives of the velocities and accelerations of points, such as the links' centres of mass."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.kinematics.displacements import NUM_ROOT, changes_by_displacement, changes_by_velocity, generalized_columns
from artix.kinematics.forward import (
    Kinematics,
    body_accelerations,
    dof_motions,
    generalized_motions,
    kinematics,
    link_centers,
    root_motion,
)
from artix.kinematics.frames import (
    Axes,
    check_axes,
    link_frames,
    link_of_frame,
    locate_frame,
    mask_column,
    origin,
    to_axes,
)
from artix.kinematics.joint_jacobians import hessian_columns
from artix.math import spatial
from artix.math.arrays import block_matrix, take
from artix.math.spatial import Motion, Transforms
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector

Array = jax.Array


class LinkVelocityDerivatives(NamedTuple):
    """Derivatives of the velocities of all links [m/s, rad/s], [L, 6, nv] each.

    Attributes:
      configuration: by the configuration along :func:`artix.integrate`, per m or rad.
      velocity: the Jacobians of the links' centres of mass [m or 1].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> derivatives = artix.kinematics.link_velocity_derivatives(arm, artix.neutral_state(arm))
      >>> print([array.shape for array in derivatives])  # by configuration and velocity
      [(9, 6, 7), (9, 6, 7)]
    """

    configuration: Array
    velocity: Array


class LinkAccelerationDerivatives(NamedTuple):
    """Derivatives of the accelerations of all links [m/s^2, rad/s^2], [L, 6, nv] each.

    Attributes:
      configuration: by the configuration along :func:`artix.integrate`, per m or rad.
      velocity: by the generalised velocity, per m/s or rad/s.
      acceleration: the Jacobians of the links' centres of mass [m or 1].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> derivatives = artix.kinematics.link_acceleration_derivatives(arm, artix.neutral_state(arm), jnp.zeros(7))
      >>> print([array.shape for array in derivatives])  # by configuration, velocity and acceleration
      [(9, 6, 7), (9, 6, 7), (9, 6, 7)]
    """

    configuration: Array
    velocity: Array
    acceleration: Array


class PointMotions(NamedTuple):
    """Motions of the unit displacements about the reference point, [3, 1 or k, c], and of points they move, [3, k, 1].

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


@quantity
def link_velocity_derivatives(articulation: Articulation, state: State) -> LinkVelocityDerivatives:
    """Derivatives of :func:`artix.link_velocities`, Pinocchio's ``getJointVelocityDerivatives`` for all links at once.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.

    Returns:
      The derivatives of each link's velocity (centre of mass, world axes, linear first) by the configuration and by the
      generalised velocity, shape [L, 6, nv] each.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``.velocity @ nu`` are the link velocities.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.kinematics.link_velocity_derivatives(arm, state)
      >>> velocities = derivatives.velocity @ artix.generalized_velocity(arm, state)
      >>> print(jnp.allclose(velocities, artix.link_velocities(arm, state), atol=1e-5))
      True
    """
    points = _link_motions(articulation, state, None)
    return LinkVelocityDerivatives(
        velocity_by_configuration(articulation, points), point_jacobians(articulation, points)
    )


@quantity
def link_acceleration_derivatives(
    articulation: Articulation, state: State, acceleration: Array
) -> LinkAccelerationDerivatives:
    """Derivatives of :func:`artix.link_accelerations`, Pinocchio's ``getJointAccelerationDerivatives`` for all links.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      The derivatives of each link's acceleration (classical, of the centre of mass, world axes, linear first) by the
      configuration, the generalised velocity and the generalised acceleration, shape [L, 6, nv] each.

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.kinematics.link_acceleration_derivatives(arm, state, jnp.zeros(7))
      >>> jacobian = artix.dense_jacobian(arm, state).reshape(8, 6, 7)  # of all links but the fixed root
      >>> print(jnp.allclose(derivatives.acceleration[1:], jacobian, atol=1e-5))
      True
    """
    points = _link_motions(articulation, state, acceleration)
    return LinkAccelerationDerivatives(
        acceleration_by_configuration(articulation, points),
        acceleration_by_velocity(articulation, points),
        point_jacobians(articulation, points),
    )


def _link_motions(articulation: Articulation, state: State, acceleration: Array | None) -> PointMotions:
    kin = kinematics(articulation, state)
    center = link_centers(articulation, kin)
    return point_motions(articulation, kin, state, acceleration, center, articulation.topology.link_body)


def point_motions(
    articulation: Articulation, kin: Kinematics, state: State, acceleration: Array | None, point: Array, body
) -> PointMotions:
    """The motions that derivatives at points [3, k] consist of; the points are fixed in the bodies ``body`` [k]."""
    tree = articulation.topology
    if acceleration is not None:
        check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    joints = dof_motions(tree, kin)
    velocities, accelerations = body_accelerations(tree, joints, state, acceleration)
    motions, first, second, rate = moving_displacements(articulation, kin, joints, velocities, accelerations)
    (v, omega), (a, alpha) = velocities.take(body), accelerations.take(body)
    velocity = v + spatial.cross(omega, point)
    linear = a + spatial.cross(alpha, point) + spatial.cross(omega, velocity)
    moves = take(jnp.asarray(tree.dof_moves_body), body)
    moved = jnp.concatenate([jnp.ones_like(moves, shape=(NUM_ROOT, moves.shape[1])), moves]).T[None]
    point, velocity, omega, linear, alpha = (x[..., None] for x in (point, velocity, omega, linear, alpha))
    moved = moved.astype(point.dtype)
    return PointMotions(motions, first, second, rate, point, velocity, omega, linear, alpha, moved)


def moving_displacements(
    articulation: Articulation, kin: Kinematics, joints: Motion, velocities: Motion, accelerations: Motion
) -> list[Motion]:
    """Motions S of the root's rotations and the DOFs, then ``first``, ``second`` and ``rate``, [3, 1, 3 + n] each.

    Seen from the links, unit displacements change the velocities by ``first`` and the accelerations by
    ``second - v x first``; unit velocities change the accelerations by ``rate - v x S``.
    """
    tree = articulation.topology
    count = NUM_ROOT + tree.num_dofs
    changes = changes_by_displacement(tree, kin, joints, velocities, accelerations)
    rate = changes_by_velocity(tree, joints, velocities, changes.first)
    return [Motion(*(part[:, None, :count] for part in motion)) for motion in (*changes, rate)]


def velocity_by_configuration(articulation: Articulation, points: PointMotions) -> Array:
    """Derivatives of the points' velocities, [k, 6, nv]."""
    return _columns(articulation, points, velocity_changes(points))


def acceleration_by_configuration(articulation: Articulation, points: PointMotions) -> Array:
    """Derivatives of the points' classical accelerations, [k, 6, nv]."""
    return _columns(articulation, points, acceleration_changes(points))


def acceleration_by_velocity(articulation: Articulation, points: PointMotions) -> Array:
    """Derivatives of the points' classical accelerations, [k, 6, nv]."""
    return _columns(articulation, points, acceleration_changes_by_velocity(points))


def point_jacobians(articulation: Articulation, points: PointMotions) -> Array:
    """Jacobians of the points, [k, 6, nv]."""
    return _columns(articulation, points, moved_points(points), translation=True)


def moved_points(points: PointMotions) -> Array:
    """How unit displacements move points that they carry along, [6, k, c]."""
    linear = points.motions.linear + spatial.cross(points.motions.angular, points.point)
    return jnp.concatenate([linear, jnp.broadcast_to(points.motions.angular, linear.shape)])


def velocity_changes(points: PointMotions) -> Array:
    """How unit displacements change the velocities of points that they carry along, [6, k, c]."""
    motions, first = points.motions, points.first
    linear = first.linear + spatial.cross(first.angular, points.point) + spatial.cross(motions.angular, points.velocity)
    return jnp.concatenate([linear, first.angular + spatial.cross(motions.angular, points.angular)])


def acceleration_changes(points: PointMotions) -> Array:
    """How unit displacements change the classical accelerations of points that they carry along, [6, k, c]."""
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
    """How unit velocities change the classical accelerations of points that they move, [6, k, c]."""
    angular, rate = points.motions.angular, points.rate
    linear = rate.linear + spatial.cross(rate.angular, points.point) + 2 * spatial.cross(angular, points.velocity)
    return jnp.concatenate([linear, rate.angular - spatial.cross(points.angular, angular)])


def _columns(articulation: Articulation, points: PointMotions, rows: Array, translation: bool = False) -> Array:
    """From [6, k, 3 + n] to [k, 6, nv]; the columns of the root's translation are unit vectors, or zero."""
    tree = articulation.topology
    columns = generalized_columns(tree, jnp.moveaxis(rows * points.moved, 0, 1))
    if translation and tree.num_base_dofs:
        unit = jnp.eye(6, NUM_ROOT, dtype=rows.dtype)
        columns = columns.at[..., :NUM_ROOT].set(unit[None])
    return columns


class FrameVelocityDerivatives(NamedTuple):
    """Derivatives of the velocity of a frame [m/s, rad/s], [6, nv] each.

    Attributes:
      configuration: by the configuration along :func:`artix.integrate`, per m or rad.
      velocity: the frame's Jacobian [m or 1].

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
    """Derivatives of the acceleration of a frame [m/s^2, rad/s^2], [6, nv] each.

    Attributes:
      configuration: by the configuration along :func:`artix.integrate`, per m or rad.
      velocity: by the generalised velocity, per m/s or rad/s.
      acceleration: the frame's Jacobian [m or 1].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.kinematics.frame_acceleration_derivatives(arm, state, jnp.zeros(7), "tool")
      >>> print([array.shape for array in derivatives])  # by configuration, velocity and acceleration
      [(6, 7), (6, 7), (6, 7)]
    """

    configuration: Array
    velocity: Array
    acceleration: Array


class _Frame(NamedTuple):
    """A frame, the motions that the derivatives at its point consist of, and its velocity [3, 1]."""

    placement: Transforms
    points: PointMotions
    jacobian: Array
    velocity: Array
    angular: Array


@quantity
def frame_velocity_derivatives(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> FrameVelocityDerivatives:
    """Derivatives of :func:`artix.frame_velocity`, Pinocchio's ``getFrameVelocityDerivatives``.

    They differentiate the six numbers that ``frame_velocity`` returns, so they include the motion of ``"local"`` axes.
    The first three rows are ``getPointVelocityDerivatives``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      frame: the name of a link or additional frame, or a link's index; see :func:`artix.frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.
      axes: see :func:`artix.frame_jacobian`.

    Returns:
      The derivatives by the configuration (along :func:`artix.integrate`) and the generalised velocity, [6, nv] each.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: ``.velocity == frame_jacobian(...)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.kinematics.frame_velocity_derivatives(arm, state, "tool")
      >>> print(jnp.allclose(derivatives.velocity, artix.frame_jacobian(arm, state, "tool"), atol=1e-5))
      True
    """
    located = _locate(articulation, state, None, frame, offset, axes)
    by_configuration = _velocity_by_configuration(articulation, located, axes)
    return FrameVelocityDerivatives(
        _in_axes(located, by_configuration, located.velocity, located.angular, axes),
        to_axes(located.placement, located.jacobian, axes),
    )


@quantity
def frame_acceleration_derivatives(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
    classical: bool = False,
) -> FrameAccelerationDerivatives:
    """Derivatives of :func:`artix.frame_acceleration`, Pinocchio's ``getFrameAccelerationDerivatives``.

    For classical accelerations the first three rows are ``getPointClassicAccelerationDerivatives``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      frame: the name of a link or additional frame, or a link's index; see :func:`artix.frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.
      axes: see :func:`artix.frame_jacobian`.
      classical: whether to differentiate classical accelerations, see :func:`artix.frame_acceleration`.

    Returns:
      The derivatives by the configuration (along :func:`artix.integrate`), the generalised velocity and the generalised
      acceleration, shape [6, nv] each.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: ``.acceleration == frame_jacobian(...)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.kinematics.frame_acceleration_derivatives(arm, state, jnp.zeros(7), "tool")
      >>> print(jnp.allclose(derivatives.acceleration, artix.frame_jacobian(arm, state, "tool"), atol=1e-5))
      True
    """
    located = _locate(articulation, state, acceleration, frame, offset, axes)
    points, jacobian, v, omega = located.points, located.jacobian, located.velocity, located.angular
    linear, alpha = points.acceleration[..., 0], points.angular_acceleration[..., 0]
    by_configuration = acceleration_by_configuration(articulation, points)[0]
    by_velocity = acceleration_by_velocity(articulation, points)[0]
    if axes == "world":  # The point does not move with the frame.
        of_point = spatial.cross(alpha, jacobian[:3]) + spatial.cross(omega, spatial.cross(omega, jacobian[:3]))
        by_configuration = by_configuration.at[:3].add(-of_point)
    if not classical:
        linear = linear - spatial.cross(omega, v)
        velocity_change = _velocity_by_configuration(articulation, located, axes)
        by_configuration = by_configuration.at[:3].add(-_cross_change(velocity_change, v, omega))
        by_velocity = by_velocity.at[:3].add(-_cross_change(jacobian, v, omega))
    return FrameAccelerationDerivatives(
        _in_axes(located, by_configuration, linear, alpha, axes),
        to_axes(located.placement, by_velocity, axes),
        to_axes(located.placement, jacobian, axes),
    )


@quantity
def frame_kinematic_hessian(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Derivative of :func:`artix.frame_jacobian` by the configuration, Pinocchio's ``getFrameKinematicHessian``.

    Haviland and Corke, *Manipulator differential kinematics*, Robotics and Automation Magazine 2023.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: the name of a link or additional frame, or a link's index; see :func:`artix.frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.
      axes: see :func:`artix.frame_jacobian`.

    Returns:
      ``[:, i, j]`` is the derivative of column i while the configuration moves along entry j, shape [6, nv, nv]
      [m or 1].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: its product with nu over the last axis is ``frame_jacobian_rate(...)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> hessian = artix.kinematics.frame_kinematic_hessian(arm, state, "tool")
      >>> rate = artix.frame_jacobian_rate(arm, state, "tool")
      >>> print(jnp.allclose(hessian @ artix.generalized_velocity(arm, state), rate, atol=1e-4))
      True
    """
    check_axes(axes)
    tree = articulation.topology
    kin = kinematics(articulation, state)
    body, placement = locate_frame(articulation, kin, frame, offset)
    point = origin(kin, placement, axes)
    support = mask_column(tree, body).T.astype(point.dtype)
    support = jnp.pad(support, ((0, 0), (tree.num_base_dofs, 0)), constant_values=1)
    motions = generalized_motions(articulation, kin) * support
    columns = hessian_columns(tree, Motion.from_rows(motions))
    jacobian = jnp.concatenate([motions[:3] + spatial.cross(motions[3:], point), motions[3:]])
    linear = columns[:3] + spatial.cross(columns[3:], point[..., None])
    if axes != "world":
        linear = linear + spatial.cross(motions[3:, :, None], jacobian[:3, None])
    columns = jnp.concatenate([linear, columns[3:]])
    if axes != "local":
        return columns
    # The axes rotate with the frame.
    rotation, rows = jacobian[3:, None], jacobian[:, :, None]
    columns = columns - jnp.concatenate([spatial.cross(rotation, rows[:3]), spatial.cross(rotation, rows[3:])])
    return to_axes(placement, columns.reshape(6, -1), axes).reshape(columns.shape)


@quantity
def frame_kinematic_regressor(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Sensitivity of a frame's pose to errors in the joint placements, for kinematic calibration.

    Pinocchio's ``computeFrameKinematicRegressor`` and ``computeJointKinematicRegressor``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: the name of a link or additional frame, or a link's index; see :func:`artix.frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.
      axes: axes of the frame's displacement, see :func:`artix.frame_jacobian`.

    Returns:
      Shape [6, 6 (L - 1)] [m or 1], six columns per link 1 .. L-1: the displacement of the frame (linear, then angular)
      per displacement of the link's placement at joint position zero, in the axes of that placement; zero for links
      that do not carry the frame.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> regressor = artix.kinematics.frame_kinematic_regressor(arm, state, "tool")
      >>> lift = regressor[2].reshape(-1, 6)[:, 2]  # by how much the tool rises if a joint sits higher
      >>> print(regressor.shape, lift)
      (6, 48) [1. 1. 1. 1. 1. 1. 1. 1.]
    """
    check_axes(axes)
    tree = articulation.topology
    kin = kinematics(articulation, state)
    _, placement = locate_frame(articulation, kin, frame, offset)
    point = origin(kin, placement, axes)
    above = link_frames(tree, kin).take(np.maximum(tree.parent[1:], 0))
    parent, child = articulation.joint_parent_pose[1:], articulation.joint_child_pose[1:]
    places = (above @ Transforms.from_poses(parent)).times_inverse(Transforms.from_poses(child))
    rotation = spatial.rotation_matrix(places.rotation)
    arm = jnp.broadcast_to(point, places.position.shape) - places.position
    by_rotation = -spatial.multiply(spatial.skew(arm), rotation)
    blocks = block_matrix(rotation, by_rotation, jnp.zeros_like(rotation), rotation)
    carries = jnp.asarray(tree.link_ancestors)[1:, link_of_frame(articulation, frame)[0][0]]
    rows = jnp.moveaxis(blocks * carries[None, None].astype(point.dtype), -1, 1)
    return to_axes(placement, rows.reshape(6, -1), axes)


def _locate(
    articulation: Articulation,
    state: State,
    acceleration: Array | None,
    frame: str | int | Array,
    offset: Array | None,
    axes: Axes,
) -> _Frame:
    check_axes(axes)
    kin = kinematics(articulation, state)
    body, placement = locate_frame(articulation, kin, frame, offset)
    point = origin(kin, placement, axes)
    points = point_motions(articulation, kin, state, acceleration, point, body)
    flight = root_motion(articulation.topology, state.root_velocity).linear
    jacobian = point_jacobians(articulation, points)[0]
    return _Frame(placement, points, jacobian, points.velocity[..., 0] + flight, points.angular[..., 0])


def _velocity_by_configuration(articulation: Articulation, located: _Frame, axes: Axes) -> Array:
    """Derivative of the velocity about the origin of the axes, in world axes, [6, nv]."""
    rows = velocity_by_configuration(articulation, located.points)[0]
    if axes != "world":
        return rows
    # The point does not move with the frame.
    return rows.at[:3].add(-spatial.cross(located.angular, located.jacobian[:3]))


def _in_axes(located: _Frame, rows: Array, linear: Array, angular: Array, axes: Axes) -> Array:
    """Converts derivatives of a vector in world axes to those of its components in ``axes``, which may move."""
    if axes != "local":
        return rows
    rotation = located.jacobian[3:]
    of_axes = jnp.concatenate([spatial.cross(rotation, linear), spatial.cross(rotation, angular)])
    return to_axes(located.placement, rows - of_axes, axes)


def _cross_change(change: Array, linear: Array, angular: Array) -> Array:
    """Change [3, k] of ``angular x linear`` for changes [6, k] of the velocity."""
    return spatial.cross(change[3:], linear) + spatial.cross(angular, change[:3])
