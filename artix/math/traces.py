"""How functions are traced: as a whole, once for many calls, and in two thirds of JAX's time.

JAX makes each operator of arrays, and each index, a function of its own for ``jax.jit``: for new
shapes it is traced, then its operations are copied, in three times the time of the operations
alone. A function of :func:`quickly` gets arrays whose operators are functions of ``jax.lax``, which
trace the same, where their operands have one type; all others are JAX's. A quadruped's step on the
ground has 3,400 of them (0.7 of the time; JAX 0.10, November 2026). To record operations as those
of the same types were recorded, without JAX, was no quicker.

Next to :mod:`artix.compiler.jax_internals`, this is the only module that uses JAX's private names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import core as _core
from jax._src import linear_util as _functions
from jax._src import source_info_util as _sources
from jax._src.interpreters import partial_eval as _partial_eval

Array = jax.Array
A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_Function = TypeVar("_Function", bound=Callable[..., Any])

_JaxArray: Any = _partial_eval.DynamicJaxprTracer
_JaxTrace: Any = _partial_eval.DynamicJaxprTrace
#: Operations that have rules of their own for traces.
_STAGED: Any = _partial_eval.custom_staging_rules
_FOLDED: Any = _partial_eval.const_fold_rules


def quickly(function: _Function) -> _Function:
    """Decorator: the same function, traced quickly where JAX traces it."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        outer = _core.trace_ctx.trace
        if type(outer) is not _JaxTrace:
            return function(*args, **kwargs)
        trace = _Trace(outer)
        args, kwargs = jax.tree.map(trace.inside, (args, kwargs))
        with _core.set_current_trace(trace):
            results = function(*args, **kwargs)
        return jax.tree.map(trace.outside, results)

    return cast(_Function, call)


@_functions.transformation2
def _quickly(function: Callable[..., Any], *args: Any) -> Any:
    return quickly(function)(*args)


def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], start: Any) -> Any:
    """``jax.lax.while_loop``, traced quickly."""
    return lax.while_loop(quickly(condition), quickly(body), start)


def if_needed(is_needed: Array, function: Callable[[A], T], argument: A, otherwise: T) -> T:
    """What a function returns where it is needed: a loop of one turn, which a vector enters if one
    robot has to.

    A kernel computes what does not change in a loop before it, so the argument gets a factor of 1
    that changes.
    """
    one = jnp.ones_like(jax.tree.leaves(argument)[0], shape=())

    def body(state: tuple[T, Array, Array]) -> tuple[T, Array, Array]:
        _, one, is_needed = state
        done = jnp.zeros_like(is_needed)
        return function(jax.tree.map(lambda x: one * x, argument)), one + 1, done

    return while_loop(lambda state: state[2], body, (otherwise, one, is_needed))[0]


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function as a whole; inside an outer trace it is inlined.

    Run operation by operation, a function of many small operations takes seconds on its first call
    and milliseconds afterwards (a Jacobian of SE(3): 11 s and 0.1 s). An outer trace takes its
    operations from the trace of the first call with arguments of these shapes: the step of a
    quadruped makes 45 rotation matrices, and is traced in half the time, 0.26 s.
    """
    return _as_a_whole(function, inline=True)


def shared(function: Callable[P, R]) -> Callable[P, R]:
    """As :func:`compiled`, for functions that a program calls again and again: an outer trace gets
    a call, and equal calls become one.

    Inlined, their operations were most of what JAX traced: a quadruped's step on the ground calls
    :func:`artix.kinematics.kinematics` 23 times, with 536 operations each, and its derivative was
    traced for each of them.
    """
    return _as_a_whole(function, inline=False)


def _as_a_whole(function: Callable[P, R], *, inline: bool) -> Callable[P, R]:
    program = jax.jit(quickly(function), inline=inline)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return program(*args, **kwargs)

    return call


# --- quick traces -------------------------------------------------------------------------------


class _Array(_JaxArray):
    """An array that is traced. Its operators are set below."""

    __slots__ = ("origin",)  # Keeps the same array of JAX's trace, and so its value if known.


class _Trace(_JaxTrace):
    """Adds what it traces to one of JAX's traces, whose frame it shares."""

    __slots__ = ("outer",)

    def __init__(self, outer: Any) -> None:
        frame = outer.frame
        super().__init__(frame.debug_info, outer.parent_trace, outer.requires_low, frame.auto_dce)
        self.frame = frame  # type: ignore[misc]
        self.outer = outer

    def to_jaxpr_tracer(self, x: Any, source_info: Any) -> Any:
        if isinstance(x, _JaxArray) and (x._trace is self or x._trace is self.outer):
            return x
        return super().to_jaxpr_tracer(x, source_info)

    def var_to_tracer(self, var: Any, source_info: Any, parent: Any = None) -> Any:
        if not _is_plain(var.aval):
            return super().var_to_tracer(var, source_info, parent)
        return _Array(self, var.aval, var, source_info, parent)

    def process_primitive(self, primitive: Any, arrays: Any, parameters: Any, /) -> Any:
        """As JAX's, in less time for operations on arrays with one result and without rules of
        their own.
        """
        is_special = primitive.multiple_results or primitive.ref_primitive
        if is_special or primitive in _STAGED or primitive in _FOLDED:
            return super().process_primitive(primitive, arrays, parameters)
        source = _sources.current()
        inputs = [self.to_jaxpr_tracer(x, source) for x in arrays]
        kinds = [x.aval for x in inputs]
        kind, effects = _partial_eval._cached_abstract_eval(primitive, *kinds, **parameters)
        return self.emit_eqn(inputs, [kind], primitive, parameters, effects, source)[0]

    def process_custom_jvp_call(
        self, primitive: Any, function: Any, rule: Any, arrays: Any, /, **parameters: Any
    ) -> Any:
        return super().process_custom_jvp_call(
            primitive, _quickly(function), _quickly(rule), arrays, **parameters
        )

    def inside(self, x: Any) -> Any:
        """An array of JAX's trace as one of this trace."""
        if type(x) is not _JaxArray or x._trace is not self.outer or not _is_plain(x.aval):
            return x
        array = _Array(self, x.aval, x.val, x._line_info, x.parent)
        array.origin = x
        return array

    def outside(self, x: Any) -> Any:
        """An array of this trace as one of JAX's trace."""
        if not isinstance(x, _JaxArray) or x._trace is not self:
            return x
        constant = self.get_const(x)
        if constant is not None:
            return constant
        return _JaxArray(self.outer, x.aval, x.val, x._line_info, x.parent)


