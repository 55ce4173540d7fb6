"""Visuals of a robot: coloured surfaces on its links, from its file, its shapes, or its joints and
inertias.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from artix import Articulation, Geometry, Topology, robots
from artix.editing.to_builder import geometry_at
from artix.io.common.description import ReadOptions, Surface
from artix.io.common.diagnostics import DescriptionWarning
from artix.io.common.meshes import Packages, find_file, read_meshes
from artix.io.common.poses import poses_at_zero, quaternion_from_matrix
from artix.io.load import FORMATS, SUFFIXES, URDF
from artix.math.arrays import host_arrays
from artix.model.joints import IDENTITY_POSE
from artix.viewer.meshes import (
    TriangleMesh,
    box_mesh,
    capsule_mesh,
    compose,
    geometry_mesh,
    quaternion_from_z_to,
    rotate,
    sphere_mesh,
)

COLLISION_COLOR = (0.90, 0.45, 0.15)
#: With this many triangles a robot looks smooth, and its recording stays small.
MAX_TRIANGLES = 40_000


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
    pose: npt.ArrayLike = IDENTITY_POSE
    color: tuple[float, float, float] | None = None
    opacity: float = 1.0


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
    topology = articulation.topology
    arrays = host_arrays(articulation.geometry)
    shapes = [geometry_at(topology.geometries, arrays, k) for k in range(len(topology.geometries))]
    links = [topology.link_names[one.link] for one in topology.geometries]
    return shape_visuals(topology, list(zip(links, shapes, strict=True)))


def shape_visuals(topology: Topology, shapes: Sequence[tuple[str, Geometry]]) -> tuple[Visual, ...]:
    """Makes visuals of shapes on named links; those on links that no longer exist are left out."""
    number = {name: link for link, name in enumerate(topology.link_names)}
    return tuple(
        Visual(
            number[link],
            geometry_mesh(shape),
            shape.pose,
            COLLISION_COLOR,
            0.35 if shape.sensor else 1.0,
        )
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
                f"a visual is attached to link {visual.link}, but {topology.name!r} has links 0 "
                f"to {topology.num_links - 1}; use visuals with the articulation that they were "
                "loaded for"
            )
    return tuple(visuals)


# --- from files ---------------------------------------------------------------------------------

#: A surface of a mesh file, and its colour or ``None``.
Part = tuple[TriangleMesh, tuple[float, float, float] | None]


def load_visuals(
    path: str | os.PathLike[str],
    articulation: Articulation,
    *,
    package_dirs: Sequence[str | os.PathLike[str]] = (),
    packages: Packages | None = None,
    root: str | None = None,
    max_triangles: int | None = MAX_TRIANGLES,
) -> tuple[Visual, ...]:
    """Reads a robot's visuals from its description: ``<visual>`` in URDF, geoms in MJCF, geometry
    in USD.

    Mesh files are read with trimesh (``pip install 'artix[viewer]'``). If one is missing or cannot
    be read, a warning names the file and the link, and the link's collision shapes are drawn
    instead.

    Args:
      path: the description that ``articulation`` was loaded from, or one of the same robot in
        another format.
      articulation: the robot; its links, and the frames of merged links, are matched by name.
      package_dirs: folders to search for packages of ``package://`` URLs, before the folders above
        ``path``.
      packages: folders of ROS packages by name, as for :func:`artix.load_urdf` and
        :func:`artix.load_xacro`.
      root: path of the articulation root prim, for a USD stage with several.
      max_triangles: the most triangles for all meshes together; meshes beyond it are simplified.
        ``None`` keeps all.

    Returns:
      The visuals. If most links with mass have none, they are drawn as :func:`visuals_of` would
      draw them.

    Raises:
      ValueError: the suffix belongs to no known format, or no link of the file is one of the
        articulation's.
      DescriptionError: the file cannot be parsed.
      OSError: the file cannot be read.
      ImportError: the package that reads the format is missing; the message names it.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> len(viewer.load_visuals(artix.robots.path("arm7"), arm)) > 7
      True
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(
            f"{path}: no reader of visuals for the suffix {suffix!r}; choose from: "
            f"{', '.join(SUFFIXES)}"
        )
    surfaces = FORMATS[suffix].visuals(path, ReadOptions(root=root, packages=packages))
    if not surfaces:
        return visuals_of(articulation)
    files = _Files(str(path), path.parent, package_dirs, packages)
    visuals, raw = _draw_surfaces(surfaces, articulation, files)
    if not visuals:
        topology = articulation.topology
        names = sorted({one.link for one in surfaces})[:5]
        raise ValueError(
            f"{path}: none of its links with visuals ({', '.join(names)}, "
            f"...) is one of {topology.name!r} ({', '.join(topology.link_names[:5])}, ...)"
        )
    return _complete(_finish(visuals, raw, max_triangles), articulation)


