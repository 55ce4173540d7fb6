"""The faces of a convex hull, which are static: which points are on each of them, in order."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np

#: The most points of a hull whose faces are known, and which touches other shapes.
MOST_POINTS = 64
#: How far points may be from a plane to lie on one face, in units of the largest extent.
_FLAT = 1e-6


@dataclasses.dataclass(frozen=True)
class HullFaces:
    """F faces of a hull.

    Attributes:
      loops: indices of the points of each face, counter-clockwise as seen from outside.
      corners: of each face four of them in the same order, which span the largest area; the last of
        a triangle counts twice.
    """

    loops: tuple[tuple[int, ...], ...] = ()
    corners: tuple[tuple[int, int, int, int], ...] = ()

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple:
        return HullFaces, (self.loops, self.corners)

    @cached_property
    def _hash(self) -> int:
        return hash(self.loops)

    @cached_property
    def padded(self) -> np.ndarray:
        """The loops, [F, K]; the last point of shorter ones is repeated."""
        most = max(map(len, self.loops))
        loops = [(*loop, *[loop[-1]] * (most - len(loop))) for loop in self.loops]
        return np.array(loops, np.int32)

    @cached_property
    def corner_numbers(self) -> np.ndarray:
        """The corners, [F, 4]."""
        return np.array(self.corners, np.int32)

    @cached_property
    def edges(self) -> np.ndarray:
        """The two points of each edge, [E, 2]."""
        sides = [
            side for loop in self.loops for side in zip(loop, loop[1:] + loop[:1], strict=True)
        ]
        return np.array(sorted({(min(side), max(side)) for side in sides}), np.int32)


NO_FACES = HullFaces()

#: Those of a box whose points are (x, y, z), the negative ones first, with z the fastest.
BOX_FACES = HullFaces(
    *[((0, 1, 3, 2), (0, 4, 5, 1), (0, 2, 6, 4), (1, 5, 7, 3), (2, 3, 7, 6), (4, 6, 7, 5))] * 2
)


def hull_faces(points: np.ndarray) -> HullFaces:
    """The faces of the convex hull of points [P, 3], coplanar triangles as one.

    A flat hull has two. There are none if the points are on a line, or more than 64.
    """
    extent = np.max(np.ptp(points, axis=0)) if len(points) else 0.0
    if not 3 <= len(points) <= MOST_POINTS or not extent > 0:
        return HullFaces()
    centered = (points - points.mean(axis=0)) / extent
    sizes, axes = np.linalg.svd(centered, full_matrices=False)[1:]
    if sizes[1] < _FLAT:
        return HullFaces()
    if sizes[2] < _FLAT:
        planes = np.stack([axes[2], -axes[2]])
        groups = [np.arange(len(points))] * 2
    else:
        planes, groups = _planes(centered)
    loops = [_loop(centered, group, plane) for plane, group in zip(planes, groups, strict=True)]
    corners = [_corners(centered, loop, plane) for plane, loop in zip(planes, loops, strict=True)]
    return HullFaces(tuple(loops), tuple(corners))


def _planes(points: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The outward normals of the faces, and the numbers of the points on each."""
    from scipy.spatial import ConvexHull  # Slow to import.

    hull = ConvexHull(points)
    heights = points @ hull.equations[:, :3].T + hull.equations[:, 3]
    on_plane = {
        tuple(np.flatnonzero(np.abs(height) < _FLAT).tolist()): plane
        for height, plane in zip(heights.T, hull.equations[:, :3], strict=True)
    }
    # Nearly parallel triangles of one face may not have found each other's points.
    groups = sorted(on_plane, key=len, reverse=True)
    kept: list[tuple[int, ...]] = []
    for group in groups:
        if not any(set(group) <= set(other) for other in kept):
            kept.append(group)
    kept.sort()
    return np.array([on_plane[group] for group in kept]), [np.array(group) for group in kept]


def _loop(points: np.ndarray, group: np.ndarray, normal: np.ndarray) -> tuple[int, ...]:
    """The corners of the polygon around coplanar points, counter-clockwise about a normal."""
    first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    axes = np.stack([first, np.cross(normal, first)]) / np.linalg.norm(first)
    flat = points[group] @ axes.T
    order = np.lexsort(flat.round(9).T)
    chain: list[int] = []
    for numbers in (order, order[::-1]):  # Andrew's monotone chain.
        part: list[int] = []
        for number in numbers:
            while len(part) > 1:
                a, b = flat[part[-1]] - flat[part[-2]], flat[number] - flat[part[-2]]
                if a[0] * b[1] - a[1] * b[0] > _FLAT * np.linalg.norm(a):
                    break
                part.pop()
            part.append(int(number))
        chain += part[:-1]
    loop = [int(group[k]) for k in chain]
    start = loop.index(min(loop))
    return tuple(loop[start:] + loop[:start])


def _corners(
    points: np.ndarray, loop: tuple[int, ...], normal: np.ndarray
) -> tuple[int, int, int, int]:
    """Four points of a loop around the largest area, or the three there are."""
    if len(loop) == 3:
        return (*loop, loop[-1])
    count, best, most = len(loop), loop[:4], -1.0
    across = np.cross(points[list(loop)][:, None], points[list(loop)]) @ normal
    for i in range(count):
        for k in range(i + 2, count):
            between = [across[i, j] + across[j, k] for j in range(i + 1, k)]
            beyond = [across[k, j] + across[j, i] for j in (*range(k + 1, count), *range(i))]
            if not beyond:
                continue
            area = max(between) + max(beyond)
            if area > most + 1e-9:
                j = i + 1 + int(np.argmax(between))
                last = (*range(k + 1, count), *range(i))[int(np.argmax(beyond))]
                most, best = area, (loop[i], loop[j], loop[k], loop[last])
    return best[0], best[1], best[2], best[3]
