"""Evaluates mixed fleets kind by kind: one program for each topology, results padded and in the fleet's order.

The shape of an array tells which entries belong to a member: an axis whose length is the fleet's largest number of
links, DOFs and so on has, for each kind, that kind's own length.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

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


class _Axis(NamedTuple):
    """A member's entries along an axis of the fleet's arrays: ``[skipped, skipped + size)`` of ``padded`` entries."""

    skipped: int
    size: int
    padded: int

    @property
    def entries(self) -> slice:
        return slice(self.skipped, self.skipped + self.size)

    @property
    def padding(self) -> tuple[int, int]:
        return self.skipped, self.padded - self.skipped - self.size


_Meanings: TypeAlias = dict[str, _Axis]
_Shape: TypeAlias = tuple[int, ...]
#: Of every argument, of every axis, its meaning for every kind.
_AxesOfLeaves: TypeAlias = tuple[tuple[tuple[_Axis, ...], ...], ...]


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


def evaluate_by_kind(kinds: Sequence[Kind], padding: Padding, function: Function) -> Function:
    """The function of batches of arguments [N, ...], padded as the fleet's, with results padded likewise.

    Args:
      kinds: the kinds of the fleet.
      padding: the fleet's padding.
      function: ``function(articulation, state, *arguments)`` of one member.

    Returns:
      The function of ``parameters_of(kinds), state, *arguments``. It raises what ``function`` raises for one of the
      kinds, and ``ValueError`` where the shape of a result does not tell what its axes mean.
    """
    meanings = [_meanings(kind.articulation.topology, padding) for kind in kinds]  # type: ignore[arg-type]

    def of_fleet(parameters: Sequence[Articulation | None], *arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        results = []
        axes_of_kinds = _chosen_axes(kinds, meanings, function, leaves, structure)
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

    return of_fleet


def _join(kinds: Sequence[Kind], meanings: Sequence[_Meanings], parts: Sequence[Array], number: int) -> Array:
    """One result for all members, in the fleet's order and padding, from those of the kinds."""
    axes = _axes_of_results([part.shape[1:] for part in parts], meanings, number)
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


def _meanings(topology: Topology, padding: Padding) -> _Meanings:
    """What an axis may mean, for one kind. A fixed base lacks the root's entries that floating members have."""
    links, dofs, floats = topology.num_links, topology.num_dofs, not topology.fixed_base
    root = 6 if padding.floating and not floats else 0
    pose = 7 if padding.floating and not floats else 0
    rootless_rows = 0 if padding.floating else 6
    return {
        "generalised velocity": _Axis(root, topology.nv, (6 if padding.floating else 0) + padding.dofs),
        "joint DOFs": _Axis(0, dofs, padding.dofs),
        "links": _Axis(0, links, padding.links),
        "frames": _Axis(0, len(topology.frame_names), padding.frames),
        "configuration": _Axis(pose, (7 if floats else 0) + dofs, (7 if padding.floating else 0) + padding.dofs),
        "rows of the dense Jacobian": _Axis(root, 6 * links - (0 if floats else 6), 6 * padding.links - rootless_rows),
    }


def _candidates(size: int, meanings: Sequence[_Meanings]) -> list[tuple[_Axis, ...]]:
    """What an axis of an argument may mean, for all kinds; last, an axis of the same length for all of them."""
    fitting = [tuple(each[name] for each in meanings) for name in meanings[0] if meanings[0][name].padded == size]
    return list(dict.fromkeys([*fitting, (_Axis(0, size, size),) * len(meanings)]))


def _chosen_axes(
    kinds: Sequence[Kind], meanings: Sequence[_Meanings], function: Function, leaves: list[Array], structure: Any
) -> list[list[tuple[_Axis, ...]]]:
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
                types = [
                    jax.ShapeDtypeStruct(tuple(axis[number].size for axis in leaf_axes), leaf.dtype)
                    for leaf, leaf_axes in zip(leaves, axes, strict=True)
                ]
                first = kind.articulation if kind.is_shared else jax.tree.map(lambda x: x[0], kind.articulation)
                jax.eval_shape(partial(function, first), *jax.tree.unflatten(structure, types))
        except (ValueError, TypeError) as error:
            refusal = refusal or error
            continue
        return axes
    assert refusal is not None
    raise refusal


def _assignments(leaves: list[Array], meanings: Sequence[_Meanings], structure: Any) -> Iterator[_AxesOfLeaves]:
    """All possible meanings of the axes of all arguments, the likeliest first; the axes of states are known."""
    numbered = jax.tree.unflatten(structure, range(len(leaves)))
    is_state = lambda x: isinstance(x, State)  # noqa: E731
    states = [x for x in jax.tree.leaves(numbered, is_leaf=is_state) if is_state(x)]
    of_roots = {number for state in states for number in (state.root_pose, state.root_velocity)}
    of_joints = {number for state in states for number in (state.joint_position, state.joint_velocity)}
    options = []
    for number, leaf in enumerate(leaves):
        axes = [_candidates(size, meanings) for size in leaf.shape[1:]]
        if number in of_roots:
            axes = [each[-1:] for each in axes]
        elif number in of_joints:
            axes = [[tuple(each["joint DOFs"] for each in meanings)]]
        options.append(list(itertools.product(*axes)))
    yield from itertools.product(*options)


def _axes_of_results(shapes: list[_Shape], meanings: Sequence[_Meanings], number: int) -> list[list[_Axis]]:
    """For each kind, the axes of a result."""
    axes = []
    for position, sizes in enumerate(zip(*shapes, strict=True)):
        fitting = {
            tuple(each[name] for each in meanings)
            for name in meanings[0]
            if all(each[name].size == size for each, size in zip(meanings, sizes, strict=True))
        }
        if len(set(sizes)) == 1:
            fitting.add((_Axis(0, sizes[0], sizes[0]),) * len(meanings))
        if len(fitting) != 1:
            what = "nothing that a fleet pads is so long" if not fitting else "it may be several things"
            raise ValueError(
                f"axis {position} of result {number} has the lengths {', '.join(map(str, sizes))} for the kinds of "
                f"this fleet, and {what}; build the fleet with layout='padded'"
            )
        axes.append(fitting.pop())
    return [[axis[kind] for axis in axes] for kind in range(len(meanings))]
