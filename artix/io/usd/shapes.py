"""Volume, centre and inertia of collision shapes, for bodies whose mass properties follow from a density."""

from __future__ import annotations

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


def cylinder(radius: float, height: float, axis: int) -> Solid:
    """A cylinder centred at the origin, along a coordinate axis."""
    volume = np.pi * radius**2 * height
    across = volume * (radius**2 / 4.0 + height**2 / 12.0)
    return Solid(volume, np.zeros(3), _about_axis(0.5 * volume * radius**2, across, axis))


def capsule(radius: float, height: float, axis: int) -> Solid:
    """A cylinder of the given height with a hemisphere on each end, centred at the origin, along a coordinate axis."""
    middle, ends = cylinder(radius, height, axis), sphere(radius)
    # The centroid of a hemisphere is 3/8 r from its flat side; ends.inertia is about the centre of the full ball.
    offset = ends.volume * (height**2 / 4.0 + 3.0 / 8.0 * radius * height)
    added = _about_axis(0.0, offset, axis)
    return Solid(middle.volume + ends.volume, np.zeros(3), middle.inertia + ends.inertia + added)


def cone(radius: float, height: float, axis: int) -> Solid:
    """A cone along a coordinate axis, with the apex at ``height / 2`` and the base at ``-height / 2``."""
    volume = np.pi * radius**2 * height / 3.0
    center = np.zeros(3)
    center[axis] = -height / 4.0
    across = volume * (0.15 * radius**2 + 0.0375 * height**2)
    return Solid(volume, center, _about_axis(0.3 * volume * radius**2, across, axis))


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


def _about_axis(along: float, across: float, axis: int) -> np.ndarray:
    diagonal = np.full(3, across)
    diagonal[axis] = along
    return np.diag(diagonal)
