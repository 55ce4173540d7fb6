"""Topology as data: different trees padded to one shape, so that one compiled program serves all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.math import struct
from artix.model.forests import pointer_table
from artix.model.topology import Topology

Array = jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Padding:
    """The maxima to which the members of a fleet are padded: all that a compiled program knows of their topologies.

    Attributes:
      links: largest number of links (PhysX's ``maxLinks``).
      dofs: largest number of joint degrees of freedom (``maxDofs``).
      bodies: largest number of bodies, links joined by fixed joints counting as one; at most ``links``.
      rounds: rounds of pointer jumping, ceil(log2(depth + 1)) for a tree of bodies of that depth below the root.
      rigid_rounds: the same for the chains of fixed joints.
      frames: largest number of additional frames.
      mimics: largest number of mimic joints.
      fixed_tendons: largest number of fixed tendons.
      tendon_joints: largest number of joints of all fixed tendons.
      spatial_tendons: largest number of spatial tendons.
      attachments: largest number of attachments of all spatial tendons.
      loop_joints: largest number of loop joints.
      floating: whether any member has a floating base; generalised vectors then have the root's six entries.
      prismatic: whether any member has a prismatic joint.
      spherical: whether any member has a spherical joint.
      helical: whether any member has a helical joint.

    Examples:
      >>> robots = [artix.robots.load(name) for name in ("arm7", "cart_pole")]
      >>> fleet = artix.Fleet(robots, layout="padded")
      >>> print(fleet.padding.links, fleet.padding.dofs, fleet.padding.floating)
      9 7 False
    """

    links: int
    dofs: int
    bodies: int
    rounds: int
    rigid_rounds: int = 0
    frames: int = 0
    mimics: int = 0
    fixed_tendons: int = 0
    tendon_joints: int = 0
    spatial_tendons: int = 0
    attachments: int = 0
    loop_joints: int = 0
    floating: bool = True
    prismatic: bool = False
    spherical: bool = False
    helical: bool = False

    @classmethod
    def of(cls, topology: Topology) -> Padding:
        """The sizes that one topology needs."""
        return cls(
            links=topology.num_links,
            dofs=topology.num_dofs,
            bodies=topology.num_bodies,
            rounds=len(_body_pointers(topology)),
            rigid_rounds=len(topology.rigid_pointers),
            frames=len(topology.frame_names),
            mimics=len(topology.mimic_dofs),
            fixed_tendons=len(topology.fixed_tendons),
            tendon_joints=sum(len(tendon.dofs) for tendon in topology.fixed_tendons),
            spatial_tendons=len(topology.spatial_tendons),
            attachments=sum(len(tendon.links) for tendon in topology.spatial_tendons),
            loop_joints=len(topology.loop_joints),
            floating=not topology.fixed_base,
            prismatic=topology.has_prismatic,
            spherical=topology.has_spherical,
            helical=topology.has_helical,
        )

    @classmethod
    def covering(cls, topologies: Sequence[Topology]) -> Padding:
        """The least padding that fits all topologies."""
        needs = [dataclasses.asdict(cls.of(topology)) for topology in topologies]
        return cls(**{key: max(need[key] for need in needs) for key in needs[0]})

    def check_fits(self, topology: Topology) -> None:
        """Raises ``ValueError``, naming each maximum that is too small, unless the topology fits."""
        need = dataclasses.asdict(Padding.of(topology))
        short = [
            f"{key}={value} (padding has {getattr(self, key)})"
            for key, value in need.items()
            if value > getattr(self, key)
        ]
        if short:
            raise ValueError(
                f"articulation {topology.name!r} does not fit the fleet's padding: it needs {', '.join(short)}; "
                "build the fleet with a larger padding"
            )


class PaddedTopology(struct.PyTreeNode):
    """A :class:`~artix.Topology` as arrays, padded; attributes of the same name mean the same.

    Padded links are massless and attached to the root, padded DOFs move nothing, and results for both are exactly zero.
    The type of an array that is only filled up with zeros names the padding's sizes of its axes.

    Examples:
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")], layout="padded")
      >>> topology = fleet.articulation.topology
      >>> print(type(topology).__name__, topology.num_dofs)  # the fleet's maximum
      PaddedTopology 7
    """

    is_known_when_traced: ClassVar[bool] = False
    """Programs of trees that are data are left to XLA, see :mod:`artix.evaluation.quantity`."""

    padding: Padding = struct.field(pytree_node=False)
    base_is_free: Array
    link_is_live: Array
    parent: Annotated[Array, "links"]
    link_is_rigid: Annotated[Array, "links"]
    link_body: Annotated[Array, "links"]
    link_in_body: Annotated[Array, "links", "bodies"]
    rigid_pointers: Array
    body_link: Annotated[Array, "bodies"]
    body_parent: Array
    body_parent_link: Annotated[Array, "bodies"]
    body_pointers: Array
    body_axes: Array
    body_dofs: Array
    body_is_revolute: Annotated[Array, "bodies"]
    body_is_prismatic: Annotated[Array, "bodies"]
    body_is_spherical: Annotated[Array, "bodies"]
    body_is_helical: Annotated[Array, "bodies"]
    body_ancestors: Annotated[Array, "bodies", "bodies"]
    bodies_below: Array
    dof_is_live: Array
    dof_is_linear: Annotated[Array, "dofs"]
    dof_wraps: Annotated[Array, "dofs"]
    dof_body: Annotated[Array, "dofs"]
    dof_column: Annotated[Array, "dofs"]
    dof_moves_body: Annotated[Array, "dofs", "bodies"]
    dof_moves_link: Annotated[Array, "dofs", "links"]
    mass_matrix_halves: tuple[Array, Array]
    dof_link: Annotated[Array, "dofs"]
    dof_parent_link: Annotated[Array, "dofs"]
    dof_axis: Annotated[Array, "dofs"]
    dof_is_one_of_several: Annotated[Array, "dofs"]
    depth_first_dofs: Array
    link_ancestors: Annotated[Array, "links", "links"]
    mimic_dofs: Array

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
        """Largest number of bodies."""
        return self.padding.bodies

    @property
    def num_base_dofs(self) -> int:
        """6 where any member floats, else 0."""
        return 6 if self.padding.floating else 0

    @property
    def nv(self) -> int:
        """Length of the generalised vectors."""
        return self.num_base_dofs + self.num_dofs

    @property
    def has_rigid_links(self) -> bool:
        """Whether any member has bodies of several links."""
        return self.padding.rigid_rounds > 0

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


#: A tree known while JAX traces, or a tree as data. Both have the same attributes.
Tree: TypeAlias = Topology | PaddedTopology


def pad_topology(topology: Topology, padding: Padding) -> PaddedTopology:
    """A topology as data, padded with entries that have no effect."""
    padding.check_fits(topology)
    links, dofs, bodies = padding.links, padding.dofs, padding.bodies
    body_dofs = np.where(topology.body_dofs == topology.num_dofs, dofs, topology.body_dofs)
    base = 6 if padding.floating else 0
    above = np.pad(padded(topology.dof_ancestors, (dofs, dofs)), ((base, 0), (base, 0)), constant_values=True)
    arrays: dict[str, Any] = {
        name: padded(np.asarray(getattr(topology, name)), [getattr(padding, size) for size in hint.__metadata__])
        for name, hint in get_type_hints(PaddedTopology, include_extras=True).items()
        if hasattr(hint, "__metadata__")
    }
    arrays |= {
        "base_is_free": np.bool_(not topology.fixed_base),
        "link_is_live": padded(np.ones(topology.num_links, bool), (links,)),
        "rigid_pointers": padded(topology.rigid_pointers, (padding.rigid_rounds, links)),
        "body_parent": padded(np.maximum(topology.body_parent, 0), (bodies,)),
        "body_pointers": padded(_body_pointers(topology), (padding.rounds, bodies - 1)),
        "body_axes": np.concatenate(
            [padded(topology.body_axes[:3], (3, bodies)), padded(topology.body_axes[3:], (1, bodies), fill=1.0)]
        ),
        "body_dofs": padded(body_dofs, (3, bodies), fill=dofs),
        "bodies_below": padded(topology.bodies_below, (bodies, 1 + dofs)),
        "dof_is_live": padded(np.ones(topology.num_dofs, bool), (dofs,)),
        "depth_first_dofs": np.concatenate([topology.depth_first_dofs, np.arange(topology.num_dofs, dofs)]),
        "mimic_dofs": padded(np.array(topology.mimic_dofs, int).reshape(-1, 2), (padding.mimics, 2), fill=dofs),
        "mass_matrix_halves": (np.triu(above), np.triu(above, 1).T),
    }
    return PaddedTopology(padding=padding, **jax.tree.map(jnp.asarray, arrays))


def _body_pointers(topology: Topology) -> np.ndarray:
    """Pointer-jumping table of bodies 1 .. B-1 relative to body 0, shape [rounds, B-1]."""
    return pointer_table(topology.body_parent[1:] - 1)


def padded(array: np.ndarray, shape: Sequence[int], fill: npt.ArrayLike = 0) -> np.ndarray:
    """Pads an array at the end of every axis with ``fill``."""
    kind = np.int32 if array.dtype.kind == "i" else array.dtype
    result = np.full(shape, fill, kind)
    result[tuple(slice(size) for size in array.shape)] = array
    return result
