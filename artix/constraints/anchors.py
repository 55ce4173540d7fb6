"""The kinematics of pairs of frames that constraints hold together: errors, velocities, Jacobians and drifts.

An anchor is a pair of frames, a and b, each on a link or in the world. Everything is of a relative to b: an error, its
velocity ``J nu`` and its acceleration ``J nu' + bias``. A force ``lambda`` on the rows pushes a and pushes back on b;
it enters the equation of motion as ``+ J^T lambda``. These are Pinocchio's signs, its ``joint1`` being a.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from artix import spatial
from artix.articulation import Articulation, State
from artix.bodies import Placement
from artix.checks import check_vector
from artix.constraints.locked_rotations import RotationRows, locked_rotations
from artix.couplings import LoopJointType
from artix.dynamics.mass_matrix import generalized_motions
from artix.kinematics import Kinematics, Motion, body_accelerations, dof_motions, kinematics, root_motion
from artix.topology import Topology
from artix.tree import stage, take

Array = jax.Array
ConstraintAxes = Literal["local", "world_aligned"]


class AnchorType(enum.Enum):
    """What the six rows of an anchor are, three linear before three angular."""

    POINT = "point"
    """The two origins as material points: velocity and classical acceleration of their distance; no angular rows.

    Pinocchio's ``CONTACT_3D``."""
    WELD = "weld"
    """The relative spatial velocity at the origin of a, and its spatial acceleration. Pinocchio's ``CONTACT_6D``."""
    JOINT = "joint"
    """Those of a loop joint: coordinates of one frame seen from the other, with their exact derivatives, so that rows
    which stay free may move far."""
    DISTANCE = "distance"
    """One row: the distance of the two origins."""


@dataclasses.dataclass(frozen=True)
class AnchorStructure:
    """What is static of an anchor.

    Attributes:
      link_a: the link of frame a, -1 for the world.
      link_b: the link of frame b, -1 for the world.
      type: the meaning of the rows.
      rows: the rows that are held: numbers 0 .. 5, linear before angular; ``(0,)`` for a distance.
      axes: whether the rows are along the axes of frame a, or of the world.
    """

    link_a: int
    link_b: int
    type: AnchorType
    rows: tuple[int, ...]
    axes: ConstraintAxes = "local"


class Anchors(struct.PyTreeNode):
    """K pairs of frames.

    Attributes:
      structure: what is static of each.
      pose_a: frames a in their links' frames, or in the world, position and quaternion xyzw, shape [K, 7].
      pose_b: frames b likewise.
    """

    structure: tuple[AnchorStructure, ...] = struct.field(pytree_node=False)
    pose_a: Array
    pose_b: Array

    @property
    def num_rows(self) -> int:
        """Number of rows of all anchors."""
        return sum(len(one.rows) for one in self.structure)

    @property
    def row_anchor(self) -> np.ndarray:
        """The anchor that each row belongs to, [R]."""
        return np.repeat(np.arange(len(self.structure)), [len(one.rows) for one in self.structure])


class AnchorRows(NamedTuple):
    """The R rows of anchors, in their order, each anchor's in the order of its ``rows``; units m and rad.

    Attributes:
      error: what shall vanish, [R]: ``R_a^T (p_a - p_b)`` and ``-log(R_a^T R_b)``; of a weld ``-log6`` of the placement
        of b in a; always in the axes of frame a but for ``world_aligned`` rows. The distance itself of a distance row.
      velocity: ``jacobian @ nu``, [R].
      jacobian: [R, nv].
      bias: the acceleration of the rows at zero generalised acceleration, [R].
      wrench_a: what a unit force on each row does to the link of frame a: force, then moment about the root's centre of
        mass, in world axes, [R, 6].
      wrench_b: the same to the link of frame b.
    """

    error: Array
    velocity: Array
    jacobian: Array
    bias: Array
    wrench_a: Array
    wrench_b: Array


class _Side(NamedTuple):
    """One frame of each anchor, seen from the root's centre of mass in uniform motion, in world axes."""

    placement: Placement
    velocity: Array
    """Of the frame's origin, [3, K]."""
    angular: Array
    acceleration: Array
    """Classical acceleration of the origin at zero generalised acceleration, [3, K]."""
    turning: Array
    """Angular acceleration likewise."""
    moved: Array
    """Which entries of the generalised velocity move the frame, [K, nv]."""

    def velocity_at(self, point: Array) -> Array:
        """Velocity of what is at a point [3, K] and moves with the frame."""
        return self.velocity + spatial.cross(self.angular, point - self.placement.position)

    def acceleration_at(self, point: Array) -> Array:
        """Classical acceleration likewise."""
        lever = point - self.placement.position
        inward = spatial.cross(self.angular, spatial.cross(self.angular, lever))
        return self.acceleration + spatial.cross(self.turning, lever) + inward


