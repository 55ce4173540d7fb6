"""Mass properties of bodies by the rules of UsdPhysics: authored, or those of their colliders.

The rules follow ``UsdPhysics.RigidBodyAPI.ComputeMassProperties``. We do not call it: it computes
in float32, takes moments of inertia below 1e-5 for missing, and leaves the axes of a body without
``physics:principalAxes`` uninitialized where it needs no collider. There we do what the schema says
and PhysX's own reader does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from artix.io.common.poses import (
    IDENTITY,
    combine_inertias,
    compose,
    point_inertia,
    quaternion_from_matrix,
    rotation_matrix,
    translation,
)
from artix.io.usd.colliders import axial_size, length_of
from artix.io.usd.contacts import physics_material
from artix.io.usd.stage import UsdPrim, UsdScene

#: Density if none is authored [kg/m^3], as UsdPhysics specifies.
DEFAULT_DENSITY = 1000.0

#: Key of a prim's custom data by which ``save_usd`` marks a body's zero mass or moments of inertia
#: as intended. In USD's own attributes, zero means that the value is to be computed.
ZERO_KEY = "artix:zero"

#: PhysX gives a body without colliders the inertia of a ball of this radius [m].
PHYSX_RADIUS = 0.1

#: Smaller lengths of a shape that adds mass are mistakes.
_LEAST = 1e-12

_SCHEMA = "PhysicsMassAPI"
_NAMES = ("mass", "density", "centerOfMass", "diagonalInertia", "principalAxes")


class MassProperties(NamedTuple):
    """Mass properties of a body or of a collider.

    Attributes:
      mass: mass [kg].
      com_pose: mass frame in the frame of the prim, shape [7].
      inertia: inertia about the origin of the mass frame, in its axes [kg m^2], shape [3, 3].
    """

    mass: float
    com_pose: np.ndarray
    inertia: np.ndarray

    def moved_to(self, center: np.ndarray) -> MassProperties:
        """The same mass about another centre: the inertia grows by the parallel axis theorem."""
        turn = rotation_matrix(self.com_pose[3:])
        arm = turn.T @ (center - self.com_pose[:3])
        pose = np.concatenate([center, self.com_pose[3:]])
        return MassProperties(self.mass, pose, self.inertia + point_inertia(self.mass, arm))

    def scaled_to(self, mass: float) -> MassProperties:
        """The same distribution of another mass."""
        return self._replace(mass=mass, inertia=self.inertia * (mass / self.mass))

    @property
    def turned_inertia(self) -> np.ndarray:
        """The inertia in the axes of the prim, shape [3, 3]."""
        turn = rotation_matrix(self.com_pose[3:])
        return turn @ self.inertia @ turn.T


class _Authored(NamedTuple):
    """The attributes of a ``PhysicsMassAPI`` in SI units; zero or ``None`` where nothing is
    authored.

    Attributes:
      mass: mass [kg].
      density: density [kg/m^3].
      center: centre of mass in the frame of the prim [m], shape [3].
      moments: principal moments of inertia [kg m^2], shape [3].
      axes: orientation of the principal axes, quaternion xyzw.
    """

    mass: float = 0.0
    density: float = 0.0
    center: np.ndarray | None = None
    moments: np.ndarray | None = None
    axes: np.ndarray | None = None


def mass_properties(scene: UsdScene, body: UsdPrim, colliders: list[UsdPrim]) -> MassProperties:
    """The mass properties of a body.

    Mass, centre and inertia come from the body's ``PhysicsMassAPI``. Where one is missing, it
    follows from the colliders, whose sum is scaled to the authored mass and moved to the authored
    centre, and so are principal axes without moments, or moments without axes. ``newton:inertia``
    replaces moments and axes.

    Args:
      scene: the stage.
      body: the prim of the body.
      colliders: the prims of its colliders.
    """
    authored = _read_mass_schema(scene, body)
    if body.prim.GetCustomDataByKey(ZERO_KEY) is True:
        return _as_authored(authored)
    full_inertia = _newton_inertia(scene, body)
    if (
        authored.mass
        and authored.center is not None
        and (authored.moments is not None or full_inertia is not None)
    ):
        total = None
    else:
        total = _from_colliders(scene, body, colliders, authored.density)
    mass = authored.mass or (total.mass if total else _assumed_mass(body))
    if total is not None:
        total = total.scaled_to(mass)
        total = total if authored.center is None else total.moved_to(authored.center)
    center = (
        total.com_pose[:3] if total else np.zeros(3) if authored.center is None else authored.center
    )
    if full_inertia is not None:
        return MassProperties(mass, translation(center), full_inertia)
    if authored.moments is None and total is None:
        return MassProperties(mass, translation(center), _assumed_inertia(body, mass))
    if total is not None and authored.moments is None and authored.axes is None:
        return total
    return _pair_with_colliders(body, authored, mass, center, total)


def _as_authored(authored: _Authored) -> MassProperties:
    """What is authored, whether zero or not."""
    position = np.zeros(3) if authored.center is None else authored.center
    rotation = IDENTITY[3:] if authored.axes is None else authored.axes
    moments = np.zeros(3) if authored.moments is None else authored.moments
    return MassProperties(authored.mass, np.concatenate([position, rotation]), np.diag(moments))


def _pair_with_colliders(
    prim: UsdPrim,
    authored: _Authored,
    mass: float,
    center: np.ndarray,
    total: MassProperties | None,
) -> MassProperties:
    """Authored moments or axes; the colliders give the other."""
    moments, axes = authored.moments, authored.axes
    if total is not None and (moments is None or axes is None):
        tensor = total.turned_inertia
        turn = _nearest_principal_axes(tensor)
        if moments is None:
            moments = np.diag(turn.T @ tensor @ turn)
            message = (
                "there is no physics:diagonalInertia in these axes; the moments of the colliders "
                "are used"
            )
            prim.left_out("physics:principalAxes", message, "author both or neither")
        elif not np.array_equal(turn, np.eye(3)):
            axes = quaternion_from_matrix(turn)
            message = (
                "there are no physics:principalAxes; the axes of the colliders' inertia are used, "
                "as in PhysX"
            )
            prim.left_out("physics:diagonalInertia", message, "author both or neither")
    assert moments is not None
    rotation = IDENTITY[3:] if axes is None else axes
    return MassProperties(mass, np.concatenate([center, rotation]), np.diag(moments))


def _nearest_principal_axes(inertia: np.ndarray) -> np.ndarray:
    """The principal axes of an inertia that are paired with authored moments, as the columns of a
    rotation matrix.

    Jacobi's classical method, with the order and the signs of UsdPhysics and PhysX: they decide
    which axis comes first.
    """
    turn = np.eye(3)
    for _ in range(50):
        turned = turn.T @ inertia @ turn
        sizes = np.abs([turned[1, 2], turned[2, 0], turned[0, 1]])
        axis = 0 if sizes[0] > max(sizes[1:]) else 1 if sizes[1] > sizes[2] else 2
        if sizes[axis] <= 1e-12 * np.abs(np.diag(turned)).max():
            break  # What remains is rounding.
        first, second = (axis + 1) % 3, (axis + 2) % 3
        cotangent = (turned[first, first] - turned[second, second]) / (2.0 * turned[first, second])
        angle = 0.5 * np.arctan(1.0 / cotangent) if cotangent else 0.25 * np.pi
        half = np.append(np.sin(0.5 * angle) * np.eye(3)[axis], np.cos(0.5 * angle))
        turn = turn @ rotation_matrix(half)
    return turn


def _read_mass_schema(scene: UsdScene, prim: UsdPrim) -> _Authored:
    """Reads the ``PhysicsMassAPI`` of a prim; its attributes have no meaning where it is not
    applied.
    """
    if not prim.has(_SCHEMA):
        for name in _NAMES:
            if prim.read(f"physics:{name}") is not None:
                prim.left_out(
                    f"physics:{name}", f"the {_SCHEMA} is not applied", f"apply the {_SCHEMA}"
                )
        return _Authored()
    unit = scene.units
    center = prim.read_array("physics:centerOfMass", 3, infinite=True)
    moments = prim.read_array("physics:diagonalInertia", 3)
    return _Authored(
        mass=prim.read_number("physics:mass", low=0.0) * unit.mass,
        density=_read_density(scene, prim),
        center=None
        if center is None or not np.isfinite(center).all()
        else scene.point(prim.path, center),
        moments=None if moments is None or not np.any(moments) else moments * unit.inertia,
        axes=prim.read_quaternion("physics:principalAxes"),
    )


def _read_density(scene: UsdScene, prim: UsdPrim) -> float:
    return prim.read_number("physics:density", low=0.0) * scene.units.mass / scene.units.length**3


def _newton_inertia(scene: UsdScene, body: UsdPrim) -> np.ndarray | None:
    """The full inertia of ``NewtonMassAPI`` in the body's axes [kg m^2], or ``None``."""
    value = body.read("newton:inertia") if body.has("NewtonMassAPI") else None
    if value is None or len(np.atleast_1d(value)) == 0:
        return None
    numbers = body.read_array("newton:inertia", 6)
    if numbers is None:
        return None
    xx, yy, zz, xy, xz, yz = numbers * scene.units.inertia
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _assumed_mass(body: UsdPrim) -> float:
    body.left_out(
        "physics:mass",
        "the body has neither mass nor colliders; assumed 1 kg, as PhysX does",
        "author it",
    )
    return 1.0


