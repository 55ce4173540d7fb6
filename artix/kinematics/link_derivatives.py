"""Closed-form derivatives of the velocities and accelerations of points, such as the links' centres of mass."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.kinematics.displacements import NUM_ROOT, changes_by_displacement, changes_by_velocity, generalized_columns
from artix.kinematics.solve import Kinematics, Motion, body_accelerations, dof_motions, kinematics, link_centers
from artix.math import spatial
from artix.math.arrays import take
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
