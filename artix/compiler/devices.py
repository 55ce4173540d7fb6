"""Arrays within ``jax.shard_map``.

There, JAX tracks the mesh axes over which each array varies, and requires all operands of an operation to vary over the
same axes. The functions of ``jax.numpy`` and ``jax.lax`` ensure this; directly bound primitives and the carries of
loops do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
from jax import lax

_Tree = TypeVar("_Tree")


def match_varying_axes(tree: _Tree, *others: Any) -> _Tree:
    """The pytree, with every array varying over all axes over which any array in it or in the others varies."""
    axes = frozenset[Any]().union(*map(_varying_axes, jax.tree.leaves((tree, others))))
    if not axes:
        return tree
    return jax.tree.map(lambda leaf: _varying(leaf, tuple(axes - _varying_axes(leaf))), tree)


def type_like(others: Sequence[Any], shape: tuple[int, ...], dtype: Any) -> Any:
    """The type of an array that varies over the same devices as the arrays of these types, which all agree."""
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
    """``jax.lax.scan`` whose carry may start as a constant and later vary over devices."""
    return lax.scan(body, match_varying_axes(start, items), items, length, reverse, unroll)


def _varying_axes(array: Any) -> frozenset[Any]:
    # Only arrays that are being traced vary over axes of a mesh. Asking the others for their types takes longer.
    return _axes_of_type(jax.typeof(array)) if isinstance(array, jax.core.Tracer) else frozenset()


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
