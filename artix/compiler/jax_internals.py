"""The insides of JAX and of CPython that artix depends on; the only module that uses JAX's private
names, but for :mod:`artix.math.traces`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import jax
from jax import lax
from jax._src import checkify as _checkify
from jax._src import config as _config
from jax._src import core as _core
from jax._src import dispatch as _dispatch
from jax._src import mesh as _mesh
from jax._src import source_info_util as _sources
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import partial_eval as _partial_eval
from jax.extend.core import Literal
from jax.interpreters.partial_eval import dce_jaxpr

from artix.math.traces import quickly

# --- the context of a trace ----------------------------------------------------------------------


#: JAX traces a function again where this differs: within a program it consists of operations,
#: elsewhere of programs.
_within_program: Any = jax.make_user_context(False)


@contextlib.contextmanager
def clean_context(within_program: bool = True) -> Iterator[None]:
    """Within this context, JAX traces as it does outside ``jax.shard_map``, without a mesh and by
    its default rules.

    JAX's public functions can set a mesh while tracing, but not unset it.

    All operations have one place in the source, that of the call. JAX would walk the stack for each
    of them, a twentieth of the time of a trace.
    """
    with (
        _one_place(),
        _mesh.use_abstract_mesh(_mesh.empty_abstract_mesh),
        jax.numpy_rank_promotion("allow"),
        _within_program(within_program),
    ):
        yield


@contextlib.contextmanager
def _one_place() -> Iterator[None]:
    """Within this context, JAX takes all operations to be written where it is entered."""
    here: Any = _sources._source_info_context
    before, here.context = here.context, _sources.current()
    try:
        yield
    finally:
        here.context = before


def types_of_64_bits(are_needed: bool) -> contextlib.AbstractContextManager[Any]:
    """Within this context JAX has types of 64 bits, if they are needed, whatever the caller's
    setting.

    Derivatives are traced when they are lowered, which may be outside the ``jax.enable_x64`` of the
    function.
    """
    return _config.enable_x64(True) if are_needed else contextlib.nullcontext()


def without_varying_check() -> contextlib.AbstractContextManager[Any]:
    """Within this context, ``jax.shard_map`` lets the operands of an operation vary over different
    devices.

    Programs are traced without devices, so their constants do not vary over any.
    """
    return _config._check_vma(False)


def is_staging() -> bool:
    """Whether JAX is tracing a program (for ``jax.jit``, a loop, ...), possibly below ``vmap`` and
    ``jvp``.
    """
    trace: Any = _core.trace_ctx.trace
    while trace is not None:
        if isinstance(trace, _partial_eval.DynamicJaxprTrace):
            return True
        trace = getattr(trace, "parent_trace", None)
    return False


# --- primitives ---------------------------------------------------------------------------------


def partition_when_lowered(primitive: Any) -> None:
    """Lets the lowering of a primitive know its devices, which ``custom_partitioning`` needs."""
    _dispatch.prim_requires_devices_during_lowering.add(primitive)


def check_results_for_nan(primitive: Any) -> None:
    """Lets ``jax.experimental.checkify`` look for NaN in the results of a primitive."""
    _checkify.error_checks[primitive] = functools.partial(_checkify.nan_error_check, primitive)


def linearize_by(primitive: Any, rule: Callable[..., Any]) -> None:
    """Sets how a primitive is linearised; without a rule, JAX traces its tangents each time.

    Args:
      primitive: the primitive.
      rule: the results at some operands, and a function from the operands' tangents to those of the
        results; its arguments are the operands, and the primitive's parameters by name.
    """

    def linearize(_: bool, __: Sequence[bool], *operands: Any, **parameters: Any) -> Any:
        results, tangents_of = rule(*operands, **parameters)
        are_floats = [jax.numpy.issubdtype(result.dtype, jax.numpy.floating) for result in results]
        if jax.__version_info__ < (0, 11, 1):
            return results, are_floats, (), lambda _, *tangents: tangents_of(tangents)
        return results, are_floats, (), None, lambda _, __, *tangents: tangents_of(tangents)

    _ad.primitive_linearizations[primitive] = linearize


def generator_of(key: Any) -> Any:
    """The generator of a random key, or of its type: functions of the words of one key, and their
    shape.
    """
    return key.dtype._impl


# --- arrays on several devices ------------------------------------------------------------------

# Within ``jax.shard_map``, JAX tracks the mesh axes over which each array varies, and requires all
# operands of an operation to vary over the same axes. The functions of ``jax.numpy`` and
# ``jax.lax`` ensure this; directly bound primitives and the carries of loops do not.


_Tree = TypeVar("_Tree")


def match_varying_axes(tree: _Tree, *others: Any) -> _Tree:
    """The pytree, with every array varying over all axes over which any array in it or in the
    others varies.
    """
    axes = frozenset[Any]().union(*map(_varying_axes, jax.tree.leaves((tree, others))))
    if not axes:
        return tree
    return jax.tree.map(lambda leaf: _varying(leaf, tuple(axes - _varying_axes(leaf))), tree)


def type_like(others: Sequence[Any], shape: tuple[int, ...], dtype: Any) -> Any:
    """The type of an array that varies over the same devices as the arrays of these types, which
    all agree.
    """
    for other in others:
        if _axes_of_type(other):
            sharding = other.sharding.update(
                spec=jax.sharding.PartitionSpec(*(None for _ in shape))
            )
            return other.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)
    return jax.core.ShapedArray(shape, dtype)


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    start: Any,
    items: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """``jax.lax.scan`` whose carry may start as a constant and later vary over devices."""
    return lax.scan(quickly(body), match_varying_axes(start, items), items, length, reverse, unroll)


def _varying_axes(array: Any) -> frozenset[Any]:
    # Only arrays that are being traced vary over axes of a mesh. Asking the others for their types
    # takes longer.
    return _axes_of_type(jax.typeof(array)) if isinstance(array, jax.core.Tracer) else frozenset()


def _axes_of_type(kind: Any) -> frozenset[Any]:
    return kind.manual_axis_type.varying


def _varying(array: Any, axes: tuple[Any, ...]) -> Any:
    return lax.pcast(array, axes, to="varying") if axes else array


# --- long calls ---------------------------------------------------------------------------------

# Tracing, scalarising and writing code for LLVM call a great many functions, for seconds. Two
# habits of CPython would multiply their time. It keeps frames in pieces of memory of 16 kB;
# whenever a call does not fit into the last piece, it asks the system for another, and gives it
# back on return. A loop that calls functions at just such a depth makes two system calls an
# iteration and takes up to a hundred times as long. And it searches everything that a program has
# built for cycles again and again: nothing is searched during the call, and what remains of it,
# which has hardly any cycles, then counts as old.


_Function = TypeVar("_Function", bound=Callable[..., Any])

#: A frame of this many words gets a piece of memory of twice as many, since CPython rounds up to a
#: power of two.
_WORDS = 2**16


def long_call(function: _Function) -> _Function:
    """Decorator: while the function runs, no garbage is collected, and frames of about 2,000 nested
    calls lie together.

    Args:
      function: any function.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        is_enabled = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if is_enabled:
                if not gc.get_freeze_count():  # Of the caller, whose objects stay frozen.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()

    # The system provides no memory for what is never written.
    code = call.__code__.replace(co_stacksize=_WORDS)
    roomy = types.FunctionType(code, globals(), call.__name__, None, call.__closure__)
    return cast(_Function, functools.wraps(function)(roomy))


