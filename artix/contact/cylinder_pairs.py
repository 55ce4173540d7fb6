"""The points at which a cylinder touches another shape.

A cylinder and a box are farthest apart along one of twelve directions, which is exact if they are
apart: a normal of the box, the cylinder's axis, a cross product of the axis and an edge (wall on
edge), the way from the nearest corner or from a parallel edge, or one at which the rim touches an
edge. The last ones are found by Newton's method, in the plane across each edge. Any direction is
safe, since a separation along it is never more than the distance.

If a face or a cap is closest, the points are corners of what both share (``polygons.py``), or the
two ends of the wall's lowest line over the face. Elsewhere the wall touches an edge in two points,
the ends of what both share, or a rim touches in one.

Gottschalk, Lin and Manocha, *OBBTree*, SIGGRAPH 1996; Ericson, *Real-Time Collision Detection*,
2005, section 5.2.1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import (
    BOX_CORNERS,
    Core,
    Meeting,
    Segment,
    first_of_largest,
    rounding_of,
    segments,
    sign,
)
from artix.contact.polygons import Disc, Polygon, on_disc, part_over
from artix.math.arrays import chosen, square_root

Array = jax.Array

#: How much farther apart the larger of two flush features must be, in units of the smallest half.
PREFERENCE = 1e-3
#: Squared sine of the angle below which an edge counts as parallel to the axis.
PARALLEL = 1e-6
#: The same below which the wall touches an edge in two points rather than at a rim.
NEARLY_PARALLEL = 1e-4
#: Newton steps towards the direction between a rim and an edge, and the angle that chooses a side.
_STEPS, _TURN = 4, 1e-3
#: The corners of a face, counter-clockwise.
_AROUND = ((-1, -1), (1, -1), (1, 1), (-1, 1))


class Cylinder(NamedTuple):
    """A cylinder in the frame of the other shape."""

    center: Array
    axis: Array
    side: Array
    """A unit vector across the axis, which turns with the cylinder."""
    half: Array
    """Half of the length."""
    radius: Array


class Directions(NamedTuple):
    """D directions from the other shape towards a cylinder, and how far apart both are along
    them.
    """

    separation: Array
    """[D]."""
    normal: Array
    """[D, 3]."""


def point_with_cylinder(point: Array, radius: Array, cylinder: Core) -> Meeting:
    """A sphere around a point [3] relative to the reference point, and the cylinder.

    From inside, the way out is through the nearest of the wall and the caps.
    """
    axis = cylinder.rotation[:, 2]
    apart = point - cylinder.center
    height = jnp.sum(apart * axis)
    across = apart - height * axis
    square = jnp.sum(across**2)
    is_off = square > 0
    distance = jnp.sqrt(jnp.where(is_off, square, 1))
    outwards = jnp.where(is_off, across / distance, cylinder.rotation[:, 0])
    beyond_wall = jnp.where(is_off, distance, 0) - cylinder.radius
    beyond_cap = jnp.abs(height) - cylinder.half[2]
    upwards = sign(height) * axis
    wall, cap = jnp.maximum(beyond_wall, 0), jnp.maximum(beyond_cap, 0)
    is_past_rim = (wall > 0) & (cap > 0)
    length = jnp.sqrt(jnp.where(is_past_rim, wall**2 + cap**2, 1))
    by_wall = beyond_wall > beyond_cap
    normal = jnp.where(
        is_past_rim,
        (wall * outwards + cap * upwards) / length,
        jnp.where(by_wall, outwards, upwards),
    )
    gap = jnp.where(is_past_rim, length, jnp.where(by_wall, beyond_wall, beyond_cap)) - radius
    return Meeting(gap, normal, point - (radius + 0.5 * gap) * normal)


def cylinder_and_box(cylinder: Core, box: Core) -> Meeting:
    """The four points of a cylinder and a box: gaps [4], normals and points [4, 3]. Unused ones
    have large gaps.
    """
    one, half = in_frame(cylinder, box), box.half
    far = jnp.sum(half) + one.half + one.radius
    faces, walls, cap = _of_faces(one, half), _of_walls(one, half), _of_cap(one, half)
    corner, at_corner, passes_wall = _of_corner(one, half)
    rims = _of_rims(one, half, faces, walls)
    lengthwise = first_of_largest(jnp.abs(one.axis)).astype(far.dtype)
    beside = _of_edge(one, half, lengthwise)

    by_face = jnp.max(faces.separation)
    margin = PREFERENCE * jnp.minimum(jnp.min(half), jnp.minimum(one.half, one.radius))
    by_cap = cap > by_face + margin
    # The face that is closest, or the one that looks towards the cap.
    above = sign(jnp.sum(one.center * one.axis)) * one.axis
    looks = jnp.where(by_cap, jnp.abs(above), faces.separation)
    side = jnp.where(by_cap, sign(above), sign(one.center))
    face = _face_of_box(half, first_of_largest(looks).astype(far.dtype), side)
    flat = over_face(one, face, jnp.where(by_cap, above, face.normal), by_cap, far)
    # A point that is still outside the other feature may seem to be lower than all of it.
    by_flat = jnp.maximum(by_face, cap)
    clearly = rounding_of(far)
    flat = flat._replace(gap=jnp.where(flat.gap < by_flat - clearly, by_flat, flat.gap))

    # A wall along an edge has two points; it does not yield to either of its rims too soon.
    lies_along = jnp.min(_others(one.axis**2)) < NEARLY_PARALLEL
    bias = jnp.where(lies_along, margin, clearly) * np.array([0, 0, 0, 0, 0, 1, 1, 1], far.dtype)
    separations, normals = (
        jnp.concatenate(parts) for parts in zip(walls, corner, beside, rims, strict=True)
    )
    which = first_of_largest(separations - bias).astype(far.dtype)
    separation, normal = (jnp.sum(which * x, axis=-1) for x in (separations, normals.T))
    # Nor does a wall across several edges yield to one of them.
    is_level = jnp.sum(normal * flat.normal[0]) > 1 - 0.5 * NEARLY_PARALLEL
    is_level = is_level & (jnp.sum(which[:3]) > 0)
    is_curved = separation > by_flat + jnp.where(is_level, margin, clearly)
    by_corner = which[3] > 0
    edge = jnp.where(by_corner | (which[4] > 0), lengthwise, which[:3])
    middle = (1 - edge) * jnp.where(by_corner, at_corner, sign(normal) * half)
    length = jnp.sum(edge * half)
    segment = Segment(middle, length * edge, length, jnp.zeros_like(far))
    on_wall = wall_on_edge(one, segment, normal)
    by_wall = (jnp.sum(edge) > 0) & (passes_wall | ~by_corner)
    curved = chosen(by_wall, on_wall, at_rim(one, normal, separation))
    return curved_or_flat(is_curved, curved, flat, far, box)


def wall_on_edge(one: Cylinder, edge: Segment, normal: Array) -> Meeting:
    """Two points of the wall and an edge, apart along a normal from the edge; the edge may have
    passed the axis.
    """
    meeting = segments(Segment(one.center, one.half * one.axis, one.half, one.radius), edge)
    is_past = jnp.sum(meeting.normal * normal, axis=1) < 0
    return Meeting(
        jnp.where(is_past, -meeting.gap - 2 * one.radius, meeting.gap),
        jnp.where(is_past[:, None], -meeting.normal, meeting.normal),
        meeting.point + jnp.where(is_past, one.radius, 0)[:, None] * meeting.normal,
    )


def curved_or_flat(
    is_curved: Array, curved: Meeting, flat: Meeting, far: Array, other: Core
) -> Meeting:
    """Two points of curved features and two unused ones, or four of flat features, which are in the
    frame of the other shape; the result is in world axes.
    """
    curved = Meeting(
        jnp.concatenate([curved.gap, curved.gap + far]),
        jnp.concatenate([curved.normal, curved.normal]),
        jnp.concatenate([curved.point, curved.point]),
    )
    meeting = chosen(is_curved, curved, flat)
    return Meeting(
        meeting.gap,
        to_world(other.rotation, meeting.normal),
        other.center + to_world(other.rotation, meeting.point),
    )


def to_world(rotation: Array, vectors: Array) -> Array:
    """Turns vectors [K, 3]."""
    return jnp.sum(rotation * vectors[:, None], axis=2)


def in_frame(cylinder: Core, other: Core) -> Cylinder:
    """The cylinder in the frame of the other shape."""

    def seen(vector: Array) -> Array:
        return jnp.sum(other.rotation * vector[:, None], axis=0)

    return Cylinder(
        seen(cylinder.center - other.center),
        seen(cylinder.rotation[:, 2]),
        seen(cylinder.rotation[:, 0]),
        cylinder.half[2],
        cylinder.radius,
    )


# --- directions ---------------------------------------------------------------------------------


def root(square: Array) -> Array:
    """The root of a square; where it is rounding, it is 0 and so is its derivative."""
    return square_root(square, float(jnp.finfo(square.dtype).eps) ** 2)


def _others(x: Array) -> Array:
    """For each entry of [3], the sum of the other two."""
    return jnp.roll(x, -1) + jnp.roll(x, -2)


def _along(one: Cylinder, half: Array, normal: Array) -> Array:
    """How far a cylinder and a box are apart along a direction [3] that is not its axis."""
    up = jnp.sum(normal * one.axis)
    reach = one.half * jnp.abs(up) + one.radius * root(jnp.sum((normal - up * one.axis) ** 2))
    return jnp.sum(normal * one.center) - jnp.sum(half * jnp.abs(normal)) - reach


def _of_faces(one: Cylinder, half: Array) -> Directions:
    """The three normals of the box."""
    reach = one.half * jnp.abs(one.axis) + one.radius * root(_others(one.axis**2))
    separation = jnp.abs(one.center) - half - reach
    return Directions(separation, sign(one.center)[:, None] * jnp.eye(3, dtype=half.dtype))


def _of_cap(one: Cylinder, half: Array) -> Array:
    """How far both are apart along the cylinder's axis."""
    away = jnp.abs(jnp.sum(one.center * one.axis))
    return away - one.half - jnp.sum(half * jnp.abs(one.axis))


