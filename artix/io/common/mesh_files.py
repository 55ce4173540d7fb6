"""Finds the mesh files that a description refers to, and reads their vertices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def find_file(name: str, base: Path, package_dirs: Sequence[str | os.PathLike[str]] = ()) -> Path | None:
    """Finds a file that a description refers to; ``None`` if it does not exist.

    Args:
      name: a path, relative to ``base`` or absolute, or ``package://PACKAGE/...``, or ``file://...``.
      base: the folder of the description.
      package_dirs: folders that contain packages. Those in ``ROS_PACKAGE_PATH`` and those above ``base`` are searched
        as well.
    """
    plain = name.removeprefix("file://")
    if "://" not in plain:
        path = base / plain
        return path if path.is_file() else None
    inside = Path(plain.partition("://")[2].lstrip("/"))  # ROS takes package:///PACKAGE, too.
    roots = [Path(folder) for folder in package_dirs]
    roots += [Path(folder) for folder in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if folder]
    above = [base, *base.resolve().parents]
    places = [root / inside for root in [*roots, *above]]
    # The package's folder may have another name: also look for the path inside the package in folders above the file.
    places += [folder / Path(*inside.parts[1:]) for folder in [*roots, *above[:3]]]
    return next((place for place in places if place.is_file()), None)


def read_vertices(path: Path) -> np.ndarray:
    """Reads the vertices of all meshes in a file, [V, 3].

    Raises:
      ImportError: trimesh, or a package that it needs for this format, is not installed.
      ValueError: the file cannot be read.
    """
    try:
        import trimesh
    except ImportError as error:
        raise ImportError("reading collision meshes requires trimesh: pip install 'artix[meshes]'") from error
    try:
        parts: list[Any] = list(trimesh.load_scene(path).dump())
        points = np.concatenate([np.zeros((0, 3)), *(np.asarray(part.vertices, float) for part in parts)])
    except ImportError as error:
        raise ImportError(f"{path}: cannot be read: {error}; pip install 'artix[meshes]'") from error
    except Exception as error:  # The parsers of trimesh's formats raise exceptions of any type on a broken file.
        raise ValueError(f"{path}: cannot be read as a mesh: {error}") from error
    if not len(points) or not np.isfinite(points).all():
        raise ValueError(f"{path}: it has no vertices, or some are not finite")
    return points
