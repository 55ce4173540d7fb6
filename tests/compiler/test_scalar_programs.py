"""Scalar programs compute the same as the traced functions, with no more operations than stated
here."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import artix
from artix.compiler.array_rules import plan_of_sums
from artix.compiler.scalar_builder import ScalarBuilder, TooManyOperations
from artix.compiler.scalar_evaluation import Evaluator
from artix.compiler.scalar_order import depth_first, fewest_live, live
from artix.compiler.scalar_program import Op, ScalarProgram, UnsupportedOperation
from artix.compiler.scalarize import scalarize, scalarize_transpose
from tests.support.scalar_interpreter import check_program, interpret

_BATCH = 3


def _program(
    function: Callable[..., Any], *arguments: Any, known: Mapping[int, Any] | None = None
) -> ScalarProgram:
    """The checked program of a function of arrays."""
    program = scalarize(jax.make_jaxpr(function)(*arguments), [1] * len(arguments), known or {})
    check_program(program)
    return program


def _counts(function: Callable[..., Any], *arguments: Any) -> dict[str, int]:
    """How often each operation is in the program of a function, without inputs and constants."""
    codes = _program(function, *arguments).operations
    return {
        Op(code).name: int(np.sum(codes == code)) for code in np.unique(codes) if code > Op.CONSTANT
    }


def _tolerance(dtype: Any) -> float:
    return 2e-5 if np.dtype(dtype) == np.float32 else 1e-12


def _agrees(function: Callable[..., Any], *arguments: Any) -> None:
    """The program of a function, with unknown and with known arguments, gives what the function
    gives."""
    _all_agree((function, *arguments))


def _all_agree(*cases: tuple[Any, ...]) -> None:
    """The same of functions with their arguments, which XLA compiles as one: it takes 15 ms for
    each that it compiles alone.
    """
    functions, batches = [function for function, *_ in cases], [_batches(x) for _, *x in cases]

    @jax.jit
    def compiled(every: Any) -> Any:
        return [
            jax.tree.leaves(function(*arguments))
            for function, arguments in zip(functions, every, strict=True)
        ]

    expected = [
        compiled(jax.tree.map(lambda batch, robot=robot: jnp.asarray(batch[robot]), batches))
        for robot in range(_BATCH)
    ]
    for number, (function, *arguments) in enumerate(cases):
        _compare(function, arguments, batches[number], [each[number] for each in expected])


def _batches(arguments: Sequence[Any]) -> list[np.ndarray]:
    """Random arrays like each of these, with an axis of robots."""
    rng = np.random.default_rng(1)
    batches = []
    for argument in map(np.asarray, arguments):
        if argument.dtype.kind == "f":
            batch = argument * rng.uniform(0.6, 1.0, (_BATCH, *argument.shape))
        else:
            batch = np.stack(
                [rng.permutation(argument.ravel()).reshape(argument.shape) for _ in range(_BATCH)]
            )
        batches.append(batch.astype(argument.dtype))
    return batches


def _compare(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    batches: Sequence[np.ndarray],
    expected: Sequence[Sequence[Any]],
) -> None:
    """Fails unless the program gives what each robot expects."""
    tolerance = max((_tolerance(x.dtype) for x in batches if x.dtype.kind == "f"), default=0)
    found = interpret(_program(function, *arguments), batches)
    for robot in range(_BATCH):
        for result, wanted in zip(found, expected[robot], strict=True):
            np.testing.assert_allclose(result[robot], wanted, rtol=tolerance, atol=tolerance)
            assert result[robot].shape == wanted.shape and result.dtype == wanted.dtype
    known = {number: batch[0] for number, batch in enumerate(batches)}
    program = _program(function, *arguments, known=known)
    assert program.size == 0 and not program.arguments
    for result, wanted in zip(interpret(program, ()), expected[0], strict=True):
        np.testing.assert_allclose(result[0], wanted, rtol=tolerance, atol=tolerance)


def _partly_known(function: Callable[..., Any], constants: Any) -> Callable[..., Any]:
    """A function of an array [2, 3], of which all but two entries are constants."""
    mask = np.array([[True, False, True], [True, True, False]])

    def of_rest(x: Any, *others: Any) -> Any:
        return function(jnp.where(mask, jnp.asarray(constants, x.dtype), x), *others)

    return of_rest


_UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": lax.sin,
    "cos": lax.cos,
    "tan": lax.tan,
    "asin": lambda x: lax.asin(x / 4),
    "acos": lambda x: lax.acos(x / 4),
    "atan": lax.atan,
    "sinh": lax.sinh,
    "cosh": lax.cosh,
    "tanh": lax.tanh,
    "exp": lax.exp,
    "exp2": lax.exp2,
    "expm1": lax.expm1,
    "log": lambda x: lax.log(lax.abs(x) + 1),
    "log1p": lambda x: lax.log1p(lax.abs(x)),
    "log2": lambda x: jnp.log2(lax.abs(x) + 1),
    "sqrt": lambda x: lax.sqrt(lax.abs(x)),
    "rsqrt": lambda x: lax.rsqrt(x * x + 1),
    "cbrt": lax.cbrt,
    "abs": lax.abs,
    "neg": lax.neg,
    "sign": lax.sign,
    "floor": lax.floor,
    "ceil": lax.ceil,
    "negated floor": lambda x: lax.floor(-x) + lax.ceil(-x),
    "round": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "is_finite": lambda x: lax.is_finite(1 / lax.max(x, 0.0 * x)),
    "square": lax.square,
    "integer_pow": lambda x: lax.integer_pow(x, 5) + lax.integer_pow(x, 0),
    "negative integer_pow": lambda x: lax.integer_pow(x + 9, -3),
    "to int": lambda x: x.astype(jnp.int32),
    "to bool": lambda x: x.astype(bool),
    "to other float": lambda x: (
        x.astype(jnp.float64 if x.dtype == jnp.float32 else jnp.float32) * 2
    ),
    "bool to float": lambda x: (x > 0).astype(x.dtype),
    "reciprocal": lambda x: 1 / (x + 9),
    "softplus": jax.nn.softplus,
    "logistic": jax.nn.sigmoid,
    "derivative of tanh": lambda x: jax.jvp(jnp.tanh, (x,), (x,)),
}


@pytest.mark.parametrize("name", _UNARY)
def test_functions_of_one_scalar(name: str, dtype: np.dtype) -> None:
    x = np.array([[0.4, -1.7, 2.5], [-0.2, 3.1, -0.9]], dtype)
    partly_known = _partly_known(_UNARY[name], [[0, 1, -1], [0.5, -2.5, 2]])
    _all_agree((_UNARY[name], x), (partly_known, x))


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lambda x, y: x / (y + 9),
    "max": lax.max,
    "min": lax.min,
    "negated max": lambda x, y: lax.max(-x, -y) + lax.min(-x, y),
    "atan2": lambda x, y: lax.atan2(-x, y) + lax.atan2(y, x + 5),
    "pow": lambda x, y: lax.pow(lax.abs(x) + 1, y),
    "eq": lambda x, y: (x == y) | (-x == -x),
    "ne": lambda x, y: (x != y) | (-x != y),
    "lt": lax.lt,
    "le": lax.le,
    "gt": lax.gt,
    "ge": lambda x, y: -x >= -y,
    "and": lambda x, y: (x > 0) & (y > 0),
    "or": lambda x, y: (x > 0) | (y > 0),
    "xor": lambda x, y: (x > 0) ^ (y > 0),
    "not": lambda x, y: ~(x > y),
    "select_n": lambda x, y: lax.select(x > y, x, -y),
    "comparisons of bools": lambda x, y: [
        compare(x > 0, y > 0) for compare in (lax.eq, lax.ne, lax.lt, lax.le, lax.max, lax.min)
    ],
    "bool select_n": lambda x, y: lax.select(x > y, x > 0, y > 0),
    "clamp": lambda x, y: lax.clamp(-0.5 * lax.abs(y), x, lax.abs(y)),
    "clamp to numbers": lambda x, y: (
        lax.clamp(jnp.asarray(-0.5, x.dtype), x, jnp.asarray(0.7, x.dtype)) + y
    ),
    "broadcast": lambda x, y: x[:1] * y + x[:, :1] * y,
    "signs": lambda x, y: (-x) * y - (-x) * (-y) + (-x - y) - (y - x) + (-x) / (y + 9),
    "dot": lambda x, y: x @ y.T,
    "negated dot": lambda x, y: -x @ y.T,
    "add_any": lambda x, y: jax.grad(lambda x: jnp.sum(x * x * y + x))(x),
}


@pytest.mark.parametrize("name", _BINARY)
def test_functions_of_two_scalars(name: str, dtype: np.dtype) -> None:
    x = np.array([[0.4, -1.7, 2.5], [-0.2, 3.1, -0.9]], dtype)
    y = np.array([[1.4, 0.7, -2.5], [-0.2, 1.3, -1.1]], dtype)
    function = _BINARY[name]
    constants = [[0, 1, -1], [0.5, 3, 2]]
    _all_agree(
        (function, x, y),
        (_partly_known(function, constants), x, y),
        (_partly_known(lambda x, y: function(y, x), constants), x, y),
        (lambda x: function(x, jnp.asarray(constants, x.dtype)), x),
        (lambda x: function(jnp.asarray(constants, x.dtype), x), x),
    )


@pytest.mark.parametrize("name", [*_UNARY, *_BINARY])
def test_derivatives_consist_of_known_operations(name: str) -> None:
    """Newer versions of JAX write derivatives in primitives of their own."""
    x = np.ones((2, 3), np.float32)
    function: Any = _UNARY.get(name) or _BINARY[name]
    arguments = (x,) if name in _UNARY else (x, x)

    def of_floats(*arguments: Any) -> list[Any]:
        return [result.astype(jnp.float32) for result in jax.tree.leaves(function(*arguments))]

    def tangents(*arguments: Any) -> Any:
        return jax.jvp(of_floats, arguments, arguments)

    _program(lambda *arguments: jax.jvp(tangents, arguments, arguments), *arguments)


def _scatter(x: Any, y: Any, method: str) -> Any:
    at = x.at[np.array([1, 0, 1]), :2]
    return getattr(at, method)(y[:, :2].repeat(2, 0)[:3])


def _scatter_outside(x: Any, mode: str) -> Any:
    return x.at[np.array([0, 7])].add(jnp.ones((2, 3), x.dtype), mode=mode)


_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x, (2, 4, 3), (0, 2)),
    "reshape": lambda x: x.reshape(3, 2) * 2,
    "transpose": lambda x: x.T + 1,
    "squeeze": lambda x: x[:, None].squeeze(1),
    "expand_dims": lambda x: jnp.expand_dims(x, (0, 2)),
    "slice": lambda x: lax.slice(x, (0, 0), (2, 3), (1, 2)),
    "rev": lambda x: lax.rev(x, (1,)),
    "concatenate": lambda x: jnp.concatenate([x, 2 * x, jnp.ones((2, 1), x.dtype)], 1),
    "stack": lambda x: jnp.stack([x, jnp.zeros_like(x)], 1),
    "unstack": lambda x: [part * 2 for part in x],
    "split": lambda x: jnp.split(x, [1], 1),
    "pad": lambda x: lax.pad(x, jnp.asarray(3, x.dtype), ((1, 0, 1), (-1, 2, 2))),
    "pad with unknown": lambda x: lax.pad(x, x[0, 0], ((0, -1, 3), (1, -2, 1))),
    "gather": lambda x: x[np.array([[1, 0], [0, 0]]), np.array([2, 1])],
    "gather rows": lambda x: x[:, np.array([2, 0])],
    "gather fill": lambda x: jnp.take(x, np.array([0, 5, 1]), axis=0, mode="fill", fill_value=7),
    "gather nan": lambda x: jnp.take(x, np.array([0, 5]), axis=1, mode="fill"),
    "gather clip": lambda x: jnp.take(x, np.array([0, 5, 1]), axis=1, mode="clip"),
    "gather mapped": lambda x: jax.vmap(lambda row, i: row[i])(x, np.array([2, 0])),
    "gather of one": lambda x: (
        x[np.int32(1), np.int32(2)] * x.at[np.int32(0), np.int32(1)].add(x[0, 0])
    ),
    "gather of numbers": lambda x: (
        jnp.asarray(np.arange(4.0), x.dtype)[np.array([0, 3])] * x[0, :2]
    ),
    "scatter": lambda x: _scatter(x, 2 * x, "set"),
    "scatter-add": lambda x: _scatter(x, 2 * x, "add"),
    "scatter-mul": lambda x: _scatter(x, 2 * x, "multiply"),
    "scatter-min": lambda x: _scatter(x, 2 * x, "min"),
    "scatter-max": lambda x: _scatter(x, 2 * x, "max"),
    "scatter into zeros": lambda x: jnp.zeros((4, 3), x.dtype).at[np.array([2, 0])].set(x),
    "scatter dropped": lambda x: _scatter_outside(x, "drop"),
    "scatter clipped": lambda x: _scatter_outside(x, "clip"),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (jnp.int32(1), jnp.int32(2)), (1, 2)),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(
        x, 2 * x[:1, :2], (jnp.int32(1), jnp.int32(2))
    ),
    "iota": lambda x: x + lax.broadcasted_iota(x.dtype, (2, 3), 1),
    "reduce_sum": lambda x: jnp.sum(x, 0),
    "reduce_sum of all": lambda x: jnp.sum(x),
    "reduce_max": lambda x: jnp.max(x, 1),
    "reduce_min": lambda x: jnp.min(x, 0),
    "reduce_prod": lambda x: jnp.prod(x, 1),
    "reduce_and": lambda x: jnp.all(x > -1, 0),
    "reduce_or": lambda x: jnp.any(x > 1, 0),
    "argmin": lambda x: lax.argmin(x, 1, jnp.int32),
    "argmax": lambda x: lax.argmax(jnp.floor(x), 0, jnp.int32),
    "argmax of integers": lambda x: lax.argmax(x.astype(jnp.int32), 1, jnp.int32),
    "argmin of bools": lambda x: lax.argmin(x > 0, 1, jnp.int32),
    "argmin with NaN": lambda x: lax.argmin(jnp.log(x).reshape(-1), 0, jnp.int32),
    "argmax with NaN": lambda x: lax.argmax(jnp.log(x)[:, ::-1].reshape(-1), 0, jnp.int32),
    "cumsum": lambda x: lax.cumsum(x, 1),
    "reverse cumsum": lambda x: lax.cumsum(x, 0, reverse=True),
    "cumprod": lambda x: lax.cumprod(x, 1),
    "cummax": lambda x: lax.cummax(x, 1),
    "cummin": lambda x: lax.cummin(x, 1, reverse=True),
    "dot_general": lambda x: jnp.einsum("bi,bj->bij", x, x),
    "dot_general batched": lambda x: jnp.einsum("bi,bij->bj", x, jnp.stack([x, x[::-1], 2 * x], 1)),
    "dot with a mask": lambda x: (
        x @ np.tril(np.ones((3, 3))).astype(x.dtype) + np.eye(2, dtype=x.dtype)[::-1] @ x
    ),
    "dot with numbers": lambda x: (
        x @ np.array([[1.0, 0, 2], [0, -3, 0], [0, 0, 1]]).astype(x.dtype)
    ),
    "copy": lambda x: jnp.array(x, copy=True) + lax.stop_gradient(x) + lax.optimization_barrier(x),
    "two of a barrier": lambda x: lax.optimization_barrier((x, jnp.ones(2, x.dtype))),
    "integers": lambda x: (
        (jnp.where(x > 0, jnp.int32(2), 3) + 1) * jnp.where(x > 1, jnp.int32(1), -1) - 4
    ),
    "select of three": lambda x: lax.select_n(np.array([[0, 2, 1], [1, 1, 0]]), x, 2 * x, -x),
    "jit": lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.sin)(x[::-1]),
    "checkpoint": lambda x: jax.checkpoint(jnp.sin)(x),
    "custom_jvp_call": lambda x: jax.nn.relu(x),
    "custom_linear_solve": lambda x: lax.custom_linear_solve(
        lambda y: y * (x * x + 1), x, lambda _, b: b / (x * x + 1), symmetric=True
    ),
    "scan": lambda x: lax.scan(lambda c, row: (c * row, c + row), jnp.ones(3, x.dtype), x),
    "reverse scan": lambda x: lax.scan(lambda c, row: (c + row, (c, 1.0)), x[0], x, reverse=True),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, y: y * x + i.astype(x.dtype), x),
    "while": lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (jnp.int32(0), x)
    ),
    "cond": lambda x: lax.cond(x[0, 0] > 0.3, jnp.sin, jnp.cos, x),
    "known cond": lambda x: lax.cond(jnp.asarray(True), jnp.sin, jnp.cos, x),
    "switch": lambda x: lax.switch(
        jnp.where(x[0, 0] > 0.3, jnp.int32(5), 1), [jnp.sin, jnp.cos, jnp.tanh], x
    ),
    "argument only": lambda x: x,
    "number only": lambda x: jnp.ones((2, 2), x.dtype),
    "empty": lambda x: (x[:0] * 2, jnp.sum(x[:, :0])),
    "grad": lambda x: jax.grad(lambda x: jnp.sum(jnp.sin(x) * x**2 / (2 + jnp.cos(x))))(x),
}


def _gather(mode: str, **options: Any) -> Callable[[Any, Any], Any]:
    return lambda x, i: x.at[i[:, 0], i[:, 1]].get(
        mode=mode, wrap_negative_indices=False, **options
    )


_LOADS: dict[str, Callable[[Any, Any], Any]] = {
    "gather": lambda x, i: x[jnp.clip(i[:, 0], 0, 1), jnp.clip(i[:, 1], 0, 2)],
    "gather clip": _gather("clip"),
    "gather fill": _gather("fill", fill_value=7),
    "gather nan": _gather("fill"),
    # What an index without a mode means: a promise, which XLA does not rely on.
    "gather promised": _gather("promise_in_bounds"),
    "gather by default": lambda x, i: x[i[:, 0] - 4, i[:, 1]],
    "gather rows by default": lambda x, i: x[i[:, 0] - 4],
    "gather rows": lambda x, i: jnp.take(x, i[:, 1], axis=1, mode="clip"),
    "gather windows": lambda x, i: jax.vmap(lambda k: lax.dynamic_slice(x, (k[0], k[1]), (1, 2)))(
        i
    ),
    "gather mapped": lambda x, i: jax.vmap(lambda row, k: row.at[k].get(mode="clip"))(x, i[:2]),
    "gather of numbers": lambda x, i: (
        jnp.arange(5.0, dtype=x.dtype).at[i].get(mode="clip") * x[0, 0]
    ),
    "gather of bools": lambda x, i: jnp.where(
        jnp.array([True, False, True]).at[i].get(mode="clip"), x[0, 0], 1
    ),
    "gather of integers": lambda x, i: i.reshape(-1)[jnp.clip(i, 0, 5)],
    "one index known": lambda x, i: x.at[jnp.array([0, 1]), jnp.stack([i[0, 0], 1])].get(
        mode="clip"
    ),
    "dynamic_slice": lambda x, i: lax.dynamic_slice(x, (i[0, 0], i[0, 1]), (1, 2)),
    "dynamic_slice, one start known": lambda x, i: lax.dynamic_slice(
        x, (jnp.int32(1), i[0, 1]), (1, 2)
    ),
    "part of an argument": lambda x, i: x[1].at[i[:, 1]].get(mode="clip"),
    "derivative": lambda x, i: jax.jvp(
        lambda x: jnp.sin(x.at[i[:, 0], i[:, 1]].get(mode="clip")), (x,), (x,)
    ),
}


@pytest.mark.parametrize("name", _LOADS)
def test_loads_at_indices_that_are_not_known(name: str, dtype: np.dtype) -> None:
    """Also outside of the array, where a gather's mode says what happens."""
    x = np.array([[0.4, -1.7, 2.5], [-0.2, 3.1, -0.9]], dtype)
    i = np.array([[0, 2], [1, -1], [5, 1]], np.int32)
    _agrees(_LOADS[name], x, i)
    assert _counts(_LOADS[name], x, i)["LOAD"]


