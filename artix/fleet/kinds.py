"""Evaluates fleets kind by kind: one program for each topology, with results padded and in the fleet's order.

If every kind has a kernel, the kernels read and write their members' rows of the fleet's padded arrays. Otherwise,
members are gathered by kind, and their results are padded and put into the fleet's order.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from artix.evaluation.quantity import Call, call_of
from artix.evaluation.row_operation import RowProgram, RowPrograms, evaluate_rows
from artix.fleet.padded_axes import Axis, Meanings, axes_of_one_result, candidates, meanings_of
from artix.model.articulation import Articulation, State
from artix.model.padding import Padding
from artix.model.topology import Topology

Array = jax.Array
Function: TypeAlias = Callable[..., Any]

#: Fleets with more topologies are evaluated with their trees as data. Each kind costs a compilation; trees that are
#: data take as long to compile as 12 to 15 kinds (six links each, mass matrix and step).
MOST_KINDS = 16


class Kind(NamedTuple):
    """The members of one topology.

    Attributes:
      articulation: their articulation. Leaves that differ between members have a leading axis of members.
      differs: of each leaf, whether it has that axis.
      members: their numbers in the fleet.
    """

    articulation: Articulation
    differs: tuple[bool, ...]
    members: np.ndarray

    @property
    def is_operand(self) -> list[bool]:
        """Of each leaf, whether it is an operand of the kind's program; the others are constants."""
        is_traced = [isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self.articulation)]
        return list(map(operator.or_, self.differs, is_traced))

    @property
    def differs_of_operands(self) -> list[bool]:
        """Of each leaf that is an operand, whether it differs between members."""
        return [differs for differs, flag in zip(self.differs, self.is_operand, strict=True) if flag]


#: For each argument, each axis and each kind: the meaning of the axis.
_AxesOfLeaves: TypeAlias = tuple[tuple[tuple[Axis, ...], ...], ...]
#: For each kind and each argument: its axes.
_AxesOfKinds: TypeAlias = list[list[tuple[Axis, ...]]]


def kinds_of(members: Sequence[Articulation], index: np.ndarray) -> list[Kind]:
    """The kinds of a fleet, in the order of their first members.

    Args:
      members: the different articulations.
      index: which of them each member of the fleet is, [N].
    """
    by_topology: dict[Topology, list[int]] = {}
    for number in dict.fromkeys(index.tolist()):
        by_topology.setdefault(members[number].topology, []).append(number)
    kinds = []
    for numbers in by_topology.values():
        rows = np.flatnonzero(np.isin(index, numbers))
        place = {number: position for position, number in enumerate(numbers)}
        which = np.array([place[number] for number in index[rows].tolist()])
        # ``robot.replace(link_mass=...)`` keeps all other leaves, which then remain constants of the kind's program.
        leaves = list(zip(*(jax.tree.leaves(members[number]) for number in numbers), strict=True))
        differs = tuple(any(leaf is not each[0] for leaf in each) for each in leaves)
        joined = [members_of(which, *each) if flag else each[0] for each, flag in zip(leaves, differs, strict=True)]
        structure = jax.tree.structure(members[numbers[0]])
        kinds.append(Kind(jax.tree.unflatten(structure, joined), differs, rows))
    return kinds


