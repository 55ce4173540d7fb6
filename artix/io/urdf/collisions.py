"""Reads the shapes of ``<collision>``. Malformed ones cause only a warning, because dynamics does not need them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from artix.io.common.collision_meshes import Meshes, MeshShape, mesh_shape
from artix.io.common.diagnostics import Location, Report
from artix.io.common.mesh_files import Packages, find_file, read_vertices
from artix.io.common.poses import quaternion_from_rpy
from artix.io.common.xml_tree import Element, read_child, read_number, read_numbers
from artix.model.geometry import Geometry

KINDS = ("sphere", "capsule", "box", "cylinder", "mesh")


@dataclasses.dataclass
class MeshFolder:
    """Where the meshes of a description are, and how to replace them.

    Attributes:
      base: the folder that paths are relative to.
      meshes: the replacement; ``None`` leaves meshes out.
      packages: folders of ROS packages by name.
      errors: :attr:`~artix.io.common.collision_meshes.MeshShape.error` by link name.
    """

    base: Path
    meshes: Meshes | None
    packages: Packages | None = None
    errors: dict[str, float] = dataclasses.field(default_factory=dict)


def read_collisions(link: Element, report: Report, folder: MeshFolder) -> tuple[tuple[str | None, Geometry], ...]:
    """The shapes of a link with their names, ``None`` for unnamed ones.

    Args:
      link: the ``<link>``.
      report: receives a warning for each malformed shape, and an error for each unreadable mesh.
      folder: where meshes are and how to replace them.
    """
    shapes: list[tuple[str | None, Geometry]] = []
    for element in link.all("collision"):
        trial = Report(report.file)
        shape = read_shape(element, trial)
        if trial.num_errors:
            for issue in trial.errors:
                report.changed(element, f"left out: {issue.message}", issue.fix)
        else:
            for issue in trial.issues:
                report.changed(Location(issue.element, issue.line), issue.message, issue.fix)
        if shape is None and not trial.num_errors and folder.meshes is not None:
            found = _mesh(element, report, folder, folder.meshes)
            name = link.attributes.get("name", "")
            if found is not None:
                folder.errors[name] = max(folder.errors.get(name, 0.0), found.error)
                shape = found.geometry
        if shape is not None and not trial.num_errors:
            shapes.append((element.attributes.get("name", "").strip() or None, shape))
    return tuple(shapes)


def _mesh(collision: Element, report: Report, folder: MeshFolder, meshes: Meshes) -> MeshShape | None:
    """The shape that replaces the mesh of a ``<collision>``; ``None``, and an error, if the mesh cannot be read."""
    (geometry,) = collision.all("geometry")
    (element,) = geometry.all("mesh")
    name, fix = element.attributes.get("filename", ""), "correct the file, or leave meshes out (meshes=None)"
    path = find_file(name, folder.base, packages=folder.packages) if name else None
    if path is None:
        fix = "paths are relative to the folder of the URDF; package:// is searched above it and in ROS_PACKAGE_PATH, "
        fix += "and packages={name: folder} says where a package is"
        report.error(element, f"there is no file {name!r}", f"{fix}; or leave meshes out (meshes=None)")
        return None
    scale = read_numbers(report, element, "scale", (1.0, 1.0, 1.0))
    try:
        points = read_vertices(path) * np.asarray(scale)
        return mesh_shape(points, meshes, read_origin(collision, report))
    except ValueError as error:
        report.error(element, str(error), fix)
        return None


def has_mesh(link: Element) -> bool:
    """Whether a ``<collision>`` of a link is a mesh."""
    return any(geometry.all("mesh") for collision in link.all("collision") for geometry in collision.all("geometry"))


def read_shape(collision: Element, report: Report) -> Geometry | None:
    """The shape of a ``<collision>`` or ``<visual>``; ``None`` for a mesh or after an error."""
    geometry = read_child(report, collision, "geometry", required=True)
    shapes = [child for child in geometry.children if child.tag in KINDS] if geometry is not None else []
    if geometry is None or len(shapes) != 1:
        report.error(collision, f"its <geometry> must be one of {', '.join(KINDS)}", "write exactly one")
        return None
    (shape,) = shapes
    if shape.tag == "mesh":
        return None
    pose = read_origin(collision, report)
    if shape.tag == "box":
        size = tuple(0.5 * edge for edge in read_numbers(report, shape, "size", (0.0, 0.0, 0.0), required=True))
    elif shape.tag == "sphere":
        size = (read_number(report, shape, "radius", 0.0, required=True),)
    else:
        radius, length = (read_number(report, shape, key, 0.0, required=True) for key in ("radius", "length"))
        size = (radius, 0.5 * length)
    if min(size) < 0.0:
        report.error(shape, "a size is negative", "drop the sign")
        return None
    return Geometry(type=shape.tag, size=size, pose=pose)  # type: ignore[arg-type]


def read_origin(element: Element, report: Report) -> np.ndarray:
    """The pose given by an element's ``<origin>``, shape [7]; the identity if it has none."""
    origin = read_child(report, element, "origin")
    position = read_numbers(report, origin, "xyz", (0.0, 0.0, 0.0))
    angles = read_numbers(report, origin, "rpy", (0.0, 0.0, 0.0))
    return np.concatenate([position, quaternion_from_rpy(*angles)])