def loop_anchors(articulation: Articulation) -> Anchors:
    """The loop joints of an articulation as anchors, one each, in their order.

    The rows of a joint are its locked axes, translations before rotations; they are along frame a's axes. That of a
    ``distance`` joint is the distance, whose bounds are ``articulation.loop_joints.min_distance`` and ``max_distance``.

    Args:
      articulation: the articulation.

    Raises:
      ValueError: the articulation is padded to a fleet, whose members differ in their loop joints.
    """
    topology = articulation.topology
    if not isinstance(topology, Topology):
        raise ValueError(
            "the members of a padded fleet differ in their loop joints; take the anchors of one articulation"
        )
    structure = []
    for joint in topology.loop_joints:
        kind = AnchorType.DISTANCE if joint.type is LoopJointType.DISTANCE else AnchorType.JOINT
        # artix.Axis counts rotations first.
        rows = tuple(sorted((int(axis) + 3) % 6 for axis in joint.locked_axes))
        if kind is AnchorType.DISTANCE:
            rows = (0,)
        structure.append(AnchorStructure(joint.link_a, joint.link_b, kind, rows))
    joints = articulation.loop_joints
    return Anchors(tuple(structure), joints.pose_a, joints.pose_b)


def anchor_rows(articulation: Articulation, state: State, anchors: Anchors) -> AnchorRows:
    """Errors, velocities, Jacobian and drift of anchors.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      anchors: K pairs of frames.

    Returns:
      The R selected rows.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identities: ``velocity == jacobian @ nu``; for :attr:`AnchorType.JOINT` near a vanishing error, ``velocity`` and
    ``jacobian @ nu' + bias`` are the first and second time derivatives of ``error``.
    """
    return solved_anchor_rows(articulation, state, kinematics(articulation, state), anchors)


def solved_anchor_rows(articulation: Articulation, state: State, kin: Kinematics, anchors: Anchors) -> AnchorRows:
    """The same with kinematics already solved."""
    if not anchors.structure:
        empty, wrench = jnp.zeros(0, articulation.dtype), jnp.zeros((0, 6), articulation.dtype)
        jacobian = jnp.zeros((0, articulation.topology.nv), articulation.dtype)
        return AnchorRows(empty, empty, jacobian, empty, wrench, wrench)
    for name, poses in (("pose_a", anchors.pose_a), ("pose_b", anchors.pose_b)):
        check_vector(f"anchors.{name}", poses, (len(anchors.structure), 7), articulation.dtype, "K poses")
    root = root_motion(articulation.topology, state.root_velocity).linear
    a, b = _sides(articulation, state, kin, anchors, root)
    points = _points(anchors, a, b)
    linear, angular = a.velocity_at(points[0]) - b.velocity_at(points[1]), a.angular - b.angular
    accelerations = _relative_accelerations(anchors, a, b, points, linear, root)
    frame = jnp.swapaxes(spatial.rotation_matrix(a.placement.rotation), 0, 1)
    turn = spatial.quaternion_product(spatial.conjugate(a.placement.rotation), b.placement.rotation)
    rotations = locked_rotations(_locked_rotations(anchors), turn, spatial.apply(frame, angular))
    distances = _distances(anchors, a, b, frame[0], linear)
    linear_axes, angular_axes = _row_axes(anchors, frame, rotations, distances)
    error = _errors(anchors, a, b, frame, turn, rotations, distances)
    velocity = (spatial.apply(linear_axes, linear), spatial.apply(angular_axes, angular))
    bias = (
        spatial.apply(linear_axes, accelerations[0]).at[0].add(distances.curvature),
        spatial.apply(angular_axes, accelerations[1]) + rotations.drift,
    )
    jacobian = _jacobian(articulation, kin, a, b, points)
    jacobian = (
        spatial.apply(linear_axes[..., None], jacobian[0]),
        spatial.apply(angular_axes[..., None], jacobian[1]),
    )
    on_a = _wrenches(linear_axes, angular_axes, points[0])
    on_b = _wrenches(-linear_axes, -angular_axes, points[1])
    return AnchorRows(*(_selected(anchors, *rows) for rows in (error, velocity, jacobian, bias, on_a, on_b)))


