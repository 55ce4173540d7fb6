"""Reads mass properties of a rigid body from its ``PhysicsMassAPI``; missing ones follow from its colliders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from artix.io.common.poses import IDENTITY, combine_inertias, compose, translation
from artix.io.usd import shapes
from artix.io.usd.colliders import axial_size, length_of, physics_material
from artix.io.usd.stage import UsdPrim, UsdScene

#: Density if none is authored [kg/m^3], as UsdPhysics specifies.
DEFAULT_DENSITY = 1000.0

#: Key of a prim's custom data by which ``save_usd`` marks a body's zero mass or moments of inertia as intended. In
#: USD's own attributes, zero means that the value is to be computed.
ZERO_KEY = "artix:zero"

#: PhysX gives a body without colliders the inertia of a ball of this radius [m].
PHYSX_RADIUS = 0.1

#: Smaller lengths of a shape that adds mass are mistakes.
_LEAST = 1e-12


class MassProperties(NamedTuple):
    """Mass properties of a body.

    Attributes:
      mass: mass [kg].
      com_pose: mass frame in the body's frame, shape [7].
      inertia: inertia about the origin of the mass frame, in its axes [kg m^2], shape [3, 3].
    """

    mass: float
    com_pose: np.ndarray
    inertia: np.ndarray


def mass_properties(scene: UsdScene, body: UsdPrim, colliders: list[UsdPrim]) -> MassProperties:
    """Reads the mass properties of a body.

    Authored quantities are used as given. The others follow from the colliders: the mass of each is its own, or its
    volume times the first authored density out of its own ``PhysicsMassAPI``, the body's and its material's, or
    1000 kg/m^3. An authored mass scales the inertia of the colliders. An authored inertia without
    ``physics:principalAxes`` is in the body's axes.

    Args:
      scene: the stage.
      body: the prim of the body.
      colliders: the prims of its colliders.
    """
    unit = scene.units
    mass = body.read_number("physics:mass", low=0.0) * unit.mass
    center = body.read_array("physics:centerOfMass", 3, infinite=True)
    diagonal = body.read_array("physics:diagonalInertia", 3)
    axes = body.read_quaternion("physics:principalAxes")
    center = None if center is None or not np.isfinite(center).all() else scene.point(body.path, center)
    if body.prim.GetCustomDataByKey(ZERO_KEY) is True:
        position = np.zeros(3) if center is None else center
        rotation = IDENTITY[3:] if axes is None else axes
        inertia = np.diag(np.zeros(3) if diagonal is None else diagonal) * unit.inertia
        return MassProperties(mass, np.concatenate([position, rotation]), inertia)
    if diagonal is not None and not np.any(diagonal):
        diagonal = None
    full_inertia = _newton_inertia(body)
    density = body.read_number("physics:density", low=0.0)
    if mass == 0.0 or (diagonal is None and full_inertia is None) or (center is None and colliders):
        computed = _from_colliders(scene, body, colliders, density)
    else:
        computed = MassProperties(0.0, IDENTITY, np.zeros((3, 3)))
    if mass == 0.0:
        mass = computed.mass or _assumed_mass(body)
    position = computed.com_pose[:3] if center is None else center
    if full_inertia is not None:
        return MassProperties(mass, translation(position), full_inertia * unit.inertia)
    if diagonal is not None:
        rotation = IDENTITY[3:] if axes is None else axes
        return MassProperties(mass, np.concatenate([position, rotation]), np.diag(diagonal) * unit.inertia)
    if axes is not None:
        body.left_out(
            "physics:principalAxes", "there is no physics:diagonalInertia in these axes", "author both or neither"
        )
    if computed.mass > 0.0:
        inertia, rotation = computed.inertia * (mass / computed.mass), computed.com_pose[3:]
    else:
        inertia, rotation = _assumed_inertia(body, mass), IDENTITY[3:]
    return MassProperties(mass, np.concatenate([position, rotation]), inertia)


def _newton_inertia(body: UsdPrim) -> np.ndarray | None:
    """The full inertia of ``NewtonMassAPI`` in the body's axes, which replaces the principal one, or ``None``."""
    value = body.read("newton:inertia") if body.has("NewtonMassAPI") else None
    if value is None or len(np.atleast_1d(value)) == 0:
        return None
    numbers = body.read_array("newton:inertia", 6)
    if numbers is None:
        return None
    xx, yy, zz, xy, xz, yz = numbers
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _assumed_mass(body: UsdPrim) -> float:
    body.left_out("physics:mass", "the body has neither mass nor colliders; assumed 1 kg, as PhysX does", "author it")
    return 1.0