def members_of(index: np.ndarray, *leaves: Any) -> Array:
    """The leaves of different members as that of all; by NumPy, as JAX would compile a program for each shape."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return jnp.stack(leaves)[index]
    return jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])[index])


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


def evaluate_one_kind(kind: Kind, function: Function, options: Mapping[str, Any]) -> Function:
    """The function of ``parameters_of([kind])`` and batches of arguments, for a fleet of a single kind."""
    with_options = partial(function, **options)

    def of_fleet(parameters: Sequence[Sequence[Array]], *arguments: Any) -> Any:
        return _batched(kind, with_options, parameters[0])(*arguments)

    return of_fleet


def evaluate_by_kind(
    kinds: Sequence[Kind], padding: Padding, function: Function, options: Mapping[str, Any]
) -> Function:
    """The function of batches of arguments [N, ...], padded like the fleet; so are its results.

    Args:
      kinds: the kinds of the fleet.
      padding: the fleet's padding.
      function: ``function(articulation, state, *arguments, **options)`` of one member.
      options: its static arguments.

    Returns:
      The function of ``parameters_of(kinds), state, *arguments``. It raises what ``function`` raises for one of the
      kinds, and ``ValueError`` if the shape of a result does not tell what its axes mean.
    """
    meanings = [meanings_of(kind.articulation.topology, padding) for kind in kinds]  # type: ignore[arg-type]
    with_options = partial(function, **options)

    def of_fleet(parameters: Sequence[Sequence[Array]], *arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        axes_of_kinds = _chosen_axes(kinds, meanings, with_options, leaves, structure)
        gathered = partial(_gather_and_join, kinds, meanings, with_options, axes_of_kinds)
        try:
            calls = [
                _call_of_member(kind, partial(call_of, function, **options), leaves, structure, axes)
                for kind, axes in zip(kinds, axes_of_kinds, strict=True)
            ]
        except (TypeError, ValueError):  # It needs its arguments' values, or refuses them and will do so again.
            return gathered(parameters, *arguments)
        if not all(call.program.has_kernel for call, _ in calls):
            return gathered(parameters, *arguments)
        programs, large = _row_programs(kinds, calls, axes_of_kinds, meanings)
        operands, all_structure = jax.tree.flatten((parameters, arguments))

        def otherwise(*values: Array) -> list[Array]:
            parameters, arguments = jax.tree.unflatten(all_structure, values[: len(operands)])
            return jax.tree.leaves(gathered(parameters, *arguments))

        results = evaluate_rows(RowPrograms(programs, otherwise), [*operands, *large])
        return jax.tree.unflatten(calls[0][0].structure, results)

    return of_fleet


def _gather_and_join(
    kinds: Sequence[Kind],
    meanings: Sequence[Meanings],
    function: Function,
    axes_of_kinds: _AxesOfKinds,
    parameters: Sequence[Sequence[Array]],
    *arguments: Any,
) -> Any:
    """The results of all members, each kind evaluated for the gathered rows of its members."""
    leaves, structure = jax.tree.flatten(arguments)
    results = []
    for kind, operands, axes in zip(kinds, parameters, axes_of_kinds, strict=True):
        rows = _as_slice(kind.members)
        entries = [(slice(None), *(axis.entries for axis in leaf_axes)) for leaf_axes in axes]
        of_kind = [leaf[rows][entry] for leaf, entry in zip(leaves, entries, strict=True)]
        results.append(_batched(kind, function, operands)(*jax.tree.unflatten(structure, of_kind)))
    parts = zip(*map(jax.tree.leaves, results), strict=True)
    joined = [_join(kinds, meanings, each, number) for number, each in enumerate(parts)]
    return jax.tree.unflatten(jax.tree.structure(results[0]), joined)


def _batched(kind: Kind, function: Function, operands: Sequence[Array]) -> Function:
    """The function of batches of a kind's arguments, given the leaves of its articulation that are operands."""
    leaves, structure = jax.tree.flatten(kind.articulation)
    given = iter(operands)
    leaves = [next(given) if flag else leaf for leaf, flag in zip(leaves, kind.is_operand, strict=True)]

    def of_member(own: Sequence[Array], *arguments: Any) -> Any:
        own_leaves = iter(own)
        all_leaves = [next(own_leaves) if flag else leaf for leaf, flag in zip(leaves, kind.differs, strict=True)]
        return function(jax.tree.unflatten(structure, all_leaves), *arguments)

    own = [leaf for leaf, flag in zip(leaves, kind.differs, strict=True) if flag]
    return lambda *arguments: jax.vmap(of_member)(own, *arguments)


def _call_of_member(
    kind: Kind, call: Callable[..., Any], leaves: list[Array], structure: Any, axes: Sequence[tuple[Axis, ...]]
) -> tuple[Call, list[Any]]:
    """What evaluates one member, and all its arguments (arrays or their types), beginning with the articulation's."""
    own, structure_of_own = jax.tree.flatten(kind.articulation)
    own = [
        jax.ShapeDtypeStruct(leaf.shape[1:] if differs else leaf.shape, leaf.dtype) if is_operand else leaf
        for leaf, differs, is_operand in zip(own, kind.differs, kind.is_operand, strict=True)
    ]
    types = _types_of_member(leaves, axes)
    articulation = jax.tree.unflatten(structure_of_own, own)
    return call(articulation, *jax.tree.unflatten(structure, types)), [*own, *types]


def _types_of_member(leaves: list[Array], axes: Sequence[tuple[Axis, ...]]) -> list[jax.ShapeDtypeStruct]:
    return [
        jax.ShapeDtypeStruct(tuple(axis.size for axis in leaf_axes), leaf.dtype)
        for leaf, leaf_axes in zip(leaves, axes, strict=True)
    ]


