"""Triangle meshes: primitives, the shapes of :class:`artix.Geometry`, the ground; and the poses
that place them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from artix import Geometry, GeometryType, Ground, HeightField, Plane
from artix.io.usd.mass_properties import hull_triangles

#: Corners of circles: enough to look round at the size of a link, few enough for fleets.
AROUND = 20


@dataclasses.dataclass(frozen=True, eq=False)
class TriangleMesh:
    """A triangle mesh, counter-clockwise as seen from outside.

    Shared vertices are shaded smoothly. An edge is sharp if its two triangles have separate
    vertices.

    Attributes:
      vertices: points [m], shape [V, 3].
      faces: indices of the corners of each triangle, shape [F, 3].

    Raises:
      ValueError: a shape is wrong, a vertex is not finite, or a face refers to a vertex that does
        not exist.

    Examples:
      >>> from artix import viewer
      >>> viewer.TriangleMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
      TriangleMesh(3 vertices, 1 faces)
    """

    vertices: npt.NDArray[np.float32]
    faces: npt.NDArray[np.uint32]

    def __post_init__(self) -> None:
        vertices, faces = np.asarray(self.vertices, np.float32), np.asarray(self.faces)
        if vertices.ndim != 2 or vertices.shape[1] != 3 or faces.ndim != 2 or faces.shape[1] != 3:
            raise ValueError(
                "a mesh has vertices of shape [V, 3] and faces of shape [F, 3]; found "
                f"{vertices.shape}, {faces.shape}"
            )
        if not np.isfinite(vertices).all():
            raise ValueError("every vertex of a mesh must be finite")
        if faces.size and not 0 <= faces.min() <= faces.max() < len(vertices):
            raise ValueError(
                f"faces refer to vertices {faces.min()} to {faces.max()}; there are {len(vertices)}"
            )
        object.__setattr__(self, "vertices", np.ascontiguousarray(vertices))
        object.__setattr__(self, "faces", np.ascontiguousarray(faces, np.uint32))

    def __repr__(self) -> str:
        return f"TriangleMesh({len(self.vertices)} vertices, {len(self.faces)} faces)"

    def scaled(self, scale: npt.ArrayLike) -> TriangleMesh:
        """Scales the mesh by one factor, or by three along its axes. Mirroring keeps the outside
        outside.
        """
        factors = np.broadcast_to(np.asarray(scale, np.float32), (3,))
        faces = self.faces if np.prod(factors) > 0 else self.faces[:, ::-1]
        return TriangleMesh(self.vertices * factors, faces)


def joined(meshes: list[TriangleMesh]) -> TriangleMesh:
    """Joins several meshes."""
    firsts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [mesh.faces + np.uint32(first) for mesh, first in zip(meshes, firsts, strict=False)]
    return TriangleMesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(faces))


def box_mesh(half_extents: npt.ArrayLike) -> TriangleMesh:
    """A box centred at the origin, with half edges [3] [m]."""
    half = np.asarray(half_extents, float)
    corners = list[np.ndarray]()
    faces = list[list[int]]()
    for axis in range(3):
        for side in (-1.0, 1.0):
            square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], float)[:: int(side)]
            faces += [[len(corners) + k for k in triangle] for triangle in ((0, 1, 2), (0, 2, 3))]
            corners += [np.roll([side, *pair], axis) for pair in square]
    return TriangleMesh(np.array(corners) * half, np.array(faces))


def sphere_mesh(radius: float) -> TriangleMesh:
    """A sphere centred at the origin."""
    return capsule_mesh(radius, 0.0)


def capsule_mesh(radius: float, half_length: float) -> TriangleMesh:
    """A capsule along z, with ``half_length`` [m] from its centre to the centre of an end."""
    angles = np.linspace(-0.5 * np.pi, 0.5 * np.pi, AROUND // 2 + 1)
    lower, upper = angles[angles < 1e-9], angles[angles > -1e-9]
    if half_length == 0.0:
        upper = upper[1:]
    rings = [(radius * np.cos(a), radius * np.sin(a) - half_length) for a in lower]
    rings += [(radius * np.cos(a), radius * np.sin(a) + half_length) for a in upper]
    return _revolve(rings)


def cylinder_mesh(radius: float, half_length: float) -> TriangleMesh:
    """A cylinder along z centred at the origin, with half its length ``half_length`` [m]."""
    low, high = -half_length, half_length
    parts = [
        [(0.0, low), (radius, low)],
        [(radius, low), (radius, high)],
        [(radius, high), (0.0, high)],
    ]
    return joined([_revolve(part) for part in parts])


def cone_mesh(radius: float, length: float) -> TriangleMesh:
    """A cone along z, with the base at the origin and the tip at ``length`` [m]."""
    return joined([_revolve([(0.0, 0.0), (radius, 0.0)]), _revolve([(radius, 0.0), (0.0, length)])])


def hull_mesh(points: npt.ArrayLike, radius: float = 0.0) -> TriangleMesh:
    """The convex hull of points [P, 3], or of spheres of this radius [m] around them; a box if it
    has no volume.
    """
    cloud = np.asarray(points, float)
    if radius > 0.0:
        ball = sphere_mesh(radius).vertices[::3]
        cloud = (cloud[:, None] + ball).reshape(-1, 3)
    triangles = hull_triangles(cloud)
    if triangles is None:
        low, high = cloud.min(axis=0), cloud.max(axis=0)
        flat = box_mesh(np.maximum(0.5 * (high - low), 1e-3))
        return TriangleMesh(flat.vertices + 0.5 * (low + high), flat.faces)
    return TriangleMesh(
        cloud[triangles].reshape(-1, 3), np.arange(triangles.size, dtype=np.uint32).reshape(-1, 3)
    )


def geometry_mesh(geometry: Geometry) -> TriangleMesh:
    """The surface of a shape in its own frame.

    Args:
      geometry: any :class:`artix.Geometry`.

    Returns:
      The mesh [m].

    Examples:
      >>> from artix.viewer import geometry_mesh
      >>> geometry_mesh(artix.Geometry.box((0.2, 0.1, 0.05))).faces.shape
      (12, 3)
    """
    if geometry.type is GeometryType.HULL:
        return hull_mesh(np.asarray(geometry.points), *geometry.size)
    if geometry.type is GeometryType.BOX:
        return box_mesh(geometry.size)
    if geometry.type is GeometryType.ELLIPSOID:
        return sphere_mesh(1.0).scaled(geometry.size)
    makers: dict[GeometryType, Callable[..., TriangleMesh]] = {
        GeometryType.SPHERE: sphere_mesh,
        GeometryType.CAPSULE: capsule_mesh,
        GeometryType.CYLINDER: cylinder_mesh,
    }
    return makers[geometry.type](*geometry.size)


def _revolve(profile: list[tuple[float, float]]) -> TriangleMesh:
    """The surface of revolution around z of a profile of (radius, z) points, from low to high."""
    angles = np.linspace(0.0, 2.0 * np.pi, AROUND, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vertices = list[np.ndarray]()
    rings = list[np.ndarray]()
    for radius, z in profile:
        count = 1 if radius < 1e-12 else AROUND
        first = sum(map(len, vertices))
        rings.append(np.resize(np.arange(first, first + count), AROUND))
        vertices.append(np.column_stack([radius * circle[:count], np.full(count, z)]))
    faces = list[np.ndarray]()
    for low, high in itertools.pairwise(rings):
        next_low, next_high = np.roll(low, -1), np.roll(high, -1)
        faces += [
            np.stack([low, next_low, next_high], axis=1),
            np.stack([low, next_high, high], axis=1),
        ]
    every = np.concatenate(faces)
    proper = (
        (every[:, 0] != every[:, 1]) & (every[:, 1] != every[:, 2]) & (every[:, 2] != every[:, 0])
    )
    return TriangleMesh(np.concatenate(vertices), every[proper])


# --- poses --------------------------------------------------------------------------------------


def rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Rotates vectors [..., 3] by unit quaternions xyzw [..., 4]; leading axes broadcast."""
    imaginary, real = quaternion[..., :3], quaternion[..., 3:]
    return vector + 2.0 * np.cross(imaginary, np.cross(imaginary, vector) + real * vector)


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The rotations ``b`` followed by ``a``, quaternions xyzw [..., 4]; leading axes broadcast."""
    vector = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + np.cross(a[..., :3], b[..., :3])
    real = a[..., 3:] * b[..., 3:] - np.sum(a[..., :3] * b[..., :3], axis=-1, keepdims=True)
    return np.concatenate([vector, real], axis=-1)


def compose(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Composes poses: ``inner`` [..., 7] in the frames ``outer`` [..., 7], expressed in the frames
    of ``outer``.
    """
    position = outer[..., :3] + rotate(outer[..., 3:], inner[..., :3])
    return np.concatenate([position, quaternion_product(outer[..., 3:], inner[..., 3:])], axis=-1)


def transform(pose: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Transforms points [..., 3] from the frames ``pose`` [..., 7] to their parent frames."""
    return pose[..., :3] + rotate(pose[..., 3:], point)


def quaternion_from_z_to(direction: np.ndarray) -> np.ndarray:
    """The shortest rotations, quaternions xyzw [..., 4], from z to nonzero directions [..., 3]."""
    unit = direction / np.linalg.norm(direction, axis=-1, keepdims=True)
    x, y, z = np.moveaxis(unit, -1, 0)
    opposite = z < -1.0 + 1e-12
    quaternion = np.stack(
        [np.where(opposite, 1.0, -y), np.where(opposite, 0.0, x), 0.0 * z, 1.0 + z], axis=-1
    )
    return quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)


# --- the ground ---------------------------------------------------------------------------------


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


def plane_mesh(
    plane: Plane, center: np.ndarray, half_width: float, tiles: int = 24
) -> TriangleMesh:
    """A square piece of a plane, centred at the point nearest to ``center`` [3], with ``tiles`` by
    ``tiles`` tiles.
    """
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
    return all(
        isinstance(one, Plane) and float(one.normal[2]) > 1.0 - 1e-9 for one in ground.surfaces
    )