def _change(method: str, mode: str) -> Callable[[Any, Any], Any]:
    def function(x: Any, i: Any) -> Any:
        at = (2 * x).at[i[:, 0], i[:, 1]]
        return getattr(at, method)(x[0] + x[1], mode=mode, wrap_negative_indices=False)

    return function


_SELECTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        f"{name} of what is computed": lambda x, i, f=f: f(jnp.sin(x), i)
        for name, f in _LOADS.items()
    },
    "gather of integers": lambda x, i: (2 * i).reshape(-1)[jnp.clip(i, 0, 5)],
    "gather of bools": lambda x, i: jnp.where((x > 0).at[0, i].get(mode="clip"), x[0, 0], 1),
    "index with bounds": lambda x, i: jnp.sin(x).reshape(-1)[
        jnp.clip(i, 1, np.array([[3, 5]], np.int32))
    ],
    "scatter": _change("set", "drop"),
    "scatter clip": _change("set", "clip"),
    "scatter add": _change("add", "drop"),
    "scatter promised": _change("add", "promise_in_bounds"),
    "scatter multiply": _change("multiply", "clip"),
    "scatter rows": lambda x, i: jnp.cos(x).at[:, jnp.clip(i[:, 1], 0, 2)].max(x),
    "scatter of negative indices": lambda x, i: x.at[:, jnp.clip(i[:, 1], -3, 2)].add(x),
    "transposed gather": lambda x, i: jax.grad(
        lambda y: jnp.sum(
            jnp.sin(y).at[i[:, 0], i[:, 1]].get(mode="clip", wrap_negative_indices=False) ** 2
        )
    )(x),
    "transposed gather by default": lambda x, i: jax.grad(
        lambda y: jnp.sum(jnp.sin(y)[i[:, 0], i[:, 1]] ** 2)
    )(x),
    "transposed scatter": lambda x, i: jax.grad(
        lambda y: jnp.sum(_change("add", "drop")(y, i) ** 3)
    )(x),
}