def _of_walls(one: Cylinder, half: Array) -> Directions:
    """The cross products of the axis and the three edges."""
    square = _others(one.axis**2)
    crosses = square > PARALLEL
    x, y, z = one.axis
    zero = jnp.zeros_like(x)
    across = jnp.stack(
        [jnp.stack([zero, z, -y]), jnp.stack([-z, zero, x]), jnp.stack([y, -x, zero])]
    )
    across = across / jnp.sqrt(jnp.where(crosses, square, 1))[:, None]
    away = jnp.sum(across * one.center, axis=1)
    separation = jnp.abs(away) - jnp.sum(half * jnp.abs(across), axis=1) - one.radius
    never = -jnp.sum(half) - one.half - one.radius
    return Directions(jnp.where(crosses, separation, never), sign(away)[:, None] * across)


def _of_corner(one: Cylinder, half: Array) -> tuple[Directions, Array, Array]:
    """The way from the nearest corner to the cylinder, this corner, and whether it ends at the
    wall.
    """
    corners = jnp.asarray(BOX_CORNERS, half.dtype) * half
    apart = corners - one.center
    height = jnp.sum(apart * one.axis, axis=1)
    square = jnp.sum((apart - height[:, None] * one.axis) ** 2, axis=1)
    beyond_wall = root(square) - one.radius
    beyond_cap = jnp.abs(height) - one.half
    outside = jnp.maximum(beyond_wall, 0) ** 2 + jnp.maximum(beyond_cap, 0) ** 2
    inside = jnp.minimum(jnp.maximum(beyond_wall, beyond_cap), 0)
    nearest = first_of_largest(-outside - inside).astype(half.dtype)
    corner = jnp.sum(nearest[:, None] * corners, axis=0)
    way, is_known, at_wall = towards_corner(one, corner)
    never = -jnp.sum(half) - one.half - one.radius
    separation = jnp.where(is_known, _along(one, half, way), never)
    return Directions(separation[None], way[None]), corner, at_wall


