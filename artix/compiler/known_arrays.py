"""Operations on arrays that are known when a program is scalarised, by NumPy, since JAX would
compile each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import RoundingMethod

from artix.compiler.array_entries import (
    MOVEMENTS,
    OUTSIDE,
    calls_function,
    dynamic_slice_numbers,
    fill_value,
    gather_numbers,
    scatter_numbers,
)

Numeric: TypeAlias = Callable[[Sequence[np.ndarray]], Sequence[Any]]
"""Computes the results of an operation from known arguments."""


def _divide(x: np.ndarray, y: np.ndarray) -> Any:
    if x.dtype.kind == "f":
        return np.divide(x, y)
    safe = np.where(y == 0, 1, y)
    quotient = x // safe
    quotient += (quotient < 0) & (quotient * safe != x)  # Towards zero.
    return np.where(y == 0, -1, quotient).astype(x.dtype)


def _remainder(x: np.ndarray, y: np.ndarray) -> Any:
    return np.fmod(x, y) if x.dtype.kind == "f" else np.where(y == 0, x, np.fmod(x, y))


def _one_minus_square(x: Any) -> Any:
    return (1 + x) * (1 - x)


def _reciprocal_root(x: Any) -> Any:
    return np.reciprocal(np.sqrt(x))


def _shifted(shift: Callable[..., Any]) -> Callable[..., Any]:
    """A logical shift of integers, of which nothing is left if it is by all their bits."""

    def rule(x: np.ndarray, number: np.ndarray) -> Any:
        width = 8 * x.dtype.itemsize
        bits = x.view(f"u{x.dtype.itemsize}")
        number = number.view(bits.dtype)
        shifted = shift(bits, np.minimum(number, width - 1))
        return np.where(number < width, shifted, 0).astype(bits.dtype).view(x.dtype)

    return rule


ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "rem": _remainder,
    "pow": np.power,
    "atan2": np.arctan2,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": _reciprocal_root,
    "cbrt": np.cbrt,
    "square": np.square,
    "one_minus_square": _one_minus_square,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "is_finite": np.isfinite,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shift_left": _shifted(np.left_shift),
    "shift_right_logical": _shifted(np.right_shift),
}
"""Operations on corresponding entries, with NumPy's broadcasting."""


REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}
"""The operation that each reduction repeats."""

CUMULATIVE = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}
"""The operation that each cumulative operation repeats."""

SCATTERS = {
    "scatter": None,
    "scatter-add": "add",
    "scatter-sub": "sub",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
}
"""The operation by which each scatter combines entries with updates; ``None`` if updates replace
them."""


def _reduce(x: np.ndarray, combine: str, axes: tuple[int, ...]) -> Any:
    options: dict[str, Any] = {}
    if combine in ("max", "min"):  # NumPy does not know the extremum of nothing.
        limits = (
            (-np.inf, np.inf)
            if x.dtype.kind == "f"
            else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        )
        options["initial"] = limits[combine == "min"]
    return ELEMENTWISE[combine].reduce(x, axis=axes, **options).astype(x.dtype)  # type: ignore[attr-defined]


def _accumulate(x: np.ndarray, combine: str, axis: int, reverse: bool) -> Any:
    x = np.flip(x, axis) if reverse else x
    accumulated = ELEMENTWISE[combine].accumulate(x, axis=axis).astype(x.dtype)  # type: ignore[attr-defined]
    return np.flip(accumulated, axis) if reverse else accumulated


def _select(arrays: Sequence[np.ndarray], _: Mapping[str, Any]) -> Any:
    which, *cases = arrays
    if len(cases) == 2:
        return np.where(which.astype(bool), cases[1], cases[0])
    return np.choose(which, cases)


def _clamp(arrays: Sequence[np.ndarray], _: Mapping[str, Any]) -> Any:
    lower, x, upper = arrays
    return np.minimum(np.maximum(x, lower), upper)


def _convert(arrays: Sequence[np.ndarray], parameters: Mapping[str, Any]) -> Any:
    x, dtype = arrays[0], np.dtype(parameters["new_dtype"])
    converted = x.astype(dtype)
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return converted
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max  # XLA's conversion saturates.
    return np.select(
        [np.isnan(x), x >= most, x <= least], [np.zeros_like(converted), most, least], converted
    )


def _iota(_: Sequence[np.ndarray], parameters: Mapping[str, Any]) -> Any:
    shape, dimension = parameters["shape"], parameters["dimension"]
    along = [1] * len(shape)
    along[dimension] = shape[dimension]
    return np.broadcast_to(
        np.arange(shape[dimension], dtype=parameters["dtype"]).reshape(along), shape
    )


def _round(arrays: Sequence[np.ndarray], parameters: Mapping[str, Any]) -> Any:
    (x,) = arrays
    if parameters["rounding_method"] == RoundingMethod.TO_NEAREST_EVEN:
        return np.round(x)
    down = np.floor(np.abs(x))
    return np.copysign(down + (np.abs(x) - down >= 0.5), x)


def _integer_pow(arrays: Sequence[np.ndarray], parameters: Mapping[str, Any]) -> Any:
    return (arrays[0] ** parameters["y"]).astype(arrays[0].dtype)


