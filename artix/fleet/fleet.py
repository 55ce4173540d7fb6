"""Many articulations, of one topology or of several, in one batch and one compiled program."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding

from artix.evaluation.compilation import kernels_are_on
from artix.fleet.arguments import (
    batches_of,
    common_dtype,
    joined_states,
    member_topology,
    num_parts,
    on_mesh_of,
    static_options,
    with_members,
)
from artix.fleet.batches import vmap_in_blocks
from artix.fleet.by_kind import compiled_by_kind
from artix.fleet.kinds import MAX_KINDS, each_part_alike, have_tracers, kinds_of, members_of, rows_by_topology
from artix.math.arrays import entries, with_entries
from artix.model.articulation import Articulation, State
from artix.model.checks import check_key
from artix.model.padded_articulation import pad_articulation
from artix.model.padding import Padding
from artix.model.states import neutral_states, random_state
from artix.model.topology import Topology

Array = jax.Array
Layout: TypeAlias = Literal["kinds", "padded"]


class Fleet:
    """Many articulations in one batch.

    If all members have one topology, ``fleet.articulation`` is an ordinary articulation whose arrays have a leading
    member axis. Arrays of members of several topologies are padded to common maxima. :meth:`evaluate` then evaluates
    each kind of members by its own program (``layout="kinds"``), or all of them by one program that reads their trees
    as data (``layout="padded"``). The latter takes 5 to 7 times as long, but a member that fits the padding can take
    another's place without recompilation. Either way, every function of artix works under ``jax.vmap`` over
    ``fleet.articulation`` (with trees as data) and a fleet state.

    In a padded fleet, L and n are the fleet's maxima. If any member floats, all generalised vectors begin with the
    root's six entries, zero for members with a fixed base, and dense Jacobians have the root's rows. Padded rows and
    columns are exactly zero.

    Args:
      articulations: the members in order; the same object may appear many times.
      padding: maxima to pad to, if larger than the members need.
      layout: how the fleet is evaluated. By default ``"kinds"`` for up to 16 topologies, since each costs a
        compilation, and ``"padded"`` for more or if there is a ``padding``.

    Raises:
      TypeError: a member is not an articulation, or the padding no :class:`artix.Padding`.
      ValueError: there is no member, dtypes differ, a member lies on devices of other processes or does not fit the
        padding (the message names the maximum), or the layout is unknown or ``"kinds"`` with a padding, which is for
        members that are not known yet.

    Attributes:
      articulation: the members' parameters for ``jax.vmap``, every leaf with a leading axis N.
      topologies: the static topology of each member, length N.
      padding: the common maxima, ``None`` where all members share one static topology.
      layout: how the fleet is evaluated, see above.

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
        if isinstance(articulations, Articulation):
            raise TypeError("a fleet takes a sequence of articulations, found a single one; artix.Fleet([robot] * n)")
        members = list(articulations)
        if not members:
            raise ValueError("a fleet needs at least one articulation")
        numbers = {id(member): number for number, member in reversed(list(enumerate(members)))}
        kinds = {id(member): member for member in members}
        place = {key: index for index, key in enumerate(kinds)}
        topologies = {key: member_topology(member, numbers[key]) for key, member in kinds.items()}
        common_dtype(list(kinds.values()))
        if layout not in (None, "kinds", "padded"):
            raise ValueError(f"layout must be 'kinds' or 'padded'; found {layout!r}")
        if not isinstance(padding, Padding | None):
            raise TypeError(f"padding must be an artix.Padding; found {padding!r}; see artix.Padding.covering")
        if layout == "kinds" and padding is not None:
            raise ValueError("a fleet with a padding has layout='padded'; leave the padding out, or the layout")
        if padding is not None or len(set(topologies.values())) > MAX_KINDS:
            layout = layout or "padded"
        self.layout: Layout = layout or "kinds"
        if padding is None and (len(set(topologies.values())) > 1 or layout == "padded"):
            padding = Padding.covering(list(topologies.values()))
        self.padding = padding
        self.topologies: tuple[Topology, ...] = tuple(topologies[id(member)] for member in members)
        shaped = [member if padding is None else pad_articulation(member, padding) for member in kinds.values()]
        index = np.array([place[id(member)] for member in members])
        self._different, self._index = list(kinds.values()), index
        self._is_traced = have_tracers(self._different)
        self._sharding: Sharding | None = None
        self._compiled: dict[Any, Callable[..., Any]] = {}
        self.articulation: Articulation = jax.tree.map(partial(members_of, index), *shaped)

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

        Each kind of members is evaluated by its own program (``layout="kinds"``), in which parameters that all its
        members share are constants. Every function that works for a single articulation works there: tendons, loop
        joints, contact, every solver of :func:`artix.step`. With ``layout="padded"`` one program evaluates all members.
        Entries of arguments that a member does not have are ignored; those of results are zero.

        Gradients by a member's parameters are those of the code that makes the fleet: build it inside the
        differentiated function, from ``robot.replace(link_mass=mass)`` and the like.

        Args:
          function: ``function(articulation, state, *arguments, **options)`` such as ``artix.mass_matrix``. It is
            compiled once per function object, so pass a named function rather than a new lambda each time.
          state: the fleet's state, leading axis N.
          *arguments: further arrays (or pytrees of them) with leading axis N; a number is the same for all members.
            Both are traced, so what the function checks of their values, such as a negative time step or the number of
            a link that does not exist, passes unnoticed here.
          **options: keyword arguments that are the same for all members, static and hashable.

        Returns:
          What the function returns, with leading axis N.

        Raises:
          TypeError: an argument is neither array nor number, or an option cannot be hashed.
          ValueError: an argument's leading axis is not N, a state does not have the fleet's width, or the lengths of an
            array's axes do not tell which of its entries are a member's, not even by what the function refuses; and
            what the function raises.

        Examples:
          >>> pole, pendulum = artix.robots.load("cart_pole"), artix.robots.load("double_pendulum")
          >>> def mean_energy(mass):
          ...     fleet = artix.Fleet([pole, pendulum.replace(link_mass=mass)] * 2)
          ...     return fleet.evaluate(artix.potential_energy, fleet.neutral_state()).mean()
          >>> print(jax.grad(mean_energy)(pendulum.link_mass).round(1))  # g times a height; half of all are pendulums
          [ 0.  -2.5 -7.4]
        """
        static, given = self._checked(state, arguments, options)
        if self.layout == "padded":
            return _evaluate(function, static, self.articulation, *given)
        return self._by_kind(function, static, joined=True)(*given)

    def evaluate_kinds(
        self, function: Callable[..., Any], state: State, *arguments: Any, **options: Any
    ) -> tuple[Any, ...]:
        """Evaluates a function for all members, as :meth:`evaluate`, without padding the results.

        Use it where kinds return results of different sizes and each is processed by itself: nothing is spent on
        padding, and results whose axes mean different things from kind to kind are welcome, such as contacts.

        Args:
          function: as for :meth:`evaluate`.
          state: the fleet's state, leading axis N.
          *arguments: as for :meth:`evaluate`, padded like the fleet.
          **options: as for :meth:`evaluate`.

        Returns:
          What the function returns for each kind, with a leading axis of the members that :attr:`kinds` lists.

        Raises:
          TypeError: as for :meth:`evaluate`.
          ValueError: as for :meth:`evaluate`, or the fleet has ``layout="padded"``.

        Examples:
          >>> arm, quadruped = artix.robots.load("arm7"), artix.robots.load("quadruped")
          >>> fleet = artix.Fleet([arm, quadruped, arm])
          >>> of_arms, of_quadrupeds = fleet.evaluate_kinds(artix.mass_matrix, fleet.neutral_state())
          >>> print(of_arms.shape, of_quadrupeds.shape, [members.tolist() for members in fleet.kinds])
          (2, 7, 7) (1, 18, 18) [[0, 2], [1]]
        """
        if self.layout == "padded":
            raise ValueError("a fleet with layout='padded' has no kinds; use layout='kinds', or fleet.evaluate")
        static, given = self._checked(state, arguments, options)
        return self._by_kind(function, static, joined=False)(*given)

    @property
    def kinds(self) -> tuple[np.ndarray, ...]:
        """The members of each topology: their numbers, ascending, topologies in the order of their first members."""
        return tuple(rows for _, rows in rows_by_topology(self._different, self._index))

    def _checked(
        self, state: State, arguments: Any, options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The options, sorted, and the arguments as batches."""
        width, dtype = self.articulation.joint_lower_limit.shape[-1], self.articulation.dtype
        return static_options(options), batches_of(len(self), width, dtype, self._sharding, state, arguments)

    def _by_kind(self, function: Callable[..., Any], static: tuple[Any, ...], joined: bool) -> Callable[..., Any]:
        """The compiled function, kept unless the fleet's parameters are being traced."""
        build = lambda: compiled_by_kind(  # noqa: E731
            kinds_of(self._different, self._index), self.padding, self._sharding, function, dict(static), joined
        )
        if self._is_traced:
            return build()
        if (function, static, joined) not in self._compiled:
            with jax.ensure_compile_time_eval():  # What is kept holds no tracers of a function that JAX traces now.
                self._compiled[function, static, joined] = build()
        return self._compiled[function, static, joined]

    # --- states -------------------------------------------------------------------------------------------------

    def neutral_state(self) -> State:
        """The neutral state of every member, leading axis N."""
        state = neutral_states(self.articulation, (self.num_members,))
        return state if self._sharding is None else jax.device_put(state, self._sharding)

    def random_state(self, key: Array, *, velocity_scale: float = 1.0) -> State:
        """A random state of every member, leading axis N; see :func:`artix.random_state`.

        Raises:
          TypeError: ``key`` is not a random key, for instance a seed.
          ValueError: ``key`` is an array of keys.
        """
        check_key(key)
        keys = with_members(jax.random.split(key, self.num_members), self._sharding)
        return _random_states(self.articulation, keys, velocity_scale)

    def stack_states(self, states: Sequence[State]) -> State:
        """Joins the members' own states (unpadded, in order) to a state of the fleet."""
        width = self.topologies[0].num_dofs if self.padding is None else self.padding.dofs
        return joined_states(self.topologies, states, width)

    def member_state(self, state: State, member: int) -> State:
        """The unpadded state of one member out of a state of the fleet.

        Raises:
          IndexError: there is no such member.
        """
        self._check_number(member)
        n = self.topologies[member].num_dofs
        return State(
            entries(state.root_pose, member),
            entries(state.root_velocity, member),
            entries(state.joint_position, (member, slice(n))),
            entries(state.joint_velocity, (member, slice(n))),
        )

    def member(self, member: int) -> Articulation:
        """The articulation of one member as the fleet was given it, neither padded nor batched.

        Args:
          member: its number.

        Raises:
          IndexError: there is no such member.

        Examples:
          >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("quadruped")])
          >>> fleet.member(1).topology.name
          'quadruped'
        """
        self._check_number(member)
        return self._different[self._index[member]]

    # --- changes ------------------------------------------------------------------------------------------------

    def replace_member(self, member: int, articulation: Articulation) -> Fleet:
        """A fleet with another articulation in place of one member; the shapes of its arrays are the same.

        A fleet with ``layout="padded"`` reuses its compiled programs.

        Raises:
          IndexError: there is no such member.
          ValueError: the articulation does not fit: it has another dtype, it exceeds the padding, or its topology
            differs from that of a fleet without padding.
        """
        self._check_number(member)
        topology = member_topology(articulation, member)
        common_dtype([self.member(0), articulation])
        if self.padding is None and topology != self.topologies[0]:
            raise ValueError(
                f"articulation {topology.name!r} has another topology than this fleet, which is not padded; "
                "build the fleet with a padding that fits both, artix.Fleet(..., padding=artix.Padding.covering([...]))"
            )
        shaped = articulation if self.padding is None else pad_articulation(articulation, self.padding)
        other = self._copy()
        number = self._index[member]
        if np.count_nonzero(self._index == number) == 1:  # The articulation that leaves is not kept.
            other._different = [*self._different[:number], articulation, *self._different[number + 1 :]]
        else:
            other._different, other._index = [*self._different, articulation], self._index.copy()
            other._index[member] = len(self._different)
        other._is_traced = self._is_traced or have_tracers([articulation])
        other.topologies = (*self.topologies[:member], topology, *self.topologies[member + 1 :])
        other.articulation = jax.tree.map(lambda all_, new: with_entries(all_, member, new), self.articulation, shaped)
        return other if self._sharding is None else other.shard(self._sharding)

    def shard(self, sharding: Sharding) -> Fleet:
        """The same fleet on several devices: every array of its articulations is placed by ``sharding``.

        If it is evaluated by kind, each device evaluates its own members without communication. This requires that
        all devices hold the same kinds in the same places, as they do for ``Fleet([arm, quadruped] * n)``. The trees of
        other mixed fleets become data (``layout="padded"``), which is slower; a warning says so.

        Args:
          sharding: such as ``NamedSharding(mesh, PartitionSpec("robots"))``, which divides the members.

        Raises:
          TypeError: it is not a sharding.
          ValueError: it does not divide the members equally.
        """
        parts = num_parts(sharding, len(self))
        other = self._copy()
        other.articulation = jax.device_put(self.articulation, sharding)
        other._sharding = sharding
        if self.padding is None or self.layout == "padded" or parts == 1:
            return other
        kinds = kinds_of(self._different, self._index)
        if not isinstance(sharding, NamedSharding) or each_part_alike(kinds, parts) is None:
            other.layout = "padded"
            warnings.warn(
                f"the {parts} devices would hold different kinds of members, so the sharded fleet has "
                "layout='padded', which is slower; give every device the same kinds in the same places, as in "
                "artix.Fleet([arm, quadruped] * n)",
                stacklevel=2,
            )
        return other

    def _check_number(self, member: int) -> None:
        if not 0 <= member < self.num_members:
            raise IndexError(f"there is no member {member}; the fleet has {self.num_members}")

    def __getstate__(self) -> dict[str, Any]:
        """Compiled programs are not pickled."""
        return {**self.__dict__, "_compiled": {}}

    def _copy(self) -> Fleet:
        """The same fleet, without its compiled programs."""
        other = copy.copy(self)
        other._compiled = {}
        return other


@partial(jax.jit, static_argnums=(0, 1))
def _evaluate(function, options, articulation, state, *arguments):
    # A kernel keeps what is intermediate in the caches by itself.
    batched = jax.vmap if kernels_are_on() else vmap_in_blocks
    with on_mesh_of(articulation):
        return batched(partial(function, **dict(options)))(articulation, state, *arguments)


@jax.jit
def _random_states(articulation, keys, velocity_scale):
    with on_mesh_of(articulation):
        return jax.vmap(lambda member, key: random_state(member, key, velocity_scale=velocity_scale))(
            articulation, keys
        )
