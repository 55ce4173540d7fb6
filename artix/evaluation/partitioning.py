"""Kernels of batches that lie on several devices: each computes its part, none asks another.

XLA knows nothing of what a kernel does, and would gather the whole batch on every device.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence
from typing import Any

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from artix.evaluation.batch_axes import Axes
from artix.evaluation.program import Program

_BATCH = "b"


def call_partitioned(target: str, program: Program, axes: Axes, *operands: Any) -> list[Any]:
    """Calls a kernel on whatever part of the outermost batch each device has.

    Args:
      target: the kernel's name.
      program: its program.
      axes: the batches.
      operands: the whole arrays.
    """
    sizes = tuple(axis.size for axis in axes[1:])
    mapped = axes[0].mapped if axes else (False,) * len(operands)

    def call(*parts: Any) -> tuple[Any, ...]:
        sizes_here = [part.shape[0] for part, is_mapped in zip(parts, mapped, strict=True) if is_mapped][:1]
        shapes = [jax.ShapeDtypeStruct((*sizes_here, *sizes, *kind.shape), kind.dtype) for kind in program.result_types]
        return tuple(jax.ffi.ffi_call(target, shapes)(*parts))

    if not axes:
        return list(call(*operands))

    def shardings(mesh: Any, arguments: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Of the arguments and results, by where the first argument that says so has its batch."""
        specs = [getattr(argument.sharding, "spec", None) for argument in arguments]
        placed = [spec[0] for spec, is_mapped in zip(specs, mapped, strict=True) if is_mapped and spec]
        batch = next((place for place in placed if place is not None), None)
        on_batch, everywhere = NamedSharding(mesh, PartitionSpec(batch)), NamedSharding(mesh, PartitionSpec())
        return [on_batch if is_mapped else everywhere for is_mapped in mapped], [on_batch] * len(program.result_types)

    def infer(mesh: Any, arguments: Sequence[Any], _: Any) -> Any:
        return tuple(shardings(mesh, arguments)[1])

    def partition(mesh: Any, arguments: Sequence[Any], _: Any) -> Any:
        of_arguments, of_results = shardings(mesh, arguments)
        return mesh, call, tuple(of_results), tuple(of_arguments)

    names = (f"{first}{second}" for first, second in itertools.product(string.ascii_lowercase, string.ascii_lowercase))
    own: list[str] = []

    def dimensions(rank: int, has_batch: bool) -> str:
        letters = [next(names) for _ in range(rank - has_batch)]
        own.extend(letters)
        return " ".join([_BATCH, *letters] if has_batch else letters)

    left = [dimensions(operand.ndim, is_mapped) for operand, is_mapped in zip(operands, mapped, strict=True)]
    right = [dimensions(len(axes) + len(kind.shape), True) for kind in program.result_types]
    whole = custom_partitioning(call)
    whole.def_partition(
        partition=partition,
        infer_sharding_from_operands=infer,
        sharding_rule=f"{', '.join(left)} -> {', '.join(right)}",
        need_replication_factors=tuple(own),
    )
    return list(whole(*operands))
