"""Evaluates mixed fleets kind by kind: one program for each topology, results padded and in the fleet's order.

Where every kind has a kernel, that reads and writes its members' rows of the fleet's padded arrays; else, members are
gathered by kind, and their results padded and brought into the fleet's order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from artix.evaluation.quantity import Call, call_of
from artix.evaluation.row_operation import RowProgram, RowPrograms, evaluate_rows
from artix.fleet.padded_axes import Axis, Meanings, axes_of_one_result, candidates, meanings_of
from artix.model.articulation import Articulation, State
from artix.model.padding import Padding
from artix.model.topology import Topology

Array = jax.Array
Function: TypeAlias = Callable[..., Any]

#: Fleets with more topologies are evaluated with their trees as data. Each kind costs a compilation; trees that are
#: data take as long as 12 to 15 kinds (six links each, mass matrix and step).
MOST_KINDS = 16


class Kind(NamedTuple):
    """The members of one topology.

    Attributes:
      articulation: the articulation that all of them share, or theirs stacked, every leaf with a leading axis.
      is_shared: which of the two.
      members: their numbers in the fleet.
    """

    articulation: Articulation
    is_shared: bool
    members: np.ndarray


#: Of every argument, of every axis, its meaning for every kind.
_AxesOfLeaves: TypeAlias = tuple[tuple[tuple[Axis, ...], ...], ...]
#: Of every kind, of every argument, its axes.
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
        if len(numbers) == 1:
            kinds.append(Kind(members[numbers[0]], True, rows))
            continue
        which = np.array([numbers.index(number) for number in index[rows]])
        stacked = jax.tree.map(lambda *leaves, which=which: jnp.stack(leaves)[which], *(members[k] for k in numbers))
        kinds.append(Kind(stacked, False, rows))
    return kinds


def each_part_alike(kinds: Sequence[Kind], parts: int) -> list[Kind] | None:
    """The kinds of each of several equal parts of a fleet, with the articulations of the whole fleet.

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


def parameters_of(kinds: Sequence[Kind]) -> list[Articulation | None]:
    """For each kind the members' articulations, stacked; ``None`` if they share one."""
    return [None if kind.is_shared else kind.articulation for kind in kinds]


def evaluate_by_kind(
    kinds: Sequence[Kind], padding: Padding, function: Function, options: Mapping[str, Any]
) -> Function:
    """The function of batches of arguments [N, ...], padded as the fleet's, with results padded likewise.

    Args:
      kinds: the kinds of the fleet.
      padding: the fleet's padding.
      function: ``function(articulation, state, *arguments, **options)`` of one member.
      options: its static arguments.

    Returns:
      The function of ``parameters_of(kinds), state, *arguments``. It raises what ``function`` raises for one of the
      kinds, and ``ValueError`` where the shape of a result does not tell what its axes mean.
    """
    meanings = [meanings_of(kind.articulation.topology, padding) for kind in kinds]  # type: ignore[arg-type]
    with_options = partial(function, **options)

    def of_fleet(parameters: Sequence[Articulation | None], *arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        axes_of_kinds = _chosen_axes(kinds, meanings, with_options, leaves, structure)
        gathered = partial(_gather_and_join, kinds, meanings, with_options, axes_of_kinds)
        try:
            calls = [
                _call_of_member(kind, partial(call_of, function, **options), leaves, structure, axes)
                for kind, axes in zip(kinds, axes_of_kinds, strict=True)
            ]
        except (TypeError, ValueError):  # It needs to know its arguments' numbers, or refuses them and will again.
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
    parameters: Sequence[Articulation | None],
    *arguments: Any,
) -> Any:
    """The results of all members, each kind evaluated for the gathered rows of its members."""
    leaves, structure = jax.tree.flatten(arguments)
    results = []
    for kind, stacked, axes in zip(kinds, parameters, axes_of_kinds, strict=True):
        rows = _as_slice(kind.members)
        entries = [(slice(None), *(axis.entries for axis in leaf_axes)) for leaf_axes in axes]
        of_kind = [leaf[rows][entry] for leaf, entry in zip(leaves, entries, strict=True)]
        batched = jax.vmap(function, in_axes=(None if kind.is_shared else 0, *(0,) * len(arguments)))
        articulation = kind.articulation if stacked is None else stacked
        results.append(batched(articulation, *jax.tree.unflatten(structure, of_kind)))
    parts = zip(*map(jax.tree.leaves, results), strict=True)
    joined = [_join(kinds, meanings, each, number) for number, each in enumerate(parts)]
    return jax.tree.unflatten(jax.tree.structure(results[0]), joined)


def _call_of_member(
    kind: Kind, call: Callable[..., Any], leaves: list[Array], structure: Any, axes: Sequence[tuple[Axis, ...]]
) -> tuple[Call, list[Any]]:
    """What evaluates one member, and the arrays of all its arguments, or their types, the articulation's first."""
    articulation = kind.articulation
    if not kind.is_shared:
        articulation = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), articulation)
    types = _types_of_member(leaves, axes)
    return call(articulation, *jax.tree.unflatten(structure, types)), [*jax.tree.leaves(articulation), *types]


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

    Their operands are the stacked parameters of all kinds, the fleet's arguments, and these large arrays.
    """
    results = zip(*(call.program.result_types for call, _ in calls), strict=True)
    axes_of_results = [
        axes_of_one_result([kind.shape for kind in types], meanings, number) for number, types in enumerate(results)
    ]
    num_stacked = [0 if kind.is_shared else len(jax.tree.leaves(kind.articulation)) for kind in kinds]
    programs, large, before = list[RowProgram](), list[Array](), 0
    for number, (kind, (call, arrays), axes) in enumerate(zip(kinds, calls, axes_of_kinds, strict=True)):
        num_parameters, num_arguments = len(arrays) - len(axes), len(axes)
        own = [tuple(Axis(0, size, size) for size in array.shape) for array in arrays[:num_parameters]]
        program = call.program.padded((*own, *axes), tuple(tuple(each[number]) for each in axes_of_results))
        operands, levels, numbered = [], [], []
        for index in program.traced:
            is_own, is_parameter = index < num_parameters and not kind.is_shared, index < num_parameters
            if is_parameter and kind.is_shared:
                operands.append(sum(num_stacked) + num_arguments + len(large))
                large.append(arrays[index])
            else:
                operands.append(before + index if is_own else sum(num_stacked) + index - num_parameters)
            levels.append(int(is_own or not is_parameter))
            numbered.append(not is_parameter)
        programs.append(RowProgram(program, kind.members, tuple(operands), tuple(levels), tuple(numbered)))
        before += num_stacked[number]
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
                first = kind.articulation if kind.is_shared else jax.tree.map(lambda x: x[0], kind.articulation)
                jax.eval_shape(partial(function, first), *jax.tree.unflatten(structure, types))
        except (ValueError, TypeError) as error:
            refusal = refusal or error
            continue
        return axes
    assert refusal is not None
    raise refusal


def _assignments(leaves: list[Array], meanings: Sequence[Meanings], structure: Any) -> Iterator[_AxesOfLeaves]:
    """All possible meanings of the axes of all arguments, the likeliest first; the axes of states are known."""
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
