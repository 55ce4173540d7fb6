"""Evaluating functions with the batch as the last axis.

With the batch first, as ``jax.vmap`` has it, every compiled loop runs over a few links, components or matrix entries,
and is mostly overhead. With a block of the batch last it runs over neighbouring numbers: factorising the mass matrix of
a 29-DOF humanoid takes 0.8 us instead of 7.6 us, inverse dynamics of a 7-DOF arm 0.15 instead of 0.35 us (float32,
batch 4096, two cores).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from artix.constants import is_known
from artix.lane_rules import Value, evaluate, widened
from artix.tangents import value_and_change

Array = jax.Array

# Blocks, not the whole batch: rows of 4,096 numbers map to the same lines of a CPU's cache, and the transposition of
# 841 of them took 4.4 us instead of 0.35 us. From 32 to 128 the time is the same to 5 % for multiples of 8, and a fifth
# more for others.
_FEWEST_LANES, _LANES, _MOST_LANES = 32, 64, 128


def batch_last(function: Callable[..., Any], *static: Hashable, in_blocks: bool = True) -> Callable[..., Any]:
    """The same function, which ``jax.vmap`` evaluates with the batch as the last axis, in blocks or whole.

    It can be compiled, vmapped and differentiated any number of times. Derivatives are those of the function itself,
    evaluated with the batch as ``jax.vmap`` has it.

    Args:
      function: of the static arguments, then of pytrees of arrays; its results are arrays, too.
      static: its first arguments. JAX traces a function with the same ones only once.
      in_blocks: whether blocks of the batch are evaluated one by one, which stay in a CPU's cache. Loops in the
        function are better off with all of it: they are dispatched less often, and what they loop over comes first.
    """
    program = _shared(function, *static) if static else function

    def of_one(*arguments: Any) -> Any:
        if is_known(arguments):
            return program(*arguments)
        structure: Any
        leaves, structure = jax.tree.flatten(arguments)
        return _with_derivatives(lambda *leaves: program(*structure.unflatten(leaves)), in_blocks)(*leaves)

    return of_one


@functools.lru_cache(maxsize=1024)
def _shared(function: Callable[..., Any], *static: Hashable) -> Callable[..., Any]:
    """A recursion over 29 DOFs takes 0.2 s to trace."""
    return jax.jit(functools.partial(function, *static))


def _with_derivatives(function: Callable[..., Any], in_blocks: bool) -> Callable[..., Any]:
    traced_once = jax.jit(function)

    @jax.custom_batching.custom_vmap
    def value(*leaves: Array) -> Any:
        return traced_once(*leaves)

    @value.def_vmap
    def of_batch(size: int, mapped: Sequence[bool], *leaves: Array) -> Any:
        # Where nothing is compiled, lanes would only be more operations. Programs for export may have symbols as sizes.
        if is_known(leaves) or not isinstance(size, int):
            axes = [0 if is_mapped else None for is_mapped in mapped]
            results = jax.vmap(function, axes, axis_size=size)(*leaves)
            return results, jax.tree.map(lambda _: True, results)
        items = (leaf.shape[1:] if is_mapped else leaf.shape for leaf, is_mapped in zip(leaves, mapped, strict=True))
        shapes = (jax.ShapeDtypeStruct(shape, leaf.dtype) for shape, leaf in zip(items, leaves, strict=True))
        program, results = jax.make_jaxpr(traced_once, return_shape=True)(*shapes)
        found = _batched(program, tuple(mapped), size, in_blocks)(*leaves)
        structure: Any = jax.tree.structure(results)
        return structure.unflatten(found), jax.tree.map(lambda _: True, results)

    @jax.custom_jvp
    def ruled(*leaves: Array) -> Any:
        return value(*leaves)

    @functools.partial(ruled.defjvp, symbolic_zeros=True)
    def with_change(leaves: tuple[Array, ...], changes: tuple[Any, ...]) -> Any:
        return value_and_change(lambda leaves: function(*leaves), leaves, changes)

    return ruled


def _batched(program: ClosedJaxpr, mapped: tuple[bool, ...], size: int, in_blocks: bool) -> Callable[..., list[Array]]:
    """A function of arrays of which those that are ``mapped`` have the batch first; all its results have."""

    @jax.custom_batching.custom_vmap
    def of_batch(*arrays: Array) -> list[Array]:
        return _evaluate(program, mapped, size, in_blocks, arrays)

    @of_batch.def_vmap
    def of_larger_batch(outer: int, outer_mapped: Sequence[bool], *arrays: Array):
        """Another ``vmap`` makes the batch larger: [outer, size, ...] becomes [outer size, ...]."""
        merged = [
            _merged(outer, size, outside, inside, array)
            for outside, inside, array in zip(outer_mapped, mapped, arrays, strict=True)
        ]
        any_mapped = tuple(a or b for a, b in zip(outer_mapped, mapped, strict=True))
        results = _batched(program, any_mapped, outer * size, in_blocks)(*merged)
        split = [result.reshape(outer, size, *result.shape[1:]) for result in results]
        return split, [True] * len(split)

    return of_batch


def _merged(outer: int, size: int, outer_mapped: bool, mapped: bool, array: Array) -> Array:
    """[outer, size, ...] as [outer size, ...]; what depends on no batch stays as it is."""
    if not (outer_mapped or mapped):
        return array
    array = array if outer_mapped else array[None]
    array = array if mapped else array[:, None]
    return jnp.broadcast_to(array, (outer, size, *array.shape[2:])).reshape(outer * size, *array.shape[2:])


def _evaluate(
    program: ClosedJaxpr, mapped: tuple[bool, ...], size: int, in_blocks: bool, arrays: Sequence[Array]
) -> list[Array]:
    def of_lanes(*arrays: Array) -> list[Array]:
        length = next(array.shape[-1] for array, is_mapped in zip(arrays, mapped, strict=True) if is_mapped)
        values = evaluate(program, map(Value, arrays, mapped), length)
        # Ends here: else XLA computes the results while it transposes them, number by number.
        return jax.lax.optimization_barrier([widened(value, length) for value in values])

    def prepared(prepare: Callable[[Array], Array]) -> list[Array]:
        return [prepare(array) if is_mapped else array for array, is_mapped in zip(arrays, mapped, strict=True)]

    if size <= _LANES:
        results = of_lanes(*prepared(lambda array: _in_rows(jnp.moveaxis(array, 0, -1))))
        return [_joined(result[None], size) for result in results]
    lanes = _lanes_of(size)
    blocks = -(-size // lanes)
    parts = prepared(lambda array: _split(array, blocks, lanes))
    if in_blocks:
        results = jax.vmap(of_lanes, tuple(0 if is_mapped else None for is_mapped in mapped))(*parts)
    else:
        whole = [_merged_blocks(part) if is_mapped else part for part, is_mapped in zip(parts, mapped, strict=True)]
        results = [_split_blocks(result, blocks) for result in of_lanes(*whole)]
    return [_joined(result, size) for result in results]


def _lanes_of(size: int) -> int:
    """How many lanes a block of a batch has: if possible the same in all, and no block on two devices."""
    devices = jax.device_count()
    share = size if size % devices else size // devices
    divisors = [lanes for lanes in range(min(_FEWEST_LANES, share), _MOST_LANES + 1) if share % lanes == 0]
    if not divisors:
        return -(-size // -(-size // _LANES))
    return min(divisors, key=lambda lanes: (lanes % 8 != 0, abs(lanes - _LANES)))


def _split(array: Array, blocks: int, lanes: int) -> Array:
    """[size, ...] as [blocks, ..., lanes]; the last item fills the last block."""
    missing = blocks * lanes - array.shape[0]
    if missing:
        array = jnp.concatenate([array, jnp.broadcast_to(array[-1:], (missing, *array.shape[1:]))])
    return _in_rows(jnp.moveaxis(array.reshape(blocks, lanes, *array.shape[1:]), 1, -1))


def _joined(result: Array, size: int) -> Array:
    """[blocks, ..., lanes] as [size, ...]."""
    return jax.lax.optimization_barrier(jax.lax.collapse(jnp.moveaxis(result, -1, 1), 0, 2))[:size]


def _merged_blocks(part: Array) -> Array:
    """[blocks, ..., lanes] as [..., blocks lanes]."""
    return _in_rows(jax.lax.collapse(jnp.moveaxis(part, 0, -2), part.ndim - 2))


def _split_blocks(result: Array, blocks: int) -> Array:
    """[..., blocks lanes] as [blocks, ..., lanes]."""
    return _in_rows(jnp.moveaxis(result.reshape(*result.shape[:-1], blocks, result.shape[-1] // blocks), -2, 0))


def _in_rows(x: Array) -> Array:
    """Written down here, once; else XLA lets every consumer of what was turned read across the rows.

    As a matrix, so that XLA does not write it as it was before it was turned. A constraint on its layout does the same,
    but cannot be exported, and before JAX 0.12 XLA gathers the array from all devices for it.
    """
    return jax.lax.optimization_barrier(x.reshape(math.prod(x.shape[:-1]), x.shape[-1])).reshape(x.shape)
