"""A traced program, evaluated with a batch as the last axis of its arrays.

``jax.vmap`` puts the batch first as soon as an operation cares where it is. Compiled loops then run over the few
links, components or matrix entries behind it: over up to some 20 LLVM unrolls them and leaves them scalar. Here the
batch stays last, and every loop runs over neighbouring numbers of as many lanes.

An operation without a rule of its own is evaluated by ``jax.vmap``, with the batch last before and after it: as right,
but perhaps slower.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

from artix.constants import is_known
from artix.devices import scan, varying_alike
from artix.spatial import sum_of_products

Array = jax.Array


class Value(NamedTuple):
    """An array of a program."""

    array: Any
    batched: bool
    """Whether it has one axis more than in the program, the last, for the batch."""

    @property
    def ndim(self) -> int:
        """Its axes in the program."""
        return np.ndim(self.array) - self.batched


class Operation(NamedTuple):
    """One of a program's operations and what it gets; at least one operand is batched."""

    equation: JaxprEqn
    operands: list[Value]
    size: int
    """Of the batch."""

    @property
    def params(self) -> dict[str, Any]:
        """What is static about it."""
        return self.equation.params

    @property
    def first(self) -> Any:
        """The array of the first operand."""
        return self.operands[0].array


Rule = Callable[[Operation], "list[Any] | None"]
"""The results of an operation, all batched, or ``None`` where the rule does not apply."""


def evaluate(program: ClosedJaxpr, arguments: Iterable[Value], size: int) -> list[Value]:
    """The results of a program."""
    jaxpr = program.jaxpr
    values: dict[Any, Value] = {
        variable: Value(constant, False) for variable, constant in zip(jaxpr.constvars, program.consts, strict=True)
    }
    values |= zip(jaxpr.invars, arguments, strict=True)

    def read(variable: Any) -> Value:
        if isinstance(variable, Literal):
            return Value(np.asarray(variable.val, variable.aval.dtype), False)  # type: ignore[attr-defined]
        return values[variable]

    for equation in jaxpr.eqns:
        results = _results(Operation(equation, [*map(read, equation.invars)], size))
        values |= zip(equation.outvars, results, strict=True)
    return [read(variable) for variable in jaxpr.outvars]


def widened(value: Value, size: int) -> Array:
    """An array with the batch's axis, whether the batch matters for it or not."""
    if value.batched:
        return value.array
    array = jnp.asarray(value.array)
    return jnp.broadcast_to(array[..., None], (*array.shape, size))


def _results(operation: Operation) -> list[Value]:
    name, operands = operation.equation.primitive.name, operation.operands
    called = _CALLS.get(name)
    if called is not None:
        return evaluate(*called(operation), operation.size)
    if name == "optimization_barrier":  # What is known stays known.
        return _held(operands)
    if not any(operand.batched for operand in operands):
        return [Value(result, False) for result in _bound(operation, *(operand.array for operand in operands))]
    results = _RULES.get(name, _by_vmap)(operation)
    return [Value(result, True) for result in (_by_vmap(operation) if results is None else results)]


def _bound(operation: Operation, *arrays: Any) -> list[Any]:
    """The results of the operation itself."""
    primitive = operation.equation.primitive
    found = primitive.bind(*varying_alike(arrays), **operation.params)
    return list(found) if primitive.multiple_results else [found]


def _by_vmap(operation: Operation) -> list[Any]:
    axes = tuple(-1 if operand.batched else None for operand in operation.operands)
    arrays = (operand.array for operand in operation.operands)
    return jax.vmap(functools.partial(_bound, operation), axes, -1)(*arrays)


# --- programs within programs ---------------------------------------------------------------------------------------


def _solve_of_linear_solve(operation: Operation) -> tuple[ClosedJaxpr, list[Value]]:
    """A solution takes the constants of the function that solves, and the right sides."""
    lengths, operands = operation.params["const_lengths"], operation.operands
    first = lengths.matvec + lengths.vecmat
    constants = operands[first : first + lengths.solve]
    return operation.params["jaxprs"].solve, [*constants, *operands[sum(lengths) :]]


_CALLS: dict[str, Callable[[Operation], tuple[ClosedJaxpr, list[Value]]]] = {
    "jit": lambda operation: (operation.params["jaxpr"], operation.operands),
    "pjit": lambda operation: (operation.params["jaxpr"], operation.operands),
    "custom_jvp_call": lambda operation: (operation.params["call_jaxpr"], operation.operands),
    "custom_vmap_call": lambda operation: (operation.params["call"], operation.operands),
    "custom_linear_solve": _solve_of_linear_solve,
}


