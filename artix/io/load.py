"""Reading and writing a robot by its file's suffix."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from artix.articulation import Articulation
from artix.io.diagnostics import Issue
from artix.io.urdf import check_urdf, load_urdf
from artix.io.usd import check_usd, load_usd, save_usd

_READERS: dict[str, Callable[..., Articulation]] = {
    ".urdf": load_urdf,
    ".usd": load_usd,
    ".usda": load_usd,
    ".usdc": load_usd,
    ".usdz": load_usd,
}
_CHECKERS: dict[str, Callable[..., list[Issue]]] = {
    ".urdf": check_urdf,
    ".usd": check_usd,
    ".usda": check_usd,
    ".usdc": check_usd,
    ".usdz": check_usd,
}
_WRITERS: dict[str, Callable[..., list[Issue]]] = {
    ".usd": save_usd,
    ".usda": save_usd,
    ".usdc": save_usd,
    ".usdz": save_usd,
}

#: The suffixes of the formats that can be read, and those whose files are not text.
SUFFIXES = tuple(_READERS)
BINARY_SUFFIXES = (".usd", ".usdc", ".usdz")


def load(path: str | os.PathLike[str], **options: Any) -> Articulation:
    """Reads a robot description with the reader that its suffix names.

    ``.urdf`` is read by :func:`artix.load_urdf`, ``.usd``, ``.usda``, ``.usdc`` and ``.usdz`` by
    :func:`artix.load_usd`.

    Args:
      path: the file.
      **options: passed to the reader.

    Raises:
      ValueError: there is no reader for this suffix; the message lists the known ones.
      OSError: the file cannot be read.
      DescriptionError: its content is refused; see the reader.
    """
    return _by_suffix(path, _READERS, "reader")(Path(path), **options)


def check(path: str | os.PathLike[str], **options: Any) -> list[Issue]:
    """Everything there is to say about a robot description, by the checker that its suffix names; see :func:`load`."""
    return _by_suffix(path, _CHECKERS, "checker")(Path(path), **options)


def save(articulation: Articulation, path: str | os.PathLike[str], **options: Any) -> list[Issue]:
    """Writes a robot with the writer that the suffix names.

    ``.usda``, ``.usdc``, ``.usd`` and ``.usdz`` are written by :func:`artix.save_usd`.

    Args:
      articulation: a single articulation.
      path: the file.
      **options: passed to the writer.

    Returns:
      What the format cannot say, one warning each.

    Raises:
      ValueError: there is no writer for this suffix; the message lists the known ones.
      OSError: the file cannot be written.
    """
    return _by_suffix(path, _WRITERS, "writer")(articulation, Path(path), **options)


def _by_suffix(path: str | os.PathLike[str], table: dict[str, Callable[..., Any]], what: str) -> Callable[..., Any]:
    suffix = Path(path).suffix.lower()
    if suffix not in table:
        raise ValueError(f"{os.fspath(path)}: no {what} for the suffix {suffix!r}; there are: {', '.join(table)}")
    return table[suffix]
