"""Pose, velocity, acceleration and Jacobian of any frame, at any point of it, in any axes.

All functions take the same three arguments:

=========  ==================================  =====================================================================
argument   default                             otherwise
=========  ==================================  =====================================================================
`frame`    ``None``: every link                a name or an index; several of them
`offset`   ``None``: the frame's own origin    ``"com"``: the link's centre of mass; a pose in the frame
`axes`     ``"world_aligned"``: the world's    ``"local"``: the frame's own; ``"world"``: a spatial vector about the
           axes                                world's origin
=========  ==================================  =====================================================================

:func:`frame_velocity` explains them. Internally, spatial vectors are about one reference point and
in world axes; the first functions of this module convert them.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.kinematics.forward import (
    Kinematics,
    body_accelerations,
    body_velocities,
    dof_motions,
    generalized_motions,
    kinematics,
    link_centers,
    motion_rates,
    root_motion,
    state_velocities,
)
from artix.math import spatial, struct
from artix.math.arrays import take
from artix.math.spatial import Motion, Transforms
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology, frame_index
from artix.model.validation import is_index

Array = jax.Array
Axes = Literal["world_aligned", "local", "world", "LOCAL", "WORLD", "LOCAL_WORLD_ALIGNED"]
Frame: TypeAlias = str | int | Array
Frames: TypeAlias = Frame | Sequence[str | int] | None
Offset: TypeAlias = Array | Literal["com"] | None
#: Pinocchio's names of the axes.
_PINOCCHIO_AXES = {"LOCAL": "local", "WORLD": "world", "LOCAL_WORLD_ALIGNED": "world_aligned"}


# --- axes ---------------------------------------------------------------------------------------


def check_axes(axes: Axes) -> Axes:
    """The axes by artix's name; raises ``ValueError`` unless they are one of the three."""
    name = _PINOCCHIO_AXES.get(str(axes), axes)
    if name not in _PINOCCHIO_AXES.values():
        raise ValueError(f"axes must be 'world_aligned', 'local' or 'world'; found {axes!r}")
    return cast(Axes, name)


def origin(kin: Kinematics, frames: Transforms, axes: Axes) -> Array:
    """The point that ``axes`` refers to, relative to the reference point: [3, k], or [3, 1] if it
    is common.
    """
    return -kin.reference[:, None] if axes == "world" else frames.position


def to_axes(frames: Transforms, rows: Array, axes: Axes) -> Array:
    """Rotates spatial vectors [6, k, ...] from world axes to ``axes``, for k frames or one."""
    if axes != "local":
        return rows
    rotation = spatial.rotation_matrix(frames.rotation)
    rotation = rotation.reshape(*rotation.shape, *(1,) * (rows.ndim - 2))
    linear = spatial.apply_transposed(rotation, rows[:3])
    angular = spatial.apply_transposed(rotation, rows[3:])
    return jnp.concatenate([linear, angular])


def motion_in_axes(kin: Kinematics, frames: Transforms, motion: Motion, axes: Axes) -> Array:
    """Converts motions about the reference point to ``axes``, [6, n]."""
    linear = motion.linear + spatial.cross(motion.angular, origin(kin, frames, axes))
    return to_axes(frames, jnp.concatenate([linear, motion.angular]), axes)


def force_in_axes(kin: Kinematics, frames: Transforms, force: Array, axes: Axes) -> Array:
    """Converts forces (or momenta) [6, n] about the reference point to ``axes``, [6, n]."""
    torque = force[3:] - spatial.cross(origin(kin, frames, axes), force[:3])
    return to_axes(frames, jnp.concatenate([force[:3], torque]), axes)


# --- poses --------------------------------------------------------------------------------------


