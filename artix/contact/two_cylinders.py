"""The points at which two cylinders, or a capsule and a cylinder, touch.

Two cylinders are farthest apart along one of seven directions, which is exact if they are apart:
the axes (a cap), their cross product or, if parallel, the way between them (two walls), one at
which the rim of one touches the wall of the other, for each, and one between two rims, by Newton's
method. A capsule is a cylinder without a radius whose surface is elsewhere.

A cap has four points of the other cylinder, as a face of a box has; if both caps are flush, they
are points of the narrower one. Walls that are parallel touch in two points, the ends of what both
share. Else there is one.
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
    first_of_largest,
    rounding_of,
    segments,
    sign,
)
from artix.contact.cylinder_pairs import (
    NEARLY_PARALLEL,
    PARALLEL,
    PREFERENCE,
    Cylinder,
    Shadow,
    at_rim,
    curved_or_flat,
    in_frame,
    root,
    to_world,
    towards_rim,
)
from artix.math.arrays import chosen

Array = jax.Array

#: Newton steps towards the direction between two rims, the angle beside the best of the others at
#: which they start, and the longest turn.
_STEPS, _TURN, _LONGEST_TURN = 6, 3e-3, 0.3
#: How many times a point is moved into one cap and then into the other.
_ROUNDS = 2
#: The least curvature of the separation, in radii.
_LEAST = 1e-3
_Z = np.array([0.0, 0.0, 1.0])


def capsule_and_cylinder(capsule: Core, cylinder: Core) -> Meeting:
    """The two points of a capsule and a cylinder: gaps [2], normals and points [2, 3]."""
    radius = capsule.radius
    core = capsule._replace(radius=jnp.zeros_like(radius))
    gap, normal, point = (x[:2] for x in _meeting(core, cylinder, is_segment=True))
    return Meeting(gap - radius, normal, point - 0.5 * radius * normal)


def cylinder_and_cylinder(a: Core, b: Core) -> Meeting:
    """The four points of two cylinders: gaps [4], normals and points [4, 3]. Unused ones have large
    gaps.
    """
    return _meeting(a, b, is_segment=False)


def _meeting(a: Core, b: Core, *, is_segment: bool) -> Meeting:
    """The four points of two cylinders; the first may have no radius."""
    one, other = in_frame(a, b), in_frame(b, a)
    turn = jnp.sum(b.rotation[:, :, None] * a.rotation[:, None], axis=0)  # From a's frame to b's.
    up = jnp.asarray(_Z, one.half.dtype)
    far = one.half + one.radius + other.half + other.radius
    clearly = rounding_of(far)
    margin = PREFERENCE * jnp.minimum(jnp.minimum(one.half, other.half), other.radius)
    flat = _over_cap(one, other, far, is_segment=is_segment)
    by_flat = by_b = _of_cap(one, other)
    if not is_segment:
        margin = jnp.minimum(margin, PREFERENCE * one.radius)
        by_a = _of_cap(other, one)
        is_a = by_a > by_b + jnp.where(one.radius > other.radius, -margin, margin)
        on_a = _over_cap(other, one, far)
        on_a = Meeting(
            on_a.gap, -to_world(turn, on_a.normal), one.center + to_world(turn, on_a.point)
        )
        flat, by_flat = chosen(is_a, on_a, flat), jnp.maximum(by_a, by_b)
    # A point that is still outside the other cap may seem to be lower than all of it.
    flat = flat._replace(gap=jnp.where(flat.gap < by_flat - clearly, by_flat, flat.gap))

    normals = jnp.stack([*_walls(one), _of_rim(one), -jnp.sum(turn * _of_rim(other), axis=1)])
    separations = _along(one, other, normals)
    # The way between the walls is only that of parallel ones; rims may touch along the same way.
    lies_along = jnp.sum(one.axis[:2] ** 2) < NEARLY_PARALLEL
    is_other = np.array([False, True, False, False])
    separations = jnp.where(is_other & ~lies_along, -far, separations)
    best = jnp.concatenate([separations, by_b[None]])
    starts = jnp.concatenate([normals, (sign(one.center[2]) * up)[None]])
    if not is_segment:
        best = jnp.concatenate([best, by_a[None]])
        axis = one.axis * sign(jnp.sum(one.center * one.axis))
        starts = jnp.concatenate([starts, axis[None]])
    start = first_of_largest(best).astype(far.dtype)
    between = _between_rims(one, other, jnp.sum(start[:, None] * starts, axis=0))[None]
    normals = jnp.concatenate([normals, between])
    separations = jnp.concatenate([separations, _along(one, other, between)])
    # Walls along each other have two points; they do not yield to a rim too soon.
    bias = jnp.where(lies_along, margin, clearly) * np.array([0, 0, 1, 1, 1], far.dtype)
    which = first_of_largest(separations - bias).astype(far.dtype)
    separation, normal = (jnp.sum(which * x, axis=-1) for x in (separations, normals.T))
    # Nor does a wall across a cap.
    is_level = jnp.sum(normal * flat.normal[0]) > 1 - 0.5 * NEARLY_PARALLEL
    is_level = is_level & (which[2] + which[3] > 0)
    is_curved = separation > by_flat + jnp.where(is_level, margin, clearly)
    on_walls = segments(
        Segment(one.center, one.half * one.axis, one.half, one.radius),
        Segment(jnp.zeros_like(up), other.half * up, other.half, other.radius),
    )
    # A rim has one point that is the nearest, a wall a line of them.
    rim = at_rim(one, normal, separation)
    seen = at_rim(other, -jnp.sum(turn * normal[:, None], axis=0), separation)
    rim = chosen(which[3] > 0, rim._replace(point=one.center + to_world(turn, seen.point)), rim)
    curved = chosen(which[0] + which[1] > 0, on_walls, rim)
    return curved_or_flat(is_curved, curved, flat, far, b)


def _over_cap(
    one: Cylinder, reference: Cylinder, far: Array, *, is_segment: bool = False
) -> Meeting:
    """Four points of a cylinder over a cap of another one, in the frame of the latter.

    Args:
      one: the cylinder.
      reference: the other one.
      far: the gap of points that are not used.
      is_segment: whether ``one`` has no radius, so that it never stands on a cap.
    """
    normal = _Z.astype(far.dtype) * sign(one.center)
    up = jnp.sum(normal * one.axis)
    below = sign(up)  # The lower rim is that of -below.
    across = up * one.axis - normal
    square = jnp.sum(across**2)
    is_upright = square < jnp.finfo(square.dtype).eps
    steep = across / jnp.sqrt(jnp.where(is_upright, 1, square))
    steep = jnp.where(is_upright, one.side, steep)
    beside = jnp.cross(one.axis, steep)
    cap = one.center - below * one.half * one.axis
    stands = one.radius * jnp.sqrt(jnp.where(is_upright, 0, square)) < one.half * jnp.abs(up)
    stands = jnp.zeros_like(stands) if is_segment else stands

    def above_feature(place: Array) -> Array:
        """Moves a point into the other cap, then along its normal onto this one."""
        place = _within_circle(place, reference.radius)
        rise = jnp.sum((cap - place) * one.axis) / jnp.where(stands, up, 1)
        return place + rise * normal

    def within_cap(place: Array) -> Array:
        square = jnp.sum((place - cap) ** 2)
        is_out = square > one.radius**2
        length = jnp.sqrt(jnp.where(is_out, square, 1))
        return cap + (place - cap) * jnp.where(is_out, one.radius / length, 1)

    def on_cap(place: Array) -> Array:
        for _ in range(_ROUNDS - 1):
            place = within_cap(above_feature(place))
        return above_feature(place)

    # The first two are those of the lower and the upper rim, whichever of them is nearer.
    around = jnp.stack([below * steep, -below * steep, beside, -beside])
    on_caps = jax.vmap(on_cap)(cap + one.radius * around)
    middle, along = one.center + one.radius * steep, one.half * one.axis
    ends = np.array([-1.0, 1.0], far.dtype)
    low, high = _over_circle(middle, along, reference.radius)
    places = jnp.where(low <= high, jnp.stack([low, high]), ends)
    # An end beside the rim is over the cap if it is as near, but for rounding.
    on_ends = middle + ends[:, None] * along
    beside = jnp.sum(on_ends[:, :2] ** 2, axis=1) - reference.radius**2
    height = jnp.maximum(jnp.sum(normal * on_ends, axis=1) - reference.half, 0)
    clearly = 4 * rounding_of(far)
    reach = 2 * reference.radius * jnp.sqrt(clearly * (2 * height + clearly))
    places = jnp.where(beside <= reach, ends, places)
    on_walls = middle + places[:, None] * along
    place = jnp.where(stands, on_caps, jnp.concatenate([on_walls, on_walls]))
    gap = jnp.sum(normal * place, axis=1) - reference.half
    point = place - 0.5 * gap[:, None] * normal
    unused = jnp.where(stands, 0, far * np.array([0.0, 0.0, 1.0, 1.0], far.dtype))
    return Meeting(gap + unused, jnp.broadcast_to(normal, (4, 3)), point)


def _within_circle(place: Array, radius: Array) -> Array:
    """Moves a point [3] towards the z axis until it is not farther from it than a radius."""
    square = place[0] ** 2 + place[1] ** 2
    is_out = square > radius**2
    share = jnp.where(is_out, radius / jnp.sqrt(jnp.where(is_out, square, 1)), 1)
    return place * jnp.stack([share, share, jnp.ones_like(share)])


def _over_circle(middle: Array, along: Array, radius: Array) -> tuple[Array, Array]:
    """The part of a line, within -1 and 1, whose distance from z is at most a radius; where there
    is none, the first number is the larger one.
    """
    square, mixed = (jnp.sum(along[:2] * x[:2]) for x in (along, middle))
    rest = mixed**2 + square * (radius**2 - jnp.sum(middle[:2] ** 2))
    crosses = (rest > 0) & (square > jnp.finfo(square.dtype).eps * radius**2)
    reach = jnp.sqrt(jnp.where(crosses, rest, 1))
    ends = jnp.stack([-mixed - reach, -mixed + reach]) / jnp.where(crosses, square, 1)
    low, high = jnp.where(crosses, ends, np.array([-1.0, 1.0], radius.dtype))
    return jnp.maximum(low, -1), jnp.minimum(high, 1)


def _of_cap(one: Cylinder, reference: Cylinder) -> Array:
    """How far a cylinder is from a cap of another one, in the frame of the latter."""
    reach = one.half * jnp.abs(one.axis[2]) + one.radius * root(jnp.sum(one.axis[:2] ** 2))
    return jnp.abs(one.center[2]) - reference.half - reach


def _along(one: Cylinder, other: Cylinder, normal: Array) -> Array:
    """How far two cylinders, the second along z, are apart along directions [D, 3]."""
    up = jnp.sum(normal * one.axis, axis=1)
    across = root(jnp.sum((normal - up[:, None] * one.axis) ** 2, axis=1))
    reach = one.half * jnp.abs(up) + one.radius * across
    across = root(jnp.sum(normal[:, :2] ** 2, axis=1))
    reach = reach + other.half * jnp.abs(normal[:, 2]) + other.radius * across
    return jnp.sum(normal * one.center, axis=1) - reach


def _walls(one: Cylinder) -> Array:
    """The cross product of the axes, and the way between parallel ones, [2, 3]."""
    x, y, _ = one.axis
    square = x**2 + y**2
    crosses = square > PARALLEL
    across = jnp.stack([-y, x]) / jnp.sqrt(jnp.where(crosses, square, 1))
    across = across * sign(jnp.sum(across * one.center[:2]))
    apart = jnp.sum(one.center[:2] ** 2)
    is_off = apart > jnp.finfo(apart.dtype).eps ** 2
    way = one.center[:2] / jnp.sqrt(jnp.where(is_off, apart, 1))
    way = jnp.where(is_off, way, np.array([1.0, 0.0], way.dtype))
    both = jnp.stack([jnp.where(crosses, across, way), way])
    return jnp.concatenate([both, jnp.zeros_like(both[:, :1])], axis=1)


def _of_rim(one: Cylinder) -> Array:
    """The direction from the axis z to the nearest point of a rim, across z, [3]."""
    square = jnp.sum(one.axis[:2] ** 2)
    turns = square > PARALLEL
    start = jnp.stack([-one.axis[1], one.axis[0]]) / jnp.sqrt(jnp.where(turns, square, 1))
    start = jnp.where(turns, start, np.array([1.0, 0.0], start.dtype))
    start = start * sign(jnp.sum(start * one.center[:2]))
    shadow = Shadow(
        one.center[:2],
        one.axis[:2],
        one.axis[2] ** 2,
        jnp.zeros_like(start),
        one.half,
        one.radius,
    )
    way = towards_rim(shadow, start)
    return jnp.concatenate([way, jnp.zeros_like(way[:1])])


class _Slope(NamedTuple):
    """How the separation of two rims changes with the direction."""

    value: Array
    rise: Array
    """The gradient, across the direction, [3]."""
    bends: tuple[Array, Array]
    """The radii of the two, over the sines of the angles between axis and direction."""
    ways: tuple[Array, Array]
    """Unit vectors across the direction, away from both axes, [3]."""


def _slope(one: Cylinder, other: Cylinder, normal: Array) -> _Slope:
    value, rise = jnp.sum(normal * one.center), one.center
    bends, ways = [], []
    for shape, axis in ((one, one.axis), (other, jnp.asarray(_Z, normal.dtype))):
        up = jnp.sum(normal * axis)
        beside = up * normal - axis
        length = root(jnp.sum(beside**2))
        # An axis is a kink, and so is what is across it.
        kink = jnp.finfo(up.dtype).eps ** 0.5
        is_known, is_across = length > kink, jnp.abs(up) < kink
        bend = jnp.where(is_known, shape.radius / jnp.where(is_known, length, 1), 0)
        end = jnp.where(is_across, 0, sign(up)) * shape.half
        rise = rise - end * axis - bend * up * beside
        value = value - end * up - shape.radius * length
        bends.append(bend)
        ways.append(jnp.where(is_known, beside / jnp.where(is_known, length, 1), 0))
    rise = rise - jnp.sum(rise * normal) * normal
    return _Slope(value, rise, (bends[0], bends[1]), (ways[0], ways[1]))


def _between_rims(one: Cylinder, other: Cylinder, start: Array) -> Array:
    """The direction along which two rims are farthest apart, near another direction, [3].

    Where the separation is positive it has one maximum, and its second derivative is
    ``-a u u^T - b v v^T - s``, with both bends a and b, unit vectors u and v across both ways, and
    the separation s. So Newton's method climbs. It starts a little beside the other direction, on
    the side to which the separation rises.
    """

    def turned(normal: Array, step: Array) -> Array:
        moved = normal + step
        return moved / jnp.sqrt(jnp.sum(moved**2))

    rise = _slope(one, other, start).rise
    square = jnp.sum(rise**2)
    rises = square > jnp.finfo(square.dtype).eps ** 2
    normal = turned(start, _TURN * rise / jnp.sqrt(jnp.where(rises, square, 1)))
    for _ in range(_STEPS):
        value, rise, (a, b), (first, way) = _slope(one, other, normal)
        second = jnp.cross(normal, first)
        x, y = jnp.sum(way * first), jnp.sum(way * second)
        # Crossing rims that just touch leave the direction open where all is in one plane.
        least = jnp.maximum(value, _LEAST * other.radius)
        xx, xy, yy = b * y**2 + least, -b * x * y, a + b * x**2 + least
        by_first, by_second = jnp.sum(rise * first), jnp.sum(rise * second)
        step = (by_first * yy - by_second * xy) * first + (by_second * xx - by_first * xy) * second
        # The determinant, without the difference of large products.
        step = step / (a * b * y**2 + least * (a + b * (x**2 + y**2) + least))
        square = jnp.sum(step**2)
        is_long = square > _LONGEST_TURN**2
        normal = turned(
            normal,
            step * jnp.where(is_long, _LONGEST_TURN / jnp.sqrt(jnp.where(is_long, square, 1)), 1),
        )
    return normal
