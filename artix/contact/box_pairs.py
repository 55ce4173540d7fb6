"""The four points at which two boxes touch.

The separating axis is the one of 15 directions (face normals and cross products of edges) along
which the boxes are farthest apart. If it is a face normal, the points are the corners of the other
box's face that looks towards it, moved to where both faces are. If it is a cross product of edges,
there is one point between the two edges. When separations are nearly equal, faces are preferred to
edges, and the first box's faces to the second's, so that points do not jump.

Gottschalk, Lin and Manocha, *OBBTree*, SIGGRAPH 1996; Ericson, *Real-Time Collision Detection*,
2005, section 4.4.1.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import Core, Meeting, first_of_largest, sign
from artix.math.arrays import chosen

Array = jax.Array

#: Margin of this preference, in units of the shortest half edge.
_PREFERENCE = 1e-3
#: Squared sine of the angle below which two edges count as parallel.
_PARALLEL = 1e-4
#: How many times a corner is moved into one face and then into the other.
_ROUNDS = 2
_CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=2)))


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
    gap, outward, point = on_face(reference, incident, axis)
    # A point that is still outside the other face may seem to be lower than all of it.
    gap = jnp.maximum(gap, of_faces)
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


def on_face(
    reference: Core, incident: Core, axis: Array, *, is_round: bool = False
) -> tuple[Array, Array, Array]:
    """Gaps [4] and points [4, 3] at the corners of the incident face, and the outward normal of the
    reference face.

    Args:
      reference: the box whose face the normal belongs to, or a cylinder.
      incident: the other shape, a box.
      axis: one at that face's axis, zeros elsewhere, [3].
      is_round: whether the reference face is the cap of a cylinder, whose axis is z.
    """
    center = jnp.sum(reference.rotation * (incident.center - reference.center)[:, None], axis=0)
    turn = jnp.sum(reference.rotation[:, :, None] * incident.rotation[:, None], axis=0)
    side = sign(jnp.sum(axis * center))
    slope = side * jnp.sum(axis[:, None] * turn, axis=0)
    facing = first_of_largest(jnp.abs(slope)).astype(center.dtype)
    # The incident face: its centre, half edges and normal in the frame of the reference box.
    towards = -sign(slope) * facing
    middle = center + jnp.sum(turn * (towards * incident.half), axis=1)
    across = [jnp.roll(facing, k) for k in (1, 2)]
    halves = [jnp.sum(one * incident.half) for one in across]
    edges = [jnp.sum(turn * one, axis=1) for one in across]
    normal = jnp.sum(turn * towards, axis=1)
    steepness = jnp.sum(normal * axis)

    def raised(place: Array) -> Array:
        """Projects onto the plane of the incident face, along the reference normal."""
        return place + axis * jnp.sum((middle - place) * normal) / steepness

    def above_reference(place: Array) -> Array:
        if is_round:
            return raised(within_circle(place, reference.radius))
        return raised(jnp.where(axis > 0, place, jnp.clip(place, -reference.half, reference.half)))

    def within_incident(place: Array) -> Array:
        along = [
            jnp.clip(jnp.sum((place - middle) * edges[k]), -halves[k], halves[k]) for k in (0, 1)
        ]
        return middle + along[0] * edges[0] + along[1] * edges[1]

    def at(corner: Array) -> tuple[Array, Array]:
        along = [corner[k] * halves[k] for k in (0, 1)]
        if is_round:
            # A long face, moved radially, would lose its width.
            circle = raised(jnp.zeros_like(middle)) - middle
            reach = reference.radius / jnp.abs(steepness)
            for k in (0, 1):
                nearest = jnp.sum(circle * edges[k])
                along[k] = jnp.clip(along[k], nearest - reach, nearest + reach)
        place = middle + along[0] * edges[0] + along[1] * edges[1]
        for _ in range(_ROUNDS - 1):
            place = within_incident(above_reference(place))
        place = above_reference(place)
        gap = side * jnp.sum(axis * place) - jnp.sum(axis * reference.half)
        return gap, place - 0.5 * side * gap * axis

    gap, place = jax.vmap(at)(jnp.asarray(_CORNERS, center.dtype))
    point = reference.center + jnp.sum(reference.rotation * place[:, None], axis=2)
    return gap, side * jnp.sum(reference.rotation * axis, axis=1), point


def within_circle(place: Array, radius: Array) -> Array:
    """Moves a point [3] towards the z axis until it is not farther from it than a radius."""
    square = place[0] ** 2 + place[1] ** 2
    is_out = square > radius**2
    share = jnp.where(is_out, radius / jnp.sqrt(jnp.where(is_out, square, 1)), 1)
    return place * jnp.stack([share, share, jnp.ones_like(share)])