@pytest.mark.parametrize("name", _SELECTIONS)
def test_selections_at_indices_that_are_not_known(name: str, dtype: np.dtype) -> None:
    """Of what is computed, also outside of the array."""
    x = np.array([[0.4, -1.7, 2.5], [-0.2, 3.1, -0.9]], dtype)
    i = np.array([[0, 2], [1, -1], [5, 1]], np.int32)
    _agrees(_SELECTIONS[name], x, i)


def test_bounds_of_an_index_leave_few_selections() -> None:
    x = np.ones(100)
    few = _counts(
        lambda x, i: jnp.sin(x).at[jnp.clip(i, 40, 42)].get(mode="promise_in_bounds"),
        x,
        np.int32(0),
    )
    assert few["SELECT"] == 2
    assert few["SIN"] == 3


def test_bounds_of_integers_that_wrap_around_are_not_known() -> None:
    """A product of small choices, or a sum, may be any integer."""
    i = np.array([3, -7, 2**31 - 1, -(2**31)], np.int32)
    wraps = {
        "product": lambda i: jnp.where(i > 0, jnp.int32(70_000), 3) * jnp.int32(50_000),
        "sum": lambda i: jnp.minimum(i, 5) - 10,
    }
    for function in wraps.values():
        _agrees(lambda i, function=function: jnp.where(function(i) < 0, 1.0, 2.0), i)
        _agrees(lambda i, function=function: jnp.where(function(i) > 0, 1.0, 2.0), i)


