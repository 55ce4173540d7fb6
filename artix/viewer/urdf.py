"""The ``<visual>`` elements of a URDF."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from artix.io.common.diagnostics import DescriptionWarning, Report
from artix.io.common.meshes import Packages, find_file
from artix.io.common.xml_tree import Element, origin, read_child, read_numbers, read_xml
from artix.io.urdf.parser import read_origin, read_shape
from artix.viewer.mesh_files import Part, read_mesh_file
from artix.viewer.meshes import geometry_mesh
from artix.viewer.visuals import Drawn

Color = tuple[float, float, float]


def urdf_visuals(
    path_or_text: str | Path, package_dirs: Sequence[str | os.PathLike[str]], packages: Packages | None = None
) -> list[Drawn]:
    """The visuals of a URDF. If a mesh cannot be read, the link's collision shapes replace it, with a warning.

    Raises:
      DescriptionError: the document is not XML.
      OSError: it cannot be read.
    """
    document, base = origin(path_or_text)
    report = Report(document)
    robot = read_xml(path_or_text, report)
    report.raise_errors()
    assert robot is not None  # Otherwise there are errors.
    files = _Files(document, base, package_dirs, packages, {})
    materials = {element.attributes.get("name", ""): _color(element, report) for element in robot.all("material")}
    bare = not any(link.all("visual") for link in robot.all("link"))
    drawn = list[Drawn]()
    for link in robot.all("link"):
        parts = [_visual(link, visual, files, materials, report) for visual in link.all("visual")]
        drawn += [one for part in parts for one in part]
        if bare or not all(parts):
            drawn += [one for shape in link.all("collision") for one in _visual(link, shape, files, {}, report)]
    return drawn


@dataclasses.dataclass
class _Files:
    """The mesh files of a document: where to look for them, and those already read."""

    document: str
    base: Path
    package_dirs: Sequence[str | os.PathLike[str]]
    packages: Packages | None
    known: dict[tuple[str, tuple[float, ...]], list[Part]]

    def read(self, link: str, tag: str, name: str, scale: tuple[float, ...]) -> list[Part]:
        """Reads the surfaces of a file; none, with a warning, if it is missing or cannot be read."""
        if (name, scale) not in self.known:
            parts = self._parts(link, tag, name)
            self.known[name, scale] = [
                (mesh if scale == (1.0, 1.0, 1.0) else mesh.scaled(scale), c) for mesh, c in parts
            ]
        return self.known[name, scale]

    def _parts(self, link: str, tag: str, name: str) -> list[Part]:
        path = find_file(name, self.base, self.package_dirs, self.packages)
        if path is None:
            _warn_missing(self.document, link, tag, name, "there is no such file; package_dirs says where to look")
            return []
        try:
            return read_mesh_file(path)
        except (ValueError, ImportError) as error:
            _warn_missing(self.document, link, tag, name, str(error))
            return []


def _visual(
    link: Element, visual: Element, files: _Files, materials: dict[str, Color | None], report: Report
) -> list[Drawn]:
    name, pose = link.attributes.get("name", ""), read_origin(visual, report)
    material = read_child(report, visual, "material")
    color = None
    if material is not None:
        color = _color(material, report) or materials.get(material.attributes.get("name", ""))
    meshes = [mesh for geometry in visual.all("geometry") for mesh in geometry.all("mesh")]
    if meshes:
        scale = read_numbers(report, meshes[0], "scale", (1.0, 1.0, 1.0))
        parts = files.read(name, visual.tag, meshes[0].attributes.get("filename", ""), scale)
        return [Drawn(name, mesh, pose, color or own, is_raw=True) for mesh, own in parts]
    shape = read_shape(visual, report)
    return [] if shape is None else [Drawn(name, geometry_mesh(shape), np.asarray(shape.pose), color)]


def _color(material: Element, report: Report) -> Color | None:
    color = read_child(report, material, "color")
    if color is None:
        return None
    red, green, blue, _ = read_numbers(report, color, "rgba", (0.7, 0.7, 0.7, 1.0))
    return red, green, blue


def _warn_missing(document: str, link: str, tag: str, file: str, reason: str) -> None:
    """Warns that a mesh cannot be drawn. Collision shapes replace the mesh of a ``visual``."""
    drawn = "its collision shapes are drawn instead of" if tag == "visual" else "nor can its collision shapes have"
    message = f"{document}: link {link!r}: {drawn} the mesh {file!r}: {reason}"
    warnings.warn(message, DescriptionWarning, stacklevel=2)
