"""What the readers of visuals share: surfaces on links that are given by name."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np

from artix.io.common.diagnostics import DescriptionWarning
from artix.viewer.meshes import TriangleMesh


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """A surface as a file has it: on a link by its name, in a pose [7] in the link's frame.

    ``is_raw`` says that the mesh is from a file, and may have too many triangles and no sharp edges.
    """

    link: str
    mesh: TriangleMesh
    pose: np.ndarray
    color: tuple[float, float, float] | None = None
    opacity: float = 1.0
    is_raw: bool = False


def warn_missing(document: str, link: str, tag: str, file: str, reason: str) -> None:
    """Warns that a mesh is not drawn, by its file, link and element; collision shapes replace those of ``visual``."""
    drawn = "its collision shapes are drawn instead of" if tag == "visual" else "nor can its collision shapes have"
    message = f"{document}: link {link!r}: {drawn} the mesh {file!r}: {reason}"
    warnings.warn(message, DescriptionWarning, stacklevel=2)