def test_choices_among_indices_need_no_clamp() -> None:
    """Also times a stride."""
    counts = _counts(
        lambda x, y: jnp.concatenate([jnp.sin(y), y])[lax.argmin(x, 0, jnp.int32)],
        np.ones(10),
        np.ones((5, 3)),
    )
    assert not {"LOAD", "MIN", "MAX"} & {*counts}


def test_common_bits_of_integers() -> None:
    bits = np.int32(1) << np.arange(31, dtype=np.int32)
    _agrees(lambda x, i: jnp.where((i & bits) != 0, x, -x), np.linspace(1, 2, 31), np.int32(0b1011))


def test_large_arguments_have_no_scalars_of_their_own() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 1000))
    program = _program(lambda x, i: x.reshape(-1)[jnp.clip(i, 0, 10)] + x[3, 4], x, np.int32(3))
    assert len(program.operations) < 20
    (found,) = interpret(program, [np.stack([x, 2 * x]), np.array([3, 7], np.int32)])
    np.testing.assert_allclose(found, [x[0, 3] + x[3, 4], 2 * (x[0, 7] + x[3, 4])])


@pytest.mark.parametrize("name", _ARRAYS)
def test_functions_of_arrays(name: str, dtype: np.dtype) -> None:
    x = np.array([[0.4, -1.7, 2.5], [-0.2, 3.1, -0.9]], dtype)
    _all_agree((_ARRAYS[name], x), (_partly_known(_ARRAYS[name], [[0, 1, -1], [0.5, 3, 2]]), x))