def _assumed_inertia(body: UsdPrim, mass: float) -> np.ndarray:
    message = (
        f"the body has neither inertia nor colliders; assumed a ball of {PHYSX_RADIUS} m, as "
        "PhysX does"
    )
    body.left_out("physics:diagonalInertia", message, "author it")
    return 0.4 * mass * PHYSX_RADIUS**2 * np.eye(3)


def _from_colliders(
    scene: UsdScene, body: UsdPrim, colliders: list[UsdPrim], density: float
) -> MassProperties | None:
    """The mass properties of all colliders together in the body's frame; ``None`` if they have no
    mass.
    """
    parts = []
    for collider in colliders:
        part = _collider_mass(scene, collider, density)
        if part is not None:
            pose = compose(scene.relative_pose(collider.path, body.path), part.com_pose)
            parts.append((part.mass, pose, part.inertia))
    total = MassProperties(*combine_inertias(parts))
    return total if total.mass > 0.0 else None


def _collider_mass(
    scene: UsdScene, collider: UsdPrim, body_density: float
) -> MassProperties | None:
    """The mass properties of a collider in its frame; ``None`` if it has no volume.

    Its mass is authored, or its volume times the first density authored in its own
    ``PhysicsMassAPI``, the body's, or its material, or 1000 kg/m^3.
    """
    solid = _solid(scene, collider)
    if solid is None:
        return None
    authored = _read_mass_schema(scene, collider)
    shell = (
        collider.read_bool("mjc:shellinertia", False)
        or collider.read_token("mjc:inertia", "") == "shell"
    )
    if shell or collider.read_token("newton:massModel", "solid") == "shell":
        scene.left_out(
            collider, "its mass is that of a solid, not of a shell", "author mass and inertia"
        )
    mass = authored.mass or solid.volume * (
        authored.density or body_density or _material_density(scene, collider)
    )
    shape = MassProperties(mass, translation(solid.center), solid.inertia * (mass / solid.volume))
    axes = IDENTITY[3:] if authored.axes is None else authored.axes
    if authored.moments is not None:
        center = solid.center if authored.center is None else authored.center
        return MassProperties(mass, np.concatenate([center, axes]), np.diag(authored.moments))
    # Axes without moments turn the inertia of the shape.
    shape = shape._replace(inertia=rotation_matrix(axes) @ shape.inertia @ rotation_matrix(axes).T)
    return shape if authored.center is None else shape.moved_to(authored.center)