@dataclasses.dataclass
class _Files:
    """The mesh files of a document: where to look for them, and those already read."""

    document: str
    base: Path
    package_dirs: Sequence[str | os.PathLike[str]] = ()
    packages: Packages | None = None
    known: dict[str, list[Part]] = dataclasses.field(default_factory=dict)

    def read(self, surface: Surface, name: str) -> list[Part]:
        """The surfaces of a file with their colours; none, with a warning, if it is missing or
        cannot be read.
        """
        if name not in self.known:
            try:
                path = find_file(name, self.base, self.package_dirs, self.packages)
                if path is None:
                    raise ValueError("there is no such file; package_dirs says where to look")
                self.known[name] = read_mesh_file(path)
            except (ValueError, ImportError) as error:
                self.known[name] = []
                instead = "its collision shapes are drawn instead of"
                instead = (
                    instead if surface.role == "visual" else "nor can its collision shapes have"
                )
                message = (
                    f"{self.document}: link {surface.link!r}: {instead} the mesh {name!r}: {error}"
                )
                warnings.warn(message, DescriptionWarning, stacklevel=4)
        return self.known[name]


def _draw_surfaces(
    surfaces: Sequence[Surface], articulation: Articulation, files: _Files
) -> tuple[tuple[Visual, ...], dict[int, TriangleMesh]]:
    """The visuals of surfaces on links of an articulation, and by identity those meshes that are
    not smooth yet.

    A merged link is a frame of the link that it became part of.
    """
    topology = articulation.topology
    places: dict[str, tuple[int, np.ndarray | None]] = {}
    for name, link, pose in zip(
        topology.frame_names, topology.frame_links, articulation.frame_local_pose, strict=True
    ):
        places[name] = int(link), np.asarray(pose, float)
    places |= {name: (link, None) for link, name in enumerate(topology.link_names)}
    visuals = list[Visual]()
    raw: dict[int, TriangleMesh] = {}
    meshes: dict[Any, list[Part]] = {}
    missing: set[str] = set()
    for surface in surfaces:
        if surface.role == "substitute" and surface.link not in missing:
            continue
        shape = surface.shape
        scale = surface.scale
        key = (shape if isinstance(shape, str) else id(shape), scale)
        if key not in meshes:
            parts = files.read(surface, shape) if isinstance(shape, str) else [(_mesh(shape), None)]
            meshes[key] = [
                (mesh if scale == (1.0, 1.0, 1.0) else mesh.scaled(scale), color)
                for mesh, color in parts
            ]
        if not meshes[key]:
            missing.add(surface.link)
        if not isinstance(shape, Geometry):
            raw |= {id(mesh): mesh for mesh, _ in meshes[key]}
        if surface.link in places:
            link, local = places[surface.link]
            pose = surface.pose if local is None else compose(local, surface.pose)
            colored = [(mesh, surface.color or color) for mesh, color in meshes[key]]
            visuals += [Visual(link, mesh, pose, color, surface.opacity) for mesh, color in colored]
    return tuple(visuals), raw


def _mesh(shape: Geometry | tuple[np.ndarray, np.ndarray]) -> TriangleMesh:
    return geometry_mesh(shape) if isinstance(shape, Geometry) else TriangleMesh(*shape)


def visuals_of(articulation: Articulation) -> tuple[Visual, ...]:
    """Makes visuals for a robot without its description.

    Robots of :mod:`artix.robots`, recognised by name and links, are drawn as their files say.
    Others are drawn by their collision shapes; if most links with mass have none, those links are
    drawn by :func:`link_visuals`.

    Args:
      articulation: one articulation.

    Returns:
      The visuals, each posed in the frame of its link.

    Examples:
      >>> from artix import viewer
      >>> quadruped = artix.robots.load("quadruped")
      >>> len(viewer.visuals_of(quadruped)) > 20
      True
    """
    topology = articulation.topology
    # Shapes that were left out of contact are drawn all the same.
    shapes = shape_visuals(topology, topology.drawn_shapes) or collision_visuals(articulation)
    shapes = tuple(dataclasses.replace(shape, color=None) for shape in shapes)
    shapes = _complete(shapes, articulation)
    if topology.name not in robots.names():
        return shapes
    surfaces = URDF.visuals(robots.path(topology.name), ReadOptions())
    if not {one.link for one in surfaces} <= {*topology.link_names, *topology.frame_names}:
        return shapes
    drawn = _draw_surfaces(surfaces, articulation, _Files("", Path()))[0]
    stock = robots.load(topology.name).topology.link_names
    attached = {k for k, name in enumerate(topology.link_names) if name not in stock}
    return *drawn, *(shape for shape in shapes if shape.link in attached)


