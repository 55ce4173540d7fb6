"""Pairs of frames that constraints hold together: their rows' errors, velocities, Jacobians and
drifts.

An anchor is a pair of frames, a and b, each on a link or in the world. All quantities are of a
relative to b: an error, its velocity ``J nu`` and its acceleration ``J nu' + bias``. A force
``lambda`` on the rows acts on a, and with opposite sign on b; it enters the equation of motion as
``+ J^T lambda``. These are Pinocchio's signs, with ``joint1`` for a.

The functions of :class:`Side` take the frames' motion as it is, so they serve for values and, by
``jvp``, for closed-form derivatives.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.contact_points import moves_links
from artix.kinematics.forward import (
    Kinematics,
    body_accelerations,
    dof_motions,
    generalized_motions,
    kinematics,
    root_motion,
)
from artix.math import spatial, struct
from artix.math.arrays import take
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.couplings import LoopJointType

Array = jax.Array
ConstraintAxes = Literal["local", "world_aligned"]


class AnchorType(enum.Enum):
    """The meaning of an anchor's six rows, three linear, then three angular."""

    POINT = "point"
    """The two origins as material points: velocity and classical acceleration of their separation;
    no angular rows.

    Pinocchio's ``CONTACT_3D``."""
    WELD = "weld"
    """The relative spatial velocity at the origin of a, and its spatial acceleration. Pinocchio's
    ``CONTACT_6D``."""
    JOINT = "joint"
    """A loop joint: coordinates of one frame relative to the other, with exact derivatives, so that
    the free ones may move far."""
    DISTANCE = "distance"
    """One row: the distance between the two origins."""


@dataclasses.dataclass(frozen=True)
class AnchorStructure:
    """The static structure of an anchor.

    Attributes:
      link_a: the link of frame a, -1 for the world.
      link_b: the link of frame b, -1 for the world.
      type: the meaning of the rows.
      rows: the constrained rows: numbers 0 .. 5, linear before angular; ``(0,)`` for a distance.
      axes: whether the rows are along the axes of frame a, or of the world.
    """

    link_a: int
    link_b: int
    type: AnchorType
    rows: tuple[int, ...]
    axes: ConstraintAxes = "local"


class FramePairs(struct.PyTreeNode):
    """K pairs of frames.

    Attributes:
      structure: the static structure of each.
      pose_a: frames a in their links' frames, or in the world, position and quaternion xyzw, shape
        [K, 7].
      pose_b: frames b in their links' frames, or in the world, shape [K, 7].
    """

    structure: tuple[AnchorStructure, ...] = struct.field(pytree_node=False)
    pose_a: Array
    pose_b: Array

    @property
    def num_rows(self) -> int:
        """Number of rows of all anchors."""
        return sum(len(anchor.rows) for anchor in self.structure)

    @property
    def row_anchor(self) -> np.ndarray:
        """The anchor that each row belongs to, [R]."""
        return np.repeat(
            np.arange(len(self.structure)), [len(anchor.rows) for anchor in self.structure]
        )

    @property
    def is_angular(self) -> np.ndarray:
        """Which rows are angular, [R]; the others are linear."""
        return np.array([row >= 3 for anchor in self.structure for row in anchor.rows], bool)

    def has_type(self, kind: AnchorType) -> np.ndarray:
        """Which anchors are of a type, [K]."""
        return np.array([anchor.type is kind for anchor in self.structure])

    @property
    def is_world_aligned(self) -> np.ndarray:
        """Which anchors have rows along the world's axes, [K]."""
        return np.array([anchor.axes == "world_aligned" for anchor in self.structure])

    @property
    def links(self) -> tuple[np.ndarray, np.ndarray]:
        """The links of frames a and of frames b, -1 for the world, [K] each."""
        return np.array([anchor.link_a for anchor in self.structure]), np.array(
            [anchor.link_b for anchor in self.structure]
        )

    @property
    def locked_rotations(self) -> list[tuple[int, ...]]:
        """The rotations 0 .. 2 that each anchor of type ``JOINT`` locks; none for the others."""
        return [
            tuple(row - 3 for row in anchor.rows if row >= 3)
            if anchor.type is AnchorType.JOINT
            else ()
            for anchor in self.structure
        ]


