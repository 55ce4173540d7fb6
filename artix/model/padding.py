"""Topology as data: articulations of different trees brought to one shape, so that one compiled program serves all."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from artix.model.articulation import Articulation
from artix.model.geometry import Geometries
from artix.model.topology import Topology, pointer_table

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
        """What one topology needs."""
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
    """

    is_known_when_traced: ClassVar[bool] = False
    """Programs of trees that are data are left to XLA, see :mod:`artix.evaluation.quantity`."""

    padding: Padding = struct.field(pytree_node=False)
    base_is_free: Array
    link_is_live: Array
    parent: Array
    link_is_rigid: Array
    link_body: Array
    link_in_body: Array
    rigid_pointers: Array
    body_link: Array
    body_parent: Array
    body_parent_link: Array
    body_pointers: Array
    body_axes: Array
    body_dofs: Array
    body_is_revolute: Array
    body_is_prismatic: Array
    body_is_spherical: Array
    body_is_helical: Array
    body_ancestors: Array
    bodies_below: Array
    dof_is_live: Array
    dof_is_linear: Array
    dof_wraps: Array
    dof_body: Array
    dof_column: Array
    dof_moves_body: Array
    dof_moves_link: Array
    mass_matrix_halves: tuple[Array, Array]
    dof_link: Array
    dof_parent_link: Array
    dof_axis: Array
    dof_is_one_of_several: Array
    depth_first_dofs: Array
    link_ancestors: Array
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


def pad_topology(topology: Topology, padding: Padding) -> PaddedTopology:
    """Turns a topology into data, padded with entries that do nothing."""
    padding.check_fits(topology)
    links, dofs, bodies = padding.links, padding.dofs, padding.bodies
    body_dofs = np.where(topology.body_dofs == topology.num_dofs, dofs, topology.body_dofs)
    base = 6 if padding.floating else 0
    above = np.pad(_pad(topology.dof_ancestors, (dofs, dofs)), ((base, 0), (base, 0)), constant_values=True)
    arrays: dict[str, Any] = {
        "base_is_free": np.bool_(not topology.fixed_base),
        "link_is_live": _pad(np.ones(topology.num_links, bool), (links,)),
        "parent": _pad(np.array(topology.parent), (links,)),
        "link_is_rigid": _pad(topology.link_is_rigid, (links,)),
        "link_body": _pad(topology.link_body, (links,)),
        "link_in_body": _pad(topology.link_in_body, (links, bodies)),
        "rigid_pointers": _pad(topology.rigid_pointers, (padding.rigid_rounds, links)),
        "body_link": _pad(topology.body_link, (bodies,)),
        "body_parent": _pad(np.maximum(topology.body_parent, 0), (bodies,)),
        "body_parent_link": _pad(topology.body_parent_link, (bodies,)),
        "body_pointers": _pad(_body_pointers(topology), (padding.rounds, bodies - 1)),
        "body_axes": np.concatenate(
            [_pad(topology.body_axes[:3], (3, bodies)), _pad(topology.body_axes[3:], (1, bodies), fill=1.0)]
        ),
        "body_dofs": _pad(body_dofs, (3, bodies), fill=dofs),
        "body_is_revolute": _pad(topology.body_is_revolute, (bodies,)),
        "body_is_prismatic": _pad(topology.body_is_prismatic, (bodies,)),
        "body_is_spherical": _pad(topology.body_is_spherical, (bodies,)),
        "body_is_helical": _pad(topology.body_is_helical, (bodies,)),
        "body_ancestors": _pad(topology.body_ancestors, (bodies, bodies)),
        "bodies_below": _pad(topology.bodies_below, (bodies, 1 + dofs)),
        "dof_is_live": _pad(np.ones(topology.num_dofs, bool), (dofs,)),
        "dof_is_linear": _pad(topology.dof_is_linear, (dofs,)),
        "dof_wraps": _pad(topology.dof_wraps, (dofs,)),
        "dof_body": _pad(topology.dof_body, (dofs,)),
        "dof_column": _pad(topology.dof_column, (dofs,)),
        "dof_moves_body": _pad(topology.dof_moves_body, (dofs, bodies)),
        "dof_moves_link": _pad(topology.dof_moves_link, (dofs, links)),
        "dof_link": _pad(topology.dof_link, (dofs,)),
        "dof_parent_link": _pad(topology.dof_parent_link, (dofs,)),
        "dof_axis": _pad(topology.dof_axis, (dofs,)),
        "dof_is_one_of_several": _pad(topology.dof_is_one_of_several, (dofs,)),
        "depth_first_dofs": np.concatenate([topology.depth_first_dofs, np.arange(topology.num_dofs, dofs)]),
        "link_ancestors": _pad(topology.link_ancestors, (links, links)),
        "mimic_dofs": _pad(np.array(topology.mimic_dofs, int).reshape(-1, 2), (padding.mimics, 2), fill=dofs),
        "mass_matrix_halves": (np.triu(above), np.triu(above, 1).T),
    }
    return PaddedTopology(padding=padding, **jax.tree.map(jnp.asarray, arrays))


