"""The maxima that set the strides of PhysX's direct-GPU buffers, and argument checks for its calls."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.fleet.arguments import widths_of_state
from artix.fleet.fleet import Fleet
from artix.model.articulation import State
from artix.model.checks import check_vector
from artix.physx.fleet_simulation import AnyFleetSimulation, FleetSimulation, simulations_of_kinds
from artix.physx.simulation import check_in_scene

_Type = TypeVar("_Type", bound=enum.IntEnum)


@dataclasses.dataclass(frozen=True)
class ArticulationGPUAPIMaxCounts:
    """``PxArticulationGPUAPIMaxCounts``: the maxima over a fleet that set the strides of the direct-GPU buffers.

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


def of_type(kind: type[_Type], name: str, value: Any) -> _Type:
    """The enumerator, or its number, that an argument of this name stands for.

    Raises:
      TypeError: it belongs to another enumeration, where the same number means something else.
      ValueError: there is no such number.
    """
    if isinstance(value, enum.IntEnum) and not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__}, found {value!r}")
    return kind(value)


def check_indices(fleet: Fleet, indices: npt.ArrayLike, *, distinct: bool = False) -> np.ndarray:
    """The indices of articulations as an array [nb], checked before anything is traced.

    Raises:
      IndexError: an index is not a member of the fleet.
      TypeError: the indices are not a list of concrete integers.
      ValueError: ``distinct`` and an index appears twice.
    """
    try:
        array = np.asarray(indices)
    except jax.errors.JAXTypeError:
        raise TypeError(
            "indices must be known when the call is traced, so that they can be checked; pass a list or a NumPy array "
            "that is not an argument of jax.jit, or a tuple listed in static_argnums"
        ) from None
    if array.size == 0 and array.ndim == 1:
        return array.astype(np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"indices must be a list of integers; found shape {array.shape}, dtype {array.dtype}")
    bad = array[(array < 0) | (array >= fleet.num_members)]
    if bad.size:
        raise IndexError(f"indices must lie in [0, {fleet.num_members}); found {bad.tolist()[:8]}")
    numbers, counts = np.unique(array, return_counts=True)
    if distinct and np.any(counts > 1):
        raise ValueError(f"indices to write must be distinct; found {numbers[counts > 1].tolist()[:8]} more than once")
    return array.astype(np.int32)


def check_state(fleet: Fleet, state: State) -> None:
    """Raises ``ValueError`` or ``TypeError`` unless the arrays of a state have a row for each member of the fleet."""
    _check_widths(state, fleet.num_members, fleet.num_dofs, fleet.dtype, "a row for each member of the fleet")


def check_simulation(fleet: Fleet, simulation: AnyFleetSimulation) -> None:
    """Raises ``ValueError`` or ``TypeError`` unless the simulations are those of the fleet's members."""
    if not isinstance(simulation, FleetSimulation):
        check_in_scene(simulation)
    simulations = simulations_of_kinds(simulation)
    expected = [(len(members), fleet.topologies[members[0]]) for members in fleet.kinds]
    found = [(len(one.state.root_pose), one.topology) for one in simulations if one.state.root_pose.ndim == 2]
    if found != expected:
        shapes = [one.state.joint_position.shape for one in simulations]
        raise ValueError(
            "the simulation is not that of the fleet: joint positions of its kinds must have the shapes "
            f"{[(count, topology.num_dofs) for count, topology in expected]}, found {shapes}; create it with "
            "artix.physx.create_fleet_simulation(fleet)"
        )
    for one in simulations:
        dofs, meaning = one.topology.num_dofs, "a row for each member of the kind"
        _check_widths(one.state, len(one.state.root_pose), dofs, fleet.dtype, meaning)


def _check_widths(state: State, rows: int, dofs: int, dtype: Any, meaning: str) -> None:
    for name, width in widths_of_state(dofs).items():
        check_vector(f"state.{name}", getattr(state, name), (rows, width), dtype, meaning)


def to_transform(pose: jax.Array) -> jax.Array:
    """Poses [..., 7] with the quaternion first, as ``PxTransform``."""
    return jnp.concatenate([pose[..., 3:], pose[..., :3]], axis=-1)
