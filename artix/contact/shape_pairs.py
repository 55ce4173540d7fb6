"""Pairs of shapes that can touch each other, in one or several articulations, as static tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from artix.contact.materials import Combination
from artix.kinematics.contact_points import moves_links
from artix.model.geometry import GeometryType
from artix.model.hull_faces import HullFaces
from artix.model.topology import Topology


def num_points(a: GeometryType, b: GeometryType) -> int:
    """The number of points of a pair of shapes of these types."""
    if GeometryType.SPHERE in (a, b) or GeometryType.ELLIPSOID in (a, b):
        return 1
    return 2 if GeometryType.CAPSULE in (a, b) else 4


@dataclasses.dataclass(frozen=True)
class ShapePairs:
    """P pairs of shapes. Shapes, links and velocities are numbered articulation by articulation.

    Attributes:
      topologies: topologies of the articulations.
      shapes: the two shapes of each pair.
      friction: how the coefficients of the two combine.
      restitution: the same for restitution.
    """

    topologies: tuple[Topology, ...]
    shapes: tuple[tuple[int, int], ...]
    friction: Combination = "max"
    restitution: Combination = "max"

    @classmethod
    def of(
        cls,
        topologies: Sequence[Topology],
        across: Sequence[tuple[int, int]] = (),
        **combinations: Combination,
    ) -> ShapePairs:
        """Each articulation's own pairs, then those ``across`` articulations, given by the indices
        of their shapes; ``combinations`` are those of materials.
        """
        pairs, first = [], 0
        for tree in topologies:
            pairs += [
                (first + tree.geometry_index(a), first + tree.geometry_index(b))
                for a, b in tree.geometry_pairs
            ]
            first += len(tree.geometries)
        return cls(tuple(topologies), (*pairs, *across), **combinations)

    def __len__(self) -> int:
        return len(self.shapes)

    @cached_property
    def numbers(self) -> np.ndarray:
        """Indices of the two shapes of each pair, [P, 2]."""
        return np.array(self.shapes, int).reshape(-1, 2)

    @cached_property
    def kinds(self) -> list[tuple[GeometryType, GeometryType]]:
        """The types of the two shapes of each pair."""
        types = [shape.type for tree in self.topologies for shape in tree.geometries]
        return [(types[a], types[b]) for a, b in self.numbers]

    @cached_property
    def faces(self) -> list[tuple[HullFaces, HullFaces]]:
        """The faces of the two shapes of each pair, which only hulls have."""
        faces = [shape.faces for tree in self.topologies for shape in tree.geometries]
        return [(faces[a], faces[b]) for a, b in self.numbers]

    @cached_property
    def candidate_pairs(self) -> np.ndarray:
        """The pair of each candidate, [C]."""
        return np.repeat(np.arange(len(self)), [num_points(*kind) for kind in self.kinds])

    @cached_property
    def links(self) -> np.ndarray:
        """The links of each pair, [P, 2]."""
        return self._shape_links[self.numbers]

    @cached_property
    def moves(self) -> np.ndarray:
        """How the generalised velocities move the first link of each candidate relative to the
        second, [C, nv].

        1 and -1 for velocities that move one of them, 0 for those that move both or none.
        """
        columns = np.cumsum([0, *(tree.nv for tree in self.topologies)])
        every = []
        for k, tree in enumerate(self.topologies):
            moving = moves_links(tree, np.arange(tree.num_links)).astype(int)
            every.append(np.pad(moving, ((0, 0), (columns[k], columns[-1] - columns[k + 1]))))
        moved = np.concatenate(every)
        first, second = self.links[self.candidate_pairs].T
        return moved[first] - moved[second]

    @cached_property
    def _shape_links(self) -> np.ndarray:
        links, first = [], 0
        for tree in self.topologies:
            links += [first + shape.link for shape in tree.geometries]
            first += tree.num_links
        return np.array(links, int)
