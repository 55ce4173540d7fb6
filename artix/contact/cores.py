"""Shapes as cores with a radius, and the nearest points of two cores.

The core of a sphere is a point, that of a capsule a segment, and that of a box or a hull the box or
the hull. The
distance between two shapes is the distance between their cores minus both radii.
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


def sign(x: Array) -> Array:
    """1 or -1, never 0."""
    return jnp.where(x < 0, -jnp.ones_like(x), jnp.ones_like(x))


def first_of_largest(values: Array) -> Array:
    """A mask [m] of the largest of values [m], the first of equal ones."""
    largest, minima, taken = values == jnp.max(values), [], jnp.zeros((), bool)
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
