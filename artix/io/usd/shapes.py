"""Volume, centre and inertia of collision shapes, for bodies whose mass properties follow from a density."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Solid(NamedTuple):
    """A solid of unit density: volume [m^3], centre [m], shape [3], inertia about the centre [m^5], shape [3, 3]."""

    volume: float
    center: np.ndarray
    inertia: np.ndarray


def box(size: np.ndarray) -> Solid:
    """A box centred at the origin with edges ``size`` [3]."""
    volume = float(np.prod(size))
    squares = size**2
    return Solid(volume, np.zeros(3), np.diag(volume / 12.0 * (squares.sum() - squares)))


def sphere(radius: float) -> Solid:
    """A ball centred at the origin."""
    volume = 4.0 / 3.0 * np.pi * radius**3
    return Solid(volume, np.zeros(3), 0.4 * volume * radius**2 * np.eye(3))


def cylinder(radii: tuple[float, float], height: float, axis: int) -> Solid:
    """A cylinder centred at the origin, along a coordinate axis; a cone or its frustum if its radii differ.

    Args:
      radii: radii at the lower and at the upper end of the axis [m].
      height: length [m].
      axis: the coordinate axis, 0 to 2.
    """
    return _revolution([_cone_piece(radii, (-0.5 * height, 0.5 * height))], axis)


def capsule(radii: tuple[float, float], height: float, axis: int) -> Solid:
    """The convex hull of two balls whose centres are ``height`` apart, centred at the origin, along a coordinate axis.

    Args:
      radii: radii of the ball at the lower and at the upper end of the axis [m].
      height: distance of their centres [m].
      axis: the coordinate axis, 0 to 2.
    """
    ends = np.array([-0.5 * height, 0.5 * height])
    if abs(radii[1] - radii[0]) >= height:  # One ball contains the other.
        center = ends[np.argmax(radii)] * np.eye(3)[axis]
        return sphere(max(radii))._replace(center=center)
    # The cone touches both balls on circles that lie off their centres by the sine of its angle.
    sine = (radii[0] - radii[1]) / height
    circles = ends + sine * np.asarray(radii)
    cosine = np.sqrt(1.0 - sine**2)
    pieces = [
        _Piece(ends[0] - radii[0], circles[0], lambda z: radii[0] ** 2 - (z - ends[0]) ** 2),
        _cone_piece((radii[0] * cosine, radii[1] * cosine), (circles[0], circles[1])),
        _Piece(circles[1], ends[1] + radii[1], lambda z: radii[1] ** 2 - (z - ends[1]) ** 2),
    ]
    return _revolution(pieces, axis)


class _Piece(NamedTuple):
    """A piece of a solid of revolution: its ends on the axis, and the squared radius as a quadratic function."""

    low: float
    high: float
    squared_radius: Callable[[np.ndarray], np.ndarray]


def _cone_piece(radii: tuple[float, float], ends: tuple[float, float]) -> _Piece:
    """A frustum of a cone between two ends."""
    return _Piece(*ends, lambda z: np.interp(z, ends, radii) ** 2)


def _revolution(pieces: list[_Piece], axis: int) -> Solid:
    """A solid of revolution about a coordinate axis.

    The moments of a disc are polynomials of at most fourth degree, which three Gauss points integrate exactly.
    """
    nodes, weights = np.polynomial.legendre.leggauss(3)
    volume = first = along = across = 0.0
    for piece in pieces:
        z = 0.5 * (piece.low + piece.high) + 0.5 * (piece.high - piece.low) * nodes
        square = piece.squared_radius(z)
        area = 0.5 * np.pi * (piece.high - piece.low) * weights * square
        volume += area.sum()
        first += area @ z
        along += area @ (0.5 * square)
        across += area @ (0.25 * square + z**2)
    center = first / volume
    moments = np.full(3, across - volume * center**2)
    moments[axis] = along
    return Solid(float(volume), center * np.eye(3)[axis], np.diag(moments))


def polyhedron(points: np.ndarray, triangles: np.ndarray) -> Solid | None:
    """The interior of a closed surface of consistently oriented triangles.

    Sums over the tetrahedra that the triangles form with the mean vertex.

    Args:
      points: vertices [m], shape [n, 3].
      triangles: vertex numbers, shape [m, 3].

    Returns:
      The solid; ``None`` if the surface is not closed or encloses no volume.
    """
    if not _is_closed(triangles):
        return None
    origin = points.mean(axis=0)
    corners = (points - origin)[triangles]
    volumes = np.linalg.det(corners) / 6.0
    total = float(volumes.sum())
    size = float(np.prod(np.maximum(np.ptp(points, axis=0), 1e-12)))
    if not abs(total) > 1e-9 * size:
        return None
    sums = corners.sum(axis=1)
    center = (volumes[:, None] * sums).sum(axis=0) / (4.0 * total)
    # Second moments of a tetrahedron with one corner at the origin: V/20 (sum_k c_k c_k^T + s s^T).
    second = np.einsum("t,tki,tkj->ij", volumes, corners, corners) + np.einsum("t,ti,tj->ij", volumes, sums, sums)
    second = second / 20.0 - total * np.outer(center, center)
    inertia = np.trace(second) * np.eye(3) - second
    sign = np.sign(total)
    return Solid(abs(total), origin + center, sign * 0.5 * (inertia + inertia.T))


def convex_hull(points: np.ndarray) -> Solid | None:
    """The convex hull of points [n, 3]; ``None`` if they lie in a plane."""
    triangles = hull_triangles(points)
    return None if triangles is None else polyhedron(points, triangles)


def hull_triangles(points: np.ndarray) -> np.ndarray | None:
    """The convex hull of points [n, 3] as triangles [m, 3], counter-clockwise from outside; ``None`` if flat."""
    from scipy.spatial import ConvexHull, QhullError  # Imported only where there are such shapes.

    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        return None
    corners = points[hull.simplices]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inward = np.einsum("ti,ti->t", normals, hull.equations[:, :3]) < 0.0
    return np.where(inward[:, None], hull.simplices[:, ::-1], hull.simplices)


def triangulate(counts: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Splits polygons, given by their corner counts and vertex indices, into fans of triangles [m, 3]."""
    starts = np.cumsum(counts) - counts
    fans = [
        [indices[start], indices[start + k], indices[start + k + 1]]
        for start, count in zip(starts, counts, strict=True)
        for k in range(1, count - 1)
    ]
    return np.array(fans, int).reshape(-1, 3)


def _is_closed(triangles: np.ndarray) -> bool:
    """Whether every edge is traversed equally often in both directions."""
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    direction = np.where(edges[:, 0] < edges[:, 1], 1, -1)
    _, group = np.unique(np.sort(edges, axis=1), axis=0, return_inverse=True)
    return len(edges) > 0 and not np.any(np.bincount(group.ravel(), weights=direction))
