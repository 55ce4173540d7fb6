"""What the axes of a fleet's padded arrays mean, as their lengths tell.

The shape of an array tells which entries belong to a member: along an axis as long as the fleet's largest number of
links (or DOFs and so on), each kind has as many entries as it has links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from artix.model.topology import Topology


class Maxima(NamedTuple):
    """The sizes to which a fleet's arrays are padded."""

    links: int
    """Largest number of links."""
    dofs: int
    """Largest number of joint DOFs."""
    frames: int
    """Largest number of additional frames."""
    floating: bool
    """Whether any member has a floating base; generalised vectors then begin with the root's six entries."""

    @classmethod
    def covering(cls, topologies: Iterable[Topology]) -> Maxima:
        """The smallest sizes that serve all topologies."""
        sizes = [(one.num_links, one.num_dofs, len(one.frame_names), not one.fixed_base) for one in topologies]
        return cls(*map(max, zip(*sizes, strict=True)))

    @property
    def nv(self) -> int:
        """Length of the generalised vectors."""
        return self.dofs + (6 if self.floating else 0)


class Axis(NamedTuple):
    """A member's entries along an axis of the fleet's arrays: ``[skipped, skipped + size)`` of ``padded`` entries."""

    skipped: int
    size: int
    padded: int

    @property
    def entries(self) -> slice:
        """Which entries they are."""
        return slice(self.skipped, self.skipped + self.size)

    @property
    def padding(self) -> tuple[int, int]:
        """How many entries are before and behind them."""
        return self.skipped, self.padded - self.skipped - self.size


#: What an axis may mean, for one kind.
Meanings: TypeAlias = dict[str, Axis]
_Shape: TypeAlias = tuple[int, ...]


def meanings_of(topology: Topology, maxima: Maxima) -> Meanings:
    """What an axis may mean for one kind. Members with a fixed base lack the root's entries of floating ones."""
    links, dofs, floats = topology.num_links, topology.num_dofs, not topology.fixed_base
    root = 6 if maxima.floating and not floats else 0
    pose = 7 if maxima.floating and not floats else 0
    rootless_rows = 0 if maxima.floating else 6
    return {
        "generalised velocity": Axis(root, topology.nv, maxima.nv),
        "joint DOFs": Axis(0, dofs, maxima.dofs),
        "links": Axis(0, links, maxima.links),
        "frames": Axis(0, len(topology.frame_names), maxima.frames),
        "configuration": Axis(pose, (7 if floats else 0) + dofs, (7 if maxima.floating else 0) + maxima.dofs),
        "rows of the dense Jacobian": Axis(root, 6 * links - (0 if floats else 6), 6 * maxima.links - rootless_rows),
    }


def candidates(size: int, meanings: Sequence[Meanings]) -> list[tuple[Axis, ...]]:
    """What an axis of an argument may mean for all kinds; the last possibility is an axis that all kinds share."""
    fitting = [tuple(each[name] for each in meanings) for name in meanings[0] if meanings[0][name].padded == size]
    return list(dict.fromkeys([*fitting, (Axis(0, size, size),) * len(meanings)]))


def axes_of_one_result(shapes: list[_Shape], meanings: Sequence[Meanings], number: int) -> list[list[Axis]]:
    """For each kind, the axes of a result."""
    axes = []
    for position, sizes in enumerate(zip(*shapes, strict=True)):
        fitting = {
            tuple(each[name] for each in meanings)
            for name in meanings[0]
            if all(each[name].size == size for each, size in zip(meanings, sizes, strict=True))
        }
        if len(set(sizes)) == 1:
            fitting.add((Axis(0, sizes[0], sizes[0]),) * len(meanings))
        if len(fitting) != 1:
            what = "nothing that a fleet pads has these" if not fitting else "these may mean several things"
            raise ValueError(
                f"axis {position} of result {number} has the lengths {', '.join(map(str, sizes))} for the kinds of "
                f"this fleet, and {what}; fleet.evaluate_kinds returns the results of each kind"
            )
        axes.append(fitting.pop())
    return [[axis[kind] for axis in axes] for kind in range(len(meanings))]
