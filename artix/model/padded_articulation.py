"""Pads articulations with different trees to one shape."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.articulation import Articulation
from artix.model.checks import static_topology
from artix.model.geometry import Geometries
from artix.model.padded_arrays import padded
from artix.model.padding import Padding, pad_topology


def pad_articulation(articulation: Articulation, padding: Padding) -> Articulation:
    """The articulation with padded arrays and its topology as data; padded links are massless, padded limits zero.

    Shapes on links are left out, since their kinds and links are static but differ between the members of a fleet.

    Raises:
      TypeError: the articulation is padded already.
      ValueError: it does not fit the padding.
    """
    topology = static_topology(
        articulation, "only an articulation with a static Topology can be padded; this one is padded already"
    )
    tree = pad_topology(topology, padding)
    links, dofs = padding.links, padding.dofs
    identity = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])

    def pad(field: str, *shape: int, fill=0.0):
        value = getattr(articulation, field)
        filled = np.broadcast_to(np.asarray(fill, value.dtype), shape).copy()
        filled[tuple(slice(size) for size in value.shape)] = value
        return jnp.asarray(filled)

    poses = ("link_com_pose", "joint_parent_pose", "joint_child_pose")
    per_link = (
        *("link_mass", "gravity_scale", "link_linear_damping", "link_angular_damping"),
        *("max_link_linear_velocity", "max_link_angular_velocity", "link_cfm_scale"),
    )
    per_dof = (
        *("joint_pitch", "armature", "joint_lower_limit", "joint_upper_limit"),
        *("max_joint_velocity", "max_joint_force"),
    )
    return articulation.replace(
        topology=tree,
        link_inertia=pad("link_inertia", links, 3, 3),
        frame_local_pose=pad("frame_local_pose", padding.frames, 7, fill=identity),
        geometry=jax.tree.map(lambda leaf: jnp.asarray(leaf, articulation.dtype), Geometries.of([])),
        **_padded_groups(articulation, padding),
        **{field: pad(field, links, 7, fill=identity) for field in poses},
        **{field: pad(field, links) for field in per_link},
        **{field: pad(field, dofs) for field in per_dof},
    )


def _padded_groups(articulation: Articulation, padding: Padding) -> dict[str, Any]:
    """The groups of arrays of joint features and couplings, padded with entries that have no effect."""

    def pad_group(group, size: int, **other_sizes: int):
        """Pads the arrays of a group along their first axis to ``size``; ``other_sizes`` are for single fields."""
        sizes = {field.name: other_sizes.get(field.name, size) for field in dataclasses.fields(group)}
        arrays = {name: np.asarray(getattr(group, name)) for name in sizes}
        arrays = {name: padded(array, (sizes[name], *array.shape[1:])) for name, array in arrays.items()}
        return group.replace(**jax.tree.map(jnp.asarray, arrays))

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
