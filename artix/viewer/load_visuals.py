"""Visuals of a robot, with or without its description."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from artix import Articulation, robots
from artix.io.common.meshes import Packages
from artix.io.load import MJCF, SUFFIXES, USD
from artix.io.urdf.reader import expand_xacro
from artix.viewer.link_shapes import link_visuals
from artix.viewer.mesh_files import simplified, with_sharp_edges
from artix.viewer.meshes import TriangleMesh
from artix.viewer.mjcf import mjcf_visuals
from artix.viewer.transforms import compose
from artix.viewer.urdf import urdf_visuals
from artix.viewer.usd import usd_visuals
from artix.viewer.visuals import Drawn, Visual, collision_visuals, shape_visuals

#: With this many triangles a robot looks smooth, and its recording stays small.
MAX_TRIANGLES = 40_000


def visuals_of(articulation: Articulation) -> tuple[Visual, ...]:
    """Makes visuals for a robot without its description.

    Robots of :mod:`artix.robots`, recognised by name and links, are drawn as their files say. Others are drawn by their
    collision shapes; if most links with mass have none, those links are drawn by :func:`link_visuals`.

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
    if topology.name in robots.names():
        drawn = urdf_visuals(robots.path(topology.name), ())
        if {one.link for one in drawn} <= {*topology.link_names, *topology.frame_names}:
            return _on_links(drawn, articulation)
    # Shapes that were left out of contact are drawn all the same.
    shapes = shape_visuals(topology, topology.drawn_shapes) or collision_visuals(articulation)
    shapes = tuple(dataclasses.replace(shape, color=None) for shape in shapes)
    return _completed(shapes, articulation)


def _completed(visuals: tuple[Visual, ...], articulation: Articulation) -> tuple[Visual, ...]:
    """Adds :func:`link_visuals` for links without visuals, unless visuals cover half of the links with mass."""
    heavy = set(np.flatnonzero(np.asarray(articulation.link_mass) > 0).tolist())
    covered = {visual.link for visual in visuals}
    if heavy and 2 * len(heavy & covered) >= len(heavy):
        return visuals
    return visuals + tuple(one for one in link_visuals(articulation) if one.link not in covered)


def load_visuals(
    path: str | os.PathLike[str],
    articulation: Articulation,
    *,
    package_dirs: Sequence[str | os.PathLike[str]] = (),
    packages: Packages | None = None,
    root: str | None = None,
    max_triangles: int | None = MAX_TRIANGLES,
) -> tuple[Visual, ...]:
    """Reads a robot's visuals from its description: ``<visual>`` in URDF, geoms in MJCF, geometry in USD.

    Mesh files are read with trimesh (``pip install 'artix[viewer]'``). If one is missing or cannot be read, a warning
    names the file and the link, and the link's collision shapes are drawn instead.

    Args:
      path: the description that ``articulation`` was loaded from, or one of the same robot in another format.
      articulation: the robot; its links, and the frames of merged links, are matched by name.
      package_dirs: folders to search for packages of ``package://`` URLs, before the folders above ``path``.
      packages: folders of ROS packages by name, as for :func:`artix.load_urdf` and :func:`artix.load_xacro`.
      root: path of the articulation root prim, for a USD stage with several.
      max_triangles: the most triangles for all meshes together; meshes beyond it are simplified. ``None`` keeps all.

    Returns:
      The visuals. If most links with mass have none, they are drawn as :func:`visuals_of` would draw them.

    Raises:
      ValueError: the suffix belongs to no known format, or no link of the file is one of the articulation's.
      DescriptionError: the file cannot be parsed.
      OSError: the file cannot be read.
      ImportError: the package that reads the format is missing; the message names it.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> len(viewer.load_visuals(artix.robots.path("arm7"), arm)) > 7
      True
    """
    topology = articulation.topology
    drawn = _read(Path(path), package_dirs, packages, root)
    if not drawn:
        return visuals_of(articulation)
    visuals = _on_links(drawn, articulation)
    if not visuals:
        raise ValueError(
            f"{os.fspath(path)}: none of its links with visuals ({', '.join(sorted({one.link for one in drawn})[:5])}, "
            f"...) is one of {topology.name!r} ({', '.join(topology.link_names[:5])}, ...)"
        )
    raw = {id(one.mesh): one.mesh for one in drawn if one.is_raw}
    return _completed(_finished(visuals, raw, max_triangles), articulation)


def _read(
    path: Path, package_dirs: Sequence[str | os.PathLike[str]], packages: Packages | None, root: str | None
) -> list[Drawn]:
    suffix = path.suffix.lower()
    if suffix == ".urdf":
        return urdf_visuals(path, package_dirs, packages)
    if suffix == ".xacro":
        return urdf_visuals(expand_xacro(path, packages=packages), package_dirs, packages)
    if suffix in MJCF.suffixes:
        return mjcf_visuals(path)
    if suffix in USD.suffixes:
        return usd_visuals(path, root)
    if suffix == ".npz":
        return []
    raise ValueError(f"{path}: no reader of visuals for the suffix {suffix!r}; choose from: {', '.join(SUFFIXES)}")


def _on_links(drawn: Sequence[Drawn], articulation: Articulation) -> tuple[Visual, ...]:
    """Converts surfaces on named links to visuals. A merged link is a frame of the link that it became part of."""
    topology = articulation.topology
    places = {name: link for link, name in enumerate(topology.link_names)}
    frames = dict(zip(topology.frame_names, topology.frame_links, strict=True))
    visuals = list[Visual]()
    for one in drawn:
        link, pose = places.get(one.link), one.pose
        if link is None and one.link in frames:
            link = frames[one.link]
            local = np.asarray(articulation.frame_local_pose[topology.frame_names.index(one.link)], float)
            pose = compose(local, pose)
        if link is not None:
            visuals.append(Visual(link, one.mesh, pose, one.color, one.opacity))
    return tuple(visuals)


def _finished(visuals: tuple[Visual, ...], raw: dict[int, TriangleMesh], most: int | None) -> tuple[Visual, ...]:
    """Adds sharp edges and simplifies meshes from files, the largest ones most."""
    cap = _cap([len(visual.mesh.faces) for visual in visuals], most)
    finished = {key: with_sharp_edges(simplified(mesh, cap)) for key, mesh in raw.items()}
    return tuple(dataclasses.replace(one, mesh=finished.get(id(one.mesh), one.mesh)) for one in visuals)


def _cap(counts: Sequence[int], most: int | None) -> int:
    """The size to which larger meshes are reduced so that all together have at most ``most`` triangles."""
    if most is None or sum(counts) <= most:
        return max(counts)
    left = most
    for place, count in enumerate(sorted(counts)):
        share = left // (len(counts) - place)
        if count > share:
            return share
        left -= count
    return max(counts)
