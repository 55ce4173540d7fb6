"""SRDF: the postures of a robot and the pairs of its links that cannot collide, beside its URDF."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from artix.io.common.diagnostics import Report, listed
from artix.io.common.poses import IDENTITY
from artix.io.common.xml_tree import Element, origin, read_name, read_numbers, read_xml
from artix.math.arrays import device_array
from artix.model.articulation import Articulation, State
from artix.model.joints import IDENTITY_POSE
from artix.model.states import neutral_state
from artix.model.topology import Topology, candidate_pairs

#: The name that files of Pinocchio's users give the joint between the world and a floating root.
_ROOT_JOINT = "root_joint"
#: The elements about collisions, with their attributes that name links.
_LINKS = {
    "disable_collisions": ("link1", "link2"),
    "disable_default_collisions": ("link",),
    "enable_collisions": ("link1", "link2"),
}
#: The other elements that SRDF has.
_OTHERS = (
    *("group", "group_state", "end_effector", "virtual_joint", "passive_joint"),
    *("link_sphere_approximation", "joint_property"),
)


@dataclasses.dataclass(frozen=True)
class Srdf:
    """What :func:`load_srdf` reads.

    Attributes:
      states: postures at rest by the names of their ``<group_state>``. Joints that it does not name
        are at zero, mimic joints where the joints that they follow put them, as in MoveIt.
      disabled_links: the pairs of links whose collisions are disabled.
      geometry_pairs: the pairs of shapes that remain, for :func:`artix.select_geometry_pairs`:
        those of ``artix.editing.possible_geometry_pairs`` on other links.

    Examples:
      >>> posture = (
      ...     '<group_state name="bent" group="all"><joint name="elbow" value="1"/></group_state>'
      ... )
      >>> text = f'<robot name="double_pendulum">{posture}</robot>'
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> print(list(artix.load_srdf(pendulum, text).states))
      ['bent']
    """

    states: Mapping[str, State]
    disabled_links: tuple[tuple[str, str], ...]
    geometry_pairs: tuple[tuple[str, str], ...]


def load_srdf(articulation: Articulation, path_or_text: str | Path) -> Srdf:
    """Reads postures and disabled collisions from an SRDF, which describes a robot's URDF further.

    Pinocchio's ``loadReferenceConfigurations`` and ``removeCollisionPairs``, which leaves out
    MoveIt's ``<disable_default_collisions>`` and ``<enable_collisions>``. States of one name for
    several groups become one posture. A joint called ``root_joint`` with seven numbers is the pose
    of a floating root, position [m] and quaternion xyzw. Joints and links that the robot does not
    have are left out with a warning. Groups, end effectors, virtual and passive joints are skipped.

    Args:
      articulation: the robot, read from its URDF.
      path_or_text: a path, or the SRDF itself (a string whose first visible character is ``<``).

    Returns:
      The postures, in the articulation's dtype [rad or m], and the pairs.

    Raises:
      DescriptionError: a number or a name is missing or malformed; ``issues`` lists all errors.
      OSError: the file cannot be read.
      TypeError: ``path_or_text`` is neither a string nor a path.

    Examples:
      >>> text = '''
      ... <robot name="double_pendulum">
      ...   <group_state name="bent" group="all"><joint name="elbow" value="0.5"/></group_state>
      ...   <disable_collisions link1="upper" link2="lower" reason="Adjacent"/>
      ... </robot>'''
      >>> srdf = artix.load_srdf(artix.robots.load("double_pendulum"), text)
      >>> print(srdf.states["bent"].joint_position, srdf.disabled_links)
      [0.  0.5] (('upper', 'lower'),)
    """
    report = Report(origin(path_or_text)[0])
    root = read_xml(path_or_text, report)
    report.raise_errors()
    assert root is not None
    if root.tag != "robot":
        report.error(root, "an SRDF has <robot> around it", "give the SRDF, not another file")
    topology = articulation.topology
    _check_elements(topology, root, report)
    poses: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for element in root.all("group_state"):
        name = read_name(report, element)
        if name is not None:
            n = topology.num_dofs
            start = IDENTITY.copy(), np.zeros(n), np.zeros(n, bool)
            _read_posture(topology, element, report, *poses.setdefault(name, start))
    disabled = _read_disabled(topology, root, report)
    report.finish()
    neutral = neutral_state(articulation)
    dtype = articulation.dtype
    states = {
        name: neutral.replace(
            root_pose=device_array(pose, dtype),
            joint_position=device_array(_followed(articulation, position, is_named), dtype),
        )
        for name, (pose, position, is_named) in poses.items()
    }
    links = {frozenset(pair) for pair in disabled}
    link_of = {shape.name: topology.link_names[shape.link] for shape in topology.geometries}
    pairs = candidate_pairs(topology)
    kept = tuple((a, b) for a, b in pairs if frozenset((link_of[a], link_of[b])) not in links)
    return Srdf(states, disabled, kept)


def _read_posture(
    topology: Topology,
    element: Element,
    report: Report,
    root_pose: np.ndarray,
    position: np.ndarray,
    is_named: np.ndarray,
) -> None:
    """Writes the values of a ``<group_state>`` into arrays [7] and [n], and which joints it has."""
    for joint in element.all("joint"):
        name = read_name(report, joint)
        if name is None:
            continue
        if name == _ROOT_JOINT and name not in topology.joint_names:
            pose = read_numbers(report, joint, "value", IDENTITY_POSE, required=True)
            if abs(np.linalg.norm(pose[3:]) - 1) > 1e-3:
                report.error(
                    joint, "its quaternion xyzw has not length 1", "correct the last four numbers"
                )
            root_pose[:] = pose
        elif name not in topology.joint_names:
            report.left_out(
                joint,
                f"{topology.name!r} has no joint of this name",
                "correct the name, or delete it",
            )
        else:
            dofs = topology.dofs(name)
            count = dofs.stop - dofs.start
            if count:
                position[dofs] = read_numbers(report, joint, "value", (0.0,) * count, required=True)
                is_named[dofs] = True


def _followed(articulation: Articulation, position: np.ndarray, is_named: np.ndarray) -> np.ndarray:
    """The positions [n] with mimic joints that are not named where those that they follow put
    them.
    """
    pairs, mimic = articulation.topology.mimic_dofs, articulation.mimic
    ratios, offsets = np.asarray(mimic.gear_ratio, float), np.asarray(mimic.offset, float)
    followed = position.copy()
    for _ in pairs:  # One may follow another that follows.
        for (follower, reference), ratio, offset in zip(pairs, ratios, offsets, strict=True):
            if not is_named[follower]:
                followed[follower] = -ratio * followed[reference] - offset
    return followed


def _check_elements(topology: Topology, root: Element, report: Report) -> None:
    """Reports an SRDF of a robot of another name, and elements that SRDF does not have."""
    name = root.attributes.get("name", topology.name)
    if name != topology.name:
        message = f"it is of a robot called {name!r}, not {topology.name!r}"
        report.warning(root, message, "nothing, if it is the same robot")
    for element in root.children:
        if element.tag not in (*_LINKS, *_OTHERS):
            report.left_out(element, "SRDF has no such element", "correct its name, or delete it")


def _read_disabled(
    topology: Topology, root: Element, report: Report
) -> tuple[tuple[str, str], ...]:
    """The pairs of links that ``<disable_collisions>`` names, and as in MoveIt those of each link
    of a ``<disable_default_collisions>``, except where an ``<enable_collisions>`` names them.
    """
    disabled, alone, enabled = (_named_links(topology, root, tag, report) for tag in _LINKS)
    kept = {frozenset(pair) for pair in enabled}
    pairs = {frozenset(pair): (pair[0], pair[1]) for pair in disabled}
    for (link,) in alone:
        for other in topology.link_names:
            if other != link and frozenset((link, other)) not in kept:
                pairs.setdefault(frozenset((link, other)), (link, other))
    return tuple(pairs.values())


def _named_links(topology: Topology, root: Element, tag: str, report: Report) -> list[list[str]]:
    """The links that each of the elements of this tag names, of those whose links the robot has."""
    named = []
    for element in root.all(tag):
        read = [read_name(report, element, each) for each in _LINKS[tag]]
        names = [name for name in read if name is not None]
        unknown = [name for name in names if name not in topology.link_names]
        if unknown:
            message = f"{topology.name!r} has no link {listed(map(repr, unknown))}"
            fix = "correct the name, or read the URDF with merge_fixed_joints=False"
            several = "left out: the robot has not all of their links"
            report.warning(element, f"left out: {message}", fix, several)
        elif len(names) == len(read):
            named.append(names)
    return named