def _row_programs(
    kinds: Sequence[Kind],
    calls: Sequence[tuple[Call, list[Any]]],
    axes_of_kinds: _AxesOfKinds,
    meanings: Sequence[Meanings],
) -> tuple[list[RowProgram], list[Array]]:
    """The kinds' programs for padded arrays, and the large arrays of their articulations.

    Their operands are the parameters of all kinds, the fleet's arguments, and these large arrays.
    """
    results = zip(*(call.program.result_types for call, _ in calls), strict=True)
    axes_of_results = [
        axes_of_one_result([kind.shape for kind in types], meanings, number) for number, types in enumerate(results)
    ]
    num_operands = [sum(kind.is_operand) for kind in kinds]
    programs, large, before = list[RowProgram](), list[Array](), 0
    for number, (kind, (call, arrays), axes) in enumerate(zip(kinds, calls, axes_of_kinds, strict=True)):
        num_leaves, num_arguments = len(arrays) - len(axes), len(axes)
        own = [tuple(Axis(0, size, size) for size in array.shape) for array in arrays[:num_leaves]]
        program = call.program.padded((*own, *axes), tuple(tuple(each[number]) for each in axes_of_results))
        places = before + np.cumsum(kind.is_operand) - 1
        operands, levels, numbered = [], [], []
        for index in program.traced:
            is_argument = index >= num_leaves
            if is_argument:
                operands.append(sum(num_operands) + index - num_leaves)
            elif kind.is_operand[index]:
                operands.append(int(places[index]))
            else:
                operands.append(sum(num_operands) + num_arguments + len(large))
                large.append(arrays[index])
            levels.append(int(is_argument or kind.differs[index]))
            numbered.append(is_argument)
        programs.append(RowProgram(program, kind.members, tuple(operands), tuple(levels), tuple(numbered)))
        before += num_operands[number]
    return programs, large


def _join(kinds: Sequence[Kind], meanings: Sequence[Meanings], parts: Sequence[Array], number: int) -> Array:
    """One result for all members, in the fleet's order and padding, from those of the kinds."""
    axes = axes_of_one_result([part.shape[1:] for part in parts], meanings, number)
    padded = [
        jnp.pad(part, [(0, 0), *(axis.padding for axis in part_axes)])
        for part, part_axes in zip(parts, axes, strict=True)
    ]
    order = np.concatenate([kind.members for kind in kinds])
    result = jnp.concatenate(padded)
    return result if np.array_equal(order, np.arange(len(order))) else result[np.argsort(order)]


def _as_slice(members: np.ndarray) -> slice | np.ndarray:
    """Numbers of members as a slice where they are evenly spaced."""
    first, last = int(members[0]), int(members[-1])
    step = (last - first) // max(len(members) - 1, 1) or 1
    if np.array_equal(members, np.arange(first, first + step * len(members), step)):
        return slice(first, last + 1, step)
    return members


def _chosen_axes(
    kinds: Sequence[Kind], meanings: Sequence[Meanings], function: Function, leaves: list[Array], structure: Any
) -> _AxesOfKinds:
    """For each kind, the axes of all arguments: the first meanings that the function accepts."""
    assignments = list(_assignments(leaves, meanings, structure))
    # A single assignment is not tried: if the function refuses it, evaluation raises.
    axes = assignments[0] if len(assignments) == 1 else _first_accepted(kinds, assignments, function, leaves, structure)
    return [[tuple(axis[number] for axis in leaf_axes) for leaf_axes in axes] for number in range(len(kinds))]


def _first_accepted(
    kinds: Sequence[Kind], assignments: Sequence[_AxesOfLeaves], function: Function, leaves: list[Array], structure: Any
) -> _AxesOfLeaves:
    refusal: Exception | None = None
    for axes in assignments:
        try:
            for number, kind in enumerate(kinds):
                types = _types_of_member(leaves, [tuple(axis[number] for axis in leaf_axes) for leaf_axes in axes])
                leaves_of_kind, structure_of_kind = jax.tree.flatten(kind.articulation)
                pairs = zip(leaves_of_kind, kind.differs, strict=True)
                first = jax.tree.unflatten(structure_of_kind, [leaf[0] if flag else leaf for leaf, flag in pairs])
                jax.eval_shape(partial(function, first), *jax.tree.unflatten(structure, types))
        except (ValueError, TypeError) as error:
            refusal = refusal or error
            continue
        return axes
    assert refusal is not None
    raise refusal


def _assignments(leaves: list[Array], meanings: Sequence[Meanings], structure: Any) -> Iterator[_AxesOfLeaves]:
    """All possible meanings of the arguments' axes, the likeliest first; the axes of states are known."""
    numbered = jax.tree.unflatten(structure, range(len(leaves)))
    is_state = lambda x: isinstance(x, State)  # noqa: E731
    states = [x for x in jax.tree.leaves(numbered, is_leaf=is_state) if is_state(x)]
    of_roots = {number for state in states for number in (state.root_pose, state.root_velocity)}
    of_joints = {number for state in states for number in (state.joint_position, state.joint_velocity)}
    options = []
    for number, leaf in enumerate(leaves):
        axes = [candidates(size, meanings) for size in leaf.shape[1:]]
        if number in of_roots:
            axes = [each[-1:] for each in axes]
        elif number in of_joints:
            axes = [[tuple(each["joint DOFs"] for each in meanings)]]
        options.append(list(itertools.product(*axes)))
    yield from itertools.product(*options)
