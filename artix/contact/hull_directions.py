"""Where a convex hull is nearest to another one, a cylinder or an ellipsoid, as the numbers of its
points.

Both are found by iterations on the differences ``m = a - b`` of their points, whose convex hull
contains the origin if the shapes overlap. The nearest point of that hull to the origin is found by
GJK, which keeps at most three differences that are nearest so far, and replaces them as long as
another one is nearer. Where the hulls overlap, there is none. Then MPR finds the face of the hull
of differences through which a ray leaves it, from its middle through the origin: where the shapes
just touch, their common normal is that of this face, on either side of touching. Of a curved shape
all that is asked is its farthest point in a direction; there the iterations end nearby.

Gilbert, Johnson and Keerthi, *A fast procedure for computing the distance between complex objects
in three-dimensional space*, 1988; Snethen, *XenoCollide*, Game Programming Gems 7, 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import chosen
from artix.math.tangents import without_derivatives
from artix.math.traces import while_loop

Array = jax.Array

#: Below this distance, in units of a length, MPR is better than GJK.
TOUCHING = 1e-3
#: The most iterations of each.
_MOST = 64
#: Rounding errors of a length.
_ROUNDING = 16
#: Beside the middle, where no ray meets an edge of aligned shapes, in units of a length.
_ASIDE = np.array([0.0127, -0.0091, 0.0069])


class Differences(NamedTuple):
    """Two sets of points, in the frame of the first."""

    first: Array
    """[V, 3]."""
    second: Array
    """In a frame of its own, [W, 3]."""
    turn: Array
    """From the second frame to the first, [3, 3]."""
    offset: Array
    """Of the second frame, [3]."""

    def between(self, a: Array, b: Array) -> Array:
        """The differences of points with these numbers [...], [..., 3]."""
        return point_at(self.first, a) - self.placed(b)

    def placed(self, b: Array) -> Array:
        """Points of the second set in the first frame."""
        return self.moved(point_at(self.second, b))

    def moved(self, points: Array) -> Array:
        """Points [..., 3] of the second frame in the first."""
        return self.turned(points) + self.offset

    def turned(self, vectors: Array) -> Array:
        """Vectors [..., 3] of the second frame in the first."""
        return jnp.sum(self.turn * vectors[..., None, :], axis=-1)

    def seen(self, vector: Array) -> Array:
        """A vector [3] of the first frame in the second."""
        return jnp.sum(self.turn * vector[:, None], axis=0)

    def reversed(self) -> Differences:
        """The same, as seen from the second set."""
        offset = -jnp.sum(self.turn * self.offset[:, None], axis=0)
        return Differences(self.second, self.first, self.turn.T, offset)

    def middle(self) -> Array:
        """A difference inside of their hull, [3]."""
        return jnp.mean(self.first, axis=0) - self.moved(jnp.mean(self.second, axis=0))

    def start(self) -> tuple[Array, Array]:
        """The numbers of any two points."""
        return jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)

    def least(self, direction: Array) -> tuple[Array, Array]:
        """The numbers of the two points whose difference is the least along a direction."""
        return farthest(self.first, -direction), farthest(self.second, self.seen(direction))


class FromCurved(NamedTuple):
    """A set of points and a curved shape, in the frame of the points; those of the shape have no
    numbers and stand for themselves.
    """

    first: Array
    """[V, 3]."""
    center: Array
    support: Callable[[Array], Array]
    """Gives the farthest place of the shape in a direction, [3]."""

    def between(self, a: Array, b: Array) -> Array:
        """The differences of points with these numbers [...] and places [..., 3]."""
        return point_at(self.first, a) - b

    def middle(self) -> Array:
        """A difference inside of all of them, [3]."""
        return jnp.mean(self.first, axis=0) - self.center

    def start(self) -> tuple[Array, Array]:
        """Any point and any place of the shape."""
        return jnp.zeros((), jnp.int32), self.center

    def least(self, direction: Array) -> tuple[Array, Array]:
        """The number and the place whose difference is the least along a direction."""
        return farthest(self.first, -direction), self.support(direction)


Sets = Differences | FromCurved


class Corners(NamedTuple):
    """Three differences of points; fewer if some are equal."""

    a: Array
    """Numbers of points of the first set, [3]."""
    b: Array
    """Of the second, [3], or places of a curved shape, [3, 3]."""
    place: Array
    """The differences, [3, 3]."""


class Nearest(NamedTuple):
    """The end of a search."""

    corners: Corners
    normal: Array
    """From the second set towards the first, [3]."""
    is_valid: Array


def point_at(points: Array, number: Array) -> Array:
    """Points [..., 3] of [V, 3] with these numbers."""
    if len(points) == 1:
        return jnp.broadcast_to(points[0], (*number.shape, 3))
    index = 3 * number[..., None] + jnp.arange(3, dtype=jnp.int32)
    return (
        jnp.asarray(points)
        .reshape(-1)
        .at[index]
        .get(mode="promise_in_bounds", wrap_negative_indices=False)
    )


def farthest(points: Array, direction: Array) -> Array:
    """The number of the point that is farthest in a direction, the first of equal ones."""
    return number_of_largest(jnp.sum(points * direction, axis=1))


def number_of_largest(values: Array) -> Array:
    """The index of the largest of values [m], the first of equal ones, as an int32."""
    values = without_derivatives(values)
    numbers = jnp.arange(len(values), dtype=jnp.int32)
    while len(values) > 1:
        half = (len(values) + 1) // 2
        rest = len(values) - half
        is_larger = values[half:] > values[:rest]
        for_two = jnp.where(is_larger, numbers[half:], numbers[:rest])
        numbers = jnp.concatenate([for_two, numbers[rest:half]])
        values = jnp.concatenate([jnp.maximum(values[half:], values[:rest]), values[rest:half]])
    return numbers[0]


def entry_at(numbers: Array, index: Array) -> Array:
    """The entry of numbers [m] at an index."""
    is_it = np.arange(len(numbers), dtype=np.int32) == index
    return jnp.sum(jnp.where(is_it, numbers, 0), dtype=numbers.dtype)


def _dot(a: Array, b: Array) -> Array:
    return jnp.sum(a * b)


def _three_times(corner: Corners) -> Corners:
    return Corners(*(jnp.broadcast_to(x, (3, *x.shape)) for x in corner))


# --- hulls that are apart -----------------------------------------------------------------------


class _Search(NamedTuple):
    corners: Corners
    nearest: Array
    """The nearest point of the corners, [3]."""
    separation: Array
    """Along the way to it; the distance, at the end."""
    is_done: Array
    turns: Array


def nearest_corners(sets: Sets, size: Array) -> Nearest:
    """The differences around the point that is nearest to the origin, and the way there, by GJK.

    Args:
      sets: the two sets of points, without derivatives.
      size: a length that is not smaller than the differences.
    """
    first = sets.start()
    start = sets.between(*first)
    rounding = _ROUNDING * jnp.finfo(size.dtype).eps * size

    def body(search: _Search) -> _Search:
        square = _dot(search.nearest, search.nearest)
        a, b = sets.least(search.nearest)
        new = sets.between(a, b)
        length = jnp.sqrt(jnp.where(square > 0, square, 1))
        separation = _dot(search.nearest, new) / length
        is_nearest = length - separation <= rounding
        corners, nearest = _with_new(search.corners, Corners(a[None], b[None], new[None]))
        is_nearer = _dot(nearest, nearest) < square
        is_done = is_nearest | ~is_nearer | (square <= 0)
        keep = _Search(search.corners, search.nearest, separation, is_done, search.turns + 1)
        move = _Search(corners, nearest, separation, is_done, search.turns + 1)
        return jax.tree.map(lambda x, y: jnp.where(is_done, x, y), keep, move)

    end = while_loop(
        lambda search: ~search.is_done & (search.turns < _MOST),
        body,
        _Search(
            _three_times(Corners(*first, start)),
            start,
            jnp.full_like(size, -1),
            jnp.zeros((), bool),
            jnp.zeros((), jnp.int32),
        ),
    )
    square = _dot(end.nearest, end.nearest)
    length = jnp.sqrt(jnp.where(square > 0, square, 1))
    # Where rounding ends the search, the distance is near the separation, an error of the direction
    # counting twice.
    near = jnp.finfo(size.dtype).eps ** 0.5 * size
    is_valid = (square > 0) & (end.separation > 0) & (length - end.separation <= near)
    return Nearest(end.corners, end.nearest / length, is_valid)


def _with_new(old: Corners, new: Corners) -> tuple[Corners, Array]:
    """Of the triangles and segments between a new corner and the old ones, the one that is nearest
    to the origin, and its nearest point.
    """
    w = new.place[0]
    ways = old.place - w
    squares = [_dot(way, way) for way in ways]
    rises = [-_dot(w, way) for way in ways]
    options: list[tuple[tuple[int, int], Array, Array]] = []
    for k in range(3):
        share = jnp.clip(rises[k] / jnp.where(squares[k] > 0, squares[k], 1), 0, 1)
        # The new corner alone, if it is the nearest itself.
        options.append(((k, k), w + share * ways[k], share > 0))
    for j, k in ((0, 1), (0, 2), (1, 2)):
        mixed = _dot(ways[j], ways[k])
        product = squares[j] * squares[k]
        det = product - mixed**2
        is_open = det > 32 * jnp.finfo(det.dtype).eps * product
        safe = jnp.where(is_open, det, 1)
        u = (rises[j] * squares[k] - rises[k] * mixed) / safe
        v = (rises[k] * squares[j] - rises[j] * mixed) / safe
        within = is_open & (u > 0) & (v > 0) & (u + v < 1)
        options.append(((j, k), w + u * ways[j] + v * ways[k], within))
    best, nearest, least = None, w, _dot(w, w)
    for (j, k), place, is_inside in options:
        square = _dot(place, place)
        is_better = is_inside & (square < least)
        least = jnp.where(is_better, square, least)
        nearest = jnp.where(is_better, place, nearest)
        picked = jax.tree.map(lambda n, o, j=j, k=k: jnp.stack([n[0], o[j], o[k]]), new, old)
        if best is None:
            best = jax.tree.map(lambda n: jnp.broadcast_to(n, (3, *n.shape[1:])), new)
        best = jax.tree.map(lambda x, y, c=is_better: jnp.where(c, x, y), picked, best)
    assert best is not None
    return best, nearest


# --- hulls that touch ---------------------------------------------------------------------------


class _Portal(NamedTuple):
    corners: Corners
    """The third is not used at first."""
    way: Array
    """Outwards, towards the next corner; not of unit length, [3]."""
    phase: Array
    """0, 1: looks for the first and the second corner; 2: for a triangle through which the ray
    passes; 3: for one beyond which there is nothing; 4: has it."""
    turns: Array


def outermost_corners(sets: Sets, size: Array) -> Nearest:
    """The differences on the face through which a ray from the middle through the origin leaves
    their hull, and its normal, by MPR.

    Args:
      sets: the two sets of points, without derivatives.
      size: a length that is not smaller than the differences.
    """
    middle = sets.middle() + size * _ASIDE.astype(size.dtype)
    rounding = _ROUNDING * jnp.finfo(size.dtype).eps * size

    def body(portal: _Portal) -> _Portal:
        (v1, v2, v3), phase = portal.corners.place, portal.phase
        a, b = sets.least(-portal.way)
        w = sets.between(a, b)
        # 0: the first corner. 1: the second, and a plane through both, the origin beyond it.
        first_way = jnp.cross(w, middle)
        plane = jnp.cross(v1 - middle, w - middle)
        is_inwards = _dot(plane, middle) > 0
        # 2: the third, unless the ray passes outside one of its edges.
        beside_second = _dot(jnp.cross(v1, w), middle) < 0
        beside_first = ~beside_second & (_dot(jnp.cross(w, v2), middle) < 0)
        passes = ~beside_second & ~beside_first
        # 3: one of the three triangles between the new corner and two of the old ones.
        is_outermost = _dot(w - v3, portal.way) <= rounding * jnp.sqrt(_dot(portal.way, portal.way))
        across = jnp.cross(w, middle)
        by_first = _dot(v1, across) > 0
        by_second = _dot(v2, across) > 0
        by_third = _dot(v3, across) > 0
        seeks = phase == 2
        expands = (phase == 3) & ~is_outermost
        swaps = (phase == 1) & is_inwards
        to_first = (
            (phase == 0)
            | swaps
            | (seeks & beside_first)
            | (expands & jnp.where(by_first, by_second, ~by_third))
        )
        to_second = (
            ((phase == 1) & ~is_inwards)
            | (seeks & beside_second)
            | (expands & ~by_first & by_third)
        )
        to_third = (seeks & passes) | (expands & by_first & ~by_second)

        def placed(old: Array, new: Array) -> Array:
            second = jnp.where(to_second, new, jnp.where(swaps, old[0], old[1]))
            return jnp.stack(
                [jnp.where(to_first, new, old[0]), second, jnp.where(to_third, new, old[2])]
            )

        corners = Corners(
            placed(portal.corners.a, a),
            placed(portal.corners.b, b),
            placed(portal.corners.place, w),
        )
        v1, v2, v3 = corners.place
        through_middle = jnp.cross(v1 - middle, v2 - middle)
        outwards = jnp.cross(v2 - v1, v3 - v1)
        is_portal = (phase == 3) | (seeks & passes)
        way = jnp.where(phase == 0, first_way, jnp.where(is_portal, outwards, through_middle))
        is_last = (phase == 3) & is_outermost
        after = jnp.where(is_portal, np.int32(3), np.int32(2))
        after = jnp.where(is_last, np.int32(4), jnp.where(phase < 2, phase + 1, after))
        is_flat = ~(_dot(way, way) > 0)
        return _Portal(
            corners,
            jnp.where(is_last, portal.way, way),
            jnp.where(is_flat & ~is_last, np.int32(5), after),
            portal.turns + 1,
        )

    end = while_loop(
        lambda portal: (portal.phase < 4) & (portal.turns < _MOST),
        body,
        _Portal(
            _three_times(Corners(*sets.start(), jnp.zeros(3, size.dtype))),
            -middle,
            jnp.zeros((), jnp.int32),
            jnp.zeros((), jnp.int32),
        ),
    )
    square = _dot(end.way, end.way)
    length = jnp.sqrt(jnp.where(square > 0, square, 1))
    # Around a curved shape, the last of the iterations is near enough.
    return Nearest(end.corners, -end.way / length, (end.phase == 3) | (end.phase == 4))


# --- either ---------------------------------------------------------------------------------------


def closest_corners(sets: FromCurved, size: Array, separation: Callable[[Array], Array]) -> Nearest:
    """Those of GJK, or of MPR where shapes nearly touch or overlap.

    Args:
      sets: the points and the curved shape, without derivatives.
      size: a length that is not smaller than the differences.
      separation: gives how far both are apart along a direction from the points to the shape.
    """
    apart, touching = nearest_corners(sets, size), outermost_corners(sets, size)
    is_near = ~apart.is_valid | (separation(-apart.normal) < TOUCHING * size)
    return chosen(is_near & touching.is_valid, touching, apart)
