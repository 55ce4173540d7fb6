"""Reads mesh files with trimesh, and simplifies large ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from artix.io.common.meshes import read_meshes
from artix.viewer.meshes import TriangleMesh

Part = tuple[TriangleMesh, tuple[float, float, float] | None]


def import_trimesh() -> Any:
    """Imports the package ``trimesh``.

    Raises:
      ImportError: it is not installed; the message names the extra that brings it.
    """
    try:
        import trimesh
    except ImportError as error:
        raise ImportError("reading mesh files needs trimesh: pip install 'artix[viewer]'") from error
    return trimesh


def read_mesh_file(path: Path) -> list[Part]:
    """Reads the surfaces of a file, with their colours or ``None``.

    Raises:
      ImportError: trimesh, or a package that it needs for this format, is not installed.
      ValueError: the file cannot be read, or a vertex is not finite.
    """
    trimesh = import_trimesh()
    parts = [_part(one) for one in read_meshes(path, "viewer") if isinstance(one, trimesh.Trimesh) and len(one.faces)]
    if not parts:
        raise ValueError(f"{path}: contains no triangles")
    return parts


def _part(mesh: Any) -> Part:
    return TriangleMesh(np.asarray(mesh.vertices), np.asarray(mesh.faces)), _color(mesh.visual)


def _color(visual: Any) -> tuple[float, float, float] | None:
    """One colour for a surface: that of its material, the mean of its texture, or that of most of its faces."""
    if not visual.defined:
        return None
    if visual.kind == "texture":
        material = visual.material
        image = getattr(material, "baseColorTexture", None) or getattr(material, "image", None)
        found = np.asarray(material.main_color if image is None else image.convert("RGB").resize((1, 1)), float).ravel()
    else:
        found = np.asarray(visual.main_color, float).ravel()
    if found.size < 3:
        return None
    red, green, blue = (float(part) / 255.0 for part in found[:3])
    return red, green, blue


def simplified(mesh: TriangleMesh, max_faces: int) -> TriangleMesh:
    """Simplifies a surface to about ``max_faces`` triangles (Garland and Heckbert, 1997, by fast-simplification)."""
    if len(mesh.faces) <= max(max_faces, 12):
        return mesh
    trimesh = import_trimesh()
    try:
        whole = trimesh.Trimesh(mesh.vertices, mesh.faces, process=True)  # Merged vertices keep it whole.
        fewer = whole.simplify_quadric_decimation(face_count=max(max_faces, 12), aggression=4)
    except ImportError as error:
        raise ImportError("simplifying meshes needs fast-simplification: pip install 'artix[viewer]'") from error
    return TriangleMesh(np.asarray(fewer.vertices), np.asarray(fewer.faces))


def with_sharp_edges(mesh: TriangleMesh) -> TriangleMesh:
    """Duplicates vertices along edges of more than 35 degrees, so that they look sharp."""
    trimesh = import_trimesh()
    whole = trimesh.Trimesh(mesh.vertices, mesh.faces, process=True)
    smooth = trimesh.graph.smooth_shade(whole, angle=np.deg2rad(35.0))
    return TriangleMesh(np.asarray(smooth.vertices), np.asarray(smooth.faces))
