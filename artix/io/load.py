"""``load``, ``check`` and ``save``: the reader or writer follows from the file's suffix."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from artix.io.archive import check_archive, load_archive, save_archive
from artix.io.common.description import ReadOptions, Surface
from artix.io.common.diagnostics import Issue
from artix.io.mjcf.geometries import mjcf_visuals
from artix.io.mjcf.reader import check_mjcf, load_mjcf
from artix.io.mjcf.writer import save_mjcf
from artix.io.urdf.parser import urdf_visuals
from artix.io.urdf.reader import check_urdf, check_xacro, expand_xacro, load_urdf, load_xacro
from artix.io.urdf.writer import save_urdf
from artix.io.usd import check_usd, load_usd, save_usd
from artix.io.usd.reader import usd_visuals
from artix.io.usd.writer import SUFFIXES as USD_SUFFIXES
from artix.model.articulation import Articulation


@dataclasses.dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
      read: reads an articulation from a path.
      check: lists the issues of the file at a path.
      write: writes an articulation to a path; ``None`` for a format that is only read.
      visuals: reads what the file at a path draws. This does not need the rest of the file to be without errors.
      suffixes: the suffixes of its files.
    """

    read: Callable[..., Articulation]
    check: Callable[..., list[Issue]]
    write: Callable[..., list[Issue]] | None
    visuals: Callable[[Path, ReadOptions], list[Surface]]
    suffixes: tuple[str, ...]


def _xacro_visuals(path: Path, options: ReadOptions) -> list[Surface]:
    return urdf_visuals(expand_xacro(path, packages=options.packages))


URDF = Format(load_urdf, check_urdf, save_urdf, lambda path, _: urdf_visuals(path), (".urdf",))
XACRO = Format(load_xacro, check_xacro, None, _xacro_visuals, (".xacro",))
MJCF = Format(load_mjcf, check_mjcf, save_mjcf, lambda path, _: mjcf_visuals(path), (".xml", ".mjcf"))
USD = Format(load_usd, check_usd, save_usd, lambda path, options: usd_visuals(path, options.root), USD_SUFFIXES)
ARCHIVE = Format(load_archive, check_archive, save_archive, lambda path, _: [], (".npz",))

FORMATS = {suffix: each for each in (URDF, XACRO, MJCF, USD, ARCHIVE) for suffix in each.suffixes}

#: Suffixes of all readable formats, and of those whose files are not text.
SUFFIXES = tuple(FORMATS)
BINARY_SUFFIXES = (".usd", ".usdc", ".usdz", ".npz")


def load(path: str | os.PathLike[str], **options: Any) -> Articulation:
    """Reads a robot description with the reader for its suffix.

    :func:`artix.load_urdf` reads ``.urdf``, :func:`artix.load_xacro` ``.xacro``, :func:`artix.load_mjcf` ``.xml`` and
    ``.mjcf``, :func:`artix.load_usd` ``.usd``, ``.usda``, ``.usdc`` and ``.usdz``, :func:`artix.load_archive` ``.npz``.

    Options have one meaning in all formats. Each reader says what its format adds to it, and has further options;
    xacro has URDF's.
    A :class:`~artix.DescriptionWarning` names what is read otherwise than it is written; :func:`artix.check` lists the
    same before loading.

    Args:
      path: the file.
      **options: keywords of the reader, among them these.

        - ``fixed_base`` (URDF, MJCF, USD): whether the root is fixed to the world; ``None`` follows the file.
        - ``merge_fixed_joints`` (URDF, MJCF, USD): whether links on fixed joints become part of their parent; each
          stays as a named frame.
        - ``repair`` (URDF, MJCF, USD): names of repairs to apply to invalid numbers, each with a warning.
          ``"inertia"`` raises principal moments just enough to make an inertia physically possible, and drops the
          inertia of links without mass. Without it, impossible inertias are used as they are, with one warning for all
          links, and negative moments are refused.
        - ``strict`` (URDF, MJCF, USD): whether to refuse what is otherwise read with a warning that says how: what is
          left out or assumed, and physically impossible inertias.
        - ``meshes`` (URDF, MJCF, USD): replacement for collision meshes: a ``"hull"`` of at most 16 of their vertices,
          or the enclosing ``"capsule"``; ``None`` leaves them out. The checkers report the distance of these shapes
          from the mesh.
        - ``self_contact`` (MJCF, USD): whether shapes of links touch each other wherever the filters of the file
          allow it.
        - ``packages`` (URDF): folders of ROS packages by name, for ``package://NAME/...`` and ``$(find NAME)``.
        - ``gravity`` (URDF, USD): acceleration of gravity in world axes [m/s^2], shape [3]; ``None`` takes the
          stage's, or 9.81 m/s^2 downwards in a URDF. An MJCF has its own.
        - ``dtype`` (URDF, MJCF, USD, npz): floating-point type of the arrays; when ``None``, JAX's default, or that
          of the archive.

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
    return _function(path, "read", "reader")(Path(path), **options)


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
    return _function(path, "check", "checker")(Path(path), **options)


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
    return _function(path, "write", "writer")(articulation, Path(path), **options)


def _function(path: str | os.PathLike[str], action: Literal["read", "check", "write"], name: str) -> Callable[..., Any]:
    """What the format of a file has for an action; ``name`` is its name in the message if there is none."""
    functions = {suffix: getattr(each, action) for suffix, each in FORMATS.items()}
    known = [suffix for suffix, function in functions.items() if function is not None]
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        raise ValueError(f"{os.fspath(path)}: no {name} for the suffix {suffix!r}; choose from: {', '.join(known)}")
    return functions[suffix]
