"""The shapes that can touch the ground, arranged in places that are the same for all members of a fleet.

Spheres, capsules, boxes and hulls are all hulls of points with one radius; only cylinders are not. So a fleet has
places for hulls of so many points each, and for cylinders. A member's hulls are sorted by their numbers of points: the
first place has room for the largest hull of any member. The links of shapes and their numbers of points are data.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import host_arrays, is_known
from artix.model.geometry import CANDIDATE_PATTERNS, Geometries, Geometry, GeometryStructure, GeometryType
from artix.model.topology import Topology

Array = jax.Array


class Places(NamedTuple):
    """Places for G shapes: hulls first, then cylinders."""

    hull_points: tuple[int, ...]
    """Largest number of points of each hull, in descending order."""
    cylinders: int
    """Number of cylinders."""

    @classmethod
    def of(cls, topology: Topology) -> Places:
        """The places that one topology needs."""
        hulls, cylinders = _hulls_and_cylinders(topology)
        return cls(tuple(topology.geometries[k].num_candidates for k in hulls), len(cylinders))

    @property
    def structures(self) -> tuple[GeometryStructure, ...]:
        """The structures of the shapes in these places. Their links are data, and -1 here."""
        hulls = [GeometryStructure(f"hull {k}", GeometryType.HULL, -1, size) for k, size in enumerate(self.hull_points)]
        cylinders = [GeometryStructure(f"cylinder {k}", GeometryType.CYLINDER, -1) for k in range(self.cylinders)]
        return (*hulls, *cylinders)

    def links_and_points(self, topology: Topology) -> tuple[np.ndarray, np.ndarray]:
        """The link of the shape in each place, and its number of points, [G]; link 0 and no points without a shape."""
        shapes = [None if k is None else topology.geometries[k] for k in self.shapes(topology)]
        found = [(0, 0) if shape is None else (shape.link, shape.num_candidates) for shape in shapes]
        links, points = np.array(found, np.int32).reshape(-1, 2).T
        return links, points

    def fill(self, topology: Topology, arrays: Geometries) -> Geometries:
        """The arrays of a topology's shapes, place by place. NumPy's, unless JAX traces them."""
        xp: Any = jnp
        if is_known(*jax.tree.leaves(arrays)):
            xp, arrays = np, host_arrays(arrays)
        absent = Geometries.of([Geometry.sphere(0.0)]).replace(point=np.zeros((1, 3)))
        every = jax.tree.map(lambda own, none: xp.concatenate([own, none.astype(own.dtype)]), arrays, absent)
        table = _table(topology, self)
        filled = jax.tree.map(lambda leaf: leaf[table.shape], every.replace(point=every.pose))
        corners = table.corner.astype(every.size.dtype) * every.size[table.shape_of_point[:, None], table.extent]
        return filled.replace(
            size=filled.size * table.keeps_size.astype(every.size.dtype), point=corners + every.point[table.hull_point]
        )

    def shapes(self, topology: Topology) -> list[int | None]:
        """The index of the shape in each place."""
        hulls, cylinders = _hulls_and_cylinders(topology)
        counts = len(self.hull_points) - len(hulls), self.cylinders - len(cylinders)
        return [*hulls, *[None] * counts[0], *cylinders, *[None] * counts[1]]


class _Table(NamedTuple):
    """Where the arrays in the places come from. Behind a topology's shapes and points is one more, which is absent."""

    shape: np.ndarray
    """The shape in each place, [G]."""
    keeps_size: np.ndarray
    """Which of its numbers remain: all of a cylinder's, the radius of a hull, [G, 3]."""
    shape_of_point: np.ndarray
    """The shape of each point, [P]."""
    corner: np.ndarray
    """Each point in units of the shape's extent, zero for a point of a hull, [P, 3]."""
    extent: np.ndarray
    """Which numbers of the shape's size are this extent, [P, 3]."""
    hull_point: np.ndarray
    """Which point of the topology's hulls it is, [P]."""


@functools.lru_cache(maxsize=256)  # For fleets of thousands of members that all differ.
def _table(topology: Topology, places: Places) -> _Table:
    structures, no_shape = topology.geometries, len(topology.geometries)
    first = np.cumsum([0, *(shape.num_points for shape in structures)])
    kept: list[tuple[int, int, int]] = []
    points: list[Any] = []
    shapes = [no_shape if k is None else k for k in places.shapes(topology)]
    for k, room in zip(shapes, places.structures, strict=True):
        own: list[Any] = []
        if room.type is GeometryType.CYLINDER:
            kept.append((1, 1, 1))
        elif k == no_shape or structures[k].type is GeometryType.HULL:
            kept.append((1, 0, 0))
            own = [] if k == no_shape else [(k, (0, 0, 0), (0, 0, 0), n) for n in range(first[k], first[k + 1])]
        else:
            corners, numbers, have_radius = CANDIDATE_PATTERNS[structures[k].type]
            kept.append((int(have_radius), 0, 0))
            own = [(k, corner, numbers, first[-1]) for corner in corners.tolist()]
        points += own + [(no_shape, (0, 0, 0), (0, 0, 0), first[-1])] * (room.num_points - len(own))
    shape_of_point, corner, extent, hull_point = zip(*points, strict=True) if points else [()] * 4
    columns = ((shapes,), (kept, 3), (shape_of_point,), (corner, 3), (extent, 3), (hull_point,))
    return _Table(*(np.array(rows, int).reshape(-1, *width) for rows, *width in columns))


def _hulls_and_cylinders(topology: Topology) -> tuple[list[int], list[int]]:
    """The shapes that can touch the ground: hulls in descending order of their numbers of points, and cylinders."""
    shapes = topology.geometries
    cylinders = [k for k in topology.touching_geometries if shapes[k].type is GeometryType.CYLINDER]
    hulls = [k for k in topology.touching_geometries if k not in cylinders]
    return sorted(hulls, key=lambda k: -shapes[k].num_candidates), cylinders
