"""The kinds of a fleet, which are its members by topology, and checks of what it is made of and
what it evaluates.

The shape of a padded array tells which entries belong to a member: along an axis as long as the
fleet's largest number of links (or DOFs and so on), each kind has as many entries as it has links.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import warnings
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec, Sharding

from artix.math.arrays import device_array
from artix.model.articulation import Articulation, State, with_equal_parts
from artix.model.states import Ranges, ranges_of, sample_state
from artix.model.topology import Topology

Array = jax.Array


class Kind(NamedTuple):
    """The members of one topology.

    Attributes:
      articulation: their articulation. Leaves that differ between members have a leading axis of
        members.
      differs: whether each leaf has that axis.
      members: the indices of the members in the fleet.
    """

    articulation: Articulation
    differs: tuple[bool, ...]
    members: np.ndarray

    @property
    def batch(self) -> Articulation:
        """Their articulation, every leaf with a leading axis of members."""
        leaves, structure = jax.tree.flatten(self.articulation)
        rows = np.zeros(len(self.members), int)
        pairs = zip(leaves, self.differs, strict=True)
        return jax.tree.unflatten(
            structure, [leaf if flag else members_of(rows, leaf) for leaf, flag in pairs]
        )

    @property
    def is_operand(self) -> list[bool]:
        """Whether each leaf is an operand of the kind's program; the others are constants."""
        is_traced = [
            isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self.articulation)
        ]
        return list(map(operator.or_, self.differs, is_traced))

    @property
    def differs_of_operands(self) -> list[bool]:
        """Whether each leaf that is an operand differs between members."""
        return [
            differs for differs, flag in zip(self.differs, self.is_operand, strict=True) if flag
        ]


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
        # ``robot.replace(link_mass=...)`` keeps all other leaves, which then remain constants of
        # the kind's program.
        leaves = list(zip(*map(jax.tree.leaves, alike), strict=True))
        differs = tuple(any(leaf is not each[0] for leaf in each) for each in leaves)
        joined = [
            members_of(which, *each) if flag else each[0]
            for each, flag in zip(leaves, differs, strict=True)
        ]
        structure: Any = jax.tree.structure(alike[0])
        kinds.append(Kind(structure.unflatten(joined), differs, rows))
    return kinds


def rows_by_topology(
    members: Sequence[Articulation], index: np.ndarray
) -> list[tuple[list[int], np.ndarray]]:
    """For each kind of :func:`kinds_of`, which of the articulations have its topology, and its
    members in the fleet.
    """
    by_topology: dict[Topology, list[int]] = {}
    for number in dict.fromkeys(index.tolist()):
        by_topology.setdefault(members[number].topology, []).append(number)
    return [(numbers, np.flatnonzero(np.isin(index, numbers))) for numbers in by_topology.values()]


def have_tracers(values: Any) -> bool:
    """Whether JAX is tracing some of the arrays of a pytree."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def members_of(index: np.ndarray, *leaves: Any) -> Array:
    """Stacks the leaves of different members for all members, by NumPy: JAX would compile a program
    for each shape.
    """
    if have_tracers(leaves):
        return jnp.stack(leaves)[index]
    return device_array(np.stack([np.asarray(leaf) for leaf in leaves])[index])


def each_part_alike(kinds: Sequence[Kind], parts: int) -> list[Kind] | None:
    """The kinds in each of several equal parts of a fleet, with the articulations of the whole
    fleet.

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
        [
            leaf
            for leaf, flag in zip(jax.tree.leaves(kind.articulation), kind.is_operand, strict=True)
            if flag
        ]
        for kind in kinds
    ]


def place_parameters(
    kinds: Sequence[Kind], parameters: Sequence[Sequence[Array]], sharding: Sharding
) -> Any:
    """The parameters on devices: those that differ between members by ``sharding``, others on all
    of them.
    """
    everywhere = (
        NamedSharding(sharding.mesh, PartitionSpec())
        if isinstance(sharding, NamedSharding)
        else sharding
    )
    return [
        [
            jax.device_put(leaf, sharding if differs else everywhere)
            for leaf, differs in zip(leaves, kind.differs_of_operands, strict=True)
        ]
        for kind, leaves in zip(kinds, parameters, strict=True)
    ]


