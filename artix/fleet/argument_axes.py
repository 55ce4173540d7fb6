"""What the axes of a fleet's arguments mean for each kind, as far as lengths and the function itself tell."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax

from artix.fleet.arguments import states_in
from artix.fleet.kinds import Kind
from artix.fleet.padded_axes import Axis, Meanings, candidates

Array = jax.Array
Function: TypeAlias = Callable[..., Any]

#: Meanings of all arguments that are tried before a function's first refusal is raised; each is one trace.
MAX_TRIALS = 100

#: For each argument, each axis and each kind: the meaning of the axis.
_AxesOfLeaves: TypeAlias = tuple[tuple[tuple[Axis, ...], ...], ...]
#: For each kind and each argument: its axes.
AxesOfKinds: TypeAlias = list[list[tuple[Axis, ...]]]


def chosen_axes(
    kinds: Sequence[Kind], meanings: Sequence[Meanings], function: Function, leaves: list[Array], structure: Any
) -> AxesOfKinds:
    """For each kind, the axes of all arguments: the only meanings that the function accepts.

    Raises:
      ValueError: it accepts several meanings of an argument that it uses.
    """
    options = _options_of_leaves(leaves, meanings, structure)
    axes: _AxesOfLeaves = tuple(each[0] for each in options)
    # A single assignment is not tried: if the function refuses it, evaluation raises.
    if any(len(each) > 1 for each in options):
        trial = _Trial(kinds, function, leaves, structure)
        axes = trial.first_accepted(itertools.product(*options))
        for number, each in enumerate(options):
            others = [(*axes[:number], other, *axes[number + 1 :]) for other in each if other != axes[number]]
            if any(trial.refusal(other) is None for other in others) and trial.uses(axes, number):
                raise ValueError(
                    f"{_name_of(structure, number)}: its shape {leaves[number].shape} may mean several things in this "
                    "fleet, and the function accepts more than one of them; let it refuse the shapes that it does not "
                    "mean with a ValueError"
                )
    return [[tuple(axis[number] for axis in leaf_axes) for leaf_axes in axes] for number in range(len(kinds))]


class _Trial(NamedTuple):
    """Tries a function of one member for the shapes of the arguments that each kind would have."""

    kinds: Sequence[Kind]
    function: Function
    leaves: list[Array]
    structure: Any

    def first_accepted(self, assignments: Iterable[_AxesOfLeaves]) -> _AxesOfLeaves:
        """The first meanings that the function accepts; raises what it raises for the very first if there are none."""
        refusals = []
        for axes in itertools.islice(assignments, MAX_TRIALS):  # Their number is exponential in that of the arguments.
            refusals.append(self.refusal(axes))
            if refusals[-1] is None:
                return axes
        assert refusals[0] is not None
        raise refusals[0]

    def refusal(self, axes: _AxesOfLeaves) -> Exception | None:
        """What the function raises for one of the kinds."""
        try:
            for number in range(len(self.kinds)):
                jax.eval_shape(*self._of_kind(number, axes))
        except (ValueError, TypeError, AssertionError) as error:
            return error
        return None

    def uses(self, axes: _AxesOfLeaves, leaf: int) -> bool:
        """Whether the results for any kind depend on a leaf of the arguments."""
        for number in range(len(self.kinds)):
            function, *types = self._of_kind(number, axes)
            jaxpr = jax.make_jaxpr(function)(*types).jaxpr
            if any(jaxpr.invars[leaf] is x for x in (*jaxpr.outvars, *(x for eqn in jaxpr.eqns for x in eqn.invars))):
                return True
        return False

    def _of_kind(self, number: int, axes: _AxesOfLeaves) -> tuple[Any, ...]:
        """The function of a kind's first member, and the types of its arguments."""
        kind = self.kinds[number]
        types = types_of_member(self.leaves, [tuple(axis[number] for axis in leaf_axes) for leaf_axes in axes])
        leaves_of_kind, structure_of_kind = jax.tree.flatten(kind.articulation)
        pairs = zip(leaves_of_kind, kind.differs, strict=True)
        first = jax.tree.unflatten(structure_of_kind, [leaf[0] if flag else leaf for leaf, flag in pairs])
        return partial(self.function, first), *jax.tree.unflatten(self.structure, types)


def _name_of(structure: Any, number: int) -> str:
    """What messages call a leaf of the arguments."""
    numbered = jax.tree.unflatten(structure, range(structure.num_leaves))
    paths = jax.tree_util.tree_leaves_with_path(numbered)
    (first, *rest), _ = paths[number]
    return f"argument {first.idx}{jax.tree_util.keystr(tuple(rest))}"


def _options_of_leaves(
    leaves: list[Array], meanings: Sequence[Meanings], structure: Any
) -> list[list[tuple[tuple[Axis, ...], ...]]]:
    """All possible meanings of the axes of each argument, the likeliest first; the axes of states are known."""
    numbered = jax.tree.unflatten(structure, range(len(leaves)))
    states = states_in(numbered)
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
    return options


def types_of_member(leaves: list[Array], axes: Sequence[tuple[Axis, ...]]) -> list[jax.ShapeDtypeStruct]:
    """The types of one member's arguments, made of those of the whole fleet."""
    return [
        jax.ShapeDtypeStruct(tuple(axis.size for axis in leaf_axes), leaf.dtype)
        for leaf, leaf_axes in zip(leaves, axes, strict=True)
    ]