def towards_corner(one: Cylinder, corner: Array) -> tuple[Array, Array, Array]:
    """The way from a point [3] to the cylinder; whether there is one, for that to a cap is the
    axis, another direction; and whether it ends at the wall.
    """
    apart = corner - one.center
    height = jnp.sum(apart * one.axis)
    across = apart - height * one.axis
    square = jnp.sum(across**2)
    beyond_wall = root(square) - one.radius
    beyond_cap = jnp.abs(height) - one.half
    is_off = square > jnp.finfo(square.dtype).eps ** 2
    outwards = across / jnp.sqrt(jnp.where(is_off, square, 1))
    passes_rim = (beyond_wall > 0) & (beyond_cap > 0)
    length = jnp.sqrt(jnp.where(passes_rim, beyond_wall**2 + beyond_cap**2, 1))
    upwards = sign(height) * one.axis
    way = jnp.where(
        passes_rim, -(beyond_wall * outwards + beyond_cap * upwards) / length, -outwards
    )
    passes_wall = is_off & (beyond_cap <= 0)
    return way, passes_rim | passes_wall, passes_wall


def _of_edge(one: Cylinder, half: Array, edge: Array) -> Directions:
    """The way from the nearest edge along an axis of the box to a wall that is parallel to it."""
    apart = (1 - edge) * (one.center - sign(one.center) * half)
    across = apart - jnp.sum(apart * one.axis) * one.axis
    square = jnp.sum(across**2)
    is_off = square > jnp.finfo(square.dtype).eps ** 2
    way = across / jnp.sqrt(jnp.where(is_off, square, 1))
    never = -jnp.sum(half) - one.half - one.radius
    return Directions(jnp.where(is_off, _along(one, half, way), never)[None], way[None])


