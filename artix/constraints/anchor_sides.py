"""The motion of an anchor's two frames, and the rows computed from it.

The functions take the frames' motion as given, so they serve for values and, by ``jvp``, for closed-form derivatives.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.constraints.anchor_structure import Anchors, AnchorType
from artix.constraints.locked_rotations import RotationRows, locked_rotations
from artix.kinematics.bodies import Placement
from artix.kinematics.solve import Kinematics, body_accelerations, dof_motions, generalized_motions, root_motion
from artix.math import spatial
from artix.math.arrays import take
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology

Array = jax.Array
#: Origins closer than this [m] count as coincident: the line between them has no direction.
_COINCIDENT = 1e-9


class Side(NamedTuple):
    """One frame of each anchor, in world axes; positions are relative to the root's centre of mass."""

    placement: Placement
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
    articulation: Articulation, state: State, kin: Kinematics, anchors: Anchors, acceleration: Array | None = None
) -> tuple[Side, Side]:
    """Frames a and frames b; a generalised acceleration of ``None`` is zero."""
    for name in ("pose_a", "pose_b"):
        shape = (len(anchors.structure), 7)
        check_vector(f"anchors.{name}", getattr(anchors, name), shape, articulation.dtype, "K poses")
    tree = articulation.topology
    root = root_motion(tree, state.root_velocity).linear
    motions = dof_motions(tree, kin)
    velocities, accelerations = body_accelerations(tree, motions, state, acceleration)
    sides = []
    for links, poses in zip(anchors.links, (anchors.pose_a, anchors.pose_b), strict=True):
        on_link, links = links >= 0, np.maximum(links, 0)
        body, pose = tree.link_body[links], Placement.from_poses(poses)
        in_body = kin.placements.take(links) @ pose
        on_links = Placement(take(kin.quaternion, body), take(kin.position, body)) @ in_body
        in_world = Placement(pose.rotation, pose.position - kin.reference[:, None])
        placement = Placement(*(_where(on_link, *pair) for pair in zip(on_links, in_world, strict=True)))
        (linear, angular), (rate, alpha) = velocities.take(body), accelerations.take(body)
        # Relative to the root's centre of mass, whose uniform motion does not affect accelerations.
        velocity = linear + spatial.cross(angular, placement.position)
        motion = (
            velocity + root,
            angular,
            rate + spatial.cross(alpha, placement.position) + spatial.cross(angular, velocity),
            alpha,
        )
        sides.append(Side(placement, *(_where(on_link, part, jnp.zeros_like(part)) for part in motion)))
    return sides[0], sides[1]


def relative_motion(anchors: Anchors, a: Side, b: Side) -> tuple[Array, Array, Array]:
    """Errors, velocities and accelerations of the rows, [R] each."""
    points = _points(anchors, a, b)
    linear, angular = a.velocity_at(points[0]) - b.velocity_at(points[1]), a.angular - b.angular
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
        _select_rows(anchors, spatial.apply(linear_axes, linear), spatial.apply(angular_axes, angular)),
        _select_rows(anchors, acceleration, spatial.apply(angular_axes, alpha) + rotations.drift),
    )


def anchor_jacobian(articulation: Articulation, kin: Kinematics, anchors: Anchors, a: Side, b: Side) -> Array:
    """The Jacobian of the rows, [R, nv]."""
    motions = generalized_motions(articulation, kin)[:, None]
    moves_a, moves_b = moved_sides(articulation, anchors)
    points = _points(anchors, a, b)
    lever = points[0][..., None] * moves_a[None] - points[1][..., None] * moves_b[None]
    moves = (moves_a - moves_b)[None]
    linear, angular = moves * motions[:3] + spatial.cross(motions[3:], lever), moves * motions[3:]
    linear_axes, angular_axes = _axes(anchors, a, b)
    return _select_rows(
        anchors, spatial.apply(linear_axes[..., None], linear), spatial.apply(angular_axes[..., None], angular)
    )


def anchor_wrenches(anchors: Anchors, a: Side, b: Side, force: Array) -> tuple[Array, Array]:
    """Wrenches about the root's centre of mass that forces [R] on the rows exert on a and on b, [6, K] each."""
    linear_axes, angular_axes = _axes(anchors, a, b)
    rows = _scatter_rows(anchors, force)
    linear, torque = spatial.apply_transposed(linear_axes, rows[:3]), spatial.apply_transposed(angular_axes, rows[3:])
    wrenches = [jnp.concatenate([linear, torque + spatial.cross(at, linear)]) for at in _points(anchors, a, b)]
    return wrenches[0], -wrenches[1]


def moved_sides(articulation: Articulation, anchors: Anchors) -> tuple[Array, Array]:
    """Which entries of the generalised velocity move frames a, and which frames b, zeros and ones [K, nv]."""
    a, b = (jnp.asarray(moves_links(articulation.topology, links), articulation.dtype) for links in anchors.links)
    return a, b


def moves_links(tree: Topology, links: np.ndarray) -> np.ndarray:
    """Which entries of the generalised velocity move each link, -1 for the world, [K, nv]."""
    joints = tree.dof_moves_link[:, np.maximum(links, 0)].T
    root = np.ones((len(links), tree.num_base_dofs), bool)
    return np.concatenate([root, joints], axis=1) & (links >= 0)[:, None]