def _material_density(scene: UsdScene, collider: UsdPrim) -> float:
    """Density of a collider by its material [kg/m^3]."""
    material = physics_material(scene, collider)
    return (_read_density(scene, material) if material is not None else 0.0) or DEFAULT_DENSITY


def _solid(scene: UsdScene, collider: UsdPrim) -> Solid | None:
    """The solid of a collider in the frame of its pose [m]; reports a collider without volume and
    returns ``None``.
    """
    scale = np.abs(scene.scale(collider.path))
    kind = str(collider.prim.GetTypeName())
    if kind == "Mesh":
        return _mesh_solid(scene, collider)
    if kind == "Cube":
        return box(length_of(collider, "size", 2.0, _LEAST) * scale)
    if kind == "Sphere":
        return sphere(length_of(collider, "radius", 1.0, _LEAST) * float(scale.max()))
    size = axial_size(collider, scale, _LEAST)
    if size is not None:
        make = capsule if size.is_capsule else cylinder
        return make(size.radii, size.height, size.axis)
    message = f"a collider of type {kind or 'none'!r} does not add mass"
    fix = "use a Cube, Sphere, Capsule, Cylinder, Cone or Mesh, or author the mass"
    scene.left_out(collider, message, fix)
    return None


def _mesh_solid(scene: UsdScene, collider: UsdPrim) -> Solid | None:
    """The solid of a mesh with its ``physics:approximation``; the convex hull if its surface is
    open.
    """
    approximation = collider.read_token("physics:approximation", "none")
    points = _array(collider, "points", float).reshape(-1, 3)
    counts, indices = (
        _array(collider, name, int).ravel() for name in ("faceVertexCounts", "faceVertexIndices")
    )
    valid = (
        len(points)
        and np.isfinite(points).all()
        and counts.sum() == len(indices)
        and (counts >= 0).all()
    )
    if not valid or (len(indices) and not 0 <= indices.min() <= indices.max() < len(points)):
        scene.report.error(
            collider, "the mesh has no valid points and faces", "correct points and faceVertex*"
        )
        return None
    # Exporters repeat a vertex for each of its normals; welding them closes the surface again.
    points, weld = np.unique(points * scene.scale(collider.path), axis=0, return_inverse=True)
    low, high = points.min(axis=0), points.max(axis=0)
    solid: Solid | None
    if approximation == "boundingCube":
        solid = box(high - low)._replace(center=(low + high) / 2.0)
    elif approximation == "boundingSphere":
        center = (low + high) / 2.0
        radius = float(np.linalg.norm(points - center, axis=1).max())
        solid = sphere(radius)._replace(center=center)
    elif approximation == "convexHull":
        solid = convex_hull(points)
    else:
        triangles = triangulate(counts, weld.ravel()[indices])
        solid = polyhedron(points, triangles) or convex_hull(points)
    if solid is None or not solid.volume > 0.0:
        scene.left_out(
            collider, "the mesh has no volume and does not add mass", "author the mass of the body"
        )
        return None
    return solid


