"""Writes MJCF."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from artix.io.common.atomic_file import write_atomically
from artix.io.common.diagnostics import Issue
from artix.io.mjcf.body_writer import BodyWriter
from artix.io.mjcf.force_writer import write_actuators, write_equalities, write_tendons
from artix.io.mjcf.geom_writer import write_geoms
from artix.model.articulation import Articulation


def save_mjcf(articulation: Articulation, path: str | Path) -> list[Issue]:
    """Writes an articulation as MJCF.

    Links become bodies, but a massless link between two moving joints becomes another joint of the body below it.
    Frames become sites, drives servos, effort limits motors with a control range, mimic and loop joints equalities,
    tendons tendons, and shapes geoms.

    Args:
      articulation: a single articulation.
      path: the file.

    Returns:
      One warning for each thing that MJCF cannot express.

    Raises:
      DescriptionError: MJCF cannot describe the articulation: a spherical joint with two axes, a helical joint, a
        moving link without mass or rotational inertia, or a name that XML does not allow.
      TypeError, ValueError: the articulation is padded or batched, or a builder would refuse one of its numbers.
      OSError: the file cannot be written.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm7.xml"
      >>> _ = artix.io.save_mjcf(artix.robots.load("arm7"), path)
      >>> print(artix.load_mjcf(path).topology.dof_names[:2])
      ('shoulder_yaw', 'shoulder_pitch')
    """
    writer = BodyWriter(articulation, path)
    document = writer.document()
    write_geoms(writer, document)
    write_actuators(writer, document)
    write_equalities(writer, document)
    write_tendons(writer, document)
    writer.report.raise_errors()
    ET.indent(document)
    text = ET.tostring(document, encoding="unicode") + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
    return writer.report.issues
