"""Writing MJCF."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from artix.io.common.diagnostics import DescriptionError, Issue
from artix.io.mjcf.body_writer import BodyWriter
from artix.io.mjcf.force_writer import write_actuators, write_equalities, write_tendons
from artix.io.mjcf.geom_writer import write_geoms
from artix.model.articulation import Articulation


def save_mjcf(articulation: Articulation, path: str | Path) -> list[Issue]:
    """Writes an articulation as an MJCF.

    Links become bodies, a link without mass between two moving joints becomes a further joint of the body below it,
    frames become sites, drives become servos, effort limits become motors with a range, mimic joints, loop joints and
    tendons become equalities and tendons, and shapes become geoms.

    Args:
      articulation: a single articulation.
      path: the file.

    Returns:
      What MJCF cannot say, one warning each.

    Raises:
      DescriptionError: a joint or link has no counterpart: a spherical joint with two axes, a moving link without mass
        or rotational inertia, or a name cannot be in XML.
      TypeError, ValueError: the articulation is padded or batched.
      OSError: the file cannot be written.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm7.xml"
      >>> _ = artix.io.save_mjcf(artix.robots.load("arm7"), path)
      >>> print(artix.load_mjcf(path).topology.dof_names[:2])
      ('shoulder_yaw', 'shoulder_pitch')
    """
    writer = BodyWriter(articulation, str(path))
    document = writer.document()
    write_geoms(writer, document)
    write_actuators(writer, document)
    write_equalities(writer, document)
    write_tendons(writer, document)
    if writer.errors:
        raise DescriptionError(writer.errors)
    ET.indent(document)
    Path(path).write_text(ET.tostring(document, encoding="unicode") + "\n", encoding="utf-8")
    return writer.issues
