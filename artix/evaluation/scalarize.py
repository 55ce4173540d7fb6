"""Makes a scalar program of the traced program of one robot, by evaluating it on references to scalars."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from artix.evaluation.array_rules import Rule, symbolic_rule
from artix.evaluation.known_arrays import Numeric, numeric_rule
from artix.evaluation.scalar_builder import (
    ScalarBuilder,
    TooManyOperations,
    UnsupportedOperation,
    Value,
    kind_of,
)
from artix.evaluation.scalar_choices import compare, select
from artix.evaluation.scalar_order import finished
from artix.evaluation.scalar_program import Kind, Op, ScalarProgram

#: Loops whose ends are known go round so often at most.
_MOST_ROUNDS = 10_000


def scalarize(
    program: ClosedJaxpr,
    levels: Sequence[int],
    known: Mapping[int, np.ndarray],
    *,
    most_operations: int = 150_000,
) -> ScalarProgram:
    """The scalar program of a program of arrays, without what is known, vanishes or is computed twice.

    Zero times anything is zero and ``x - x`` is zero, even if ``x`` is not finite.

    Args:
      program: a traced function of one robot.
      levels: the level of each of its arguments.
      known: the values of the arguments that are known, by their numbers. The scalar program has only the others.
      most_operations: how many scalars there may be, those included that turn out not to be needed.

    Raises:
      UnsupportedOperation: if there is no rule for one of its operations.
      TooManyOperations: if there are more scalars.
    """
    builder = ScalarBuilder(most_operations)
    values: list[Value] = []
    arguments: list[tuple[tuple[int, ...], np.dtype, int]] = []
    for number, (aval, level) in enumerate(zip(program.in_avals, levels, strict=True)):
        if number in known:
            values.append(np.asarray(known[number], aval.dtype))
            continue
        kind, size = kind_of(aval.dtype), int(np.prod(aval.shape, dtype=int))
        values.append([builder.make(kind, Op.INPUT, len(arguments), entry) for entry in range(size)])
        arguments.append((aval.shape, np.dtype(aval.dtype), level))
    with np.errstate(all="ignore"), _no_collections():
        results = _Evaluator(builder).call(program, values)
        outputs = zip(results, program.out_avals, strict=True)
        references = [builder.references(value, kind_of(aval.dtype)) for value, aval in outputs]
        types = [(aval.shape, np.dtype(aval.dtype)) for aval in program.out_avals]
        return finished(builder, arguments, references, types)


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Without searches for cycles, of which scalars make none: they take a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Step:
    """One equation of a program: rules for known and unknown arguments, which are found when they are needed."""

    __slots__ = ("equation", "inputs", "numeric", "outputs", "symbolic")

    def __init__(self, equation: Any, inputs: list[int], outputs: list[int]) -> None:
        self.equation, self.inputs, self.outputs = equation, inputs, outputs
        self.numeric: Numeric | None = None
        self.symbolic: Rule | None = None


class _Plan(NamedTuple):
    """A program whose variables have numbers."""

    values: list[Any]
    """Of all variables, constants filled in."""
    inputs: list[int]
    steps: list[_Step]
    results: list[int]
    program: Any
    """Kept, so that no other program gets its identity."""


def _plan(jaxpr: Any, constants: Sequence[Any]) -> _Plan:
    values: list[Any] = []
    numbers: dict[Any, int] = {}

    def number_of(variable: Any) -> int:
        if isinstance(variable, Literal):
            values.append(np.asarray(variable.val, variable.aval.dtype))  # type: ignore[attr-defined]
            return len(values) - 1
        number = numbers.get(variable)
        if number is None:
            number = numbers[variable] = len(values)
            values.append(None)
        return number

    for variable, constant in zip(jaxpr.constvars, constants, strict=True):
        values[number_of(variable)] = np.asarray(constant)
    inputs = [number_of(variable) for variable in jaxpr.invars]
    steps = [
        _Step(equation, [number_of(x) for x in equation.invars], [number_of(x) for x in equation.outvars])
        for equation in jaxpr.eqns
    ]
    return _Plan(values, inputs, steps, [number_of(variable) for variable in jaxpr.outvars], jaxpr)


class _Evaluator:
    """Evaluates programs on arrays of references."""

    def __init__(self, builder: ScalarBuilder) -> None:
        self.builder = builder
        self._plans: dict[tuple[int, ...], _Plan] = {}

    def call(self, closed: Any, arguments: Sequence[Value]) -> list[Value]:
        """Results of a program."""
        return self.evaluate(closed.jaxpr, closed.consts, arguments)

    def evaluate(self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Value]) -> list[Value]:
        """Results of a program, whose constants are given."""
        key = id(jaxpr), *map(id, constants)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _plan(jaxpr, constants)
        values = plan.values.copy()
        for number, argument in zip(plan.inputs, arguments, strict=True):
            values[number] = argument
        for step in plan.steps:
            found = self._evaluate_step(step, [values[number] for number in step.inputs])
            for number, value in zip(step.outputs, found, strict=True):
                values[number] = value
        return [values[number] for number in plan.results]

    def _evaluate_step(self, step: _Step, arguments: list[Value]) -> Sequence[Value]:
        equation = step.equation
        control = _CONTROL.get(equation.primitive.name)
        if control is not None:
            return control(self, equation, arguments)
        for argument in arguments:
            if type(argument) is not np.ndarray:
                break
        else:
            if step.numeric is None:
                step.numeric = numeric_rule(equation.primitive, equation.params)
            return [x if type(x) is np.ndarray else np.asarray(x) for x in step.numeric(arguments)]  # type: ignore[arg-type]
        if step.symbolic is None:
            step.symbolic = symbolic_rule(equation)
        found = step.symbolic(self.builder, arguments)
        self.builder.check_size()
        return found


Control: TypeAlias = Callable[[_Evaluator, Any, list[Value]], Sequence[Value]]
"""Evaluates an equation that has programs in it."""


def _program(evaluator: _Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    """A function of artix, evaluated as one operation."""
    program = equation.params["program"]
    if equation.params["axes"]:
        raise UnsupportedOperation("a batch within a program")
    given: dict[int, Value] = dict(zip(program.traced, arguments, strict=True)) | program.known
    return evaluator.call(program.jaxpr, [given[place] for place in range(len(given))])


def _called(evaluator: _Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    """A call of a program, closed or open; its parameter has had several names."""
    names = ("jaxpr", "call_jaxpr", "fun_jaxpr", "call")
    program = next(equation.params[name] for name in names if name in equation.params)
    if hasattr(program, "consts"):
        return evaluator.call(program, arguments)
    return evaluator.evaluate(program, (), arguments)


def _linear_solve(evaluator: _Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    lengths = equation.params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    operands = [*arguments[first : first + lengths.solve], *arguments[sum(lengths) :]]
    return evaluator.call(equation.params["jaxprs"].solve, operands)


def _scan(evaluator: _Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    body, length = equation.params["jaxpr"], equation.params["length"]
    num_carry = len(equation.outvars) - _deeper(equation.outvars, body.jaxpr.outvars)
    num_consts = len(equation.invars) - num_carry - _deeper(equation.invars, body.jaxpr.invars)
    constants, carry = arguments[:num_consts], list(arguments[num_consts : num_consts + num_carry])
    along = arguments[num_consts + num_carry :]
    if not length and equation.outvars[num_carry:]:
        raise UnsupportedOperation("scan over nothing")
    rounds = range(length - 1, -1, -1) if equation.params["reverse"] else range(length)
    collected: list[Sequence[Value]] = []
    for position in rounds:
        found = evaluator.call(body, [*constants, *carry, *(_entry(x, position, length) for x in along)])
        carry = list(found[:num_carry])
        collected.append(found[num_carry:])
    if equation.params["reverse"]:
        collected.reverse()
    outputs = zip(zip(*collected, strict=True), equation.outvars[num_carry:], strict=True)
    return [*carry, *(_stacked(evaluator, values, variable) for values, variable in outputs)]


def _deeper(outer: Sequence[Any], inner: Sequence[Any]) -> int:
    """How many variables have an axis more outside of a loop than inside."""
    return sum(len(x.aval.shape) > len(y.aval.shape) for x, y in zip(outer, inner, strict=True))


def _entry(value: Value, position: int, length: int) -> Value:
    if type(value) is np.ndarray:
        return np.asarray(value[position])
    size = len(value) // length
    return value[position * size : (position + 1) * size]


def _stacked(evaluator: _Evaluator, values: Sequence[Value], variable: Any) -> Value:
    if all(type(x) is np.ndarray for x in values):
        return np.stack(values)
    kind = kind_of(variable.aval.dtype)
    return [x for value in values for x in evaluator.builder.references(value, kind)]


def _while(evaluator: _Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    parameters = equation.params
    of_condition, of_body = parameters["cond_nconsts"], parameters["body_nconsts"]
    constants, carry = arguments[of_condition : of_condition + of_body], arguments[of_condition + of_body :]
    for _ in range(_MOST_ROUNDS):
        (more,) = evaluator.call(parameters["cond_jaxpr"], [*arguments[:of_condition], *carry])
        if type(more) is not np.ndarray:
            raise UnsupportedOperation("while, whose end is not known")
        if not more:
            return carry
        carry = evaluator.call(parameters["body_jaxpr"], [*constants, *carry])
    raise TooManyOperations(f"more than {_MOST_ROUNDS:,} rounds of a loop")


def _cond(evaluator: _Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    index, *operands = arguments
    branches = equation.params["branches"]
    if type(index) is np.ndarray:
        return evaluator.call(branches[min(max(int(index), 0), len(branches) - 1)], operands)
    builder, kind = evaluator.builder, kind_of(equation.invars[0].aval.dtype)
    results = [evaluator.call(branch, operands) for branch in branches]
    chosen = list(results[-1])
    for number in range(len(branches) - 2, -1, -1):
        if kind == Kind.BOOL:
            first = compare(builder, kind, Op.EQ, index[0], builder.constant(0, kind))
        else:
            first = compare(builder, kind, Op.LE, index[0], builder.constant(number, kind))
        for position, variable in enumerate(equation.outvars):
            of_result = kind_of(variable.aval.dtype)
            pairs = zip(*(builder.references(x[position], of_result) for x in (results[number], chosen)), strict=True)
            found = [select(builder, of_result, first, *pair) for pair in pairs]
            chosen[position] = builder.settled(found, variable.aval.shape, variable.aval.dtype)
    return chosen


def _platform_index(_: _Evaluator, equation: Any, __: list[Value]) -> Sequence[Value]:
    """The branch that is for all platforms; the same scalars serve all."""
    platforms = equation.params["platforms"]
    if None not in platforms:
        raise UnsupportedOperation("platform_index without a default")
    return [np.asarray(platforms.index(None), np.int32)]


_CALLS = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "remat",
    "remat2",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
    "custom_vmap_call",
)

_CONTROL: dict[str, Control] = {
    **dict.fromkeys(_CALLS, _called),
    "artix_program": _program,
    "custom_linear_solve": _linear_solve,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "platform_index": _platform_index,
}