def test_custom_derivatives() -> None:
    @jax.custom_vjp
    def function(x: Any) -> Any:
        return jnp.sin(x)

    function.defvjp(lambda x: (jnp.sin(x), x), lambda x, cotangent: (cotangent * x,))
    x = np.linspace(-1, 1, 4)
    _agrees(function, x)
    _agrees(jax.grad(lambda x: jnp.sum(function(x))), x)


def test_integers_and_bools_as_arguments() -> None:
    i, flag, x = (
        np.arange(4, dtype=np.int32),
        np.array([True, False, False, True]),
        np.linspace(-1, 2, 4),
    )
    _agrees(lambda i, flag, x: jnp.where(flag & (i > 1), x * i.astype(x.dtype), -x), i, flag, x)
    _agrees(lambda i: (jnp.abs(i - 2) * jnp.sign(i - 1), jnp.maximum(i, 2), -i, i == 2), i)


@pytest.mark.parametrize(
    ("function", "counts"),
    [
        (lambda x, y: x + 0, {}),
        (lambda x, y: 0 - x, {}),
        (lambda x, y: x * 0 + y, {}),
        (lambda x, y: x * 1 * -1 / 1, {}),
        (lambda x, y: x - x, {}),
        (lambda x, y: -x + x, {}),
        (lambda x, y: 0 / x, {}),
        (lambda x, y: x / 4, {"MUL": 1}),
        (lambda x, y: x / 3, {"DIV": 1}),
        (lambda x, y: (x * y + y * x, (-x) * y), {"ADD": 1, "MUL": 1}),
        (lambda x, y: (x + y, -x - y, y + x), {"ADD": 1}),
        (lambda x, y: (x - y, y - x, -x + y), {"SUB": 1}),
        (lambda x, y: (x / y, (-x) / y, x / -y), {"DIV": 1}),
        (lambda x, y: (1 / y, x / y, x * x / y), {"DIV": 1, "MUL": 3}),
        (lambda x, y: (jnp.cos(-x), jnp.cos(x), jnp.sin(-x), jnp.sin(x)), {"COS": 1, "SIN": 1}),
        (lambda x, y: 0.5 * (x + x) - 0.5 * (-y - y), {"ADD": 1}),
        (lambda x, y: 3 * (x + x), {"MUL": 1}),
        (lambda x, y: abs(abs(-x)), {"ABS": 1}),
        (lambda x, y: abs(jnp.sqrt(abs(x))), {"ABS": 1, "SQRT": 1}),
        (lambda x, y: jnp.where(x > y, -x, -x), {}),
        (lambda x, y: jnp.where(x > y, -x, -y), {"LT": 1, "SELECT": 1}),
        (
            lambda x, y: jnp.where(~(x > y), x, y) + jnp.where(x > y, y, x),
            {"LT": 1, "SELECT": 1, "ADD": 1},
        ),
        (
            lambda x, y: jnp.where(x > y, jnp.where(x > y, x, 2 * y), 3 * y),
            {"LT": 1, "SELECT": 1, "MUL": 1},
        ),
        (lambda x, y: jnp.where(x > jnp.inf, y, x), {}),
        (lambda x, y: jnp.where(x < -jnp.inf, y, x), {}),
        (lambda x, y: jnp.where(x < x, y, x), {}),
        (lambda x, y: jnp.where((x > 0).astype(x.dtype) > 0.5, x, y), {"LT": 1, "SELECT": 1}),
        (lambda x, y: jnp.minimum(jnp.maximum(x, -jnp.inf), jnp.inf), {}),
        (lambda x, y: ~~(x > y) & True | False, {"LT": 1}),
        (lambda x, y: (x > y) & False, {}),
        (lambda x, y: (x > y) & ~(x > y), {}),
        (lambda x, y: lax.integer_pow(x, 8), {"MUL": 3}),
        (lambda x, y: lax.integer_pow(x, -2), {"MUL": 1, "DIV": 1}),
        (lambda x, y: x**2.0, {"MUL": 1}),
        (lambda x, y: jnp.sin(y) * 0 + x, {}),
        (
            lambda x, y: jax.jit(lambda z: z * z)(x) + jax.jit(lambda z: z * z)(x),
            {"MUL": 1, "ADD": 1},
        ),
    ],
)
def test_folding_of_scalars(
    function: Callable[..., Any], counts: Mapping[str, int], dtype: np.dtype
) -> None:
    x, y = np.asarray(0.7, dtype), np.asarray(1.9, dtype)
    assert _counts(function, x, y) == counts
    _agrees(function, x, y)