@quantity
def frame_pose(
    articulation: Articulation, state: State, frame: Frames = None, offset: Offset = None
) -> Array:
    """World poses of frames: Pinocchio's ``oMi`` and ``oMf``, PhysX's actor frames, URDF's link
    frames.

    Args:
      frame: which frame, every link by default; see :func:`frame_velocity`.
      offset: which pose in it; with ``"com"`` the position of the centre of mass, in the
        orientation of the frame.

    Returns:
      Position [m] and quaternion xyzw, shape [7]; [L, 7] for every link, [k, 7] for several frames.
      Quaternions follow the joint positions continuously, so their sign is not normalised.

    Raises:
      KeyError: no link or frame has this name.
      IndexError: no link has this index; an index that is traced is not checked.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> tip = jnp.array([0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0])
      >>> print(artix.frame_pose(pendulum, level, "lower", tip)[:3])  # both rods along -x
      [-2.  0.  0.]
      >>> print(artix.frame_pose(pendulum, level)[:, 0])  # every link, along x [m]
      [ 0.  0. -1.]
    """
    kin = kinematics(articulation, state)
    _, frames = locate_frame(articulation, kin, frame, offset)
    poses = frames._replace(position=frames.position + kin.reference[:, None]).poses()
    return poses[0] if is_single(frame) else poses


@quantity
def joint_placements(articulation: Articulation, state: State) -> Array:
    """Poses of the link frames in the frames of their parent links, Pinocchio's ``liMi``.

    Composed along the tree they are ``frame_pose(a, s)``.

    Returns:
      Positions [m] and quaternions xyzw, shape [L, 7]; the root's is its pose in the world.

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


class LinkStates(struct.PyTreeNode):
    """Poses and velocities of all links.

    Attributes:
      pose: world poses of the link frames: position [m], quaternion xyzw, shape [L, 7].
      velocity: velocities of the links' centres of mass [m/s] and angular velocities [rad/s], world
        axes, shape [L, 6].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> links = artix.forward_kinematics(arm, artix.neutral_state(arm))
      >>> print(links.pose.shape, links.velocity.shape)
      (9, 7) (9, 6)
    """

    pose: Array
    velocity: Array


@quantity
def forward_kinematics(articulation: Articulation, state: State) -> LinkStates:
    """Poses of all link frames and velocities of their centres of mass, by one program.

    Returns:
      ``frame_pose(a, s)`` [m, quaternion xyzw] and ``frame_velocity(a, s, offset="com")``
      [m/s, rad/s].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> links = artix.forward_kinematics(pendulum, swinging)
      >>> print(links.pose[:, 2])  # heights of the link frames [m]
      [ 0.  0. -1.]
      >>> print(links.velocity[:, 0])  # of the centres of mass along x [m/s]
      [ 0. -1. -3.]
    """
    return LinkStates(
        frame_pose(articulation, state), frame_velocity(articulation, state, offset="com")
    )


# --- motions ------------------------------------------------------------------------------------


@quantity
def frame_velocity(
    articulation: Articulation,
    state: State,
    frame: Frames = None,
    offset: Offset = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Velocity of any frame, at any point of it, in any axes: ``frame_jacobian(...) @ nu``.

    Pinocchio's ``getFrameVelocity``, and ``v`` and ``ov`` for all links; PhysX's ``eLINK_VELOCITY``
    with ``offset="com"``.

    Args:
      frame: ``None`` for every link. The name of a link or of an additional frame (such as a link
        that a reader merged into another), or the index of a link, which may be traced. Several
        frames as a list of names and indices or an integer array [k].
      offset: ``None`` for the origin of the frame. ``"com"`` for the centre of mass of the frame's
        link, as in PhysX. A pose [m, quaternion xyzw] in the frame, shape [7], whose origin is the
        point; one for each of several frames is [k, 7].
      axes: ``"world_aligned"`` for the velocity of the point in world axes (Pinocchio's
        ``LOCAL_WORLD_ALIGNED``), ``"local"`` for the same in the axes of the frame (``LOCAL``),
        ``"world"`` for the spatial velocity about the world's origin (``WORLD``), which loses
        digits in float32 far away from it. Pinocchio's names and its ``ReferenceFrame`` mean the
        same.

    Returns:
      Linear [m/s], then angular [rad/s] velocity, shape [6]; [L, 6] for every link, [k, 6] for
      several frames.

    Raises:
      KeyError: no link or frame has this name.
      IndexError: no link has this index; an index that is traced is not checked.
      ValueError: ``axes`` is not one of the three.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> # the elbow, a metre below the shoulder
      >>> print(artix.frame_velocity(pendulum, swinging, "lower"))
      [-2.  0.  0.  0.  2.  0.]
      >>> # the origin of every link's frame, along x [m/s]
      >>> print(artix.frame_velocity(pendulum, swinging)[:, 0])
      [ 0.  0. -2.]
      >>> # their centres of mass
      >>> print(artix.frame_velocity(pendulum, swinging, offset="com")[:, 0])
      [ 0. -1. -3.]
    """
    axes = check_axes(axes)
    kin = kinematics(articulation, state)
    body, frames = locate_frame(articulation, kin, frame, offset)
    velocity = state_velocities(articulation.topology, kin, state).take(body)
    return per_frame(motion_in_axes(kin, frames, velocity, axes), frame)


