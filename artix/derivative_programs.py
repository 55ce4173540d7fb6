"""Derivatives along tangents as one operation, of which batches are evaluated as those of the function itself.

JAX differentiates a function operation by operation, and ``jax.vmap`` evaluates a batch of each of these with the batch
first. Here the derivative and its transpose, the gradient, are programs of their own, which batches are evaluated with
the batch last or block by block: gradients of forward dynamics take half the time, Jacobians a third. What they need of
the function's values they compute again, so that nothing but the arguments is kept from a rollout for its gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from artix.batch_rules import BatchEvaluation, merged_batches
from artix.batches import evaluate_plainly

Array = jax.Array

Evaluation: TypeAlias = Callable[[int], BatchEvaluation]
"""How batches of derivatives are evaluated that go along so many tangents each."""


class DerivativeProgram(NamedTuple):
    """A program of arrays and tangents, linear in the tangents."""

    program: ClosedJaxpr
    num_arrays: int
    """How many of its arguments are arrays; the others are tangents."""
    evaluation: Evaluation
    tangents: int = 1
    """Along how many tangents it goes."""
    mapped: tuple[bool, ...] = ()
    """Of a batch, which arguments have it as their first axis."""
    size: int = 0
    """Of a batch."""


def derivative_along(
    function: Callable[..., Any], evaluation: Evaluation, arrays: Sequence[Array], tangents: Sequence[Any]
) -> Any:
    """The derivative of a function of arrays along tangents.

    Args:
      function: of arrays; its results are a pytree of arrays.
      evaluation: how batches of the derivative are evaluated.
      arrays: where.
      tangents: along what; ``None`` for those that vanish.
    """
    moving = [number for number, tangent in enumerate(tangents) if tangent is not None]
    arguments = [*arrays, *(tangents[number] for number in moving)]
    program, results = jax.make_jaxpr(_change(function, moving), return_shape=True)(*arguments)
    structure: Any = jax.tree.structure(results)
    return structure.unflatten(_bind(DerivativeProgram(program, len(arrays), evaluation), arguments))


def _change(function: Callable[..., Any], moving: Sequence[int]) -> Callable[..., Any]:
    """The derivative of a function, as one of its arguments and of tangents of those that move."""

    def change(*arguments: Array) -> Any:
        arrays, tangents = arguments[: -len(moving)], arguments[-len(moving) :]

        def of_moving(*moved: Array) -> Any:
            now = dict(zip(moving, moved, strict=True))
            return function(*(now.get(number, array) for number, array in enumerate(arrays)))

        return jax.jvp(of_moving, tuple(arrays[number] for number in moving), tangents)[1]

    return change


_primitive = Primitive("artix_derivative")
_primitive.multiple_results = True


def _bind(derivative: DerivativeProgram, arguments: Sequence[Array]) -> list[Array]:
    return _primitive.bind(*arguments, derivative=derivative)


def _evaluated(*arguments: Array, derivative: DerivativeProgram) -> list[Array]:
    return _evaluated_by(derivative.evaluation(derivative.tangents), derivative, arguments)


def _evaluated_at_once(*arguments: Array, derivative: DerivativeProgram) -> list[Array]:
    """Where nothing is compiled: turning arrays would only be more operations."""
    return _evaluated_by(evaluate_plainly, derivative, arguments)


def _evaluated_by(
    evaluation: BatchEvaluation, derivative: DerivativeProgram, arguments: Sequence[Array]
) -> list[Array]:
    program, mapped = derivative.program, derivative.mapped
    return evaluation(program, mapped, derivative.size, arguments) if mapped else jaxpr_as_fun(program)(*arguments)


def _shapes(*_: Any, derivative: DerivativeProgram) -> list[Any]:
    results: Any = derivative.program.out_avals
    if derivative.mapped:
        return [result.update(shape=(derivative.size, *result.shape)) for result in results]
    return results


def _jvp(
    primals: Sequence[Array], tangents: Sequence[Any], *, derivative: DerivativeProgram
) -> tuple[list[Array], list[Array]]:
    program, count, mapped = derivative.program, derivative.num_arrays, derivative.mapped
    found = _bind(derivative, primals)
    moving = [number for number, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    if moving[0] >= count:
        return found, _bind(derivative, [*primals[:count], *map(ad.instantiate_zeros, tangents[count:])])
    inputs = program.in_avals
    change = jax.make_jaxpr(_change(jaxpr_as_fun(program), moving))(*inputs, *(inputs[number] for number in moving))
    second = derivative._replace(
        program=change,
        num_arrays=len(primals),
        mapped=mapped and (*mapped, *(mapped[number] for number in moving)),
    )
    return found, _bind(second, [*primals, *(tangents[number] for number in moving)])


def _transpose(cotangents: Sequence[Any], *arguments: Any, derivative: DerivativeProgram) -> list[Any]:
    program, count, mapped = derivative.program, derivative.num_arrays, derivative.mapped
    inputs, outputs = program.in_avals, program.out_avals
    seen = [number for number, cotangent in enumerate(cotangents) if not isinstance(cotangent, ad.Zero)]
    # Tangents that are known here are not asked for, and as all is linear in all of them, their values do not matter.
    asked = [number for number in range(count, len(arguments)) if ad.is_undefined_primal(arguments[number])]

    def transposed(*arguments: Array) -> Any:
        def of_asked(*tangents: Array) -> list[Array]:
            whole = [*arguments[:count], *(jnp.zeros(aval.shape, aval.dtype) for aval in inputs[count:])]
            for number, tangent in zip(asked, tangents, strict=True):
                whole[number] = tangent
            results = jaxpr_as_fun(program)(*whole)
            return [results[number] for number in seen]

        return jax.linear_transpose(of_asked, *(inputs[number] for number in asked))([*arguments[count:]])

    shapes: list[Any] = [*inputs[:count], *(outputs[number] for number in seen)]
    backward = derivative._replace(
        program=jax.make_jaxpr(transposed)(*shapes), mapped=mapped and (*mapped[:count], *(True for _ in seen))
    )
    found = _bind(backward, [*arguments[:count], *(cotangents[number] for number in seen)])
    results: list[Any] = [None] * len(arguments)
    for number, result in zip(asked, found, strict=True):
        results[number] = result if not mapped or mapped[number] else jnp.sum(result, axis=0)
    return results


def _batch(
    arguments: Sequence[Array], axes: Sequence[Any], *, derivative: DerivativeProgram
) -> tuple[list[Array], list[int]]:
    mapped, inside = tuple(axis is not None for axis in axes), derivative.mapped
    arguments = [jnp.moveaxis(x, axis, 0) if m else x for x, axis, m in zip(arguments, axes, mapped, strict=True)]
    size = next(x.shape[0] for x, is_mapped in zip(arguments, mapped, strict=True) if is_mapped)
    if not isinstance(size, int):  # Programs for export may have symbols as sizes.
        function = functools.partial(_evaluated, derivative=derivative)
        found = jax.vmap(function, _axes(mapped), axis_size=size)(*arguments)
    elif not any(mapped[: derivative.num_arrays]):
        return _batch_of_tangents(derivative, mapped, size, arguments)
    elif not inside:
        found = _bind(derivative._replace(mapped=mapped, size=size), arguments)
    else:
        each = zip(mapped, inside, arguments, strict=True)
        merged = [merged_batches(size, derivative.size, *argument) for argument in each]
        either = tuple(a or b for a, b in zip(mapped, inside, strict=True))
        found = _bind(derivative._replace(mapped=either, size=size * derivative.size), merged)
        found = [x.reshape(size, derivative.size, *x.shape[1:]) for x in found]
    return found, [0] * len(found)


def _batch_of_tangents(
    derivative: DerivativeProgram, mapped: tuple[bool, ...], size: int, arguments: Sequence[Array]
) -> tuple[list[Array], list[int]]:
    """Many tangents at one point: one program, which computes the values once."""
    inputs = zip(derivative.program.in_avals, mapped, strict=True)
    shapes = [jax.ShapeDtypeStruct((size, *aval.shape) if m else aval.shape, aval.dtype) for aval, m in inputs]
    function = jax.vmap(jaxpr_as_fun(derivative.program), _axes(mapped), axis_size=size)
    together = derivative._replace(program=jax.make_jaxpr(function)(*shapes), tangents=derivative.tangents * size)
    inside = derivative.mapped or (False,) * len(mapped)
    both = [a and b for a, b in zip(mapped, inside, strict=True)]
    found = _bind(together, [x.swapaxes(0, 1) if swap else x for x, swap in zip(arguments, both, strict=True)])
    return found, [1 if derivative.mapped else 0] * len(found)


def _axes(mapped: Sequence[bool]) -> tuple[int | None, ...]:
    return tuple(0 if is_mapped else None for is_mapped in mapped)


_primitive.def_impl(_evaluated_at_once)
_primitive.def_abstract_eval(_shapes)
ad.primitive_jvps[_primitive] = _jvp
ad.primitive_transposes[_primitive] = _transpose
batching.primitive_batchers[_primitive] = _batch
mlir.register_lowering(_primitive, mlir.lower_fun(_evaluated, multiple_results=True))
