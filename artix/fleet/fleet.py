"""Many articulations, of one topology or of several, in one batch and one compiled program."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, Sharding

from artix.compiler.batch_axes import block_size, in_blocks
from artix.fleet.by_kind import compiled_by_kind
from artix.fleet.kinds import (
    REMOVED,
    Maxima,
    batches_of,
    check_removed,
    common_dtype,
    each_part_alike,
    have_tracers,
    joined_ranges,
    joined_states,
    kinds_of,
    member_topology,
    num_parts,
    random_states,
    rows_by_topology,
    static_options,
    with_members,
)
from artix.math.arrays import entries
from artix.model.articulation import Articulation, State
from artix.model.checks import as_number, check_key
from artix.model.states import neutral_states
from artix.model.topology import Topology

Array = jax.Array


class Fleet:
    """Many articulations in one batch, of one topology or of many.

    :meth:`evaluate` evaluates each kind of members, those of one topology, by its own program.
    Every function of one articulation and its state works, artix's and yours. Arrays of a mixed
    fleet are padded: L and n are the fleet's maxima. If any member floats, all generalised vectors
    begin with the root's six entries, zero for members with a fixed base, and dense Jacobians have
    the root's rows. Padded rows and columns of results are exactly zero.

    Args:
      articulations: the members in order; the same object may appear many times.
      layout: deprecated; every fleet is evaluated kind by kind.
      padding: no longer accepted; a fleet's arrays have the sizes of its largest members.

    Raises:
      TypeError: a member is not an articulation, or there is a ``padding``.
      ValueError: there is no member, dtypes differ, a member lies on devices of other processes, or
        the layout is not ``"kinds"``.

    Attributes:
      topologies: the topology of each member, length N.

    Examples:
      >>> fleet = artix.Fleet(
      ...     [artix.robots.load("double_pendulum"), artix.robots.load("cart_pole")] * 2
      ... )
      >>> state = fleet.random_state(jax.random.key(0))
      >>> print(fleet.evaluate(artix.mass_matrix, state).shape)
      (4, 2, 2)
      >>> print(fleet.evaluate(artix.kinetic_energy, state).shape, fleet.topologies[1].name)
      (4,) cart_pole
    """

    def __init__(
        self,
        articulations: Sequence[Articulation],
        *,
        layout: str | None = None,
        padding: object = None,
    ) -> None:
        if isinstance(articulations, Articulation):
            raise TypeError(
                "a fleet takes a sequence of articulations, found a single one; "
                "artix.Fleet([robot] * n)"
            )
        check_removed(layout, padding)
        members = list(articulations)
        if not members:
            raise ValueError("a fleet needs at least one articulation")
        numbers = {id(member): number for number, member in reversed(list(enumerate(members)))}
        different = {id(member): member for member in members}
        place = {key: index for index, key in enumerate(different)}
        topologies = {
            key: member_topology(member, numbers[key]) for key, member in different.items()
        }
        common_dtype(list(different.values()))
        self.topologies: tuple[Topology, ...] = tuple(topologies[id(member)] for member in members)
        self._maxima = Maxima.covering(topologies.values())
        self._different = list(different.values())
        self._index = np.array([place[id(member)] for member in members])
        self._is_traced = have_tracers(self._different)
        self._sharding: Sharding | None = None
        self._compiled: dict[Any, Callable[..., Any]] = {}
        self._articulations: tuple[Articulation, ...] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in REMOVED:
            raise AttributeError(f"fleets no longer have {name!r}: {REMOVED[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def num_members(self) -> int:
        """Number N of articulations."""
        return len(self.topologies)

    def __len__(self) -> int:
        return self.num_members

    def __repr__(self) -> str:
        kinds = len(set(self.topologies))
        return (
            f"Fleet({self.num_members} articulations, {kinds} "
            f"{'topology' if kinds == 1 else 'topologies'})"
        )

    @property
    def num_links(self) -> int:
        """Largest number L of links."""
        return self._maxima.links

    @property
    def num_dofs(self) -> int:
        """Largest number n of joint DOFs."""
        return self._maxima.dofs

    @property
    def nv(self) -> int:
        """Length of generalised vectors: n, and 6 if any member has a floating base."""
        return self._maxima.nv

    @property
    def dtype(self) -> Any:
        """The floating-point type of all members."""
        return self._different[0].dtype

    # --- evaluation ------------------------------------------------------------------------------

    def evaluate(
        self, function: Callable[..., Any], state: State, *arguments: Any, **options: Any
    ) -> Any:
        """Evaluates a function of one articulation for all members, compiled.

        Each kind of members is evaluated by its own program, in which parameters that all its
        members share are constants. Every function that works for a single articulation works here.
        Entries of arguments that a member does not have are ignored; those of results are zero. The
        first call compiles one program for each kind, several at a time.

        Gradients with respect to a member's parameters go through the code that makes the fleet:
        build it inside the differentiated function, from ``robot.replace(link_mass=mass)`` and the
        like.

        Args:
          function: ``function(articulation, state, *arguments, **options)`` such as
            ``artix.mass_matrix``. It is compiled once per function object, so pass a named function
            rather than a new lambda each time.
          state: the fleet's state, leading axis N.
          *arguments: further arrays (or pytrees of them) with leading axis N; a number is the same
            for all members. Both are traced, so what the function checks of their values, such as a
            negative time step or the number of a link that does not exist, passes unnoticed here.
          **options: keyword arguments that are the same for all members, static and hashable.

        Returns:
          What the function returns, with leading axis N.

        Raises:
          TypeError: an argument is neither array nor number, or an option cannot be hashed.
          ValueError: an argument's leading axis is not N, a state does not have the fleet's width,
            or the lengths of an array's axes do not tell which of its entries are a member's, not
            even by what the function refuses; and what the function raises.

        Examples:
          >>> pole, pendulum = artix.robots.load("cart_pole"), artix.robots.load("double_pendulum")
          >>> def mean_energy(mass):
          ...     fleet = artix.Fleet([pole, pendulum.replace(link_mass=mass)] * 2)
          ...     return fleet.evaluate(artix.potential_energy, fleet.neutral_state()).mean()
          >>> # g times a height; half of all are pendulums
          >>> print(jax.grad(mean_energy)(pendulum.link_mass).round(1))
          [ 0.  -2.5 -7.4]
        """
        static, passed = self._check_arguments(state, arguments, options)
        return self._by_kind(function, static, joined=True)(*passed)

    def evaluate_kinds(
        self, function: Callable[..., Any], state: State, *arguments: Any, **options: Any
    ) -> tuple[Any, ...]:
        """Evaluates a function for all members, as :meth:`evaluate`, without padding the results.

        Use it where kinds return results of different sizes and each is processed by itself:
        nothing is spent on padding, and results whose axes mean different things from kind to kind
        are welcome, such as contacts.

        Args:
          function: as for :meth:`evaluate`.
          state: the fleet's state, leading axis N.
          *arguments: as for :meth:`evaluate`, padded like the fleet.
          **options: as for :meth:`evaluate`.

        Returns:
          What the function returns for each kind, with a leading axis of the members that
          :attr:`kinds` lists.

        Raises:
          TypeError: as for :meth:`evaluate`.
          ValueError: as for :meth:`evaluate`.

        Examples:
          >>> arm, quadruped = artix.robots.load("arm7"), artix.robots.load("quadruped")
          >>> fleet = artix.Fleet([arm, quadruped, arm])
          >>> of_arms, of_quadrupeds = fleet.evaluate_kinds(
          ...     artix.mass_matrix, fleet.neutral_state()
          ... )
          >>> print(
          ...     of_arms.shape, of_quadrupeds.shape, [members.tolist() for members in fleet.kinds]
          ... )
          (2, 7, 7) (1, 18, 18) [[0, 2], [1]]
        """
        static, passed = self._check_arguments(state, arguments, options)
        return self._by_kind(function, static, joined=False)(*passed)

    @property
    def kinds(self) -> tuple[np.ndarray, ...]:
        """The members of each topology: their numbers, ascending, topologies in the order of their
        first members.
        """
        return tuple(rows for _, rows in rows_by_topology(self._different, self._index))

    def _check_arguments(
        self, state: State, arguments: Any, options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The options, sorted, and the arguments as batches."""
        batches = batches_of(len(self), self.num_dofs, self.dtype, self._sharding, state, arguments)
        return static_options(options), batches

    def _by_kind(
        self, function: Callable[..., Any], static: tuple[Any, ...], joined: bool
    ) -> Callable[..., Any]:
        """The compiled function, kept unless the fleet's parameters are being traced."""
        build = lambda: compiled_by_kind(  # noqa: E731
            kinds_of(self._different, self._index),
            self._maxima,
            self._sharding,
            function,
            dict(static),
            joined,
        )
        if self._is_traced:
            return build()
        if (function, static, joined) not in self._compiled:
            with (
                jax.ensure_compile_time_eval()
            ):  # What is kept holds no tracers of a function that JAX traces now.
                self._compiled[function, static, joined] = build()
        return self._compiled[function, static, joined]

    # --- states ----------------------------------------------------------------------------------

    def neutral_state(self) -> State:
        """The neutral state of every member, leading axis N."""
        state = neutral_states(self.num_dofs, self.dtype, (self.num_members,))
        return state if self._sharding is None else jax.device_put(state, self._sharding)

    def random_state(self, key: Array, *, velocity_scale: float | Array = 1.0) -> State:
        """A random state of every member, leading axis N; see :func:`artix.random_state`.

        Raises:
          TypeError: ``key`` is not a random key, for instance a seed.
          ValueError: ``key`` is an array of keys, or ``velocity_scale`` is not one number that is
            finite and not negative.
        """
        check_key(key)
        scale = as_number("velocity_scale", velocity_scale, 0)
        keys = with_members(jax.random.split(key, self.num_members), self._sharding)
        ranges = joined_ranges(self._different, self._index, self.num_dofs)
        if self._sharding is not None:
            ranges = jax.device_put(ranges, self._sharding)
        return random_states(ranges, keys, scale)

    def stack_states(self, states: Sequence[State]) -> State:
        """Joins the members' own states (unpadded, in order) to a state of the fleet."""
        return joined_states(self.topologies, states, self.num_dofs)

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

    @property
    def articulations(self) -> tuple[Articulation, ...]:
        """The parameters of each kind, every leaf with a leading axis of the members that
        :attr:`kinds` lists.
        """
        if self._is_traced:
            return self._batches()
        if self._articulations is None:
            with jax.ensure_compile_time_eval():  # As for compiled programs.
                self._articulations = self._batches()
        return self._articulations

    def _batches(self) -> tuple[Articulation, ...]:
        batches = tuple(kind.batch for kind in kinds_of(self._different, self._index))
        return batches if self._sharding is None else jax.device_put(batches, self._sharding)

    @property
    def articulation(self) -> Articulation:
        """The parameters of a fleet of one topology, every leaf with a leading axis N, for
        ``jax.vmap``.

        Raises:
          ValueError: the members have several topologies.
        """
        if len(self.articulations) > 1:
            raise ValueError(
                f"the members of this fleet have {len(self.articulations)} topologies and so no "
                "common articulation; use fleet.evaluate(function, state), fleet.articulations "
                "(one for each kind) or fleet.member(k)"
            )
        return self.articulations[0]

    # --- changes ---------------------------------------------------------------------------------

    def replace_member(self, member: int, articulation: Articulation) -> Fleet:
        """A fleet with another articulation in place of one member.

        Only a kind that the fleet did not have is compiled, unless the sizes of the largest members
        change, and with them the shapes of the fleet's arrays.

        Raises:
          IndexError: there is no such member.
          TypeError: it is not an articulation.
          ValueError: it has another dtype, or it is a batch.
        """
        self._check_number(member)
        topology = member_topology(articulation, member)
        common_dtype([self.member(0), articulation])
        other = self._copy()
        number = self._index[member]
        if (
            np.count_nonzero(self._index == number) == 1
        ):  # The articulation that leaves is not kept.
            other._different = [
                *self._different[:number],
                articulation,
                *self._different[number + 1 :],
            ]
        else:
            other._different = [*self._different, articulation]
            other._index = self._index.copy()
            other._index[member] = len(self._different)
        other._is_traced = self._is_traced or have_tracers([articulation])
        other.topologies = (*self.topologies[:member], topology, *self.topologies[member + 1 :])
        other._maxima = Maxima.covering(set(other.topologies))
        return other if self._sharding is None else other.shard(self._sharding)

    def shard(self, sharding: Sharding) -> Fleet:
        """The same fleet on several devices, each of which evaluates its own members without
        communication.

        All devices must hold the same kinds in the same places, as they do for
        ``Fleet([arm, quadruped] * n)``.

        Args:
          sharding: such as ``NamedSharding(mesh, PartitionSpec("robots"))``, which divides the
            members.

        Raises:
          TypeError: it is not a sharding.
          ValueError: it does not divide the members equally, or devices would hold different kinds.
        """
        parts = num_parts(sharding, len(self))
        if parts > 1 and len(set(self.topologies)) > 1:
            kinds = kinds_of(self._different, self._index)
            if not isinstance(sharding, NamedSharding) or each_part_alike(kinds, parts) is None:
                raise ValueError(
                    f"the {parts} devices would hold different kinds of members, and each device "
                    "compiles the same program; give every device the same kinds in the same "
                    "places, as in artix.Fleet([arm, quadruped] * n) with a NamedSharding"
                )
        other = self._copy()
        other._sharding = sharding
        return other

    def _check_number(self, member: int) -> None:
        if not 0 <= member < self.num_members:
            raise IndexError(f"there is no member {member}; the fleet has {self.num_members}")

    def __getstate__(self) -> dict[str, Any]:
        """Neither compiled programs nor copies of parameters are pickled."""
        return {**self.__dict__, "_compiled": {}, "_articulations": None}

    def _copy(self) -> Fleet:
        """The same fleet, without its compiled programs."""
        return copy.copy(self)  # by __getstate__