# --- internals ------------------------------------------------------------------------------------------------------


class _Distances(NamedTuple):
    """Of distance rows, and zero for the others."""

    length: Array
    direction: Array
    """From b to a; along the first axis of frame a where the origins meet, [3, K]."""
    curvature: Array
    """What the rate of the direction adds to the second derivative of the length, [K]."""


#: Origins that are nearer than this [m] have no direction.
_COINCIDENT = 1e-9


def _which(anchors: Anchors, kind: AnchorType) -> np.ndarray:
    return np.array([one.type is kind for one in anchors.structure])


def _is_world_aligned(anchors: Anchors) -> np.ndarray:
    return np.array([one.axes == "world_aligned" for one in anchors.structure])


def _locked_rotations(anchors: Anchors) -> list[tuple[int, ...]]:
    """The rotations that each anchor locks, none unless it is a joint."""
    return [
        tuple(row - 3 for row in one.rows if row >= 3) if one.type is AnchorType.JOINT else ()
        for one in anchors.structure
    ]


def _where(mask: np.ndarray, one: Array, other: Array) -> Array:
    """``where`` by a static mask [K], which often has one value throughout."""
    if mask.all():
        return one
    return jnp.where(mask, one, other) if mask.any() else other


def _sides(articulation: Articulation, state: State, kin: Kinematics, anchors: Anchors, root: Array) -> list[_Side]:
    tree = articulation.topology
    motions = Motion(*stage(*dof_motions(tree, kin)))
    velocities, accelerations = body_accelerations(tree, kin, motions, state, None)
    moves = jnp.asarray(tree.dof_moves_body, articulation.dtype)
    sides = []
    for name in ("a", "b"):
        links = np.array([getattr(one, f"link_{name}") for one in anchors.structure])
        on_link, links = links >= 0, np.maximum(links, 0)
        body = tree.link_body[links]
        pose = Placement.from_poses(getattr(anchors, f"pose_{name}"))
        moving = Placement(take(kin.quaternion, body), take(kin.position, body)) @ kin.placements.take(links) @ pose
        resting = Placement(pose.rotation, pose.position - kin.reference[:, None])
        placement = Placement(*(_where(on_link, *pair) for pair in zip(moving, resting, strict=True)))
        linear, angular, rate, turning = (take(part, body) for part in (*velocities, *accelerations))
        zero = jnp.zeros_like(linear)
        velocity = linear + spatial.cross(angular, placement.position)
        acceleration = rate + spatial.cross(turning, placement.position) + spatial.cross(angular, velocity)
        mask = jnp.concatenate([jnp.ones((tree.num_base_dofs, len(links)), moves.dtype), moves[:, body]]).T
        side = _Side(
            placement=placement,
            velocity=_where(on_link, velocity, jnp.broadcast_to(-root, zero.shape)),
            angular=_where(on_link, angular, zero),
            acceleration=_where(on_link, acceleration, zero),
            turning=_where(on_link, turning, zero),
            moved=mask * jnp.asarray(on_link, mask.dtype)[:, None],
        )
        sides.append(side)
    return sides


def _points(anchors: Anchors, a: _Side, b: _Side) -> tuple[Array, Array]:
    """Where the linear rows take the motion of a and of b, [3, K] each."""
    here, there = a.placement.position, b.placement.position
    return _where(_which(anchors, AnchorType.JOINT), there, here), _where(_which(anchors, AnchorType.WELD), here, there)


def _relative_accelerations(
    anchors: Anchors, a: _Side, b: _Side, points: tuple[Array, Array], linear: Array, root: Array
) -> tuple[Array, Array]:
    """Linear and angular accelerations of a relative to b at zero generalised acceleration, [3, K], in world axes.

    ``linear`` are the relative velocities, ``root`` [3, 1] that of the root's centre of mass.
    """
    world = _is_world_aligned(anchors)
    classical = a.acceleration_at(points[0]) - b.acceleration_at(points[1])
    turning = a.turning - b.turning
    # Components along moving axes: those of frame a, from where b, a moving point, is seen.
    weld, joint = (_which(anchors, kind) for kind in (AnchorType.WELD, AnchorType.JOINT))
    follows = a.angular + _where(weld, b.angular, a.angular)
    moving = _where(weld | joint, classical - spatial.cross(follows, linear), classical)
    if (weld & world).any():
        drag = [
            spatial.cross(side.angular, side.velocity_at(at) + root) for side, at in zip((a, b), points, strict=True)
        ]
        moving = _where(weld & world, classical - drag[0] + drag[1], moving)
    return moving, _where(world, turning, turning + spatial.cross(a.angular, b.angular))