def _of_rims(one: Cylinder, half: Array, faces: Directions, walls: Directions) -> Directions:
    """For each edge, the direction across it along which a rim is farthest apart."""
    zero = jnp.zeros_like(one.half)
    separations, normals = [], []
    for k in range(3):
        first, second = (k + 1) % 3, (k + 2) % 3
        center, axis, halves, wall = (
            jnp.stack([x[first], x[second]]) for x in (one.center, one.axis, half, walls.normal[k])
        )
        # The best of the other directions across the edge, beside which the rim's is.
        values = [faces.separation[first], faces.separation[second], walls.separation[k]]
        starts = [
            jnp.stack([faces.normal[first, first], zero]),
            jnp.stack([zero, faces.normal[second, second]]),
            wall,
        ]
        best = first_of_largest(jnp.stack(values)).astype(half.dtype)
        start = jnp.sum(best[:, None] * jnp.stack(starts), axis=0)
        shadow = Shadow(center, axis, one.axis[k] ** 2, halves, one.half, one.radius)
        normal = towards_rim(shadow, start)
        normal = jnp.roll(jnp.stack([zero, normal[0], normal[1]]), k)
        separations.append(_along(one, half, normal))
        normals.append(normal)
    return Directions(jnp.stack(separations), jnp.stack(normals))


class Shadow(NamedTuple):
    """A cylinder and a box, seen along an edge of the box: a segment with an ellipse at each end,
    and a rectangle.
    """

    center: Array
    """Of the cylinder, [2]."""
    axis: Array
    """The two components of the cylinder's axis, [2]."""
    hidden: Array
    """The square of its third component."""
    halves: Array
    """Half edges of the box, [2]."""
    half: Array
    radius: Array