class RotationRows(NamedTuple):
    """Locked angles and their dependence on the angular velocity z of frame a relative to b, in the
    axes of frame a.

    Attributes:
      error: the angles that should vanish, [3, K].
      projection: the matrix P whose product with z is their rate, [3, 3, K].
      drift: ``dP/dt z``, [3, K].
    """

    error: Array
    projection: Array
    drift: Array


def locked_rotations(
    locked: Sequence[tuple[int, ...]], turn: Array, angular: Array
) -> RotationRows:
    """The rows of K joints.

    With all three rotations locked, or none, the angles are the rotation vector and P the identity,
    which has the same null space as their derivative. With two locked, they are the components of
    the cross product of the two free axes. With one locked, the angle is the twist about that axis,
    whose rate is along the bisector of the two frames' axes.

    Args:
      locked: which of the axes 0 .. 2 of frame a each joint locks, K tuples.
      turn: rotation of frame b in frame a, unit quaternions [4, K].
      angular: relative angular velocity z, [3, K].
    """
    error = -spatial.quaternion_log(turn)
    projection = jnp.broadcast_to(spatial.identity_like(error), (3, *error.shape))
    rows = RotationRows(error, projection, jnp.zeros_like(error))
    for count, make in ((2, _two_locked), (1, _one_locked)):
        chosen = np.array([len(axes) == count for axes in locked])
        if chosen.any():
            # The only locked or the only free axis; axis 0 for all other joints, whose result is
            # not used.
            single = [sum(axes) if count == 1 else 3 - sum(axes) for axes in locked]
            unit = np.eye(3)[np.where(chosen, single, 0)].T
            special = make(jnp.asarray(unit, turn.dtype), turn, angular)
            rows = RotationRows(
                *(jnp.where(chosen, new, old) for new, old in zip(special, rows, strict=True))
            )
    return rows


def _two_locked(unit: Array, turn: Array, angular: Array) -> RotationRows:
    axis = spatial.rotate(turn, unit)
    rate = -spatial.cross(angular, axis)
    aligned = spatial.dot(axis, unit)
    aligned_rate = spatial.dot(rate, unit)
    projection = aligned[None, None] * spatial.identity_like(axis) - axis[:, None] * unit[None]
    drift = aligned_rate[None] * angular - spatial.dot(angular, unit)[None] * rate
    return RotationRows(spatial.cross(axis, unit), projection, drift)


def _one_locked(unit: Array, turn: Array, angular: Array) -> RotationRows:
    turn = jnp.where(turn[3] < 0, -turn, turn)
    sine = spatial.dot(turn[:3], unit)
    cosine = turn[3]
    # The twist is undefined where the axes are opposite; zero keeps values and derivatives finite.
    exists = sine**2 + cosine**2 > 1e-9
    sine = jnp.where(exists, sine, jnp.zeros_like(sine))
    cosine = jnp.where(exists, cosine, jnp.ones_like(cosine))
    axis = spatial.rotate(turn, unit)
    scale = 2 * (sine**2 + cosine**2)  # 1 + axis . unit
    bisector = (unit + axis) / scale[None]
    rate = -spatial.dot(spatial.cross(angular, axis), unit)
    drift = -spatial.dot(bisector, angular) * rate / scale
    return RotationRows(
        -2 * unit * jnp.arctan2(sine, cosine)[None],
        unit[:, None] * bisector[None],
        unit * drift[None],
    )


class AnchorColumns(NamedTuple):
    """C entries for each of K anchors.

    Attributes:
      entries: indices 0 .. nv - 1, ascending; padded with nv where fewer than C move an anchor,
        shape [K, C].
      nv: length of the generalised velocity.
    """

    entries: np.ndarray
    nv: int

    @classmethod
    def of(cls, articulation: Articulation, anchors: FramePairs) -> AnchorColumns:
        """The entries that move frame a or frame b of each anchor."""
        tree = articulation.topology
        moved = np.logical_or(*(moves_links(tree, links) for links in anchors.links))
        # At least one, as JAX cannot map over an empty axis.
        most = int(moved.sum(axis=1).max(initial=1))
        entries = np.full((len(moved), most), tree.nv)
        for row, mask in zip(entries, moved, strict=True):
            row[: mask.sum()] = np.flatnonzero(mask)
        return cls(entries, tree.nv)

    def gather(self, columns: Array) -> Array:
        """These entries of columns [..., K, nv], or [..., 1, nv] for all anchors: [..., K, C], with
        zero padding.
        """
        groups = columns.shape[-2]
        first = np.arange(groups)[:, None] * (self.nv + 1)
        padded = jnp.pad(columns, ((0, 0),) * (columns.ndim - 1) + ((0, 1),))
        return _at(padded.reshape(*columns.shape[:-2], -1), first + self.entries)

    def spread(self, columns: Array, anchor: np.ndarray) -> Array:
        """Columns [..., R, C] of rows that belong to anchors [R], as [..., R, nv]; all other
        entries are zero.
        """
        rows, count = columns.shape[-2:]
        indices = np.full((rows, self.nv + 1), rows * count)
        np.put_along_axis(
            indices, self.entries[anchor], np.arange(rows * count).reshape(rows, count), axis=1
        )
        flat = columns.reshape(*columns.shape[:-2], -1)
        return _at(jnp.pad(flat, ((0, 0),) * (flat.ndim - 1) + ((0, 1),)), indices[:, :-1])


