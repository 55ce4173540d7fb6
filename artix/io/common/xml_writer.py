"""What the writers of URDF and MJCF share: numbers in attributes, and reports on what a format cannot express."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt

from artix.io.common.diagnostics import Location, Report
from artix.io.common.unsupported import unsupported_features, writable_topology
from artix.io.common.values import shortest
from artix.io.common.xml_tree import NOT_XML
from artix.math.arrays import host_arrays
from artix.model.articulation import Articulation


class XmlWriter:
    """Writes one articulation in a format made of XML.

    Args:
      articulation: a single articulation.
      format_name: the format's name in messages.
      path: the file being written.
      supported: the features that the format expresses or the writer handles; see :func:`unsupported_features`.

    Attributes:
      articulation: the articulation, with NumPy arrays.
      topology: its topology.
      report: what the format cannot express, and why it cannot describe the articulation at all.
    """

    def __init__(
        self, articulation: Articulation, format_name: str, path: str | Path, supported: Collection[str]
    ) -> None:
        self.articulation = host_arrays(articulation)
        self.topology = writable_topology(self.articulation)
        self.report = Report(str(path))
        self._refuse_names()
        for element, what in unsupported_features(self.articulation, supported):
            self.warn(element, f"{format_name} cannot express {what}")

    def warn(self, element: str, message: str, fix: str = "keep it in an .npz archive") -> None:
        """Reports what the format cannot express."""
        self.report.warning(Location(element), message, fix)

    def refuse(self, element: str, message: str, fix: str = "write an .npz archive instead") -> None:
        """Reports why the articulation cannot be written."""
        self.report.error(Location(element), message, fix)

    def pose(self, field: str, index: int) -> np.ndarray:
        """A pose out of one of the articulation's arrays, [7]."""
        return np.asarray(getattr(self.articulation, field)[index], float)

    def numbers(self, values: npt.ArrayLike) -> str:
        """Numbers as by :meth:`number`, separated by spaces."""
        return " ".join(map(self.number, np.asarray(values, float)))

    def number(self, value: npt.ArrayLike) -> str:
        """The shortest number that reads back as this one in the articulation's dtype; never ``-0.0``."""
        dtype = np.promote_types(self.articulation.dtype, np.float32)
        return repr(float(shortest(np.asarray(value, dtype))) + 0.0).removesuffix(".0")

    def _refuse_names(self) -> None:
        topology = self.topology
        names = (topology.name, *topology.link_names, *topology.joint_names, *topology.frame_names)
        for name in (*names, *(shape.name for shape in topology.geometries)):
            if NOT_XML.search(name):
                fix = "rename it, or write an .npz archive instead"
                self.refuse(repr(name)[:60], "its name has characters that XML does not allow", fix)
        self.report.raise_errors()