def vmap_in_blocks(function: Callable[..., Any]) -> Callable[..., Any]:
    """``jax.vmap`` over the leading axes of all arguments, which a CPU evaluates in blocks of up to
    512 items.

    Use it for functions that are not entirely kernels (see :func:`artix.explain`): the
    intermediates of a whole batch would not fit the caches. On other devices, and for batches that
    no number from 128 to 512 divides, it is ``jax.vmap``. It works under ``jax.jit`` and
    differentiation.

    Args:
      function: a function of one articulation, one state and so on.

    Returns:
      The function of batches of them, with one more leading axis on every array. It raises
      ``ValueError`` unless all leading axes have the same length.

    Examples:
      >>> fleet = artix.Fleet([artix.robots.load("cart_pole")] * 2)
      >>> poses = artix.fleet.vmap_in_blocks(artix.frame_pose)(
      ...     fleet.articulation, fleet.neutral_state()
      ... )
      >>> print(poses.shape)
      (2, 3, 7)
    """

    @functools.wraps(function)
    def of_batch(*arguments: Any) -> Any:
        size = _common_size(arguments)
        batched = jax.vmap(function)
        block = block_size(size)
        if block == size:
            return batched(*arguments)

        def block_by_block(*items: Any) -> Any:
            return in_blocks(batched, items, (True,) * len(items))

        return jax.lax.platform_dependent(*arguments, cpu=block_by_block, default=batched)

    return of_batch


def _common_size(arguments: tuple[Any, ...]) -> int:
    """The common length of all leading axes."""
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(arguments)]
    if len({shape[:1] for shape in shapes}) != 1 or not shapes[0]:
        sizes = ", ".join(str(shape) for shape in dict.fromkeys(shapes))
        raise ValueError(
            "vmap_in_blocks: expected arrays with one common leading axis in all arguments, found "
            f"shapes {sizes}; close over what all items share"
        )
    return shapes[0][0]
