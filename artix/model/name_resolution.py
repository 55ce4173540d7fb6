"""Resolves the names in a builder's couplings to indices of links and DOFs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from artix.model.couplings import LoopJoint, LoopJointStructure, MimicJoint
from artix.model.tendons import FixedTendon, FixedTendonStructure, SpatialTendon, SpatialTendonStructure
from artix.model.topology import Topology
from artix.model.validation import is_index


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


def geometry(links: Sequence[str], known: Sequence[str], link: int | str, name: str | None) -> tuple[str, int]:
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
