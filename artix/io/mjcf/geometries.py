"""Reads geoms of a compiled MJCF as shapes on links."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from artix.io.common.collision_meshes import MeshShape, mesh_shape, summarize_errors
from artix.io.common.diagnostics import Location
from artix.io.mjcf.bodies import pose_from_wxyz
from artix.io.mjcf.source import MjcfSource, import_mujoco
from artix.model.geometry import MAX_HULL_POINTS, SIZE_NUMBERS, Geometry, GeometryType

if TYPE_CHECKING:
    import mujoco

#: MuJoCo's types, except meshes, that artix has by the same names.
_TYPES = ("SPHERE", "CAPSULE", "BOX", "CYLINDER")


def geom_type(model: mujoco.MjModel, geom: int) -> str:
    """MuJoCo's name of a geom's type, such as ``"SPHERE"``."""
    return import_mujoco().mjtGeom(int(model.geom_type[geom])).name[7:]


def ground_geoms(model: mujoco.MjModel) -> list[int]:
    """The static planes and height fields, which make up the ground."""
    static = np.flatnonzero(np.asarray(model.body_weldid)[model.geom_bodyid] == 0).tolist()
    return [geom for geom in static if geom_type(model, geom) in ("PLANE", "HFIELD")]


def touching_geoms(model: mujoco.MjModel) -> dict[int, float]:
    """The geoms that may touch the ground, with their friction coefficients, which a ``<pair>`` overrides.

    As in MuJoCo, two geoms may touch if ``contype`` and ``conaffinity`` match or a ``<pair>`` names them. In a model
    without ground, these are all geoms that may touch anything.
    """
    ground = ground_geoms(model)
    pairs = {}
    for first, second, friction in zip(model.pair_geom1, model.pair_geom2, model.pair_friction, strict=True):
        for geom, other in ((int(first), int(second)), (int(second), int(first))):
            if geom_type(model, other) in ("PLANE", "HFIELD"):
                pairs[geom] = float(friction[0])
    touching = {}
    for geom in range(model.ngeom):
        if model.geom_bodyid[geom] == 0 or geom in ground:
            continue
        if geom in pairs:
            touching[geom] = pairs[geom]
        elif any(may_touch(model, geom, other) for other in ground) or (
            not ground and not pairs and _collides(model, geom)
        ):
            touching[geom] = float(model.geom_friction[geom, 0])
    return touching


def describe_geoms(
    source: MjcfSource, body: int, touching: dict[int, float], paired: dict[int, str]
) -> list[tuple[str | None, Geometry]]:
    """The shapes of a body in its frame, with their names, ``None`` for unnamed geoms.

    Args:
      source: the model.
      body: the body.
      touching: friction of the geoms that touch the ground.
      paired: names of the geoms that touch others of their articulation; those of them that do not touch the ground
        become sensors.
    """
    model, shapes = source.model, list[tuple[str | None, Geometry]]()
    first = int(model.body_geomadr[body])
    for geom in range(first, first + int(model.body_geomnum[body])):
        if geom not in touching and geom not in paired:
            continue
        found = _shape(source, geom, touching.get(geom, float(model.geom_friction[geom, 0])))
        if found is not None:
            name = paired.get(geom) or source.name("geom", geom) or None
            sensor = geom not in touching
            shapes.append((name, dataclasses.replace(found.geometry, sensor=True) if sensor else found.geometry))
    return shapes


def check_geoms(source: MjcfSource, bodies: list[int], touching: dict[int, float]) -> None:
    """Reports geoms that may touch the ground but are left out, one warning for each type, and replaced meshes."""
    model = source.model
    left: dict[str, list[int]] = {}
    errors: dict[str, float] = {}
    for geom in touching:
        if model.geom_bodyid[geom] not in bodies:
            continue
        found, name = _shape(source, geom, 0.0), source.name("body", int(model.geom_bodyid[geom]))
        if found is None:
            left.setdefault(geom_type(model, geom).lower(), []).append(geom)
        elif found.error:
            errors[name] = max(errors.get(name, 0.0), found.error)
    if source.meshes is not None:
        summarize_errors(source.report, Location("<worldbody>"), source.meshes, errors)
    for kind, geoms in left.items():
        named = ", ".join(sorted({source.name("body", int(model.geom_bodyid[geom])) for geom in geoms})[:10])
        message = f"{len(geoms)} geoms of type {kind} are left out and touch nothing (bodies {named})"
        fix = f"where contact matters, use a primitive, or a mesh of at most {MAX_HULL_POINTS} vertices"
        fix += ", or read them with meshes='hull' or 'capsule'" if kind == "mesh" else ""
        source.report.warning(Location("<worldbody>"), message, fix)


def _shape(source: MjcfSource, geom: int, friction: float) -> MeshShape | None:
    """The shape of a geom, with the error of a replaced mesh; ``None`` if artix has no such shape."""
    model = source.model
    pose = pose_from_wxyz(model.geom_pos[geom], model.geom_quat[geom])
    shape = primitive(model, geom, pose=pose, friction=friction)
    if shape is not None:
        return MeshShape(shape, 0.0)
    if geom_type(model, geom) != "MESH":
        return None
    mesh = int(model.geom_dataid[geom])
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    points = np.array(model.mesh_vert[first : first + count], float)
    if count <= MAX_HULL_POINTS:
        return MeshShape(Geometry.hull(points, pose=pose, friction=friction), 0.0)
    return None if source.meshes is None else mesh_shape(points, source.meshes, pose, friction=friction)


def primitive(model: mujoco.MjModel, geom: int, **options: Any) -> Geometry | None:
    """The shape of a geom that is neither a mesh nor of a type that artix lacks; else ``None``."""
    name = geom_type(model, geom)
    if name not in _TYPES:
        return None
    kind = GeometryType[name]
    return Geometry(type=kind, size=tuple(model.geom_size[geom, : SIZE_NUMBERS[kind]].tolist()), **options)


def may_touch(model: mujoco.MjModel, a: int, b: int) -> bool:
    """Whether the bit masks of two geoms let them touch."""
    types, affinities = model.geom_contype, model.geom_conaffinity
    return bool(types[a] & affinities[b] or types[b] & affinities[a])


def _collides(model: mujoco.MjModel, geom: int) -> bool:
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
