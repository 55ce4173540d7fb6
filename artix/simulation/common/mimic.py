"""The relations of mimic joints: their directions and errors."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul
from artix.model.couplings import MimicJoints
from artix.model.topology import Topology

Array = jax.Array


def mimic_directions(mimic: MimicJoints, topology: Topology) -> Array:
    """The generalised forces of unit impulses of all mimic joints, and the rates of their relations, [K, nv]."""
    entries = topology.num_base_dofs + jnp.asarray(topology.mimic_dofs)
    ends = jax.nn.one_hot(entries, topology.nv, dtype=mimic.gear_ratio.dtype)
    return ends[:, 0] + mimic.gear_ratio[:, None] * ends[:, 1]


def mimic_errors(mimic: MimicJoints, topology: Topology, joint_position: Array) -> Array:
    """``q_follower + gear_ratio q_reference + offset`` of all mimic joints, [K]."""
    joints = mimic_directions(mimic, topology)[:, topology.num_base_dofs :]
    return matmul(joints, joint_position) + mimic.offset
