"""Functions that say themselves how ``jax.vmap`` evaluates them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from artix.constants import is_known
from artix.devices import varies
from artix.tangents import is_zero, value_and_change

Array = jax.Array

#: The results of a batch: of a program of one item, which of its arrays have the batch first, its size, and the arrays.
#: All results have the batch first.
BatchEvaluation = Callable[[ClosedJaxpr, tuple[bool, ...], int, Sequence[Array]], list[Array]]

#: The derivative of a function of arrays: of the function, these, and their tangents, ``None`` for those that vanish.
Derivative = Callable[[Callable[..., Any], Sequence[Array], Sequence[Any]], Any]


def with_batch_rule(
    function: Callable[..., Any], evaluation: BatchEvaluation, derivative: Derivative | None = None
) -> Callable[..., Any]:
    """The same function, of which ``evaluation`` evaluates batches.

    It can be compiled, vmapped and differentiated any number of times.

    Args:
      function: of pytrees of arrays; its results are arrays, too. What is known of its arguments stays known to it.
      evaluation: how batches are evaluated; ``jax.vmap`` in any nesting makes one batch of all.
      derivative: how the function is differentiated; without it JAX does so operation by operation, and evaluates
        batches of these as ``jax.vmap`` does.
    """

    def of_one(*arguments: Any) -> Any:
        structure: Any
        leaves, structure = jax.tree.flatten(arguments)
        known = [leaf if is_known(leaf) else None for leaf in leaves]
        traced = [leaf for leaf in leaves if not is_known(leaf)]
        if not traced:
            return function(*arguments)

        def of_traced(*traced: Array) -> Any:
            rest = iter(traced)
            return function(*structure.unflatten([next(rest) if leaf is None else leaf for leaf in known]))

        return _ruled(of_traced, evaluation, derivative)(*traced)

    return of_one


def _ruled(
    function: Callable[..., Any], evaluation: BatchEvaluation, derivative: Derivative | None
) -> Callable[..., Any]:
    traced_once = jax.jit(function)

    @jax.custom_batching.custom_vmap
    def value(*arrays: Array) -> Any:
        return traced_once(*arrays)

    @value.def_vmap
    def of_batch(size: int, mapped: Sequence[bool], *arrays: Array) -> Any:
        # Where nothing is compiled, it would only be more operations. Programs for export may have symbols as sizes.
        if is_known(arrays) or not isinstance(size, int):
            axes = [0 if is_mapped else None for is_mapped in mapped]
            results = jax.vmap(function, axes, axis_size=size)(*arrays)
            return results, jax.tree.map(lambda _: True, results)
        items = (array.shape[1:] if is_mapped else array.shape for array, is_mapped in zip(arrays, mapped, strict=True))
        shapes = (jax.ShapeDtypeStruct(shape, array.dtype) for shape, array in zip(items, arrays, strict=True))
        program, results = jax.make_jaxpr(traced_once, return_shape=True)(*shapes)
        found = _of_batches(functools.partial(evaluation, program), tuple(mapped), size)(*arrays)
        structure: Any = jax.tree.structure(results)
        return structure.unflatten(found), jax.tree.map(lambda _: True, results)

    @jax.custom_jvp
    def ruled(*arrays: Array) -> Any:
        return value(*arrays)

    @functools.partial(ruled.defjvp, symbolic_zeros=True)
    def with_change(arrays: tuple[Array, ...], changes: tuple[Any, ...]) -> Any:
        # Where nothing is compiled, a program would be traced at every call: 3.5 s for Go2's forward dynamics, not 0.6.
        if derivative is None or is_known(arrays) or varies(*arrays):
            return value_and_change(lambda arrays: function(*arrays), arrays, changes)
        return ruled(*arrays), derivative(function, arrays, [None if is_zero(x) else x for x in changes])

    return ruled


def _of_batches(
    evaluate: Callable[..., list[Array]], mapped: tuple[bool, ...], size: int
) -> Callable[..., list[Array]]:
    """``evaluate(mapped, size, arrays)`` as a function of the arrays, which further ``vmap`` makes larger."""

    @jax.custom_batching.custom_vmap
    def of_batch(*arrays: Array) -> list[Array]:
        return evaluate(mapped, size, arrays)

    @of_batch.def_vmap
    def of_larger_batch(outer: int, outer_mapped: Sequence[bool], *arrays: Array):
        """[outer, size, ...] becomes [outer size, ...]."""
        merged = [
            merged_batches(outer, size, outside, inside, array)
            for outside, inside, array in zip(outer_mapped, mapped, arrays, strict=True)
        ]
        any_mapped = tuple(a or b for a, b in zip(outer_mapped, mapped, strict=True))
        results = _of_batches(evaluate, any_mapped, outer * size)(*merged)
        split = [result.reshape(outer, size, *result.shape[1:]) for result in results]
        return split, [True] * len(split)

    return of_batch


def merged_batches(outer: int, size: int, outer_mapped: bool, mapped: bool, array: Array) -> Array:
    """[outer, size, ...] as [outer size, ...]; what depends on no batch stays as it is."""
    if not (outer_mapped or mapped):
        return array
    array = array if outer_mapped else array[None]
    array = array if mapped else array[:, None]
    return jnp.broadcast_to(array, (outer, size, *array.shape[2:])).reshape(outer * size, *array.shape[2:])
