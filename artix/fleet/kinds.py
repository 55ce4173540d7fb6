"""The kinds of a fleet: its members by topology."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from artix.math.arrays import device_array
from artix.model.articulation import Articulation, with_equal_parts
from artix.model.topology import Topology

Array = jax.Array


class Kind(NamedTuple):
    """The members of one topology.

    Attributes:
      articulation: their articulation. Leaves that differ between members have a leading axis of members.
      differs: whether each leaf has that axis.
      members: the indices of the members in the fleet.
    """

    articulation: Articulation
    differs: tuple[bool, ...]
    members: np.ndarray

    @property
    def batch(self) -> Articulation:
        """Their articulation, every leaf with a leading axis of members."""
        leaves, structure = jax.tree.leaves(self.articulation), jax.tree.structure(self.articulation)
        rows = np.zeros(len(self.members), int)
        pairs = zip(leaves, self.differs, strict=True)
        return jax.tree.unflatten(structure, [leaf if flag else members_of(rows, leaf) for leaf, flag in pairs])

    @property
    def is_operand(self) -> list[bool]:
        """Whether each leaf is an operand of the kind's program; the others are constants."""
        is_traced = [isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self.articulation)]
        return list(map(operator.or_, self.differs, is_traced))

    @property
    def differs_of_operands(self) -> list[bool]:
        """Whether each leaf that is an operand differs between members."""
        return [differs for differs, flag in zip(self.differs, self.is_operand, strict=True) if flag]


def kinds_of(members: Sequence[Articulation], index: np.ndarray) -> list[Kind]:
    """The kinds of a fleet, in the order of their first members.

    Args:
      members: the different articulations.
      index: for each member of the fleet, which of the articulations it is, [N].
    """
    kinds = []
    for numbers, rows in rows_by_topology(members, index):
        place = {number: position for position, number in enumerate(numbers)}
        alike = with_equal_parts([members[number] for number in numbers])
        which = np.array([place[number] for number in index[rows].tolist()])
        # ``robot.replace(link_mass=...)`` keeps all other leaves, which then remain constants of the kind's program.
        leaves = list(zip(*map(jax.tree.leaves, alike), strict=True))
        differs = tuple(any(leaf is not each[0] for leaf in each) for each in leaves)
        joined = [members_of(which, *each) if flag else each[0] for each, flag in zip(leaves, differs, strict=True)]
        structure: Any = jax.tree.structure(alike[0])
        kinds.append(Kind(structure.unflatten(joined), differs, rows))
    return kinds


def rows_by_topology(members: Sequence[Articulation], index: np.ndarray) -> list[tuple[list[int], np.ndarray]]:
    """For each kind of :func:`kinds_of`, which of the articulations have its topology, and its members in the fleet."""
    by_topology: dict[Topology, list[int]] = {}
    for number in dict.fromkeys(index.tolist()):
        by_topology.setdefault(members[number].topology, []).append(number)
    return [(numbers, np.flatnonzero(np.isin(index, numbers))) for numbers in by_topology.values()]


def have_tracers(values: Any) -> bool:
    """Whether JAX is tracing some of the arrays of a pytree."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def members_of(index: np.ndarray, *leaves: Any) -> Array:
    """Stacks the leaves of different members for all members, by NumPy: JAX would compile a program for each shape."""
    if have_tracers(leaves):
        return jnp.stack(leaves)[index]
    return device_array(np.stack([np.asarray(leaf) for leaf in leaves])[index])


def each_part_alike(kinds: Sequence[Kind], parts: int) -> list[Kind] | None:
    """The kinds in each of several equal parts of a fleet, with the articulations of the whole fleet.

    Returns:
      ``None`` unless all parts hold the same kinds in the same places.
    """
    size, rest = divmod(sum(len(kind.members) for kind in kinds), parts)
    if rest:
        return None
    first_part = [kind.members[kind.members < size] for kind in kinds]
    repeated = [(np.arange(parts)[:, None] * size + members).ravel() for members in first_part]
    if not all(map(np.array_equal, repeated, (kind.members for kind in kinds))):
        return None
    return [kind._replace(members=members) for kind, members in zip(kinds, first_part, strict=True)]


def parameters_of(kinds: Sequence[Kind]) -> list[list[Array]]:
    """For each kind, the leaves of its articulation that are operands of its program."""
    return [
        [leaf for leaf, flag in zip(jax.tree.leaves(kind.articulation), kind.is_operand, strict=True) if flag]
        for kind in kinds
    ]


def place_parameters(kinds: Sequence[Kind], parameters: Sequence[Sequence[Array]], sharding: Sharding) -> Any:
    """The parameters on devices: those that differ between members by ``sharding``, others on all of them."""
    everywhere = NamedSharding(sharding.mesh, PartitionSpec()) if isinstance(sharding, NamedSharding) else sharding
    return [
        [
            jax.device_put(leaf, sharding if differs else everywhere)
            for leaf, differs in zip(leaves, kind.differs_of_operands, strict=True)
        ]
        for kind, leaves in zip(kinds, parameters, strict=True)
    ]
