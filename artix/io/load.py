"""``load``, ``check`` and ``save``: the reader or writer follows from the file's suffix."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from artix.io.archive.npz import check_archive, load_archive, save_archive
from artix.io.common.diagnostics import Issue
from artix.io.mjcf.reader import check_mjcf, load_mjcf
from artix.io.mjcf.writer import save_mjcf
from artix.io.urdf.reader import check_urdf, load_urdf
from artix.io.urdf.writer import save_urdf
from artix.io.urdf.xacro import check_xacro, load_xacro
from artix.io.usd import check_usd, load_usd, save_usd
from artix.io.usd.writer import SUFFIXES as USD_SUFFIXES
from artix.model.articulation import Articulation

MJCF_SUFFIXES = (".xml", ".mjcf")

_READERS: dict[str, Callable[..., Articulation]] = {
    ".urdf": load_urdf,
    ".xacro": load_xacro,
    **dict.fromkeys(MJCF_SUFFIXES, load_mjcf),
    **dict.fromkeys(USD_SUFFIXES, load_usd),
    ".npz": load_archive,
}
_CHECKERS: dict[str, Callable[..., list[Issue]]] = {
    ".urdf": check_urdf,
    ".xacro": check_xacro,
    **dict.fromkeys(MJCF_SUFFIXES, check_mjcf),
    **dict.fromkeys(USD_SUFFIXES, check_usd),
    ".npz": check_archive,
}
_WRITERS: dict[str, Callable[..., list[Issue]]] = {
    ".urdf": save_urdf,
    **dict.fromkeys(MJCF_SUFFIXES, save_mjcf),
    **dict.fromkeys(USD_SUFFIXES, save_usd),
    ".npz": save_archive,
}

#: Suffixes of all readable formats, and of those whose files are not text.
SUFFIXES = tuple(_READERS)
BINARY_SUFFIXES = (".usd", ".usdc", ".usdz", ".npz")


def load(path: str | os.PathLike[str], **options: Any) -> Articulation:
    """Reads a robot description with the reader for its suffix.

    :func:`artix.load_urdf` reads ``.urdf``, :func:`artix.load_xacro` ``.xacro``, :func:`artix.load_mjcf` ``.xml`` and
    ``.mjcf``, :func:`artix.load_usd` ``.usd``, ``.usda``, ``.usdc`` and ``.usdz``, :func:`artix.load_archive` ``.npz``.

    Args:
      path: the file.
      **options: passed to the reader.

    Returns:
      The articulation.

    Raises:
      ValueError: there is no reader for this suffix; the message lists the known ones.
      OSError: the file cannot be read.
      DescriptionError: its content is refused; see the reader.

    Examples:
      >>> arm = artix.load(artix.robots.path("arm7"), fixed_base=True)
      >>> print(arm.topology.num_dofs)
      7
    """
    return _by_suffix(path, _READERS, "reader")(Path(path), **options)


def check(path: str | os.PathLike[str], **options: Any) -> list[Issue]:
    """Lists all issues of a robot description; the suffix selects the checker, as for :func:`load`.

    Args:
      path: the file.
      **options: passed to the checker.

    Returns:
      The issues, none for a description without errors and warnings.

    Raises:
      ValueError: there is no checker for this suffix.
      OSError: the file cannot be read.

    Examples:
      >>> print(artix.check(artix.robots.path("quadruped")))  # no issues
      []
    """
    return _by_suffix(path, _CHECKERS, "checker")(Path(path), **options)


def save(articulation: Articulation, path: str | os.PathLike[str], **options: Any) -> list[Issue]:
    """Writes a robot with the writer for the file's suffix.

    :func:`artix.save_archive` writes ``.npz``, which is lossless; :func:`artix.save_urdf` ``.urdf``,
    :func:`artix.save_mjcf` ``.xml`` and ``.mjcf``, :func:`artix.save_usd` ``.usda``, ``.usdc``, ``.usd`` and ``.usdz``,
    each as far as its format allows.

    Args:
      articulation: a single articulation.
      path: the file.
      **options: passed to the writer.

    Returns:
      One warning for each thing that the format cannot express.

    Raises:
      ValueError: there is no writer for this suffix; the message lists the known ones.
      OSError: the file cannot be written.
      DescriptionError: the format cannot describe the articulation at all; see the writer.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm7.urdf"
      >>> for warning in artix.save(artix.robots.load("arm7"), path):
      ...     print(warning.message)
      ...
      URDF does not say whether the base is fixed
      >>> print(artix.load(path).topology.dof_names == artix.robots.load("arm7").topology.dof_names)
      True
    """
    return _by_suffix(path, _WRITERS, "writer")(articulation, Path(path), **options)


def _by_suffix(path: str | os.PathLike[str], table: dict[str, Callable[..., Any]], what: str) -> Callable[..., Any]:
    suffix = Path(path).suffix.lower()
    if suffix not in table:
        raise ValueError(f"{os.fspath(path)}: no {what} for the suffix {suffix!r}; choose from: {', '.join(table)}")
    return table[suffix]