def _complete(visuals: tuple[Visual, ...], articulation: Articulation) -> tuple[Visual, ...]:
    """Adds :func:`link_visuals` for links without visuals, unless visuals cover half of the links
    with mass.
    """
    heavy = set(np.flatnonzero(np.asarray(articulation.link_mass) > 0).tolist())
    covered = {visual.link for visual in visuals}
    if heavy and 2 * len(heavy & covered) >= len(heavy):
        return visuals
    return visuals + tuple(one for one in link_visuals(articulation) if one.link not in covered)


def _finish(
    visuals: tuple[Visual, ...], raw: dict[int, TriangleMesh], most: int | None
) -> tuple[Visual, ...]:
    """Adds sharp edges and simplifies meshes from files, the largest ones most."""
    cap = _cap([len(visual.mesh.faces) for visual in visuals], most)
    finished = {key: with_sharp_edges(simplify(mesh, cap)) for key, mesh in raw.items()}
    return tuple(
        dataclasses.replace(one, mesh=finished.get(id(one.mesh), one.mesh)) for one in visuals
    )


def _cap(counts: Sequence[int], most: int | None) -> int:
    """The size to which larger meshes are reduced so that all together have at most ``most``
    triangles.
    """
    if most is None or sum(counts) <= most:
        return max(counts)
    budget = most
    for place, count in enumerate(sorted(counts)):
        share = budget // (len(counts) - place)
        if count > share:
            return share
        budget -= count
    return max(counts)


def import_trimesh() -> Any:
    """Imports the package ``trimesh``.

    Raises:
      ImportError: it is not installed; the message names the extra that brings it.
    """
    try:
        import trimesh
    except ImportError as error:
        raise ImportError(
            "reading mesh files needs trimesh: pip install 'artix[viewer]'"
        ) from error
    return trimesh


def read_mesh_file(path: Path) -> list[Part]:
    """Reads the surfaces of a file, with their colours or ``None``.

    Raises:
      ImportError: trimesh, or a package that it needs for this format, is not installed.
      ValueError: the file cannot be read, or a vertex is not finite.
    """
    trimesh = import_trimesh()
    parts = [
        _part(one)
        for one in read_meshes(path, "viewer")
        if isinstance(one, trimesh.Trimesh) and len(one.faces)
    ]
    if not parts:
        raise ValueError(f"{path}: contains no triangles")
    return parts


def _part(mesh: Any) -> Part:
    return TriangleMesh(np.asarray(mesh.vertices), np.asarray(mesh.faces)), _color(mesh.visual)


def _color(visual: Any) -> tuple[float, float, float] | None:
    """One colour for a surface: its material's, the mean of its texture, or the colour of most
    faces.
    """
    if not visual.defined:
        return None
    if visual.kind == "texture":
        material = visual.material
        image = getattr(material, "baseColorTexture", None) or getattr(material, "image", None)
        color = material.main_color if image is None else image.convert("RGB").resize((1, 1))
    else:
        color = visual.main_color
    numbers = np.asarray(color, float).ravel()
    if numbers.size < 3:
        return None
    red, green, blue = (float(part) / 255.0 for part in numbers[:3])
    return red, green, blue


def simplify(mesh: TriangleMesh, max_faces: int) -> TriangleMesh:
    """Simplifies a surface to about ``max_faces`` triangles (Garland and Heckbert, 1997, by
    fast-simplification).
    """
    if len(mesh.faces) <= max(max_faces, 12):
        return mesh
    trimesh = import_trimesh()
    try:
        # Merged vertices keep it whole.
        whole = trimesh.Trimesh(mesh.vertices, mesh.faces, process=True)
        fewer = whole.simplify_quadric_decimation(face_count=max(max_faces, 12), aggression=4)
    except ImportError as error:
        raise ImportError(
            "simplifying meshes needs fast-simplification: pip install 'artix[viewer]'"
        ) from error
    return TriangleMesh(np.asarray(fewer.vertices), np.asarray(fewer.faces))