def _scan(operation: Operation) -> list[Any]:
    """A loop whose carry is batched, whether it starts so or not."""
    params, equation, size = operation.params, operation.equation, operation.size
    body = params["jaxpr"]
    # What it goes through and what it stacks has an axis more outside; versions of JAX name their numbers differently.
    num_items = _number_of_deeper(equation.invars, body.jaxpr.invars)
    num_carried = len(equation.outvars) - _number_of_deeper(equation.outvars, body.jaxpr.outvars)
    first, end = len(equation.invars) - num_items - num_carried, len(equation.invars) - num_items
    constants, start, items = operation.operands[:first], operation.operands[first:end], operation.operands[end:]

    def once(carry: list[Array], arrays: list[Array]) -> tuple[list[Array], list[Array]]:
        now = [Value(array, True) for array in carry]
        rows = [Value(array, item.batched) for array, item in zip(arrays, items, strict=True)]
        found = [widened(value, size) for value in evaluate(body, [*constants, *now, *rows], size)]
        return found[:num_carried], found[num_carried:]

    started, rows = [widened(value, size) for value in start], [item.array for item in items]
    started = varying_alike(started, [constant.array for constant in constants])
    carry, stacked = scan(once, started, rows, params["length"], params["reverse"], params["unroll"])
    return [*carry, *stacked]


def _derivative(operation: Operation) -> list[Any] | None:
    """A function within the function that was differentiated; see :mod:`artix.derivative_programs`."""
    derivative = operation.params["derivative"]
    if derivative.mapped:
        return None
    found = evaluate(derivative.program, operation.operands, operation.size)
    return [widened(value, operation.size) for value in found]


def _number_of_deeper(outside: Sequence[Any], inside: Sequence[Any]) -> int:
    """How many variables have more axes outside a loop than inside."""
    return sum(len(a.aval.shape) > len(b.aval.shape) for a, b in zip(outside, inside, strict=True))


# --- operations -----------------------------------------------------------------------------------------------------


def _held(operands: list[Value]) -> list[Value]:
    """Behind an optimisation barrier, but for what does not depend on the batch."""
    held = iter(lax.optimization_barrier(tuple(operand.array for operand in operands if operand.batched)))
    return [Value(next(held), True) if operand.batched else operand for operand in operands]


def _elementwise(operation: Operation) -> list[Any]:
    rank = max(operand.ndim for operand in operation.operands)

    def aligned(operand: Value) -> Any:
        if operand.batched or 0 == operand.ndim < rank:  # Where the program has a number beside arrays, so may this.
            return operand.array
        return jnp.asarray(operand.array)[..., None]

    arrays = [aligned(operand) for operand in operation.operands]
    shape = jnp.broadcast_shapes(*(np.shape(array) for array in arrays))
    return _bound(operation, *(jnp.broadcast_to(array, shape) if np.ndim(array) else array for array in arrays))


def _of_all(operation: Operation) -> list[Any]:
    """By axes that count from the front: the operation itself, of all operands with the batch's axis."""
    return _bound(operation, *(widened(operand, operation.size) for operand in operation.operands))


def _broadcast_in_dim(operation: Operation) -> list[Any]:
    shape, axes = operation.params["shape"], operation.params["broadcast_dimensions"]
    return [lax.broadcast_in_dim(operation.first, (*shape, operation.size), (*axes, len(shape)))]


def _reshape(operation: Operation) -> list[Any]:
    return [lax.reshape(operation.first, (*operation.params["new_sizes"], operation.size))]


def _transpose(operation: Operation) -> list[Any]:
    order = operation.params["permutation"]
    return [lax.transpose(operation.first, (*order, len(order)))]


def _slice(operation: Operation) -> list[Any]:
    params, strides = operation.params, operation.params["strides"]
    begin, end = (*params["start_indices"], 0), (*params["limit_indices"], operation.size)
    return [lax.slice(operation.first, begin, end, None if strides is None else (*strides, 1))]


def _pad(operation: Operation) -> list[Any] | None:
    padding = operation.operands[1]
    if padding.batched:
        return None
    return [lax.pad(operation.first, padding.array, (*operation.params["padding_config"], (0, 0, 0)))]


