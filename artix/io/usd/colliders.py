"""Reads colliders as shapes on links. Those that cannot be read only cause a warning: dynamics does
not need them.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from artix.io.common.diagnostics import Report
from artix.io.common.meshes import mesh_shape, summarize_errors
from artix.io.common.poses import (
    compose,
    rotation_pose,
    translation,
)
from artix.io.usd.contacts import material_of
from artix.io.usd.stage import UsdPrim, UsdScene
from artix.model.geometry import SMALL_MESH, Geometry, GeometryType

#: Schema of PhysX's triggers, shapes that report overlaps and exert no force: sensors.
TRIGGER_SCHEMA = "PhysxTriggerAPI"

#: Attributes of colliders that change contacts and are not read.
_IGNORED = {
    "restOffset": "surfaces rest on each other, without a distance",
    "torsionalPatchRadius": "contacts have no torsional friction",
    "minTorsionalPatchRadius": "contacts have no torsional friction",
}

_HALF = np.sqrt(0.5)
#: Rotations that take the z axis to the x and y axes, quaternions xyzw.
_Z_TO = (0.0, _HALF, 0.0, _HALF), (-_HALF, 0.0, 0.0, _HALF)


def collider_shapes(
    scene: UsdScene, body: UsdPrim, colliders: list[UsdPrim]
) -> list[tuple[UsdPrim, Geometry]]:
    """The shapes of a body in its frame, with their prims.

    Supported are cubes, spheres, capsules, cylinders, meshes whose ``physics:approximation`` is
    ``boundingCube`` or ``boundingSphere``, and meshes with at most 16 vertices; ``scene.meshes``
    chooses a replacement for larger ones. Friction is the material's dynamic friction.

    Args:
      scene: the stage; receives a warning for each collider that is left out.
      body: the prim of the body.
      colliders: the prims of its colliders.
    """
    shapes: list[tuple[UsdPrim, Geometry]] = []
    for collider in colliders:
        # A faulty collider is not a reason to refuse the articulation.
        trial = copy.copy(scene)
        trial.report = Report(scene.report.file)
        trial._transforms = {}
        shape = read_shape(trial, UsdPrim(collider.prim, trial.report), body)
        problem = trial.report.errors[0].message if trial.report.num_errors else None
        if shape is None or problem is not None:
            kind = str(collider.prim.GetTypeName()) or "no type"
            message = problem or f"a collider of type {kind} is not supported"
            fix = (
                "where contact matters, use a Cube, Sphere, Capsule, Cylinder, or a Mesh of "
                f"{SMALL_MESH} points"
            )
            fix += ", or read it with meshes='hull' or 'capsule'" if kind == "Mesh" else ""
            # There are many meshes, and whether they matter depends on the robot: the links have a
            # warning together.
            tell = scene.report.note if problem is None and kind == "Mesh" else scene.report.changed
            tell(collider, f"touches nothing: {message}", fix)
            continue
        scene.report.include(trial.report)
        shapes.append((collider, shape))
    return shapes


def read_shape(scene: UsdScene, collider: UsdPrim, body: UsdPrim) -> Geometry | None:
    """The shape of a collider in the body's frame; ``None`` if it is not supported."""
    pose = scene.relative_pose(collider.path, body.path)
    scale = np.abs(scene.scale(collider.path))
    kind = str(collider.prim.GetTypeName())
    material: dict[str, Any] = {
        **material_of(scene, collider),
        "sensor": collider.has(TRIGGER_SCHEMA),
    }
    # Against a ground of MuJoCo's default condim 3, a shape of condim 1 has its friction.
    if collider.has("MjcCollisionAPI") and collider.read_number("mjc:condim", 3.0) > 3.0:
        collider.left_out(
            "mjc:condim", "contacts have no torsional and rolling friction", "use condim 3"
        )
    for name, message in _IGNORED.items():
        value = collider.read(f"physxCollision:{name}")
        if isinstance(value, float) and np.isfinite(value) and value != 0.0:
            collider.left_out(
                f"physxCollision:{name}", message, "set it to 0, if it does not matter"
            )
    if kind == "Mesh":
        return _mesh_shape(scene, collider, scale, pose, material)
    if kind == "Cube":
        return Geometry.box(
            (0.5 * length_of(collider, "size", 2.0) * scale).tolist(), pose=pose, **material
        )
    if kind == "Sphere":
        radius = length_of(collider, "radius", 1.0) * float(scale.max())
        return Geometry(type=GeometryType.SPHERE, size=(radius,), pose=pose, **material)
    size = axial_size(collider, scale)
    if size is None or kind == "Cone":
        return None
    if size.radii[0] != size.radii[1]:
        collider.error("radiusTop", "its ends have different radii", "give both the same radius")
        return None
    along_axis = pose if size.axis == 2 else compose(pose, rotation_pose(_Z_TO[size.axis]))
    make = Geometry.capsule if size.is_capsule else Geometry.cylinder
    return make(size.radii[0], 0.5 * size.height, pose=along_axis, **material)


