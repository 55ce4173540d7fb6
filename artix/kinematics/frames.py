"""Poses, velocities, accelerations and Jacobians of a frame: a link's, a named one, or one at any point of a link."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.kinematics.axes import Axes, check_axes, origin, to_axes
from artix.kinematics.bodies import Placement
from artix.kinematics.link_frame_motion import frame_accelerations
from artix.kinematics.links import link_frames, point_jacobian
from artix.kinematics.solve import (
    Kinematics,
    Motion,
    body_velocities,
    dof_motions,
    generalized_motions,
    kinematics,
    motion_rates,
    root_motion,
)
from artix.kinematics.velocities import generalized_velocity
from artix.math import spatial
from artix.math.arrays import matmul, take
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.link_tree import frame_index
from artix.model.topology import Topology
from artix.model.validation import is_index

Array = jax.Array


@quantity
def frame_pose(
    articulation: Articulation, state: State, frame: str | int | Array, offset: Array | None = None
) -> Array:
    """World pose of a link's frame, of an additional frame, or of a pose fixed in one.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: the name of a link or of an additional frame (such as a link that a reader merged into another), or a
        link's index, which may be traced.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.

    Returns:
      Position [m] and quaternion xyzw, shape [7].

    Raises:
      KeyError: no link or frame has this name.
      IndexError: no link has this index; one that is traced is not checked.
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Source: Pinocchio's ``updateFramePlacement``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> tip = jnp.array([0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0])
      >>> print(artix.frame_pose(pendulum, level, "lower", tip)[:3])  # both rods along -x
      [-2.  0.  0.]
    """
    kin = kinematics(articulation, state)
    _, placement = locate_frame(articulation, kin, frame, offset)
    return placement._replace(position=placement.position + kin.reference[:, None]).poses()[0]


@quantity
def frame_velocity(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Velocity of a frame, Pinocchio's ``getFrameVelocity``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      frame: the name of a link or additional frame, or a link's index; see :func:`frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame whose origin is the point, shape [7]; the frame itself when
        ``None``.
      axes: see :func:`frame_jacobian`.

    Returns:
      Linear [m/s], then angular velocity [rad/s], shape [6].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: ``frame_jacobian(...) @ nu``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> print(artix.frame_velocity(pendulum, swinging, "lower"))  # the elbow, a metre below the shoulder
      [-2.  0.  0.  0.  2.  0.]
    """
    jacobian = frame_jacobian(articulation, state, frame, offset, axes=axes)
    return matmul(jacobian, generalized_velocity(articulation, state))


