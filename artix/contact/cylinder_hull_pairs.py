"""The points at which a cylinder touches a convex hull.

They are farthest apart along a normal of the hull, the cylinder's axis, or a direction of one of
the hull's corners or edges: from a corner to the wall or the rim, across an edge and the axis, from
an edge parallel to it, or one at which a rim touches an edge. Which corners matter is found by
searching (``hull_directions.py``), and all of these directions, and their derivatives, follow in
closed form or by Newton's method, as between a cylinder and a box.

If a face or a cap is closest, the points are corners of what the cap and the hull's face share: up
to four of the face's corners, the crossings of its edges and the rim, and four points of the rim
where it is lowest and at quarter turns from there. If a wall lies on a face, they are the ends of
its lowest line over the face. Elsewhere a wall touches an edge in two points, or a rim touches in
one.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import Core, Meeting, Segment, rounding_of, sign
from artix.contact.cylinder_pairs import (
    NEARLY_PARALLEL,
    PARALLEL,
    PREFERENCE,
    Cylinder,
    Shadow,
    at_rim,
    curved_or_flat,
    in_frame,
    over_face,
    root,
    towards_corner,
    towards_rim,
    wall_on_edge,
)
from artix.contact.hull_directions import (
    FromCurved,
    closest_corners,
    entry_at,
    number_of_largest,
    point_at,
)
from artix.contact.polygons import facing_face, outward_planes, polygon_of
from artix.math.arrays import chosen
from artix.math.spatial import aside
from artix.math.tangents import without_derivatives
from artix.model.hull_faces import HullFaces

Array = jax.Array

#: The kinds of directions of an edge and of the first of its corners.
_KINDS = _CORNER, _ACROSS, _ALONG, _RIM = np.arange(4, dtype=np.int32)


class _Flat(NamedTuple):
    """The direction of a face or of a cap along which both are farthest apart."""

    normal: Array
    """From the hull towards the cylinder, [3]."""
    face: Array
    """The number of the hull's face that the points are on."""
    by_cap: Array
    margin: Array
    """How much farther apart another direction must be to be preferred."""


def cylinder_and_hull(cylinder: Core, hull: Core, faces: HullFaces) -> Meeting:
    """The four points of a cylinder and a hull: gaps [4], normals and points [4, 3]. Unused ones
    have large gaps.
    """
    assert hull.points is not None
    one = in_frame(cylinder, hull)
    points = hull.points
    known, known_points = without_derivatives((one, points))
    extent = jnp.sum(jnp.max(jnp.abs(points), axis=0))
    far = without_derivatives(
        extent + jnp.sum(jnp.abs(one.center)) + 2 * (one.half + one.radius) + hull.radius
    )
    clearly = rounding_of(far)
    flat = _closest_flat(known, known_points, faces)
    first, second, kind = _closest_edge(known, known_points, faces, far, flat.margin)

    first, second = point_at(points, first), point_at(points, second)
    directions, at_wall = _of_edge(one, first, second)
    normal = jnp.sum(jnp.where(_KINDS[:, None] == kind, directions, 0), axis=0)
    separation = _along(one, points, normal)
    face = polygon_of(points, faces, flat.face)
    cap = sign(jnp.sum(flat.normal * known.axis)) * one.axis
    up = jnp.where(flat.by_cap, cap, face.normal)
    by_flat = _along(one, points, up)
    on_flat = over_face(one, face, up, flat.by_cap, far)
    # A point that is still outside the other feature may seem to be lower than all of it.
    on_flat = on_flat._replace(gap=jnp.where(on_flat.gap < by_flat - clearly, by_flat, on_flat.gap))

    # A wall across several edges does not yield to one of them too soon.
    is_level = (kind != _RIM) & (jnp.sum(normal * up) > 1 - 0.5 * NEARLY_PARALLEL)
    is_curved = separation > by_flat + jnp.where(is_level, flat.margin, clearly)
    by_wall = (kind != _RIM) & ((kind != _CORNER) | at_wall)
    on_edge = _on_edge(one, first, second, normal, separation)
    curved = chosen(by_wall, on_edge, at_rim(one, normal, separation))
    meeting = curved_or_flat(is_curved, curved, on_flat, far, hull)
    return Meeting(
        meeting.gap - hull.radius,
        meeting.normal,
        meeting.point + 0.5 * hull.radius * meeting.normal,
    )


