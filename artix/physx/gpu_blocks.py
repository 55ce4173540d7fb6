"""Blocks of the direct-GPU buffers: to which kind of a fleet they belong, their order and sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.fleet.fleet import Fleet
from artix.model.topology import Topology


class Part(NamedTuple):
    """The listed blocks of a buffer that belong to one kind."""

    topology: Topology
    blocks: np.ndarray
    """Their places among the listed indices."""
    rows: np.ndarray
    """Their members' places in the batch of the kind."""


def parts_of(fleet: Fleet, indices: np.ndarray) -> list[Part]:
    """For each kind of a fleet, which of the blocks listed by the indices of members belong to
    it.
    """
    parts = []
    for members in fleet.kinds:
        blocks = np.flatnonzero(np.isin(indices, members))
        parts.append(
            Part(fleet.topologies[members[0]], blocks, np.searchsorted(members, indices[blocks]))
        )
    return parts


def in_order(parts: Sequence[Part], blocks_of_kind: Callable[[int], Any]) -> Any:
    """The blocks of all kinds in the order of the listed indices.

    Args:
      parts: the blocks of each kind.
      blocks_of_kind: the blocks of a kind, a pytree of arrays [blocks of the kind, ...]; not called
        without need, since each call compiles.
    """
    listed = [number for number, part in enumerate(parts) if len(part.blocks)] or [0]
    results = [blocks_of_kind(number) for number in listed]
    order = np.argsort(np.concatenate([parts[number].blocks for number in listed]))
    return jax.tree.map(
        lambda *leaves: leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)[order], *results
    )


@dataclasses.dataclass(frozen=True)
class ArticulationGPUAPIMaxCounts:
    """``PxArticulationGPUAPIMaxCounts``: the maxima over a fleet that set the strides of the
    direct-GPU buffers.

    Attributes:
      max_dofs: joint degrees of freedom.
      max_links: links.
      max_fixed_tendons: fixed tendons.
      max_fixed_tendon_joints: joints of one fixed tendon, including its root, as PhysX counts.
      max_spatial_tendons: spatial tendons.
      max_spatial_tendon_attachments: attachments of one spatial tendon.

    Examples:
      >>> from artix import physx
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")])
      >>> counts = physx.get_articulation_gpu_api_max_counts(fleet)
      >>> print(counts == physx.ArticulationGPUAPIMaxCounts(max_dofs=7, max_links=9))
      True
    """

    max_dofs: int
    max_links: int
    max_fixed_tendons: int = 0
    max_fixed_tendon_joints: int = 0
    max_spatial_tendons: int = 0
    max_spatial_tendon_attachments: int = 0


def get_articulation_gpu_api_max_counts(fleet: Fleet) -> ArticulationGPUAPIMaxCounts:
    """``PxScene::getArticulationGPUAPIMaxCounts``: the fleet's maxima.

    Args:
      fleet: the articulations of the scene.

    Returns:
      The counts.

    Examples:
      >>> from artix import physx
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")])
      >>> counts = physx.get_articulation_gpu_api_max_counts(fleet)
      >>> print(counts.max_dofs, counts.max_links)
      7 9
    """
    topologies = set(fleet.topologies)
    fixed = [tendon for topology in topologies for tendon in topology.fixed_tendons]
    spatial = [tendon for topology in topologies for tendon in topology.spatial_tendons]
    return ArticulationGPUAPIMaxCounts(
        max_dofs=fleet.num_dofs,
        max_links=fleet.num_links,
        max_fixed_tendons=max(len(topology.fixed_tendons) for topology in topologies),
        max_fixed_tendon_joints=max((1 + len(tendon.dofs) for tendon in fixed), default=0),
        max_spatial_tendons=max(len(topology.spatial_tendons) for topology in topologies),
        max_spatial_tendon_attachments=max((len(tendon.links) for tendon in spatial), default=0),
    )
