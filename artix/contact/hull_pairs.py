"""The points at which two boxes touch, and at which a convex hull touches a sphere, a capsule, a
box or another hull.

Between two boxes the separating axis is the one of 15 directions (face normals and cross products
of edges) along which they are farthest apart. If it is a face normal, the points are up to four
corners of what this face and the other box's face that looks towards it share. If it is a cross
product of edges, there is one point between the two edges. When separations are nearly equal, faces
are preferred to edges, and the first box's faces to the second's, so that points do not jump
(Gottschalk, Lin and Manocha, *OBBTree*, SIGGRAPH 1996; Ericson, *Real-Time Collision Detection*,
2005, section 4.4.1).

Towards a hull, a sphere is a point with a radius, a capsule two, a box eight. Two sets of points
are nearest at a corner, an edge or a face of each, which ``hull_directions.py`` finds; where they
overlap, they are farthest apart along the normal of a face, or of two edges that cross. From the
numbers of these points, distance, normal and points follow in closed form, and so do their
derivatives.

If a face is closest, a box and a hull have up to four corners of what that face and the other
shape's face that looks towards it share, as two boxes have. When both are flush, the points are on
the larger face, or the first of equal ones. Elsewhere there is one point. A capsule has two: the
ends of what is over a face, or those along an edge.

Where separations are nearly equal, faces are preferred to edges, by a thousandth of the smaller
distance between a shape's middle and its faces, as for boxes.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import (
    Core,
    Meeting,
    Segment,
    corners_of,
    first_of_largest,
    in_world,
    relative_to,
    rounding_of,
    segments,
    sign,
    two_of,
)
from artix.contact.hull_directions import (
    TOUCHING,
    Corners,
    Differences,
    Nearest,
    farthest,
    nearest_corners,
    number_of_largest,
    outermost_corners,
    point_at,
)
from artix.contact.polygons import (
    Polygon,
    facing_face,
    normal_of,
    on_both,
    outward_planes,
    part_over,
    polygon_of,
)
from artix.math.arrays import chosen
from artix.math.tangents import without_derivatives
from artix.model.hull_faces import HullFaces

Array = jax.Array

#: Margin of the preference for faces, in units of the smallest distance between a shape's middle
#: and its faces, which of a box is the shortest half edge.
_PREFERENCE = 1e-3

#: The most separations of a face and a point that are all computed, for the largest of them, rather
#: than those of the face that looks into the direction found.
_FEW = 256


class _Single(NamedTuple):
    """The nearest points of two sets, in the frame of the first."""

    gap: Array
    normal: Array
    """From the second to the first, [3]."""
    first: Array
    second: Array


def sphere_and_hull(sphere: Core, hull: Core, faces: HullFaces) -> Meeting:
    """The point of a sphere and a hull: gap [1], normal and point [1, 3].

    From inside, the way out is through the nearest face.
    """
    sets = _sets(corners_of(hull), jnp.zeros((1, 3), hull.half.dtype), hull, sphere)
    nearest, face, size = _nearest_of_round(sets, faces)
    single = _between(sets, nearest.corners, nearest.normal)
    height = jnp.sum(face.normal * (sets.offset - face.loop[0]))
    rounding = rounding_of(size)
    by_face = ~nearest.is_valid | (height > single.gap - rounding)
    apart = jnp.where(by_face, height, single.gap)
    outward = jnp.where(by_face, face.normal, -single.normal)
    gap = apart - hull.radius - sphere.radius
    point = sets.offset - (sphere.radius + 0.5 * gap) * outward
    return in_world(hull, Meeting(gap[None], -outward[None], point[None]), -1)


def capsule_and_hull(capsule: Core, hull: Core, faces: HullFaces) -> Meeting:
    """The two points of a capsule and a hull: gaps [2], normals and points [2, 3]."""
    ends = jnp.stack([-capsule.half, capsule.half])
    sets = _sets(corners_of(hull), ends, hull, capsule)
    nearest, face, size = _nearest_of_round(sets, faces)
    single = _between(sets, nearest.corners, nearest.normal)
    center, along = sets.offset, sets.turned(capsule.half)
    low, high = part_over(face, center, along)
    shares = (low <= high) | ~nearest.is_valid
    none = low > high
    square = jnp.sum(along**2)
    middle = jnp.sum((single.second - center) * along) / jnp.where(square > 0, square, 1)
    places = jnp.stack([jnp.where(none, -1, low), jnp.where(none, 1, high), middle])
    heights = jnp.sum((center + places[:, None] * along - face.loop[0]) * face.normal, axis=1)
    # Inside, there is no nearest point.
    apart = jnp.where(
        np.array([False, False, True]),
        jnp.where(nearest.is_valid, single.gap, heights + size),
        heights,
    )
    outward = jnp.stack([face.normal, face.normal, -single.normal])
    gap = apart - hull.radius - capsule.radius
    point = center + places[:, None] * along - (capsule.radius + 0.5 * gap)[:, None] * outward
    on_face = two_of(Meeting(gap, outward, point), places, size)
    # Along an edge, or across it, or at a corner, which is an edge without a length.
    numbers = nearest.corners.a
    other = jnp.where(numbers[1] == numbers[0], numbers[2], numbers[1])
    first, second = (point_at(sets.first, number) for number in (numbers[0], other))
    half = 0.5 * (second - first)
    length = jnp.sqrt(jnp.where(other == numbers[0], 1, jnp.sum(half**2)))
    on_edge = segments(
        Segment(center, along, capsule.half[2], capsule.radius),
        Segment(
            0.5 * (first + second), half, jnp.where(other == numbers[0], 0, length), hull.radius
        ),
    )
    return in_world(hull, chosen(shares, on_face, on_edge), 1)


def hull_meetings(a: Core, b: Core, faces_a: HullFaces, faces_b: HullFaces) -> Meeting:
    """The four points of two shapes, each a hull or a box: gaps [4], normals and points [4, 3].
    Unused ones have large gaps.
    """
    sets = _sets(corners_of(a), corners_of(b), a, b)
    known = without_derivatives(sets)
    size = _size(known)
    apart, touching = nearest_corners(known, size), outermost_corners(known, size)
    single_corners = chosen(apart.is_valid, apart.corners, touching.corners)
    single = _between(sets, single_corners, chosen(apart.is_valid, apart.normal, touching.normal))
    is_near = ~apart.is_valid | (single.gap < TOUCHING * size)
    way = without_derivatives(jnp.where(is_near & touching.is_valid, touching.normal, apart.normal))

    back = known.reversed()
    of_a = _closest_face(known, faces_a, way)
    of_b = _closest_face(back, faces_b, -known.seen(way))
    tolerance = _PREFERENCE * jnp.minimum(of_a.inside, of_b.inside)
    is_larger = of_b.area > (1 + _PREFERENCE) * of_a.area
    by_b = of_b.separation > of_a.separation + jnp.where(is_larger, -tolerance, tolerance)
    # The faces that look towards them.
    at_a = facing_face(known.first, faces_a, known.turned(of_b.normal), of_b.lowest)
    at_b = facing_face(known.second, faces_b, known.seen(of_a.normal), of_a.lowest)
    face_a = polygon_of(sets.first, faces_a, jnp.where(by_b, at_a, of_a.number), faces_b)
    face_b = polygon_of(sets.second, faces_b, jnp.where(by_b, of_b.number, at_b), faces_a)
    face_b = face_b._replace(
        loop=sets.moved(face_b.loop),
        edges=sets.turned(face_b.edges),
        normal=sets.turned(face_b.normal),
    )
    reference, incident = chosen(by_b, face_b, face_a), chosen(by_b, face_a, face_b)
    up = reference.normal
    height, place, is_used = on_both(reference, incident, size)
    lowest = jnp.where(by_b, point_at(sets.first, of_b.lowest), sets.placed(of_a.lowest))
    of_faces = jnp.sum((lowest - reference.loop[0]) * up)
    radius = jnp.where(by_b, a.radius, b.radius)
    gap = height - a.radius - b.radius
    point = place - (radius + 0.5 * gap)[:, None] * up
    normal = jnp.broadcast_to(jnp.where(by_b, up, -up), (4, 3))

    # The nearest points alone, or instead of the corner beside them if it is not as near, where
    # they are just beside the face.
    middle = 0.5 * (single.first + single.second + (b.radius - a.radius) * single.normal)
    rounding = rounding_of(size)
    is_known = apart.is_valid | touching.is_valid
    by_edges = is_known & (single.gap > of_faces + tolerance)
    is_beside = single.gap > of_faces - rounding
    is_beside = is_known & is_beside & (single.gap + rounding < jnp.min(height))
    beside = number_of_largest(
        jnp.where(is_used, -jnp.sum((point - middle) ** 2, axis=1), -jnp.inf)
    )
    numbers = np.arange(4, dtype=np.int32)
    is_single = jnp.where(by_edges, numbers == 0, is_beside & (numbers == beside))
    gap = jnp.where(by_edges, size, gap)
    return in_world(
        a,
        Meeting(
            jnp.where(is_single, single.gap - a.radius - b.radius, gap),
            jnp.where((is_single | by_edges)[:, None], single.normal, normal),
            jnp.where((is_single | by_edges)[:, None], middle, point),
        ),
        1,
    )


# --- sets of points -----------------------------------------------------------------------------


def _sets(first: Array, second: Array, a: Core, b: Core) -> Differences:
    """The points of two shapes, seen from the first."""
    return Differences(first, second, *relative_to(a, b))


def _size(sets: Differences) -> Array:
    """A length that no difference exceeds."""
    largest = [jnp.max(jnp.abs(x), axis=0) for x in (sets.first, sets.second, sets.offset[None])]
    return jnp.sum(largest[0] + largest[1] + largest[2])


def _nearest_of_round(sets: Differences, faces: HullFaces) -> tuple[Nearest, Polygon, Array]:
    """The nearest corners of a hull and the core of a round shape; the face that looks towards it,
    or the nearest one if it is inside; and a length.
    """
    known = without_derivatives(sets)
    size = _size(known)
    nearest = nearest_corners(known, size)
    normals, _ = normal_of(known.first[faces.corner_numbers])
    heights = _separations(known, faces, normals)
    looks = -jnp.sum(normals * nearest.normal, axis=1)
    number = number_of_largest(jnp.where(nearest.is_valid, looks, heights))
    return nearest, polygon_of(sets.first, faces, number), size


def _between(sets: Differences, corners: Corners, hint: Array) -> _Single:
    """The nearest points, given which points they are between; their derivatives hold these."""
    a, b = point_at(sets.first, corners.a), sets.placed(corners.b)
    m = a - b
    is_new = [
        (corners.a[j] != corners.a[k]) | (corners.b[j] != corners.b[k])
        for j, k in ((0, 1), (0, 2), (1, 2))
    ]
    is_triangle = is_new[0] & is_new[1] & is_new[2]
    # A segment has its second corner twice.
    is_segment = ~is_triangle & is_new[0]
    first, second = m[1] - m[0], m[2] - m[0]
    xx, yy, xy = jnp.sum(first**2), jnp.sum(second**2), jnp.sum(first * second)
    x, y = -jnp.sum(m[0] * first), -jnp.sum(m[0] * second)
    cross = jnp.cross(first, second)
    square = jnp.sum(cross**2)
    is_triangle = is_triangle & (square > 0)
    safe = jnp.where(is_triangle, square, 1)
    s = jnp.where(is_triangle, (x * yy - y * xy) / safe, 0)
    t = jnp.where(is_triangle, (y * xx - x * xy) / safe, 0)
    s = jnp.where(is_segment, x / jnp.where(is_segment, xx, 1), s)
    shares = jnp.stack([1 - s - t, s, t])[:, None]
    of_a, of_b = jnp.sum(shares * a, axis=0), jnp.sum(shares * b, axis=0)
    normal = cross / jnp.sqrt(safe)
    normal = sign(jnp.sum(normal * hint)) * normal
    apart = m[0] + s * first
    length = jnp.sum(apart**2)
    is_apart = ~is_triangle & (length > 0)
    length = jnp.sqrt(jnp.where(is_apart, length, 1))
    normal = jnp.where(is_triangle, normal, jnp.where(is_apart, apart / length, hint))
    gap = jnp.where(is_triangle, jnp.sum(normal * m[0]), jnp.where(is_apart, length, 0))
    return _Single(gap, normal, of_a, of_b)


# --- faces --------------------------------------------------------------------------------------


class _Closest(NamedTuple):
    """The face of a hull from which another set of points is farthest; without derivatives."""

    number: Array
    separation: Array
    normal: Array
    """Outwards, in the hull's frame, [3]."""
    area: Array
    lowest: Array
    """The number of the other set's point nearest to the face."""
    inside: Array
    """The smallest distance from the hull's middle to any of its faces."""