def member_topology(articulation: Any, number: int) -> Topology:
    """The topology of a future member of a fleet.

    Raises:
      TypeError: it is not an articulation.
      ValueError: it is batched, or its arrays lie on devices of other processes.
    """
    if not isinstance(articulation, Articulation):
        raise TypeError(
            f"member {number}: expected an Articulation, found {type(articulation).__name__}; a "
            "fleet takes a sequence of articulations, such as artix.Fleet([arm, quadruped])"
        )
    name = articulation.topology.name
    if articulation.link_mass.ndim != 1:
        raise ValueError(
            f"member {number}, {name!r}: members of a fleet must be single articulations, "
            f"found arrays with leading axes {articulation.link_mass.shape[:-1]}"
        )
    for leaf in jax.tree.leaves(articulation):
        is_here = (
            not isinstance(leaf, jax.Array)
            or isinstance(leaf, jax.core.Tracer)
            or leaf.is_fully_addressable
        )
        if not (is_here or leaf.is_fully_replicated):
            raise ValueError(
                f"member {number}, {name!r}, lies on devices of other processes; every process "
                "must build the fleet from members of its own, and then place it with "
                "fleet.shard(sharding)"
            )
    return articulation.topology


# --- what comes in and goes out -----------------------------------------------------------------


def common_dtype(members: list[Articulation]) -> Any:
    """The dtype of all members.

    Raises:
      ValueError: there are several.
    """
    names: dict[str, str] = {}
    for member in members:
        names.setdefault(str(member.dtype), member.topology.name)
    if len(names) > 1:
        types = ", ".join(f"{dtype} ({name!r})" for dtype, name in sorted(names.items()))
        raise ValueError(
            f"all members of a fleet must have one dtype; found {types}; convert with "
            "articulation.astype(...)"
        )
    return members[0].dtype


def num_parts(sharding: Sharding, members: int) -> int:
    """Into how many parts a sharding divides the members.

    Raises:
      TypeError: it is not a sharding.
      ValueError: its parts would not be equally large.
    """
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"expected a sharding, found {type(sharding).__name__}; give "
            'jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("robots")) for a mesh '
            'with an axis "robots"'
        )
    try:
        return members // sharding.shard_shape((members,))[0]
    except ValueError as error:
        where = (
            f"{sharding.spec} of {dict(sharding.mesh.shape)}"
            if isinstance(sharding, NamedSharding)
            else sharding
        )
        raise ValueError(
            f"{members} members cannot be divided equally among the devices of {where}; add "
            "members, for instance by repeating the last one, or use fewer devices"
        ) from error


def with_members(values: Array, sharding: Sharding | None) -> Array:
    """An array of all members, new on one device, where its sharding is part of the types: on a
    mesh of explicit axes.

    On other meshes, JAX places it by itself, without communication among processes.
    """
    explicit = isinstance(sharding, NamedSharding) and AxisType.Explicit in sharding.mesh.axis_types
    return jax.device_put(values, sharding) if explicit else values


def on_mesh_of(values: Any) -> AbstractContextManager[Any]:
    """A context within a trace, where the members' mesh is set if its axes are explicit.

    Without it, JAX 0.12 may reuse what it traced before, such as ``jnp.where``, for arrays that lie
    on no mesh.
    """
    mesh = jax.typeof(jax.tree.leaves(values)[0]).sharding.mesh
    return contextlib.nullcontext() if mesh.empty else jax.sharding.use_abstract_mesh(mesh)


