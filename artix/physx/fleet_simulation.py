"""The members of a fleet in a scene, kind by kind, and which blocks of a direct-GPU buffer belong to which kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from artix.fleet.arguments import widths_of_state
from artix.fleet.fleet import Fleet
from artix.math import struct
from artix.model.articulation import State
from artix.model.topology import Topology
from artix.physx.simulation import ArticulationSimulation

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
