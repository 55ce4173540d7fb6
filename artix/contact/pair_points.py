"""The points at which two shapes touch: one with a sphere, two with a capsule, four between boxes.

A capsule that lies along another capsule or on a box needs both ends of the shared stretch; a
crossing one needs the nearest point. Both cases have two points, which follow the ends of the other
shape. They move continuously where the nearest point would jump, as it does from end to end of
nearly parallel capsules. If the nearest point is nearer than both, it replaces the farther one.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.box_pairs import box_meetings
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
from artix.contact.shape_pairs import num_points
from artix.math.arrays import joined
from artix.model.geometry import GeometryType

Array = jax.Array

_ORDER = (GeometryType.SPHERE, GeometryType.CAPSULE, GeometryType.BOX)
#: How much nearer than both the nearest point must be, in rounding errors of a length.
_CLEARLY = 100


def meetings_of(
    pairs: Sequence[tuple[Core, Core]], kinds: Sequence[tuple[GeometryType, GeometryType]]
) -> Meeting:
    """The points of all pairs, pair by pair, C in all: gaps [C], normals and points [C, 3]."""
    meetings: list[Meeting] = []
    places = np.zeros(0, int)
    counts = [num_points(*kind) for kind in kinds]
    first = np.cumsum([0, *counts])
    # Pairs of the same types share one program under vmap.
    for kind in dict.fromkeys(kinds):
        numbers = [k for k, other in enumerate(kinds) if other == kind]
        cores = [
            jax.tree.map(lambda *leaves: jnp.stack(leaves), *(pairs[k][side] for k in numbers))
            for side in (0, 1)
        ]
        meet = jax.vmap(lambda a, b, kind=kind: _meetings(a, b, *kind))
        meetings.append(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), meet(*cores)))
        places = np.concatenate([places, *(np.arange(first[k], first[k + 1]) for k in numbers)])
    every, order = joined(meetings), np.argsort(places)
    return (
        every
        if np.array_equal(order, np.arange(len(order)))
        else jax.tree.map(lambda x: x[order], every)
    )


def _meetings(a: Core, b: Core, kind_a: GeometryType, kind_b: GeometryType) -> Meeting:
    """The points of one pair, with a leading axis."""
    if _ORDER.index(kind_a) > _ORDER.index(kind_b):
        other = _meetings(b, a, kind_b, kind_a)
        return Meeting(other.gap, -other.normal, other.point)
    if kind_a is GeometryType.BOX:
        return box_meetings(a, b)
    if kind_a is GeometryType.CAPSULE:
        return _with_box(a, b) if kind_b is GeometryType.BOX else _of_capsules(a, b)
    if kind_b is GeometryType.BOX:
        meeting = point_with_box(in_box_frame(a, b)[0], a.radius, b)
    else:
        along = b.rotation[:, 2] * b.half[2]
        square = jnp.sum(along**2)
        place = jnp.sum((a.center - b.center) * along) / jnp.where(square > 0, square, 1)
        meeting = between_points(
            a.center, b.center + jnp.clip(place, -1, 1) * along, a.radius, b.radius
        )
    return jax.tree.map(lambda x: x[None], meeting)


def _of_capsules(a: Core, b: Core) -> Meeting:
    along_a, along_b = (core.rotation[:, 2] * core.half[2] for core in (a, b))
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

    return _two_of(jax.vmap(at)(places), a.half[2] + b.half[2])


def _with_box(a: Core, box: Core) -> Meeting:
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
    return _two_of(closest, jnp.sum(box.half) + a.half[2])


def _two_of(meeting: Meeting, length: Array) -> Meeting:
    """Selects two of three points. The last one only counts if it is nearer than both others."""
    gap, tolerance = meeting.gap, _CLEARLY * jnp.finfo(length.dtype).eps * length
    nearer = gap[2] + tolerance < jnp.minimum(gap[0], gap[1])
    replaced = jnp.stack([nearer & (gap[0] > gap[1]), nearer & (gap[0] <= gap[1])])

    def chosen(x: Array) -> Array:
        return jnp.where(replaced.reshape(2, *(1,) * (x.ndim - 1)), x[2], x[:2])

    return jax.tree.map(chosen, meeting)