def _distances(anchors: Anchors, a: _Side, b: _Side, first_axis: Array, velocity: Array) -> _Distances:
    chosen = _which(anchors, AnchorType.DISTANCE)
    zero = jnp.zeros_like(first_axis[0])
    if not chosen.any():
        return _Distances(zero, first_axis, zero)
    apart = a.placement.position - b.placement.position
    square = spatial.dot(apart, apart)
    exists = square > _COINCIDENT**2
    length = jnp.sqrt(jnp.where(exists, square, jnp.ones_like(square)))
    direction = jnp.where(exists, apart / length[None], first_axis)
    across = velocity - spatial.dot(direction, velocity)[None] * direction
    curvature = jnp.where(exists & chosen, spatial.dot(across, across) / length, zero)
    return _Distances(jnp.where(exists, length, zero), direction, curvature)


def _row_axes(anchors: Anchors, frame: Array, rotations: RotationRows, distances: _Distances) -> tuple[Array, Array]:
    """Matrices [3, 3, K] whose rows are the directions of the linear and of the angular rows in the world."""
    world, eye = _is_world_aligned(anchors), jnp.broadcast_to(spatial.identity_like(frame), frame.shape)
    linear = _where(world, eye, frame)
    chosen = _which(anchors, AnchorType.DISTANCE)
    if chosen.any():
        linear = linear.at[0].set(_where(chosen, distances.direction, linear[0]))
    if _which(anchors, AnchorType.JOINT).any():
        frame = spatial.multiply(rotations.projection, frame)
    return linear, _where(world, eye, frame)


def _errors(
    anchors: Anchors, a: _Side, b: _Side, frame: Array, turn: Array, rotations: RotationRows, distances: _Distances
) -> tuple[Array, Array]:
    """Linear and angular errors, [3, K] each."""
    linear = spatial.apply(frame, a.placement.position - b.placement.position)
    weld, world = _which(anchors, AnchorType.WELD), _is_world_aligned(anchors)
    if weld.any():
        # The translation of log6; the right Jacobian at the error is the left one at the rotation of b in a.
        along = spatial.apply(spatial.inverse(spatial.right_jacobian(-spatial.quaternion_log(turn))), linear)
        linear = _where(weld, along, linear)
    chosen = _which(anchors, AnchorType.DISTANCE)
    angular = rotations.error
    linear, angular = (_where(world, spatial.apply_transposed(frame, part), part) for part in (linear, angular))
    return _where(chosen, jnp.broadcast_to(distances.length, linear.shape), linear), angular


def _jacobian(
    articulation: Articulation, kin: Kinematics, a: _Side, b: _Side, points: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Linear and angular rows in world axes, [3, K, nv] each."""
    motions = generalized_motions(articulation, kin)[:, None]
    moved = (a.moved - b.moved)[None]
    lever = points[0][..., None] * a.moved[None] - points[1][..., None] * b.moved[None]
    return moved * motions[:3] + spatial.cross(motions[3:], lever), moved * motions[3:]


def _wrenches(linear: Array, angular: Array, point: Array) -> tuple[Array, Array]:
    """Unit forces along rows [3, 3, K] at points [3, K] and unit torques about rows as wrenches, [3, K, 6] each."""
    moment = jnp.stack([spatial.cross(point, row) for row in linear])
    rows = (jnp.concatenate(pair, axis=1) for pair in ((linear, moment), (jnp.zeros_like(angular), angular)))
    linear, angular = (jnp.swapaxes(row, 1, 2) for row in rows)
    return linear, angular


def _selected(anchors: Anchors, linear: Array, angular: Array) -> Array:
    """The rows that are held, of linear and angular ones [3, K, ...]."""
    both = (linear, angular)
    return jnp.stack([both[row // 3][row % 3, k] for k, one in enumerate(anchors.structure) for row in one.rows])