def _closest_face(sets: Differences, faces: HullFaces, way: Array) -> _Closest:
    """The face of the first set that is farthest from the second, or looks against a direction."""
    normals, planes, areas = outward_planes(sets.first, faces)
    inside = jnp.min(planes - jnp.sum(normals * jnp.mean(sets.first, axis=0), axis=1))
    if len(normals) * len(sets.second) <= _FEW:
        scores = _separations(sets, faces, normals)
    else:
        scores = -jnp.sum(normals * way, axis=1)
    number = number_of_largest(scores)
    rows = jnp.concatenate([normals, planes[:, None], areas[:, None]], axis=1).reshape(-1, 5)
    row = _row_at(rows, number)
    normal, plane, area = row[:3], row[3], row[4]
    lowest = farthest(sets.second, -sets.seen(normal))
    separation = jnp.sum(sets.placed(lowest) * normal) - plane
    return _Closest(number, separation, normal, area, lowest, jnp.maximum(inside, 0))


def _separations(sets: Differences, faces: HullFaces, normals: Array) -> Array:
    """How far the second set is from each face of the first, [F]."""
    others = sets.moved(sets.second)
    heights = jnp.min(jnp.sum(others * normals[:, None], axis=2), axis=1)
    return heights - jnp.sum(normals * sets.first[faces.corner_numbers[:, 0]], axis=1)