def _subtrees(parents: list[int]) -> np.ndarray:
    """Which bodies, [bodies, roots of subtrees], are in which subtree."""
    below = np.eye(len(parents), dtype=bool)
    for body in range(len(parents) - 1, 0, -1):
        below[:, parents[body]] |= below[:, body]
    return below


_TREES = {
    "chain": [-1, *range(15)],
    "star": [-1, *[0] * 15],
    "binary": [-1, *(i // 2 for i in range(30))],
    "random": [-1, *(int(i) for i in np.random.default_rng(3).integers(0, np.arange(1, 40)))],
}


@pytest.mark.parametrize("tree", _TREES)
@pytest.mark.parametrize("of_paths", [False, True])
def test_sums_over_trees_take_one_addition_a_body(tree: str, of_paths: bool) -> None:
    below = _subtrees(_TREES[tree])
    mask = below.T if of_paths else below
    bodies = len(mask)
    assert sum(len(sums) for _, _, sums in plan_of_sums(mask).stages) == bodies - 1
    x = np.random.default_rng(0).normal(size=(2, bodies))
    weights = mask.astype(float)
    assert _counts(lambda x: x @ weights, x) == {"ADD": 2 * (bodies - 1)}
    _agrees(lambda x: x @ weights, x)
    _agrees(lambda x: weights.T @ x.T, x)


def test_sums_over_any_sets() -> None:
    mask = np.random.default_rng(2).random((9, 12)) < 0.4
    mask[:, 3], mask[:, 4] = mask[:, 5], False
    _agrees(lambda x: x @ mask.astype(float), np.ones((2, 9)))


def test_products_with_sparse_matrices_have_their_nonzero_terms_only() -> None:
    matrix = np.array([[2.0, 0, 1], [0, 0, -1], [0, 3, 0]])
    assert _counts(lambda x: x @ matrix, np.ones(3)) == {"MUL": 2, "SUB": 1}


def test_what_is_computed_again_is_not_evaluated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = list[Any]()
    monkeypatch.setattr(ScalarBuilder, "check_size", lambda *_: evaluated.append(None))

    def count(function: Callable[..., Any]) -> int:
        evaluated.clear()
        x = jax.ShapeDtypeStruct((3,), np.float64)
        scalarize(jax.make_jaxpr(function)(x), (1,), {})
        return len(evaluated)

    def once(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x[::-1]) * x)

    def again(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x[::-1]) * x)

    with jax.enable_x64(True):
        whole = count(jax.jit(once))
        assert whole >= 4
        # The sum of both is the only new operation.
        assert count(lambda x: jax.jit(once)(x) + jax.jit(again)(x)) == whole + 1
        # Only the reversal is shared.
        assert count(lambda x: jnp.sum(x[::-1] * 2.0) + jnp.sum(x[::-1] * 3.0)) == 6


