"""Writes MJCF: geoms."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np

from artix.io.mjcf.body_writer import BodyWriter
from artix.model.geometry import SIZE_NUMBERS, GeometryType

#: What a size of zero is written as [m]: less than contacts notice, and more than MuJoCo's smallest number.
_SMALLEST_SIZE = 1e-9


def write_geoms(writer: BodyWriter, root: ET.Element) -> None:
    """Writes the shapes of all links as massless geoms, hulls as meshes of their points, and contact pairs.

    The geoms touch the ground and, through ``<pair>`` elements, each other; MuJoCo's filters let no other pairs
    through. Sensors are left out except for those in pairs, which touch nothing else.
    """
    arrays, first = writer.articulation.geometry, 0
    paired = {name for pair in writer.topology.geometry_pairs for name in pair}
    for k, shape in enumerate(writer.topology.geometries):
        points = np.asarray(arrays.point[first : first + shape.num_points], float)
        first += shape.num_points
        if shape.sensor and shape.name not in paired:
            continue
        attributes = {
            "name": shape.name,
            "type": shape.type.value,
            "mass": "0",
            "contype": "0" if shape.sensor else "1",
            "conaffinity": "0",
            "friction": f"{writer.number(arrays.friction[k])} 0.005 0.0001",
            **writer.placement(np.asarray(arrays.pose[k], float)),
        }
        if shape.type is GeometryType.HULL:
            if not _is_solid(points) or float(arrays.size[k, 0]):
                writer.warn(f"geometry {shape.name!r}", "MJCF has no flat or rounded hulls; it is left out")
                continue
            asset = root.find("asset")
            asset = ET.SubElement(root, "asset") if asset is None else asset
            ET.SubElement(asset, "mesh", {"name": shape.name, "vertex": writer.numbers(points.ravel())})
            attributes |= {"type": "mesh", "mesh": shape.name}
        else:
            size = np.asarray(arrays.size[k, : SIZE_NUMBERS[shape.type]])
            if np.any(size < _SMALLEST_SIZE):
                message = f"MuJoCo requires sizes above zero; a size is written as {_SMALLEST_SIZE:g} m"
                writer.warn(f"geometry {shape.name!r}", message, "nothing")
            attributes["size"] = writer.numbers(np.maximum(size, _SMALLEST_SIZE))
        ET.SubElement(writer.body(shape.link), "geom", attributes)
    if writer.topology.geometry_pairs:
        contact = ET.SubElement(root, "contact")
        for a, b in writer.topology.geometry_pairs:
            ET.SubElement(contact, "pair", {"geom1": a, "geom2": b})


def _is_solid(points: np.ndarray) -> bool:
    """Whether the hull of the points has a volume."""
    return bool(np.linalg.matrix_rank(points - points.mean(axis=0), tol=1e-9) == 3)
