"""The visuals of an articulation in a USD stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from artix.io.common.diagnostics import Report
from artix.io.usd.articulation import UsdArticulation, read_articulation
from artix.io.usd.colliders import read_shape
from artix.io.usd.joints import enclosing
from artix.io.usd.shapes import triangulate
from artix.io.usd.stage import UsdPrim, UsdScene, import_pxr, open_stage
from artix.viewer.meshes import TriangleMesh, geometry_mesh
from artix.viewer.visuals import Drawn

PRIMITIVES = ("Cube", "Sphere", "Capsule", "Cylinder", "Capsule_1", "Cylinder_1")


def usd_visuals(path: Path, root: str | None) -> list[Drawn]:
    """The visible meshes, cubes, spheres, capsules and cylinders of the bodies or, without any, their colliders.

    Args:
      path: the stage.
      root: path of the articulation root prim; ``None`` for the only one.

    Raises:
      DescriptionError: the stage cannot be opened, or has no such articulation.
      ModuleNotFoundError: ``usd-core`` is not installed.
    """
    report = Report(str(path))
    stage = open_stage(path, report)
    report.raise_errors()
    scene = UsdScene(stage, report)
    description = read_articulation(scene, root, None)
    report.raise_errors()
    assert description is not None  # Otherwise there are errors.
    visible = _drawn(description, only_visible=True)
    bare = {description.names[body] for body in description.tree.bodies} - {one.link for one in visible}
    return visible + [one for one in _drawn(description, only_visible=False) if one.link in bare]


def _drawn(description: UsdArticulation, *, only_visible: bool) -> list[Drawn]:
    scene, bodies = description.scene, dict.fromkeys(description.tree.bodies)
    drawn = list[Drawn]()
    for prim in scene.prims.values():
        body = enclosing(prim.path, bodies)
        kind = str(prim.prim.GetTypeName())
        if body is None or kind not in (*PRIMITIVES, "Mesh") or (only_visible and not _is_visible(prim)):
            continue
        name, trial = description.names[body], Report(scene.report.file)
        if kind == "Mesh":
            mesh = _mesh(prim, np.abs(scene.scale(prim.path)))
            if mesh is not None:
                pose = scene.relative_pose(prim.path, body)
                drawn.append(Drawn(name, mesh, pose, _color(prim), is_raw=True))
            continue
        shape = read_shape(scene, UsdPrim(prim.prim, trial), scene.prims[body])
        if shape is not None and not trial.num_errors:
            drawn.append(Drawn(name, geometry_mesh(shape), np.asarray(shape.pose), _color(prim)))
    return drawn


def _is_visible(prim: UsdPrim) -> bool:
    """Whether a prim is drawn: it is visible and not a guide shape for physics."""
    geom = import_pxr().UsdGeom
    imageable = geom.Imageable(prim.prim)
    purposes = (geom.Tokens.default_, geom.Tokens.render)
    return imageable.ComputeVisibility() != geom.Tokens.invisible and imageable.ComputePurpose() in purposes


def _mesh(prim: UsdPrim, scale: np.ndarray) -> TriangleMesh | None:
    points, counts, indices = (prim.read(name) for name in ("points", "faceVertexCounts", "faceVertexIndices"))
    if points is None or counts is None or indices is None:
        return None
    faces = triangulate(np.asarray(counts, int), np.asarray(indices, int))
    try:
        return TriangleMesh(np.asarray(points, float).reshape(-1, 3) * scale, faces) if len(faces) else None
    except ValueError:  # It refers to vertices that do not exist.
        return None


def _color(prim: UsdPrim) -> tuple[float, float, float] | None:
    """The colour of a prim: that of its material's surface, or its own ``displayColor``."""
    pxr = import_pxr()
    material, _ = pxr.UsdShade.MaterialBindingAPI(prim.prim).ComputeBoundMaterial()
    if material:
        shader = material.ComputeSurfaceSource()[0] or material.ComputeSurfaceSource("mdl")[0]
        for name in ("diffuseColor", "diffuse_color_constant"):
            value = shader.GetInput(name).Get() if shader and shader.GetInput(name) else None
            if value is not None:
                return _rgb(value)
    own = pxr.UsdGeom.Gprim(prim.prim).GetDisplayColorAttr().Get()
    return _rgb(own[0]) if own else None


def _rgb(value: Any) -> tuple[float, float, float]:
    red, green, blue = (min(max(float(part), 0.0), 1.0) for part in value)
    return red, green, blue
