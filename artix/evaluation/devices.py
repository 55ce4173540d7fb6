"""Arrays on the devices of ``jax.shard_map``.

There, JAX knows over which axes of the mesh an array varies, and asks that all operands of an operation do so alike.
Functions of ``jax.numpy`` and ``jax.lax`` see to that themselves; operations that are bound one by one do not, nor do
the carries of loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
from jax import lax

_Tree = TypeVar("_Tree")


def varying_alike(tree: _Tree, *others: Any) -> _Tree:
    """The same pytree, every array of which varies over all axes over which any array of it or of the others does."""
    axes = frozenset[Any]().union(*map(_varying_axes, jax.tree.leaves((tree, others))))
    if not axes:
        return tree
    return jax.tree.map(lambda leaf: _varying(leaf, tuple(axes - _varying_axes(leaf))), tree)


def type_like(others: Sequence[Any], shape: tuple[int, ...], dtype: Any) -> Any:
    """The type of an array that varies over the devices over which the arrays of these types do, all alike."""
    for other in others:
        if _axes_of_type(other):
            sharding = other.sharding.update(spec=jax.sharding.PartitionSpec(*(None for _ in shape)))
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
    """``jax.lax.scan`` whose carry may start as a constant and become an array that varies over devices."""
    return lax.scan(body, varying_alike(start, items), items, length, reverse, unroll)


def _varying_axes(array: Any) -> frozenset[Any]:
    return _axes_of_type(jax.typeof(array))


def _axes_of_type(kind: Any) -> frozenset[Any]:
    kind = getattr(kind, "manual_axis_type", kind)  # Since JAX 0.10.
    return kind.varying if hasattr(kind, "varying") else kind.vma


def _varying(array: Any, axes: tuple[Any, ...]) -> Any:
    if not axes:
        return array
    operations: Any = lax
    if hasattr(operations, "pcast"):
        return operations.pcast(array, axes, to="varying")
    return operations.pvary(array, axes)  # Until JAX 0.7.
