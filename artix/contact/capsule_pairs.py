"""The two points at which a capsule touches another capsule or a box.

A capsule that lies along another capsule or on a box needs both ends of the shared stretch; a
crossing one needs the nearest point. Both cases have two points, which follow the ends of the other
shape. They move continuously where the nearest point would jump, as it does from end to end of
nearly parallel capsules. If the nearest point is nearer than both, it replaces the end beside it: a
capsule that lies across a box and leans a little is lowest just past the edge, and must keep the
other end.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.contact.cores import (
    Core,
    Meeting,
    between_points,
    first_of_largest,
    in_box_frame,
    nearest_of_segments,
    nearest_to_box,
    point_with_box,
)

Array = jax.Array

#: How much nearer than both the nearest point must be, in rounding errors of a length.
_CLEARLY = 100


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
    gap, tolerance = meeting.gap, _CLEARLY * jnp.finfo(length.dtype).eps * length
    nearer = gap[2] + tolerance < jnp.minimum(gap[0], gap[1])
    beside = jnp.abs(places[2] - places[0]) < jnp.abs(places[2] - places[1])
    replaced = jnp.stack([nearer & beside, nearer & ~beside])

    def chosen(x: Array) -> Array:
        return jnp.where(replaced.reshape(2, *(1,) * (x.ndim - 1)), x[2], x[:2])

    return jax.tree.map(chosen, meeting)
