"""Faces of hulls as convex polygons, and what two of them, or a segment and one, share."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import sign
from artix.contact.hull_directions import number_of_largest, point_at
from artix.math.arrays import square_root
from artix.math.tangents import without_derivatives
from artix.model.hull_faces import HullFaces

Array = jax.Array

#: Rounding errors of a length.
_CLEARLY = 100
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


def _row(rows: Array, number: Array) -> Array:
    """One of rows [m, 3] that are computed."""
    is_it = jnp.arange(len(rows), dtype=jnp.int32) == number
    return jnp.sum(jnp.where(is_it[:, None], rows, 0), axis=0)


def on_both(reference: Polygon, incident: Polygon, size: Array) -> tuple[Array, Array, Array]:
    """Up to four corners of what two faces share, seen along the normal of one: heights above the
    reference face [4], places on the incident face [4, 3], and whether they are used [4].

    Corners are those of each face that are over the other one, and the crossings of their edges. Of
    more than four, these are the lowest one, the farthest from it, and two that span most with
    them.

    Args:
      reference: the face that the normal belongs to.
      incident: the face that looks towards it.
      size: a length that no difference of corners exceeds.
    """
    up, normal = reference.normal, incident.normal
    steepness = jnp.minimum(jnp.sum(up * normal), -_STEEPEST)
    rounding = _CLEARLY * jnp.finfo(size.dtype).eps * size
    # How far corners are outside of the other face's edges, times the length of these.
    edges, other_edges = incident.edges, reference.edges
    outside = _outside(incident.loop, reference.loop, jnp.cross(other_edges, up))
    other_outside = _outside(reference.loop, incident.loop, jnp.cross(up, edges))
    is_over = incident.is_edge & jnp.all(outside <= rounding * size, axis=1)
    is_under = reference.is_edge & jnp.all(other_outside <= rounding * size, axis=1)
    heights = jnp.sum((incident.loop[0] - reference.loop) * normal, axis=1) / steepness
    raised = reference.loop + heights[:, None] * up
    fall = outside - jnp.roll(outside, -1, axis=0)
    changes = (outside > 0) != (jnp.roll(outside, -1, axis=0) > 0)
    other_changes = (other_outside > 0) != (jnp.roll(other_outside, -1, axis=0) > 0)
    crosses = changes & other_changes.T & (jnp.abs(fall) > rounding * size)
    share = outside / jnp.where(crosses, fall, 1)
    crossings = incident.loop[:, None] + share[..., None] * edges[:, None]
    places = jnp.concatenate([incident.loop, raised, crossings.reshape(-1, 3)])
    is_corner = jnp.concatenate([is_over, is_under, crosses.reshape(-1)])
    height = jnp.sum((places - reference.corners[0]) * up, axis=1)
    numbers, is_used = _spanning(places, is_corner, height, up, rounding)
    chosen = jnp.stack([_row(jnp.concatenate([places, height[:, None]], 1), k) for k in numbers])
    return chosen[:, 3], chosen[:, :3], is_used


def _outside(places: Array, loop: Array, outwards: Array) -> Array:
    """How far places [P, 3] are outside of edges [K], times a length each, [P, K]."""
    return jnp.sum((places[:, None] - loop) * outwards, axis=2)


def _spanning(
    places: Array, is_corner: Array, height: Array, up: Array, rounding: Array
) -> tuple[list[Array], Array]:
    """The numbers of four of the corners among some places, the lowest first, and whether each is
    another one than those before it, [4].
    """
    places, height, up = without_derivatives((places, height, up))
    least = jnp.min(jnp.where(is_corner, height, jnp.inf))
    # Where faces are flush, rounding must not decide which is the lowest.
    is_low = is_corner & (height <= least + rounding)
    first = number_of_largest(is_low.astype(height.dtype))
    apart = places - _row(places, first)

    def largest(values: Array) -> tuple[Array, Array]:
        values = jnp.where(is_corner, values, -1)
        number = number_of_largest(values)
        return number, jnp.max(values)

    second, square = largest(jnp.sum(apart**2, axis=1))
    along = _row(apart, second)
    # Twice the signed areas of triangles with the first two.
    area = jnp.sum(jnp.cross(along, apart) * up, axis=1)
    third, most = largest(jnp.abs(area))
    corner = _row(apart, third)
    side = sign(_row(area[:, None], third)[0])
    # Outside of the triangle of the first three, which is counter-clockwise if the side is 1.
    beyond = [
        -side * area,
        -side * jnp.sum(jnp.cross(corner - along, apart - along) * up, axis=1),
        side * jnp.sum(jnp.cross(corner, apart) * up, axis=1),
    ]
    fourth, rest = largest(jnp.maximum(jnp.maximum(beyond[0], beyond[1]), beyond[2]))
    reach = rounding * jnp.sqrt(jnp.maximum(square, 0))
    any_corner = jnp.any(is_corner)
    is_used = jnp.stack([any_corner, square > rounding**2, most > reach, rest > reach])
    return [first, second, third, fourth], is_used & any_corner


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
