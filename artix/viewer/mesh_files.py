"""Mesh files, read with trimesh, and simplified where they have many triangles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from artix.viewer.meshes import TriangleMesh

Part = tuple[TriangleMesh, tuple[float, float, float] | None]


def import_trimesh() -> Any:
    """The package ``trimesh``.

    Raises:
      ImportError: it is not installed; the message names the extra that brings it.
    """
    try:
        import trimesh
    except ImportError as error:
        raise ImportError("files of meshes are read with trimesh: pip install 'artix[viewer]'") from error
    return trimesh


def read_mesh_file(path: Path) -> list[Part]:
    """The surfaces of a file with their colours, ``None`` where it has none.

    Raises:
      ImportError: trimesh is not installed, or the package that it needs for this format.
      ValueError: the file cannot be read.
    """
    trimesh = import_trimesh()
    try:
        scene = trimesh.load_scene(path)
        found = scene.dump() if hasattr(scene, "dump") else [scene]
    except ImportError as error:
        raise ImportError(f"{path}: to read it, {error}; pip install 'artix[viewer]'") from error
    except Exception as error:  # Parsers of a dozen formats raise whatever they like on a broken file.
        raise ValueError(f"{path}: cannot be read as a mesh: {error}") from error
    parts = [_part(one) for one in found if isinstance(one, trimesh.Trimesh) and len(one.faces)]
    if not parts:
        raise ValueError(f"{path}: there are no triangles in it")
    return parts


def _part(mesh: Any) -> Part:
    return TriangleMesh(np.asarray(mesh.vertices), np.asarray(mesh.faces)), _color(mesh.visual)


def _color(visual: Any) -> tuple[float, float, float] | None:
    """One colour for a surface: of its material, the mean of its picture, or that of most of its faces."""
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
    """A similar surface of about so many triangles at most (Garland and Heckbert, 1997, by fast-simplification)."""
    if len(mesh.faces) <= max(max_faces, 12):
        return mesh
    trimesh = import_trimesh()
    try:
        whole = trimesh.Trimesh(mesh.vertices, mesh.faces, process=True)  # Joins vertices, without which it would tear.
        fewer = whole.simplify_quadric_decimation(face_count=max(max_faces, 12), aggression=4)
    except ImportError as error:
        raise ImportError("simplifying meshes takes fast-simplification: pip install 'artix[viewer]'") from error
    return TriangleMesh(np.asarray(fewer.vertices), np.asarray(fewer.faces))


def with_sharp_edges(mesh: TriangleMesh) -> TriangleMesh:
    """The same surface, its vertices doubled where it has an edge of more than 35 degrees."""
    trimesh = import_trimesh()
    whole = trimesh.Trimesh(mesh.vertices, mesh.faces, process=True)
    smooth = trimesh.graph.smooth_shade(whole, angle=np.deg2rad(35.0))
    return TriangleMesh(np.asarray(smooth.vertices), np.asarray(smooth.faces))