# --- internals ------------------------------------------------------------------------------------------------------


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
    """Rotations from world axes to those of a, matrices [3, 3, K], and the rotation of b in a, quaternions [4, K]."""
    frame = jnp.swapaxes(spatial.rotation_matrix(a.placement.rotation), 0, 1)
    return frame, spatial.quaternion_product(spatial.conjugate(a.placement.rotation), b.placement.rotation)


def _axes(anchors: Anchors, a: Side, b: Side) -> tuple[Array, Array]:
    frame, rotation = _orientation(a, b)
    rest = jnp.zeros_like(frame[0])
    rotations = locked_rotations(anchors.locked_rotations, rotation, rest)
    return _row_axes(anchors, frame, rotations, _distances(anchors, a, b, frame[0], rest))


def _points(anchors: Anchors, a: Side, b: Side) -> tuple[Array, Array]:
    """The points at which the linear rows measure the motion of a and of b, [3, K] each."""
    at_a, at_b = a.placement.position, b.placement.position
    return (
        _where(anchors.has_type(AnchorType.JOINT), at_b, at_a),
        _where(anchors.has_type(AnchorType.WELD), at_a, at_b),
    )


def _relative_accelerations(
    anchors: Anchors, a: Side, b: Side, points: tuple[Array, Array], linear: Array
) -> tuple[Array, Array]:
    """Linear and angular accelerations of a relative to b, [3, K], in world axes; ``linear`` is their velocity."""
    world = anchors.is_world_aligned
    classical = a.acceleration_at(points[0]) - b.acceleration_at(points[1])
    alpha = a.angular_acceleration - b.angular_acceleration
    # The rates of components along the moving axes of frame a.
    weld, joint = (anchors.has_type(kind) for kind in (AnchorType.WELD, AnchorType.JOINT))
    rotation = a.angular + _where(weld, b.angular, a.angular)
    acceleration = _where(weld | joint, classical - spatial.cross(rotation, linear), classical)
    if (weld & world).any():
        drag = [spatial.cross(side.angular, side.velocity_at(at)) for side, at in zip((a, b), points, strict=True)]
        acceleration = _where(weld & world, classical - drag[0] + drag[1], acceleration)
    return acceleration, _where(world, alpha, alpha + spatial.cross(a.angular, b.angular))


def _distances(anchors: Anchors, a: Side, b: Side, first_axis: Array, velocity: Array) -> _Distances:
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


def _row_axes(anchors: Anchors, frame: Array, rotations: RotationRows, distances: _Distances) -> tuple[Array, Array]:
    """Matrices [3, 3, K] whose rows are the directions of the linear and of the angular rows in the world."""
    world, eye = anchors.is_world_aligned, jnp.broadcast_to(spatial.identity_like(frame), frame.shape)
    linear = _where(world, eye, frame)
    is_distance = anchors.has_type(AnchorType.DISTANCE)
    if is_distance.any():
        linear = linear.at[0].set(_where(is_distance, distances.direction, linear[0]))
    if anchors.has_type(AnchorType.JOINT).any():
        frame = spatial.multiply(rotations.projection, frame)
    return linear, _where(world, eye, frame)


def _errors(
    anchors: Anchors, a: Side, b: Side, frame: Array, rotation: Array, rotations: RotationRows, distances: _Distances
) -> tuple[Array, Array]:
    """Linear and angular errors, [3, K] each."""
    linear = spatial.apply(frame, a.placement.position - b.placement.position)
    weld, world = anchors.has_type(AnchorType.WELD), anchors.is_world_aligned
    if weld.any():
        # The translation of log6; the right Jacobian at the error is the left one at the rotation of b in a.
        log = spatial.apply(spatial.inverse(spatial.right_jacobian(-spatial.quaternion_log(rotation))), linear)
        linear = _where(weld, log, linear)
    angular = rotations.error
    linear, angular = (_where(world, spatial.apply_transposed(frame, part), part) for part in (linear, angular))
    length = jnp.broadcast_to(distances.length, linear.shape)
    return _where(anchors.has_type(AnchorType.DISTANCE), length, linear), angular


def _select_rows(anchors: Anchors, linear: Array, angular: Array) -> Array:
    """The constrained rows out of linear and angular ones [3, K, ...]: [R, ...]."""
    both = (linear, angular)
    kinds = {anchor.rows for anchor in anchors.structure}
    if kinds in ({(0, 1, 2)}, {(0, 1, 2, 3, 4, 5)}):
        # Equivalent to the general case below, with half the operations.
        rows = linear if kinds == {(0, 1, 2)} else jnp.concatenate(both)
        return jnp.moveaxis(rows, 0, 1).reshape(anchors.num_rows, *rows.shape[2:])
    return jnp.stack([both[row // 3][row % 3, k] for k, anchor in enumerate(anchors.structure) for row in anchor.rows])


def _scatter_rows(anchors: Anchors, rows: Array) -> Array:
    """The transpose of :func:`_select_rows`: [R] -> [6, K]."""
    zero, index = jnp.zeros_like(rows[0]), iter(range(anchors.num_rows))
    columns = []
    for anchor in anchors.structure:
        constrained = {row: rows[next(index)] for row in anchor.rows}
        columns.append(jnp.stack([constrained.get(row, zero) for row in range(6)]))
    return jnp.stack(columns, axis=1)