def _at(x: Array, indices: np.ndarray) -> Array:
    return x.at[..., indices].get(mode="promise_in_bounds")


#: Origins closer than this [m] count as coincident: the line between them has no direction.
_COINCIDENT = 1e-9


class Side(NamedTuple):
    """One frame of each anchor, in world axes; positions are relative to the root's centre of
    mass.
    """

    placement: Transforms
    velocity: Array
    """Velocity of the frame's origin, [3, K]."""
    angular: Array
    """Angular velocity, [3, K]."""
    acceleration: Array
    """Classical acceleration of the origin, [3, K]."""
    angular_acceleration: Array
    """Angular acceleration, [3, K]."""

    def velocity_at(self, point: Array) -> Array:
        """Velocity of the material point of the frame at a position [3, K]."""
        return self.velocity + spatial.cross(self.angular, point - self.placement.position)

    def acceleration_at(self, point: Array) -> Array:
        """Classical acceleration of the material point of the frame at a position [3, K]."""
        lever = point - self.placement.position
        centripetal = spatial.cross(self.angular, spatial.cross(self.angular, lever))
        return self.acceleration + spatial.cross(self.angular_acceleration, lever) + centripetal


def anchor_sides(
    articulation: Articulation,
    state: State,
    kin: Kinematics,
    anchors: FramePairs,
    acceleration: Array | None = None,
) -> tuple[Side, Side]:
    """Frames a and frames b; a generalised acceleration of ``None`` is zero."""
    for name in ("pose_a", "pose_b"):
        shape = (len(anchors.structure), 7)
        check_vector(
            f"anchors.{name}", getattr(anchors, name), shape, articulation.dtype, "K poses"
        )
    tree = articulation.topology
    root = root_motion(tree, state.root_velocity).linear
    motions = dof_motions(tree, kin)
    velocities, accelerations = body_accelerations(tree, motions, state, acceleration)
    sides = []
    for links, poses in zip(anchors.links, (anchors.pose_a, anchors.pose_b), strict=True):
        on_link = links >= 0
        links = np.maximum(links, 0)
        body = tree.link_body[links]
        pose = Transforms.from_poses(poses)
        in_body = kin.placements.take(links) @ pose
        on_links = Transforms(take(kin.quaternion, body), take(kin.position, body)) @ in_body
        in_world = Transforms(pose.rotation, pose.position - kin.reference[:, None])
        placement = Transforms(
            *(_where(on_link, *pair) for pair in zip(on_links, in_world, strict=True))
        )
        linear, angular = velocities.take(body)
        rate, alpha = accelerations.take(body)
        # Relative to the root's centre of mass, whose uniform motion does not affect accelerations.
        velocity = linear + spatial.cross(angular, placement.position)
        motion = (
            velocity + root,
            angular,
            rate + spatial.cross(alpha, placement.position) + spatial.cross(angular, velocity),
            alpha,
        )
        sides.append(
            Side(placement, *(_where(on_link, part, jnp.zeros_like(part)) for part in motion))
        )
    return sides[0], sides[1]


