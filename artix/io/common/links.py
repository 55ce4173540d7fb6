"""Adds the links of a description to a builder, with unique names; merges rigidly attached ones on request."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from artix.io.common.poses import IDENTITY, combine_inertias, compose, inverse, quaternion_from_x_to
from artix.model.builder import ArticulationBuilder
from artix.model.geometry import Geometry
from artix.model.joints import Axis, Joint, JointType

#: Axes for which the joint frame is not rotated, so that its numbers stay exact.
_COORDINATE_AXES = {(1.0, 0.0, 0.0): 0, (0.0, 1.0, 0.0): 1, (0.0, 0.0, 1.0): 2}
ROTATIONS = (Axis.TWIST, Axis.SWING1, Axis.SWING2)
TRANSLATIONS = (Axis.X, Axis.Y, Axis.Z)


@dataclasses.dataclass(frozen=True)
class LinkDescription:
    """A link as read from a file, in terms of the arguments of :meth:`~artix.ArticulationBuilder.add_link`.

    Attributes:
      name: the link's name.
      parent: the parent's name, ``None`` for the root.
      joint: the joint to the parent, ``None`` for the root.
      mass: mass [kg].
      com_pose: mass frame in the link frame, shape [7].
      inertia: inertia in the axes of the mass frame [kg m^2], shape [3, 3].
      options: further arguments of ``add_link``; links whose options differ are never merged.
      geometries: shapes in the link's frame with their names, ``None`` for unnamed ones.
    """

    name: str
    parent: str | None
    joint: Joint | None
    mass: float
    com_pose: np.ndarray
    inertia: np.ndarray
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    geometries: Sequence[tuple[str | None, Geometry]] = ()


@dataclasses.dataclass(frozen=True)
class LinkPlace:
    """Where a link of the description ended up in the builder.

    Attributes:
      number: the builder's link, which differs from the description's if that was merged into its parent.
      link: the name of the builder's link.
      pose: pose of the description's link in the frame of the builder's, shape [7].
      geometries: names of its shapes in the builder.
    """

    number: int
    link: str
    pose: np.ndarray
    geometries: tuple[str, ...] = ()


def add_links(
    builder: ArticulationBuilder, links: Sequence[LinkDescription], *, merge_fixed_joints: bool
) -> dict[str, LinkPlace]:
    """Adds links to the builder, parents first.

    Args:
      builder: receives the links, and a frame for each merged link.
      links: the links, parents before their children.
      merge_fixed_joints: whether links on fixed joints become part of their parent.

    Returns:
      The place of each link by its name.
    """
    by_name = {link.name: link for link in links}
    host: dict[str, str] = {}
    pose_in_host: dict[str, np.ndarray] = {}
    members: dict[str, list[str]] = {}
    for link in links:
        above, joint = link.parent, link.joint
        if (
            merge_fixed_joints
            and above is not None
            and joint is not None
            and joint.type is JointType.FIX
            and (link.mass == 0.0 or link.options == by_name[host[above]].options)
        ):
            pose = compose(np.asarray(joint.parent_pose), inverse(np.asarray(joint.child_pose)))
            host[link.name], pose_in_host[link.name] = host[above], compose(pose_in_host[above], pose)
        else:
            host[link.name], pose_in_host[link.name] = link.name, IDENTITY
        members.setdefault(host[link.name], []).append(link.name)
    number: dict[str, int] = {}
    for name, merged in members.items():
        link = by_name[name]
        parts = [(by_name[part], pose_in_host[part]) for part in merged]
        mass, com_pose, inertia = combine_inertias(
            [(part.mass, compose(pose, part.com_pose), part.inertia) for part, pose in parts]
        )
        parent, joint = None, None
        if link.parent is not None and link.joint is not None:
            outer = compose(pose_in_host[link.parent], np.asarray(link.joint.parent_pose))
            parent, joint = number[host[link.parent]], dataclasses.replace(link.joint, parent_pose=outer)
        number[name] = builder.add_link(
            parent, joint, mass=mass, com_pose=com_pose, inertia=inertia, name=name, **link.options
        )
    shapes = [(by_name[part], pose_in_host[part], number[name]) for name, merged in members.items() for part in merged]
    named = _add_geometries(builder, shapes)
    for link in links:
        if host[link.name] != link.name:
            builder.add_frame(link.name, number[host[link.name]], pose_in_host[link.name])
    return {name: LinkPlace(number[host[name]], host[name], pose_in_host[name], named[name]) for name in by_name}


def _add_geometries(
    builder: ArticulationBuilder, links: Sequence[tuple[LinkDescription, np.ndarray, int]]
) -> dict[str, tuple[str, ...]]:
    """Adds the shapes of links, given with their poses in the builder's links and the numbers of those.

    A shape without a name, or with one that other shapes share (some exporters write such names), is called
    ``<link>:<k>``. Returns the names of the shapes by link name.
    """
    file_names = [name for link, _, _ in links for name, _ in link.geometries]
    names = Names(name for name in file_names if name is not None)
    names_by_link: dict[str, list[str]] = {link.name: [] for link, _, _ in links}
    for link, pose, number in links:
        for k, (name, shape) in enumerate(link.geometries):
            if name is None or file_names.count(name) > 1:
                name = names.new(f"{link.name}:{k}")
            moved = dataclasses.replace(shape, pose=compose(pose, np.asarray(shape.pose)))
            builder.add_geometry(number, shape if pose is IDENTITY else moved, name)
            names_by_link[link.name].append(name)
    return {link: tuple(every) for link, every in names_by_link.items()}


def joint_frame(axis: np.ndarray) -> tuple[int, np.ndarray]:
    """A joint frame one of whose coordinate axes is a given axis.

    Args:
      axis: a unit vector, shape [3].

    Returns:
      The index of that coordinate axis, and the rotation of the joint frame, in the frame of ``axis``, as a pose [7].
    """
    coordinate = _COORDINATE_AXES.get(tuple(axis.tolist()))
    if coordinate is not None:
        return coordinate, IDENTITY
    return 0, np.concatenate([IDENTITY[:3], quaternion_from_x_to(axis)])


class Names:
    """Generates unique names.

    Args:
      taken: names already in use.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def new(self, base: str) -> str:
        """``base``, with ``_2``, ``_3``, ... appended if it is taken."""
        name = base
        count = 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name
