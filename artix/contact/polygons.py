"""Faces of boxes and hulls as convex polygons, and what one shares with another, with a segment or
with a cap of a cylinder.

Where the edges of two faces cross, what they share has a corner, too. Without these, by the corners
of one face moved into the other, 9 of 128 heaps of three hulls trembled without end, since the next
point to touch was seen only once it was beneath the surface.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import rounding_of, sign
from artix.contact.hull_directions import number_of_largest, point_at
from artix.math.arrays import square_root
from artix.math.tangents import without_derivatives
from artix.model.hull_faces import HullFaces

Array = jax.Array

#: The least sine of the angle between the reference normal and the other face.
_STEEPEST = 1e-3


class Polygon(NamedTuple):
    """A face; seen from outside, the loop is counter-clockwise."""

    loop: Array
    """[K, 3]; its last points may be equal."""
    edges: Array
    """From each point of the loop to the next, [K, 3]. Those between equal points are zero:
    elsewhere in a program these may be rounded otherwise, and a difference of rounding errors has
    any direction."""
    is_edge: Array
    """Whether the next point of the loop is another one, [K]."""
    normal: Array
    """Outward unit normal, [3]."""


def normal_of(corners: Array) -> tuple[Array, Array]:
    """The unit normals [..., 3] of faces with these corners [..., 4, 3], and twice the areas."""
    across = jnp.cross(
        corners[..., 2, :] - corners[..., 0, :], corners[..., 3, :] - corners[..., 1, :]
    )
    area = square_root(jnp.sum(across**2, axis=-1))
    return across / jnp.where(area > 0, area, 1)[..., None], area


def outward_planes(points: Array, faces: HullFaces) -> tuple[Array, Array, Array]:
    """The outward unit normals [F, 3] of a hull's faces, how far along them the faces are from the
    origin [F], and twice the areas of their corners [F].
    """
    normals, areas = normal_of(points[faces.corner_numbers])
    planes = jnp.sum(normals * points[faces.corner_numbers[:, 0]], axis=1)
    return normals, planes, areas


def on_both(reference: Polygon, incident: Polygon, size: Array) -> tuple[Array, Array, Array]:
    """Up to four corners of what two faces share, seen along the normal of one: heights above the
    reference face [4], places on the incident face [4, 3], and whether they are used [4]. The
    heights of those that are not are the size.

    Corners are the ends of what the reference face leaves of the incident one's edges, and its own
    corners under the other face. Of more than four, these are the lowest one, the farthest from it,
    and two that span most with them.

    Args:
      reference: the face that the normal belongs to.
      incident: the face that looks towards it.
      size: a length that no difference of corners exceeds.
    """
    up, normal = reference.normal, incident.normal
    steepness = jnp.minimum(jnp.sum(up * normal), -_STEEPEST)
    rounding = rounding_of(size)
    edges = incident.edges
    low, high, is_end = _within(reference, incident, rounding * size)
    ends = [incident.loop + share[:, None] * edges for share in (low, high)]
    outside = _outside(reference.loop, incident.loop, jnp.cross(up, edges))
    is_under = reference.is_edge & jnp.all(outside <= rounding * size, axis=1)
    rise = jnp.sum((incident.loop[0] - reference.loop) * normal, axis=1) / steepness
    places = jnp.concatenate([*ends, reference.loop + rise[:, None] * up])
    height = jnp.sum((places - reference.loop[0]) * up, axis=1)
    rows = jnp.concatenate([places, height[:, None]], axis=1)
    chosen, is_used = _spanning(rows, jnp.concatenate([is_end, is_end, is_under]), up, rounding)
    # Where there is no corner at all, edges end anywhere.
    place = jnp.where(is_used[0], chosen[:, :3], incident.loop[0])
    return jnp.where(is_used, chosen[:, 3], size), place, is_used


class Disc(NamedTuple):
    """A cap of a cylinder."""

    center: Array
    axis: Array
    side: Array
    """A unit vector across the axis, which turns with the cylinder."""
    radius: Array


def on_disc(face: Polygon, disc: Disc, up: Array, size: Array) -> tuple[Array, Array]:
    """Up to four corners of what a face and a disc share, seen along a direction: heights of the
    disc above the face [4], and places halfway between both [4, 3]. The heights of those that are
    not used are the size.

    Corners are the face's own ones under the disc, where its edges cross the rim, and the points of
    the rim over the face among four: the lowest and those at quarter turns from there.

    Args:
      face: the face.
      disc: the disc.
      up: the normal of either, away from the face, [3].
      size: a length that no difference exceeds.
    """
    rounding = rounding_of(size)
    slope = jnp.sum(up * disc.axis)
    slope = sign(slope) * jnp.maximum(jnp.abs(slope), _STEEPEST)
    # The face's corners and edges, moved along the direction onto the disc.
    rise = jnp.sum((disc.center - face.loop) * disc.axis, axis=1) / slope
    apart = face.loop + rise[:, None] * up - disc.center
    beyond = jnp.sum(apart**2, axis=1) - disc.radius**2
    is_under = face.is_edge & (beyond <= rounding * size)
    edges = face.edges - (jnp.sum(face.edges * disc.axis, axis=1) / slope)[:, None] * up
    square, mixed = jnp.sum(edges**2, axis=1), jnp.sum(edges * apart, axis=1)
    rest = mixed**2 - square * beyond
    crosses = face.is_edge & (rest > 0) & (square > 0)
    reach = jnp.sqrt(jnp.where(crosses, rest, 1))
    shares = jnp.stack([-mixed - reach, -mixed + reach]) / jnp.where(crosses, square, 1)
    is_crossing = crosses & (shares >= 0) & (shares <= 1)
    crossings = apart + shares[..., None] * edges

    across = jnp.sum(up * disc.axis) * disc.axis - up
    square = jnp.sum(across**2)
    is_level = square < jnp.finfo(square.dtype).eps
    lowest = jnp.where(is_level, disc.side, across / jnp.sqrt(jnp.where(is_level, 1, square)))
    beside = jnp.cross(disc.axis, lowest)
    rim = disc.center + disc.radius * jnp.stack([lowest, -lowest, beside, -beside])
    outside = _outside(rim, face.loop, jnp.cross(face.edges, up))
    is_over = jnp.all(outside <= rounding * size, axis=1)

    places = jnp.concatenate([disc.center + apart, disc.center + crossings.reshape(-1, 3), rim])
    facing = jnp.maximum(jnp.sum(up * face.normal), _STEEPEST)
    height = jnp.sum((places - face.loop[0]) * face.normal, axis=1) / facing
    rows = jnp.concatenate([places, height[:, None]], axis=1)
    is_corner = jnp.concatenate([is_under, is_crossing.reshape(-1), is_over])
    # Of a beam across the disc, crossings span more than points of the rim between them.
    rank = np.array([1.0] * (len(places) - 4) + [0.5] * 4)
    corners, is_used = _spanning(rows, is_corner, up, rounding, rank)
    # Where they share nothing, the rim is lowest anywhere.
    first = jnp.concatenate([rim[0], height[-4:-3]])
    corners = jnp.where(is_used[0], corners, first)
    is_used = is_used | (np.arange(4) == 0)
    place = corners[:, :3] - 0.5 * jnp.where(is_used, corners[:, 3], 0)[:, None] * up
    return jnp.where(is_used, corners[:, 3], size), place


def _within(reference: Polygon, incident: Polygon, rounding: Array) -> tuple[Array, Array, Array]:
    """The parts of a face's edges that are over another one: where they begin and end, as shares of
    each edge [K], and whether there is one.
    """
    start = _outside(incident.loop, reference.loop, jnp.cross(reference.edges, reference.normal))
    rise = jnp.roll(start, -1, axis=0) - start
    moves = jnp.abs(rise) > rounding
    share = -start / jnp.where(moves, rise, 1)
    beside = jnp.any(~moves & (start > rounding), axis=1)
    low = jnp.max(jnp.where(moves & (rise < 0), share, 0), axis=1, initial=0)
    high = jnp.min(jnp.where(moves & (rise > 0), share, 1), axis=1, initial=1)
    # A corner on an edge is over it.
    is_part = low <= high + 100 * jnp.finfo(low.dtype).eps
    return low, high, incident.is_edge & ~beside & is_part


def _outside(places: Array, loop: Array, outwards: Array) -> Array:
    """How far places [P, 3] are outside of edges [K], times a length each, [P, K]."""
    return jnp.sum(places[:, None] * outwards, axis=2) - jnp.sum(loop * outwards, axis=1)


def _spanning(
    rows: Array, is_corner: Array, up: Array, rounding: Array, rank: np.ndarray | None = None
) -> tuple[Array, Array]:
    """Four corners among rows of places and heights [P, 4], the lowest first, of several that with
    the largest rank [P], and whether each is another one than those before it, [4].
    """
    height = without_derivatives(rows[:, 3])
    least = jnp.min(jnp.where(is_corner, height, jnp.inf))
    # Where faces are flush, rounding must not decide which is the lowest.
    is_low = is_corner & (height <= least + rounding)
    weights = is_low.astype(height.dtype)
    _, first = _row_of_largest(
        weights if rank is None else weights * rank.astype(height.dtype), rows
    )
    apart = without_derivatives(rows[:, :3] - first[:3])

    def pick(values: Array) -> tuple[Array, Array, Array]:
        values = jnp.where(is_corner, without_derivatives(values), -1)
        most, row = _row_of_largest(values, rows)
        return most, row, without_derivatives(row[:3] - first[:3])

    square, second, along = pick(jnp.sum(apart**2, axis=1))
    # Twice the signed areas of triangles with the first two.
    beside = jnp.cross(up, along)
    area = jnp.sum(beside * apart, axis=1)
    most, third, corner = pick(jnp.abs(area))
    side = sign(jnp.sum(beside * corner))
    # Outside of the triangle of the first three, which is counter-clockwise if the side is 1.
    over_third = jnp.sum(jnp.cross(up, along - corner) * (apart - corner), axis=1)
    over_first = jnp.sum(jnp.cross(up, corner) * apart, axis=1)
    beyond = jnp.maximum(jnp.maximum(-side * area, side * over_third), side * over_first)
    rest, fourth, _ = pick(beyond)
    reach = rounding * jnp.sqrt(jnp.maximum(square, 0))
    is_used = [jnp.ones((), bool), square > rounding**2, most > reach, rest > reach]
    return jnp.stack([first, second, third, fourth]), jnp.any(is_corner) & jnp.stack(is_used)


def _row_of_largest(values: Array, rows: Array) -> tuple[Array, Array]:
    """The largest of values [P], and its row of [P, C]."""
    while len(values) > 1:
        half = (len(values) + 1) // 2
        rest = len(values) - half
        is_larger = values[half:] > values[:rest]
        winners = jnp.where(is_larger[:, None], rows[half:], rows[:rest])
        rows = jnp.concatenate([winners, rows[rest:half]])
        values = jnp.concatenate([jnp.maximum(values[half:], values[:rest]), values[rest:half]])
    return values[0], rows[0]


def part_over(polygon: Polygon, center: Array, along: Array) -> tuple[Array, Array]:
    """The part of a segment ``center + t along``, t within -1 and 1, that is above a polygon: the
    least and the largest t, the former being larger if there is none.
    """
    edges = polygon.edges
    outwards = jnp.cross(edges, polygon.normal)
    height = jnp.sum(outwards * (center - polygon.loop), axis=1)
    rise = jnp.sum(outwards * along, axis=1)
    # Along an edge, rounding must not decide how much of the segment is above the face.
    scale = jnp.sum(jnp.abs(outwards), axis=1) * jnp.sum(jnp.abs(along) + jnp.abs(center))
    rounding = rounding_of(scale)
    moves = jnp.abs(rise) > rounding
    end = -height / jnp.where(moves, rise, 1)
    beside = ~moves & (height > rounding)
    low = jnp.max(jnp.where(moves & (rise < 0), end, -1), initial=-1)
    high = jnp.min(jnp.where(moves & (rise > 0), end, 1), initial=1)
    return jnp.where(jnp.any(beside), 2, low), high


def facing_face(points: Array, faces: HullFaces, way: Array, lowest: Array) -> Array:
    """The number of the face at a point that looks most against a direction."""
    normals, _ = normal_of(points[faces.corner_numbers])
    has_it = jnp.any(faces.padded == lowest, axis=1)
    looks = -jnp.sum(normals * way, axis=1)
    return number_of_largest(jnp.where(has_it, looks, looks - 4))


def polygon_of(
    points: Array, faces: HullFaces, number: Array, beside: HullFaces | None = None
) -> Polygon:
    """The face with this number of a hull with points [V, 3].

    Its loop has as many points as the longest of the hull, and of that ``beside`` it.
    """
    loops, corners = faces.padded, faces.corner_numbers
    count = max(loops.shape[1], 0 if beside is None else beside.padded.shape[1])
    loops = np.concatenate(
        [loops, np.repeat(loops[:, -1:], count - loops.shape[1], axis=1)], axis=1
    )
    rows = points[np.concatenate([loops, corners], axis=1)].reshape(-1, 3)
    places = point_at(rows, (count + 4) * number + jnp.arange(count + 4, dtype=jnp.int32))
    is_edge = loops != np.roll(loops, -1, axis=1)
    is_face = np.arange(len(loops), dtype=np.int32) == number
    has_edge = jnp.any(is_face[:, None] & is_edge, axis=0)
    loop = places[:count]
    edges = jnp.where(has_edge[:, None], jnp.roll(loop, -1, axis=0) - loop, 0)
    normal, _ = normal_of(places[count:])
    return Polygon(loop, edges, has_edge, normal)
