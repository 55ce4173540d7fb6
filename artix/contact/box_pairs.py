"""The four points at which two boxes touch.

The separating axis is the one of 15 directions (face normals and cross products of edges) along
which the boxes are farthest apart. If it is a face normal, the points are up to four corners of
what this face and the other box's face that looks towards it share. If it is a cross product of
edges, there is one point between the two edges. When separations are nearly equal, faces are
preferred to edges, and the first box's faces to the second's, so that points do not jump.

Gottschalk, Lin and Manocha, *OBBTree*, SIGGRAPH 1996; Ericson, *Real-Time Collision Detection*,
2005, section 4.4.1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import Core, Meeting, first_of_largest, sign
from artix.contact.polygons import Polygon, on_both
from artix.math.arrays import chosen

Array = jax.Array

#: Margin of this preference, in units of the shortest half edge.
_PREFERENCE = 1e-3
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
    apart, mixed = inner_a - inner_b, jnp.sum(edge_a * edge_b)
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