def relative_motion(anchors: FramePairs, a: Side, b: Side) -> tuple[Array, Array, Array]:
    """Errors, velocities and accelerations of the rows, [R] each."""
    points = _points(anchors, a, b)
    linear = a.velocity_at(points[0]) - b.velocity_at(points[1])
    angular = a.angular - b.angular
    acceleration, alpha = _relative_accelerations(anchors, a, b, points, linear)
    frame, rotation = _orientation(a, b)
    rotations = locked_rotations(anchors.locked_rotations, rotation, spatial.apply(frame, angular))
    distances = _distances(anchors, a, b, frame[0], linear)
    linear_axes, angular_axes = _row_axes(anchors, frame, rotations, distances)
    error = _errors(anchors, a, b, frame, rotation, rotations, distances)
    acceleration = spatial.apply(linear_axes, acceleration)
    if distances.curvature is not None:
        acceleration = acceleration.at[0].add(distances.curvature)
    return (
        _select_rows(anchors, *error),
        _select_rows(
            anchors, spatial.apply(linear_axes, linear), spatial.apply(angular_axes, angular)
        ),
        _select_rows(anchors, acceleration, spatial.apply(angular_axes, alpha) + rotations.drift),
    )


def anchor_jacobian(
    articulation: Articulation, kin: Kinematics, anchors: FramePairs, a: Side, b: Side
) -> Array:
    """The Jacobian of the rows, [R, nv]."""
    motions = generalized_motions(articulation, kin)[:, None]
    moves_a, moves_b = moved_sides(articulation, anchors)
    points = _points(anchors, a, b)
    lever = points[0][..., None] * moves_a[None] - points[1][..., None] * moves_b[None]
    moves = (moves_a - moves_b)[None]
    linear = moves * motions[:3] + spatial.cross(motions[3:], lever)
    angular = moves * motions[3:]
    linear_axes, angular_axes = _axes(anchors, a, b)
    return _select_rows(
        anchors,
        spatial.apply(linear_axes[..., None], linear),
        spatial.apply(angular_axes[..., None], angular),
    )


def anchor_wrenches(anchors: FramePairs, a: Side, b: Side, force: Array) -> tuple[Array, Array]:
    """Wrenches about the root's centre of mass that forces [R] on the rows exert on a and on b,
    [6, K] each.
    """
    linear_axes, angular_axes = _axes(anchors, a, b)
    rows = _scatter_rows(anchors, force)
    linear = spatial.apply_transposed(linear_axes, rows[:3])
    torque = spatial.apply_transposed(angular_axes, rows[3:])
    wrenches = [
        jnp.concatenate([linear, torque + spatial.cross(at, linear)])
        for at in _points(anchors, a, b)
    ]
    return wrenches[0], -wrenches[1]


def moved_sides(articulation: Articulation, anchors: FramePairs) -> tuple[Array, Array]:
    """Which entries of the generalised velocity move frames a, and which frames b, zeros and ones
    [K, nv].
    """
    a, b = (
        jnp.asarray(moves_links(articulation.topology, links), articulation.dtype)
        for links in anchors.links
    )
    return a, b


# --- internals ----------------------------------------------------------------------------------


class _Distances(NamedTuple):
    """The terms of distance rows; the entries of other rows are meaningless."""

    length: Array
    direction: Array
    """From b to a; the first axis of frame a where the origins coincide, [3, K]."""
    curvature: Array | None
    """Contribution of the changing direction to the second derivative of the length, [K]."""


def _where(mask: np.ndarray, x: Array, y: Array) -> Array:
    """``jnp.where`` with a static mask [K], which often has the same value throughout."""
    if mask.all():
        return x
    return jnp.where(mask, x, y) if mask.any() else y


def _orientation(a: Side, b: Side) -> tuple[Array, Array]:
    """Rotations of the world in a, matrices [3, 3, K], and rotations of b in a, quaternions
    [4, K].
    """
    frame = jnp.swapaxes(spatial.rotation_matrix(a.placement.rotation), 0, 1)
    return frame, spatial.quaternion_product(
        spatial.conjugate(a.placement.rotation), b.placement.rotation
    )


def _axes(anchors: FramePairs, a: Side, b: Side) -> tuple[Array, Array]:
    frame, rotation = _orientation(a, b)
    rest = jnp.zeros_like(frame[0])
    rotations = locked_rotations(anchors.locked_rotations, rotation, rest)
    return _row_axes(anchors, frame, rotations, _distances(anchors, a, b, frame[0], rest))