@quantity
def frame_acceleration(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    frame: Frames = None,
    offset: Offset = None,
    *,
    axes: Axes = "world_aligned",
    classical: bool = False,
) -> Array:
    """Acceleration of a frame without gravity, ``J nu' + dJ/dt nu`` of its Jacobian J.

    Pinocchio's ``getFrameAcceleration``, ``a`` and ``oa``, and with ``classical``
    ``getFrameClassicalAcceleration``. The sum is spatial in ``"local"`` and ``"world"`` axes and
    classical in ``"world_aligned"`` axes.

    Args:
      acceleration: generalised acceleration nu', shape [nv] [m/s^2, rad/s^2].
      frame: which frame, every link by default; see :func:`frame_velocity`.
      offset: which point; see :func:`frame_velocity`.
      axes: which axes; see :func:`frame_velocity`.
      classical: whether the linear part is the acceleration of the link's material point at the
        origin of the ``axes``, which an accelerometer there measures except for gravity. The linear
        part of a spatial acceleration is smaller by ``omega x v``.

    Returns:
      Linear [m/s^2], then angular [rad/s^2] acceleration, shape [6]; [L, 6] for every link, [k, 6]
      for several frames.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: ``axes`` is not one of the three.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> spatial = artix.frame_acceleration(pendulum, turning, jnp.zeros(2), "lower")
      >>> classical = artix.frame_acceleration(
      ...     pendulum, turning, jnp.zeros(2), "lower", classical=True
      ... )
      >>> print(spatial[:3], classical[:3])  # the elbow itself is pulled up by (2 rad/s)^2 1 m
      [0. 0. 0.] [0. 0. 4.]
    """
    axes = check_axes(axes)
    tree = articulation.topology
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    kin = kinematics(articulation, state)
    body, frames = locate_frame(articulation, kin, frame, offset)
    # Relative to an inertial frame that moves with the root's centre of mass; classical
    # accelerations are the same.
    velocities, rates = body_accelerations(tree, dof_motions(tree, kin), state, acceleration)
    v, omega = velocities.take(body)
    a, alpha = rates.take(body)
    point = origin(kin, frames, axes)
    speed = v + spatial.cross(omega, point)
    linear = a + spatial.cross(alpha, point) + spatial.cross(omega, speed)
    if not classical:
        flight = root_motion(tree, state.root_velocity).linear
        linear = linear - spatial.cross(omega, speed + flight)
    return per_frame(to_axes(frames, jnp.concatenate([linear, alpha]), axes), frame)