def test_levels_are_the_highest_of_the_operands() -> None:
    def function(a: Any, b: Any, c: Any) -> Any:
        return a * 2, a + b, jnp.sin(c) + a, jnp.cos(b)

    x = np.ones(())
    program = scalarize(jax.make_jaxpr(function)(x, x, x), [0, 1, 2], {})
    check_program(program)
    assert [program.levels[result.item() >> 1] for result in program.results] == [0, 1, 2, 1]


def test_known_arguments_are_left_out() -> None:
    closed = jax.make_jaxpr(lambda a, b, c: a * b + c)(1.0, 1.0, np.ones(2))
    program = scalarize(closed, [0, 1, 2], {0: np.asarray(3.0)})
    check_program(program)
    assert program.arguments == (((), np.dtype(float), 1), ((2,), np.dtype(float), 2))
    (found,) = interpret(program, [np.full(1, 2.0), np.array([[1.0, 5.0]])])
    np.testing.assert_array_equal(found, [[7.0, 11.0]])


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: lax.sort(x > 0), "sorting of bools"),
        (lambda x: jnp.linalg.eigh(x[:, None] * x)[0], "eigh"),
        (
            lambda x: lax.while_loop(lambda y: y[0] < 9, lambda y: 2 * y, x.astype(jnp.int16)),
            "scalars of int16",
        ),
        (
            lambda x: lax.dynamic_update_slice(x, x[:1], (x[0].astype(jnp.int32),)),
            "dynamic_update_slice at unknown indices",
        ),
        (lambda x: jnp.sin(x)[x[0].astype(jnp.int16)], "scalars of int16"),
        (lambda x: x.astype(jnp.float16), "float16"),
        (lambda x: lax.erf(x), "erf"),
        (lambda x: x.at[0].apply(jnp.sin), "scatter by a function of the entries"),
    ],
)
def test_what_has_no_rule_is_refused(function: Callable[..., Any], name: str) -> None:
    with pytest.raises(UnsupportedOperation, match=name):
        _program(function, np.ones(3))


def test_programs_may_be_too_large() -> None:
    closed = jax.make_jaxpr(lambda x: lax.fori_loop(0, 100, lambda _, y: jnp.sin(y), x))(np.ones(3))
    assert scalarize(closed, [1], {}, max_operations=300).size == 300
    with pytest.raises(TooManyOperations, match="300 operations, which are more than 299"):
        scalarize(closed, [1], {}, max_operations=299)


def test_long_loops_are_refused_after_a_few_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, call = [], Evaluator.call
    monkeypatch.setattr(Evaluator, "call", lambda *given: calls.append(1) or call(*given))
    closed = jax.make_jaxpr(lambda x: lax.scan(lambda y, _: (jnp.sin(y), y), x, length=2000))(
        np.ones(1)
    )
    with pytest.raises(TooManyOperations, match="more than 1,200 scalars, needed or not"):
        scalarize(closed, [1], {}, max_operations=300)
    assert len(calls) == 4  # of the program, and three of the loop


def test_orders_and_live_scalars() -> None:
    def function(x: Any) -> Any:
        first = jnp.sin(x)
        return jnp.sum(jnp.cos(first))

    x = np.linspace(0, 1, 10)
    program = _program(function, x)
    shortly = depth_first(program)
    check_program(shortly)
    assert shortly.size == program.size
    # As traced, ten inputs, then ten sines live together; depth first, a sum and the input or sine
    # of what is added to it.
    assert (live(program), live(shortly)) == (11, 3)
    np.testing.assert_array_equal(
        interpret(program, [x[None]])[0], interpret(shortly, [x[None]])[0]
    )


@functools.cache
def _robot(name: str) -> tuple[Any, Any]:
    """A robot and a state of it, in float64."""
    robot = artix.robots.load(name)
    state = artix.random_state(robot, jax.random.key(1))

    def wide(tree: Any) -> Any:
        return jax.tree.map(lambda x: x.astype(np.float64) if x.dtype == np.float32 else x, tree)

    return wide(robot), wide(state)


def _gradient(robot: Any, state: Any, force: Any) -> Any:
    def speed(joint_position: Any, force: Any) -> Any:
        return jnp.sum(
            artix.forward_dynamics(
                robot, dataclasses.replace(state, joint_position=joint_position), force
            )[-7:]
        )

    return jax.grad(speed, (0, 1))(state.joint_position, force)