def _is_plain(kind: Any) -> bool:
    """Whether it is the type of an array of numbers, not of references or keys."""
    return type(kind) is jax.core.ShapedArray and isinstance(kind.dtype, np.dtype)


_core.pytype_aval_mappings[_Array] = lambda array: array.aval


# --- operators ----------------------------------------------------------------------------------


def _unary(name: str, operation: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """An operator of an array of a kind of types."""
    usual = getattr(_JaxArray, name)

    def operator(x: Any) -> Any:
        is_plain = x.aval.dtype.kind == kind and not x.aval.weak_type
        return operation(x) if is_plain else usual(x)

    return operator


def _binary(name: str, operation: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """An operator of two arrays of one type of a kind, whose rank ``jax.numpy`` does not promote,
    or of an array of floats and a number of Python.
    """
    usual, is_reversed = getattr(_JaxArray, name), name.startswith("__r")

    def operator(x: Any, y: Any) -> Any:
        first = x.aval
        if first.dtype.kind != kind or first.weak_type:
            return usual(x, y)
        if isinstance(y, jax.core.Tracer):
            other: Any = y.aval
            is_same = other.dtype == first.dtype and not other.weak_type
            if not is_same or len({0, len(first.shape), len(other.shape)}) > 2:
                return usual(x, y)
        elif kind == "f" and type(y) in (int, float):
            y = first.dtype.type(y)
        else:
            return usual(x, y)
        return operation(y, x) if is_reversed else operation(x, y)

    return operator


def _item(x: Any, index: Any) -> Any:
    """``x[index]`` for whole numbers, ranges and new axes."""
    usual, shape = _JaxArray.__getitem__, x.aval.shape
    starts, ends, dropped, new = list[int](), list[int](), list[int](), list[int]()
    for part in index if type(index) is tuple else (index,):
        axis = len(starts)
        if part is None:
            new.append(axis - len(dropped) + len(new))
            continue
        size = shape[axis] if axis < len(shape) else None
        if type(size) is not int:
            return usual(x, index)
        if type(part) is int and -size <= part < size:
            start, end = part % size, part % size + 1
            dropped.append(axis)
        elif type(part) is slice and {*map(type, (part.start, part.stop))} <= _BOUNDS:
            start, end, step = part.indices(size)
            if step != 1:
                return usual(x, index)
        else:
            return usual(x, index)
        starts.append(start)
        ends.append(max(start, end))
    rest = shape[len(starts) :]
    starts += [0] * len(rest)
    if any(starts) or (*ends, *rest) != shape:
        x = lax.slice(x, starts, (*ends, *rest))
    x = lax.squeeze(x, dropped) if dropped else x
    return lax.expand_dims(x, new) if new else x


_BOUNDS = {int, type(None)}
_UNARY: dict[str, tuple[Callable[..., Any], str]] = {
    "__neg__": (lax.neg, "f"),
    "__abs__": (lax.abs, "f"),
    "__invert__": (lax.bitwise_not, "b"),
}
_BINARY: dict[str, tuple[Callable[..., Any], str]] = {
    "__add__": (lax.add, "f"),
    "__radd__": (lax.add, "f"),
    "__sub__": (lax.sub, "f"),
    "__rsub__": (lax.sub, "f"),
    "__mul__": (lax.mul, "f"),
    "__rmul__": (lax.mul, "f"),
    "__truediv__": (lax.div, "f"),
    "__rtruediv__": (lax.div, "f"),
    "__gt__": (lax.gt, "f"),
    "__ge__": (lax.ge, "f"),
    "__lt__": (lax.lt, "f"),
    "__le__": (lax.le, "f"),
    "__and__": (lax.bitwise_and, "b"),
    "__or__": (lax.bitwise_or, "b"),
}
for _make, _operations in ((_unary, _UNARY), (_binary, _BINARY)):
    for _name, _of_kind in _operations.items():
        setattr(_Array, _name, _make(_name, *_of_kind))
setattr(_Array, "__getitem__", _item)  # noqa: B010
