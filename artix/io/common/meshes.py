"""Meshes: finds and reads their files, and replaces them by hulls of extreme vertices or bounding
capsules.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from artix.io.common.diagnostics import Place, Report, listed
from artix.io.common.poses import IDENTITY, compose
from artix.model.geometry import MAX_HULL_POINTS, Geometry

Meshes: TypeAlias = Literal["hull", "capsule"]
"""The shape by which a reader replaces large meshes on request."""

#: Number of plane normals along which a shape is compared with its mesh.
_DIRECTIONS = 4000


class MeshShape(NamedTuple):
    """The shape that replaces a mesh.

    Attributes:
      geometry: the shape.
      error: largest difference, over all directions, between the support functions of the shape and
        the mesh [m].
    """

    geometry: Geometry
    error: float


def mesh_shape(points: np.ndarray, meshes: Meshes, pose: np.ndarray, **material: Any) -> MeshShape:
    """The hull or capsule that replaces a mesh.

    Args:
      points: vertices in the mesh's frame [m], [V, 3], V at least 1.
      meshes: the kind of shape. A ``"hull"`` has at most 64 of the vertices, chosen greedily: each
        is the one farthest outside the hull of those before it, in any of a fixed set of
        directions. The result is deterministic, lies inside the convex hull of the mesh, and is
        exact if that has at most 64 vertices. A ``"capsule"`` encloses the mesh along whichever of
        its principal axes makes the capsule smallest.
      pose: pose of the mesh's frame in the link's, [7].
      **material: material parameters of the geometry.

    Raises:
      ValueError: a vertex is not finite.
    """
    if not np.isfinite(points).all():
        raise ValueError("some vertices of the mesh are not finite")
    directions = _directions()
    farthest = np.concatenate(
        [np.argmax(part @ points.T, axis=1) for part in np.split(directions, 40)]
    )
    reach = np.sum(directions * points[farthest], axis=1)
    if meshes == "capsule":
        center, axis, radius, half_length = _bounding_capsule(points, points[np.unique(farthest)])
        ends = half_length * np.abs(directions @ axis)
        error = float(np.max(directions @ center + ends + radius - reach))
        placed = compose(pose, np.concatenate([center, _turn_from_z(axis)]))
        return MeshShape(Geometry.capsule(radius, half_length, pose=placed, **material), error)
    size = np.ptp(points, axis=0).max()
    chosen = [int(farthest[0])]
    support = np.full(len(directions), -np.inf)
    while True:
        support = np.maximum(support, directions @ points[chosen[-1]])
        gap = reach - support
        worst = int(np.argmax(gap))
        if len(chosen) == MAX_HULL_POINTS or gap[worst] <= 1e-9 * size:
            return MeshShape(
                Geometry.hull(points[chosen], pose=pose, **material), float(max(gap[worst], 0))
            )
        chosen.append(int(farthest[worst]))


def summarize_errors(
    report: Report, place: Place, meshes: Meshes, errors: dict[str, float]
) -> None:
    """Summarizes in one warning how far the shapes are from the meshes that they replace.

    Args:
      report: receives the warning.
      place: where the warning points.
      meshes: the kind of shape.
      errors: :attr:`MeshShape.error` by link name; no warning if empty.
    """
    if not errors:
        return
    worst = max(errors, key=lambda name: errors[name])
    kind = (
        f"hulls of at most {MAX_HULL_POINTS} points"
        if meshes == "hull"
        else "the capsules around them"
    )
    message = f"collision meshes are replaced by {kind} (links {listed(list(errors))})"
    difference = f"their surfaces differ by up to {1e3 * errors[worst]:.2g} mm, on {worst!r}"
    report.note(
        place, f"{message}; {difference}", "if that matters, describe the shape by primitives"
    )


def report_missing_meshes(
    report: Report, place: Place, links: Collection[str], others: Collection[str]
) -> None:
    """Warns of links whose collision meshes are left out.

    Args:
      report: receives the warning.
      place: where it points.
      links: names of the links that have no shape without these meshes; no warning if empty.
      others: names of the links that keep a shape.
    """
    if not links:
        return
    message = (
        f"collision meshes are left out, and links touch nothing without them: {listed(links)}"
    )
    message += f"; only these keep shapes: {listed(others)}" if others else ""
    report.warning(place, message, "read the meshes with meshes='hull' or meshes='capsule'")


def _directions() -> np.ndarray:
    """Unit vectors spread evenly over the sphere, on a Fibonacci spiral, [D, 3]."""
    turn = np.pi * (1 + np.sqrt(5)) * np.arange(_DIRECTIONS)
    z = 1 - (2 * np.arange(_DIRECTIONS) + 1) / _DIRECTIONS
    return np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)


def _bounding_capsule(
    points: np.ndarray, outermost: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Centre [3], axis [3], radius and half length of the smallest capsule along a principal axis
    of ``outermost``.
    """
    axes = np.linalg.svd(outermost - outermost.mean(axis=0))[2]
    return min((_capsule_along(points, np.roll(axes, k, axis=0)) for k in range(3)), key=_volume)


