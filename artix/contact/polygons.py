"""Faces of hulls as convex polygons, and what two of them, or a segment and one, share."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import first_of_largest
from artix.contact.hull_directions import number_of_largest, point_at
from artix.math.arrays import square_root
from artix.model.hull_faces import HullFaces

Array = jax.Array

#: How many times a corner is moved into one face and then into the other.
_ROUNDS = 2
#: The least sine of the angle between the reference normal and the other face.
_STEEPEST = 1e-3


class Polygon(NamedTuple):
    """A face of a hull; seen from outside, the loop is counter-clockwise."""

    loop: Array
    """[K, 3]; its last points may be equal."""
    is_edge: Array
    """Whether the next point of the loop is another one, [K]."""
    corners: Array
    """Four of the loop that span the largest area, [4, 3]; the last two of a triangle are equal."""
    normal: Array
    """Outward unit normal, [3]."""
    is_used: Array
    """Whether a corner is not equal to the one before it, [4]."""
    has_few: Array
    """Whether these corners are all there are."""

    @property
    def edges(self) -> Array:
        """From each point of the loop to the next, [K, 3].

        Those between equal points are zero. Elsewhere in a program, equal points may be rounded
        otherwise, and a difference of rounding errors has any direction.
        """
        edges = jnp.roll(self.loop, -1, axis=0) - self.loop
        return jnp.where(self.is_edge[:, None], edges, 0)


def normal_of(corners: Array) -> tuple[Array, Array]:
    """The unit normals [..., 3] of faces with these corners [..., 4, 3], and twice the areas."""
    across = jnp.cross(
        corners[..., 2, :] - corners[..., 0, :], corners[..., 3, :] - corners[..., 1, :]
    )
    area = square_root(jnp.sum(across**2, axis=-1))
    return across / jnp.where(area > 0, area, 1)[..., None], area


def moved_into(polygon: Polygon, place: Array) -> Array:
    """The nearest point of a polygon to one of its plane, which lies above that to any other; the
    point itself if it is above the polygon.
    """
    loop, edges = polygon.loop, polygon.edges
    squares = jnp.sum(edges**2, axis=1)
    apart = place - loop
    is_out = jnp.any(jnp.sum(jnp.cross(edges, polygon.normal) * apart, axis=1) > 0)
    share = jnp.sum(apart * edges, axis=1) / jnp.where(squares > 0, squares, 1)
    nearest = loop + jnp.clip(share, 0, 1)[:, None] * edges
    which = number_of_largest(-jnp.sum((place - nearest) ** 2, axis=1))
    return jnp.where(is_out, _row(nearest, which), place)


def _row(rows: Array, number: Array) -> Array:
    """One of rows [m, 3] that are computed."""
    is_it = jnp.arange(len(rows), dtype=jnp.int32) == number
    return jnp.sum(jnp.where(is_it[:, None], rows, 0), axis=0)


def on_both(reference: Polygon, incident: Polygon, *, has_many: bool) -> tuple[Array, Array, Array]:
    """Corners of the incident face, moved to where both faces are: heights above the reference face
    [4], places on the incident face [4, 3], and whether they are used [4].

    Args:
      reference: the face that the normal belongs to.
      incident: the face that looks towards it.
      has_many: whether a face has more than four corners.
    """
    up, normal = reference.normal, incident.normal
    steepness = jnp.minimum(jnp.sum(up * normal), -_STEEPEST)
    corners, is_used = incident.corners, incident.is_used
    if has_many:
        outermost, is_first = _outermost(incident, up)
        corners = jnp.where(incident.has_few, corners, outermost)
        is_used = jnp.where(incident.has_few, is_used, is_first)
    middle = incident.corners[0]

    def above_reference(place: Array) -> Array:
        place = moved_into(reference, place)
        return place + up * jnp.sum((middle - place) * normal) / steepness

    def at(place: Array) -> Array:
        for _ in range(_ROUNDS - 1):
            place = moved_into(incident, above_reference(place))
        return above_reference(place)

    place = jax.vmap(at)(corners)
    return jnp.sum((place - reference.corners[0]) * up, axis=1), place, is_used


def _outermost(polygon: Polygon, up: Array) -> tuple[Array, Array]:
    """The lowest point of a face and those that are outermost at quarter turns from it, [4, 3], and
    whether each is not equal to one before it.
    """
    normal = polygon.normal
    down = jnp.sum(up * normal) * normal - up
    square = jnp.sum(down**2)
    is_level = square < jnp.finfo(square.dtype).eps
    along = polygon.corners[2] - polygon.corners[0]
    along = along / jnp.where(is_level, square_root(jnp.sum(along**2)), 1)
    steep = jnp.where(is_level, along, down / jnp.sqrt(jnp.where(is_level, 1, square)))
    beside = jnp.cross(normal, steep)
    ways = jax.lax.stop_gradient((steep, -steep, beside, -beside))
    loop = jax.lax.stop_gradient(polygon.loop)
    chosen = jnp.stack([first_of_largest(jnp.sum(loop * way, axis=1)) for way in ways])
    same = jnp.any(chosen[:, None] & chosen, axis=2) & np.tri(4, k=-1, dtype=bool)
    corners = jnp.sum(jnp.where(chosen[:, :, None], polygon.loop, 0), axis=1)
    return corners, ~jnp.any(same, axis=1)


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
    rounding = 100 * jnp.finfo(rise.dtype).eps * scale
    moves = jnp.abs(rise) > rounding
    end = -height / jnp.where(moves, rise, 1)
    beside = ~moves & (height > rounding)
    low = jnp.max(jnp.where(moves & (rise < 0), end, -1), initial=-1)
    high = jnp.min(jnp.where(moves & (rise > 0), end, 1), initial=1)
    return jnp.where(jnp.any(beside), 2, low), high


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
    flags = np.concatenate(
        [
            faces.has_few_points[:, None],
            corners != np.roll(corners, 1, axis=1),
            loops != np.roll(loops, -1, axis=1),
        ],
        axis=1,
    )
    mine = jnp.any((np.arange(len(flags), dtype=np.int32) == number)[:, None] & flags, axis=0)
    normal, _ = normal_of(places[count:])
    return Polygon(places[:count], mine[5:], places[count:], normal, mine[1:5], mine[0])