def with_sharp_edges(mesh: TriangleMesh) -> TriangleMesh:
    """Duplicates vertices along edges of more than 35 degrees, so that they look sharp."""
    trimesh = import_trimesh()
    whole = trimesh.Trimesh(mesh.vertices, mesh.faces, process=True)
    smooth = trimesh.graph.smooth_shade(whole, angle=np.deg2rad(35.0))
    return TriangleMesh(np.asarray(smooth.vertices), np.asarray(smooth.faces))


# --- from joints and inertias -------------------------------------------------------------------


def link_visuals(articulation: Articulation) -> tuple[Visual, ...]:
    """Draws capsules from joint to joint, and boxes for the links' inertias.

    A link gets a capsule from its own joint to each joint of its children, and the box of uniform
    density that has its mass and inertia. A robot with nothing of these is drawn as a small ball.

    Args:
      articulation: one articulation.

    Returns:
      The visuals, each posed in the frame of its link.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> sorted({visual.link for visual in viewer.link_visuals(arm)})[:3]
      [0, 1, 2]
    """
    topology = articulation.topology
    joint_pose = np.array(articulation.joint_child_pose, float)
    at_parent = np.asarray(articulation.joint_parent_pose, float)
    joint_pose[0] = (0, 0, 0, 0, 0, 0, 1)
    size = _size(articulation)
    articulation = host_arrays(articulation)
    visuals = list[Visual]()
    for link in range(topology.num_links):
        children = [child for child, above in enumerate(topology.parent) if above == link]
        start = joint_pose[link, :3]
        box = _inertia_box(articulation, link)
        thickness = 0.03 * size
        if box is not None:
            half, pose = box
            thickness = float(
                np.clip(0.5 * np.sort(half)[0] + 0.25 * np.sort(half)[1], 0.012 * size, 0.05 * size)
            )
            visuals.append(Visual(link, box_mesh(half), pose))
        for end in (at_parent[child, :3] for child in children if _has_weight(articulation, child)):
            length = float(np.linalg.norm(end - start))
            if length > 0.01 * size:
                pose = np.concatenate([0.5 * (start + end), quaternion_from_z_to(end - start)])
                visuals.append(Visual(link, capsule_mesh(0.7 * thickness, 0.5 * length), pose))
        if link and topology.joint_axes[link]:
            pose = np.array([*start, 0.0, 0.0, 0.0, 1.0])
            visuals.append(Visual(link, sphere_mesh(0.9 * thickness), pose, (0.2, 0.22, 0.25)))
    if not visuals:  # A robot without mass and joints is a place.
        visuals.append(Visual(0, sphere_mesh(0.03 * size), joint_pose[0], (0.2, 0.22, 0.25)))
    return tuple(visuals)


def _size(articulation: Articulation) -> float:
    """A typical length of the robot: the diagonal of the bounding box of its links at rest."""
    poses = poses_at_zero(articulation)
    points = poses[:, :3] + rotate(
        poses[:, 3:], np.asarray(articulation.link_com_pose, float)[:, :3]
    )
    points = np.concatenate([points, poses[:, :3]])
    return max(float(np.linalg.norm(np.ptp(points, axis=0))), 0.05)


def _has_weight(articulation: Articulation, link: int) -> bool:
    """Whether a link is worth drawing: one with neither mass nor children only marks a place."""
    return bool(articulation.link_mass[link] > 0) or link in articulation.topology.parent


def _inertia_box(articulation: Articulation, link: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Half edges [3] and pose [7] of the uniform box with a link's mass and inertia, if there is
    one.
    """
    mass = float(articulation.link_mass[link])
    inertia = np.asarray(articulation.link_inertia[link], float)
    if not (mass > 0.0 and np.isfinite(mass) and np.isfinite(inertia).all()):
        return None
    moments, axes = np.linalg.eigh(0.5 * (inertia + inertia.T))
    squares = 1.5 * (moments.sum() - 2.0 * moments) / mass
    if not squares.max() > 0.0:
        return None
    half = np.sqrt(np.maximum(squares, 1e-4 * squares.max()))
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    turn = np.concatenate([np.zeros(3), quaternion_from_matrix(axes)])
    return half, compose(np.asarray(articulation.link_com_pose[link], float), turn)