def static_options(options: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The options of a fleet's function as part of a key.

    Raises:
      TypeError: one cannot be hashed.
    """
    static = tuple(sorted(options.items()))
    try:
        hash(static)
    except TypeError as error:
        raise TypeError(
            f"keyword arguments are static and must be hashable ({error}); pass arrays of all "
            "members by position, and bind what they share: functools.partial(artix.step, "
            "ground=ground)"
        ) from None
    return static


def joined_states(topologies: Sequence[Topology], states: Sequence[State], width: int) -> State:
    """The state of a fleet, of as many joint DOFs as ``width``, made of the members' own.

    Raises:
      ValueError: there are more or fewer states than members, or one does not fit its member.
    """
    if len(states) != len(topologies):
        raise ValueError(f"expected {len(topologies)} states, one per member; found {len(states)}")
    padded = []
    for number, (topology, state) in enumerate(zip(topologies, states, strict=True)):
        for field, size in widths_of_state(topology.num_dofs).items():
            if jnp.shape(getattr(state, field)) != (size,):
                raise ValueError(
                    f"state {number}: {field} must have shape ({size},) for {topology.name!r}; "
                    f"found {jnp.shape(getattr(state, field))}"
                )
        xp: Any = jnp if have_tracers(state) else np
        extra = (0, width - topology.num_dofs)
        padded.append(
            state.replace(
                joint_position=xp.pad(state.joint_position, extra),
                joint_velocity=xp.pad(state.joint_velocity, extra),
            )
        )
    return jax.tree.map(functools.partial(members_of, np.arange(len(states))), *padded)


def joined_ranges(members: Sequence[Articulation], index: np.ndarray, width: int) -> Ranges:
    """The ranges of the random states of a fleet, empty for DOFs that a member lacks.

    Args:
      members: the different articulations.
      index: for each member of the fleet, which of the articulations it is, [N].
      width: the largest number of joint DOFs.
    """
    different = []
    for member in members:
        ranges, extra = ranges_of(member), (0, width - member.topology.num_dofs)
        xp: Any = jnp if have_tracers(ranges) else np
        lower, upper, spread = (xp.pad(x, extra) for x in ranges[:3])
        different.append(Ranges(lower, upper, spread, ranges.root_is_free))
    return jax.tree.map(functools.partial(members_of, index), *different)


@jax.jit
def random_states(ranges: Ranges, keys: Array, scale: Array) -> State:
    """A random state of each member, leading axis N."""
    with on_mesh_of(ranges):
        state = jax.vmap(sample_state, in_axes=(0, 0, None))(ranges, keys, scale)
        # The ranges of DOFs that a member lacks have no width.
        return state.replace(joint_velocity=jnp.where(ranges.width > 0, state.joint_velocity, 0))


def widths_of_state(dofs: int) -> dict[str, int]:
    """The lengths of a state's arrays."""
    return {"root_pose": 7, "root_velocity": 6, "joint_position": dofs, "joint_velocity": dofs}


def batches_of(
    members: int,
    dofs: int,
    dtype: Any,
    sharding: Sharding | None,
    state: Any,
    arguments: tuple[Any, ...],
) -> tuple[Any, ...]:
    """The arguments of a fleet's function as arrays with a leading axis of members; numbers are
    repeated along it.

    Args:
      members: the number N of members.
      dofs: the largest number of joint DOFs.
      dtype: the dtype of floats given as Python numbers.
      sharding: the fleet's sharding, where numbers are repeated.
      state: the fleet's state.
      arguments: further arguments.

    Raises:
      TypeError: an argument holds something that is neither an array nor a number.
      ValueError: an array has another leading axis, or a state another width.
    """
    named = [("state", state), *((f"argument {k}", x) for k, x in enumerate(arguments, start=1))]
    for name, argument in named:
        for place in states_in(argument):
            _check_state(name, place, members, dofs)
    return tuple(
        jax.tree_util.tree_map_with_path(
            lambda path, leaf, name=name: _batch_of(
                name + jax.tree_util.keystr(path), leaf, members, dtype, sharding
            ),
            argument,
        )
        for name, argument in named
    )


def states_in(tree: Any) -> list[State]:
    """The states that are part of arguments."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, State))
    return [leaf for leaf in leaves if isinstance(leaf, State)]


def _check_state(name: str, state: State, members: int, dofs: int) -> None:
    for field, width in widths_of_state(dofs).items():
        shape = jnp.shape(getattr(state, field))
        if shape != (members, width):
            raise ValueError(
                f"{name}.{field}: expected shape {(members, width)} for {members} members with at "
                f"most {dofs} joint DOFs, found {shape}; fleet.stack_states joins the members' "
                "own states"
            )


def _batch_of(name: str, leaf: Any, members: int, dtype: Any, sharding: Sharding | None) -> Any:
    if isinstance(leaf, bool | int | float):
        numbers = jnp.full((members,), leaf, dtype if isinstance(leaf, float) else None)
        return with_members(numbers, sharding)
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic):
        raise TypeError(
            f"{name}: expected an array or a number, found {type(leaf).__name__}; pass what is "
            "static (options, names) by keyword"
        )
    if leaf.ndim == 0:
        return with_members(jnp.broadcast_to(jnp.asarray(leaf), (members,)), sharding)
    if leaf.shape[0] != members:
        raise ValueError(
            f"{name}: expected a leading axis of {members} members, found shape {leaf.shape}; "
            "arrays that all members share need that axis, too (jnp.broadcast_to)"
        )
    return leaf


#: What took the place of attributes that fleets had while their trees could be data.
REMOVED = {
    "padding": "use fleet.num_links, fleet.num_dofs and fleet.nv, the sizes of its arrays",
    "layout": "every fleet is evaluated kind by kind",
}


def check_removed(layout: str | None, padding: object) -> None:
    """Warns of, or refuses, arguments of fleets whose trees were data."""
    if layout == "kinds":
        warnings.warn(
            "layout='kinds' is deprecated: leave it out, every fleet is evaluated kind by kind",
            DeprecationWarning,
            stacklevel=3,
        )
    elif layout is not None:
        raise ValueError(
            f"layout={layout!r} is not supported: trees are no longer data; leave layout out, and "
            "every kind of members is evaluated by its own program, however many there are"
        )
    if padding is not None:
        raise TypeError(
            "padding is no longer an argument: leave it out, the fleet's arrays have the sizes of "
            "its largest members; fleet.replace_member compiles new kinds alone"
        )


class Maxima(NamedTuple):
    """The sizes to which a fleet's arrays are padded."""

    links: int
    """Largest number of links."""
    dofs: int
    """Largest number of joint DOFs."""
    frames: int
    """Largest number of additional frames."""
    floating: bool
    """Whether any member has a floating base; generalised vectors then begin with the root's six
    entries."""

    @classmethod
    def covering(cls, topologies: Iterable[Topology]) -> Maxima:
        """The smallest sizes that serve all topologies."""
        sizes = [
            (one.num_links, one.num_dofs, len(one.frame_names), not one.fixed_base)
            for one in topologies
        ]
        return cls(*map(max, zip(*sizes, strict=True)))

    @property
    def nv(self) -> int:
        """Length of the generalised vectors."""
        return self.dofs + (6 if self.floating else 0)


class Axis(NamedTuple):
    """A member's entries along an axis of the fleet's arrays: ``[skipped, skipped + size)`` of
    ``padded`` entries.
    """

    skipped: int
    size: int
    padded: int

    @property
    def entries(self) -> slice:
        """Which entries they are."""
        return slice(self.skipped, self.skipped + self.size)

    @property
    def padding(self) -> tuple[int, int]:
        """How many entries are before and behind them."""
        return self.skipped, self.padded - self.skipped - self.size


#: What an axis may mean, for one kind.
Meanings: TypeAlias = dict[str, Axis]
_Shape: TypeAlias = tuple[int, ...]


def meanings_of(topology: Topology, maxima: Maxima) -> Meanings:
    """What an axis may mean for one kind. Members with a fixed base lack the root's entries of
    floating ones.
    """
    links = topology.num_links
    dofs = topology.num_dofs
    floats = not topology.fixed_base
    root = 6 if maxima.floating and not floats else 0
    pose = 7 if maxima.floating and not floats else 0
    rootless_rows = 0 if maxima.floating else 6
    return {
        "generalised velocity": Axis(root, topology.nv, maxima.nv),
        "joint DOFs": Axis(0, dofs, maxima.dofs),
        "links": Axis(0, links, maxima.links),
        "frames": Axis(0, len(topology.frame_names), maxima.frames),
        "configuration": Axis(
            pose, (7 if floats else 0) + dofs, (7 if maxima.floating else 0) + maxima.dofs
        ),
        "rows of the dense Jacobian": Axis(
            root, 6 * links - (0 if floats else 6), 6 * maxima.links - rootless_rows
        ),
    }


def candidates(size: int, meanings: Sequence[Meanings]) -> list[tuple[Axis, ...]]:
    """What an axis of an argument may mean for all kinds; the last possibility is an axis that all
    kinds share.
    """
    fitting = [
        tuple(each[name] for each in meanings)
        for name in meanings[0]
        if meanings[0][name].padded == size
    ]
    return list(dict.fromkeys([*fitting, (Axis(0, size, size),) * len(meanings)]))


def axes_of_one_result(
    shapes: list[_Shape], meanings: Sequence[Meanings], number: int
) -> list[list[Axis]]:
    """For each kind, the axes of a result."""
    axes = []
    for position, sizes in enumerate(zip(*shapes, strict=True)):
        fitting = {
            tuple(each[name] for each in meanings)
            for name in meanings[0]
            if all(each[name].size == size for each, size in zip(meanings, sizes, strict=True))
        }
        if len(set(sizes)) == 1:
            fitting.add((Axis(0, sizes[0], sizes[0]),) * len(meanings))
        if len(fitting) != 1:
            what = (
                "nothing that a fleet pads has these"
                if not fitting
                else "these may mean several things"
            )
            raise ValueError(
                f"axis {position} of result {number} has the lengths {', '.join(map(str, sizes))} "
                f"for the kinds of this fleet, and {what}; fleet.evaluate_kinds returns the "
                "results of each kind"
            )
        axes.append(fitting.pop())
    return [[axis[kind] for axis in axes] for kind in range(len(meanings))]
