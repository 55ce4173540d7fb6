"""Shapes as cores with a radius, the nearest points of two cores, and the two points at which a
capsule touches another capsule or a box.

The core of a sphere is a point, that of a capsule a segment, and that of a box or a hull the box or
the hull. The distance between two shapes is the distance between their cores minus both radii.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


#: The signs of a box's corners.
BOX_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)


class Core(NamedTuple):
    """A shape without its radius: a point, a segment or a box, all represented as boxes."""

    center: Array
    """Centre relative to the reference point, in world axes, [3]."""
    rotation: Array
    """Rotation matrix to world axes, [3, 3]."""
    half: Array
    """Half edges, [3]; of an ellipsoid its semi-axes."""
    radius: Array
    points: Array | None = None
    """Those of a hull, in its frame, [P, 3]."""


class Meeting(NamedTuple):
    """The nearest points of two shapes."""

    gap: Array
    """The distance, negative for penetration."""
    normal: Array
    """Normal from the second shape towards the first, [3]."""
    point: Array
    """Midpoint between the two surfaces, relative to the reference point, [3]."""


def corners_of(core: Core) -> Array:
    """The points of a hull, or the corners of a box, in its frame."""
    if core.points is not None:
        return core.points
    return jnp.asarray(BOX_CORNERS, core.half.dtype) * core.half


def relative_to(a: Core, b: Core) -> tuple[Array, Array]:
    """The rotation [3, 3] from the frame of b to that of a, and the place of b there, [3]."""
    turn = jnp.sum(a.rotation[:, :, None] * b.rotation[:, None], axis=0)
    return turn, jnp.sum(a.rotation * (b.center - a.center)[:, None], axis=0)


def in_world(first: Core, meeting: Meeting, side: int) -> Meeting:
    """Turns a result from the frame of a shape."""

    def turned(vectors: Array) -> Array:
        return jnp.sum(first.rotation * vectors[:, None], axis=2)

    return Meeting(meeting.gap, side * turned(meeting.normal), first.center + turned(meeting.point))


def rounding_of(length: Array) -> Array:
    """A hundred rounding errors of a length, by which something must differ clearly."""
    return 100 * jnp.finfo(length.dtype).eps * length


def sign(x: Array) -> Array:
    """1 or -1, never 0."""
    return jnp.where(x < 0, -jnp.ones_like(x), jnp.ones_like(x))


def first_of_largest(values: Array) -> Array:
    """A mask [m] of the largest of values [m], the first of equal ones."""
    largest = values == jnp.max(values)
    minima = []
    taken = jnp.zeros((), bool)
    for k in range(len(values)):
        minima.append(largest[k] & ~taken)
        taken = taken | largest[k]
    return jnp.stack(minima)


def nearest_of_segments(apart: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Parameters s and t, from -1 to 1, at which segments ``apart + s a`` and ``t b`` are nearest;
    s = 0 if parallel.

    Ericson, *Real-Time Collision Detection*, 2005, section 5.1.9.
    """
    aa, bb, ab, da, db = (
        jnp.sum(x * y) for x, y in ((a, a), (b, b), (a, b), (a, apart), (b, apart))
    )
    across = aa * bb - ab * ab
    crosses = across > 10 * jnp.finfo(aa.dtype).eps * aa * bb
    s = jnp.where(crosses, (ab * db - bb * da) / jnp.where(crosses, across, 1), 0)
    s = jnp.clip(s, -1, 1)
    t = jnp.clip((db + s * ab) / jnp.where(bb > 0, bb, 1), -1, 1)
    s = jnp.clip((t * ab - da) / jnp.where(aa > 0, aa, 1), -1, 1)
    return s, t


def between_points(a: Array, b: Array, radius_a: Array, radius_b: Array) -> Meeting:
    """Two spheres around points [3]. If the points coincide, the normal is z."""
    apart = a - b
    square = jnp.sum(apart**2)
    same = square == 0
    length = jnp.sqrt(jnp.where(same, 1, square))
    normal = jnp.where(same, jnp.array([0.0, 0.0, 1.0], apart.dtype), apart / length)
    gap = jnp.where(same, 0, length) - radius_a - radius_b
    return Meeting(gap, normal, a - (radius_a + 0.5 * gap) * normal)


def point_with_box(point: Array, radius: Array, box: Core) -> Meeting:
    """A sphere around a point [3] in the box's frame, and the box."""
    outside = point - jnp.clip(point, -box.half, box.half)
    square = jnp.sum(outside**2)
    is_out = square > 0
    length = jnp.sqrt(jnp.where(is_out, square, 1))
    # From inside the box, the way out is through the nearest face.
    depth = box.half - jnp.abs(point)
    face = first_of_largest(-depth)
    inward = jnp.where(face, jnp.where(point < 0, -jnp.ones_like(point), jnp.ones_like(point)), 0)
    normal = jnp.where(is_out, outside / length, inward)
    distance = jnp.where(is_out, length, -jnp.sum(jnp.where(face, depth, 0)))
    gap = distance - radius
    middle = point - (radius + 0.5 * gap) * normal

    def to_world(vector: Array) -> Array:
        return jnp.sum(box.rotation * vector, axis=1)

    return Meeting(gap, to_world(normal), box.center + to_world(middle))


def in_box_frame(a: Core, box: Core) -> tuple[Array, Array]:
    """The midpoint of a segment and half of the segment in a box's frame, [3] each."""

    def to_box(vector: Array) -> Array:
        return jnp.sum(box.rotation * vector[:, None], axis=0)

    return to_box(a.center - box.center), to_box(a.rotation[:, 2] * a.half[2])