def _gather(operation: Operation) -> list[Any] | None:
    operand, indices = operation.operands
    if indices.batched:
        return None
    numbers, sizes = operation.params["dimension_numbers"], operation.params["slice_sizes"]
    rank = np.ndim(indices.array) - 1 + len(numbers.offset_dims)
    numbers = numbers._replace(offset_dims=(*numbers.offset_dims, rank))
    return [
        lax.gather(
            operand.array,
            jnp.asarray(indices.array),
            numbers,
            (*sizes, operation.size),
            mode=operation.params["mode"],
            fill_value=operation.params["fill_value"],
        )
    ]


def _dynamic_slice(operation: Operation) -> list[Any] | None:
    operand, *indices = operation.operands
    if not operand.batched or any(index.batched for index in indices):
        return None
    begin = [*(index.array for index in indices), 0]
    return [lax.dynamic_slice(operand.array, begin, (*operation.params["slice_sizes"], operation.size))]


def _dot_general(operation: Operation) -> list[Any] | None:
    """A sum of products, elementwise over the lanes, for which it is as fast as a matrix product and needs no turning.

    Matrix products of such arrays transpose them before and after: inverse dynamics of a quadruped took 0.42 instead of
    0.25 us. So does a reduction, for which XLA writes down what it reduces (3.4 us).
    """
    contracted, shared = operation.params["dimension_numbers"]
    if len(contracted[0]) != 1:
        return None
    sides = list(zip(operation.operands, contracted, shared, strict=True))
    left, right = (_canonical(*side) for side in sides)
    if not shared[0]:
        found = _times_known(left, sides[1])
        if found is None and (found := _times_known(right, sides[0])) is not None:
            found = jnp.moveaxis(found, -2, 0)
        if found is not None:
            return [found]
    first, own_of_left, own_of_right = len(shared[0]), *(side[0].ndim - len(shared[0]) - 1 for side in sides)
    axis = first + own_of_left + own_of_right
    left = lax.expand_dims(left, range(first + own_of_left, axis))
    right = lax.expand_dims(right, range(first, first + own_of_left))
    return [lax.optimization_barrier(sum_of_products(left, right, axis=axis))] if left.shape[axis] else None


def _canonical(operand: Value, contracted: Sequence[int], shared: Sequence[int]) -> Any:
    """With the shared axes first, then its own, then the contracted one; of length one along a batch it has not."""
    array = operand.array if operand.batched else jnp.asarray(operand.array)[..., None]
    own = [axis for axis in range(operand.ndim) if axis not in contracted and axis not in shared]
    return lax.transpose(array, (*shared, *own, *contracted, operand.ndim))


def _times_known(x: Array, side: tuple[Value, Sequence[int], Sequence[int]]) -> Array | None:
    """The product of arrays [..., n, lanes] and a known matrix, along its contracted axis; ``None`` unless it pays."""
    operand, (contracted,), _ = side
    if operand.batched or operand.ndim != 2 or not is_known(operand.array):
        return None
    return _sparse_sum(x, np.moveaxis(np.asarray(operand.array), contracted, 0))


def _sparse_sum(x: Array, matrix: np.ndarray) -> Array | None:
    """The product of arrays [..., n, lanes] and a known matrix [n, m], where few of its entries are not zero."""
    terms = int(np.max(np.count_nonzero(matrix, axis=0), initial=0))
    if terms == 0 or 3 * terms > len(matrix):  # A gathered term takes three times as long as one of a dense product.
        return None
    places = np.argsort(matrix == 0, axis=0, kind="stable")[:terms]
    weights = np.take_along_axis(matrix, places, axis=0)
    if terms > 1:
        x = lax.optimization_barrier(x)
    found = [x.at[..., row, :].get(mode="promise_in_bounds") for row in places]
    found = [
        term if np.all(weight == 1) else term * weight[:, None] for term, weight in zip(found, weights, strict=True)
    ]
    return lax.optimization_barrier(functools.reduce(lax.add, found)) if terms > 1 else found[0]


_ELEMENTWISE = """
    abs add add_any and atan2 ceil convert_element_type copy cos div eq exp expm1 floor ge gt integer_pow is_finite le
    log log1p lt max min mul ne neg not or pow rem round rsqrt select_n sign sin sqrt square stop_gradient sub tan tanh
    xor
"""
_OF_ALL = """
    argmax argmin concatenate cumsum reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum rev split squeeze
    stack unstack
"""
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    **dict.fromkeys(_OF_ALL.split(), _of_all),
    "artix_derivative": _derivative,
    "broadcast_in_dim": _broadcast_in_dim,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "pad": _pad,
    "reshape": _reshape,
    "scan": _scan,
    "slice": _slice,
    "transpose": _transpose,
}