def _points(anchors: FramePairs, a: Side, b: Side) -> tuple[Array, Array]:
    """The points at which the linear rows measure the motion of a and of b, [3, K] each."""
    at_a, at_b = a.placement.position, b.placement.position
    return (
        _where(anchors.has_type(AnchorType.JOINT), at_b, at_a),
        _where(anchors.has_type(AnchorType.WELD), at_a, at_b),
    )


def _relative_accelerations(
    anchors: FramePairs, a: Side, b: Side, points: tuple[Array, Array], linear: Array
) -> tuple[Array, Array]:
    """Linear and angular accelerations of a relative to b, [3, K], in world axes; ``linear`` is
    their velocity.
    """
    world = anchors.is_world_aligned
    classical = a.acceleration_at(points[0]) - b.acceleration_at(points[1])
    alpha = a.angular_acceleration - b.angular_acceleration
    # The rates of components along the moving axes of frame a.
    weld, joint = (anchors.has_type(kind) for kind in (AnchorType.WELD, AnchorType.JOINT))
    rotation = a.angular + _where(weld, b.angular, a.angular)
    acceleration = _where(weld | joint, classical - spatial.cross(rotation, linear), classical)
    if (weld & world).any():
        drag = [
            spatial.cross(side.angular, side.velocity_at(at))
            for side, at in zip((a, b), points, strict=True)
        ]
        acceleration = _where(weld & world, classical - drag[0] + drag[1], acceleration)
    return acceleration, _where(world, alpha, alpha + spatial.cross(a.angular, b.angular))


def _distances(
    anchors: FramePairs, a: Side, b: Side, first_axis: Array, velocity: Array
) -> _Distances:
    is_distance = anchors.has_type(AnchorType.DISTANCE)
    zero = jnp.zeros_like(first_axis[0])
    if not is_distance.any():
        return _Distances(zero, first_axis, None)
    separation = a.placement.position - b.placement.position
    square = spatial.dot(separation, separation)
    apart = square > _COINCIDENT**2
    length = jnp.sqrt(jnp.where(apart, square, jnp.ones_like(square)))
    direction = jnp.where(apart, separation / length[None], first_axis)
    transverse = velocity - spatial.dot(direction, velocity)[None] * direction
    curvature = jnp.where(apart & is_distance, spatial.dot(transverse, transverse) / length, zero)
    return _Distances(jnp.where(apart, length, zero), direction, curvature)


def _row_axes(
    anchors: FramePairs, frame: Array, rotations: RotationRows, distances: _Distances
) -> tuple[Array, Array]:
    """Matrices [3, 3, K] whose rows are the directions of the linear and of the angular rows in the
    world.
    """
    world = anchors.is_world_aligned
    eye = jnp.broadcast_to(spatial.identity_like(frame), frame.shape)
    linear = _where(world, eye, frame)
    is_distance = anchors.has_type(AnchorType.DISTANCE)
    if is_distance.any():
        linear = linear.at[0].set(_where(is_distance, distances.direction, linear[0]))
    if anchors.has_type(AnchorType.JOINT).any():
        frame = spatial.multiply(rotations.projection, frame)
    return linear, _where(world, eye, frame)


def _errors(
    anchors: FramePairs,
    a: Side,
    b: Side,
    frame: Array,
    rotation: Array,
    rotations: RotationRows,
    distances: _Distances,
) -> tuple[Array, Array]:
    """Linear and angular errors, [3, K] each."""
    linear = spatial.apply(frame, a.placement.position - b.placement.position)
    weld = anchors.has_type(AnchorType.WELD)
    world = anchors.is_world_aligned
    if weld.any():
        # The translation of log6; the right Jacobian at the error is the left one at the rotation
        # of b in a.
        log = spatial.apply(
            spatial.inverse(spatial.right_jacobian(-spatial.quaternion_log(rotation))), linear
        )
        linear = _where(weld, log, linear)
    angular = rotations.error
    linear, angular = (
        _where(world, spatial.apply_transposed(frame, part), part) for part in (linear, angular)
    )
    length = jnp.broadcast_to(distances.length, linear.shape)
    return _where(anchors.has_type(AnchorType.DISTANCE), length, linear), angular