def _on_edge(
    one: Cylinder, first: Array, second: Array, normal: Array, separation: Array
) -> Meeting:
    """Two points of the wall and an edge."""
    half = 0.5 * (second - first)
    square = jnp.sum(half**2)
    length = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
    edge = Segment(0.5 * (first + second), half, length, jnp.zeros_like(length))
    meeting = wall_on_edge(one, edge, normal)
    # Where shapes have sunk in, they are nearest beside their ends.
    least = jnp.min(meeting.gap)
    gap = jnp.where(meeting.gap == least, jnp.minimum(least, separation), meeting.gap)
    return meeting._replace(gap=gap)


# --- directions ---------------------------------------------------------------------------------


def _along(one: Cylinder, points: Array, normal: Array) -> Array:
    """How far a cylinder is from points [V, 3] along directions [..., 3], [...]."""
    heights = jnp.sum(points * normal[..., None, :], axis=-1)
    return _least(one, normal) - jnp.max(heights, axis=-1)


def _least(one: Cylinder, normal: Array) -> Array:
    """The least height of a cylinder along directions [..., 3], [...]."""
    up = jnp.sum(normal * one.axis, axis=-1)
    across = root(jnp.sum((normal - up[..., None] * one.axis) ** 2, axis=-1))
    return jnp.sum(normal * one.center, axis=-1) - one.half * jnp.abs(up) - one.radius * across


def _closest_flat(one: Cylinder, points: Array, faces: HullFaces) -> _Flat:
    """The face or the cap along whose normal both are farthest apart."""
    normals, planes, _ = outward_planes(points, faces)
    middle = jnp.mean(points, axis=0)
    inside = jnp.maximum(jnp.min(planes - jnp.sum(normals * middle, axis=1)), 0)
    separations = _least(one, normals) - planes
    number = number_of_largest(separations)
    by_face = jnp.max(separations)
    caps = jnp.stack([one.axis, -one.axis])
    by_caps = _along(one, points, caps)
    is_upper = by_caps[0] >= by_caps[1]
    cap = jnp.where(is_upper, caps[0], caps[1])
    margin = PREFERENCE * jnp.minimum(inside, jnp.minimum(one.half, one.radius))
    by_cap = jnp.max(by_caps) > by_face + margin
    # The face at the point nearest to the cap that looks most towards it.
    nearest = number_of_largest(jnp.sum(points * cap, axis=1))
    facing = facing_face(points, faces, -cap, nearest)
    return _Flat(
        jnp.where(by_cap, cap, point_at(normals, number)),
        jnp.where(by_cap, facing, number),
        by_cap,
        margin,
    )


def _closest_edge(
    one: Cylinder, points: Array, faces: HullFaces, far: Array, margin: Array
) -> tuple[Array, Array, Array]:
    """The numbers of the two ends of the edge of the nearest corners, and the kind of direction,
    along which both are farthest apart; without derivatives.
    """
    sets = FromCurved(points, one.center, functools.partial(_farthest_of, one))
    three = closest_corners(sets, far, lambda normal: _along(one, points, normal)).corners.a
    options = [_scored(one, points, three[k], three[k - 2], far, margin) for k in range(3)]
    scores = jnp.concatenate([option[0] for option in options])
    directions = jnp.concatenate([option[1] for option in options])
    best = number_of_largest(scores)
    # The nearest corner along the best of them has the edge that lies along the axis most.
    nearest = number_of_largest(jnp.sum(points * point_at(directions, best), axis=1))
    beside = _lengthwise(one, points, faces, nearest)
    others, _ = _scored(one, points, nearest, beside, far, margin)
    best = number_of_largest(jnp.concatenate([others, scores]))
    first = jnp.concatenate([nearest[None], three])
    second = jnp.concatenate([beside[None], three[np.array([1, 2, 0])]])
    return (
        entry_at(jnp.repeat(first, 4), best),
        entry_at(jnp.repeat(second, 4), best),
        entry_at(jnp.asarray(np.tile(_KINDS, 4)), best),
    )


