"""Many articulations, of one topology or of several, in one batch and one compiled program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.fleet.batches import vmap_in_blocks
from artix.kinematics.configuration import neutral_state, random_state
from artix.model.articulation import Articulation, State
from artix.model.padding import Padding, pad_articulation
from artix.model.topology import Topology

Array = jax.Array


class Fleet:
    """Many articulations in one batch.

    Members of one topology share the static path: ``fleet.articulation`` is an ordinary articulation whose arrays
    have a leading member axis. Members of several topologies are padded to common maxima and their topologies become
    data; a member that fits the padding can then take another's place without recompilation. Either way every
    function of artix works under ``jax.vmap`` over ``fleet.articulation`` and a fleet state::

        fleet = artix.Fleet([quadruped] * 2048 + [arm] * 2048)
        state = fleet.random_state(jax.random.key(0))
        M = fleet.evaluate(artix.mass_matrix, state)  # [4096, nv, nv]

    In a padded fleet L and n are the fleet's maxima. Where any member floats, generalised vectors have the root's six
    entries first for all, zero for members with a fixed base, and dense Jacobians have the root's rows. Padded rows and
    columns are exactly zero.

    Args:
      articulations: the members in order; the same object may appear many times.
      padding: maxima to pad to, if larger than the members need; also makes a fleet of one topology padded.

    Raises:
      ValueError: there is no member, dtypes differ, or a member does not fit the padding (which maximum is named).

    Attributes:
      articulation: the members' parameters, every leaf with a leading axis N; for ``jax.vmap``.
      topologies: the static topology of each member, length N.
      padding: the common maxima, ``None`` where all members share one static topology.
    """

    def __init__(self, articulations: Sequence[Articulation], *, padding: Padding | None = None) -> None:
        members = list(articulations)
        if not members:
            raise ValueError("a fleet needs at least one articulation")
        kinds = {id(member): member for member in members}
        place = {key: index for index, key in enumerate(kinds)}
        topologies = {key: _static_topology(member) for key, member in kinds.items()}
        dtypes = {str(member.dtype) for member in kinds.values()}
        if len(dtypes) > 1:
            raise ValueError(f"all members of a fleet must have one dtype; found {', '.join(sorted(dtypes))}")
        if padding is None and len(set(topologies.values())) > 1:
            padding = Padding.covering(list(topologies.values()))
        self.padding = padding
        self.topologies: tuple[Topology, ...] = tuple(topologies[id(member)] for member in members)
        shaped = [member if padding is None else pad_articulation(member, padding) for member in kinds.values()]
        index = np.array([place[id(member)] for member in members])
        self.articulation: Articulation = jax.tree.map(lambda *leaves: jnp.stack(leaves)[index], *shaped)

    @property
    def num_members(self) -> int:
        """Number N of articulations."""
        return len(self.topologies)

    def __len__(self) -> int:
        return self.num_members

    def __repr__(self) -> str:
        kinds = len(set(self.topologies))
        return f"Fleet({self.num_members} articulations, {kinds} {'topology' if kinds == 1 else 'topologies'})"

    # --- evaluation ---------------------------------------------------------------------------------------------

    def evaluate(self, function: Callable[..., Any], state: State, *arguments: Any, **options: Any) -> Any:
        """Evaluates a function of one articulation for all members, compiled.

        By ``jax.vmap`` if they are of one topology, else by :func:`artix.vmap_in_blocks`.

        Args:
          function: ``function(articulation, state, *arguments, **options)`` such as ``artix.mass_matrix``; compiled
            once per function object, so pass a named function rather than a new lambda each time.
          state: the fleet's state, leading axis N.
          *arguments: further arrays (or pytrees) with leading axis N.
          **options: static, hashable keyword arguments, the same for all members.

        Returns:
          What the function returns, with leading axis N.
        """
        return _evaluate(function, tuple(sorted(options.items())), self.articulation, state, *arguments)

    # --- states -------------------------------------------------------------------------------------------------

    def neutral_state(self) -> State:
        """The neutral state of every member, leading axis N."""
        return jax.vmap(neutral_state)(self.articulation)

    def random_state(self, key: Array, *, velocity_scale: float = 1.0) -> State:
        """A random state of every member, leading axis N; see :func:`artix.random_state`."""
        keys = jax.random.split(key, self.num_members)
        return _random_states(self.articulation, keys, velocity_scale)

    def stack_states(self, states: Sequence[State]) -> State:
        """Joins the members' own states (unpadded, in order) to a state of the fleet."""
        if len(states) != self.num_members:
            raise ValueError(f"expected {self.num_members} states, one per member; found {len(states)}")
        width = self.topologies[0].num_dofs if self.padding is None else self.padding.dofs
        padded = []
        for number, (topology, state) in enumerate(zip(self.topologies, states, strict=True)):
            if state.joint_position.shape != (topology.num_dofs,):
                raise ValueError(
                    f"state {number}: joint_position must have shape ({topology.num_dofs},) for {topology.name!r}; "
                    f"found {state.joint_position.shape}"
                )
            extra = (0, width - topology.num_dofs)
            padded.append(
                state.replace(
                    joint_position=np.pad(state.joint_position, extra),
                    joint_velocity=np.pad(state.joint_velocity, extra),
                )
            )
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *padded)

    def member_state(self, state: State, member: int) -> State:
        """The unpadded state of one member out of a state of the fleet."""
        n = self.topologies[member].num_dofs
        return State(
            state.root_pose[member],
            state.root_velocity[member],
            state.joint_position[member, :n],
            state.joint_velocity[member, :n],
        )

    # --- changes ------------------------------------------------------------------------------------------------

    def replace_member(self, member: int, articulation: Articulation) -> Fleet:
        """A fleet with another articulation in place of one member; shapes stay, so compiled programs serve it too.

        Raises:
          IndexError: there is no such member.
          ValueError: the articulation does not fit: its topology differs from a static fleet's, or exceeds the padding.
        """
        if not 0 <= member < self.num_members:
            raise IndexError(f"there is no member {member}; the fleet has {self.num_members}")
        topology = _static_topology(articulation)
        if self.padding is None and topology != self.topologies[0]:
            raise ValueError(
                f"articulation {topology.name!r} has another topology than this fleet, which is not padded; "
                "build the fleet with a padding that fits both, artix.Fleet(..., padding=artix.Padding.covering([...]))"
            )
        shaped = articulation if self.padding is None else pad_articulation(articulation, self.padding)
        other = object.__new__(Fleet)
        other.padding = self.padding
        other.topologies = (*self.topologies[:member], topology, *self.topologies[member + 1 :])
        other.articulation = jax.tree.map(lambda all_, new: all_.at[member].set(new), self.articulation, shaped)
        return other

    def shard(self, sharding: jax.sharding.Sharding) -> Fleet:
        """The same fleet with every leaf placed by ``sharding``, such as a ``NamedSharding`` over the members."""
        other = object.__new__(Fleet)
        other.padding, other.topologies = self.padding, self.topologies
        other.articulation = jax.device_put(self.articulation, sharding)
        return other


@partial(jax.jit, static_argnums=(0, 1))
def _evaluate(function, options, articulation, state, *arguments):
    batched = jax.vmap if isinstance(articulation.topology, Topology) else vmap_in_blocks
    return batched(partial(function, **dict(options)))(articulation, state, *arguments)


@jax.jit
def _random_states(articulation, keys, velocity_scale):
    return jax.vmap(lambda one, key: random_state(one, key, velocity_scale=velocity_scale))(articulation, keys)


def _static_topology(articulation: Articulation) -> Topology:
    if not isinstance(articulation.topology, Topology):
        raise ValueError("members of a fleet must be single articulations with a static topology")
    if articulation.link_mass.ndim != 1:
        raise ValueError(
            f"articulation {articulation.topology.name!r}: members of a fleet must be single articulations, "
            f"found arrays with leading axes {articulation.link_mass.shape[:-1]}"
        )
    return articulation.topology
