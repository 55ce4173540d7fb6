"""What it costs to evaluate a function: operations, lanes, bytes, and which parts have no
kernel.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import kernels
from artix.compiler.argument_types import examples_for, parameter_types
from artix.compiler.batch_axes import Axes, groups_of, levels_of, merged
from artix.compiler.compilation import has_parts, only_moves_data, scalars_of
from artix.compiler.operation import program_p
from artix.compiler.program import Program
from artix.compiler.scalar_builder import TooManyOperations
from artix.compiler.scalar_order import depth_first, live
from artix.compiler.scalar_program import Op, ScalarProgram, UnsupportedOperation, array_operand

_LEVELS = ("for all robots", "a robot", "an item of a robot")


@dataclasses.dataclass(frozen=True)
class OperationCost:
    """The cost of one operation of a batched function.

    Attributes:
      name: what it computes.
      operations: scalar operations once for all robots, per robot, and per item of each robot:
        tangents at a point, or a batch whose items share the robot.
      kinds: number of operations of each kind, most frequent first.
      alive: largest number of scalars alive at once; those that exceed the vector registers are
        spilled to memory.
      bytes_read: bytes of operands read per robot [B].
      bytes_written: bytes of results written per robot [B].
      lanes: number of robots per vector register of this machine.
      refusal: why XLA evaluates it; ``None`` if a kernel does.
      until_done: how many of the operations are in loops whose number of iterations is data. Each
        is counted once, but computed in every iteration, until all robots of a vector are done.

    Examples:
      >>> (cost,) = artix.explain(
      ...     artix.gravity_compensation, artix.robots.load("double_pendulum")
      ... ).operations
      >>> # two numbers a robot
      >>> print(cost.name, cost.refusal is None, cost.bytes_written in (8, 16))
      gravity_compensation True True
    """

    name: str
    operations: tuple[int, int, int]
    kinds: dict[str, int]
    alive: int
    bytes_read: int
    bytes_written: int
    lanes: int
    refusal: str | None = None
    until_done: int = 0

    def __str__(self) -> str:
        if self.refusal is not None:
            return f"{self.name}: by XLA, no kernel: {self.refusal}"
        counts = ", ".join(
            f"{n:,} {place}" for n, place in zip(self.operations, _LEVELS, strict=True) if n
        )
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.items())
        repeated = (
            f"  until done: {self.until_done:,} of these, counted once\n" if self.until_done else ""
        )
        return (
            f"{self.name}: one kernel, {self.lanes} robots at a time\n"
            f"  operations: {counts or 'none'}\n"
            f"{repeated}"
            f"  of these: {kinds or 'none'}\n"
            f"  scalars alive at once: {self.alive:,}\n"
            f"  bytes of a robot: {self.bytes_read:,} read, {self.bytes_written:,} written"
        )


@dataclasses.dataclass(frozen=True)
class Explanation:
    """How a batch of a function is evaluated: ``print`` it.

    Attributes:
      operations: artix's operations in order of evaluation; XLA evaluates everything in between.
      first_call: estimated processor time of artix's part of a first call [s]: to trace and count,
        as measured, and to compile each operation, as a short program takes on this machine. What
        this process has traced before takes nothing again, and what is on disk is not compiled.
        What XLA compiles is not in it: minutes for large programs.

    Examples:
      >>> explanation = artix.explain(artix.mass_matrix, artix.robots.load("arm7"))
      >>> print([operation.name for operation in explanation.operations])
      ['mass_matrix']
    """

    operations: tuple[OperationCost, ...]
    first_call: float = dataclasses.field(default=0.0, compare=False)

    def __str__(self) -> str:
        if not self.operations:
            return "no operation of artix"
        by_xla = any(operation.refusal is not None for operation in self.operations)
        rest = ", and what XLA takes to compile the rest" if by_xla else ""
        first_call = (
            f"first call: about {self.first_call:.1g} s of processor time{rest}, unless its "
            "kernels are on disk"
        )
        return "\n".join([*map(str, self.operations), first_call])


def explain(function: Callable[..., Any], *arguments: Any) -> Explanation:
    """The cost, per robot, of ``jax.jit(jax.vmap(function))``.

    Nothing is compiled or run. The run time of a kernel is proportional to its operations or, if
    its results are large, to the bytes it writes.

    Args:
      function: a function of artix, or one that calls functions of artix (such as their
        ``jax.grad``).
      arguments: examples of its arguments, for one robot; names, whole numbers and bools are
        static. If the first one is an articulation or a scene, its parameters count as known, as
        if the function closed over them, and required arguments may be omitted that have one of
        artix's names: ``state``, ``force``, ``acceleration``, ``right``, ``external_force``,
        ``control`` and ``dt``; for a scene ``states``, ``controls`` and ``dt``. Articulations
        elsewhere are operands, other ones for each robot.

    Returns:
      The cost of each operation.

    Raises:
      ValueError: an argument without a default example is missing.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> (bias,) = artix.explain(artix.bias_force, arm).operations
      >>> (matrix,) = artix.explain(artix.mass_matrix, arm).operations
      >>> # 49 numbers beside 7
      >>> print(sum(bias.operations) > 0, matrix.bytes_written // bias.bytes_written)
      True 7
      >>> slope = jax.grad(lambda state: artix.kinetic_energy(arm, state))
      >>> print(len(artix.explain(slope, artix.neutral_state(arm)).operations))
      2
    """
    known = arguments[:1] if {*map(type, arguments[:1])} <= {*parameter_types()} else ()
    rest = [*arguments[len(known) :]]
    if known:
        rest += _examples(function, known[0], len(rest))
    leaves, structure = jax.tree.flatten(rest)
    is_static = [isinstance(leaf, str | bool | int | np.bool_ | np.integer) for leaf in leaves]
    arrays = [
        jnp.stack([jnp.asarray(x)] * 2)
        for x, static in zip(leaves, is_static, strict=True)
        if not static
    ]

    def of_one(values: list[Any]) -> Any:
        entries = iter(values)
        merged = [
            x if static else next(entries) for x, static in zip(leaves, is_static, strict=True)
        ]
        return function(*known, *jax.tree.unflatten(structure, merged))

    of_operation = 0.0 if kernels.available() else kernels.seconds_per_operation()
    start = time.process_time()
    jaxpr = jax.make_jaxpr(jax.vmap(of_one, axis_size=2))(arrays)
    costs = [_cost(program, axes) for program, axes in _operations(jaxpr.jaxpr)]
    counted = time.process_time() - start
    compiled = of_operation * sum(size for _, size in costs)
    return Explanation(tuple(cost for cost, _ in costs), counted + compiled)


def cost_of(scalars: ScalarProgram, name: str, lanes: int) -> OperationCost:
    """The cost of a scalar program."""
    real = scalars.operations > Op.CONSTANT
    times = scalars.repetitions[real]
    first, second, third = np.bincount(scalars.levels[real], times, 3).astype(int).tolist()
    kinds = Counter[str]()
    for op in np.unique(scalars.operations[real]):
        kinds[Op(op).name.lower()] = int(times[scalars.operations[real] == op].sum())
    read = sum(
        _entries_read(scalars, number) * np.dtype(dtype).itemsize
        for number, (_, dtype, level) in enumerate(scalars.arguments)
        if level
    )
    written = sum(
        result.size * np.dtype(dtype).itemsize
        for result, dtype in zip(scalars.results, scalars.result_types, strict=True)
    )
    has_condition = [
        any(scalars.loops[number].has_condition for number in nest) for nest in scalars.nests
    ]
    return OperationCost(
        name=name,
        operations=(first, second, third),
        kinds=dict(kinds.most_common()),
        alive=live(scalars),
        bytes_read=read,
        bytes_written=written,
        lanes=lanes,
        until_done=int(times[np.array(has_condition)[scalars.stages[real]]].sum()),
    )


def _entries_read(scalars: ScalarProgram, argument: int) -> int:
    """How many entries of an argument are read: all if one is needed, those loaded by index, or
    none.
    """
    if np.any((scalars.operations == Op.INPUT) & (scalars.operands[:, 0] == argument)):
        return int(np.prod(scalars.arguments[argument][0]))
    loads = (scalars.operations == Op.LOAD) & (scalars.operands[:, 1] == array_operand(argument))
    return int(scalars.repetitions[loads].sum())


def _cost(program: Program, axes: Axes) -> tuple[OperationCost, int]:
    """The cost of a program, and how many operations a kernel has to be written for."""
    levels = levels_of(merged(groups_of(axes, program.num_operand_values, 1)), len(program.traced))
    try:
        if not program.has_kernel:
            raise UnsupportedOperation("kernels are switched off")
        if has_parts(program):
            raise UnsupportedOperation("its parts repeat, and have kernels of their own")
        scalars = scalars_of(program, levels)
    except (UnsupportedOperation, TooManyOperations) as refusal:
        return OperationCost(program.name, (0, 0, 0), {}, 0, 0, 0, 0, str(refusal)), 0
    missing = kernels.available()
    if missing is not None:
        return OperationCost(program.name, (0, 0, 0), {}, 0, 0, 0, 0, missing), 0
    if only_moves_data(program, scalars):
        return OperationCost(program.name, (0, 0, 0), {}, 0, 0, 0, 0, "it only moves numbers"), 0
    return cost_of(depth_first(scalars), program.name, kernels.lanes_of(scalars)), scalars.size


def _operations(jaxpr: Any) -> Iterator[tuple[Program, Axes]]:
    for equation in jaxpr.eqns:
        if equation.primitive is program_p:
            program = equation.params["program"]
            yield program, equation.params["axes"]
            if has_parts(program):
                yield from _operations(program.jaxpr.jaxpr)
        for parameter in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr")
        ):
            inner = getattr(parameter, "jaxpr", parameter)
            if hasattr(inner, "eqns"):
                yield from _operations(inner)


def _examples(function: Callable[..., Any], parameters: Any, num_arguments: int) -> list[Any]:
    """Examples of the required arguments of a function after its parameters and these many
    others.
    """
    defaults = examples_for(parameters)
    examples = []
    for parameter in list(inspect.signature(function).parameters.values())[1 + num_arguments :]:
        if parameter.default is not parameter.empty or parameter.kind not in (
            parameter.POSITIONAL_ONLY,
            parameter.POSITIONAL_OR_KEYWORD,
        ):
            break
        if parameter.name not in defaults:
            raise ValueError(
                f"explain: give an example of the argument {parameter.name!r} of {function}"
            )
        examples.append(defaults[parameter.name]())
    return examples