@quantity
def frame_jacobian(
    articulation: Articulation,
    state: State,
    frame: Frames = None,
    offset: Offset = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Jacobian J of :func:`frame_velocity`, which is ``J nu``; ``J.T`` maps a wrench at the point
    to joint forces.

    Pinocchio's ``getFrameJacobian``. With ``offset="com"``, the rows of PhysX's
    ``computeDenseJacobian``.

    Args:
      frame: which frame, every link by default; see :func:`frame_velocity`.
      offset: which point; see :func:`frame_velocity`.
      axes: which axes; see :func:`frame_velocity`.

    Returns:
      Shape [6, nv], linear rows first [m/s, rad/s per unit of velocity]; [L, 6, nv] for every link,
      [k, 6, nv] for several frames.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: ``axes`` is not one of the three.

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
    axes = check_axes(axes)
    kin = kinematics(articulation, state)
    tree = articulation.topology
    body, frames = locate_frame(articulation, kin, frame, offset)
    motions = generalized_motions(articulation, kin)[:, None]
    jacobian = point_jacobian(tree, motions, origin(kin, frames, axes), mask_column(tree, body))
    return per_frame(to_axes(frames, jacobian, axes), frame)


@quantity
def frame_jacobian_rate(
    articulation: Articulation,
    state: State,
    frame: Frames = None,
    offset: Offset = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Rate of change dJ/dt of :func:`frame_jacobian`, Pinocchio's
    ``getFrameJacobianTimeVariation``.

    Args:
      frame: which frame, every link by default; see :func:`frame_velocity`.
      offset: which point; see :func:`frame_velocity`.
      axes: which axes; see :func:`frame_velocity`.

    Returns:
      Shape [6, nv] [m/s or 1/s], linear rows first; [L, 6, nv] for every link, [k, 6, nv] for
      several frames.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: ``axes`` is not one of the three.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state, acceleration = artix.random_state(arm, jax.random.key(0)), jnp.ones(7)
      >>> rate = artix.frame_jacobian_rate(arm, state, "tool")
      >>> drift = rate @ artix.generalized_velocity(arm, state)
      >>> sum_of_both = artix.frame_jacobian(arm, state, "tool") @ acceleration + drift
      >>> classical = artix.frame_acceleration(arm, state, acceleration, "tool", classical=True)
      >>> print(jnp.allclose(sum_of_both, classical, atol=1e-3))
      True
    """
    axes = check_axes(axes)
    kin = kinematics(articulation, state)
    tree = articulation.topology
    body, frames = locate_frame(articulation, kin, frame, offset)
    joints = dof_motions(tree, kin)
    root = root_motion(tree, state.root_velocity)
    # Relative to an inertial frame that moves with the root's centre of mass.
    still = Motion(jnp.zeros_like(root.linear), root.angular)
    velocity = body_velocities(tree, joints, still, state.joint_velocity)
    rates = jnp.concatenate(motion_rates(tree, velocity, joints))
    rates = jnp.pad(rates, ((0, 0), (tree.num_base_dofs, 0)))[:, None]
    motions = generalized_motions(articulation, kin)[:, None]
    linear, angular = velocity.take(body)
    point = origin(kin, frames, axes)
    speed = -root.linear if axes == "world" else linear + spatial.cross(angular, point)
    carried = rates[:3] + spatial.cross(motions[3:], speed[..., None])
    rates = jnp.concatenate([carried, jnp.broadcast_to(rates[3:], carried.shape)])
    moves = mask_column(tree, body)
    jacobian_rate = point_jacobian(tree, rates, point, moves)
    if axes == "local":
        jacobian = point_jacobian(tree, motions, point, moves)
        jacobian_rate = jacobian_rate - cross_rows(angular[..., None], jacobian)
    return per_frame(to_axes(frames, jacobian_rate, axes), frame)


# --- internals ----------------------------------------------------------------------------------


def is_single(frame: Frames) -> bool:
    """Whether this is one frame, rather than every link or several frames."""
    if isinstance(frame, str):
        return True
    return (
        frame is not None
        and not isinstance(frame, (list, tuple))
        and np.ndim(cast(Any, frame)) == 0
    )


def check_single(frame: Frames, name: str = "frame") -> None:
    """Raises ``TypeError`` unless this is one frame."""
    if not is_single(frame):
        raise TypeError(
            f"{name}: expected one name or index, found {frame!r}; use jax.vmap over indices of "
            "links"
        )


def per_frame(rows: Array, frame: Frames) -> Array:
    """From [6, k, ...] to [k, 6, ...], or [6, ...] for a single frame."""
    return rows[:, 0] if is_single(frame) else jnp.moveaxis(rows, 0, 1)


def locate_frame(
    articulation: Articulation, kin: Kinematics, frame: Frames, offset: Offset
) -> tuple[Any, Transforms]:
    """The bodies [k] of frames, and the frames relative to the reference point (k items)."""
    tree = articulation.topology
    link, local = link_of_frame(articulation, frame)
    frames = link_frames(tree, kin) if frame is None else link_frames(tree, kin).take(link)
    if local is not None:
        frames = frames @ local
    if isinstance(offset, str):
        if offset != "com":
            raise ValueError(f"offset must be 'com' or a pose of shape (7,); found {offset!r}")
        centers = link_centers(articulation, kin)
        frames = frames._replace(position=centers if frame is None else take(centers, link))
    elif offset is not None:
        shape = (len(link), 7) if np.ndim(offset) == 2 and not is_single(frame) else (7,)
        check_vector("offset", offset, shape, articulation.dtype, "position, quaternion xyzw")
        frames = frames @ Transforms.from_poses(offset.reshape(-1, 7))
    body = tree.link_body if frame is None else jnp.asarray(tree.link_body)[link]
    return body, frames


def link_of_frame(articulation: Articulation, frame: Frames) -> tuple[Any, Transforms | None]:
    """The links [k] that frames are fixed to, and the frames in the links' frames, ``None`` if they
    coincide.
    """
    tree = articulation.topology
    if frame is None:
        return np.arange(tree.num_links), None
    if isinstance(frame, (list, tuple)):
        return _links_of_several(articulation, frame)
    if not isinstance(frame, str):
        return _link(tree, frame).reshape(-1), None
    link, index = frame_index(tree, frame)
    local = (
        None
        if index is None
        else Transforms.from_poses(articulation.frame_local_pose[index : index + 1])
    )
    return jnp.asarray(link).reshape(1), local


def _links_of_several(
    articulation: Articulation, frames: Sequence[Any]
) -> tuple[Array, Transforms | None]:
    if not frames:
        raise ValueError(
            "frame: expected one frame or more, found none; leave it out for every link"
        )
    located = [link_of_frame(articulation, frame) for frame in frames]
    links = jnp.concatenate([link for link, _ in located])
    if all(local is None for _, local in located):
        return links, None
    unit = Transforms.from_poses(jnp.asarray([[0, 0, 0, 0, 0, 0, 1]], articulation.dtype))
    return links, Transforms.join([local or unit for _, local in located])


def _link(tree: Topology, index: Any) -> Array:
    """The index of a link, which is checked where it is not data."""
    if is_index(index):
        if not 0 <= index < tree.num_links:
            raise IndexError(
                f"frame: there is no link {index}; links are numbered from 0 to "
                f"{tree.num_links - 1}"
            )
    elif not (hasattr(index, "dtype") and jnp.issubdtype(index.dtype, jnp.integer)):
        raise TypeError(f"frame: expected a name or the index of a link, found {index!r}")
    elif index.ndim > 1:
        raise ValueError(
            f"frame: expected an index or a vector of indices, found shape {index.shape}"
        )
    return jnp.asarray(index)


def link_frames(tree: Topology, kin: Kinematics) -> Transforms:
    """Frames of the links relative to the reference point."""
    rotation, quaternion, position = (
        take(x, tree.link_body) for x in (kin.rotation, kin.quaternion, kin.position)
    )
    local = kin.placements
    return Transforms(
        spatial.quaternion_product(quaternion, local.rotation),
        position + spatial.apply(rotation, local.position),
    )


def mask_column(tree: Topology, body: Any) -> Any:
    """Which DOFs move the bodies with the given indices [k], [n, k]."""
    if isinstance(body, np.ndarray):
        return tree.dof_moves_body[:, body]
    return take(jnp.asarray(tree.dof_moves_body), body)


def point_jacobian(tree: Topology, motions: Array, points: Array, moves: Any) -> Array:
    """Jacobians of points, [6, k, nv].

    Args:
      tree: the tree.
      motions: unit motions of the generalised velocity about the reference point, [6, 1 or k, nv].
      points: positions relative to the reference point, [3, 1 or k].
      moves: which DOFs move which point, [n, k]; the root moves all of them.
    """
    moved = jnp.asarray(moves, points.dtype).T
    if tree.num_base_dofs:
        moved = jnp.concatenate(
            [jnp.ones((len(moved), tree.num_base_dofs), moved.dtype), moved], axis=1
        )
    angular = motions[3:]
    linear = motions[:3] + spatial.cross(angular, points[..., None])
    return jnp.concatenate([linear, jnp.broadcast_to(angular, linear.shape)]) * moved[None]


def cross_rows(angular: Array, rows: Array) -> Array:
    """The cross product of a vector [3, ...] with both parts of spatial vectors [6, ...]."""
    return jnp.concatenate([spatial.cross(angular, rows[:3]), spatial.cross(angular, rows[3:])])
