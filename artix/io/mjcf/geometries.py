"""Reads geoms of a compiled MJCF as shapes on links."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from artix.io.common.collision_meshes import MeshShape, mesh_shape, report_missing_meshes, summarize_errors
from artix.io.common.diagnostics import Location
from artix.io.common.names import listed
from artix.io.mjcf.bodies import geom_type, pose_from_wxyz
from artix.io.mjcf.source import MjcfSource
from artix.model.geometry import MAX_HULL_POINTS, SIZE_NUMBERS, Geometry, GeometryType

if TYPE_CHECKING:
    import mujoco

#: MuJoCo's types, except meshes, that artix has by the same names.
_TYPES = ("SPHERE", "CAPSULE", "BOX", "CYLINDER")


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


def check_geoms(source: MjcfSource, bodies: list[int], touching: Collection[int]) -> None:
    """Reports geoms that may touch the ground but are left out, and replaced meshes."""
    model, place = source.model, Location("<worldbody>")
    missing: dict[str, list[str]] = {}
    errors: dict[str, float] = {}
    others: list[str] = []
    for geom in touching:
        if model.geom_bodyid[geom] not in bodies:
            continue
        shape, name = _shape(source, geom, 0.0), source.names.bodies[model.geom_bodyid[geom]]
        if shape is None:
            missing.setdefault(geom_type(model, geom).lower(), []).append(name)
            continue
        others.append(name)
        if shape.error:
            errors[name] = max(errors.get(name, 0.0), shape.error)
    if source.meshes is not None:
        summarize_errors(source.report, place, source.meshes, errors)
    bare = [name for name in dict.fromkeys(missing.get("mesh", ())) if name not in others]
    if bare and others:
        report_missing_meshes(source.report, place, bare, list(dict.fromkeys(others)))
        del missing["mesh"]
    for kind, names in missing.items():
        which = listed(sorted({*names}))
        message = f"{len(names)} geoms of type {kind} are left out and touch nothing (bodies {which})"
        fix = f"where contact matters, use a primitive, or a mesh of at most {MAX_HULL_POINTS} vertices"
        fix += ", or read them with meshes='hull' or 'capsule'" if kind == "mesh" else ""
        source.report.warning(place, message, fix)


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
