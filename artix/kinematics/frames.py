"""Link and frame quantities as users see them: poses, velocities, accelerations and Jacobians of points on links."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from artix.evaluation import quantity
from artix.kinematics.axes import Axes, check_axes, origin, turned
from artix.kinematics.bodies import Placement
from artix.kinematics.solve import (
    Kinematics,
    Motion,
    body_accelerations,
    body_velocities,
    dof_motions,
    generalized_motions,
    kinematics,
    link_centers,
    motion_rates,
    root_motion,
)
from artix.kinematics.tree import Tree, take
from artix.math import spatial
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology

Array = jax.Array


class LinkStates(struct.PyTreeNode):
    """Poses and velocities of all links.

    Attributes:
      pose: world poses of the link frames: position [m], quaternion xyzw, shape [L, 7].
      velocity: velocities of the links' centres of mass [m/s] and angular velocities [rad/s], world axes, shape [L, 6].
    """

    pose: Array
    velocity: Array


@quantity
def forward_kinematics(articulation: Articulation, state: State) -> LinkStates:
    """Poses and velocities of all links in one call; see :func:`link_poses` and :func:`link_velocities`."""
    return LinkStates(link_poses(articulation, state), link_velocities(articulation, state))


@quantity
def link_poses(articulation: Articulation, state: State) -> Array:
    """World poses of the link frames (PhysX's actor frames, URDF's link frames).

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.

    Returns:
      Positions [m] and quaternions xyzw, shape [L, 7]. The quaternions follow the joint positions continuously, so
      their sign is not normalised.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.
    """
    kin = kinematics(articulation, state)
    placement = link_frames(articulation.topology, kin)
    poses = placement._replace(position=placement.position + kin.reference[:, None]).poses()
    return live_links(articulation.topology, poses)


@quantity
def link_velocities(articulation: Articulation, state: State) -> Array:
    """Velocities of the links' centres of mass and angular velocities, in world axes (PhysX's ``eLINK_VELOCITY``).

    Args:
      articulation: the articulation.
      state: its configuration and velocity.

    Returns:
      Linear [m/s], then angular [rad/s] velocities, shape [L, 6].

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``dense_jacobian(a, s) @ nu`` (without the root's rows for a fixed base).
    """
    kin = kinematics(articulation, state)
    tree = articulation.topology
    motions = dof_motions(tree, kin)
    velocity = body_velocities(tree, motions, root_motion(tree, state.root_velocity), state.joint_velocity)
    linear, angular = (take(part, tree.link_body) for part in velocity)
    center = link_centers(articulation, kin)
    return live_links(tree, jnp.concatenate([linear + spatial.cross(angular, center), angular]).T)


@quantity
def link_accelerations(articulation: Articulation, state: State, acceleration: Array) -> Array:
    """Classical accelerations of the links' centres of mass and angular accelerations, in world axes.

    Gravity does not appear: these are the rates of change of :func:`link_velocities`.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      acceleration: generalised acceleration, shape [nv] [m/s^2, rad/s^2].

    Returns:
      Linear [m/s^2], then angular [rad/s^2] accelerations, shape [L, 6].

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Identity: ``J acceleration + dJ/dt nu`` with J the dense Jacobian.
    """
    tree = articulation.topology
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    kin = kinematics(articulation, state)
    velocity, rate = body_accelerations(tree, kin, dof_motions(tree, kin), state, acceleration)
    linear, omega = (take(part, tree.link_body) for part in velocity)
    center = link_centers(articulation, kin)
    spatial_linear, alpha = (take(part, tree.link_body) for part in rate)
    classical = (
        spatial_linear + spatial.cross(alpha, center) + spatial.cross(omega, linear + spatial.cross(omega, center))
    )
    return live_links(tree, jnp.concatenate([classical, alpha]).T)


@quantity
def dense_jacobian(articulation: Articulation, state: State) -> Array:
    """Jacobian of all link velocities, PhysX's ``computeDenseJacobian``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.

    Returns:
      Shape [6 L', nv] with L' = L for a floating and L - 1 for a fixed base, whose root rows are absent. Six rows per
      link: linear velocity of its centre of mass, angular velocity, both in world axes.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``dense_jacobian(a, s) @ nu == link_velocities(a, s)`` stacked.
    """
    tree, kin = articulation.topology, kinematics(articulation, state)
    motions, centers = generalized_motions(articulation, kin), link_centers(articulation, kin)
    first = 0 if tree.num_base_dofs else 1
    jacobian = point_jacobian(tree, motions, centers[:, first:], tree.dof_moves_link[:, first:])
    return live_links(tree, jacobian, first).reshape(-1, tree.nv)


@quantity
def frame_pose(
    articulation: Articulation, state: State, frame: str | int | Array, offset: Array | None = None
) -> Array:
    """World pose of a link's frame, of an additional frame, or of a pose fixed in one.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: the name of a link or of an additional frame (links merged by a reader are such), or a link's index, which
        may be traced.
      offset: a pose in that frame, shape [7]; the frame itself when ``None``.

    Returns:
      Position [m] and quaternion xyzw, shape [7].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.
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
    """Velocity of a frame, shape [6]: ``frame_jacobian(...) @ nu``; arguments as :func:`frame_jacobian`."""
    tree = articulation.topology
    nu = state.joint_velocity
    if tree.num_base_dofs:
        nu = jnp.concatenate([state.root_velocity, nu])
    jacobian = frame_jacobian(articulation, state, frame, offset, axes=axes)
    return jnp.matmul(jacobian, nu, precision=jax.lax.Precision.HIGHEST)


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
      offset: a pose in that frame whose origin is the point, shape [7]; the frame itself when ``None``.
      axes: ``"world_aligned"`` for the velocity of the point in world axes (Pinocchio's ``LOCAL_WORLD_ALIGNED``),
        ``"local"`` for the same in the frame's own axes, ``"world"`` for the spatial velocity about the world's origin.

    Returns:
      Shape [6, nv], linear rows first.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: ``frame_jacobian(...) @ nu`` is the rate of change of the frame's pose.
    """
    check_axes(axes)
    kin = kinematics(articulation, state)
    tree = articulation.topology
    body, placement = locate_frame(articulation, kin, frame, offset)
    point = origin(kin, placement, axes)
    jacobian = point_jacobian(tree, generalized_motions(articulation, kin), point, mask_column(tree, body))[0]
    return turned(placement, jacobian, axes)


@quantity
def frame_jacobian_rate(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Rate of change dJ/dt of :func:`frame_jacobian` at the state's velocity; same arguments, shape [6, nv].

    Identity: the frame's acceleration is ``J acceleration + dJ/dt nu``.
    """
    check_axes(axes)
    kin = kinematics(articulation, state)
    tree = articulation.topology
    body, placement = locate_frame(articulation, kin, frame, offset)
    joints = dof_motions(tree, kin)
    root = root_motion(tree, state.root_velocity)
    at_rest = Motion(jnp.zeros_like(root.linear), root.angular)  # seen from the root's centre of mass
    velocity = body_velocities(tree, joints, at_rest, state.joint_velocity)
    rates = jnp.concatenate(motion_rates(tree, velocity, joints))
    rates = jnp.concatenate([jnp.zeros((6, tree.num_base_dofs), rates.dtype), rates], axis=1)
    motions = generalized_motions(articulation, kin)
    linear, angular = (take(part, body) for part in velocity)
    mask = mask_column(tree, body)
    if axes == "world":
        point, speed = -kin.reference[:, None], -root.linear
    else:
        point, speed = placement.position, linear + spatial.cross(angular, placement.position)
    carried = rates.at[:3].add(spatial.cross(motions[3:], jnp.broadcast_to(speed, motions[3:].shape)))
    rate = point_jacobian(tree, carried, point, mask)[0]
    if axes != "local":
        return rate
    jacobian = point_jacobian(tree, motions, point, mask)[0]
    spin = jnp.broadcast_to(angular, (3, tree.nv))
    spun = jnp.concatenate([spatial.cross(spin, jacobian[:3]), spatial.cross(spin, jacobian[3:])])
    return turned(placement, rate - spun, axes)


# --- internals ------------------------------------------------------------------------------------------------------


def live_links(tree: Tree, rows: Array, first: int = 0) -> Array:
    """Rows [L - first, ...] of the links from ``first`` on, with those of padded links set to zero."""
    if tree.link_is_live is None:
        return rows
    live = tree.link_is_live[first:].reshape((-1,) + (1,) * (rows.ndim - 1))
    return jnp.where(live, rows, jnp.zeros_like(rows))


def link_frames(tree: Tree, kin: Kinematics) -> Placement:
    """Frames of the links relative to the reference point."""
    rotation, quaternion, position = (take(x, tree.link_body) for x in (kin.rotation, kin.quaternion, kin.position))
    local = kin.placements
    return Placement(
        spatial.quaternion_product(quaternion, local.rotation), position + spatial.apply(rotation, local.position)
    )


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
    """The link [1] that a frame rides on, and the frame's placement there; ``None`` for the link's own frame."""
    tree = articulation.topology
    if not isinstance(frame, str):
        return jnp.asarray(frame).reshape(1), None
    if not isinstance(tree, Topology):
        raise KeyError(f"frame {frame!r}: the members of a fleet name their links differently; give a link's index")
    if frame not in tree.frame_names:
        return jnp.asarray(tree.link_index(frame)).reshape(1), None
    k = tree.frame_names.index(frame)
    return jnp.asarray(tree.frame_links[k]).reshape(1), Placement.from_poses(articulation.frame_local_pose[k : k + 1])


def mask_column(tree: Tree, body: Array) -> Array:
    """Which DOFs move the bodies of the given numbers [m], [n, m]."""
    return jnp.asarray(tree.dof_moves_body)[:, body]


def point_jacobian(tree: Tree, motions: Array, points: Array, mask) -> Array:
    """Jacobians of points [3, m]: [m, 6, nv].

    Args:
      tree: the tree.
      motions: those of the generalised velocity about the reference point, [6, nv].
      points: from the reference point.
      mask: which DOFs move which point, [n, m]; all follow the root.
    """
    moved = jnp.asarray(mask, points.dtype).T
    if tree.num_base_dofs:
        moved = jnp.concatenate([jnp.ones((len(moved), tree.num_base_dofs), moved.dtype), moved], axis=1)
    angular = motions[3:, None]
    linear = motions[:3, None] + spatial.cross(angular, points[..., None])
    return jnp.moveaxis(jnp.concatenate([linear, jnp.broadcast_to(angular, linear.shape)]) * moved[None], 0, 1)
