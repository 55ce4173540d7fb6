"""The JAX primitive that evaluates programs of robots, for one robot or a batch.

Values and derivatives are evaluated in the same way: a value is a program without tangents. The
batch axes are a parameter of the operation, so that whatever evaluates it, a kernel or XLA (see
:mod:`artix.compiler.lowering`), sees the program of one robot and the number of robots. Derivatives
recompute the values that they need: only arguments are kept between a rollout and its gradient, and
what the program marks (:mod:`artix.compiler.kept_values`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.jet import jet_rules
from jax.extend.core import Primitive
from jax.interpreters import ad, batching
from jax.interpreters import partial_eval as pe

from artix.compiler.batch_axes import Axes, Axis
from artix.compiler.empty_arrays import Elements
from artix.compiler.jax_internals import (
    check_results_for_nan,
    linearize_by,
    match_varying_axes,
    partition_when_lowered,
    type_like,
    without_varying_check,
)
from artix.compiler.program import Program, replaced

Array = jax.Array


program_p = Primitive("artix_program")
program_p.multiple_results = True


def evaluate(program: Program, operands: Sequence[Any], axes: Axes = ()) -> list[Array]:
    """The results of a program, for one robot or a batch."""
    return program_p.bind(*match_varying_axes(tuple(operands)), program=program, axes=axes)


def evaluate_by_xla(
    *operands: Any, program: Program, axes: Axes, without_empty: bool = False
) -> list[Array]:
    """:func:`evaluate`, operation by operation: its definition, and its implementation where there
    is no kernel; if wanted, ``without_empty`` arrays.
    """
    function: Any = program
    if without_empty:
        elements = Elements(program.has_kernel)
        function = lambda *each: elements.evaluate(program.jaxpr, *program.arguments(each))  # noqa: E731
    for axis in reversed(axes):
        in_axes = tuple(0 if is_mapped else None for is_mapped in axis.mapped)
        function = jax.vmap(function, in_axes=in_axes, out_axes=0, axis_size=axis.size)
    with without_varying_check():
        return list(function(*operands))


@functools.partial(jax.jit, static_argnames=("program", "axes"))
def _run_compiled(*operands: Array, program: Program, axes: Axes) -> list[Array]:
    return evaluate(program, operands, axes)


class _Running(threading.local):
    """Whether this thread is running an operation outside compiled functions."""

    active = False


_running = _Running()


def _run(*operands: Array, program: Program, axes: Axes) -> list[Array]:
    if (
        _running.active
    ):  # ``jax.debug_nans`` runs it again to find the operation that produced the NaN.
        return evaluate_by_xla(*operands, program=program, axes=axes)
    _running.active = True
    try:
        with jax.disable_jit(False):
            return _run_compiled(*operands, program=program, axes=axes)
    finally:
        _running.active = False


def _result_types(*operands: Any, program: Program, axes: Axes) -> list[Any]:
    sizes = tuple(axis.size for axis in axes)
    return [
        type_like(operands, (*sizes, *result.shape), result.dtype)
        for result in program.result_types
    ]


def _jvp(
    primals: Sequence[Array], tangents: Sequence[Any], *, program: Program, axes: Axes
) -> tuple[list[Array], list[Any]]:
    results, kept = _evaluate_and_keep(primals, program, axes)
    return results, _tangents(results, primals, kept, tangents, program, axes)


def _linearize(*primals: Array, program: Program, axes: Axes) -> tuple[list[Array], Any]:
    results, kept = _evaluate_and_keep(primals, program, axes)
    return results, lambda tangents: _tangents(results, primals, kept, tangents, program, axes)


def _evaluate_and_keep(
    primals: Sequence[Array], program: Program, axes: Axes
) -> tuple[list[Array], list[Array]]:
    """The results of a program, and what it keeps for its derivative."""
    if not program.kept_types:
        return evaluate(program, primals, axes), []
    *results, kept = evaluate(program.with_kept_results(), primals, axes)
    return results, [kept]


def _tangents(
    results: Sequence[Array],
    primals: Sequence[Array],
    kept: Sequence[Array],
    tangents: Sequence[Any],
    program: Program,
    axes: Axes,
) -> list[Any]:
    """The tangents of results."""
    varied = [index for index, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    num_values = program.num_operand_values
    if varied[0] >= num_values:
        instantiated = [ad.instantiate_zeros(tangent) for tangent in tangents[num_values:]]
        return list(evaluate(program, [*primals[:num_values], *instantiated], axes))
    directions = [tangents[index] for index in varied]
    are_kept = (True,) * len(kept)
    # The operands that are not among what is kept.
    others = [place for place, index in enumerate(program.traced) if index not in program.carried]
    axes = tuple(
        Axis(size, (*(mapped[k] for k in others), *are_kept, *(mapped[k] for k in varied)))
        for size, mapped in axes
    )
    derivative = program.derivative_at_kept(varied) if kept else program.derivative(varied)
    changes = evaluate(derivative, [*(primals[k] for k in others), *kept, *directions], axes)
    return [tangent_of(value, change) for value, change in zip(results, changes, strict=True)]


def tangent_of(value: Array, change: Array) -> Any:
    """The tangent of a result, given its change; integers and booleans have zero tangents."""
    return (
        change
        if jnp.issubdtype(value.dtype, jnp.floating)
        else ad.Zero(jax.typeof(value).to_tangent_aval())
    )


def _transpose(
    cotangents: Sequence[Any], *operands: Any, program: Program, axes: Axes
) -> list[Any]:
    num_values = program.num_operand_values
    if any(ad.is_undefined_primal(operand) for operand in operands[:num_values]):
        return _transpose_of_values(cotangents, operands, program, axes)
    used = [
        index for index, cotangent in enumerate(cotangents) if not isinstance(cotangent, ad.Zero)
    ]
    linear = [
        index
        for index in range(num_values, len(operands))
        if ad.is_undefined_primal(operands[index])
    ]
    backward = program.transpose(linear, used)
    arguments = [*operands[:num_values], *(cotangents[index] for index in used)]
    new_axes = tuple(
        Axis(axis.size, (*axis.mapped[:num_values], *(True for _ in used))) for axis in axes
    )
    results: list[Any] = [None] * len(operands)
    for index, result in zip(linear, evaluate(backward, arguments, new_axes), strict=True):
        shared = tuple(position for position, axis in enumerate(axes) if not axis.mapped[index])
        results[index] = jnp.sum(result, axis=shared) if shared else result
    return results


def _transpose_of_values(
    cotangents: Sequence[Any], operands: Sequence[Any], program: Program, axes: Axes
) -> list[Any]:
    """Transposes the derivative along the operands in which the program is linear; it is the same
    everywhere.
    """
    linear = [index for index, operand in enumerate(operands) if ad.is_undefined_primal(operand)]
    if len(operands) > program.num_operand_values or not program.is_linear_in(linear):
        raise TypeError(
            f"{program.name} is not linear in an argument to be transposed: jax.linear_transpose "
            "takes only linear functions; use jax.vjp for the transpose of the derivative at a "
            "point"
        )
    at_zero = [
        jnp.zeros(x.aval.shape, x.aval.dtype) if ad.is_undefined_primal(x) else x for x in operands
    ]
    axes_of_derivative = tuple(
        Axis(size, (*mapped, *(mapped[index] for index in linear))) for size, mapped in axes
    )
    directions = [operands[index] for index in linear]
    derivative = program.derivative(linear)
    transposed = _transpose(
        cotangents, *at_zero, *directions, program=derivative, axes=axes_of_derivative
    )
    return replaced([None] * len(operands), linear, transposed[len(operands) :])


def _refuse_jet(primals_in: Any, series_in: Any, **params: Any) -> Any:
    raise NotImplementedError(
        f"{params['program'].name} has no rule for Taylor series: jax.experimental.jet does not "
        "support functions of artix; nest jax.jvp instead, once per order"
    )


def _batch(
    operands: Sequence[Array], dims: Sequence[Any], *, program: Program, axes: Axes
) -> tuple[list[Array], list[int]]:
    mapped = tuple(dim is not None for dim in dims)
    operands = [
        x if dim is None else jnp.moveaxis(x, dim, 0) for x, dim in zip(operands, dims, strict=True)
    ]
    size = next(x.shape[0] for x, is_mapped in zip(operands, mapped, strict=True) if is_mapped)
    if not isinstance(size, int):  # Exported programs may have symbolic sizes.
        in_axes = tuple(0 if is_mapped else None for is_mapped in mapped)
        function = functools.partial(evaluate_by_xla, program=program, axes=axes)
        results = jax.vmap(function, in_axes=in_axes, axis_size=size)(*operands)
        return results, [0] * len(results)
    results = evaluate(program, operands, (Axis(size, mapped), *axes))
    return results, [0] * len(results)


def drop_unused_results(parameter: str, used: list[bool], *rest: Any) -> tuple[list[bool], Any]:
    """JAX's rule for dead code: selects the used results of the program, or programs, in a
    parameter.
    """
    equation = rest[-1]  # Since JAX 0.12 there is another argument before it.
    if not any(used):
        return [False] * len(equation.invars), None
    if all(used):
        return [True] * len(equation.invars), equation
    selected = equation.params[parameter].select(
        [index for index, is_used in enumerate(used) if is_used]
    )
    outvars = [
        variable for variable, is_used in zip(equation.outvars, used, strict=True) if is_used
    ]
    params = equation.params | {parameter: selected}
    return [True] * len(equation.invars), equation.replace(outvars=outvars, params=params)


program_p.def_impl(_run)
program_p.def_abstract_eval(_result_types)
ad.primitive_jvps[program_p] = _jvp
ad.primitive_transposes[program_p] = _transpose
linearize_by(program_p, _linearize)
batching.primitive_batchers[program_p] = _batch
pe.dce_rules[program_p] = functools.partial(drop_unused_results, "program")
jet_rules[program_p] = _refuse_jet
check_results_for_nan(program_p)
partition_when_lowered(program_p)  # Batches on several devices.
