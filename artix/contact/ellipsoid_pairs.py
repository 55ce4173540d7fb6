"""The point at which an ellipsoid touches a sphere, a capsule, a cylinder, a box, a hull or another
ellipsoid.

Each of these is a set of points, to which a ball, a disc (of a cylinder) or an ellipsoid is added.
An ellipsoid or a disc reaches as far as ``sqrt(n^T M n)`` along a unit vector n. So along n, from
the other shape towards the ellipsoid, both are apart by

    s(n) = -max_k n^T p_k - sum_M sqrt(n^T M n) - r,

with points p_k as seen from the ellipsoid's centre and the radius r of the ball. The gap is the
largest s: the distance if they are apart, else the shortest way out nearby. At a face or a cap its
normal is known. At a corner or along an edge, s is smooth in the directions across the edge, and
Newton's method finds where ``grad s = s n``. Which corners matter is found by searching
(``hull_directions.py``).

The error of a Newton step is the square of that before it. So two more steps, from the solution as
a constant, have its first and second derivatives.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import Core, Meeting, corners_of, in_world, relative_to, rounding_of, sign
from artix.contact.hull_directions import (
    FromCurved,
    closest_corners,
    entry_at,
    farthest,
    number_of_largest,
    point_at,
)
from artix.contact.polygons import outward_planes, polygon_of
from artix.math.arrays import chosen, square_root
from artix.math.spatial import aside
from artix.math.tangents import without_derivatives
from artix.model.geometry import GeometryType
from artix.model.hull_faces import HullFaces

Array = jax.Array

#: Newton steps from the direction that is found, for all corners and edges, and then for the best.
_STEPS, _LAST = 4, 3


class _Both(NamedTuple):
    """Both shapes in the frame of the other one, whose points are often known there."""

    points: Array
    """Those of the other shape, [V, 3]."""
    center: Array
    """Of the ellipsoid, [3]."""
    squares: Array
    """The matrices M of the ellipsoid and of a cylinder or a second ellipsoid, [1 or 2, 3, 3]."""


class _Direction(NamedTuple):
    """A direction across an edge, or from a corner, which is an edge with equal ends."""

    first: Array
    """The numbers of its ends."""
    second: Array
    normal: Array
    """From the other shape towards the ellipsoid, [3]."""
    separation: Array


def ellipsoid_and(ellipsoid: Core, other: Core, kind: GeometryType, faces: HullFaces) -> Meeting:
    """The point of an ellipsoid and another shape of a kind: gap [1], normal and point [1, 3]."""
    both = _in_frame(ellipsoid, other, kind)
    known = without_derivatives(both)
    lengths = jnp.sqrt(jnp.trace(known.squares, axis1=1, axis2=2))
    size = jnp.sum(jnp.max(jnp.abs(known.points), axis=0)) + jnp.sum(jnp.abs(known.center))
    size = size + jnp.sum(lengths)
    clearly = rounding_of(size)
    best = _closest(known, size)

    corner = point_at(both.points, best.first)
    edge = _unit(point_at(both.points, best.second) - corner)
    normal = _across(best.normal, edge)
    for _ in range(2):
        normal = _turned(normal, both.center - corner, edge, both.squares)
    # Where shapes have sunk in deeply, Newton's method may not have ended.
    is_solved = _separation(known, without_derivatives(normal)) >= best.separation - clearly
    normal = jnp.where(is_solved, normal, best.normal)
    outermost = point_at(both.points, farthest(known.points, without_derivatives(normal)))
    gap = jnp.sum(normal * (both.center - outermost)) - jnp.sum(_lengths(normal, both.squares))
    if faces.loops or kind is GeometryType.CYLINDER:
        up, height = _face(both, known, faces) if faces.loops else _cap(both)
        is_flat = without_derivatives(height) >= best.separation - clearly
        gap, normal = chosen(is_flat, (height, up), (gap, normal))
    # The radius of a cylinder is that of a disc.
    radius = 0 if kind is GeometryType.CYLINDER else other.radius
    gap = gap - radius
    along = jnp.sum(both.squares[0] * normal, axis=1)
    lowest = both.center - along / jnp.sqrt(jnp.sum(normal * along))
    meeting = Meeting(gap[None], normal[None], (lowest - 0.5 * gap * normal)[None])
    return in_world(other, meeting, 1)


def _in_frame(ellipsoid: Core, other: Core, kind: GeometryType) -> _Both:
    turn, center = relative_to(other, ellipsoid)
    scaled = turn * ellipsoid.half
    squares = [jnp.sum(scaled[:, None] * scaled, axis=2)]
    if kind in (GeometryType.BOX, GeometryType.HULL):
        points = corners_of(other)
    elif kind in (GeometryType.CAPSULE, GeometryType.CYLINDER):
        points = jnp.stack([-other.half, other.half])
    else:
        points = jnp.zeros((1, 3), center.dtype)
    if kind is GeometryType.CYLINDER:
        squares.append(other.radius**2 * jnp.asarray(np.diag([1, 1, 0]), center.dtype))
    if kind is GeometryType.ELLIPSOID:
        squares.append(jnp.asarray(np.eye(3), center.dtype) * other.half**2)
    return _Both(points, center, jnp.stack(squares))


# --- directions ---------------------------------------------------------------------------------


def _closest(known: _Both, size: Array) -> _Direction:
    """The direction of an edge or a corner along which both are farthest apart."""
    sets = FromCurved(known.points, known.center, functools.partial(_farthest_of, known))
    nearest = closest_corners(sets, size, functools.partial(_separation, known))
    count = len(known.points)
    if count <= 2:
        # The ends of a segment, and the segment.
        numbers = np.array([(0, 0), (1, 1), (0, 1)] if count == 2 else [(0, 0)], np.int32)
        ends = [(jnp.asarray(a), jnp.asarray(b)) for a, b in numbers]
        best = _best(known, ends, -nearest.normal)
        if count == 1:
            return best
        # Where both ends are in line with the ellipsoid, it is the one that is nearer.
        near = farthest(known.points, best.normal)
        is_corner = best.first == best.second
        return best._replace(
            first=jnp.where(is_corner, near, best.first),
            second=jnp.where(is_corner, near, best.second),
        )
    a, b, c = (nearest.corners.a[k] for k in range(3))
    first = _best(known, [(a, a), (b, b), (c, c), (a, b), (b, c), (c, a)], -nearest.normal)
    # Rounding may end the search at other corners than the nearest.
    corner = farthest(known.points, first.normal)
    ends = [(corner, corner), (corner, first.first), (corner, first.second)]
    second = _best(known, ends, first.normal)
    return chosen(second.separation > first.separation, second, first)


def _best(known: _Both, ends: Sequence[tuple[Array, Array]], start: Array) -> _Direction:
    """The best direction of edges and corners, from a direction nearby."""

    def towards(corner: Array, other: Array) -> tuple[Array, Array]:
        edge = _unit(other - corner)
        normal = _across(start, edge)
        for _ in range(_STEPS):
            normal = _turned(normal, known.center - corner, edge, known.squares)
        return normal, _separation(known, normal)

    sides = [jnp.stack([point_at(known.points, end[side]) for end in ends]) for side in (0, 1)]
    normals, separations = jax.vmap(towards)(*sides)
    # Nothing is across an edge that the start lies along, as a cap's normal along the axis.
    separations = jnp.where(separations < jnp.inf, separations, -jnp.inf)
    best = number_of_largest(separations)
    first, second = (entry_at(jnp.stack([end[side] for end in ends]), best) for side in (0, 1))
    corner, other = point_at(known.points, first), point_at(known.points, second)
    normal, edge = point_at(normals, best), _unit(other - corner)
    for _ in range(_LAST):
        normal = _turned(normal, known.center - corner, edge, known.squares)
    return _Direction(first, second, normal, jnp.max(separations))


def _turned(normal: Array, apart: Array, edge: Array, squares: Array) -> Array:
    """A Newton step for ``grad s = s n`` over unit vectors n across an edge, or all if it is zero.

    Args:
      normal: the vector before it.
      apart: from the corner of s to the ellipsoid's centre.
      edge: the unit vector of the edge.
      squares: the matrices M.
    """
    along = jnp.sum(squares * normal, axis=2)
    length = _lengths(normal, squares)
    # A disc has no thickness.
    is_long = length > 0
    length = jnp.where(is_long, length, 1)
    slope = apart - jnp.sum(along / length[:, None], axis=0)
    separation = jnp.sum(slope * normal)
    is_edge = jnp.sum(edge**2) > 0
    side = _unit(jnp.cross(normal, jnp.where(is_edge, edge, aside(normal))))
    beside = jnp.where(is_edge, 0, jnp.cross(normal, side))

    def curvature(a: Array, b: Array) -> Array:
        of_squares = jnp.sum(jnp.sum(squares * a, axis=2) * b, axis=1)
        mixed = jnp.sum(along * a, axis=1) * jnp.sum(along * b, axis=1)
        return jnp.sum(jnp.where(is_long, (of_squares - mixed / length**2) / length, 0))

    xx, xy, yy = curvature(side, side), curvature(side, beside), curvature(beside, beside)
    yy = jnp.where(is_edge, 1, yy)
    # Where shapes have sunk in so far that s has no maximum nearby, the step is one uphill.
    is_bent = (xx + separation > 0) & ((xx + separation) * (yy + separation) > xy**2)
    rise = jnp.where(is_bent, separation, 0)
    xx, yy = xx + rise, jnp.where(is_edge, 1, yy + rise)
    x, y = jnp.sum(side * slope), jnp.sum(beside * slope)
    det = xx * yy - xy**2
    step = ((yy * x - xy * y) * side + (xx * y - xy * x) * beside) / det
    return _unit(normal + step)


def _face(both: _Both, known: _Both, faces: HullFaces) -> tuple[Array, Array]:
    """The normal of the face from which the ellipsoid is farthest, and how far."""
    normals, planes, _ = outward_planes(known.points, faces)
    reaches = jax.vmap(lambda normal: _lengths(normal, known.squares)[0])(normals)
    heights = jnp.sum(normals * known.center, axis=1) - planes - reaches
    face = polygon_of(both.points, faces, number_of_largest(heights))
    height = jnp.sum(face.normal * (both.center - face.loop[0]))
    return face.normal, height - _lengths(face.normal, both.squares)[0]


def _cap(both: _Both) -> tuple[Array, Array]:
    """The normal of the cap from which the ellipsoid is farthest, and how far."""
    place = both.center[2]
    up = sign(place) * jnp.asarray(np.array([0.0, 0.0, 1.0]), place.dtype)
    return up, jnp.abs(place) - both.points[1, 2] - _lengths(up, both.squares)[0]


def _farthest_of(both: _Both, direction: Array) -> Array:
    """The farthest place, in a direction, of the sum of ellipsoids and discs, [3]."""
    along = jnp.sum(both.squares * direction, axis=2)
    square = jnp.sum(along * direction, axis=1)
    is_long = square > 0
    length = jnp.sqrt(jnp.where(is_long, square, 1))
    reach = jnp.sum(jnp.where(is_long, 1 / length, 0)[:, None] * along, axis=0)
    return both.center + reach


def _separation(both: _Both, normal: Array) -> Array:
    """How far both are apart along a direction, but for the radius."""
    highest = jnp.max(jnp.sum(both.points * normal, axis=1))
    return jnp.sum(both.center * normal) - highest - jnp.sum(_lengths(normal, both.squares))


def _lengths(normal: Array, squares: Array) -> Array:
    """``sqrt(n^T M n)`` of each matrix M, [M]."""
    return square_root(jnp.sum(jnp.sum(squares * normal, axis=2) * normal, axis=1))


def _across(normal: Array, edge: Array) -> Array:
    """The unit vector nearest to a normal that is across an edge."""
    return _unit(normal - jnp.sum(normal * edge) * edge)


def _unit(vector: Array) -> Array:
    """A unit vector, or zero."""
    square = jnp.sum(vector**2)
    return vector / jnp.sqrt(jnp.where(square > 0, square, 1))
