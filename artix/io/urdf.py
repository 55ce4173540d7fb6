"""Reading URDF, the Unified Robot Description Format, without opening any other file."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from artix.articulation import Articulation
from artix.builder import STANDARD_GRAVITY, ArticulationBuilder
from artix.io.diagnostics import DescriptionWarning, Issue, Report
from artix.io.poses import IDENTITY, combine_inertias, compose, quaternion_from_x_to
from artix.io.urdf_checks import check_masses, check_mimics, check_tree
from artix.io.urdf_parser import REPAIRS, UrdfJoint, UrdfMimic, UrdfRobot, parse_urdf
from artix.io.xml_tree import is_text
from artix.joint_features import JointFriction
from artix.joints import Axis, Joint

WORLD_LINK = "world"


def load_urdf(
    path_or_text: str | Path,
    *,
    fixed_base: bool | None = None,
    merge_fixed_joints: bool = False,
    repair: Collection[str] = (),
    gravity: npt.ArrayLike = STANDARD_GRAVITY,
    dtype: Any = None,
) -> Articulation:
    """Reads a URDF.

    Links, joints, limits, joint damping and friction, and mimic joints are read; ``continuous`` joints become
    ``REVOLUTE``, whose angle wraps, limited ``revolute`` joints ``REVOLUTE_UNWRAPPED``. Geometry, materials, safety
    controllers, calibrations, transmissions and the extensions of simulators are skipped, and no mesh is opened.
    Links are numbered breadth-first and degrees of freedom follow them, so address joints by name
    (``topology.dofs(name)``) rather than by their order in the file. :func:`check_urdf` lists warnings.

    Args:
      path_or_text: a path, or the URDF itself (a string whose first visible character is ``<``).
      fixed_base: whether the root is fixed to the world; ``None`` fixes it if and only if the root link is called
        ``world``, which is how a URDF itself says so.
      merge_fixed_joints: whether links on fixed joints become part of their parent; each stays as a named frame.
      repair: names of repairs to make where the description is physically impossible, each raised as a
        :class:`~artix.io.diagnostics.DescriptionWarning`. ``"inertia"`` raises the principal inertias as little as a
        rigid body demands, and drops the inertia of links without mass; ``"mimic"`` frees joints that are said to
        follow a joint that is not there, is fixed, or is the joint itself.
      gravity: acceleration of gravity in world axes [m/s^2], shape [3].
      dtype: floating-point type of the arrays; JAX's default when ``None``.

    Raises:
      DescriptionError: the description is refused; its ``issues`` hold all errors with file, line, element and mend.
      OSError: the file cannot be read.
      ValueError: a repair is unknown, or gravity is malformed.
      TypeError: ``path_or_text`` is neither a string nor a path.
    """
    report, robot, order, mimics = _read(path_or_text, repair)
    report.raise_errors()
    assert robot is not None  # An unreadable document is an error.
    for issue in report.repairs:
        warnings.warn(str(issue), DescriptionWarning, stacklevel=2)
    builder = ArticulationBuilder(
        fixed_base=order[0] == WORLD_LINK if fixed_base is None else fixed_base, gravity=gravity, name=robot.name
    )
    _add_links(builder, robot, order, merge_fixed_joints)
    for follower, mimic in mimics.items():
        builder.add_mimic(follower, mimic.joint, gear_ratio=-mimic.multiplier, offset=-mimic.offset)
    return builder.build(dtype)


def check_urdf(path_or_text: str | Path, *, repair: Collection[str] = ()) -> list[Issue]:
    """Everything there is to say about a URDF, errors and warnings by line; never raises for what is in it.

    Args:
      path_or_text: as for :func:`load_urdf`.
      repair: repairs to assume, as for :func:`load_urdf`; what they mend is a warning instead of an error.

    Raises:
      OSError: the file cannot be read.
      ValueError: a repair is unknown.
      TypeError: ``path_or_text`` is neither a string nor a path.
    """
    report, *_ = _read(path_or_text, repair)
    return sorted(report.issues, key=lambda issue: issue.line)


#: The report, the robot unless it is unreadable, the links parents first, and the mimic relations by follower.
_Reading = tuple[Report, UrdfRobot | None, list[str], dict[str, UrdfMimic]]


def _read(path_or_text: str | Path, repair: Collection[str]) -> _Reading:
    repair = (repair,) if isinstance(repair, str) else tuple(repair)
    unknown = [name for name in repair if name not in REPAIRS]
    if unknown:
        raise ValueError(f"unknown repair {unknown[0]!r}; known repairs: {', '.join(REPAIRS)}")
    report = Report("<text>" if is_text(path_or_text) else str(path_or_text))
    robot = parse_urdf(path_or_text, report, repair)
    if robot is None:
        return report, None, [], {}
    order = check_tree(robot, report)
    mimics = check_mimics(robot, report, repair)
    if not report.num_errors:
        check_masses(robot, order, report)
    return report, robot, order, mimics


def _add_links(builder: ArticulationBuilder, robot: UrdfRobot, order: list[str], merge: bool) -> None:
    """Adds the links to the builder, each with those that are merged into it, which become frames."""
    inbound = {joint.child: joint for joint in robot.joints.values()}
    host: dict[str, str] = {}
    pose_in_host: dict[str, np.ndarray] = {}
    members: dict[str, list[str]] = {}
    for name in order:
        if merge and name in inbound and inbound[name].type == "fixed":
            above = inbound[name].parent
            host[name] = host[above]
            pose_in_host[name] = compose(pose_in_host[above], inbound[name].origin)
        else:
            host[name], pose_in_host[name] = name, IDENTITY
        members.setdefault(host[name], []).append(name)
    number: dict[str, int] = {}
    for name, merged in members.items():
        parts = [(robot.links[part], pose_in_host[part]) for part in merged]
        mass, com_pose, inertia = combine_inertias(
            [(link.mass, compose(pose, link.com_pose), link.inertia) for link, pose in parts]
        )
        parent, joint = None, None
        if name in inbound:
            above = inbound[name].parent
            parent, joint = number[host[above]], _joint(inbound[name], pose_in_host[above])
        number[name] = builder.add_link(parent, joint, mass=mass, com_pose=com_pose, inertia=inertia, name=name)
    for name in order:
        if host[name] != name:
            builder.add_frame(name, number[host[name]], pose_in_host[name])


#: Axes of the joint frame for which the joint needs no turned frame, so that its numbers stay exact.
_COORDINATE_AXES = {(1.0, 0.0, 0.0): 0, (0.0, 1.0, 0.0): 1, (0.0, 0.0, 1.0): 2}


def _joint(joint: UrdfJoint, parent_in_host: np.ndarray) -> Joint:
    """The joint, its parent frame given in the link into which the parent is merged."""
    origin = compose(parent_in_host, joint.origin)
    if joint.type == "fixed":
        return Joint.fixed(name=joint.name, parent_pose=origin)
    coordinate = _COORDINATE_AXES.get(tuple(joint.axis.tolist()))
    turn = IDENTITY
    if coordinate is None:
        turn = np.concatenate([IDENTITY[:3], quaternion_from_x_to(joint.axis)])
    options: dict[str, Any] = {
        "name": joint.name,
        "parent_pose": compose(origin, turn),
        "child_pose": turn,
        "limits": [joint.limits],
        "max_velocity": joint.max_velocity,
        "max_force": joint.max_force,
        "friction": JointFriction(static=joint.friction, dynamic=joint.friction, viscous=joint.damping),
    }
    if joint.type == "prismatic":
        return Joint.prismatic((Axis.X, Axis.Y, Axis.Z)[coordinate or 0], **options)
    axis = (Axis.TWIST, Axis.SWING1, Axis.SWING2)[coordinate or 0]
    return Joint.revolute(axis, wrapped=joint.type == "continuous", **options)
