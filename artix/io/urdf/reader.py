"""Reads URDF, the Unified Robot Description Format. Opens no other file unless asked to read meshes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from artix.io.common.diagnostics import Issue, Place, Report
from artix.io.common.inertias import check_inertias
from artix.io.common.links import ROTATIONS, TRANSLATIONS, LinkDescription, add_links, joint_frame
from artix.io.common.meshes import Meshes, Packages
from artix.io.common.options import ReadOptions
from artix.io.common.poses import IDENTITY, compose, quaternion_from_x_to
from artix.io.common.xml_tree import origin
from artix.io.urdf.checks import (
    check_composites,
    check_masses,
    check_meshes_left_out,
    check_mimics,
    check_tree,
    check_unread,
)
from artix.io.urdf.parser import COMPOSITE_TYPES, UrdfJoint, UrdfMimic, UrdfRobot, parse_urdf
from artix.model.articulation import Articulation
from artix.model.builder import STANDARD_GRAVITY, ArticulationBuilder
from artix.model.joints import CompositeJoint, Joint, JointFriction

WORLD_LINK = "world"

#: The repairs that can be requested by name.
REPAIRS = ("inertia", "mimic")

#: Rotation to a frame whose z axis is the x axis of the original one.
_X_TO_Z = np.array([0.0, 0.0, 0.0, 0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)])


def load_urdf(
    path_or_text: str | Path,
    *,
    fixed_base: bool | None = None,
    merge_fixed_joints: bool = False,
    repair: Collection[str] = (),
    strict: bool = False,
    meshes: Meshes | None = None,
    packages: Packages | None = None,
    gravity: npt.ArrayLike = STANDARD_GRAVITY,
    dtype: Any = None,
) -> Articulation:
    """Reads a robot from a URDF.

    The reader supports links, joints with limits, damping and friction, mimic joints, the shapes of ``<collision>``
    and, on request, its meshes. ``continuous`` joints become ``REVOLUTE``, which may be wheels; ``revolute``
    joints become ``REVOLUTE_UNWRAPPED``; ``planar`` and ``floating`` joints become the joint sequences of
    :class:`~artix.CompositeJoint`. ``<visual>``, materials, safety controllers, calibrations, transmissions and
    extensions of simulators are skipped. URDF has no contact friction, so the ground's friction applies. Links are
    numbered breadth-first and degrees of freedom in the order of their links, so address joints by name
    (``topology.dofs(name)``) rather than by their order in the file. :func:`check_urdf` lists all warnings.

    Args:
      path_or_text: a path, or the URDF itself (a string whose first visible character is ``<``).
      fixed_base: as for :func:`artix.load`; ``None`` fixes the root if and only if its link is called ``world``, which
        is URDF's convention for a fixed base.
      merge_fixed_joints: as for :func:`artix.load`.
      repair: as for :func:`artix.load`; ``"mimic"`` frees joints that mimic a missing or fixed joint or themselves.
      strict: as for :func:`artix.load`: also an ``<inertial>`` without ``<mass>`` or ``<inertia>``, missing or
        exchanged limits of position, limits of effort and velocity that are zero, a second element where there may be
        one, and malformed shapes.
      meshes: as for :func:`artix.load`. The files are read with trimesh (extra ``meshes``).
      packages: as for :func:`artix.load`. Others are searched for above the file and in ``ROS_PACKAGE_PATH``.
      gravity: acceleration of gravity in world axes [m/s^2], shape [3].
      dtype: as for :func:`artix.load`.

    Returns:
      The articulation.

    Raises:
      DescriptionError: the description is refused; its ``issues`` list all errors with file, line, element and fix.
      OSError: the file cannot be read.
      ImportError: there are meshes to read, and trimesh is not installed.
      ValueError: a repair or the replacement for meshes is unknown, or gravity is malformed.
      TypeError: ``path_or_text`` is neither a string nor a path.

    Examples:
      >>> text = '''
      ... <robot name="rod">
      ...   <link name="world"/>
      ...   <link name="rod">
      ...     <inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
      ...   </link>
      ...   <joint name="hinge" type="continuous">
      ...     <parent link="world"/><child link="rod"/><axis xyz="0 1 0"/>
      ...   </joint>
      ... </robot>'''
      >>> rod = artix.load_urdf(text)
      >>> print(rod.topology.fixed_base, rod.topology.dof_names)
      True ('hinge',)
    """
    options = ReadOptions(
        fixed_base=fixed_base,
        merge_fixed_joints=merge_fixed_joints,
        repair=repair,
        strict=strict,
        meshes=meshes,
        packages=packages,
        dtype=dtype,
        known_repairs=REPAIRS,
    )
    report, robot, order, mimics = _read(path_or_text, options)
    report.finish()
    assert robot is not None  # An unreadable document is an error.
    builder = ArticulationBuilder(
        fixed_base=_is_fixed(order, options.fixed_base),
        gravity=gravity,
        name=robot.name,
        strict=False,
    )
    inbound = {joint.child: joint for joint in robot.joints.values()}
    links = [description for name in order for description in _descriptions(robot, name, inbound.get(name))]
    add_links(builder, links, merge_fixed_joints=options.merge_fixed_joints)
    for follower, mimic in mimics.items():
        builder.add_mimic(follower, mimic.joint, gear_ratio=-mimic.multiplier, offset=-mimic.offset)
    return builder.build(options.dtype)


def check_urdf(
    path_or_text: str | Path,
    *,
    repair: Collection[str] = (),
    strict: bool = False,
    meshes: Meshes | None = None,
    packages: Packages | None = None,
    fixed_base: bool | None = None,
) -> list[Issue]:
    """Lists all errors, warnings and notes of a URDF, by line; its content never makes this raise.

    Arguments and errors are those of :func:`load_urdf`, which raises the warnings of this list and refuses a URDF
    with errors. Here the content of the URDF never raises an error.

    Returns:
      The issues, one warning or note for each kind; none for a description without any.

    Examples:
      >>> text = '''
      ... <robot name="rod">
      ...   <link name="world"/>
      ...   <link name="rod"/>
      ...   <joint name="hinge" type="hinged"><parent link="world"/><child link="rod"/></joint>
      ... </robot>'''
      >>> print([(issue.line, issue.element) for issue in artix.io.check_urdf(text) if issue.severity == "error"])
      [(5, '<joint name="hinge">')]
    """
    options = ReadOptions(
        fixed_base=fixed_base,
        repair=repair,
        strict=strict,
        meshes=meshes,
        packages=packages,
        known_repairs=REPAIRS,
    )
    report, *_ = _read(path_or_text, options)
    return sorted(report.issues, key=lambda issue: issue.line)


#: The report, the robot (``None`` if unreadable), the link names with parents first, mimic relations by follower.
_Reading = tuple[Report, UrdfRobot | None, list[str], dict[str, UrdfMimic]]


def _read(path_or_text: str | Path, options: ReadOptions) -> _Reading:
    report = Report(origin(path_or_text)[0], strict=options.strict)
    robot = parse_urdf(path_or_text, report, options)
    if robot is None:
        return report, None, [], {}
    check_unread(robot.element, report)
    places: dict[str, Place] = {link.name: link.inertial or link.element for link in robot.links.values()}
    links = check_inertias(list(robot.links.values()), places, report, repair=options.repairs_inertia)
    robot = dataclasses.replace(robot, links={link.name: link for link in links})
    order = check_tree(robot, report)
    mimics = check_mimics(robot, report, options.repair)
    if not report.num_errors:
        check_masses(robot, order, report)
        check_composites(robot, order, report)
        check_meshes_left_out(robot, order, report, fixed_base=_is_fixed(order, options.fixed_base))
    return report, robot, order, mimics


def _is_fixed(order: list[str], fixed_base: bool | None) -> bool:
    return order[0] == WORLD_LINK if fixed_base is None else fixed_base


def _descriptions(robot: UrdfRobot, name: str, joint: UrdfJoint | None) -> list[LinkDescription]:
    """The link, preceded by the massless links of a joint with several degrees of freedom."""
    link = robot.links[name]
    parent = None if joint is None else joint.parent
    joints = list[Joint | None]([None])
    if joint is not None:
        joints = [*_composite(joint).named_joints(name)] if joint.type in COMPOSITE_TYPES else [_joint(joint)]
    between = []
    for part in joints[:-1]:
        assert part is not None  # Only the root has no joint.
        part_link = f"{name}:{part.name}"
        between.append(LinkDescription(part_link, parent, part, 0.0, IDENTITY, np.zeros((3, 3))))
        parent = part_link
    return [
        *between,
        LinkDescription(name, parent, joints[-1], link.mass, link.com_pose, link.inertia, {}, link.geometries),
    ]


def _composite(joint: UrdfJoint) -> CompositeJoint:
    """The floating joint, or the planar joint, whose axis is the normal of its plane."""
    if joint.type == "floating":
        return CompositeJoint.free(name=joint.name, parent_pose=joint.origin)
    coordinate, turn = joint_frame(joint.axis)
    if coordinate != 2:
        turn = compose(np.concatenate([IDENTITY[:3], quaternion_from_x_to(joint.axis)]), _X_TO_Z)
    return CompositeJoint.planar(name=joint.name, parent_pose=compose(joint.origin, turn), child_pose=turn)


def _joint(joint: UrdfJoint) -> Joint:
    if joint.type == "fixed":
        return Joint.fixed(name=joint.name, parent_pose=joint.origin)
    coordinate, turn = joint_frame(joint.axis)
    options: dict[str, Any] = {
        "name": joint.name,
        "parent_pose": compose(joint.origin, turn),
        "child_pose": turn,
        "limits": [joint.limits],
        "max_velocity": joint.max_velocity,
        "max_force": joint.max_force,
        "friction": JointFriction(static=joint.friction, dynamic=joint.friction, viscous=joint.damping),
    }
    if joint.type == "prismatic":
        return Joint.prismatic(TRANSLATIONS[coordinate], **options)
    return Joint.revolute(ROTATIONS[coordinate], wrapped=joint.type == "continuous", **options)