def _dot_general(arrays: Sequence[np.ndarray], parameters: Mapping[str, Any]) -> Any:
    x, y = arrays
    a, b, shape = dot_operands(x, y, parameters["dimension_numbers"])
    dtype = parameters.get("preferred_element_type")
    return np.matmul(a, b).reshape(shape).astype(dtype or arrays[0].dtype)


def dot_operands(a: Any, b: Any, dimension_numbers: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """The operands of ``dot_general`` as [batch, m, k] and [batch, k, n], and the shape of the
    product.
    """
    (left_sum, right_sum), (left_batch, right_batch) = dimension_numbers
    left_free = [axis for axis in range(a.ndim) if axis not in (*left_sum, *left_batch)]
    right_free = [axis for axis in range(b.ndim) if axis not in (*right_sum, *right_batch)]
    batch = tuple(a.shape[axis] for axis in left_batch)
    rows, columns = (
        tuple(a.shape[axis] for axis in left_free),
        tuple(b.shape[axis] for axis in right_free),
    )
    inner = _product(a.shape[axis] for axis in left_sum)
    a = a.transpose(*left_batch, *left_free, *left_sum).reshape(
        _product(batch), _product(rows), inner
    )
    b = b.transpose(*right_batch, *right_sum, *right_free).reshape(
        _product(batch), inner, _product(columns)
    )
    return a, b, (*batch, *rows, *columns)


def _product(sizes: Any) -> int:
    return int(np.prod(list(sizes), dtype=int))


def _gather(arrays: Sequence[np.ndarray], parameters: Mapping[str, Any]) -> Any:
    x, indices = arrays
    numbers = gather_numbers(x.shape, indices, parameters)
    gathered = x.ravel()[numbers] if x.size else np.zeros(numbers.shape, x.dtype)
    outside = numbers == OUTSIDE
    return np.where(
        outside, np.array(fill_value(x.dtype, parameters["fill_value"]), x.dtype), gathered
    )


def _scatter(
    arrays: Sequence[np.ndarray], parameters: Mapping[str, Any], combine: str | None
) -> Any:
    x, indices, updates = arrays
    numbers = scatter_numbers(x.shape, indices, updates.shape, parameters).ravel()
    is_inside = numbers != OUTSIDE
    result, numbers, updates = x.flatten(), numbers[is_inside], updates.ravel()[is_inside]
    if combine is None:
        result[numbers] = updates
    else:
        ELEMENTWISE[combine].at(result, numbers, updates)  # type: ignore[attr-defined]
    return result.reshape(x.shape)


def _dynamic_slice(arrays: Sequence[np.ndarray], parameters: Mapping[str, Any]) -> Any:
    x, *starts = arrays
    return x.ravel()[
        dynamic_slice_numbers(x.shape, [int(start) for start in starts], parameters["slice_sizes"])
    ]


def _dynamic_update_slice(arrays: Sequence[np.ndarray], _: Mapping[str, Any]) -> Any:
    x, update, *starts = arrays
    result = x.flatten()
    result[dynamic_slice_numbers(x.shape, [int(start) for start in starts], update.shape)] = update
    return result.reshape(x.shape)


_OTHERS: dict[str, Callable[[Sequence[np.ndarray], Mapping[str, Any]], Any]] = {
    "select_n": _select,
    "clamp": _clamp,
    "convert_element_type": _convert,
    "iota": _iota,
    "integer_pow": _integer_pow,
    "round": _round,
    "dot_general": _dot_general,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}


def numeric_rule(primitive: Any, parameters: Mapping[str, Any]) -> Numeric:
    """The function that evaluates an operation with NumPy, or with JAX if NumPy has no equivalent.

    Args:
      primitive: the operation.
      parameters: its parameters.
    """
    name = primitive.name
    if (elementwise := ELEMENTWISE.get(name)) is not None:
        return lambda arrays: (elementwise(*arrays),)
    if (movement := MOVEMENTS.get(name)) is not None:
        return movement(**parameters)
    if (other := _OTHERS.get(name)) is not None:
        return lambda arrays: (other(arrays, parameters),)
    if name in REDUCTIONS:
        return lambda arrays: (_reduce(arrays[0], REDUCTIONS[name], tuple(parameters["axes"])),)
    if name in CUMULATIVE:
        return lambda arrays: (
            _accumulate(arrays[0], CUMULATIVE[name], parameters["axis"], parameters["reverse"]),
        )
    if name in SCATTERS and not calls_function(name, parameters):
        return lambda arrays: (_scatter(arrays, parameters, SCATTERS[name]),)
    return lambda arrays: _evaluate_by_jax(primitive, arrays, parameters)


def _evaluate_by_jax(
    primitive: Any, arrays: Sequence[np.ndarray], parameters: Mapping[str, Any]
) -> Sequence[np.ndarray]:
    with jax.ensure_compile_time_eval():
        results = primitive.bind(*map(jnp.asarray, arrays), **parameters)
        return [np.asarray(x) for x in (results if primitive.multiple_results else [results])]
