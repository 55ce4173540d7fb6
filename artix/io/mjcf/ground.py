"""Reads the ground of an MJCF: its planes and height fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from artix.contact.ground import Ground, Surface
from artix.contact.height_field import HeightField
from artix.contact.plane import Plane
from artix.io.common.diagnostics import Report
from artix.io.common.poses import compose, rotation_matrix
from artix.io.common.xml_tree import origin
from artix.io.mjcf.bodies import geom_type, pose_from_wxyz
from artix.io.mjcf.contacts import ground_friction
from artix.io.mjcf.source import MjcfSource, compile_mjcf

_TOLERANCE = 1e-9


def load_mjcf_ground(path_or_text: str | Path, *, dtype: Any = None) -> Ground:
    """Reads the ground of an MJCF model: its static planes and height fields.

    A plane is unbounded, whatever its size. A height field interpolates bilinearly between the heights of the file,
    whereas MuJoCo's consists of triangles; the two agree at the grid points and along the grid lines. Friction is
    MuJoCo's for the geoms of the same file: the larger of two coefficients, or with ``priority`` only that of the
    ground or of the robot (``friction_combination``). ``solref`` and ``solimp`` do not define a stiffness (MuJoCo
    scales them by the masses in contact), so surfaces are rigid.

    Args:
      path_or_text: a path, or the MJCF itself.
      dtype: floating-point type of the arrays; JAX's default when ``None``.

    Returns:
      The ground, with one surface for each plane and height field, in world axes [m].

    Raises:
      DescriptionError: the model is refused, or a height field is not aligned with the world axes.
      ValueError: there is no plane and no height field.
      OSError: the file cannot be read.
      ImportError: ``mujoco`` (extra ``mjcf``) is not installed.

    Examples:
      >>> model = '<mujoco><worldbody><geom type="plane" size="1 1 1" friction="0.7"/></worldbody></mujoco>'
      >>> print(artix.load_mjcf_ground(model).surfaces[0].friction)
      0.7
    """
    report = Report(origin(path_or_text)[0])
    source = compile_mjcf(path_or_text, report)
    report.raise_errors()
    assert source is not None
    friction = ground_friction(source.model)
    surfaces = [_surface(source, geom, mu, dtype) for geom, mu in friction.surfaces.items()]
    report.raise_errors()
    if not surfaces:
        raise ValueError(f"{report.file}: it has no plane and no height field; artix.Ground.flat() is level ground")
    return Ground(tuple(surfaces), friction_combination=friction.combination)


def _surface(source: MjcfSource, geom: int, friction: float, dtype: Any) -> Surface:
    model = source.model
    pose = pose_from_wxyz(model.geom_pos[geom], model.geom_quat[geom])
    body = int(model.geom_bodyid[geom])
    while body:
        pose = compose(pose_from_wxyz(model.body_pos[body], model.body_quat[body]), pose)
        body = int(model.body_parentid[body])
    axes = rotation_matrix(pose[3:])
    if geom_type(model, geom) == "PLANE":
        return Plane.of(normal=axes[:, 2], point=pose[:3], friction=friction, dtype=dtype)
    if np.abs(axes - np.eye(3)).max() > _TOLERANCE:
        message = "the height field is not aligned with the world axes"
        source.report.error(
            source.place("geom", geom), message, "write its heights along x and y, without euler or quat"
        )
    field = int(model.geom_dataid[geom])
    rows, columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
    first, size = int(model.hfield_adr[field]), model.hfield_size[field]
    heights = np.array(model.hfield_data[first : first + rows * columns], float).reshape(rows, columns).T * size[2]
    return HeightField.of(
        heights,
        spacing=2.0 * size[:2] / (np.array(heights.shape) - 1),
        origin=pose[:3] - [size[0], size[1], 0.0],
        friction=friction,
        dtype=dtype,
    )