class AxialSize(NamedTuple):
    """The size of a capsule, cylinder or cone.

    Attributes:
      is_capsule: whether it is a capsule.
      axis: the coordinate axis, 0 to 2.
      radii: radii at the lower and at the upper end of the axis [m].
      height: length without the caps of a capsule [m].
    """

    is_capsule: bool
    axis: int
    radii: tuple[float, float]
    height: float


#: Defaults of radius and height, and the names of the radii at the lower and at the upper end; a
#: cone has none there.
_AXIAL: dict[str, tuple[float, float, str, str | None]] = {
    "Capsule": (0.5, 1.0, "radius", "radius"),
    "Capsule_1": (0.5, 1.0, "radiusBottom", "radiusTop"),
    "Cylinder": (1.0, 2.0, "radius", "radius"),
    "Cylinder_1": (1.0, 2.0, "radiusBottom", "radiusTop"),
    "Cone": (1.0, 2.0, "radius", None),
}


def axial_size(collider: UsdPrim, scale: np.ndarray, low: float = 0.0) -> AxialSize | None:
    """The size of a capsule, cylinder or cone, ``None`` for other types; lengths below ``low`` are
    mistakes.
    """
    kind = str(collider.prim.GetTypeName())
    if kind not in _AXIAL:
        return None
    radius, height, *names = _AXIAL[kind]
    axis = "XYZ".index(collider.read_token("axis", "Z", ("X", "Y", "Z")))
    across = float(np.delete(scale, axis).max())
    bottom, top = (
        0.0 if name is None else across * length_of(collider, name, radius, low) for name in names
    )
    height = length_of(collider, "height", height, low) * float(scale[axis])
    return AxialSize(kind.startswith("Capsule"), axis, (bottom, top), height)


def length_of(collider: UsdPrim, name: str, fallback: float, low: float = 0.0) -> float:
    """A length of a shape, without the scale of its prim."""
    return collider.read_number(name, fallback, low=low, high=1e12)


def _mesh_shape(
    scene: UsdScene,
    collider: UsdPrim,
    scale: np.ndarray,
    pose: np.ndarray,
    material: dict[str, Any],
) -> Geometry | None:
    value = collider.read("points")
    points = np.array([] if value is None else value, float).reshape(-1, 3) * scale
    if not len(points) or not np.isfinite(points).all():
        return None
    low, high = points.min(axis=0), points.max(axis=0)
    center = compose(pose, translation(0.5 * (low + high)))
    approximation = collider.read_token("physics:approximation", "none")
    if approximation == "boundingCube":
        return Geometry.box((0.5 * (high - low)).tolist(), pose=center, **material)
    if approximation == "boundingSphere":
        radius = float(np.linalg.norm(points - 0.5 * (low + high), axis=1).max())
        return Geometry(type=GeometryType.SPHERE, size=(radius,), pose=center, **material)
    # Exporters repeat a vertex for each of its normals.
    _, first = np.unique(points, axis=0, return_index=True)
    if len(first) <= SMALL_MESH:
        return Geometry.hull(points[np.sort(first)], pose=pose, **material)
    if scene.meshes is None:
        return None
    replacement = mesh_shape(points[np.sort(first)], scene.meshes, pose, **material)
    summarize_errors(scene.report, collider, scene.meshes, {collider.name: replacement.error})
    return replacement.geometry
