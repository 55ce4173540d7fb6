"""Reads URDF, the Unified Robot Description Format.

It checks consistency: links form one tree, joints move mass, mimic joints follow another joint.
Reading URDF opens no other file unless meshes are asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from artix.io.common.description import (
    Description,
    LinkDescription,
    Reading,
    ReadOptions,
    Robot,
    UrdfOptions,
    build,
    check_inertias,
    joint_frame,
    merge_links,
    takes,
)
from artix.io.common.diagnostics import Issue, Place, Report, listed
from artix.io.common.meshes import report_missing_meshes
from artix.io.common.poses import compose, quaternion_from_x_to, rotation_pose
from artix.io.common.xml_tree import Element, origin
from artix.io.urdf.parser import (
    COMPOSITE_TYPES,
    MOVING_TYPES,
    UrdfJoint,
    UrdfMimic,
    UrdfRobot,
    parse_urdf,
)
from artix.model.articulation import Articulation
from artix.model.builder import STANDARD_GRAVITY
from artix.model.couplings import MimicJoint
from artix.model.joints import ROTATIONS, TRANSLATIONS, CompositeJoint, Joint, JointFriction

#: By tag, the attributes and the child elements that are read, or have no effect on the motion. The
#: content of elements without an entry is not checked here.
_KNOWN = {
    "robot": (
        ("name", "version"),
        ("link", "joint", "material", "transmission", "gazebo", "sensor", "ros2_control"),
    ),
    "link": (("name", "type"), ("inertial", "visual", "collision")),
    "inertial": ((), ("origin", "mass", "inertia")),
    "mass": (("value",), ()),
    "inertia": (("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), ()),
    "collision": (("name",), ("origin", "geometry", "material", "verbose")),
    "joint": (
        ("name", "type"),
        ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "calibration"),
    ),
    "origin": (("xyz", "rpy"), ()),
    "parent": (("link",), ()),
    "child": (("link",), ()),
    "axis": (("xyz",), ()),
    "limit": (("lower", "upper", "effort", "velocity"), ()),
    "dynamics": (("damping", "friction"), ()),
    "mimic": (("joint", "multiplier", "offset"), ()),
}


#: A floating base from which a chain of so many joints leaves, and nothing else, is probably an
#: arm's.
_ARM_JOINTS = 4


def check_unread(robot: Element, report: Report) -> None:
    """Warns of elements and attributes that URDF does not define or artix does not read, all in one
    warning.
    """
    unread: dict[str, list[Element]] = {}
    pending = [robot]
    for element in pending:
        attributes, children = _KNOWN[element.tag]
        for name in element.attributes:
            if name not in attributes and not name.startswith("xmlns"):
                unread.setdefault(f"attribute {name!r} of <{element.tag}>", []).append(element)
        for child in element.children:
            if child.tag not in children:
                unread.setdefault(f"<{child.tag}> in <{element.tag}>", []).append(child)
            elif child.tag in _KNOWN:
                pending.append(child)
    if unread:
        first = min((elements[0] for elements in unread.values()), key=lambda element: element.line)
        counts = [
            f"{what} ({len(of)} times)" if len(of) > 1 else what for what, of in unread.items()
        ]
        report.warning(
            first,
            f"not read: {listed(counts)}",
            "correct what is misspelt; else nothing, unless it matters",
        )


def check_tree(robot: UrdfRobot, report: Report) -> list[str]:
    """The names of the links, breadth-first, siblings in the order of their joints in the file.

    Reports unknown links, links with two parents, several roots and cycles; the list is complete if
    there are none.
    """
    before = report.num_errors
    inbound: dict[str, UrdfJoint] = {}
    children: dict[str, list[str]] = {name: [] for name in robot.links}
    for joint in robot.joints.values():
        unknown = [
            (end, link)
            for end, link in (("parent", joint.parent), ("child", joint.child))
            if link not in children
        ]
        for end, link in unknown:
            report.error(
                joint.element,
                f"there is no link called {link!r}, its {end}",
                "correct the name or add the link",
            )
        if joint.child in inbound:
            message = (
                f"link {joint.child!r} has a second parent; the first is by joint "
                f"{inbound[joint.child].name!r}"
            )
            report.error(joint.element, message, "a URDF is a tree: remove one of the joints")
        elif not unknown:
            inbound[joint.child] = joint
            children[joint.parent].append(joint.child)
    roots = [name for name in robot.links if name not in inbound]
    order = list(roots)
    for link in order:
        order += children[link]
    # A link or joint that could not be read also breaks the tree; report only the cause.
    if robot.is_complete and report.num_errors == before:
        _check_connected(robot, roots, order, inbound, report)
    return order


def _check_connected(
    robot: UrdfRobot,
    roots: list[str],
    order: list[str],
    inbound: dict[str, UrdfJoint],
    report: Report,
) -> None:
    if len(roots) > 1:
        message = f"there are {len(roots)} root links ({listed(map(repr, roots))}); a robot has one"
        report.error(
            robot.links[roots[1]].element,
            message,
            "connect the other roots to the tree with (fixed) joints",
        )
    reached = set(order)
    stray = [name for name in robot.links if name not in reached]
    if stray:
        visited: dict[str, None] = {}
        link = stray[0]
        while link not in visited:
            visited[link] = None
            link = inbound[link].parent
        cycle = list(visited)[list(visited).index(link) :][::-1]
        names = " -> ".join(
            map(repr, [*cycle[:10], *(["..."] if len(cycle) > 10 else []), cycle[0]])
        )
        message = f"the joints close a cycle of links: {names}"
        report.error(
            inbound[cycle[0]].element, message, "a URDF is a tree: remove one of the joints"
        )


def check_masses(robot: UrdfRobot, order: list[str], report: Report) -> None:
    """Warns of joints that move neither mass nor inertia; links attached by fixed joints count as
    one body.
    """
    inbound = {joint.child: joint for joint in robot.joints.values()}
    bodies = {name: robot.links[name].body for name in order}
    has_mass = {
        name: bool(body.mass > 0.0 or np.any(body.inertia)) for name, body in bodies.items()
    }
    carries_mass = dict(has_mass)
    for name in reversed(order[1:]):
        joint = inbound[name]
        carries_mass[joint.parent] |= carries_mass[name]
        if joint.type == "fixed":
            has_mass[joint.parent] |= has_mass[name]
        elif not carries_mass[name]:
            singular = "the mass matrix may be singular"
            message = f"it moves no mass (link {name!r} and all below): {singular}"
            fix = "give the link an <inertial>, or the joint armature after reading"
            report.warning(joint.element, message, fix, f"no mass moves; {singular}")
        elif not has_mass[name]:
            message = (
                f"link {name!r} has no mass of its own; it moves only the mass of links on "
                "further joints"
            )
            several = (
                "the link has no mass of its own, and moves only that of links on further joints"
            )
            report.note(
                joint.element,
                message,
                "nothing, if it represents one axis of a compound joint",
                several,
            )


def check_composites(robot: UrdfRobot, order: list[str], report: Report) -> None:
    """Reports names that clash with parts of planar and floating joints, and joints that only make
    the base float.
    """
    for joint in robot.joints.values():
        if joint.type not in COMPOSITE_TYPES:
            continue
        if joint.type == "floating" and joint.parent == order[0]:
            message = "it is read as a joint within a tree; a floating base costs less"
            fix = f"delete the joint and the link {joint.parent!r}, and read with fixed_base=False"
            report.note(joint.element, message, fix)
        for name, part in (
            (f"{joint.name}:", robot.joints),
            (f"{joint.child}:{joint.name}:", robot.links),
        ):
            for taken in part:
                if taken.startswith(name):
                    message = (
                        f"its name clashes with the parts of the {joint.type} joint "
                        f"{joint.name!r} ({name}x, ...)"
                    )
                    report.error(part[taken].element, message, "rename it")


def check_base(robot: UrdfRobot, order: list[str], report: Report) -> None:
    """Warns that the base floats where a single chain of several joints leaves it, as of an arm."""
    leaving: dict[str, list[UrdfJoint]] = {name: [] for name in order}
    for joint in robot.joints.values():
        leaving[joint.parent].append(joint)
    length = 0
    ends = [order[0]]
    while len(ends) == 1:
        moving = list[str]()
        rigid = ends  # The links that are fixed to the end of the chain.
        while rigid:
            joints = [joint for name in rigid for joint in leaving[name]]
            moving += [joint.child for joint in joints if joint.type != "fixed"]
            rigid = [joint.child for joint in joints if joint.type == "fixed"]
        length += len(moving) == 1
        ends = moving
    if length >= _ARM_JOINTS:
        message = (
            f"the base floats, though a single chain of {length} joints leaves it, as of an arm "
            "on a table"
        )
        fix = "read with fixed_base=True if it is fixed, or fixed_base=False to say that it floats"
        report.warning(robot.links[order[0]].element, message, fix)


def check_meshes_left_out(
    robot: UrdfRobot, order: list[str], report: Report, *, fixed_base: bool
) -> None:
    """Reports that the meshes of ``<collision>`` are left out.

    This is a warning if a floating robot would sink into the ground without a word: if some links
    keep shapes, or if a link at an end, such as a foot, has none without its mesh. Otherwise it is
    only a note.
    """
    lost = [name for name in order if robot.links[name].lost]
    bare = [name for name in lost if not robot.links[name].body.geometries]
    others = [name for name in order if robot.links[name].body.geometries]
    inner = {joint.parent for joint in robot.joints.values()}
    if not fixed_base and bare and (others or not inner.issuperset(bare)):
        report_missing_meshes(report, robot.element, bare, others)
    elif lost:
        message = f"the meshes of <collision> are left out (links {listed(lost)})"
        fix = (
            "where contact matters, read them with meshes='hull' or 'capsule', or write a primitive"
        )
        report.note(robot.element, message, fix)


def check_mimics(robot: UrdfRobot, report: Report, repair: Collection[str]) -> dict[str, UrdfMimic]:
    """The mimic relations by the name of the follower.

    Reports joints that follow no movable joint, themselves, or each other in a loop; the repair
    ``"mimic"`` drops relations of the first two kinds.
    """
    unread = {child.attributes.get("name") for child in robot.element.all("joint")} - set(
        robot.joints
    )
    mimics: dict[str, UrdfMimic] = {}
    for joint in robot.joints.values():
        mimic = joint.mimic
        if mimic is None or mimic.joint in unread:
            continue
        if joint.type not in MOVING_TYPES:
            report.changed(
                mimic.element,
                f"a {joint.type} joint cannot follow another; ignored",
                "remove the <mimic>",
            )
            continue
        followed = robot.joints.get(mimic.joint)
        if followed is None:
            message = f"there is no joint called {mimic.joint!r} to follow"
        elif followed is joint:
            message = "the joint follows itself"
        elif followed.type not in MOVING_TYPES:
            message = f"joint {mimic.joint!r} is {followed.type} and cannot be followed"
        else:
            mimics[joint.name] = mimic
            continue
        if "mimic" in repair:
            several = "there is no such joint to follow; the joints are free now"
            fix = "correct the <mimic> in the file"
            report.repaired(mimic.element, f"{message}; the joint is free now", fix, several)
        else:
            fix = "name a joint that moves, or drop the relation with repair=('mimic',)"
            report.error(mimic.element, message, fix)
    _check_mimic_loops(mimics, report)
    return mimics


def _check_mimic_loops(mimics: dict[str, UrdfMimic], report: Report) -> None:
    finished: set[str] = set()
    for start in mimics:
        chain: dict[str, None] = {}
        joint = start
        while joint in mimics and joint not in finished and joint not in chain:
            chain[joint] = None
            joint = mimics[joint].joint
        if joint in chain:
            names = list(chain)
            loop = names[names.index(joint) :]
            shown = " -> ".join(
                map(repr, [*loop[:10], *(["..."] if len(loop) > 10 else []), joint])
            )
            report.error(
                mimics[joint].element,
                f"mimic joints follow each other in a loop: {shown}",
                "let one of them be free",
            )
        finished.update(chain)


# --- the reader ---------------------------------------------------------------------------------


WORLD_LINK = "world"

#: The repairs that can be requested by name.
REPAIRS = ("inertia", "mimic")

#: Rotation to a frame whose z axis is the x axis of the original one.
_X_TO_Z = np.array([0.0, 0.0, 0.0, 0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)])


@takes(UrdfOptions)
def load_urdf(path_or_text: str | Path, **options: Unpack[UrdfOptions]) -> Articulation:
    """Reads a robot from a URDF.

    The reader supports links, joints with limits, damping and friction, mimic joints, the shapes of
    ``<collision>`` and, on request, its meshes. ``continuous`` joints become ``REVOLUTE``, which
    may be wheels; ``revolute`` joints become ``REVOLUTE_UNWRAPPED``; ``planar`` and ``floating``
    joints become the joint sequences of :class:`~artix.CompositeJoint`. ``<visual>``, materials,
    safety controllers, calibrations, transmissions and extensions of simulators are skipped. URDF
    has no contact friction, so the ground's friction applies. Links are numbered breadth-first and
    degrees of freedom in the order of their links, so address joints by name
    (``topology.dofs(name)``) rather than by their order in the file. :func:`check_urdf` lists all
    warnings.

    Args:
      path_or_text: a path, or the URDF itself (a string whose first visible character is ``<``).
      **options: keywords that :func:`artix.load` describes. ``fixed_base=None`` fixes the root if
        and only if its link is called ``world``, which is URDF's convention for a fixed base. The
        repair ``"mimic"`` frees joints that mimic a missing or fixed joint or themselves.
        ``strict`` refuses also an ``<inertial>`` without ``<mass>`` or ``<inertia>``, missing or
        exchanged limits of position, limits of effort and velocity that are zero, a second element
        where there may be one, and malformed shapes. ``meshes`` are read with trimesh (extra
        ``meshes``). ``packages`` that are not given are searched for above the file and in
        ``ROS_PACKAGE_PATH``.

    Returns:
      The articulation.

    Raises:
      DescriptionError: the description is refused; its ``issues`` list all errors with file, line,
        element and fix.
      OSError: the file cannot be read.
      ImportError: there are meshes to read, and trimesh is not installed.
      ValueError: a repair or the replacement for meshes is unknown, or gravity is malformed.
      TypeError: ``path_or_text`` is neither a string nor a path, or a keyword is unknown.

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
    """  # noqa: E501
    report, robots = read_urdf(path_or_text, _read_options(options))
    report.finish()
    (robot,) = robots.values()
    return robot.articulation


@takes(UrdfOptions)
def check_urdf(path_or_text: str | Path, **options: Unpack[UrdfOptions]) -> list[Issue]:
    """Lists all errors, warnings and notes of a URDF, by line; its content never makes this raise.

    Arguments and errors are those of :func:`load_urdf`, which raises the warnings of this list and
    refuses a URDF with errors.

    Returns:
      The issues, one warning or note for each kind; none for a description without any.

    Examples:
      >>> text = '''
      ... <robot name="rod">
      ...   <link name="world"/>
      ...   <link name="rod"/>
      ...   <joint name="hinge" type="hinged"><parent link="world"/><child link="rod"/></joint>
      ... </robot>'''
      >>> print(
      ...     [
      ...         (issue.line, issue.element)
      ...         for issue in artix.io.check_urdf(text)
      ...         if issue.severity == "error"
      ...     ]
      ... )
      [(5, '<joint name="hinge">')]
    """
    report, _ = read_urdf(path_or_text, _read_options(options))
    return sorted(report.issues, key=lambda issue: issue.line)


def _read_options(keywords: UrdfOptions) -> ReadOptions:
    return ReadOptions.of(UrdfOptions, keywords, known_repairs=REPAIRS)


def read_urdf(path_or_text: str | Path, options: ReadOptions) -> Reading:
    """Reads a URDF: what there is to say of it, and its robot unless it has errors."""
    report = Report(origin(path_or_text)[0], strict=options.strict)
    robot = parse_urdf(path_or_text, report, options)
    if robot is None:
        return report, {}
    check_unread(robot.element, report)
    places: dict[str, Place] = {
        name: link.inertial or link.element for name, link in robot.links.items()
    }
    bodies = [link.body for link in robot.links.values()]
    bodies = check_inertias(bodies, places, report, repair="inertia" in options.repair)
    links = {body.name: dataclasses.replace(robot.links[body.name], body=body) for body in bodies}
    robot = dataclasses.replace(robot, links=links)
    order = check_tree(robot, report)
    mimics = check_mimics(robot, report, options.repair)
    if report.num_errors:
        return report, {}
    fixed_base = order[0] == WORLD_LINK if options.fixed_base is None else options.fixed_base
    if options.fixed_base is None and not fixed_base:
        check_base(robot, order, report)
    check_masses(robot, order, report)
    check_composites(robot, order, report)
    check_meshes_left_out(robot, order, report, fixed_base=fixed_base)
    if report.num_errors:
        return report, {}
    inbound = {joint.child: joint for joint in robot.joints.values()}
    joined = [
        link for name in order for link in _with_joint(robot.links[name].body, inbound.get(name))
    ]
    merged, frames, _ = merge_links(joined, merge_fixed_joints=options.merge_fixed_joints)
    # URDF writes the follower's position as a function of the reference's; a mimic joint says that
    # their sum is zero.
    couplings = [
        MimicJoint(
            follower=follower,
            reference=mimic.joint,
            gear_ratio=-mimic.multiplier,
            offset=-mimic.offset,
        )
        for follower, mimic in mimics.items()
    ]
    gravity = STANDARD_GRAVITY if options.gravity is None else options.gravity
    description = Description(robot.name, fixed_base, merged, gravity, frames, couplings=couplings)
    return report, {robot.name: Robot(description, build(description, options))}


def _with_joint(body: LinkDescription, joint: UrdfJoint | None) -> list[LinkDescription]:
    """A link with its joint, after the massless links of a joint with several degrees of
    freedom.
    """
    if joint is None:
        return [body]
    *above, last = (
        _composite(joint).named_joints(body.name)
        if joint.type in COMPOSITE_TYPES
        else [_joint(joint)]
    )
    links = list[LinkDescription]()
    parent = joint.parent
    for part in above:
        links.append(LinkDescription(f"{body.name}:{part.name}", parent, part))
        parent = links[-1].name
    return [*links, dataclasses.replace(body, parent=parent, joint=last)]


def _composite(joint: UrdfJoint) -> CompositeJoint:
    """The floating joint, or the planar joint, whose axis is the normal of its plane."""
    if joint.type == "floating":
        return CompositeJoint.free(name=joint.name, parent_pose=joint.origin)
    coordinate, turn = joint_frame(joint.axis)
    if coordinate != 2:
        turn = compose(rotation_pose(quaternion_from_x_to(joint.axis)), _X_TO_Z)
    return CompositeJoint.planar(
        name=joint.name, parent_pose=compose(joint.origin, turn), child_pose=turn
    )


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
        "friction": JointFriction(
            static=joint.friction, dynamic=joint.friction, viscous=joint.damping
        ),
    }
    if joint.type == "prismatic":
        return Joint.prismatic(TRANSLATIONS[coordinate], **options)
    return Joint.revolute(ROTATIONS[coordinate], wrapped=joint.type == "continuous", **options)
