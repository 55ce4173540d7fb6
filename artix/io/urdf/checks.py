"""Checks the consistency of a URDF: links form one tree, joints move mass, mimic joints follow another joint."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from artix.io.common.diagnostics import Report, listed
from artix.io.common.meshes import report_missing_meshes
from artix.io.common.xml_tree import Element
from artix.io.urdf.parser import COMPOSITE_TYPES, MOVING_TYPES, UrdfJoint, UrdfMimic, UrdfRobot

#: By tag, the attributes and the child elements that are read, or have no effect on the motion. The content of elements
#: without an entry is not checked here.
_KNOWN = {
    "robot": (("name", "version"), ("link", "joint", "material", "transmission", "gazebo", "sensor", "ros2_control")),
    "link": (("name", "type"), ("inertial", "visual", "collision")),
    "inertial": ((), ("origin", "mass", "inertia")),
    "mass": (("value",), ()),
    "inertia": (("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), ()),
    "collision": (("name",), ("origin", "geometry", "material", "verbose")),
    "joint": (("name", "type"), ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "calibration")),
    "origin": (("xyz", "rpy"), ()),
    "parent": (("link",), ()),
    "child": (("link",), ()),
    "axis": (("xyz",), ()),
    "limit": (("lower", "upper", "effort", "velocity"), ()),
    "dynamics": (("damping", "friction"), ()),
    "mimic": (("joint", "multiplier", "offset"), ()),
}


#: A floating base from which a chain of so many joints leaves, and nothing else, is probably an arm's.
_ARM_JOINTS = 4


def check_unread(robot: Element, report: Report) -> None:
    """Warns of elements and attributes that URDF does not define or artix does not read, all in one warning."""
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
        counts = [f"{what} ({len(of)} times)" if len(of) > 1 else what for what, of in unread.items()]
        report.warning(
            first, f"not read: {listed(counts)}", "correct what is misspelt; else nothing, unless it matters"
        )


def check_tree(robot: UrdfRobot, report: Report) -> list[str]:
    """The names of the links, breadth-first, siblings in the order of their joints in the file.

    Reports unknown links, links with two parents, several roots and cycles; the list is complete if there are none.
    """
    before = report.num_errors
    inbound: dict[str, UrdfJoint] = {}
    children: dict[str, list[str]] = {name: [] for name in robot.links}
    for joint in robot.joints.values():
        unknown = [
            (end, link) for end, link in (("parent", joint.parent), ("child", joint.child)) if link not in children
        ]
        for end, link in unknown:
            report.error(
                joint.element, f"there is no link called {link!r}, its {end}", "correct the name or add the link"
            )
        if joint.child in inbound:
            message = f"link {joint.child!r} has a second parent; the first is by joint {inbound[joint.child].name!r}"
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
    robot: UrdfRobot, roots: list[str], order: list[str], inbound: dict[str, UrdfJoint], report: Report
) -> None:
    if len(roots) > 1:
        message = f"there are {len(roots)} root links ({listed(map(repr, roots))}); a robot has one"
        report.error(robot.links[roots[1]].element, message, "connect the other roots to the tree with (fixed) joints")
    reached = set(order)
    stray = [name for name in robot.links if name not in reached]
    if stray:
        visited: dict[str, None] = {}
        link = stray[0]
        while link not in visited:
            visited[link] = None
            link = inbound[link].parent
        cycle = list(visited)[list(visited).index(link) :][::-1]
        names = " -> ".join(map(repr, [*cycle[:10], *(["..."] if len(cycle) > 10 else []), cycle[0]]))
        message = f"the joints close a cycle of links: {names}"
        report.error(inbound[cycle[0]].element, message, "a URDF is a tree: remove one of the joints")


def check_masses(robot: UrdfRobot, order: list[str], report: Report) -> None:
    """Warns of joints that move neither mass nor inertia; links attached by fixed joints count as one body."""
    inbound = {joint.child: joint for joint in robot.joints.values()}
    bodies = {name: robot.links[name].body for name in order}
    has_mass = {name: bool(body.mass > 0.0 or np.any(body.inertia)) for name, body in bodies.items()}
    carries_mass = dict(has_mass)
    for name in reversed(order[1:]):
        joint = inbound[name]
        carries_mass[joint.parent] |= carries_mass[name]
        if joint.type == "fixed":
            has_mass[joint.parent] |= has_mass[name]
        elif not carries_mass[name]:
            singular = "the mass matrix may be singular"
            message, several = (
                f"it moves no mass (link {name!r} and all below): {singular}",
                f"no mass moves; {singular}",
            )
            fix = "give the link an <inertial>, or the joint armature after reading"
            report.warning(joint.element, message, fix, several)
        elif not has_mass[name]:
            message = f"link {name!r} has no mass of its own; it moves only the mass of links on further joints"
            several = "the link has no mass of its own, and moves only that of links on further joints"
            report.note(joint.element, message, "nothing, if it represents one axis of a compound joint", several)


def check_composites(robot: UrdfRobot, order: list[str], report: Report) -> None:
    """Reports names that clash with parts of planar and floating joints, and joints that only make the base float."""
    for joint in robot.joints.values():
        if joint.type not in COMPOSITE_TYPES:
            continue
        if joint.type == "floating" and joint.parent == order[0]:
            message = "it is read as a joint within a tree; a floating base costs less"
            fix = f"delete the joint and the link {joint.parent!r}, and read with fixed_base=False"
            report.note(joint.element, message, fix)
        for name, part in ((f"{joint.name}:", robot.joints), (f"{joint.child}:{joint.name}:", robot.links)):
            for taken in part:
                if taken.startswith(name):
                    message = f"its name clashes with the parts of the {joint.type} joint {joint.name!r} ({name}x, ...)"
                    report.error(part[taken].element, message, "rename it")


def check_base(robot: UrdfRobot, order: list[str], report: Report) -> None:
    """Warns that the base floats where a single chain of several joints leaves it, as of an arm."""
    length, bodies = 0, {order[0]}
    while True:
        moving = []
        for name in order:  # Parents come first.
            for joint in robot.joints.values():
                if joint.child == name and joint.parent in bodies:
                    if joint.type == "fixed":
                        bodies.add(name)
                    else:
                        moving.append(name)
        if len(moving) != 1:
            break
        length, bodies = length + 1, {moving[0]}
    if length >= _ARM_JOINTS:
        message = f"the base floats, though a single chain of {length} joints leaves it, as of an arm on a table"
        fix = "read with fixed_base=True if it is fixed, or fixed_base=False to say that it floats"
        report.warning(robot.links[order[0]].element, message, fix)


def check_meshes_left_out(robot: UrdfRobot, order: list[str], report: Report, *, fixed_base: bool) -> None:
    """Reports that the meshes of ``<collision>`` are left out.

    This is a warning if a floating robot would sink into the ground without a word: if some links keep shapes, or if a
    link at an end, such as a foot, has none without its mesh. Otherwise it is only a note.
    """
    lost = [name for name in order if robot.links[name].lost]
    bare = [name for name in lost if not robot.links[name].body.geometries]
    others = [name for name in order if robot.links[name].body.geometries]
    inner = {joint.parent for joint in robot.joints.values()}
    if not fixed_base and bare and (others or not inner.issuperset(bare)):
        report_missing_meshes(report, robot.element, bare, others)
    elif lost:
        message = f"the meshes of <collision> are left out (links {listed(lost)})"
        fix = "where contact matters, read them with meshes='hull' or 'capsule', or write a primitive"
        report.note(robot.element, message, fix)


def check_mimics(robot: UrdfRobot, report: Report, repair: Collection[str]) -> dict[str, UrdfMimic]:
    """The mimic relations by the name of the follower.

    Reports joints that follow no movable joint, themselves, or each other in a loop; the repair ``"mimic"`` drops
    relations of the first two kinds.
    """
    unread = {child.attributes.get("name") for child in robot.element.all("joint")} - set(robot.joints)
    mimics: dict[str, UrdfMimic] = {}
    for joint in robot.joints.values():
        mimic = joint.mimic
        if mimic is None or mimic.joint in unread:
            continue
        if joint.type not in MOVING_TYPES:
            report.changed(mimic.element, f"a {joint.type} joint cannot follow another; ignored", "remove the <mimic>")
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
            shown = " -> ".join(map(repr, [*loop[:10], *(["..."] if len(loop) > 10 else []), joint]))
            report.error(
                mimics[joint].element, f"mimic joints follow each other in a loop: {shown}", "let one of them be free"
            )
        finished.update(chain)
