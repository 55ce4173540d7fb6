"""Topology as data: different trees padded to one shape, so that one compiled program serves all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, TypeAlias, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import struct
from artix.math.arrays import take
from artix.model.geometry import GeometryStructure
from artix.model.padded_arrays import pack_bits, padded, unpack_bits
from artix.model.padding import Padding
from artix.model.topology import Topology

Array = jax.Array


class PaddedTopology(struct.PyTreeNode):
    """A :class:`~artix.Topology` as padded arrays; attributes of the same name mean the same.

    Every link is a body of its own; a link on a fixed joint is a body without DOFs. If links were merged into bodies,
    the grouping would be data, and summing over it would cost more than the merged bodies save. Padded links are
    massless and attached to a link before them, padded DOFs move nothing, and results for both are exactly zero.
    Arrays that only need zero padding name the sizes of their axes in their type annotation.

    Facts that hold for every tree that fits are constants of the program: parents come at most ``reach`` places before
    their children, and DOFs follow the order of their links. This rules out half of the entries of a mask and most of
    the places that a gather may read, in particular where few links are rigid.

    Examples:
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")], layout="padded")
      >>> topology = fleet.articulation.topology
      >>> print(type(topology).__name__, topology.num_dofs)  # the fleet's maximum
      PaddedTopology 7
    """

    padding: Padding = struct.field(pytree_node=False)
    base_is_free: Array
    live_links: Array
    parent: Array
    body_axis: Array
    dofs_of_link: Array
    body_is_revolute: Array
    body_is_prismatic: Array
    body_is_spherical: Array
    body_is_helical: Array
    ancestors: Array
    live_dofs: Array
    dof_is_linear: Annotated[Array, "dofs"]
    dof_is_spherical: Annotated[Array, "dofs"]
    dof_wraps: Annotated[Array, "dofs"]
    dof_column: Annotated[Array, "dofs"]
    moves: Array
    dofs_above: Array
    link_of_dof: Array
    dof_axis: Annotated[Array, "dofs"]
    dof_is_one_of_several: Annotated[Array, "dofs"]
    mimic_dofs: Array
    link_of_geometry: Array
    points_of_geometry: Array

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_links} links, {self.num_dofs} DOFs)"

    @property
    def num_links(self) -> int:
        """Largest number of links."""
        return self.padding.links

    @property
    def num_dofs(self) -> int:
        """Largest number of joint DOFs."""
        return self.padding.dofs

    @property
    def num_bodies(self) -> int:
        """Largest number of bodies, one per link."""
        return self.padding.links

    @property
    def num_base_dofs(self) -> int:
        """6 where any member floats, else 0."""
        return 6 if self.padding.floating else 0

    @property
    def nv(self) -> int:
        """Length of the generalised vectors."""
        return self.num_base_dofs + self.num_dofs

    @property
    def has_prismatic(self) -> bool:
        """Whether any member has a prismatic joint."""
        return self.padding.prismatic

    @property
    def has_spherical(self) -> bool:
        """Whether any member has a spherical joint."""
        return self.padding.spherical

    @property
    def has_helical(self) -> bool:
        """Whether any member has a helical joint."""
        return self.padding.helical

    @property
    def link_is_live(self) -> Array:
        """Which links the member has, [L]."""
        return self.live_links[..., None] > np.arange(self.num_links, dtype=np.int32)

    @property
    def dof_is_live(self) -> Array:
        """Which DOFs the member has, [n]."""
        return self.live_dofs[..., None] > np.arange(self.num_dofs, dtype=np.int32)

    # --- shapes that can touch the ground ----------------------------------------------------------------------

    @property
    def geometries(self) -> tuple[GeometryStructure, ...]:
        """Places for the shapes that can touch the ground; their links are :attr:`link_of_geometry`."""
        return self.padding.places.structures

    @property
    def touching_geometries(self) -> tuple[int, ...]:
        """All places: sensors, and shapes that are fixed to the world, have none."""
        return tuple(range(len(self.geometries)))

    def geometry_links(self, geometries: Sequence[int]) -> Array:
        """The links of the shapes in these places, 0 where a member has none, [K]."""
        return take(self.link_of_geometry, np.array(geometries, int))

    @property
    def candidate_is_live(self) -> Array:
        """Which of their candidates the member has, [C]."""
        sizes = [one.num_candidates for one in self.geometries]
        numbers = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])
        return take(self.points_of_geometry, np.repeat(np.arange(len(sizes)), sizes)) > numbers

    # --- each link is a body ------------------------------------------------------------------------------------

    @property
    def link_body(self) -> np.ndarray:
        """The body of each link: itself."""
        return np.arange(self.num_links)

    def bodies_of_links(self, links: Array | np.ndarray) -> Array | np.ndarray:
        """The bodies of links with these indices: the same, [K]."""
        return links

    @property
    def body_link(self) -> np.ndarray:
        """The link of each body: itself."""
        return np.arange(self.num_links)

    @property
    def link_is_rigid(self) -> np.ndarray:
        """False: no link is part of another's body."""
        return np.zeros(self.num_links, bool)

    @property
    def rigid_pointers(self) -> np.ndarray:
        """Empty: no link is part of another's body."""
        return np.zeros((0, self.num_links), int)

    dof_body = property(lambda self: self.dof_link)
    dof_moves_body = property(lambda self: self.dof_moves_link)

    # --- indices and masks, narrowed by what holds for every tree -----------------------------------------------

    @property
    def body_parent(self) -> Array:
        """The parent of each body, 0 for body 0, [L]."""
        links = np.arange(self.num_links, dtype=np.int32)
        return _within(self.parent, np.maximum(links - self.padding.reach, 0), np.maximum(links - 1, 0))

    @property
    def parent_places(self) -> Array:
        """``[l - 1, k]``: whether the parent of link l is link l - 1 - k, [L-1, reach]."""
        admitted, above = self._admitted_places
        # What only one link can be is known.
        return (self.parent[1:, None] == above) & admitted | (admitted & (np.sum(admitted, axis=1) == 1)[:, None])

    @property
    def parent_choices(self) -> Array:
        """:attr:`parent_places`, but true for the nearest admitted parent, which serves unless there is a later one."""
        admitted, _ = self._admitted_places
        return self.parent_places | (admitted & (np.cumsum(admitted, axis=1) == 1))

    @property
    def _admitted_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether the parent of link l may be link l - 1 - k, and the latter's number, [L-1, reach]."""
        above = np.subtract.outer(np.arange(self.num_links - 1), np.arange(self.padding.reach)).astype(np.int32)
        admitted = above >= 0
        for row, own in zip(range(len(above)), self.padding.parents or (), strict=False):
            admitted[row] = np.isin(above[row], own)
        return admitted, above

    @property
    def body_dofs(self) -> Array:
        """The DOFs of each body's joint by axis, padded with n, [3, L]."""
        return jnp.clip(self.dofs_of_link, np.minimum(self._dofs_of_links[0], self.num_dofs), self.num_dofs)

    @property
    def has_one_dof_each(self) -> bool:
        """Whether every link l but the root has DOF l - 1 and no other, if it is not padded."""
        return not self.padding.rigid_links and not self.has_spherical and self.num_dofs >= self.num_links - 1

    @property
    def body_has_dof(self) -> Array:
        """Where :attr:`body_dofs` is not padded, [3, L]."""
        if self.has_one_dof_each:
            return self.link_is_live & np.array([[True], [False], [False]]) & (np.arange(self.num_links) > 0)
        return self.dofs_of_link < self.num_dofs

    @property
    def nearest_body_dofs(self) -> Array:
        """:attr:`body_dofs`, with any DOF where a body has none, [3, L]."""
        return _within(self.dofs_of_link, *(np.clip(bound, 0, self.num_dofs - 1) for bound in self._dofs_of_links))

    @property
    def dof_link(self) -> Array:
        """Link moved by each DOF, [n]."""
        return _within(self.link_of_dof, *self._links_of_dofs)

    @property
    def dof_parent_link(self) -> Array:
        """Parent link of the joint of each DOF, [n]."""
        return take(self.body_parent, self.dof_link)  # NumPy's where all parents are known, the links are data

    @property
    def link_ancestors(self) -> Array:
        """``[a, b]``: whether link a is link b or one of its ancestors, [L, L]."""
        return unpack_bits(self.ancestors, self.num_links) & self.padding.possible_ancestors

    @property
    def dof_moves_link(self) -> Array:
        """``[d, l]``: whether DOF d moves link l, [n, L]."""
        moves = unpack_bits(self.moves, self.num_links)
        if self.has_one_dof_each:
            return moves & self._of_known_links(self.padding.possible_ancestors)
        return moves & (np.arange(self.num_links)[None] >= self._links_of_dofs[0][:, None])

    @property
    def mass_matrix_halves(self) -> tuple[Array, Array]:
        """Where the upper half (with the diagonal) and the lower half of the mass matrix may not be zero, [nv, nv]."""
        base = self.num_base_dofs
        above = unpack_bits(self.dofs_above, self.num_dofs)
        if self.has_one_dof_each:
            above = above & self._of_known_links(self._of_known_links(self.padding.possible_ancestors).T).T
        above = jnp.pad(above, ((base, 0), (base, 0)), constant_values=True)
        upper = np.triu(np.ones((self.nv, self.nv), bool))
        return above & upper, above.T & ~upper

    def _of_known_links(self, rows: np.ndarray) -> np.ndarray:
        """Rows [L, ...] of links as rows [n, ...] of DOFs where each link has one; false for DOFs that no link has."""
        return np.concatenate([rows[1:], np.zeros((self.num_dofs + 1 - len(rows), *rows.shape[1:]), bool)])

    @property
    def _links_of_dofs(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last link that each DOF may move."""
        dofs = np.arange(self.num_dofs, dtype=np.int32)
        least = 1 + dofs // (3 if self.has_spherical else 1)
        most = np.minimum(1 + dofs + self.padding.rigid_links, self.num_links - 1)
        return np.minimum(least, most), most

    @property
    def _dofs_of_links(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last DOF that each link may have about each axis, [3, L]."""
        before, axes = np.arange(-1, self.num_links - 1, dtype=np.int32), np.arange(3, dtype=np.int32)[:, None]
        least = np.maximum(before - self.padding.rigid_links, 0) + 0 * axes
        return least, 3 * before + axes if self.has_spherical else before + 0 * axes


def _within(index: Array, least: np.ndarray, most: np.ndarray) -> Array:
    """An index within known bounds; known itself where there is only one possibility."""
    return least if np.array_equal(least, most) else jnp.clip(index, least, most)  # type: ignore[return-value]


#: A tree known while JAX traces, or a tree as data. Both have the same attributes.
Tree: TypeAlias = Topology | PaddedTopology


@lru_cache(maxsize=64)
def pad_topology(topology: Topology, padding: Padding) -> PaddedTopology:
    """A topology as data, padded with entries that have no effect; NumPy's arrays, as members of a fleet share it."""
    padding.check_fits(topology)
    links, dofs = padding.links, padding.dofs

    def by_link(of_bodies: np.ndarray, fill: float = 0) -> np.ndarray:
        """Scatters arrays of bodies [..., B] to their links [..., L]; rigid and padded links get ``fill``."""
        result = np.full((*of_bodies.shape[:-1], links), fill, of_bodies.dtype)
        result[..., topology.body_link] = of_bodies
        return result

    link_of_geometry, points_of_geometry = padding.places.links_and_points(topology)
    body_dofs = np.where(topology.body_dofs == topology.num_dofs, dofs, topology.body_dofs)
    arrays: dict[str, Any] = {
        name: padded(np.asarray(getattr(topology, name)), [getattr(padding, size) for size in hint.__metadata__])
        for name, hint in get_type_hints(PaddedTopology, include_extras=True).items()
        if hasattr(hint, "__metadata__")
    }
    arrays |= {
        "base_is_free": np.bool_(not topology.fixed_base),
        "live_links": np.int32(topology.num_links),
        "parent": np.array(
            [*topology.parent, *map(padding.nearest_parent, range(topology.num_links, links))], np.int32
        ),
        "body_axis": by_link(topology.body_axis),
        "dofs_of_link": by_link(body_dofs, dofs).astype(np.int32),
        "body_is_revolute": by_link(topology.body_is_revolute),
        "body_is_prismatic": by_link(topology.body_is_prismatic),
        "body_is_spherical": by_link(topology.body_is_spherical),
        "body_is_helical": by_link(topology.body_is_helical),
        "ancestors": pack_bits(padded(topology.link_ancestors, (links, links))),
        "live_dofs": np.int32(topology.num_dofs),
        "moves": pack_bits(padded(topology.dof_moves_link, (dofs, links))),
        "dofs_above": pack_bits(padded(topology.dof_ancestors, (dofs, dofs))),
        "link_of_dof": padded(topology.dof_link, (dofs,)),
        "mimic_dofs": padded(np.array(topology.mimic_dofs, int).reshape(-1, 2), (padding.mimics, 2), fill=dofs),
        "link_of_geometry": link_of_geometry,
        "points_of_geometry": points_of_geometry,
    }
    return PaddedTopology(padding=padding, **arrays)