def _row_at(rows: Array, number: Array) -> Array:
    index = rows.shape[1] * number + jnp.arange(rows.shape[1], dtype=jnp.int32)
    return rows.reshape(-1).at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


# --- two boxes ----------------------------------------------------------------------------------

#: Squared sine of the angle below which two edges count as parallel.
_PARALLEL = 1e-4


class _Best(NamedTuple):
    """The direction, out of several, with the largest separation between two boxes."""

    separation: Array
    which: Array
    """One at the chosen direction, zeros elsewhere."""


def box_meetings(a: Core, b: Core) -> Meeting:
    """The four points of two boxes: gaps [4], normals and points [4, 3]. Unused ones have large
    gaps.
    """
    turn = jnp.sum(a.rotation[:, :, None] * b.rotation[:, None], axis=0)
    apart = a.center - b.center
    in_a, in_b = (jnp.sum(box.rotation * apart[:, None], axis=0) for box in (a, b))
    size = jnp.abs(turn)
    of_a = _best(jnp.abs(in_a) - a.half - jnp.sum(size * b.half, axis=1))
    of_b = _best(jnp.abs(in_b) - b.half - jnp.sum(size * a.half[:, None], axis=0))
    of_edges, along = _edges(turn, in_a, a.half, b.half)
    tolerance = _PREFERENCE * jnp.minimum(jnp.min(a.half), jnp.min(b.half))
    by_b = of_b.separation > of_a.separation + tolerance
    of_faces = jnp.where(by_b, of_b.separation, of_a.separation)
    by_edges = of_edges.separation > of_faces + tolerance

    reference, incident = chosen(by_b, b, a), chosen(by_b, a, b)
    axis = jnp.where(by_b, of_b.which, of_a.which)
    gap, outward, point = _between_faces(reference, incident, axis, of_faces, tolerance)
    normal = jnp.where(by_b, outward, -outward)
    edge_normal, edge_point = _between_edges(a, b, of_edges.which, along)
    far = jnp.sum(a.half) + jnp.sum(b.half)
    edge_gap = of_edges.separation + far * np.array([0.0, 1.0, 1.0, 1.0], far.dtype)
    return Meeting(
        jnp.where(by_edges, edge_gap, gap),
        jnp.broadcast_to(jnp.where(by_edges, edge_normal, normal), (4, 3)),
        jnp.where(by_edges, edge_point, point),
    )