def nearest_to_box(center: Array, along: Array, half: Array) -> Array:
    """The parameter t, from -1 to 1, at which a segment ``center + t along`` is nearest to a box
    around the origin.

    The derivative of the squared distance by t is piecewise linear and never decreases. Its zero is
    between the two neighbouring breakpoints (kinks or ends of the segment) at which it changes
    sign.
    """
    moves = along != 0
    step = jnp.where(moves, along, 1)
    corners = jnp.where(moves, (jnp.stack([-half, half]) - center) / step, 0).reshape(-1)
    places = jnp.concatenate([jnp.clip(corners, -1, 1), jnp.array([-1.0, 1.0], center.dtype)])
    at = center + places[:, None] * along
    slope = jnp.sum((at - jnp.clip(at, -half, half)) * along, axis=1)
    below, above = slope <= 0, slope >= 0
    low = jnp.max(jnp.where(below, places, -1))
    high = jnp.min(jnp.where(above, places, 1))
    low_slope = jnp.max(jnp.where(below & (places == low), slope, -jnp.inf))
    high_slope = jnp.min(jnp.where(above & (places == high), slope, jnp.inf))
    rise = high_slope - low_slope
    crosses = jnp.isfinite(rise) & (rise > 0)
    share = jnp.where(crosses, -low_slope / jnp.where(crosses, rise, 1), 0.5)
    return low + share * (high - low)


# Capsules
#
# A capsule that lies along another capsule or on a box needs both ends of the shared stretch; a
# crossing one needs the nearest point. Both cases have two points, which follow the ends of the
# other shape. They move continuously where the nearest point would jump, as it does from end to end
# of nearly parallel capsules. If the nearest point is nearer than both, it replaces the end beside
# it: a capsule that lies across a box and leans a little is lowest just past the edge, and must
# keep the other end.


class Segment(NamedTuple):
    """A segment with a radius, in any frame."""

    center: Array
    along: Array
    """From the centre to an end, [3]."""
    half: Array
    """The length of ``along``."""
    radius: Array


def capsules(a: Core, b: Core) -> Meeting:
    """The two points of two capsules."""
    along_a, along_b = (core.rotation[:, 2] * core.half[2] for core in (a, b))
    return segments(
        Segment(a.center, along_a, a.half[2], a.radius),
        Segment(b.center, along_b, b.half[2], b.radius),
    )


def segments(a: Segment, b: Segment) -> Meeting:
    """The two points of two segments with radii."""
    along_a, along_b = a.along, b.along
    apart = a.center - b.center
    aa, bb, ab = (
        jnp.sum(x * y) for x, y in ((along_a, along_a), (along_b, along_b), (along_a, along_b))
    )
    aa, bb = (jnp.where(square > 0, square, 1) for square in (aa, bb))
    # Opposite the ends of b, and at the nearest place.
    below = (jnp.array([-1.0, 1.0], aa.dtype) * ab - jnp.sum(along_a * apart)) / aa
    nearest, _ = nearest_of_segments(apart, along_a, along_b)
    places = jnp.concatenate([jnp.clip(below, -1, 1), nearest[None]])

    def at(s: Array) -> Meeting:
        point = a.center + s * along_a
        t = jnp.clip(jnp.sum((point - b.center) * along_b) / bb, -1, 1)
        return between_points(point, b.center + t * along_b, a.radius, b.radius)

    return two_of(jax.vmap(at)(places), places, a.half + b.half)


def capsule_and_box(a: Core, box: Core) -> Meeting:
    """The two points of a capsule and a box."""
    center, along = in_box_frame(a, box)
    nearest = nearest_to_box(center, along, box.half)
    face = first_of_largest(jnp.abs(center + nearest * along) - box.half)
    # The part of the segment over that face; it is not limited along the face's normal.
    moves = along != 0
    ends = (jnp.stack([-box.half, box.half]) - center) / jnp.where(moves, along, 1)
    beside = ~moves & (jnp.abs(center) > box.half)
    low = jnp.max(jnp.where(face | ~moves, -1, jnp.minimum(ends[0], ends[1])), initial=-1)
    high = jnp.min(jnp.where(face | ~moves, 1, jnp.maximum(ends[0], ends[1])), initial=1)
    shares = (low <= high) & ~jnp.any(beside & ~face)
    places = jnp.stack([jnp.where(shares, low, nearest), jnp.where(shares, high, nearest), nearest])
    closest = jax.vmap(lambda t: point_with_box(center + t * along, a.radius, box))(places)
    return two_of(closest, places, jnp.sum(box.half) + a.half[2])


def two_of(meeting: Meeting, places: Array, length: Array) -> Meeting:
    """Selects two of three points, which are at these places along the segment. The last one only
    counts if it is nearer than both others, and replaces that beside it.
    """
    gap = meeting.gap
    tolerance = rounding_of(length)
    nearer = gap[2] + tolerance < jnp.minimum(gap[0], gap[1])
    beside = jnp.abs(places[2] - places[0]) < jnp.abs(places[2] - places[1])
    replaced = jnp.stack([nearer & beside, nearer & ~beside])

    def chosen(x: Array) -> Array:
        return jnp.where(replaced.reshape(2, *(1,) * (x.ndim - 1)), x[2], x[:2])

    return jax.tree.map(chosen, meeting)