def _select_rows(anchors: FramePairs, linear: Array, angular: Array) -> Array:
    """The constrained rows out of linear and angular ones [3, K, ...]: [R, ...]."""
    both = (linear, angular)
    kinds = {anchor.rows for anchor in anchors.structure}
    if kinds in ({(0, 1, 2)}, {(0, 1, 2, 3, 4, 5)}):
        # Equivalent to the general case below, with half the operations.
        rows = linear if kinds == {(0, 1, 2)} else jnp.concatenate(both)
        return jnp.moveaxis(rows, 0, 1).reshape(anchors.num_rows, *rows.shape[2:])
    return jnp.stack(
        [
            both[row // 3][row % 3, k]
            for k, anchor in enumerate(anchors.structure)
            for row in anchor.rows
        ]
    )


def _scatter_rows(anchors: FramePairs, rows: Array) -> Array:
    """The transpose of :func:`_select_rows`: [R] -> [6, K]."""
    zero = jnp.zeros_like(rows[0])
    index = iter(range(anchors.num_rows))
    columns = []
    for anchor in anchors.structure:
        constrained = {row: rows[next(index)] for row in anchor.rows}
        columns.append(jnp.stack([constrained.get(row, zero) for row in range(6)]))
    return jnp.stack(columns, axis=1)


class AnchorRows(NamedTuple):
    """The R rows of anchors, anchor by anchor, each anchor's in the order of its ``rows``; in m,
    rad and s.

    Attributes:
      error: what should be zero, [R]: ``R_a^T (p_a - p_b)`` and ``-log(R_a^T R_b)``; for a weld
        ``-log6`` of the placement of b in a. In the axes of frame a unless the rows are
        ``world_aligned``. A distance row has the distance itself.
      velocity: ``jacobian @ nu``, [R].
      jacobian: [R, nv].
      bias: the acceleration of the rows at zero generalised acceleration, [R].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> constraints = artix.Constraints.of(arm, [artix.Constraint(frame_a="tool")])
      >>> rows = artix.constraints.constraint_kinematics(arm, artix.neutral_state(arm), constraints)
      >>> print(rows.error.shape, rows.jacobian.shape)
      (3,) (3, 7)
    """

    error: Array
    velocity: Array
    jacobian: Array
    bias: Array


def loop_anchors(articulation: Articulation) -> FramePairs:
    """The loop joints of an articulation as anchors, one each, in the same order.

    The rows of a joint are its locked axes, translations before rotations, along the axes of frame
    a. The row of a ``distance`` joint is the distance, whose bounds are
    ``articulation.loop_joints.min_distance`` and ``max_distance``.
    """
    structure = []
    for joint in articulation.topology.loop_joints:
        kind = AnchorType.DISTANCE if joint.type is LoopJointType.DISTANCE else AnchorType.JOINT
        # artix.Axis counts rotations first.
        rows = tuple(sorted((int(axis) + 3) % 6 for axis in joint.locked_axes))
        if kind is AnchorType.DISTANCE:
            rows = (0,)
        structure.append(AnchorStructure(joint.link_a, joint.link_b, kind, rows))
    joints = articulation.loop_joints
    return FramePairs(tuple(structure), joints.pose_a, joints.pose_b)


def anchor_rows(articulation: Articulation, state: State, anchors: FramePairs) -> AnchorRows:
    """Errors, velocities, Jacobian and drift of anchors.

    Args:
      anchors: K pairs of frames.

    Returns:
      The R selected rows.

    Identities: ``velocity == jacobian @ nu``; for :attr:`AnchorType.JOINT` near a vanishing error,
    ``velocity`` and ``jacobian @ nu' + bias`` are the first and second time derivatives of
    ``error``.
    """
    return solved_anchor_rows(articulation, state, kinematics(articulation, state), anchors)


def solved_anchor_rows(
    articulation: Articulation, state: State, kin: Kinematics, anchors: FramePairs
) -> AnchorRows:
    """:func:`anchor_rows`, from solved kinematics."""
    if not anchors.structure:
        empty = jnp.zeros(0, articulation.dtype)
        return AnchorRows(
            empty, empty, jnp.zeros((0, articulation.topology.nv), articulation.dtype), empty
        )
    last = max(max(each.link_a, each.link_b) for each in anchors.structure)
    if last >= articulation.topology.num_links:
        raise ValueError(
            f"constraints: there is no link {last} in this articulation; make them of it by "
            "artix.Constraints.of(...)"
        )
    sides = anchor_sides(articulation, state, kin, anchors)
    error, velocity, bias = relative_motion(anchors, *sides)
    return AnchorRows(error, velocity, anchor_jacobian(articulation, kin, anchors, *sides), bias)
