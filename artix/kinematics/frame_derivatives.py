"""Derivatives of the motion of one frame by the configuration and the velocity, in any axes."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.kinematics.axes import Axes, check_axes, origin, to_axes
from artix.kinematics.bodies import Placement
from artix.kinematics.frames import link_of_frame, locate_frame, mask_column
from artix.kinematics.joint_jacobians import hessian_columns
from artix.kinematics.link_derivatives import (
    PointMotions,
    acceleration_by_configuration,
    acceleration_by_velocity,
    point_jacobians,
    point_motions,
    velocity_by_configuration,
)
from artix.kinematics.links import link_frames
from artix.kinematics.solve import Motion, generalized_motions, kinematics, root_motion
from artix.math import spatial
from artix.math.arrays import block_matrix
from artix.model.articulation import Articulation, State

Array = jax.Array


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

    placement: Placement
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
    places = (above @ Placement.from_poses(parent)).times_inverse(Placement.from_poses(child))
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