def _best(separation: Array) -> _Best:
    """Finds the largest separation."""
    which = first_of_largest(separation).astype(separation.dtype)
    return _Best(jnp.sum(which * separation), which)


def _edges(turn: Array, apart: Array, half_a: Array, half_b: Array) -> tuple[_Best, Array]:
    """The best cross product of edges, and the distances of the centres along all nine."""
    after, last = jnp.roll(turn, -1, axis=0), jnp.roll(turn, -2, axis=0)
    square = 1 - turn**2
    crosses = square > _PARALLEL
    length = jnp.sqrt(jnp.where(crosses, square, 1))
    along = jnp.roll(apart, -2)[:, None] * after - jnp.roll(apart, -1)[:, None] * last
    of_a = jnp.roll(half_a, -1)[:, None] * jnp.abs(last) + jnp.roll(half_a, -2)[:, None] * jnp.abs(
        after
    )
    of_b = jnp.roll(half_b, -1) * jnp.abs(jnp.roll(turn, -2, axis=1))
    of_b = of_b + jnp.roll(half_b, -2) * jnp.abs(jnp.roll(turn, -1, axis=1))
    separation = (jnp.abs(along) - of_a - of_b) / length
    return _best(
        jnp.where(crosses, separation, -jnp.sum(half_a) - jnp.sum(half_b)).reshape(-1)
    ), along


