"""Mixed fleets kind by kind: members of one topology by one program of theirs, results padded and in the fleet's order.

What of an array belongs to a member is told by its shape: an axis as long as the fleet's largest number of links, DOFs
and so on has, for each kind, that kind's own length.
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

#: Fleets of more topologies are evaluated as trees that are data: each kind costs a compilation.
MOST_KINDS = 8


class Kind(NamedTuple):
    """The members of one topology.

    Attributes:
      articulation: the one that all of them are, or all of theirs, every leaf with a leading axis.
      is_one: which of both.
      members: their numbers in the fleet.
    """

    articulation: Articulation
    is_one: bool
    members: np.ndarray


class _Axis(NamedTuple):
    """Where a member's entries lie along an axis of the fleet's arrays: ``[skipped, skipped + size)`` of ``padded``."""

    skipped: int
    size: int
    padded: int

    @property
    def place(self) -> slice:
        return slice(self.skipped, self.skipped + self.size)

    @property
    def padding(self) -> tuple[int, int]:
        return self.skipped, self.padded - self.skipped - self.size


_Meanings: TypeAlias = dict[str, _Axis]
_Shape: TypeAlias = tuple[int, ...]


def kinds_of(members: Sequence[Articulation], index: np.ndarray) -> list[Kind]:
    """The kinds of a fleet, in the order of their first members.

    Args:
      members: different articulations.
      index: which of them each member of the fleet is, [N].
    """
    of_topology: dict[Topology, list[int]] = {}
    for number in dict.fromkeys(index.tolist()):
        of_topology.setdefault(members[number].topology, []).append(number)
    kinds = []
    for numbers in of_topology.values():
        places = np.flatnonzero(np.isin(index, numbers))
        if len(numbers) == 1:
            kinds.append(Kind(members[numbers[0]], True, places))
            continue
        which = np.array([numbers.index(number) for number in index[places]])
        stacked = jax.tree.map(lambda *leaves, which=which: jnp.stack(leaves)[which], *(members[k] for k in numbers))
        kinds.append(Kind(stacked, False, places))
    return kinds


def evaluate_by_kind(kinds: Sequence[Kind], padding: Padding, function: Function) -> Function:
    """A function of batches of arguments [N, ...], as the fleet pads them, whose results are padded likewise.

    Args:
      kinds: those of the fleet.
      padding: the fleet's.
      function: ``function(articulation, state, *arguments)`` of one member.

    Returns:
      The function of ``state, *arguments``. It raises what ``function`` raises for one of the kinds, and ``ValueError``
      where the shape of a result does not tell what its axes mean.
    """
    meanings = [_meanings(kind.articulation.topology, padding) for kind in kinds]  # type: ignore[arg-type]

    def of_fleet(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        results = []
        for kind, axes in zip(kinds, _chosen_axes(kinds, meanings, function, leaves, structure), strict=True):
            rows = _rows(kind.members)
            places = [(slice(None), *(axis.place for axis in of_leaf)) for of_leaf in axes]
            own = [leaf[rows][place] for leaf, place in zip(leaves, places, strict=True)]
            batched = jax.vmap(function, in_axes=(None if kind.is_one else 0, *(0,) * len(arguments)))
            results.append(batched(kind.articulation, *jax.tree.unflatten(structure, own)))
        parts = zip(*map(jax.tree.leaves, results), strict=True)
        joined = [_joined(kinds, meanings, each, number) for number, each in enumerate(parts)]
        return jax.tree.unflatten(jax.tree.structure(results[0]), joined)

    return of_fleet


def _joined(kinds: Sequence[Kind], meanings: Sequence[_Meanings], parts: Sequence[Array], number: int) -> Array:
    """A result of all members, in the fleet's order and padding."""
    axes = _axes_of_results([part.shape[1:] for part in parts], meanings, number)
    padded = [jnp.pad(part, [(0, 0), *(axis.padding for axis in own)]) for part, own in zip(parts, axes, strict=True)]
    order = np.concatenate([kind.members for kind in kinds])
    whole = jnp.concatenate(padded)
    return whole if np.array_equal(order, np.arange(len(order))) else whole[np.argsort(order)]


def _rows(members: np.ndarray) -> slice | np.ndarray:
    """Numbers of members as a slice, where they are one."""
    first, last = int(members[0]), int(members[-1])
    step = (last - first) // max(len(members) - 1, 1) or 1
    if np.array_equal(members, np.arange(first, first + step * len(members), step)):
        return slice(first, last + 1, step)
    return members


def _meanings(topology: Topology, padding: Padding) -> _Meanings:
    """What axes may be, for one kind. A fixed base has no entries of its own where another member floats."""
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
    """What an axis of an argument may be, for all kinds; that of the same length for all of them last."""
    found = [tuple(each[name] for each in meanings) for name in meanings[0] if meanings[0][name].padded == size]
    return list(dict.fromkeys([*found, (_Axis(0, size, size),) * len(meanings)]))


def _chosen_axes(
    kinds: Sequence[Kind], meanings: Sequence[_Meanings], function: Function, leaves: list[Array], structure: Any
) -> list[list[tuple[_Axis, ...]]]:
    """For each kind, the axes of all arguments: the first meanings that the function accepts."""
    refusal: Exception | None = None
    for axes in _assignments(leaves, meanings, structure):
        try:
            for number, kind in enumerate(kinds):
                types = [
                    jax.ShapeDtypeStruct(tuple(axis[number].size for axis in leaf_axes), leaf.dtype)
                    for leaf, leaf_axes in zip(leaves, axes, strict=True)
                ]
                one = kind.articulation if kind.is_one else jax.tree.map(lambda x: x[0], kind.articulation)
                jax.eval_shape(partial(function, one), *jax.tree.unflatten(structure, types))
        except (ValueError, TypeError) as error:
            refusal = refusal or error
            continue
        return [[tuple(axis[number] for axis in leaf_axes) for leaf_axes in axes] for number in range(len(kinds))]
    assert refusal is not None
    raise refusal


def _assignments(
    leaves: list[Array], meanings: Sequence[_Meanings], structure: Any
) -> Iterator[tuple[tuple[tuple[_Axis, ...], ...], ...]]:
    """All that the axes of all arguments may be, the likeliest first; those of states are known."""
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
    for place, sizes in enumerate(zip(*shapes, strict=True)):
        found = {
            tuple(each[name] for each in meanings)
            for name in meanings[0]
            if all(each[name].size == size for each, size in zip(meanings, sizes, strict=True))
        }
        if len(set(sizes)) == 1:
            found.add((_Axis(0, sizes[0], sizes[0]),) * len(meanings))
        if len(found) != 1:
            what = "nothing that a fleet pads is so long" if not found else "it may be several things"
            raise ValueError(
                f"axis {place} of result {number} has the lengths {', '.join(map(str, sizes))} for the kinds of this "
                f"fleet, and {what}; build the fleet with layout='padded'"
            )
        axes.append(found.pop())
    return [[axis[kind] for axis in axes] for kind in range(len(meanings))]
