"""Many articulations, of one topology or of several, in one batch and one compiled program."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from artix.fleet.batches import vmap_in_blocks
from artix.fleet.kinds import MOST_KINDS, each_part_alike, evaluate_by_kind, kinds_of, parameters_of
from artix.model.articulation import Articulation, State
from artix.model.padded_articulation import pad_articulation
from artix.model.padding import Padding
from artix.model.states import neutral_state, random_state
from artix.model.topology import Topology

Array = jax.Array
Layout: TypeAlias = Literal["kinds", "padded"]


class Fleet:
    """Many articulations in one batch.

    Members of one topology share the static path: ``fleet.articulation`` is an ordinary articulation whose arrays
    have a leading member axis. Arrays of members of several topologies are padded to common maxima. :meth:`evaluate`
    then has each kind of members computed by a program of its own (``layout="kinds"``), or all by one for which their
    trees are data (``layout="padded"``): that takes several times as long, but a member that fits the padding can take
    another's place without recompilation. Either way every function of artix works under ``jax.vmap`` over
    ``fleet.articulation``, whose trees are then data, and a fleet state.

    In a padded fleet L and n are the fleet's maxima. Where any member floats, generalised vectors have the root's six
    entries first for all, zero for members with a fixed base, and dense Jacobians have the root's rows. Padded rows and
    columns are exactly zero.

    Args:
      articulations: the members in order; the same object may appear many times.
      padding: maxima to pad to, if larger than the members need; also makes a fleet of one topology padded.
      layout: how a mixed fleet is evaluated. By default ``"kinds"`` for up to 16 topologies, as each costs a
        compilation, and ``"padded"`` for more or if there is a ``padding``.

    Raises:
      ValueError: there is no member, dtypes differ, a member does not fit the padding (which maximum is named), or the
        layout is unknown or ``"kinds"`` with a padding, which is for members that are not known yet.

    Attributes:
      articulation: the members' parameters, every leaf with a leading axis N; for ``jax.vmap``.
      topologies: the static topology of each member, length N.
      padding: the common maxima, ``None`` where all members share one static topology.
      layout: how a mixed fleet is evaluated, see above.

    Examples:
      >>> fleet = artix.Fleet([artix.robots.load("double_pendulum"), artix.robots.load("cart_pole")] * 2)
      >>> state = fleet.random_state(jax.random.key(0))
      >>> print(fleet.evaluate(artix.mass_matrix, state).shape)
      (4, 2, 2)
      >>> print(fleet.evaluate(artix.kinetic_energy, state).shape, fleet.topologies[1].name)
      (4,) cart_pole
    """

    def __init__(
        self, articulations: Sequence[Articulation], *, padding: Padding | None = None, layout: Layout | None = None
    ) -> None:
        members = list(articulations)
        if not members:
            raise ValueError("a fleet needs at least one articulation")
        kinds = {id(member): member for member in members}
        place = {key: index for index, key in enumerate(kinds)}
        topologies = {key: _static_topology(member) for key, member in kinds.items()}
        dtypes = {str(member.dtype) for member in kinds.values()}
        if len(dtypes) > 1:
            raise ValueError(f"all members of a fleet must have one dtype; found {', '.join(sorted(dtypes))}")
        if layout not in (None, "kinds", "padded"):
            raise ValueError(f"layout must be 'kinds' or 'padded'; found {layout!r}")
        if layout == "kinds" and padding is not None:
            raise ValueError("a fleet with a padding has layout='padded'; leave the padding out, or the layout")
        if padding is not None or len(set(topologies.values())) > MOST_KINDS:
            layout = layout or "padded"
        self.layout: Layout = layout or "kinds"
        if padding is None and len(set(topologies.values())) > 1:
            padding = Padding.covering(list(topologies.values()))
        self.padding = padding
        self.topologies: tuple[Topology, ...] = tuple(topologies[id(member)] for member in members)
        shaped = [member if padding is None else pad_articulation(member, padding) for member in kinds.values()]
        index = np.array([place[id(member)] for member in members])
        self._different, self._index = list(kinds.values()), index
        self._sharding: NamedSharding | None = None
        self._compiled: dict[Any, Callable[..., Any]] = {}
        self.articulation: Articulation = jax.tree.map(partial(_members_of, index), *shaped)

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

        By ``jax.vmap`` if they are of one topology; else kind by kind, or by :func:`artix.vmap_in_blocks` if their
        trees are data. Kind by kind all works that works for a static topology (tendons, loop joints, every solver of
        :func:`artix.step`), and parameters are numbers of the program. Entries of arguments that a member does not have
        are not looked at, those of results are zero.

        Args:
          function: ``function(articulation, state, *arguments, **options)`` such as ``artix.mass_matrix``; compiled
            once per function object, so pass a named function rather than a new lambda each time.
          state: the fleet's state, leading axis N.
          *arguments: further arrays (or pytrees) with leading axis N.
          **options: static, hashable keyword arguments, the same for all members.

        Returns:
          What the function returns, with leading axis N.

        Raises:
          ValueError: kind by kind, the lengths of a result's axes do not tell what of it is a member's; and what the
            function raises.
        """
        static = tuple(sorted(options.items()))
        if self.padding is None or self.layout == "padded":
            return _evaluate(function, static, self.articulation, state, *arguments)
        if (function, static) not in self._compiled:
            with jax.ensure_compile_time_eval():  # What is kept holds no tracers of a function that JAX traces now.
                self._compiled[function, static] = self._by_kind(function, options, self.padding)
        return self._compiled[function, static](state, *arguments)

    def _by_kind(self, function: Callable[..., Any], options: dict[str, Any], padding: Padding) -> Callable[..., Any]:
        """A compiled function of the fleet's state and further arguments, each device with its part of the members."""
        kinds = kinds_of(self._different, self._index)
        parameters = parameters_of(kinds)
        if self._sharding is None:
            return partial(jax.jit(evaluate_by_kind(kinds, padding, function, options)), parameters)
        mesh, members = self._sharding.mesh, PartitionSpec(self._sharding.spec[0])
        local = each_part_alike(kinds, _num_parts(self._sharding, len(self)))
        assert local is not None, "``shard`` makes other fleets padded"
        by_kind = evaluate_by_kind(local, padding, function, options)
        on_devices = jax.jit(jax.shard_map(by_kind, mesh=mesh, in_specs=members, out_specs=members))
        return partial(on_devices, jax.device_put(parameters, NamedSharding(mesh, members)))

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

    def member(self, member: int) -> Articulation:
        """The articulation of one member as it was given, neither padded nor batched.

        Args:
          member: its number.

        Raises:
          IndexError: there is no such member.

        Examples:
          >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("quadruped")])
          >>> fleet.member(1).topology.name
          'quadruped'
        """
        if not 0 <= member < self.num_members:
            raise IndexError(f"there is no member {member}; the fleet has {self.num_members}")
        return self._different[self._index[member]]

    # --- changes ------------------------------------------------------------------------------------------------

    def replace_member(self, member: int, articulation: Articulation) -> Fleet:
        """A fleet with another articulation in place of one member; the shapes of its arrays are the same.

        Compiled programs are reused if the fleet is padded or has a single topology.

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
        other = self._copy()
        other._different, other._index = [*self._different, articulation], self._index.copy()
        other._index[member] = len(self._different)
        other.topologies = (*self.topologies[:member], topology, *self.topologies[member + 1 :])
        other.articulation = jax.tree.map(lambda all_, new: all_.at[member].set(new), self.articulation, shaped)
        return other if self._sharding is None else other.shard(self._sharding)

    def shard(self, sharding: Sharding) -> Fleet:
        """The same fleet with every leaf placed by ``sharding``, such as a ``NamedSharding`` over the members.

        If it is mixed and evaluated by kind, each device evaluates its own members without communication. This
        requires that the devices' parts hold the same kinds in the same places, as in
        ``Fleet([arm, quadruped] * n)``; the trees of other mixed fleets become data (``layout="padded"``).
        """
        other = self._copy()
        other.articulation = jax.device_put(self.articulation, sharding)
        if self.padding is None or self.layout == "padded":
            return other
        if isinstance(sharding, NamedSharding) and sharding.spec:
            kinds = kinds_of(self._different, self._index)
            if each_part_alike(kinds, _num_parts(sharding, len(self))) is not None:
                other._sharding = sharding
                return other
        other.layout = "padded"
        return other

    def _copy(self) -> Fleet:
        """The same fleet, without its compiled programs."""
        other = copy.copy(self)
        other._compiled = {}
        return other


def _members_of(index: np.ndarray, *leaves: Any) -> Array:
    """The leaves of different members as that of all; by NumPy, as JAX would compile a program for each shape."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return jnp.stack(leaves)[index]
    return jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])[index])


def _num_parts(sharding: NamedSharding, members: int) -> int:
    return members // sharding.shard_shape((members,))[0]


@partial(jax.jit, static_argnums=(0, 1))
def _evaluate(function, options, articulation, state, *arguments):
    batched = jax.vmap if isinstance(articulation.topology, Topology) else vmap_in_blocks
    return batched(partial(function, **dict(options)))(articulation, state, *arguments)


@jax.jit
def _random_states(articulation, keys, velocity_scale):
    return jax.vmap(lambda member, key: random_state(member, key, velocity_scale=velocity_scale))(articulation, keys)


def _static_topology(articulation: Articulation) -> Topology:
    if not isinstance(articulation.topology, Topology):
        raise ValueError("members of a fleet must be single articulations with a static topology")
    if articulation.link_mass.ndim != 1:
        raise ValueError(
            f"articulation {articulation.topology.name!r}: members of a fleet must be single articulations, "
            f"found arrays with leading axes {articulation.link_mass.shape[:-1]}"
        )
    return articulation.topology
