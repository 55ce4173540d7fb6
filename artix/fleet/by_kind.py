"""Evaluates fleets kind by kind: one program for each topology.

Results are padded and in the fleet's order, or each kind has its own. If every kind has a kernel,
one kernel of all kinds reads and writes their members' rows of the fleet's arrays. Otherwise,
members are gathered by kind, and their results are padded and put into the fleet's order. Lengths
of axes tell what the axes of arguments mean for each kind.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from artix.compiler.compilation import RowProgram
from artix.compiler.program import is_readable
from artix.compiler.quantity import Call, call_of, is_array, is_one_operation, quantity
from artix.compiler.random_words import with_words
from artix.compiler.row_operation import RowPrograms, evaluate_rows
from artix.fleet.kinds import (
    Axis,
    Kind,
    Maxima,
    Meanings,
    axes_of_one_result,
    candidates,
    each_part_alike,
    have_tracers,
    meanings_of,
    num_parts,
    parameters_of,
    place_parameters,
    states_in,
)
from artix.model.articulation import Articulation
from artix.model.zeros import keep_zeros

Array = jax.Array
Function: TypeAlias = Callable[..., Any]


def compiled_by_kind(
    kinds: Sequence[Kind],
    maxima: Maxima,
    sharding: Sharding | None,
    function: Function,
    options: Mapping[str, Any],
    joined: bool,
) -> Function:
    """A compiled function of a fleet's state and further arguments, each device with its part of
    the members.

    Args:
      kinds: the kinds of the fleet.
      maxima: the sizes of the fleet's arrays.
      sharding: how the members are divided; each part has the same kinds in the same places.
      function: ``function(articulation, state, *arguments, **options)`` of one member.
      options: its static arguments.
      joined: whether results belong to the fleet, padded like the arguments; otherwise there is a
        tuple of the results of each kind.

    Returns:
      The function. It raises what ``function`` raises for one of the kinds, and ``ValueError`` if
      results are joined and the shape of one does not tell what its axes mean.
    """
    function, options = _without_partial(function, options)
    parameters = parameters_of(kinds)
    if sharding is not None:
        parameters = place_parameters(kinds, parameters, sharding)
    if len(kinds) == 1:
        of_all = _function_of_one_kind(kinds[0], function, options)
        return partial(
            jax.jit(of_all if joined else lambda *arguments: (of_all(*arguments),)), parameters
        )
    parts = 1 if sharding is None else num_parts(sharding, sum(len(kind.members) for kind in kinds))
    if parts == 1:
        return partial(
            jax.jit(_function_by_kind(kinds, maxima, function, options, joined)), parameters
        )
    local = each_part_alike(kinds, parts)
    assert isinstance(sharding, NamedSharding)  # ``Fleet.shard`` refuses all else.
    assert local is not None
    members = PartitionSpec(sharding.spec[0])
    specs = [
        [members if flag else PartitionSpec() for flag in kind.differs_of_operands]
        for kind in kinds
    ]
    by_kind = _function_by_kind(local, maxima, function, options, joined)

    def on_devices(*arguments: Any) -> Any:
        in_specs = (specs, *(members for _ in arguments[1:]))
        return jax.shard_map(by_kind, mesh=sharding.mesh, in_specs=in_specs, out_specs=members)(
            *arguments
        )

    return partial(jax.jit(on_devices), parameters)


def _without_partial(
    function: Function, options: Mapping[str, Any]
) -> tuple[Function, Mapping[str, Any]]:
    """The function of a ``functools.partial`` with its keyword arguments, such as a ground, as
    further options.

    Other processes find kernels of artix's own functions on disk, and those that take arrays by
    keyword, too.
    """
    while isinstance(function, partial) and not function.args:
        bound = function
        leaves = jax.tree.leaves(bound.keywords)
        if have_tracers(leaves) or not all(
            is_array(leaf) or isinstance(leaf, Hashable) for leaf in leaves
        ):
            break
        function = bound.func
        options = {**bound.keywords, **options}
    return function, options


def _function_of_one_kind(kind: Kind, function: Function, options: Mapping[str, Any]) -> Function:
    """The function of ``parameters_of([kind])`` and batches of arguments, for a fleet of a single
    kind.
    """
    of_member = with_known_zeros(kind, function, options)

    def of_fleet(parameters: Sequence[Sequence[Array]], *arguments: Any) -> Any:
        return _batch(kind, of_member, parameters[0])(*arguments)

    return of_fleet


def _function_by_kind(
    kinds: Sequence[Kind],
    maxima: Maxima,
    function: Function,
    options: Mapping[str, Any],
    joined: bool,
) -> Function:
    """The function of ``parameters_of(kinds)`` and batches of arguments [N, ...], padded like the
    fleet.
    """
    meanings = [meanings_of(kind.articulation.topology, maxima) for kind in kinds]
    functions = [with_known_zeros(kind, function, options) for kind in kinds]

    def of_fleet(parameters: Sequence[Sequence[Array]], *arguments: Any) -> Any:
        arguments = with_words(arguments)  # Keys have axes that say nothing of a robot.
        leaves, structure = jax.tree.flatten(arguments)
        axes_of_kinds = chosen_axes(
            kinds, meanings, partial(function, **options), leaves, structure
        )
        gathered = partial(_gather, kinds, meanings, functions, axes_of_kinds, joined)
        try:
            calls = [
                _call_of_member(kind, of_member, leaves, structure, axes)
                for kind, of_member, axes in zip(kinds, functions, axes_of_kinds, strict=True)
            ]
        except (
            TypeError,
            ValueError,
        ):  # It needs its arguments' values, or refuses them and will do so again.
            return gathered(parameters, *arguments)
        if not all(call.program.has_kernel for call, *_ in calls):
            return gathered(parameters, *arguments)
        if joined:
            _common([call.structure for call, *_ in calls])
        programs, large = _row_programs(kinds, calls, axes_of_kinds, meanings if joined else None)
        operands, all_structure = jax.tree.flatten((parameters, arguments))
        num_operands = len(operands)  # JAX keeps the next function, so it must not keep arrays.

        def otherwise(*values: Array) -> list[Array]:
            parameters, arguments = jax.tree.unflatten(all_structure, values[:num_operands])
            return jax.tree.leaves(with_words(gathered(parameters, *arguments)))

        results = iter(evaluate_rows(RowPrograms(programs, otherwise, joined), [*operands, *large]))
        structures = [call.structure for call, *_ in calls]
        if joined:
            return jax.tree.unflatten(structures[0], results)
        return tuple(
            jax.tree.unflatten(each, itertools.islice(results, each.num_leaves))
            for each in structures
        )

    return of_fleet


def _gather(
    kinds: Sequence[Kind],
    meanings: Sequence[Meanings],
    functions: Sequence[OfMember],
    axes_of_kinds: AxesOfKinds,
    joined: bool,
    parameters: Sequence[Sequence[Array]],
    *arguments: Any,
) -> Any:
    """The results of :func:`_function_by_kind`, each kind evaluated for the gathered rows of its
    members.
    """
    leaves, structure = jax.tree.flatten(with_words(arguments))
    results = []
    for kind, function, operands, axes in zip(
        kinds, functions, parameters, axes_of_kinds, strict=True
    ):
        rows = _as_slice(kind.members)
        entries = [(slice(None), *(axis.entries for axis in leaf_axes)) for leaf_axes in axes]
        of_kind = [leaf[rows][entry] for leaf, entry in zip(leaves, entries, strict=True)]
        of_members = _batch(kind, function, operands)
        results.append(with_words(of_members(*jax.tree.unflatten(structure, of_kind))))
    if not joined:
        return tuple(results)
    structure = _common([jax.tree.structure(result) for result in results])
    parts = zip(*map(jax.tree.leaves, results), strict=True)
    leaves = [_join(kinds, meanings, each, number) for number, each in enumerate(parts)]
    return jax.tree.unflatten(structure, leaves)


def _common(structures: Sequence[Any]) -> Any:
    """The structure of the results of all kinds.

    Raises:
      ValueError: there are several.
    """
    for structure in structures:
        if structure != structures[0]:
            raise ValueError(
                "the kinds of this fleet return different structures, or equal ones with other "
                "static fields; fleet.evaluate_kinds returns the results of each kind"
            )
    return structures[0]


def _batch(kind: Kind, function: Function, operands: Sequence[Array]) -> Function:
    """The function of batches of a kind's arguments, given the leaves of its articulation that are
    operands.
    """
    leaves, structure = jax.tree.flatten(kind.articulation)
    passed = iter(operands)
    leaves = [
        next(passed) if flag else leaf for leaf, flag in zip(leaves, kind.is_operand, strict=True)
    ]

    def of_member(leaves_of_kind: Sequence[Array], *arguments: Any) -> Any:
        different = iter(leaves_of_kind)
        all_leaves = [
            next(different) if flag else leaf
            for leaf, flag in zip(leaves, kind.differs, strict=True)
        ]
        return function(jax.tree.unflatten(structure, all_leaves), *arguments)

    leaves_of_kind = [leaf for leaf, flag in zip(leaves, kind.differs, strict=True) if flag]
    return lambda *arguments: jax.vmap(of_member)(leaves_of_kind, *arguments)


def _call_of_member(
    kind: Kind,
    of_member: OfMember,
    leaves: list[Array],
    structure: Any,
    axes: Sequence[tuple[Axis, ...]],
) -> tuple[Call, int, list[Any]]:
    """What evaluates one member, the number of its first arguments, and its arguments or their
    types.

    These are its first ones, which are known, the articulation's, all members', and arrays among
    the options.
    """
    leaves_of_kind, structure_of_kind = jax.tree.flatten(kind.articulation)
    leaves_of_kind = [
        jax.ShapeDtypeStruct(leaf.shape[1:] if differs else leaf.shape, leaf.dtype)
        if is_operand
        else leaf
        for leaf, differs, is_operand in zip(
            leaves_of_kind, kind.differs, kind.is_operand, strict=True
        )
    ]
    types = types_of_member(leaves, axes)
    arguments = [
        jax.tree.unflatten(structure_of_kind, leaves_of_kind),
        *jax.tree.unflatten(structure, types),
    ]
    call = call_of(of_member.function, *of_member.known, *arguments, **of_member.options)
    assert call is not None  # the state has arrays
    known = [x for x in jax.tree.leaves(of_member.known) if not callable(x)]
    return (
        call,
        len(known),
        [
            *known,
            *leaves_of_kind,
            *types,
            *filter(is_array, jax.tree.leaves(dict(of_member.options))),
        ],
    )


def _row_programs(
    kinds: Sequence[Kind],
    calls: Sequence[tuple[Call, int, list[Any]]],
    axes_of_kinds: AxesOfKinds,
    meanings: Sequence[Meanings] | None,
) -> tuple[list[RowProgram], list[Array]]:
    """The kinds' programs for padded arguments, and the large arrays of their articulations.

    Results are padded if there are ``meanings`` of their axes. Operands are the parameters of all
    kinds, the fleet's arguments, and these large arrays.
    """
    types_of_results = [call.program.result_types for call, *_ in calls]
    if meanings is None:
        axes_of_results = [[_whole(kind.shape) for kind in types] for types in types_of_results]
    else:
        axes_of_each = [
            axes_of_one_result([kind.shape for kind in types], meanings, number)
            for number, types in enumerate(zip(*types_of_results, strict=True))
        ]
        axes_of_results = [
            [tuple(each[number]) for each in axes_of_each] for number in range(len(kinds))
        ]
    num_operands = [sum(kind.is_operand) for kind in kinds]
    programs = list[RowProgram]()
    large = list[Array]()
    before = 0
    for number, (kind, (call, num_known, arrays), axes) in enumerate(
        zip(kinds, calls, axes_of_kinds, strict=True)
    ):
        num_arguments = len(axes)
        num_leaves = num_known + len(kind.differs)
        whole = [_whole(array.shape) for array in arrays]
        all_axes = (*whole[:num_leaves], *axes, *whole[num_leaves + num_arguments :])
        program = call.program.padded(all_axes, tuple(axes_of_results[number]))
        places = before + np.cumsum(kind.is_operand) - 1
        operands = []
        levels = []
        numbered = []
        for index in program.traced:
            is_argument = num_leaves <= index < num_leaves + num_arguments
            leaf = index - num_known
            is_of_robot = 0 <= leaf < len(kind.differs)
            if is_argument:
                operands.append(sum(num_operands) + index - num_leaves)
            elif is_of_robot and kind.is_operand[leaf]:
                operands.append(int(places[leaf]))
            else:
                operands.append(sum(num_operands) + num_arguments + len(large))
                large.append(arrays[index])
            levels.append(int(is_argument or (is_of_robot and kind.differs[leaf])))
            numbered.append(is_argument)
        programs.append(
            RowProgram(program, kind.members, tuple(operands), tuple(levels), tuple(numbered))
        )
        before += num_operands[number]
    return programs, large


def _whole(shape: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(Axis(0, size, size) for size in shape)


def _join(
    kinds: Sequence[Kind], meanings: Sequence[Meanings], parts: Sequence[Array], number: int
) -> Array:
    """One result for all members, in the fleet's order and padding, from the kinds' results."""
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


#: Meanings of all arguments that are tried before a function's first refusal is raised; each is one
#: trace.
MAX_TRIALS = 100

#: For each argument, each axis and each kind: the meaning of the axis.
_AxesOfLeaves: TypeAlias = tuple[tuple[tuple[Axis, ...], ...], ...]
#: For each kind and each argument: its axes.
AxesOfKinds: TypeAlias = list[list[tuple[Axis, ...]]]


def chosen_axes(
    kinds: Sequence[Kind],
    meanings: Sequence[Meanings],
    function: Function,
    leaves: list[Array],
    structure: Any,
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
            others = [
                (*axes[:number], other, *axes[number + 1 :])
                for other in each
                if other != axes[number]
            ]
            if any(trial.refusal(other) is None for other in others) and trial.uses(axes, number):
                raise ValueError(
                    f"{_name_of(structure, number)}: its shape {leaves[number].shape} may mean "
                    "several things in this fleet, and the function accepts more than one of "
                    "them; let it refuse the shapes that it does not mean with a ValueError"
                )
    return [
        [tuple(axis[number] for axis in leaf_axes) for leaf_axes in axes]
        for number in range(len(kinds))
    ]


class _Trial(NamedTuple):
    """Tries a function of one member for the shapes of the arguments that each kind would have."""

    kinds: Sequence[Kind]
    function: Function
    leaves: list[Array]
    structure: Any

    def first_accepted(self, assignments: Iterable[_AxesOfLeaves]) -> _AxesOfLeaves:
        """The first meanings that the function accepts; raises what it raises for the very first if
        there are none.
        """
        refusals = []
        for axes in itertools.islice(
            assignments, MAX_TRIALS
        ):  # Exponentially many in the number of arguments.
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
            if any(
                jaxpr.invars[leaf] is x
                for x in (*jaxpr.outvars, *(x for eqn in jaxpr.eqns for x in eqn.invars))
            ):
                return True
        return False

    def _of_kind(self, number: int, axes: _AxesOfLeaves) -> tuple[Any, ...]:
        """The function of a kind's first member, and the types of its arguments."""
        kind = self.kinds[number]
        types = types_of_member(
            self.leaves, [tuple(axis[number] for axis in leaf_axes) for leaf_axes in axes]
        )
        leaves_of_kind, structure_of_kind = jax.tree.flatten(kind.articulation)
        pairs = zip(leaves_of_kind, kind.differs, strict=True)
        first = jax.tree.unflatten(
            structure_of_kind, [leaf[0] if flag else leaf for leaf, flag in pairs]
        )
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
    """All possible meanings of the axes of each argument, the likeliest first; the axes of states
    are known.
    """
    numbered = jax.tree.unflatten(structure, range(len(leaves)))
    states = states_in(numbered)
    of_roots = {number for state in states for number in (state.root_pose, state.root_velocity)}
    of_joints = {
        number for state in states for number in (state.joint_position, state.joint_velocity)
    }
    options = []
    for number, leaf in enumerate(leaves):
        axes = [candidates(size, meanings) for size in leaf.shape[1:]]
        if number in of_roots:
            axes = [each[-1:] for each in axes]
        elif number in of_joints:
            axes = [[tuple(each["joint DOFs"] for each in meanings)]]
        options.append(list(itertools.product(*axes)))
    return options


