"""The members of a fleet in a scene, kind by kind, and the direct-GPU buffers' blocks that belong to each kind.

The maxima over the fleet set the strides of buffers.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.fleet.arguments import widths_of_state
from artix.fleet.fleet import Fleet
from artix.math import struct
from artix.model.articulation import State
from artix.model.checks import check_vector
from artix.model.topology import Topology
from artix.physx.simulation import ArticulationSimulation, check_in_scene

Array = jax.Array


class FleetSimulation(struct.PyTreeNode):
    """The members of a fleet of several topologies in one scene; see :func:`create_fleet_simulation`.

    Attributes:
      kinds: the simulations of each topology in one batch, with a leading axis of the members of this kind.
      members: the numbers of these members in the fleet, as ``fleet.kinds`` lists them; static.
      num_dofs: the fleet's largest number of joint DOFs; static.

    Examples:
      >>> from artix import physx
      >>> fleet = artix.Fleet([artix.robots.load("cart_pole"), artix.robots.load("double_pendulum")] * 2)
      >>> scene = physx.create_fleet_simulation(fleet)
      >>> scene = scene.map(lambda one: physx.simulate(one, 1 / 240))
      >>> print(scene.members, scene.state.joint_position.shape)
      ((0, 2), (1, 3)) (4, 2)
    """

    kinds: tuple[ArticulationSimulation, ...]
    members: tuple[tuple[int, ...], ...] = struct.field(pytree_node=False)
    num_dofs: int = struct.field(pytree_node=False)

    def map(self, function: Callable[[ArticulationSimulation], ArticulationSimulation]) -> FleetSimulation:
        """Applies a function of one articulation's simulation, such as :func:`simulate`, to those of all members.

        Args:
          function: returns the changed simulation.
        """
        return self.replace(kinds=tuple(jax.vmap(function)(kind) for kind in self.kinds))

    @property
    def state(self) -> State:
        """The state of the fleet, leading axis N."""
        order = np.argsort(np.concatenate(self.members))

        def joined(name: str, width: int) -> Array:
            parts = [getattr(kind.state, name) for kind in self.kinds]
            return jnp.concatenate([padded(part, (width,)) for part in parts])[order]

        return State(**{name: joined(name, width) for name, width in widths_of_state(self.num_dofs).items()})


#: What the direct-GPU calls accept. A fleet of one topology has its members' simulations in one batch.
AnyFleetSimulation: TypeAlias = ArticulationSimulation | FleetSimulation


class Part(NamedTuple):
    """The listed blocks of a buffer that belong to one kind."""

    topology: Topology
    blocks: np.ndarray
    """Their places among the listed indices."""
    rows: np.ndarray
    """Their members' places in the batch of the kind."""


def parts_of(fleet: Fleet, indices: np.ndarray) -> list[Part]:
    """For each kind of a fleet, which of the blocks listed by the indices of members belong to it."""
    parts = []
    for members in fleet.kinds:
        blocks = np.flatnonzero(np.isin(indices, members))
        parts.append(Part(fleet.topologies[members[0]], blocks, np.searchsorted(members, indices[blocks])))
    return parts


def simulations_of_kinds(simulation: AnyFleetSimulation) -> tuple[ArticulationSimulation, ...]:
    """The simulations of each kind."""
    return simulation.kinds if isinstance(simulation, FleetSimulation) else (simulation,)


def with_kinds(simulation: AnyFleetSimulation, kinds: Sequence[ArticulationSimulation]) -> Any:
    """The same scene with other simulations of each kind."""
    return simulation.replace(kinds=tuple(kinds)) if isinstance(simulation, FleetSimulation) else kinds[0]


def own_state(topology: Topology, state: State, members: np.ndarray) -> State:
    """The state of some members of one topology, out of that of the fleet."""
    state = jax.tree.map(lambda leaf: leaf[members], state)
    joints = slice(topology.num_dofs)
    return state.replace(joint_position=state.joint_position[:, joints], joint_velocity=state.joint_velocity[:, joints])


def padded(rows: Array, shape: Sequence[int]) -> Array:
    """Rows of arrays, [m, ...], with zeros at the end of each axis up to this shape, [m, *shape]."""
    return jnp.pad(rows, [(0, 0), *((0, size - length) for length, size in zip(rows.shape[1:], shape, strict=True))])


def in_order(parts: Sequence[Part], blocks_of_kind: Callable[[int], Any]) -> Any:
    """The blocks of all kinds in the order of the listed indices.

    Args:
      parts: the blocks of each kind.
      blocks_of_kind: the blocks of a kind, a pytree of arrays [blocks of the kind, ...]; not called without need, since
        each call compiles.
    """
    listed = [number for number, part in enumerate(parts) if len(part.blocks)] or [0]
    results = [blocks_of_kind(number) for number in listed]
    order = np.argsort(np.concatenate([parts[number].blocks for number in listed]))
    return jax.tree.map(lambda *leaves: leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)[order], *results)


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
    batches = [(len(one.state.root_pose), one.topology) for one in simulations if one.state.root_pose.ndim == 2]
    if batches != expected:
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
