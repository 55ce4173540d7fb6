"""Geoms of a compiled MJCF as shapes on links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from artix.io.mjcf.bodies import pose_from_wxyz
from artix.io.mjcf.source import MjcfPlace, MjcfSource, import_mujoco
from artix.model.geometry import MOST_HULL_POINTS, Geometry, GeometryType

if TYPE_CHECKING:
    import mujoco

#: From MuJoCo's types, but for meshes, to ours.
_TYPES = {
    "SPHERE": GeometryType.SPHERE,
    "CAPSULE": GeometryType.CAPSULE,
    "BOX": GeometryType.BOX,
    "CYLINDER": GeometryType.CYLINDER,
}
_NUM_SIZES = {GeometryType.SPHERE: 1, GeometryType.CAPSULE: 2, GeometryType.BOX: 3, GeometryType.CYLINDER: 2}


def geom_type(model: mujoco.MjModel, geom: int) -> str:
    """MuJoCo's name of a geom's type, such as ``"SPHERE"``."""
    return import_mujoco().mjtGeom(int(model.geom_type[geom])).name[7:]


def ground_geoms(model: mujoco.MjModel) -> list[int]:
    """The planes and height fields that do not move, which make up the ground."""
    static = np.flatnonzero(np.asarray(model.body_weldid)[model.geom_bodyid] == 0).tolist()
    return [geom for geom in static if geom_type(model, geom) in ("PLANE", "HFIELD")]


def touching_geoms(model: mujoco.MjModel) -> dict[int, float]:
    """The geoms that may touch the ground, with the friction of their own, which a ``<pair>`` overrides.

    As in MuJoCo, two geoms touch if ``contype`` and ``conaffinity`` say so, or a ``<pair>`` does. In a model without
    ground, every geom touches that may touch anything.
    """
    ground = ground_geoms(model)
    pairs = {}
    for one, two, friction in zip(model.pair_geom1, model.pair_geom2, model.pair_friction, strict=True):
        for ours, theirs in ((int(one), int(two)), (int(two), int(one))):
            if geom_type(model, theirs) in ("PLANE", "HFIELD"):
                pairs[ours] = float(friction[0])
    found = {}
    for geom in range(model.ngeom):
        if model.geom_bodyid[geom] == 0 or geom in ground:
            continue
        others = [ours for ours in ground if _may_touch(model, geom, ours)]
        if geom in pairs:
            found[geom] = pairs[geom]
        elif others or (not ground and not pairs and _collides(model, geom)):
            found[geom] = float(model.geom_friction[geom, 0])
    return found


def describe_geoms(source: MjcfSource, body: int, touching: dict[int, float]) -> list[tuple[str | None, Geometry]]:
    """The shapes of a body in its frame, with their names, ``None`` for geoms without one."""
    model, shapes = source.model, list[tuple[str | None, Geometry]]()
    first = int(model.body_geomadr[body])
    for geom in range(first, first + int(model.body_geomnum[body])):
        shape = _shape(model, geom, touching[geom]) if geom in touching else None
        if shape is not None:
            shapes.append((source.name("geom", geom) or None, shape))
    return shapes


def check_geoms(source: MjcfSource, bodies: list[int], touching: dict[int, float]) -> None:
    """Notes which geoms are left out though they touch, all of a type in one warning."""
    model = source.model
    left: dict[str, list[int]] = {}
    for geom in touching:
        if model.geom_bodyid[geom] in bodies and _shape(model, geom, 0.0) is None:
            left.setdefault(geom_type(model, geom).lower(), []).append(geom)
    for kind, geoms in left.items():
        named = ", ".join(sorted({source.name("body", int(model.geom_bodyid[geom])) for geom in geoms})[:10])
        message = f"{len(geoms)} geoms of type {kind} are left out and touch nothing (bodies {named})"
        fix = f"where contact matters, use a primitive, or a mesh of at most {MOST_HULL_POINTS} vertices"
        source.report.warning(MjcfPlace("<worldbody>"), message, fix)


def _shape(model: mujoco.MjModel, geom: int, friction: float) -> Geometry | None:
    """The shape of a geom; ``None`` for one that no articulation can hold."""
    pose = pose_from_wxyz(model.geom_pos[geom], model.geom_quat[geom])
    name = geom_type(model, geom)
    if name in _TYPES:
        kind = _TYPES[name]
        size = tuple(model.geom_size[geom, : _NUM_SIZES[kind]].tolist())
        return Geometry(type=kind, size=size, pose=pose, friction=friction)
    if name != "MESH":
        return None
    mesh = int(model.geom_dataid[geom])
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    if count > MOST_HULL_POINTS:
        return None
    return Geometry.hull(np.array(model.mesh_vert[first : first + count], float), pose=pose, friction=friction)


def _may_touch(model: mujoco.MjModel, one: int, two: int) -> bool:
    types, affinities = model.geom_contype, model.geom_conaffinity
    return bool(types[one] & affinities[two] or types[two] & affinities[one])


def _collides(model: mujoco.MjModel, geom: int) -> bool:
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
