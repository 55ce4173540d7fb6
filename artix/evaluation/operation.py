"""The one operation as which programs of robots are evaluated: a JAX primitive for a program and a batch.

A value and a derivative are the same: a value is a program without tangents. Batches are no arrays of intermediates but
a part of the operation, so that whatever evaluates it, a kernel or XLA, sees the program of one robot and how many
robots there are. What derivatives need of values they compute again: between a rollout and its gradient nothing but
arguments is kept.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import dispatch
from jax.experimental.jet import jet_rules
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

from artix.evaluation.batch_axes import Axes, Axis
from artix.evaluation.clean_context import all_devices_alike
from artix.evaluation.compilation import cpu_kernel
from artix.evaluation.devices import type_like, varying_alike
from artix.evaluation.gpu_compilation import gpu_call
from artix.evaluation.partitioning import call_partitioned
from artix.evaluation.program import Program

Array = jax.Array


program_p = Primitive("artix_program")
program_p.multiple_results = True


def evaluate(program: Program, operands: Sequence[Any], axes: Axes = ()) -> list[Array]:
    """The results of a program, or of a batch of it."""
    return program_p.bind(*varying_alike(tuple(operands)), program=program, axes=axes)


def evaluate_by_xla(*operands: Any, program: Program, axes: Axes) -> list[Array]:
    """The same, operation by operation: what :func:`evaluate` means, and how it is done where there is no kernel."""
    function: Any = program
    for axis in reversed(axes):
        places = tuple(0 if is_mapped else None for is_mapped in axis.mapped)
        function = jax.vmap(function, in_axes=places, out_axes=0, axis_size=axis.size)
    with all_devices_alike():
        return list(function(*operands))


@functools.partial(jax.jit, static_argnames=("program", "axes"))
def _compiled(*operands: Array, program: Program, axes: Axes) -> list[Array]:
    return evaluate(program, operands, axes)


class _Running(threading.local):
    """Whether this thread runs a program that is not part of a compiled one."""

    active = False


_running = _Running()


def _impl(*operands: Array, program: Program, axes: Axes) -> list[Array]:
    if _running.active:  # ``jax.debug_nans`` looks for the operation that is to blame.
        return evaluate_by_xla(*operands, program=program, axes=axes)
    _running.active = True
    try:
        with jax.disable_jit(False):
            return _compiled(*operands, program=program, axes=axes)
    finally:
        _running.active = False


def _result_types(*operands: Any, program: Program, axes: Axes) -> list[Any]:
    sizes = tuple(axis.size for axis in axes)
    return [type_like(operands, (*sizes, *result.shape), result.dtype) for result in program.result_types]


def _jvp(
    primals: Sequence[Array], tangents: Sequence[Any], *, program: Program, axes: Axes
) -> tuple[list[Array], list[Any]]:
    found = evaluate(program, primals, axes)
    moving = [number for number, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    count = program.num_operand_values
    if moving[0] >= count:
        instantiated = [ad.instantiate_zeros(tangent) for tangent in tangents[count:]]
        return found, evaluate(program, [*primals[:count], *instantiated], axes)
    along = [tangents[number] for number in moving]
    axes = tuple(Axis(size, (*mapped, *(mapped[number] for number in moving))) for size, mapped in axes)
    changes = evaluate(program.derivative(moving), [*primals, *along], axes)
    return found, [_tangent_of(value, change) for value, change in zip(found, changes, strict=True)]


def _tangent_of(value: Array, change: Array) -> Any:
    """Results that are no real numbers do not change."""
    return change if jnp.issubdtype(value.dtype, jnp.floating) else ad.Zero(jax.typeof(value).to_tangent_aval())


def _transpose(cotangents: Sequence[Any], *operands: Any, program: Program, axes: Axes) -> list[Any]:
    count = program.num_operand_values
    if any(ad.is_undefined_primal(operand) for operand in operands[:count]):
        return _transpose_of_values(cotangents, operands, program, axes)
    seen = [number for number, cotangent in enumerate(cotangents) if not isinstance(cotangent, ad.Zero)]
    asked = [number for number in range(count, len(operands)) if ad.is_undefined_primal(operands[number])]
    backward = program.transpose(asked, seen)
    given = [*operands[:count], *(cotangents[number] for number in seen)]
    new_axes = tuple(Axis(axis.size, (*axis.mapped[:count], *(True for _ in seen))) for axis in axes)
    results: list[Any] = [None] * len(operands)
    for number, result in zip(asked, evaluate(backward, given, new_axes), strict=True):
        same_for = tuple(place for place, axis in enumerate(axes) if not axis.mapped[number])
        results[number] = jnp.sum(result, axis=same_for) if same_for else result
    return results


def _transpose_of_values(cotangents: Sequence[Any], operands: Sequence[Any], program: Program, axes: Axes) -> list[Any]:
    """By the derivative along what the program is linear in, which is the same everywhere."""
    asked = [number for number, operand in enumerate(operands) if ad.is_undefined_primal(operand)]
    if len(operands) > program.num_operand_values or not program.is_linear_in(asked):
        raise TypeError(
            f"{program.name} is not linear in an argument by which it is to be transposed: jax.linear_transpose takes "
            "linear functions alone; the transpose of the derivative at a point is that of jax.vjp"
        )
    at_zero = [jnp.zeros(x.aval.shape, x.aval.dtype) if ad.is_undefined_primal(x) else x for x in operands]
    wider = tuple(Axis(size, (*mapped, *(mapped[number] for number in asked))) for size, mapped in axes)
    along = [operands[number] for number in asked]
    found = _transpose(cotangents, *at_zero, *along, program=program.derivative(asked), axes=wider)[len(operands) :]
    results: list[Any] = [None] * len(operands)
    for number, result in zip(asked, found, strict=True):
        results[number] = result
    return results


def _refuse_jet(primals_in: Any, series_in: Any, **params: Any) -> Any:
    raise NotImplementedError(
        f"{params['program'].name} has no rule for Taylor series: jax.experimental.jet does not enter functions of "
        "artix; nest jax.jvp instead, once for each order"
    )


def _batch(
    operands: Sequence[Array], dims: Sequence[Any], *, program: Program, axes: Axes
) -> tuple[list[Array], list[int]]:
    mapped = tuple(dim is not None for dim in dims)
    operands = [jnp.moveaxis(x, dim, 0) if m else x for x, dim, m in zip(operands, dims, mapped, strict=True)]
    size = next(x.shape[0] for x, is_mapped in zip(operands, mapped, strict=True) if is_mapped)
    if not isinstance(size, int):  # Programs for export may have symbols as sizes.
        places = tuple(0 if is_mapped else None for is_mapped in mapped)
        function = functools.partial(evaluate_by_xla, program=program, axes=axes)
        found = jax.vmap(function, in_axes=places, axis_size=size)(*operands)
        return found, [0] * len(found)
    outer = Axis(size, mapped)
    if not axes or (len(axes) == 1 and _is_of_tangents(program, axes[0]) and not _is_of_tangents(program, outer)):
        found = evaluate(program, operands, (outer, *axes))
        return found, [0] * len(found)
    inner, rest = axes[0], axes[1:]
    either = tuple(a or b for a, b in zip(mapped, inner.mapped, strict=True))
    merged = [_merged(outer, inner, number, x) for number, x in enumerate(operands)]
    found = evaluate(program, merged, (Axis(size * inner.size, either), *rest))
    return [x.reshape(size, inner.size, *x.shape[1:]) for x in found], [0] * len(found)


def _is_of_tangents(program: Program, axis: Axis) -> bool:
    """Whether a batch has many tangents at one point, where values are computed once."""
    return not any(axis.mapped[: program.num_operand_values])


def _merged(outer: Axis, inner: Axis, number: int, array: Array) -> Array:
    """[outer, inner, ...] as [outer inner, ...]; what depends on neither stays as it is."""
    if not (outer.mapped[number] or inner.mapped[number]):
        return array
    array = array if outer.mapped[number] else array[None]
    array = array if inner.mapped[number] else array[:, None]
    rest = array.shape[2:]
    return jnp.broadcast_to(array, (outer.size, inner.size, *rest)).reshape(outer.size * inner.size, *rest)


def _dce(used: list[bool], *rest: Any) -> tuple[list[bool], Any]:
    """Results at which nobody looks are not computed."""
    equation = rest[-1]  # Since JAX 0.12 what is live comes before it.
    if not any(used):
        return [False] * len(equation.invars), None
    if all(used):
        return [True] * len(equation.invars), equation
    program = equation.params["program"].selected([number for number, is_used in enumerate(used) if is_used])
    outvars = [variable for variable, is_used in zip(equation.outvars, used, strict=True) if is_used]
    return [True] * len(equation.invars), equation.replace(
        outvars=outvars, params=equation.params | {"program": program}
    )


def _lower_by_xla(context: Any, *operands: Any, program: Program, axes: Axes) -> Any:
    """Operation by operation, as for one device of ``jax.shard_map``: a traced program knows of no others."""
    types = {name: [_type_alone(kind) for kind in getattr(context, name)] for name in ("avals_in", "avals_out")}
    lower = mlir.lower_fun(evaluate_by_xla, multiple_results=True)
    return lower(context.replace(**types), *operands, program=program, axes=axes)


def _type_alone(kind: Any) -> Any:
    return jax.core.ShapedArray(kind.shape, kind.dtype)


def _lower_for_cpu(context: Any, *operands: Any, program: Program, axes: Axes) -> Any:
    """A kernel, where there can be one; exports hold nothing of the machine that makes them."""
    module = context.module_context
    batches = axes or (Axis(1, (True,) * len(operands)),)
    levels = levels_of(batches, len(operands))
    kernel = None if module.lowering_parameters.for_export else cpu_kernel(program, levels)
    if kernel is None:
        return _lower_by_xla(context, *operands, program=program, axes=axes)
    if getattr(module.axis_context, "num_devices", 1) > 1 and not _is_manual(module.axis_context):
        partitioned = functools.partial(call_partitioned, kernel, program, axes)
        return mlir.lower_fun(partitioned, multiple_results=True)(context, *operands)
    if axes:
        return jax.ffi.ffi_lowering(kernel)(context, *operands)
    return mlir.lower_fun(functools.partial(_call_for_one, kernel, program), multiple_results=True)(context, *operands)


def _call_for_one(kernel: str, program: Program, *operands: Any) -> list[Any]:
    """A batch of one."""
    shapes = [jax.ShapeDtypeStruct((1, *kind.shape), kind.dtype) for kind in program.result_types]
    with all_devices_alike():
        results = jax.ffi.ffi_call(kernel, shapes)(*(x[None] for x in operands))
        return [result.reshape(kind.shape) for result, kind in zip(results, program.result_types, strict=True)]


def _lower_for_cuda(context: Any, *operands: Any, program: Program, axes: Axes) -> Any:
    """A kernel, where they are asked for and the batch is on one device; else operation by operation."""
    module, call = context.module_context, None
    alone = getattr(module.axis_context, "num_devices", 1) == 1 or _is_manual(module.axis_context)
    if alone and not module.lowering_parameters.for_export:
        call = gpu_call(program, levels_of(axes, len(operands)), axes)
    if call is None:
        return _lower_by_xla(context, *operands, program=program, axes=axes)
    return jax.ffi.ffi_lowering(call.target)(context, *operands, **call.attributes)


def _is_manual(axis_context: Any) -> bool:
    """Whether the program is that of one device of ``jax.shard_map``."""
    return getattr(axis_context, "manual_axes", None) == frozenset(
        getattr(getattr(axis_context, "mesh", None), "axis_names", ())
    )


def levels_of(axes: Axes, count: int) -> tuple[int, ...]:
    """Of each operand, the innermost batch by which it is mapped; see :class:`ScalarProgram`."""
    levels = [0] * count
    for level, axis in enumerate(axes, start=1):
        levels = [level if is_mapped else found for found, is_mapped in zip(levels, axis.mapped, strict=True)]
    return tuple(levels)


program_p.def_impl(_impl)
program_p.def_abstract_eval(_result_types)
ad.primitive_jvps[program_p] = _jvp
ad.primitive_transposes[program_p] = _transpose
batching.primitive_batchers[program_p] = _batch
pe.dce_rules[program_p] = _dce
jet_rules[program_p] = _refuse_jet
# As ``custom_partitioning``, which is called for batches on several devices: it wants to know them.
dispatch.prim_requires_devices_during_lowering.add(program_p)
mlir.register_lowering(program_p, _lower_by_xla)
mlir.register_lowering(program_p, _lower_for_cpu, platform="cpu")
mlir.register_lowering(program_p, _lower_for_cuda, platform="cuda")