def _assumed_inertia(body: UsdPrim, mass: float) -> np.ndarray:
    message = f"the body has neither inertia nor colliders; assumed a ball of {PHYSX_RADIUS} m, as PhysX does"
    body.left_out("physics:diagonalInertia", message, "author it")
    return 0.4 * mass * PHYSX_RADIUS**2 * np.eye(3)


def _from_colliders(scene: UsdScene, body: UsdPrim, colliders: list[UsdPrim], density: float) -> MassProperties:
    """The combined mass properties of the colliders."""
    parts = []
    for collider in colliders:
        solid = _solid(scene, collider)
        if solid is None:
            continue
        has_own_mass = collider.path != body.path  # On the body's prim, physics:mass is the mass of the body.
        mass = collider.read_number("physics:mass", low=0.0) * scene.units.mass if has_own_mass else 0.0
        if mass == 0.0:
            mass = solid.volume * _density(scene, collider, density)
        pose = scene.relative_pose(collider.path, body.path)
        frame = compose(pose, translation(solid.center))
        parts.append((mass, frame, solid.inertia * (mass / solid.volume)))
    return MassProperties(*combine_inertias(parts))


def _density(scene: UsdScene, collider: UsdPrim, body_density: float) -> float:
    """Density of a collider [kg/m^3]."""
    density = collider.read_number("physics:density", low=0.0) or body_density
    material = physics_material(scene, collider) if density == 0.0 else None
    if material is not None:
        density = material.read_number("physics:density", low=0.0)
    return density * scene.units.mass / scene.units.length**3 if density else DEFAULT_DENSITY


def _solid(scene: UsdScene, collider: UsdPrim) -> shapes.Solid | None:
    """The solid of a collider in the frame of its pose [m]; reports a collider without volume and returns ``None``."""
    scale = np.abs(scene.scale(collider.path))
    kind = str(collider.prim.GetTypeName())
    if kind == "Mesh":
        return _mesh(scene, collider)
    if kind == "Cube":
        return shapes.box(length_of(collider, "size", 2.0, _LEAST) * scale)
    if kind == "Sphere":
        return shapes.sphere(length_of(collider, "radius", 1.0, _LEAST) * float(scale.max()))
    if kind in ("Capsule", "Cylinder", "Cone"):
        axis, radius, height = axial_size(collider, scale, _LEAST)
        make = {"Capsule": shapes.capsule, "Cylinder": shapes.cylinder, "Cone": shapes.cone}[kind]
        return make(radius, height, axis)
    message = f"a collider of type {kind or 'none'!r} does not add mass"
    scene.report.left_out(collider, message, "use a Cube, Sphere, Capsule, Cylinder, Cone or Mesh, or author the mass")
    return None


def _mesh(scene: UsdScene, collider: UsdPrim) -> shapes.Solid | None:
    """The solid of a mesh with its ``physics:approximation``; the convex hull if its surface is open."""
    approximation = collider.read_token("physics:approximation", "none")
    points = _array(collider, "points", float).reshape(-1, 3)
    counts, indices = (_array(collider, name, int).ravel() for name in ("faceVertexCounts", "faceVertexIndices"))
    valid = len(points) and np.isfinite(points).all() and counts.sum() == len(indices) and (counts >= 0).all()
    if not valid or (len(indices) and not 0 <= indices.min() <= indices.max() < len(points)):
        scene.report.error(collider, "the mesh has no valid points and faces", "correct points and faceVertex*")
        return None
    # Exporters repeat a vertex for each of its normals; welding them closes the surface again.
    points, weld = np.unique(points * scene.scale(collider.path), axis=0, return_inverse=True)
    low, high = points.min(axis=0), points.max(axis=0)
    solid: shapes.Solid | None
    if approximation == "boundingCube":
        solid = shapes.box(high - low)._replace(center=(low + high) / 2.0)
    elif approximation == "boundingSphere":
        center = (low + high) / 2.0
        radius = float(np.linalg.norm(points - center, axis=1).max())
        solid = shapes.sphere(radius)._replace(center=center)
    elif approximation == "convexHull":
        solid = shapes.convex_hull(points)
    else:
        triangles = shapes.triangulate(counts, weld.ravel()[indices])
        solid = shapes.polyhedron(points, triangles) or shapes.convex_hull(points)
    if solid is None or not solid.volume > 0.0:
        scene.report.left_out(collider, "the mesh has no volume and does not add mass", "author the mass of the body")
        return None
    return solid


def _array(collider: UsdPrim, name: str, dtype: type) -> np.ndarray:
    value = collider.read(name)
    try:
        return np.array([] if value is None else value, dtype)
    except (TypeError, ValueError):
        return np.array([], dtype)