def _capsule_along(
    points: np.ndarray, axes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The enclosing capsule along the first of three axes, centred on the extent of the points in
    the other two.
    """
    along, across = points @ axes[0], points @ axes[1:].T
    middle = 0.5 * (across.min(axis=0) + across.max(axis=0))
    distance = np.linalg.norm(across - middle, axis=1)
    radius = float(distance.max())
    cap = np.sqrt(np.maximum(radius**2 - distance**2, 0))
    low, high = (along + cap).min(), (along - cap).max()
    half_length = float(max(0.5 * (high - low), 0))
    return 0.5 * (low + high) * axes[0] + middle @ axes[1:], axes[0], radius, half_length


def _volume(capsule: tuple[np.ndarray, np.ndarray, float, float]) -> float:
    _, _, radius, half_length = capsule
    return radius**2 * (half_length + 2 / 3 * radius)


def _turn_from_z(axis: np.ndarray) -> np.ndarray:
    """The quaternion that rotates z or -z onto an axis."""
    x, y, z = axis if axis[2] >= 0 else -axis
    turn = np.array([-y, x, 0.0, 1.0 + z])
    return turn / np.linalg.norm(turn) if x or y else IDENTITY[3:]


# --- files --------------------------------------------------------------------------------------

#: What is said of a file that is only a pointer to its content.
LFS_POINTER = "this is a pointer of Git LFS, not the file itself"
LFS_FIX = "fetch the content of the repository's large files: git lfs pull"

Packages = Mapping[str, str | os.PathLike[str]]
"""Folders of ROS packages by the names of the packages."""


def is_lfs_pointer(data: bytes) -> bool:
    """Whether a file's content is a pointer of Git LFS, which stands for a large file that was not
    fetched.
    """
    return data.startswith(b"version https://git-lfs.github.com/")


def _folders_of_packages(package_dirs: Sequence[str | os.PathLike[str]] = ()) -> list[Path]:
    """These folders, and those in which ROS looks for packages."""
    ros = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
    return [Path(folder) for folder in (*package_dirs, *filter(None, ros))]


def find_package(name: str, base: Path) -> Path | None:
    """Finds the folder of a ROS package; ``None`` if there is none.

    It is ``base`` or a folder above it of that name, or lies in one of them, in ``package_dirs`` or
    in ``ROS_PACKAGE_PATH``.
    """
    above = [base.resolve(), *base.resolve().parents]
    places = [folder for folder in above if folder.name == name]
    places += [root / name for root in [*_folders_of_packages(), *above]]
    return next((place for place in places if place.is_dir()), None)


def find_file(
    name: str,
    base: Path,
    package_dirs: Sequence[str | os.PathLike[str]] = (),
    packages: Packages | None = None,
) -> Path | None:
    """Finds a file that a description refers to; ``None`` if it does not exist.

    Args:
      name: a path, relative to ``base`` or absolute, or ``package://PACKAGE/...``, or
        ``file://...``.
      base: the folder of the description.
      package_dirs: folders that contain packages. Those in ``ROS_PACKAGE_PATH`` and those above
        ``base`` are searched as well.
      packages: folders of packages by name; they come first.
    """
    plain = name.removeprefix("file://")
    if "://" not in plain:
        path = base / plain
        return path if path.is_file() else None
    inside = Path(plain.partition("://")[2].lstrip("/"))  # ROS takes package:///PACKAGE, too.
    if packages and inside.parts and inside.parts[0] in packages:
        path = Path(packages[inside.parts[0]], *inside.parts[1:])
        return path if path.is_file() else None
    roots = _folders_of_packages(package_dirs)
    above = [base, *base.resolve().parents]
    places = [root / inside for root in [*roots, *above]]
    # The package's folder may have another name: also look for the path inside the package in
    # folders above the file.
    places += [folder / Path(*inside.parts[1:]) for folder in [*roots, *above[:3]]]
    return next((place for place in places if place.is_file()), None)


def read_vertices(path: Path) -> np.ndarray:
    """Reads the vertices of all meshes in a file, each once, [V, 3].

    Raises:
      ImportError: trimesh, or a package that it needs for this format, is not installed.
      ValueError: the file cannot be read, or a vertex is not finite.
    """
    parts = read_meshes(path, "meshes")
    points = np.concatenate(
        [np.zeros((0, 3)), *(np.asarray(part.vertices, float) for part in parts)]
    )
    if not len(points):
        raise ValueError(f"{path}: it has no vertices")
    # STL repeats a vertex for each of its triangles.
    _, first = np.unique(points, axis=0, return_index=True)
    return points[np.sort(first)]


def read_meshes(path: Path, extra: str) -> list[Any]:
    """Reads all meshes in a file, as trimesh's objects in the frame of the file, with the vertices
    that are in it.

    Args:
      path: the file.
      extra: the extra of artix that brings trimesh, for messages.

    Raises:
      ImportError: trimesh, or a package that it needs for this format, is not installed.
      ValueError: the file cannot be read, or a vertex is not finite.
    """
    try:
        import trimesh
    except ImportError as error:
        raise ImportError(
            f"reading mesh files requires trimesh: pip install 'artix[{extra}]'"
        ) from error
    try:
        with path.open("rb") as file:
            is_pointer = is_lfs_pointer(file.read(64))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    if is_pointer:
        raise ValueError(f"{path}: {LFS_POINTER}; {LFS_FIX}")
    try:
        # By default trimesh drops vertices that are not finite, without a word.
        parts: list[Any] = list(trimesh.load_scene(path, process=False).dump())
        finite = all(np.isfinite(part.vertices).all() for part in parts)
    except ImportError as error:
        raise ImportError(
            f"{path}: cannot be read: {error}; pip install 'artix[{extra}]'"
        ) from error
    # The parsers of trimesh's formats raise exceptions of any type on a broken file.
    except Exception as error:
        raise ValueError(f"{path}: cannot be read as a mesh: {error}") from error
    if not finite:
        raise ValueError(f"{path}: some of its vertices are not finite; export the mesh again")
    return parts