def pad_articulation(articulation: Articulation, padding: Padding) -> Articulation:
    """An articulation with padded arrays and its topology as data; padded links are massless, padded limits zero.

    Shapes on links are left out: their kinds and links are static, and differ between the members of a fleet.

    Raises:
      TypeError: the articulation is padded already.
      ValueError: it does not fit the padding.
    """
    topology = articulation.topology
    if not isinstance(topology, Topology):
        raise TypeError("only an articulation with a static Topology can be padded; this one is padded already")
    padded = pad_topology(topology, padding)
    links, dofs = padding.links, padding.dofs
    identity = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])

    def pad(field: str, *shape: int, fill=0.0):
        value = getattr(articulation, field)
        filled = np.broadcast_to(np.asarray(fill, value.dtype), shape).copy()
        filled[tuple(slice(size) for size in value.shape)] = value
        return jnp.asarray(filled)

    poses = {
        field: pad(field, links, 7, fill=identity)
        for field in ("link_com_pose", "joint_parent_pose", "joint_child_pose")
    }

    per_link = (
        "link_mass",
        "gravity_scale",
        "link_linear_damping",
        "link_angular_damping",
        "max_link_linear_velocity",
        "max_link_angular_velocity",
        "link_cfm_scale",
    )
    per_dof = (
        "joint_pitch",
        "armature",
        "joint_lower_limit",
        "joint_upper_limit",
        "max_joint_velocity",
        "max_joint_force",
    )
    return articulation.replace(
        topology=padded,
        link_inertia=pad("link_inertia", links, 3, 3),
        frame_local_pose=pad("frame_local_pose", padding.frames, 7, fill=identity),
        geometry=jax.tree.map(lambda leaf: jnp.asarray(leaf, articulation.dtype), Geometries.of([])),
        **_padded_groups(articulation, padding),
        **poses,
        **{field: pad(field, links) for field in per_link},
        **{field: pad(field, dofs) for field in per_dof},
    )


def _padded_groups(articulation: Articulation, padding: Padding) -> dict[str, Any]:
    """The groups of arrays of joint features and couplings, padded by entries that do nothing."""

    def pad_group(group, size: int, **other_sizes: int):
        """Pads the arrays of a group along their first axis; ``other_sizes`` are those of single fields."""
        sizes = {field.name: other_sizes.get(field.name, size) for field in dataclasses.fields(group)}
        arrays = {name: np.asarray(getattr(group, name)) for name in sizes}
        padded = {name: _pad(array, (sizes[name], *array.shape[1:])) for name, array in arrays.items()}
        return group.replace(**jax.tree.map(jnp.asarray, padded))

    joints = dict.fromkeys(("coefficient", "recip_coefficient"), padding.tendon_joints)
    of_attachments = ("position", "coefficient", "rest_length", "lower_limit", "upper_limit")
    points = dict.fromkeys(of_attachments, padding.attachments)
    return {
        "drive": pad_group(articulation.drive, padding.dofs),
        "envelope": pad_group(articulation.envelope, padding.dofs),
        "friction": pad_group(articulation.friction, padding.dofs),
        "mimic": pad_group(articulation.mimic, padding.mimics),
        "fixed_tendons": pad_group(articulation.fixed_tendons, padding.fixed_tendons, **joints),
        "spatial_tendons": pad_group(articulation.spatial_tendons, padding.spatial_tendons, **points),
        "loop_joints": pad_group(articulation.loop_joints, padding.loop_joints),
    }


def _body_pointers(topology: Topology) -> np.ndarray:
    """Pointer-jumping table of bodies 1 .. B-1 relative to body 0, shape [rounds, B-1]."""
    return pointer_table(topology.body_parent[1:] - 1)


def _pad(array: np.ndarray, shape: tuple[int, ...], fill=0) -> np.ndarray:
    kind = np.int32 if array.dtype.kind == "i" else array.dtype
    padded = np.full(shape, fill, kind)
    padded[tuple(slice(size) for size in array.shape)] = array
    return padded
