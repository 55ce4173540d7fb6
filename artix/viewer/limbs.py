"""The joints of a robot by limb, in the order in which a person would name them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from artix import Topology


@dataclasses.dataclass(frozen=True)
class Limb:
    """Degrees of freedom that move one limb.

    Attributes:
      name: what the names of its degrees of freedom begin with, such as ``front_left``, or the name
        of its first link.
      dofs: their indices, from the root to the tip.
    """

    name: str
    dofs: tuple[int, ...]


def limbs_of(topology: Topology) -> tuple[Limb, ...]:
    """Divides the degrees of freedom of a robot into limbs, depth first.

    Where the tree branches, each branch with two or more degrees of freedom is a limb of its own. A
    branch with a single one, such as a wheel or a finger, belongs to the limb that carries it.

    Args:
      topology: the topology of one robot.

    Returns:
      The limbs, which contain every degree of freedom once.
    """
    children: list[list[int]] = [[] for _ in topology.parent]
    own: list[list[int]] = [[] for _ in topology.parent]
    for dof, link in enumerate(topology.dof_link):
        own[int(link)].append(dof)
    below = [len(dofs) for dofs in own]
    for link in reversed(range(1, len(children))):  # Links are numbered breadth first.
        children[topology.parent[link]].insert(0, link)
        below[topology.parent[link]] += below[link]
    groups: list[tuple[int, list[int]]] = [(0, [])]

    def walk(link: int, group: list[int]) -> None:
        group += own[link]
        moving = [child for child in children[link] if below[child]]
        for child in moving:
            inside = group
            if len(moving) > 1 and below[child] > 1:
                inside = []
                groups.append((child, inside))
            walk(child, inside)

    walk(0, groups[0][1])
    filled = [(link, tuple(dofs)) for link, dofs in groups if dofs]
    starts = [_common_start([topology.dof_names[dof] for dof in dofs]) for _, dofs in filled]
    return tuple(
        Limb(start if start and starts.count(start) == 1 else topology.link_names[link], dofs)
        for start, (link, dofs) in zip(starts, filled, strict=True)
    )


def _common_start(names: Sequence[str]) -> str:
    """The words with which all names begin: ``arm_left`` for ``arm_left_1`` and ``arm_left_2``."""
    words = [re.split(r"[_\-. /]", name) for name in names]
    count = 0
    while all(len(one) > count + 1 for one in words) and len({one[count] for one in words}) == 1:
        count += 1
    start = "_".join(words[0][:count])
    return names[0][: len(start)]