#: Functions of a robot, a state and a force, and how many operations the arm and the quadruped may
#: take (measured numbers and 3 %): what is not folded any more is seen here.
_OF_ROBOTS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "mass_matrix": (lambda robot, state, _: artix.mass_matrix(robot, state), 2180, 3060),
    "inverse_dynamics": (artix.inverse_dynamics, 2700, 4360),
    "forward_dynamics": (artix.forward_dynamics, 3610, 6490),
    "step": (lambda robot, state, _: artix.step(robot, state, None, 0.002), 11_150, 29_140),
    "gradient": (_gradient, 7350, 13590),
}


@pytest.mark.parametrize("name", _OF_ROBOTS)
@pytest.mark.parametrize("robot_name", ["arm7", pytest.param("quadruped", marks=pytest.mark.slow)])
def test_functions_of_robots(robot_name: str, name: str) -> None:
    robot, state = _robot(robot_name)
    function, most_of_arm, most_of_quadruped = _OF_ROBOTS[name]
    force = np.random.default_rng(0).normal(size=robot.topology.nv)
    leaves = jax.tree.leaves((robot, state, force))
    count = len(jax.tree.leaves(robot))
    expected = jax.tree.leaves(jax.jit(function)(robot, state, force))
    closed = jax.make_jaxpr(lambda state, force: function(robot, state, force))(state, force)
    program = scalarize(closed, [1] * (len(leaves) - count), {})
    open_program = jax.make_jaxpr(function)(robot, state, force)
    known = {number: np.asarray(leaf) for number, leaf in enumerate(leaves[:count])}
    of_argument = scalarize(open_program, [0] * count + [1] * (len(leaves) - count), known)
    programs = [program, of_argument]
    if robot_name == "arm7":
        programs.append(depth_first(program))
    for made in programs:
        check_program(made)
        found = interpret(made, [np.asarray(leaf)[None] for leaf in leaves[count:]])
        for result, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                result[0], wanted, rtol=1e-9, atol=1e-10 * (1 + np.abs(wanted).max(initial=0))
            )
    most = most_of_arm if robot_name == "arm7" else most_of_quadruped
    assert program.size <= most
    assert of_argument.size <= 1.05 * most


def test_a_program_shorter_than_the_array_of_which_it_reads_an_entry() -> None:
    program = fewest_live(
        scalarize(jax.make_jaxpr(lambda x: 2.0 * x[900])(np.zeros(1_000)), [1], {})
    )
    x = np.arange(3_000.0).reshape(3, 1_000)
    np.testing.assert_array_equal(interpret(program, [x])[0], 2.0 * x[:, 900])


def test_known_indices_make_no_scalars_of_other_entries() -> None:
    def entries(x):
        return x.at[np.array([3, 900_000, 2_000_000])].get(mode="fill", fill_value=7.0)

    x = np.arange(1_000_000.0)
    program = scalarize(jax.make_jaxpr(entries)(x), [1], {}, max_operations=100)
    np.testing.assert_array_equal(interpret(program, [x[None]])[0], [[3.0, 900_000.0, 7.0]])


def test_reductions_of_nothing() -> None:
    def smallest(x):
        return (
            jnp.min(jnp.concatenate([x[:0], jnp.zeros(0, x.dtype)]), initial=3.0)
            + jnp.max(x[:0], initial=-4.0)
            + x
        )

    x = np.arange(2.0)
    program = scalarize(jax.make_jaxpr(smallest)(x), [1], {})
    np.testing.assert_array_equal(interpret(program, [x[None]])[0], (x - 1.0)[None])


def _over_pairs(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: function(x[:, None] + 0 * x, x + 0 * x[:, None])


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (_over_pairs(lax.div), np.array([0, 1, -1, 7, -7, 2, -(2**31), 2**31 - 1], np.int32)),
        (_over_pairs(lax.rem), np.array([0, 1, -1, 7, -7, 2, -(2**31), 2**31 - 1], np.int32)),
        (
            lambda x: lax.convert_element_type(x, np.int32),
            np.array([np.nan, np.inf, -np.inf, 3e9, -1.5], np.float32),
        ),
        (
            lambda x: x.astype(np.int8).astype(np.int32),
            np.array([np.nan, np.inf, 200.0, -200.0, 1.5], np.float32),
        ),
        (lambda x: lax.reduce(x, np.int32(0), lax.bitwise_or, (0,)), np.array([4, 9], np.int32)),
        (lambda x: lax.reduce(x, np.int32(-1), lax.bitwise_and, (0,)), np.array([4, 13], np.int32)),
        (lambda x: x.at[1].apply(jnp.cos), np.array([1.0, 2.0])),
    ],
)
def test_known_arguments_give_what_xla_gives(
    function: Callable[..., Any], values: np.ndarray
) -> None:
    """Also where arithmetic has no result."""
    program = scalarize(jax.make_jaxpr(function)(values), [1], {0: values})
    np.testing.assert_array_equal(interpret(program, [])[0][0], jax.jit(function)(values))


def test_arguments_of_no_entries() -> None:
    none, x = np.zeros((3, 0)), np.arange(3.0)
    sums = jax.make_jaxpr(lambda none, x: jnp.sum(none, axis=1) + 2.0 * x)(none, x)
    np.testing.assert_array_equal(
        interpret(scalarize(sums, [1, 1], {}), [none[None], x[None]])[0], 2.0 * x[None]
    )
    transposed = scalarize_transpose(sums, 0, [0, 1], [0], [1], {})
    for found, wanted in zip(interpret(transposed, [x[None]]), (none, 2.0 * x), strict=True):
        np.testing.assert_array_equal(found, wanted[None])
