"""The shapes that can touch the ground, arranged in places that are the same for all members of a fleet.

Spheres, capsules, boxes and hulls are all hulls of points with one radius; only cylinders are not. So a fleet has
places for hulls of so many points each, and for cylinders. A member's hulls are sorted by their numbers of points: the
first place has room for the largest hull of any member. The links of shapes and their numbers of points are data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import host_arrays, is_known
from artix.model.geometry import CANDIDATES, Geometries, Geometry, GeometryStructure, GeometryType
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
        shapes = [None if k is None else topology.geometries[k] for k in self._shapes(topology)]
        found = [(0, 0) if shape is None else (shape.link, shape.num_candidates) for shape in shapes]
        links, points = np.array(found, np.int32).reshape(-1, 2).T
        return links, points

    def fill(self, topology: Topology, arrays: Geometries) -> Geometries:
        """The arrays of a topology's shapes, place by place. NumPy's, unless JAX traces them."""
        xp: Any = jnp
        if is_known(*jax.tree.leaves(arrays)):
            xp, arrays = np, host_arrays(arrays)
        absent = Geometries.of([Geometry.sphere(0.0)])
        empty = _row(jax.tree.map(lambda array: np.asarray(array, arrays.friction.dtype), absent), 0, absent.point)
        rows, points = [], [empty.point]
        for k, structure in zip(self._shapes(topology), self.structures, strict=True):
            row = empty if k is None else _as_hull(topology, arrays, k, xp)
            missing = structure.num_points - len(row.point)
            points.append(xp.concatenate([row.point, np.zeros((missing, 3), empty.point.dtype)]))
            rows.append(row.replace(point=empty.point))
        filled = jax.tree.map(lambda *leaves: xp.stack(leaves)[: len(rows)], *rows, empty)
        return filled.replace(point=xp.concatenate(points))

    def _shapes(self, topology: Topology) -> list[int | None]:
        """The index of the shape in each place."""
        hulls, cylinders = _hulls_and_cylinders(topology)
        counts = len(self.hull_points) - len(hulls), self.cylinders - len(cylinders)
        return [*hulls, *[None] * counts[0], *cylinders, *[None] * counts[1]]


def _hulls_and_cylinders(topology: Topology) -> tuple[list[int], list[int]]:
    """The shapes that can touch the ground: hulls in descending order of their numbers of points, and cylinders."""
    shapes = topology.geometries
    cylinders = [k for k in topology.touching_geometries if shapes[k].type is GeometryType.CYLINDER]
    hulls = [k for k in topology.touching_geometries if k not in cylinders]
    return sorted(hulls, key=lambda k: -shapes[k].num_candidates), cylinders


def _row(arrays: Geometries, number: int, points: Array) -> Geometries:
    """The arrays of one shape, with these points."""
    return jax.tree.map(lambda leaf: leaf[number], arrays.replace(point=arrays.pose)).replace(point=points)


def _as_hull(topology: Topology, arrays: Geometries, number: int, xp: Any) -> Geometries:
    """The arrays of one shape as those of a hull, or of a cylinder."""
    shape, first = topology.geometries[number], sum(one.num_points for one in topology.geometries[:number])
    row = _row(arrays, number, arrays.point[first : first + shape.num_points])
    if shape.type in (GeometryType.CYLINDER, GeometryType.HULL):
        return row
    zero = np.zeros((), row.size.dtype)
    extent, radius = row.size, xp.asarray(zero)
    if shape.type is not GeometryType.BOX:  # A capsule's radius and half of its length along z; a sphere has only one.
        extent, radius = xp.stack([zero, zero, row.size[1]]), row.size[0]
    corners = CANDIDATES[shape.type].astype(zero.dtype)
    return row.replace(size=xp.stack([radius, zero, zero]), point=corners * extent)
