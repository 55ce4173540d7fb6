"""Which shapes of an articulation may collide with each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from artix.model.geometry import GeometryStructure, GeometryType
from artix.model.topology import Topology

#: The kinds of shapes between which distances can be computed.
PAIRED_TYPES = (GeometryType.SPHERE, GeometryType.CAPSULE, GeometryType.BOX)


def checked_pairs(topology: Topology, pairs: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Checks pairs of shape names and returns them as tuples.

    Raises:
      ValueError: a pair does not consist of two names, a name is unknown, the two do not move relative to each other,
        their distance cannot be computed, or a pair is given twice.
    """
    names = [shape.name for shape in topology.geometries]
    checked = []
    for pair in pairs:
        first, second = checked_shapes(pair, names, topology.geometries)
        links = [topology.geometries[topology.geometry_index(name)].link for name in (first, second)]
        if topology.link_body[links[0]] == topology.link_body[links[1]]:
            raise ValueError(f"geometry_pairs: {first!r} and {second!r} do not move against each other")
        if (first, second) in checked or (second, first) in checked:
            raise ValueError(f"geometry_pairs: {first!r} and {second!r} are given twice")
        checked.append((first, second))
    return tuple(checked)


def checked_shapes(pair: Sequence[str], names: Sequence[str], shapes: Sequence[GeometryStructure]) -> tuple[str, str]:
    """The two names of a pair, both of shapes that have distances from each other.

    Raises:
      ValueError: there are not two names, one is unknown, or there is no distance between their kinds.
    """
    if isinstance(pair, str) or len(pair) != 2:
        raise ValueError(f"geometry_pairs: a pair has two names of shapes; found {pair!r}")
    for name in pair:
        if name not in names:
            raise ValueError(f"geometry_pairs: no geometry called {name!r}; choose from: {', '.join(names)}")
        shape = shapes[list(names).index(name)]
        if shape.type not in PAIRED_TYPES:
            raise ValueError(
                f"geometry_pairs: {name!r} is a {shape.type.value}; spheres, capsules and boxes touch each "
                "other: add one of these to the link, as a sensor if it must not touch the ground"
            )
    return pair[0], pair[1]


def candidate_pairs(topology: Topology) -> tuple[tuple[str, str], ...]:
    """All pairs of shapes that could collide, except on neighbouring bodies, whose shapes usually overlap.

    Two bodies are neighbours if one is the nearest ancestor of the other that has shapes. Sensors, and kinds of shapes
    without distances, are left out.
    """
    shapes = [shape for shape in topology.geometries if shape.type in PAIRED_TYPES and not shape.sensor]
    bodies = [int(topology.link_body[shape.link]) for shape in shapes]
    above = {body: next((a for a in _above(topology, body) if a in bodies), -1) for body in bodies}
    return tuple(
        (shapes[j].name, shapes[k].name)
        for j, k in itertools.combinations(range(len(shapes)), 2)
        if bodies[j] != bodies[k] and above[bodies[j]] != bodies[k] and above[bodies[k]] != bodies[j]
    )


def _above(topology: Topology, body: int) -> Iterator[int]:
    """The ancestors of a body, nearest first."""
    while body > 0:
        body = int(topology.body_parent[body])
        yield body


def moving_pairs(topology: Topology) -> tuple[tuple[str, str], ...]:
    """The topology's pairs whose shapes still move relative to each other, after joints between them may be locked."""

    def body(name: str) -> int:
        return int(topology.link_body[topology.geometries[topology.geometry_index(name)].link])

    return tuple((a, b) for a, b in topology.geometry_pairs if body(a) != body(b))
