"""The geoms of an MJCF, placed by MuJoCo's own compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from artix.io.common.diagnostics import Report
from artix.io.mjcf.bodies import pose_from_wxyz
from artix.io.mjcf.geometries import geom_type, primitive
from artix.io.mjcf.source import compile_mjcf
from artix.viewer.meshes import TriangleMesh, geometry_mesh, sphere_mesh
from artix.viewer.visuals import Drawn

#: MuJoCo's own viewer shows geoms of groups 0 to 2; models keep collision shapes in group 3.
SHOWN_GROUPS = 3


def mjcf_visuals(path_or_text: str | Path) -> list[Drawn]:
    """The geoms that MuJoCo's viewer draws for moving bodies: groups 0 to 2, or all geoms of a body without these.

    Raises:
      DescriptionError: MuJoCo's compiler refuses the file.
      OSError: it cannot be read.
      ImportError: ``mujoco`` is not installed.
    """
    report = Report(str(path_or_text))
    source = compile_mjcf(path_or_text, report)
    report.raise_errors()
    assert source is not None  # Without one there are errors.
    model, names = source.model, source.names
    meshes: dict[int, TriangleMesh] = {}
    drawn = list[Drawn]()
    for body in range(1, model.nbody):
        first = int(model.body_geomadr[body])
        geoms = range(first, first + int(model.body_geomnum[body]))
        shown = [geom for geom in geoms if model.geom_group[geom] < SHOWN_GROUPS and _rgba(model, geom)[3] > 0.0]
        for geom in shown or geoms:
            mesh = _surface(model, geom, meshes)
            if mesh is not None:
                pose = pose_from_wxyz(model.geom_pos[geom], model.geom_quat[geom])
                red, green, blue, opacity = _rgba(model, geom)
                color, is_raw = (red, green, blue), geom_type(model, geom) == "MESH"
                drawn.append(Drawn(names.bodies[body], mesh, pose, color, opacity if shown else 1.0, is_raw))
    return drawn


def _surface(model, geom: int, meshes: dict[int, TriangleMesh]) -> TriangleMesh | None:
    kind = geom_type(model, geom)
    if kind == "MESH":
        number = int(model.geom_dataid[geom])
        if number not in meshes:
            vertex, face = int(model.mesh_vertadr[number]), int(model.mesh_faceadr[number])
            vertices = model.mesh_vert[vertex : vertex + int(model.mesh_vertnum[number])]
            faces = model.mesh_face[face : face + int(model.mesh_facenum[number])]
            meshes[number] = TriangleMesh(np.array(vertices), np.array(faces))
        return meshes[number]
    if kind == "ELLIPSOID":
        return sphere_mesh(1.0).scaled(model.geom_size[geom])
    shape = primitive(model, geom)
    return None if shape is None else geometry_mesh(shape)


def _rgba(model, geom: int) -> tuple[float, float, float, float]:
    """The colour of a geom or, without one, of its material."""
    own, material = np.asarray(model.geom_rgba[geom], float), int(model.geom_matid[geom])
    if material >= 0 and np.allclose(own, [0.5, 0.5, 0.5, 1.0]):
        own = np.asarray(model.mat_rgba[material], float)
    red, green, blue, opacity = own.tolist()
    return red, green, blue, opacity
