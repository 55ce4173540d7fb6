"""Shared by the readers of visuals: surfaces on named links."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np

from artix.io.common.diagnostics import DescriptionWarning
from artix.viewer.meshes import TriangleMesh


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


def warn_missing(document: str, link: str, tag: str, file: str, reason: str) -> None:
    """Warns that a mesh cannot be drawn. Collision shapes replace the mesh of a ``visual``."""
    drawn = "its collision shapes are drawn instead of" if tag == "visual" else "nor can its collision shapes have"
    message = f"{document}: link {link!r}: {drawn} the mesh {file!r}: {reason}"
    warnings.warn(message, DescriptionWarning, stacklevel=2)
