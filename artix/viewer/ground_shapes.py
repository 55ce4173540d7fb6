"""The ground as surfaces to draw."""

from __future__ import annotations

import numpy as np

from artix import Ground, HeightField, Plane
from artix.viewer.meshes import TriangleMesh
from artix.viewer.transforms import quaternion_from_z_to, rotate


def height_field_mesh(field: HeightField) -> TriangleMesh:
    """The surface of a height field, with two triangles per cell.

    Args:
      field: the field, with heights [R, C].
    """
    heights = np.asarray(field.heights, float)
    rows, columns = heights.shape
    origin, spacing = np.asarray(field.origin, float), np.asarray(field.spacing, float)
    x, y = np.meshgrid(np.arange(rows) * spacing[0], np.arange(columns) * spacing[1], indexing="ij")
    vertices = np.stack([x, y, heights], axis=-1).reshape(-1, 3) + origin
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
    first = np.stack([corner, corner + columns, corner + columns + 1], axis=1)
    second = np.stack([corner, corner + columns + 1, corner + 1], axis=1)
    return TriangleMesh(vertices, np.concatenate([first, second]))


def plane_mesh(plane: Plane, center: np.ndarray, half_width: float, tiles: int = 24) -> TriangleMesh:
    """A square piece of a plane, centred at the point nearest to ``center`` [3], with ``tiles`` by ``tiles`` tiles."""
    normal = np.asarray(plane.normal, float)
    point = center - (normal @ center - float(plane.height)) * normal
    along = np.linspace(-half_width, half_width, tiles + 1)
    x, y = np.meshgrid(along, along, indexing="ij")
    flat = np.stack([x, y, np.zeros_like(x)], axis=-1).reshape(-1, 3)
    corner = (np.arange(tiles)[:, None] * (tiles + 1) + np.arange(tiles)).reshape(-1)
    step = tiles + 1
    faces = [[corner, corner + step, corner + step + 1], [corner, corner + step + 1, corner + 1]]
    vertices = point + rotate(quaternion_from_z_to(normal), flat)
    return TriangleMesh(vertices, np.concatenate([np.stack(face, axis=1) for face in faces]))


def is_level(ground: Ground | None) -> bool:
    """Whether the ground is the same everywhere: absent, or level planes."""
    if ground is None:
        return True
    return all(isinstance(one, Plane) and float(one.normal[2]) > 1.0 - 1e-9 for one in ground.surfaces)
