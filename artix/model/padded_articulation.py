"""Pads articulations with different trees to one shape."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.articulation import PER_DOF, PER_LINK, Articulation
from artix.model.checks import static_topology
from artix.model.joints import IDENTITY_POSE
from artix.model.padded_arrays import padded
from artix.model.padded_topology import pad_topology
from artix.model.padding import Padding


def pad_articulation(articulation: Articulation, padding: Padding) -> Articulation:
    """The articulation with padded arrays and its topology as data; padded links are massless, padded limits zero.

    Of the shapes on links, those that can touch the ground remain.

    Raises:
      TypeError: the articulation is already padded.
      ValueError: it does not fit the padding.
    """
    topology = static_topology(
        articulation, "only an articulation with a static Topology can be padded; this one is padded already"
    )
    tree = pad_topology(topology, padding)

    def pad(name: str, size: int, **other_sizes: int) -> Any:
        """Pads an array, or the arrays of a group, along the first axis; ``other_sizes`` overrides single arrays."""
        group, fill = getattr(articulation, name), IDENTITY_POSE if name.endswith("_pose") else 0.0
        if isinstance(group, jax.Array | np.ndarray):
            return _filled_up(group, size, fill)
        arrays = {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}
        return group.replace(**{key: _filled_up(array, other_sizes.get(key, size)) for key, array in arrays.items()})

    of_tendon_joints = dict.fromkeys(("coefficient", "recip_coefficient"), padding.tendon_joints)
    of_attachments = ("position", "coefficient", "rest_length", "lower_limit", "upper_limit")
    return articulation.replace(
        topology=tree,
        **{name: pad(name, padding.links) for name in PER_LINK},
        **{name: pad(name, padding.dofs) for name in PER_DOF},
        frame_local_pose=pad("frame_local_pose", padding.frames),
        mimic=pad("mimic", padding.mimics),
        fixed_tendons=pad("fixed_tendons", padding.fixed_tendons, **of_tendon_joints),
        spatial_tendons=pad(
            "spatial_tendons", padding.spatial_tendons, **dict.fromkeys(of_attachments, padding.attachments)
        ),
        loop_joints=pad("loop_joints", padding.loop_joints),
        geometry=padding.places.fill(topology, articulation.geometry),
    )


def _filled_up(array: Any, size: int, fill: Any = 0.0) -> Any:
    """An array with ``size`` rows, by NumPy unless JAX traces it: JAX would compile a program for each shape.

    It stays NumPy's, since a fleet makes one array of those of all its members: each copy to JAX takes 60 us.
    """
    shape = (size, *array.shape[1:])
    if isinstance(array, jax.core.Tracer):
        return jnp.full(shape, fill, array.dtype).at[: array.shape[0]].set(array)
    return padded(np.asarray(array), shape, fill)
