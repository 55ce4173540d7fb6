"""Finds the mesh files that a description refers to, and reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: What is said of a file that is only a pointer to its content.
LFS_POINTER = "this is a pointer of Git LFS, not the file itself"
LFS_FIX = "fetch the content of the repository's large files: git lfs pull"

Packages = Mapping[str, str | os.PathLike[str]]
"""Folders of ROS packages by the names of the packages."""


def is_lfs_pointer(data: bytes) -> bool:
    """Whether a file's content is a pointer of Git LFS, which stands for a large file that was not fetched."""
    return data.startswith(b"version https://git-lfs.github.com/")


def find_package(name: str, base: Path, package_dirs: Sequence[str | os.PathLike[str]] = ()) -> Path | None:
    """Finds the folder of a ROS package; ``None`` if there is none.

    It is ``base`` or a folder above it of that name, or lies in one of them, in ``package_dirs`` or in
    ``ROS_PACKAGE_PATH``.
    """
    roots = [Path(folder) for folder in package_dirs]
    roots += [Path(folder) for folder in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if folder]
    above = [base.resolve(), *base.resolve().parents]
    places = [folder for folder in above if folder.name == name]
    places += [root / name for root in [*roots, *above]]
    return next((place for place in places if place.is_dir()), None)


def find_file(
    name: str, base: Path, package_dirs: Sequence[str | os.PathLike[str]] = (), packages: Packages | None = None
) -> Path | None:
    """Finds a file that a description refers to; ``None`` if it does not exist.

    Args:
      name: a path, relative to ``base`` or absolute, or ``package://PACKAGE/...``, or ``file://...``.
      base: the folder of the description.
      package_dirs: folders that contain packages. Those in ``ROS_PACKAGE_PATH`` and those above ``base`` are searched
        as well.
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
    roots = [Path(folder) for folder in package_dirs]
    roots += [Path(folder) for folder in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if folder]
    above = [base, *base.resolve().parents]
    places = [root / inside for root in [*roots, *above]]
    # The package's folder may have another name: also look for the path inside the package in folders above the file.
    places += [folder / Path(*inside.parts[1:]) for folder in [*roots, *above[:3]]]
    return next((place for place in places if place.is_file()), None)


def read_vertices(path: Path) -> np.ndarray:
    """Reads the vertices of all meshes in a file, each once, [V, 3].

    Raises:
      ImportError: trimesh, or a package that it needs for this format, is not installed.
      ValueError: the file cannot be read, or a vertex is not finite.
    """
    parts = read_meshes(path, "meshes")
    points = np.concatenate([np.zeros((0, 3)), *(np.asarray(part.vertices, float) for part in parts)])
    if not len(points):
        raise ValueError(f"{path}: it has no vertices")
    _, first = np.unique(points, axis=0, return_index=True)  # STL repeats a vertex for each of its triangles.
    return points[np.sort(first)]


def read_meshes(path: Path, extra: str) -> list[Any]:
    """Reads all meshes in a file, as trimesh's objects in the frame of the file, with the vertices that are in it.

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
        raise ImportError(f"reading mesh files requires trimesh: pip install 'artix[{extra}]'") from error
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
        raise ImportError(f"{path}: cannot be read: {error}; pip install 'artix[{extra}]'") from error
    except Exception as error:  # The parsers of trimesh's formats raise exceptions of any type on a broken file.
        raise ValueError(f"{path}: cannot be read as a mesh: {error}") from error
    if not finite:
        raise ValueError(f"{path}: some of its vertices are not finite; export the mesh again")
    return parts