def _between_edges(a: Core, b: Core, which: Array, along: Array) -> tuple[Array, Array]:
    """The normal to two edges, and the midpoint between them."""
    of_a, of_b = jnp.sum(which.reshape(3, 3), axis=1), jnp.sum(which.reshape(3, 3), axis=0)
    edge_a, edge_b = jnp.sum(a.rotation * of_a, axis=1), jnp.sum(b.rotation * of_b, axis=1)
    across = jnp.cross(edge_a, edge_b)
    square = jnp.sum(across**2)
    side = sign(jnp.sum(which * along.reshape(-1)))
    normal = side * across / jnp.sqrt(jnp.where(square > 0, square, 1))
    inner_a, inner_b = (
        _innermost(box, part, way * normal) for box, part, way in ((a, of_a, -1), (b, of_b, 1))
    )
    # The nearest points of the lines along the two edges.
    apart = inner_a - inner_b
    mixed = jnp.sum(edge_a * edge_b)
    beside = jnp.where(square > _PARALLEL, square, 1)
    s = (mixed * jnp.sum(edge_b * apart) - jnp.sum(edge_a * apart)) / beside
    t = (jnp.sum(edge_b * apart) - mixed * jnp.sum(edge_a * apart)) / beside
    return normal, 0.5 * (inner_a + s * edge_a + inner_b + t * edge_b)


def _innermost(box: Core, edge: Array, direction: Array) -> Array:
    """The midpoint of the edge along the axis ``edge`` that lies farthest in a direction."""
    towards = sign(jnp.sum(box.rotation * direction[:, None], axis=0))
    return box.center + jnp.sum(box.rotation * (towards * (1 - edge) * box.half), axis=1)


def _between_faces(
    reference: Core, incident: Core, axis: Array, separation: Array, tolerance: Array
) -> tuple[Array, Array, Array]:
    """Gaps [4] and points [4, 3] between two faces, and the outward normal of the reference face.

    Args:
      reference: the box whose face the normal belongs to.
      incident: the other box.
      axis: one at that face's axis, zeros elsewhere, [3].
      separation: how far the incident box is from that face.
      tolerance: boxes are apart from this separation on.
    """
    middle = jnp.sum(reference.rotation * (incident.center - reference.center)[:, None], axis=0)
    side = sign(jnp.sum(axis * middle))
    # In a frame whose z axis is the normal, zeros are known.
    frame = jnp.stack([side * jnp.roll(axis, 1), jnp.roll(axis, 2), side * axis])
    rotation = jnp.sum(reference.rotation[:, None] * frame, axis=2)
    center = jnp.sum(frame * middle, axis=1)
    turn = jnp.sum(rotation[:, :, None] * incident.rotation[:, None], axis=0)
    half = jnp.sum(jnp.abs(frame) * reference.half, axis=1)
    slope = turn[2]
    facing = first_of_largest(jnp.abs(slope)).astype(center.dtype)
    towards = -sign(jnp.sum(facing * slope))
    along, across, outward = (jnp.sum(turn * jnp.roll(facing, k), axis=1) for k in (1, 2, 0))
    lengths = [jnp.sum(jnp.roll(facing, k) * incident.half) for k in (1, 2, 0)]
    other = _face(
        center + towards * lengths[2] * outward,
        towards * lengths[0] * along,
        lengths[1] * across,
        towards * outward,
    )
    zero = np.zeros((), center.dtype)
    face = _face(
        jnp.stack([zero, zero, half[2]]),
        jnp.stack([half[0], zero, zero]),
        jnp.stack([zero, half[1], zero]),
        jnp.asarray(np.array([0, 0, 1], center.dtype)),
    )
    size = jnp.sum(reference.half + incident.half + jnp.abs(center))
    height, place, is_used = on_both(face, other, size)
    # Boxes that are apart may be nearer beside these faces, but not nearer than the separation.
    # Faces that share nothing belong to such, or to boxes that overlap in a corner beside them.
    lowest = jnp.sum(turn * (-sign(slope) * incident.half), axis=1) + center
    is_first = np.array([True, False, False, False])
    shares_none = ~jnp.any(is_used)
    gap = jnp.where(is_first & (shares_none | (separation > tolerance)), separation, height)
    place = jnp.where((is_first & shares_none)[:, None], lowest, place)
    place = place - 0.5 * gap[:, None] * np.array([0, 0, 1], center.dtype)
    point = reference.center + jnp.sum(rotation * place[:, None], axis=2)
    return gap, rotation[:, 2], point


def _face(middle: Array, along: Array, across: Array, normal: Array) -> Polygon:
    """A rectangle, given its half edges."""
    loop = [middle - along - across, middle + along - across]
    loop += [middle + along + across, middle - along + across]
    edges = [2 * along, 2 * across, -2 * along, -2 * across]
    return Polygon(jnp.stack(loop), jnp.stack(edges), jnp.ones(4, bool), normal)