def types_of_member(
    leaves: list[Array], axes: Sequence[tuple[Axis, ...]]
) -> list[jax.ShapeDtypeStruct]:
    """The types of one member's arguments, made of the whole fleet's."""
    return [
        jax.ShapeDtypeStruct(tuple(axis.size for axis in leaf_axes), leaf.dtype)
        for leaf, leaf_axes in zip(leaves, axes, strict=True)
    ]


@quantity
def _function_of_member(
    function: Function,
    pattern: Articulation,
    articulation: Articulation,
    *arguments: Any,
    **options: Any,
) -> Any:
    """A function of one member of a kind, whose zeros are known."""
    return function(keep_zeros(pattern, articulation), *arguments, **options)


@dataclasses.dataclass(frozen=True)
class OfMember:
    """The function of a member of a kind, called with its articulation, its state and so on.

    Attributes:
      function: what is called.
      known: its first arguments, the same for all members.
      options: its keyword arguments.
    """

    function: Function
    known: tuple[Any, ...]
    options: Mapping[str, Any]

    def __call__(self, *arguments: Any) -> Any:
        """The results for a member."""
        return self.function(*self.known, *arguments, **self.options)


def with_known_zeros(kind: Kind, function: Function, options: Mapping[str, Any]) -> OfMember:
    """The function of a member of this kind; of operations, one that makes use of its known
    zeros.
    """
    if not any(kind.differs) or not is_one_operation(function):
        return OfMember(function, (), options)
    return OfMember(_function_of_member, (function, _pattern(kind)), options)


def _pattern(kind: Kind) -> Articulation:
    """An articulation that is zero or infinite only where all members are, and otherwise one."""
    leaves, structure = jax.tree.flatten(kind.articulation)
    return jax.tree.unflatten(structure, list(map(_zero_mask, leaves, kind.differs)))


def _zero_mask(leaf: Any, differs: bool) -> np.ndarray:
    """Zero or infinity where all members have it, and otherwise one; a leaf that differs has an
    axis of members.
    """
    ones = np.ones(leaf.shape[differs:], leaf.dtype)
    if ones.dtype.kind != "f" or not is_readable(leaf):
        return ones
    rows = np.asarray(leaf) if differs else np.asarray(leaf)[None]
    is_kept = np.all(rows == rows[0], axis=0) & ((rows[0] == 0) | np.isinf(rows[0]))
    return np.where(is_kept, rows[0], ones)
