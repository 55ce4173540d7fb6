"""Placements, velocities and accelerations of the link frames, the counterparts of Pinocchio's joint quantities.

In Pinocchio a body has the frame of its joint; here it has the link frame. The functions of
:mod:`artix.kinematics.links` refer to centres of mass instead, as PhysX does.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.kinematics.axes import Axes, check_axes, motion_in_axes, origin, to_axes
from artix.kinematics.bodies import Placement
from artix.kinematics.links import link_frames
from artix.kinematics.solve import (
    Kinematics,
    body_accelerations,
    dof_motions,
    kinematics,
    root_motion,
    state_velocities,
)
from artix.math import spatial
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector

Array = jax.Array


@quantity
def joint_placements(articulation: Articulation, state: State) -> Array:
    """Poses of the link frames in the frames of their parent links, Pinocchio's ``liMi``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.

    Returns:
      Positions [m] and quaternions xyzw, shape [L, 7]; the root's is its pose in the world.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: composed along the tree they are ``link_poses(a, s)``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> placements = artix.kinematics.joint_placements(pendulum, artix.neutral_state(pendulum))
      >>> print(placements[2, :3])  # the lower rod in the frame of the upper one
      [ 0.  0. -1.]
    """
    tree = articulation.topology
    kin = kinematics(articulation, state)
    frames = link_frames(tree, kin)
    above = frames.take(np.maximum(tree.parent, 0))
    poses = above.inverse_times(frames).poses()
    root = frames._replace(position=frames.position + kin.reference[:, None]).poses()[:1]
    return jnp.concatenate([root, poses[1:]])


@quantity
def link_frame_velocities(articulation: Articulation, state: State, *, axes: Axes = "world_aligned") -> Array:
    """Velocities of all link frames, Pinocchio's ``v`` (``"local"``) and ``ov`` (``"world"``).

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      axes: ``"local"`` for the velocity of the frame's origin in the frame's axes, ``"world_aligned"`` for the same in
        world axes, ``"world"`` for the spatial velocity about the world's origin.

    Returns:
      Linear [m/s], then angular [rad/s] velocities, shape [L, 6].

    Raises:
      ValueError: an array of the state has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: row l is ``frame_velocity(a, s, l, axes=axes)``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> print(artix.link_frame_velocities(pendulum, swinging)[2, :3])  # the elbow
      [-2.  0.  0.]
      >>> print(artix.link_velocities(pendulum, swinging)[2, :3])  # the centre of mass, half a metre below
      [-3.  0.  0.]
    """
    check_axes(axes)
    tree = articulation.topology
    kin = kinematics(articulation, state)
    velocity = state_velocities(tree, kin, state).take(tree.link_body)
    return motion_in_axes(kin, link_frames(tree, kin), velocity, axes).T


@quantity
def link_frame_accelerations(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    *,
    axes: Axes = "world_aligned",
    classical: bool = False,
) -> Array:
    """Accelerations of all link frames, Pinocchio's ``a`` (``"local"``) and ``oa`` (``"world"``); without gravity.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      acceleration: generalised acceleration, shape [nv] [m/s^2, rad/s^2].
      axes: as in :func:`link_frame_velocities`.
      classical: whether the linear part is the acceleration of the link's material point at the origin of the ``axes``
        (``getClassicalAcceleration``), rather than that of the spatial acceleration, which is smaller by ``omega x v``.

    Returns:
      Linear [m/s^2], then angular [rad/s^2] accelerations, shape [L, 6].

    Raises:
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: spatial accelerations are the rates of change of :func:`link_frame_velocities` in ``"local"`` and
    ``"world"`` axes, classical ones in ``"world_aligned"`` axes.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> frames = artix.kinematics.link_frame_accelerations(pendulum, turning, jnp.zeros(2), classical=True)
      >>> print(frames[2, :3])  # the elbow
      [0. 0. 4.]
    """
    tree = articulation.topology
    kin = kinematics(articulation, state)
    frames, body = link_frames(tree, kin), tree.link_body
    rows = frame_accelerations(articulation, kin, state, acceleration, frames, body, axes, classical)
    return rows.T


def frame_accelerations(
    articulation: Articulation,
    kin: Kinematics,
    state: State,
    acceleration: Array,
    frames: Placement,
    body,
    axes: Axes,
    classical: bool,
) -> Array:
    """Accelerations [6, k] of frames on the bodies ``body`` [k]."""
    check_axes(axes)
    tree = articulation.topology
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    # Relative to an inertial frame that moves with the root's centre of mass; classical accelerations are the same.
    velocities, rates = body_accelerations(tree, dof_motions(tree, kin), state, acceleration)
    (v, omega), (a, alpha) = velocities.take(body), rates.take(body)
    point = origin(kin, frames, axes)
    speed = v + spatial.cross(omega, point)
    linear = a + spatial.cross(alpha, point) + spatial.cross(omega, speed)
    if not classical:
        linear = linear - spatial.cross(omega, speed + root_motion(tree, state.root_velocity).linear)
    return to_axes(frames, jnp.concatenate([linear, alpha]), axes)
