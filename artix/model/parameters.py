"""From descriptions to arrays: parameters of links and joints, and the names in couplings as indices."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from artix.model.couplings import LoopJoint, LoopJointStructure, MimicJoint
from artix.model.joints import (
    Drive,
    DriveEnvelope,
    DriveEnvelopes,
    Drives,
    Joint,
    JointFriction,
    JointFrictions,
    JointType,
)
from artix.model.tendons import FixedTendon, FixedTendonStructure, SpatialTendon, SpatialTendonStructure
from artix.model.topology import Topology
from artix.model.validation import interval, is_index, number


@dataclasses.dataclass(frozen=True)
class LinkParameters:
    """The description of one link; ``numbers`` has the keys of ``LINK_NUMBERS``."""

    name: str
    parent: int
    joint: Joint
    mass: float
    com_pose: np.ndarray
    inertia: np.ndarray
    numbers: dict[str, float]


#: Scalars of a link that become arrays [L]: argument of ``add_link``, array, lower bound, whether it may be infinite.
LINK_NUMBERS = {
    "gravity_scale": ("gravity_scale", -np.inf, False),
    "linear_damping": ("link_linear_damping", 0.0, False),
    "angular_damping": ("link_angular_damping", 0.0, False),
    "max_linear_velocity": ("max_link_linear_velocity", 0.0, True),
    "max_angular_velocity": ("max_link_angular_velocity", 0.0, True),
    "cfm_scale": ("link_cfm_scale", 0.0, False),
}


def link_number(argument: str, value: float, where: str) -> float:
    """One of ``LINK_NUMBERS``, checked; raises ``ValueError`` if it is out of range."""
    _, low, infinite = LINK_NUMBERS[argument]
    result = number(value, f"{where}: {argument}")
    if not (result >= low and (infinite or np.isfinite(result))):
        rule = "finite" if low < 0 else "not negative (inf for none)" if infinite else "finite and not negative"
        raise ValueError(f"{where}: {argument} must be {rule}; found {result}")
    return result


def link_parameters(links: Sequence[LinkParameters]) -> dict[str, Any]:
    """The per-link arrays of an articulation, as NumPy arrays."""
    parameters = {name: np.array([link.numbers[key] for link in links]) for key, (name, *_) in LINK_NUMBERS.items()}
    return parameters | {
        "link_mass": np.array([link.mass for link in links]),
        "link_com_pose": np.array([link.com_pose for link in links]),
        "link_inertia": np.array([link.inertia for link in links]),
    }


def joint_parameters(joints: Sequence[Joint]) -> dict[str, Any]:
    """The per-joint and per-DOF arrays of an articulation, as NumPy arrays.

    Raises:
      ValueError: a number is out of range, or their count differs from the joint's free axes.
    """
    limits = np.array([pair for joint in joints for pair in _limits(joint)]).reshape(-1, 2)
    return {
        "joint_parent_pose": np.array([joint.parent_pose for joint in joints]),
        "joint_child_pose": np.array([joint.child_pose for joint in joints]),
        "joint_pitch": np.array([joint.pitch for joint in joints for _ in joint.axes], float),
        "armature": _per_dof(joints, "armature"),
        "max_joint_velocity": _per_dof(joints, "max_velocity"),
        "max_joint_force": _per_dof(joints, "max_force"),
        "joint_lower_limit": limits[:, 0],
        "joint_upper_limit": limits[:, 1],
        "drive": Drives.of(_per_axis(joints, "drive", Drive)),
        "envelope": DriveEnvelopes.of(_per_axis(joints, "envelope", DriveEnvelope)),
        "friction": JointFrictions.of(_frictions(joints)),
    }


def _per_dof(joints: Sequence[Joint], field: str) -> np.ndarray:
    """Expands a non-negative number per joint, or one per axis, to one per DOF."""
    values = []
    for joint in joints:
        count = len(joint.axes)
        value = np.asarray(getattr(joint, field), float)
        if value.shape not in ((), (count,)):
            raise ValueError(f"joint {joint.name!r}: {field} must be a number or have length {count}")
        if not np.all(value >= 0.0):
            raise ValueError(f"joint {joint.name!r}: {field} must lie in [0, inf]; found {value.tolist()}")
        values.append(np.broadcast_to(value, (count,)))
    return np.concatenate(values)


def _per_axis(joints: Sequence[Joint], field: str, *kinds: type) -> list:
    """Expands a descriptor per joint, or one per axis, to one per DOF."""
    values: list = []
    for joint in joints:
        value = getattr(joint, field)
        count = len(joint.axes)
        entries = list(value) if isinstance(value, (list, tuple)) else [value] * count
        if len(entries) != count or not all(entry is None or isinstance(entry, kinds) for entry in entries):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise ValueError(
                f"joint {joint.name!r}: {field} must be one {names} or a sequence with one per free axis ({count}); "
                f"found {value!r}"
            )
        values += entries
    return values


def _frictions(joints: Sequence[Joint]) -> list[JointFriction]:
    values = _per_axis(joints, "friction", JointFriction, float, int)
    return [
        value if isinstance(value, JointFriction) else JointFriction(static=value or 0.0, dynamic=value or 0.0)
        for value in values
    ]


def _limits(joint: Joint) -> list[tuple[float, float]]:
    if joint.limits is not None and not isinstance(joint.limits, Iterable):
        raise ValueError(f"joint {joint.name!r}: limits must have one pair per free axis; found {joint.limits!r}")
    limits = [None] * len(joint.axes) if joint.limits is None else list(joint.limits)
    if len(limits) != len(joint.axes):
        raise ValueError(f"joint {joint.name!r}: limits must have one entry per free axis; found {len(limits)}")
    pairs = [interval(pair, f"joint {joint.name!r}") for pair in limits]
    for pair in pairs:
        if joint.type is JointType.SPHERICAL and any(np.pi + 1e-6 < abs(x) < np.inf for x in pair):
            raise ValueError(f"joint {joint.name!r}: limits of a spherical joint must lie within [-pi, pi]")
    return pairs


def mimic_dofs(topology: Topology, mimics: Sequence[MimicJoint]) -> tuple[tuple[int, int], ...]:
    """The pairs (follower DOF, reference DOF); refuses two relations for one follower."""
    pairs: list[tuple[int, int]] = []
    for mimic in mimics:
        where = f"mimic joint {mimic.follower!r}"
        follower, reference = (_dof(topology, name, where) for name in (mimic.follower, mimic.reference))
        if follower == reference:
            raise ValueError(f"{where}: a joint cannot follow itself")
        if follower in (known for known, _ in pairs):
            raise ValueError(f"{where}: it follows two joints; give each follower one reference")
        pairs.append((follower, reference))
    return tuple(pairs)


def fixed_tendon(topology: Topology, tendon: FixedTendon) -> FixedTendonStructure:
    """The static part of a fixed tendon; refuses a tendon whose joints do not follow the links of the tree."""
    where = f"fixed tendon {tendon.name!r}"
    dofs = [_dof(topology, joint.dof, where) for joint in tendon.joints]
    links = [int(topology.dof_link[dof]) for dof in dofs]
    root = topology.parent[links[0]] if tendon.root_link is None else _link(topology, tendon.root_link, where)
    for joint, link in zip(tendon.joints, links, strict=True):
        above = root if joint.parent < 0 else links[joint.parent]
        if topology.parent[link] != above:
            raise ValueError(
                f"{where}: the joint of {joint.dof!r} moves link {topology.link_names[link]!r} on "
                f"{topology.link_names[topology.parent[link]]!r}, but the tendon comes from "
                f"{topology.link_names[above]!r}; a tendon follows the links, one joint after another"
            )
    return FixedTendonStructure(tendon.name, root, tuple(dofs), tuple(joint.parent for joint in tendon.joints))


def spatial_tendon(topology: Topology, tendon: SpatialTendon) -> SpatialTendonStructure:
    """The static part of a spatial tendon."""
    where = f"spatial tendon {tendon.name!r}"
    points = tendon.attachments
    return SpatialTendonStructure(
        name=tendon.name,
        links=tuple(_link(topology, point.link, where) for point in points),
        parents=tuple(point.parent for point in points),
        attachment_names=tuple(point.name for point in points),
    )


def loop_joint(topology: Topology, joint: LoopJoint) -> LoopJointStructure:
    """The static part of a loop joint."""
    where = f"loop joint {joint.name!r}"
    return LoopJointStructure(
        name=joint.name,
        type=joint.type,
        link_a=-1 if joint.link_a is None else _link(topology, joint.link_a, where),
        link_b=_link(topology, joint.link_b, where),
        locked_axes=tuple(joint.locked_axes or ()),
    )


def link_index(links: Sequence[str], link: int | str, where: str) -> int:
    """The index of a link that a builder has, given its index or its name.

    Raises:
      ValueError: there is no such link; for a name, the message lists the links.
    """
    if isinstance(link, str) and link not in links:
        raise ValueError(f"{where}: there is no link {link!r}; choose from: {', '.join(links) or 'none'}")
    number = links.index(link) if isinstance(link, str) else link
    if not (is_index(number) and 0 <= number < len(links)):
        raise ValueError(f"{where}: link {link!r} is not a link; there are {len(links)}")
    return number


def geometry_place(links: Sequence[str], known: Sequence[str], link: int | str, name: str | None) -> tuple[str, int]:
    """The name of a new shape and the index of its link; refuses unknown links and names that are taken.

    Args:
      links: names of the links.
      known: names of the shapes so far.
      link: index or name of the link.
      name: the shape's name, ``None`` for ``<link>:<k>``.
    """
    where = "geometry" if name is None else f"geometry {name!r}"
    number = link_index(links, link, where)
    if name is None:
        free = (f"{links[number]}:{k}" for k in itertools.count())
        return next(candidate for candidate in free if candidate not in known), number
    if name in known:
        raise ValueError(f"{where}: the name is taken; give every geometry its own name")
    return name, number


def _dof(topology: Topology, name: str, where: str) -> int:
    try:
        return topology.dof_index(name)
    except KeyError as error:
        raise ValueError(f"{where}: {error.args[0]}") from None


def _link(topology: Topology, name: str, where: str) -> int:
    try:
        return topology.link_index(name)
    except KeyError as error:
        raise ValueError(f"{where}: {error.args[0]}") from None
