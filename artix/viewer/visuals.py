"""Visuals of a robot: coloured surfaces attached to its links."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from artix import Articulation, Geometry, Topology
from artix.editing.to_builder import geometry_at
from artix.math.arrays import host_arrays
from artix.viewer.meshes import TriangleMesh, geometry_mesh

IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
COLLISION_COLOR = (0.90, 0.45, 0.15)


@dataclasses.dataclass(frozen=True, eq=False)
class Visual:
    """A surface that is attached to a link for display. It has no effect on dynamics.

    Attributes:
      link: index of the link.
      mesh: the surface in its own frame.
      pose: pose of that frame in the link's frame: position [m], quaternion xyzw, shape [7].
      color: red, green and blue, each from 0 to 1; ``None`` for the viewer's choice.
      opacity: from 0 (invisible) to 1.

    Examples:
      >>> from artix import viewer
      >>> ball = viewer.geometry_mesh(artix.Geometry.sphere(0.1))
      >>> viewer.Visual(link=0, mesh=ball, color=(1.0, 0.0, 0.0)).opacity
      1.0
    """

    link: int
    mesh: TriangleMesh
    pose: npt.ArrayLike = IDENTITY
    color: tuple[float, float, float] | None = None
    opacity: float = 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """A surface from a file: on a named link, with a pose [7] in the link's frame.

    ``is_raw`` means that the mesh comes from a mesh file and may have too many triangles and no sharp edges.
    """

    link: str
    mesh: TriangleMesh
    pose: np.ndarray
    color: tuple[float, float, float] | None = None
    opacity: float = 1.0
    is_raw: bool = False


def collision_visuals(articulation: Articulation) -> tuple[Visual, ...]:
    """Makes visuals of a robot's collision shapes, sensors included.

    Args:
      articulation: one articulation.

    Returns:
      A visual for each of ``articulation.topology.geometries``, in their order.

    Examples:
      >>> from artix import viewer
      >>> quadruped = artix.robots.load("quadruped")
      >>> len(viewer.collision_visuals(quadruped))
      4
    """
    topology, arrays = articulation.topology, host_arrays(articulation.geometry)
    shapes = [geometry_at(topology.geometries, arrays, k) for k in range(len(topology.geometries))]
    links = [topology.link_names[one.link] for one in topology.geometries]
    return shape_visuals(topology, list(zip(links, shapes, strict=True)))


def shape_visuals(topology: Topology, shapes: Sequence[tuple[str, Geometry]]) -> tuple[Visual, ...]:
    """Makes visuals of shapes on named links; those on links that are no more are left out."""
    number = {name: link for link, name in enumerate(topology.link_names)}
    return tuple(
        Visual(number[link], geometry_mesh(shape), shape.pose, COLLISION_COLOR, 0.35 if shape.sensor else 1.0)
        for link, shape in shapes
        if link in number
    )


def checked_visuals(visuals: Sequence[Visual], topology: Topology) -> tuple[Visual, ...]:
    """Checks the links of visuals and returns the visuals.

    Raises:
      ValueError: a visual is attached to a link that does not exist.
    """
    for visual in visuals:
        if not 0 <= visual.link < topology.num_links:
            raise ValueError(
                f"a visual is attached to link {visual.link}, but {topology.name!r} has links 0 to "
                f"{topology.num_links - 1}; use visuals with the articulation that they were loaded for"
            )
    return tuple(visuals)