def _farthest_of(one: Cylinder, direction: Array) -> Array:
    """The farthest place of a cylinder in a direction, [3]."""
    up = jnp.sum(direction * one.axis)
    across = direction - up * one.axis
    square = jnp.sum(across * across)
    is_across = square > jnp.finfo(square.dtype).eps ** 2 * jnp.sum(direction * direction)
    rim = jnp.where(is_across, one.radius / jnp.sqrt(jnp.where(is_across, square, 1)), 0)
    end = jnp.where(up < 0, -one.half, one.half)
    return one.center + end * one.axis + rim * across


def _scored(
    one: Cylinder, points: Array, first: Array, second: Array, far: Array, margin: Array
) -> tuple[Array, Array]:
    """How far both are apart along each direction of an edge, less a preference [4], and the
    directions [4, 3].
    """
    ends = point_at(points, first), point_at(points, second)
    directions, _ = _of_edge(one, *ends)
    along = ends[1] - ends[0]
    square = jnp.sum(along**2)
    across = square - jnp.sum(along * one.axis) ** 2
    # A wall along an edge has two points; it does not yield to either of its rims too soon.
    is_parallel = (across < NEARLY_PARALLEL * square) & (square > 0)
    clearly = rounding_of(far)
    bias = jnp.where(_KINDS == _RIM, jnp.where(is_parallel, margin, clearly), 0)
    is_known = jnp.sum(directions**2, axis=1) > 0.5
    return jnp.where(is_known, _along(one, points, directions) - bias, -jnp.inf), directions


def _lengthwise(one: Cylinder, points: Array, faces: HullFaces, corner: Array) -> Array:
    """The number of the other end of the edge at a corner that lies along the axis most."""
    edges = np.concatenate([faces.edges, faces.edges[:, ::-1]])
    along = points[edges[:, 1]] - points[edges[:, 0]]
    cosine = jnp.sum(along * one.axis, axis=1) ** 2 / jnp.sum(along**2, axis=1)
    best = number_of_largest(jnp.where(edges[:, 0] == corner, cosine, -1))
    return entry_at(jnp.asarray(edges[:, 1], jnp.int32), best)


def _of_edge(one: Cylinder, first: Array, second: Array) -> tuple[Array, Array]:
    """Four directions of an edge, towards the cylinder [4, 3], which are zero where there is none:
    from its first corner, across it and the axis, across it if parallel to the axis, and one at
    which a rim touches it; and whether the first ends at the wall.
    """
    eps = jnp.finfo(one.half.dtype).eps
    from_corner, is_known, at_wall = towards_corner(one, first)
    from_corner = jnp.where(is_known, from_corner, 0)
    edge = second - first
    square = jnp.sum(edge**2)
    is_edge = square > 0
    edge = edge / jnp.sqrt(jnp.where(is_edge, square, 1))
    apart = one.center - first

    across = jnp.cross(one.axis, edge)
    square = jnp.sum(across**2)
    crosses = square > PARALLEL
    across = across / jnp.sqrt(jnp.where(crosses, square, 1))
    across = jnp.where(crosses, sign(jnp.sum(across * apart)) * across, 0)

    beside = apart - jnp.sum(apart * one.axis) * one.axis
    square = jnp.sum(beside**2)
    is_beside = is_edge & ~crosses & (square > eps**2)
    beside = jnp.where(is_beside, beside / jnp.sqrt(jnp.where(is_beside, square, 1)), 0)

    # A frame whose first axis is the edge; the other two span the plane across it.
    side = jnp.cross(edge, aside(edge))
    square = jnp.sum(side**2)
    side = side / jnp.sqrt(jnp.where(square > 0, square, 1))
    other = jnp.cross(edge, side)

    def seen(vector: Array) -> Array:
        return jnp.stack([jnp.sum(vector * side), jnp.sum(vector * other)])

    start = jnp.where(crosses, seen(across), jnp.array([1.0, 0.0], edge.dtype))
    shadow = Shadow(
        seen(apart),
        seen(one.axis),
        jnp.sum(one.axis * edge) ** 2,
        jnp.zeros(2, edge.dtype),
        one.half,
        one.radius,
    )
    way = towards_rim(shadow, start)
    rim = jnp.where(is_edge, way[0] * side + way[1] * other, 0)
    return jnp.stack([from_corner, across, beside, rim]), at_wall
