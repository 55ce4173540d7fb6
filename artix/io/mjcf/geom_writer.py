"""Writing MJCF: geoms."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np

from artix.io.mjcf.body_writer import BodyWriter
from artix.io.mjcf.text import number, numbers, place
from artix.model.geometry import SIZE_NUMBERS, GeometryType


def write_geoms(writer: BodyWriter, root: ET.Element) -> None:
    """Writes the shapes of all links, massless, and hulls as meshes of their points; sensors are left out."""
    arrays, first = writer.articulation.geometry, 0
    for k, one in enumerate(writer.topology.geometries):
        points = np.asarray(arrays.point[first : first + one.num_points], float)
        first += one.num_points
        if one.sensor:
            continue
        attributes = {
            "name": one.name,
            "type": one.type.value,
            "mass": "0",
            "friction": f"{number(arrays.friction[k])} 0.005 0.0001",
            **place(np.asarray(arrays.pose[k], float)),
        }
        if one.type is GeometryType.HULL:
            if not _is_solid(points) or float(arrays.size[k, 0]):
                writer.warn(f"geometry {one.name!r}", "MJCF has no hulls that are flat or round; it is left out")
                continue
            asset = root.find("asset")
            asset = ET.SubElement(root, "asset") if asset is None else asset
            ET.SubElement(asset, "mesh", {"name": one.name, "vertex": numbers(points.ravel())})
            attributes |= {"type": "mesh", "mesh": one.name}
        else:
            attributes["size"] = numbers(arrays.size[k, : SIZE_NUMBERS[one.type]])
        ET.SubElement(writer.body(one.link), "geom", attributes)


def _is_solid(points: np.ndarray) -> bool:
    """Whether the hull of points has a volume."""
    return bool(np.linalg.matrix_rank(points - points.mean(axis=0), tol=1e-9) == 3)