def scan_counts(equation: Any) -> tuple[int, int]:
    """How many constants a ``lax.scan`` has, and how many values it carries.

    JAX 0.12 does not say so; what is scanned has one axis more outside of the loop than inside.
    """
    body = getattr(equation.params["jaxpr"], "jaxpr", equation.params["jaxpr"])

    def scanned(outer: Sequence[Any], inner: Sequence[Any]) -> int:
        return sum(len(x.aval.shape) > len(y.aval.shape) for x, y in zip(outer, inner, strict=True))

    num_carried = len(equation.outvars) - scanned(equation.outvars, body.outvars)
    return len(equation.invars) - num_carried - scanned(equation.invars, body.invars), num_carried


def without_unused(
    jaxpr: Any, is_used: Sequence[bool], instantiate: Sequence[bool]
) -> tuple[Any, list[bool]]:
    """As JAX's ``dce_jaxpr``, but an equation all of whose results are used stays as it is, with
    the programs that it calls.

    JAX searches these as well, rules for derivatives among them, and each time anew, and calls of
    one program become calls of several: with that the derivative of ten steps of a quadruped took
    1.15 times as long to trace, and its scalars are the same.

    Args:
      jaxpr: an open jaxpr.
      is_used: which of its results are wanted.
      instantiate: which of its arguments stay in any case.

    Returns:
      The shorter jaxpr, and which arguments it has.
    """
    results = [each for each, is_one in zip(jaxpr.outvars, is_used, strict=True) if is_one]
    used = set(_variables(results))
    equations = []
    for equation in reversed(jaxpr.eqns):
        are_used = [variable in used for variable in equation.outvars]
        if not any(are_used) and not equation.effects:
            continue
        rest = [equation]
        if not all(are_used):
            arguments = [*dict.fromkeys(_variables(equation.invars))]
            alone = jaxpr.replace(
                constvars=[], invars=arguments, outvars=equation.outvars, eqns=rest
            )
            rest = dce_jaxpr(alone, are_used)[0].eqns
        equations += reversed(rest)
        used.update(*(_variables(each.invars) for each in rest))
    stays = [
        variable in used or is_one
        for variable, is_one in zip(jaxpr.invars, instantiate, strict=True)
    ]
    arguments = [each for each, is_one in zip(jaxpr.invars, stays, strict=True) if is_one]
    shorter = jaxpr.replace(invars=arguments, outvars=results, eqns=equations[::-1])
    return shorter, stays


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]
