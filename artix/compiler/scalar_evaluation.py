"""Evaluates traced programs on references to scalars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jax.extend.core import Literal

from artix.compiler.array_rules import Rule, symbolic_rule
from artix.compiler.jax_internals import scan_counts
from artix.compiler.known_arrays import Numeric, numeric_rule
from artix.compiler.scalar_builder import (
    FALSE,
    TRUE,
    LargeArgument,
    ScalarBuilder,
    TooManyOperations,
    Value,
)
from artix.compiler.scalar_functions import compare, logical, negation, select
from artix.compiler.scalar_loops import Loops, entry_of_iteration
from artix.compiler.scalar_program import Kind, Op, UnsupportedOperation, kind_of

#: Largest number of iterations of a ``while`` loop, which is unrolled.
_MAX_ITERATIONS = 10_000

#: Loops of more scalars than this are not unrolled if they carry all that they compute. Unrolled,
#: 30,000 scalars take about a second of a first call. Kept, loops of four iterations and 20,000
#: scalars run up to 1.1 times as long, because nothing can be computed across their ends (as late
#: as possible is no better than as early); long ones run 0.7 to 1.05 times as long (humanoid and
#: quadruped, AVX-512, November 2026).
_MAX_UNROLLED = 30_000

#: Larger arrays are not compared, and operations whose results are larger not remembered.
_MAX_REMEMBERED = 1_000


class _Operation:
    """An operation on arrays of certain types: many equations of a program are the same one.

    Its rules are looked up on first use, and what it has computed is remembered.
    """

    __slots__ = ("control", "equation", "is_loop", "numeric", "results", "symbolic")

    def __init__(self, equation: Any) -> None:
        self.equation = equation
        self.control = _CONTROL.get(equation.primitive.name)
        self.is_loop = equation.primitive.name in _LOOPS
        self.numeric: Numeric | None = None
        self.symbolic: Rule | None = None
        self.results: dict[tuple[int, ...], tuple[Sequence[Value], Sequence[Value]]] = {}
        """By the identities of arguments, the results, and the arguments, which this keeps alive.
        """


class _Plan(NamedTuple):
    """A program whose variables are numbered."""

    values: list[Any]
    """Values of all variables; only those of constants are set."""
    inputs: list[int]
    steps: list[tuple[_Operation, list[int], list[int]]]
    """Operations with the numbers of their arguments and results."""
    results: list[int]
    program: Any
    """Kept alive, since plans are looked up by its ``id``."""
    known: dict[tuple[int, ...], tuple[list[Value], Sequence[Value]]]
    """What it has computed without loops, as in :class:`_Operation`."""


class Evaluator:
    """Evaluates programs on arrays of references.

    Programs compute the same again and again: in functions that do not share results, in rules for
    derivatives, in the iterations of loops and in constants. Equal arrays are one object here, and
    an operation on the same objects is evaluated once, and so is a call, which half of a step's
    operations are in.

    Args:
      builder: builds the scalars.
      has_loops: whether long loops stay loops.
      one_direction: whether derivatives are along one direction for each robot.
    """

    def __init__(self, builder: ScalarBuilder, has_loops: bool, one_direction: bool) -> None:
        self.builder, self.has_loops = builder, has_loops
        self.one_direction = one_direction
        self.loops = Loops(builder)
        self._plans: dict[tuple[int, ...], _Plan] = {}
        self._operations: dict[Any, _Operation] = {}
        self._arrays: dict[Any, Value] = {}
        self._num_loops = 0
        """How many loops have been evaluated."""

    def call(self, closed: Any, arguments: Sequence[Value]) -> list[Value]:
        """The results of a closed jaxpr."""
        return self.evaluate(closed.jaxpr, closed.consts, arguments)

    def evaluate(
        self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Value]
    ) -> list[Value]:
        """The results of a jaxpr with the given constants."""
        key = id(jaxpr), *map(id, constants)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(jaxpr, constants)
        identities = tuple(map(id, arguments))
        if (computed := plan.known.get(identities)) is not None:
            return computed[0]
        values, num_loops = plan.values.copy(), self._num_loops
        for number, argument in zip(plan.inputs, arguments, strict=True):
            values[number] = argument
        for operation, inputs, outputs in plan.steps:
            operands = [values[number] for number in inputs]
            if operation.control is not None:
                results = self._controlled(operation, operands)
            else:
                identities_of_operands = tuple(map(id, operands))
                known = operation.results.get(identities_of_operands)
                if known is None:
                    results = self._results(operation, operands)
                    if max(map(_size, results), default=0) <= _MAX_REMEMBERED:
                        operation.results[identities_of_operands] = results, operands
                else:
                    results = known[0]
            for number, value in zip(outputs, results, strict=True):
                values[number] = value
        ends = [values[number] for number in plan.results]
        # What a loop carries depends on the loop around it.
        if self._num_loops == num_loops and max(map(_size, ends), default=0) <= _MAX_REMEMBERED:
            plan.known[identities] = ends, arguments
        return ends

    def shared(self, value: Value) -> Value:
        """The first array equal to this one."""
        if type(value) is np.ndarray:
            if value.size > _MAX_REMEMBERED:
                return value
            return self._arrays.setdefault((value.tobytes(), value.shape, value.dtype), value)
        if type(value) is LargeArgument or len(value) > _MAX_REMEMBERED:
            return value
        entries = tuple(value)
        return self._arrays.setdefault(entries, entries)

    def _controlled(self, operation: _Operation, arguments: list[Value]) -> Sequence[Value]:
        assert operation.control is not None
        if not operation.is_loop:
            return operation.control(self, operation.equation, arguments)
        self._num_loops += 1
        with self.loops.evaluating():
            return operation.control(self, operation.equation, arguments)

    def _results(self, operation: _Operation, arguments: list[Value]) -> Sequence[Value]:
        equation = operation.equation
        for argument in arguments:
            if type(argument) is not np.ndarray:
                break
        else:
            if operation.numeric is None:
                operation.numeric = numeric_rule(equation.primitive, equation.params)
            return [self.shared(np.asarray(x)) for x in operation.numeric(arguments)]  # type: ignore[arg-type]
        if operation.symbolic is None:
            operation.symbolic = symbolic_rule(equation)
        results = operation.symbolic(self.builder, arguments)
        self.builder.check_size()
        return list(map(self.shared, results))

    def _plan(self, jaxpr: Any, constants: Sequence[Any]) -> _Plan:
        values: list[Any] = []
        numbers: dict[Any, int] = {}

        def number_of(variable: Any) -> int:
            if isinstance(variable, Literal):
                value = np.asarray(variable.val, variable.aval.dtype)  # type: ignore[attr-defined]
                values.append(self.shared(value))
                return len(values) - 1
            number = numbers.get(variable)
            if number is None:
                number = numbers[variable] = len(values)
                values.append(None)
            return number

        for variable, constant in zip(jaxpr.constvars, constants, strict=True):
            values[number_of(variable)] = self.shared(np.asarray(constant))
        inputs = [number_of(variable) for variable in jaxpr.invars]
        steps = [
            (
                self._operation(equation),
                [number_of(x) for x in equation.invars],
                [number_of(x) for x in equation.outvars],
            )
            for equation in jaxpr.eqns
        ]
        return _Plan(values, inputs, steps, [number_of(x) for x in jaxpr.outvars], jaxpr, {})

    def _operation(self, equation: Any) -> _Operation:
        if equation.primitive.name in _CONTROL:
            return _Operation(equation)
        key = (
            equation.primitive,
            *((x.aval.shape, x.aval.dtype) for x in equation.invars),
            *((name, type(value), value) for name, value in equation.params.items()),
        )
        try:
            operation = self._operations.get(key)
        except TypeError:  # Parameters that have no hash.
            return _Operation(equation)
        if operation is None:
            operation = self._operations[key] = _Operation(equation)
        return operation


def _size(value: Value) -> int:
    return value.size if type(value) is np.ndarray else len(value)


Carry: TypeAlias = Sequence[Value]
"""What the iterations of a loop hand on."""

Control: TypeAlias = Callable[[Evaluator, Any, list[Value]], Sequence[Value]]
"""Evaluates an equation that contains programs."""


def _program(evaluator: Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    """A function of artix, evaluated as one operation."""
    program = equation.params["program"]
    if equation.params["axes"]:
        raise UnsupportedOperation("a batch within a program")
    values: dict[int, Value] = dict(zip(program.traced, arguments, strict=True)) | program.known
    return evaluator.call(program.jaxpr, [values[index] for index in range(len(values))])


def _call(evaluator: Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    """A call of a jaxpr, closed or open; the name of the parameter depends on the primitive and
    JAX's version.
    """
    names = ("jaxpr", "call_jaxpr", "fun_jaxpr", "call")
    program = next(equation.params[name] for name in names if name in equation.params)
    if hasattr(program, "consts"):
        return evaluator.call(program, arguments)
    return evaluator.evaluate(program, (), arguments)


def _linear_map(evaluator: Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    """The cheaper of its two formulas."""
    formula = "one" if evaluator.one_direction else "many"
    return evaluator.call(equation.params[formula], arguments)


def _linear_solve(evaluator: Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    lengths = equation.params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    operands = [*arguments[first : first + lengths.solve], *arguments[sum(lengths) :]]
    return evaluator.call(equation.params["jaxprs"].solve, operands)


def _scan(evaluator: Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    body, length = equation.params["jaxpr"], equation.params["length"]
    num_consts, num_carry = scan_counts(equation)
    constants, carry = arguments[:num_consts], list(arguments[num_consts : num_consts + num_carry])
    scanned = arguments[num_consts + num_carry :]
    if not length:
        return [
            *carry,
            *(np.zeros(x.aval.shape, x.aval.dtype) for x in equation.outvars[num_carry:]),
        ]
    if evaluator.loops.was_kept(equation) and (
        kept := _kept_loop(evaluator, equation, arguments, num_consts)
    ):
        return kept
    iterations = range(length - 1, -1, -1) if equation.params["reverse"] else range(length)
    collected: list[Sequence[Value]] = []
    sizes = [evaluator.builder.size]
    for iteration in iterations:
        outputs = evaluator.call(
            body, [*constants, *carry, *(_entry(x, iteration, length) for x in scanned)]
        )
        carry = list(outputs[:num_carry])
        collected.append(outputs[num_carry:])
        sizes.append(evaluator.builder.size)
        if (
            len(sizes) == 4
        ):  # The first iteration often starts from zeros and is smaller than the others.
            growth = min(sizes[3] - sizes[2], sizes[2] - sizes[1])
            if length * growth > _MAX_UNROLLED and num_carry == len(equation.outvars):
                kept = _kept_loop(evaluator, equation, arguments, num_consts)
                if kept is not None:
                    return kept
            evaluator.builder.check_size(more=(length - 3) * growth)
    if equation.params["reverse"]:
        collected.reverse()
    stacks = zip(zip(*collected, strict=True), equation.outvars[num_carry:], strict=True)
    return [*carry, *(_stack(evaluator, values, variable) for values, variable in stacks)]


def _kept_loop(
    evaluator: Evaluator, equation: Any, arguments: Sequence[Value], num_consts: int
) -> Sequence[Value] | None:
    """The results of a loop that stays a loop; ``None`` if it cannot."""
    builder, types = evaluator.builder, [variable.aval for variable in equation.outvars]
    constants, carry = arguments[:num_consts], arguments[num_consts : num_consts + len(types)]
    scanned: list[Any] = [*arguments[num_consts + len(types) :]]
    if not evaluator.has_loops or not all(type(x) is np.ndarray for x in scanned):
        return None
    if equation.params["reverse"]:
        scanned = [x[::-1] for x in scanned]

    def body(iteration: int, values: list[Value]) -> Sequence[Value]:
        entries = (entry_of_iteration(builder, x, iteration) for x in scanned)
        return evaluator.call(equation.params["jaxpr"], [*constants, *values, *entries])

    try:
        return evaluator.loops.repeated(body, carry, types, equation.params["length"], equation)
    except UnsupportedOperation:
        return None


def _entry(value: Value, index: int, length: int) -> Value:
    if type(value) is np.ndarray:
        return np.asarray(value[index])
    size = len(value) // length
    return value[index * size : (index + 1) * size]


def _stack(evaluator: Evaluator, values: Sequence[Value], variable: Any) -> Value:
    if all(type(x) is np.ndarray for x in values):
        return np.stack(values)
    kind = kind_of(variable.aval.dtype)
    return [x for value in values for x in evaluator.builder.references(value, kind)]


def _while(evaluator: Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    """A loop whose condition is data is kept; another one is unrolled as far as that is short."""
    parameters = equation.params
    size = evaluator.builder.size
    types = [variable.aval for variable in equation.outvars]
    num_cond, num_body = parameters["cond_nconsts"], parameters["body_nconsts"]
    constants, start = arguments[num_cond : num_cond + num_body], arguments[num_cond + num_body :]

    def condition(carry: Carry) -> Value:
        values = [*arguments[:num_cond], *map(evaluator.shared, carry)]
        return evaluator.call(parameters["cond_jaxpr"], values)[0]

    def body(carry: Carry) -> list[Value]:
        values = [*constants, *map(evaluator.shared, carry)]
        return evaluator.call(parameters["body_jaxpr"], values)

    goes_on: Callable[[Carry], Value] = condition
    step: Callable[[Carry], list[Value]] = body
    num_results = len(types)
    (conditions,) = parameters["cond_jaxpr"].out_avals
    if conditions.size != 1:  # vmap has made one of many loops.
        start = [*start, condition(start)]
        goes_on, step = _until_all_end(evaluator.builder, condition, body, types)
        types = [*types, conditions]

    def kept() -> list[Value]:
        results = evaluator.loops.repeated_while(goes_on, step, start, types, equation, second)
        return results[:num_results]

    carry: Carry = start
    second: Carry | None = None
    most: float = _MAX_UNROLLED if evaluator.has_loops else math.inf
    if evaluator.loops.was_kept(equation):
        most = -1
    for _ in range(_MAX_ITERATIONS):
        continues = goes_on(carry)
        if type(continues) is not np.ndarray:
            return kept()
        if not continues:
            return carry[:num_results]
        if evaluator.builder.size - size > most:
            try:
                return kept()
            except UnsupportedOperation:
                most = math.inf
        carry = step(carry)
        second = carry if second is None else second
    raise TooManyOperations(f"more than {_MAX_ITERATIONS:,} iterations of a loop")


def _until_all_end(
    builder: ScalarBuilder,
    condition: Callable[[Carry], Value],
    body: Callable[[Carry], list[Value]],
    types: Sequence[Any],
) -> tuple[Callable[[Carry], Value], Callable[[Carry], list[Value]]]:
    """The condition and the body of a loop of many: it goes on while one of them does, and the
    others keep what they carry. Their conditions are carried last.
    """

    def goes_on(carry: Carry) -> Value:
        is_any = FALSE
        for one in builder.references(carry[-1], Kind.BOOL):
            is_any = logical(builder, Op.OR, is_any, one)
        return builder.as_value([is_any], (), np.bool_)

    def step(carry: Carry) -> list[Value]:
        *before, conditions = carry
        which = builder.references(conditions, Kind.BOOL)
        after = [
            _selected(builder, which, *values)
            for values in zip(body(before), before, types, strict=True)
        ]
        return [*after, condition(after)]

    return goes_on, step


def _selected(
    builder: ScalarBuilder, which: Sequence[int], yes: Value, no: Value, result: Any
) -> Value:
    """The parts of ``yes`` where the bools of ``which`` are true, else those of ``no``: as many
    parts as bools, along the first axes.
    """
    kind = kind_of(result.dtype)
    length = result.size // max(len(which), 1)
    pairs = zip(builder.references(yes, kind), builder.references(no, kind), strict=True)
    selected = [select(builder, kind, which[k // length], *pair) for k, pair in enumerate(pairs)]
    return builder.as_value(selected, result.shape, result.dtype)


def _cond(evaluator: Evaluator, equation: Any, arguments: list[Value]) -> Sequence[Value]:
    index, *operands = arguments
    branches = equation.params["branches"]
    if type(index) is np.ndarray:
        return evaluator.call(branches[min(max(int(index), 0), len(branches) - 1)], operands)
    builder, kind = evaluator.builder, kind_of(equation.invars[0].aval.dtype)
    last = len(branches) - 1
    if kind == Kind.BOOL:
        is_at_most = [compare(builder, kind, Op.EQ, index[0], builder.constant(0, kind))]
    else:
        is_at_most = [
            compare(builder, kind, Op.LE, index[0], builder.constant(n, kind)) for n in range(last)
        ]
    results = list[list[Value]]()
    for number, branch in enumerate(branches):
        is_more = negation(builder, is_at_most[number - 1]) if number else TRUE
        is_it = logical(builder, Op.AND, is_more, is_at_most[number]) if number < last else is_more
        with evaluator.loops.only_if(is_it):
            results.append(evaluator.call(branch, operands))
    chosen = list(results[-1])
    for number in range(last - 1, -1, -1):
        chosen = [
            _selected(builder, [is_at_most[number]], yes, no, variable.aval)
            for yes, no, variable in zip(results[number], chosen, equation.outvars, strict=True)
        ]
    return chosen


def _platform_index(_: Evaluator, equation: Any, __: list[Value]) -> Sequence[Value]:
    """Takes the default branch: scalar programs are the same on all platforms."""
    platforms = equation.params["platforms"]
    if None not in platforms:
        raise UnsupportedOperation("platform_index without a default")
    return [np.asarray(platforms.index(None), np.int32)]


_CALLS = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "eval_jaxpr",
    "remat",
    "remat2",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
    "custom_vmap_call",
)

_LOOPS = ("scan", "while")

_CONTROL: dict[str, Control] = {
    **dict.fromkeys(_CALLS, _call),
    "artix_program": _program,
    "artix_linear_map": _linear_map,
    "custom_linear_solve": _linear_solve,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "platform_index": _platform_index,
}