def towards_rim(shadow: Shadow, start: Array) -> Array:
    """The direction from a corner of the box to the nearest point of an ellipse, [2].

    The corner and the ellipse are those that are nearest along ``start``, turned a little to the
    side where the separation rises. With the ellipse's short half axis along x and the point
    ``(x, y)``, ``x`` and ``y`` positive, from its centre, the tangent t of the parameter of the
    nearest point solves ``a t + c t / sqrt(1 + t^2) = y``. The left side is increasing and
    concave, so Newton's method from a smaller t converges from everywhere.
    """
    turned = _quarter(start)
    up, beside = jnp.sum(start * shadow.axis), jnp.sum(turned * shadow.axis)

    def apart(way: float) -> Array:
        """From the corner to the centre of the ellipse, if the direction turns this way."""
        normal = start + way * turned
        tip = sign(up + way * beside) * shadow.half * shadow.axis
        return shadow.center - sign(normal) * shadow.halves - tip

    def slope(way: float) -> Array:
        length = root(shadow.hidden + beside**2)
        bent = shadow.radius * up * beside / jnp.where(length > 0, length, 1)
        return way * (jnp.sum(turned * apart(way)) + bent)

    corner = jnp.where(slope(_TURN) > slope(-_TURN), apart(_TURN), apart(-_TURN))
    flat = root(jnp.sum(shadow.axis**2))
    short = jnp.where(flat > 0, shadow.axis / jnp.where(flat > 0, flat, 1), start)
    long = _quarter(short)
    x, y = jnp.sum(short * corner), jnp.sum(long * corner)
    # An ellipse without width, or a corner on its long axis, has no derivative. A corner beside an
    # ellipse without width is still seen where it is.
    least = jnp.finfo(flat.dtype).eps ** 0.5
    narrow = jnp.maximum(root(shadow.hidden), least)
    a = narrow * jnp.maximum(jnp.abs(x), least * (shadow.half + shadow.radius))
    b, c = jnp.abs(y), shadow.radius * flat**2
    t = jnp.maximum(b / (a + c), (b - c) / a)
    for _ in range(_STEPS):
        stretch = jax.lax.rsqrt(1 + t**2)
        t = t + (b - a * t - c * t * stretch) / (a + c * stretch**3)
    normal = sign(x) * short + sign(y) * narrow * t * long
    return normal / jnp.sqrt(jnp.sum(normal**2))


def _quarter(direction: Array) -> Array:
    """A direction [2], turned by a quarter."""
    return jnp.stack([-direction[1], direction[0]])


# --- points -------------------------------------------------------------------------------------


def at_rim(one: Cylinder, normal: Array, gap: Array) -> Meeting:
    """Two equal points where a rim touches, halfway between both surfaces."""
    up = jnp.sum(normal * one.axis)
    across = up * one.axis - normal
    length = root(jnp.sum(across**2))
    lowest = one.radius * across / jnp.where(length > 0, length, 1)
    point = one.center - sign(up) * one.half * one.axis + lowest - 0.5 * gap * normal
    far = jnp.stack([jnp.zeros_like(gap), one.half + one.radius])
    return Meeting(gap + far, jnp.stack([normal, normal]), jnp.stack([point, point]))


def _face_of_box(half: Array, which: Array, side: Array) -> Polygon:
    """The face of a box at an axis, one there and zeros elsewhere [3], on the side of its sign."""
    normal = which * side
    across, along = jnp.roll(which, 1) * half, jnp.sum(normal) * jnp.roll(which, 2) * half
    corners = [normal * half + a * across + b * along for a, b in _AROUND]
    loop = jnp.stack(corners)
    return Polygon(loop, jnp.roll(loop, -1, axis=0) - loop, jnp.ones(4, bool), normal)


def over_face(one: Cylinder, face: Polygon, up: Array, by_cap: Array, far: Array) -> Meeting:
    """Four points of a cylinder over a face: corners of what the face and a cap share, or the ends
    of the lowest line of the wall.

    Args:
      one: the cylinder.
      face: the face.
      up: the normal of the face or the axis of the cylinder, from the face to the cylinder, [3].
      by_cap: whether it is the latter.
      far: the gap of points that are not used.
    """
    cosine = jnp.sum(up * one.axis)
    level = up - cosine * one.axis
    sine = root(jnp.sum(level**2))
    stands = by_cap | (one.radius * sine < one.half * jnp.abs(cosine))
    end = one.center - sign(cosine) * one.half * one.axis
    height, place = on_disc(face, Disc(end, one.axis, one.side, one.radius), up, far)
    level = level / jnp.where(stands, 1, sine)
    middle, along = one.center - one.radius * level, one.half * one.axis
    low, high = part_over(face, middle, along)
    shares = jnp.where(low <= high, jnp.stack([low, high]), np.array([-1.0, 1.0], far.dtype))
    on_wall = middle + shares[:, None] * along
    rise = jnp.sum((on_wall - face.loop[0]) * up, axis=1)
    halfway = on_wall - 0.5 * rise[:, None] * up
    return Meeting(
        jnp.where(stands, height, jnp.concatenate([rise, jnp.broadcast_to(far, 2)])),
        jnp.broadcast_to(up, (4, 3)),
        jnp.where(stands, place, jnp.concatenate([halfway, halfway])),
    )
