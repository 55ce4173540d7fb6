"""The sizes to which the members of a fleet are padded."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from artix.model.padded_geometry import Places
from artix.model.topology import Topology
from artix.model.validation import is_index


@dataclasses.dataclass(frozen=True, kw_only=True)
class Padding:
    """The sizes to which the members of a fleet are padded; a compiled program depends on topologies only by these.

    Attributes:
      links: largest number of links (PhysX's ``maxLinks``).
      dofs: largest number of joint degrees of freedom (``maxDofs``).
      reach: largest distance between a link and its parent in the order of the links. ``links - 1`` serves every tree;
        a chain needs 1, and other robots about as many as they have limbs, since links are ordered breadth-first.
      rigid_links: largest number of links attached by fixed joints.
      frames: largest number of additional frames.
      mimics: largest number of mimic joints.
      fixed_tendons: largest number of fixed tendons.
      tendon_joints: largest total number of joints on fixed tendons.
      spatial_tendons: largest number of spatial tendons.
      attachments: largest total number of attachments of spatial tendons.
      loop_joints: largest number of loop joints.
      geometry_pairs: largest number of pairs of shapes that collide with each other.
      hull_points: largest number of points of each shape that can touch the ground but cylinders, in descending order:
        a sphere has 1, a capsule 2, a box 8.
      cylinders: largest number of cylinders that can touch the ground.
      parents: for each link but the root, the links that may be its parent; ``None`` for any within ``reach``. The
        fewer there are, the faster is the fleet; ``dataclasses.replace(padding, parents=None)`` admits more robots.
      floating: whether any member has a floating base; generalised vectors then have the root's six entries.
      prismatic: whether any member has a prismatic joint.
      spherical: whether any member has a spherical joint.
      helical: whether any member has a helical joint.

    Raises:
      ValueError: a size is negative or no whole number, ``hull_points`` are not sorted or include 0, or ``parents``
        does not list links within ``reach`` before each link but the root.

    Examples:
      >>> robots = [artix.robots.load(name) for name in ("arm7", "cart_pole")]
      >>> fleet = artix.Fleet(robots, layout="padded")
      >>> print(fleet.padding.links, fleet.padding.dofs, fleet.padding.floating)
      9 7 False
    """

    links: int
    dofs: int
    reach: int
    rigid_links: int = 0
    frames: int = 0
    mimics: int = 0
    fixed_tendons: int = 0
    tendon_joints: int = 0
    spatial_tendons: int = 0
    attachments: int = 0
    loop_joints: int = 0
    geometry_pairs: int = 0
    hull_points: tuple[int, ...] = ()
    cylinders: int = 0
    parents: tuple[tuple[int, ...], ...] | None = None
    floating: bool = True
    prismatic: bool = False
    spherical: bool = False
    helical: bool = False

    def __post_init__(self) -> None:
        """Checks the sizes, and that each link has admissible parents, at most ``reach`` places before it."""
        for field in dataclasses.fields(self):
            size = getattr(self, field.name)
            if field.type == "int" and not (is_index(size) and size >= 0):
                raise ValueError(f"{field.name} must be a whole number, not negative; found {size!r}")
        points = np.asarray(self.hull_points).tolist()
        sizes = points if isinstance(points, list) else [0]
        if not all(is_index(size) and size > 0 for size in sizes) or sizes != sorted(sizes, reverse=True):
            raise ValueError(
                "hull_points must be the numbers of points of shapes, whole numbers in descending order, such as "
                f"(8, 2, 1); found {self.hull_points!r}"
            )
        object.__setattr__(self, "hull_points", tuple(sizes))
        if self.parents is None:
            return
        object.__setattr__(self, "parents", tuple(map(tuple, self.parents)))
        if len(self.parents) != self.links - 1:
            raise ValueError(
                f"parents must list those of {self.links - 1} links, all but the root; found {len(self.parents)}; "
                "parents=None admits all within reach"
            )
        for link, own in enumerate(self.parents, start=1):
            if not own or min(own) < max(link - self.reach, 0) or max(own) >= link:
                raise ValueError(
                    f"parents of link {link} must be among links {max(link - self.reach, 0)} to {link - 1} "
                    f"(reach={self.reach}); found {own}"
                )

    @classmethod
    def of(cls, topology: Topology) -> Padding:
        """The sizes that one topology needs."""
        return cls(
            links=topology.num_links,
            dofs=topology.num_dofs,
            reach=max((link - above for link, above in enumerate(topology.parent[1:], start=1)), default=1),
            rigid_links=topology.num_links - topology.num_bodies,
            frames=len(topology.frame_names),
            mimics=len(topology.mimic_dofs),
            fixed_tendons=len(topology.fixed_tendons),
            tendon_joints=sum(len(tendon.dofs) for tendon in topology.fixed_tendons),
            spatial_tendons=len(topology.spatial_tendons),
            attachments=sum(len(tendon.links) for tendon in topology.spatial_tendons),
            loop_joints=len(topology.loop_joints),
            geometry_pairs=len(topology.geometry_pairs),
            **Places.of(topology)._asdict(),
            parents=tuple((above,) for above in topology.parent[1:]),
            floating=not topology.fixed_base,
            prismatic=topology.has_prismatic,
            spherical=topology.has_spherical,
            helical=topology.has_helical,
        )

    @classmethod
    def covering(cls, topologies: Sequence[Topology]) -> Padding:
        """The smallest padding that fits all topologies.

        Raises:
          TypeError: one is no static topology, for instance an articulation.
        """
        for topology in topologies:
            if not isinstance(topology, Topology):
                raise TypeError(
                    f"expected topologies, found {type(topology).__name__}; an articulation has one, "
                    "artix.Padding.covering([arm.topology, quadruped.topology])"
                )
        needs = [cls.of(topology)._sizes for topology in topologies]
        links = itertools.zip_longest(*(topology.parent[1:] for topology in topologies))
        parents = tuple(tuple(sorted({above for above in each if above is not None})) for each in links)
        return cls(**{key: _largest([need[key] for need in needs]) for key in needs[0]}, parents=parents)

    def check_fits(self, topology: Topology) -> None:
        """Raises ``ValueError``, naming each size that is too small, unless the topology fits."""
        too_small = [
            f"{key}={value} (padding has {getattr(self, key)})"
            for key, value in Padding.of(topology)._sizes.items()
            if _largest([value, getattr(self, key)]) != getattr(self, key)
        ]
        if too_small:
            raise ValueError(
                f"articulation {topology.name!r} does not fit the fleet's padding: it needs {', '.join(too_small)}; "
                "build the fleet with a larger padding"
            )
        for link, above in enumerate(topology.parent[1:], start=1):
            if self.parents is not None and above not in self.parents[link - 1]:
                raise ValueError(
                    f"articulation {topology.name!r} does not fit the fleet's padding: link {link} "
                    f"({topology.link_names[link]!r}) has the parent {above}, and the padding admits "
                    f"{', '.join(map(str, self.parents[link - 1]))}; build the fleet with the padding of all robots "
                    "that will take part (artix.Padding.covering), or with dataclasses.replace(padding, parents=None)"
                )

    @property
    def places(self) -> Places:
        """The places for shapes."""
        return Places(self.hull_points, self.cylinders)

    @cached_property
    def possible_ancestors(self) -> np.ndarray:
        """``[a, b]``: whether link a may be link b or one of its ancestors, [L, L]."""
        possible = np.eye(self.links, dtype=bool)
        for link in range(1, self.links):
            nearest = range(max(link - self.reach, 0), link)
            for above in nearest if self.parents is None else self.parents[link - 1]:
                possible[:, link] |= possible[:, above]
        return possible

    def nearest_parent(self, link: int) -> int:
        """The nearest of the links that may be the parent of a link."""
        return link - 1 if self.parents is None else max(self.parents[link - 1])

    @property
    def _sizes(self) -> dict[str, Any]:
        """All fields of which the largest serves every member."""
        sizes = dataclasses.asdict(self)
        del sizes["parents"]
        return sizes


def _largest(sizes: Sequence[Any]) -> Any:
    """The largest of several sizes; of tuples entry by entry."""
    if isinstance(sizes[0], tuple):
        return tuple(map(max, itertools.zip_longest(*sizes, fillvalue=0)))
    return max(sizes)
