"""Loading a robot by its file's suffix."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from artix.articulation import Articulation
from artix.io.mjcf import load_mjcf
from artix.io.urdf import load_urdf

_READERS = {".urdf": load_urdf, ".xml": load_mjcf, ".mjcf": load_mjcf}


def load(path: str | os.PathLike[str], **options: Any) -> Articulation:
    """Reads a robot description with the reader that its suffix names (``.urdf``).

    Args:
      path: the file.
      **options: passed to the reader, see :func:`artix.load_urdf`.

    Raises:
      ValueError: there is no reader for this suffix; the message lists the known ones.
      OSError: the file cannot be read.
      DescriptionError: its content is refused; see the reader.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _READERS:
        raise ValueError(f"{os.fspath(path)}: no reader for the suffix {suffix!r}; there are: {', '.join(_READERS)}")
    return _READERS[suffix](Path(path), **options)