@quantity
def frame_jacobian(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Jacobian of the velocity of a frame at any point of any link.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: the name of a link or additional frame, or a link's index; see :func:`frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame whose origin is the point, shape [7]; the frame itself when
        ``None``.
      axes: ``"world_aligned"`` for the velocity of the point in world axes (Pinocchio's ``LOCAL_WORLD_ALIGNED``),
        ``"local"`` for the same in the frame's own axes, ``"world"`` for the spatial velocity about the world's origin.

    Returns:
      Shape [6, nv], linear rows first [m/s, rad/s per unit of velocity].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: ``frame_jacobian(...) @ nu`` is the rate of change of the frame's pose.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> tip = jnp.array([0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0])  # a metre below the elbow
      >>> jacobian = artix.frame_jacobian(pendulum, artix.neutral_state(pendulum), "lower", tip)
      >>> print(jacobian[0])  # metres along x per radian of the shoulder, of the elbow
      [-2. -1.]
      >>> push = jnp.array([10.0, 0.0, 0.0, 0.0, 0.0, 0.0])
      >>> print(jacobian.T @ push)  # its forces on the joints
      [-20. -10.]
    """
    check_axes(axes)
    kin = kinematics(articulation, state)
    tree = articulation.topology
    body, placement = locate_frame(articulation, kin, frame, offset)
    point = origin(kin, placement, axes)
    jacobian = point_jacobian(tree, generalized_motions(articulation, kin), point, mask_column(tree, body))[0]
    return to_axes(placement, jacobian, axes)


@quantity
def frame_jacobian_rate(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Rate of change dJ/dt of :func:`frame_jacobian`, Pinocchio's ``getFrameJacobianTimeVariation``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      frame: the name of a link or additional frame, or a link's index; see :func:`frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame whose origin is the point, shape [7]; the frame itself when
        ``None``.
      axes: see :func:`frame_jacobian`.

    Returns:
      Shape [6, nv] [m/s or 1/s], linear rows first.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: the frame's acceleration is ``J acceleration + dJ/dt nu``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state, acceleration = artix.random_state(arm, jax.random.key(0)), jnp.ones(7)
      >>> rate = artix.frame_jacobian_rate(arm, state, "tool")
      >>> drift = rate @ artix.generalized_velocity(arm, state)
      >>> felt = artix.frame_jacobian(arm, state, "tool") @ acceleration + drift
      >>> classical = artix.frame_acceleration(arm, state, acceleration, "tool", classical=True)
      >>> print(jnp.allclose(felt, classical, atol=1e-3))
      True
    """
    check_axes(axes)
    kin = kinematics(articulation, state)
    tree = articulation.topology
    body, placement = locate_frame(articulation, kin, frame, offset)
    joints = dof_motions(tree, kin)
    root = root_motion(tree, state.root_velocity)
    # Relative to an inertial frame that moves with the root's centre of mass.
    velocity = body_velocities(tree, joints, Motion(jnp.zeros_like(root.linear), root.angular), state.joint_velocity)
    rates = jnp.concatenate(motion_rates(tree, velocity, joints))
    rates = jnp.concatenate([jnp.zeros((6, tree.num_base_dofs), rates.dtype), rates], axis=1)
    motions = generalized_motions(articulation, kin)
    linear, angular = velocity.take(body)
    mask = mask_column(tree, body)
    if axes == "world":
        point, speed = -kin.reference[:, None], -root.linear
    else:
        point, speed = placement.position, linear + spatial.cross(angular, placement.position)
    rates = rates.at[:3].add(spatial.cross(motions[3:], jnp.broadcast_to(speed, motions[3:].shape)))
    jacobian_rate = point_jacobian(tree, rates, point, mask)[0]
    if axes != "local":
        return jacobian_rate
    jacobian = point_jacobian(tree, motions, point, mask)[0]
    omega = jnp.broadcast_to(angular, (3, tree.nv))
    rotation_of_axes = jnp.concatenate([spatial.cross(omega, jacobian[:3]), spatial.cross(omega, jacobian[3:])])
    return to_axes(placement, jacobian_rate - rotation_of_axes, axes)


@quantity
def frame_acceleration(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
    classical: bool = False,
) -> Array:
    """Acceleration of one frame, Pinocchio's ``getFrameAcceleration`` and ``getFrameClassicalAcceleration``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      frame: the name of a link or additional frame, or a link's index; see :func:`artix.frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.
      axes: see :func:`artix.frame_jacobian`.
      classical: see :func:`link_frame_accelerations`.

    Returns:
      Linear [m/s^2], then angular [rad/s^2] acceleration, shape [6].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: ``frame_jacobian(...) @ acceleration + frame_jacobian_rate(...) @ nu``, spatial in ``"local"`` and
    ``"world"`` axes, classical in ``"world_aligned"`` axes.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> spatial = artix.frame_acceleration(pendulum, turning, jnp.zeros(2), "lower")
      >>> classical = artix.frame_acceleration(pendulum, turning, jnp.zeros(2), "lower", classical=True)
      >>> print(spatial[:3], classical[:3])  # that of the elbow itself is (2 rad/s)^2 1 m, up
      [0. 0. 0.] [0. 0. 4.]
    """
    kin = kinematics(articulation, state)
    body, placement = locate_frame(articulation, kin, frame, offset)
    return frame_accelerations(articulation, kin, state, acceleration, placement, body, axes, classical)[:, 0]


# --- internals ------------------------------------------------------------------------------------------------------


def locate_frame(articulation: Articulation, kin: Kinematics, frame, offset: Array | None) -> tuple[Array, Placement]:
    """The body [1] of a frame and the frame's placement relative to the reference point (1 item)."""
    tree = articulation.topology
    index, local = link_of_frame(articulation, frame)
    placement = link_frames(tree, kin).take(index)
    if local is not None:
        placement = placement @ local
    if offset is not None:
        check_vector("offset", offset, (7,), articulation.dtype, "position, quaternion xyzw")
        placement = placement @ Placement.from_poses(offset[None])
    return jnp.asarray(tree.link_body)[index], placement


def link_of_frame(articulation: Articulation, frame: str | int | Array) -> tuple[Array, Placement | None]:
    """The link [1] that a frame is fixed to, and its placement in the link's frame, ``None`` if they coincide."""
    tree = articulation.topology
    if not isinstance(frame, str):
        return _link(tree, frame).reshape(1), None
    link, index = frame_index(tree, frame)
    local = None if index is None else Placement.from_poses(articulation.frame_local_pose[index : index + 1])
    return jnp.asarray(link).reshape(1), local


def _link(tree: Topology, index: int | Array) -> Array:
    """The index of a link, which is checked where it is not data."""
    if is_index(index):
        if not 0 <= index < tree.num_links:
            raise IndexError(f"frame: there is no link {index}; links are numbered from 0 to {tree.num_links - 1}")
    elif not (hasattr(index, "dtype") and jnp.issubdtype(index.dtype, jnp.integer)):
        raise TypeError(f"frame: expected a name or the index of a link, found {index!r}")
    return jnp.asarray(index)


def mask_column(tree: Topology, body: Array) -> Array:
    """Which DOFs move the bodies with the given indices [m], [n, m]."""
    return take(jnp.asarray(tree.dof_moves_body), body)