def _array(collider: UsdPrim, name: str, dtype: type) -> np.ndarray:
    value = collider.read(name)
    try:
        return np.array([] if value is None else value, dtype)
    except (TypeError, ValueError):
        return np.array([], dtype)


# --- volume, centre and inertia of collision shapes ---------------------------------------------


class Solid(NamedTuple):
    """A solid of unit density: volume [m^3], centre [m], shape [3], inertia about the centre [m^5],
    shape [3, 3].
    """

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
    """A cylinder centred at the origin, along a coordinate axis; a cone or its frustum if its radii
    differ.

    Args:
      radii: radii at the lower and at the upper end of the axis [m].
      height: length [m].
      axis: the coordinate axis, 0 to 2.
    """
    return _revolution([_cone_piece(radii, (-0.5 * height, 0.5 * height))], axis)


def capsule(radii: tuple[float, float], height: float, axis: int) -> Solid:
    """The convex hull of two balls whose centres are ``height`` apart, centred at the origin, along
    a coordinate axis.

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
    """A piece of a solid of revolution: its ends on the axis, and the squared radius as a quadratic
    function.
    """

    low: float
    high: float
    squared_radius: Callable[[np.ndarray], np.ndarray]


def _cone_piece(radii: tuple[float, float], ends: tuple[float, float]) -> _Piece:
    """A frustum of a cone between two ends."""
    return _Piece(*ends, lambda z: np.interp(z, ends, radii) ** 2)


def _revolution(pieces: list[_Piece], axis: int) -> Solid:
    """A solid of revolution about a coordinate axis.

    The moments of a disc are polynomials of at most fourth degree, which three Gauss points
    integrate exactly.
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
    second = np.einsum("t,tki,tkj->ij", volumes, corners, corners) + np.einsum(
        "t,ti,tj->ij", volumes, sums, sums
    )
    second = second / 20.0 - total * np.outer(center, center)
    inertia = np.trace(second) * np.eye(3) - second
    sign = np.sign(total)
    return Solid(abs(total), origin + center, sign * 0.5 * (inertia + inertia.T))


def convex_hull(points: np.ndarray) -> Solid | None:
    """The convex hull of points [n, 3]; ``None`` if they lie in a plane."""
    triangles = hull_triangles(points)
    return None if triangles is None else polyhedron(points, triangles)


def hull_triangles(points: np.ndarray) -> np.ndarray | None:
    """The convex hull of points [n, 3] as triangles [m, 3], counter-clockwise from outside;
    ``None`` if flat.
    """
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
    """Splits polygons, given by their corner counts and vertex indices, into fans of triangles
    [m, 3].
    """
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
