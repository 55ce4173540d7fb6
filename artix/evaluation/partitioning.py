"""Kernels for batches on several devices: each device computes its part, without communication.

By default XLA, which does not know what a kernel does, would gather the whole batch on every device.
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
    """Calls a kernel on each device's part of the outermost batch axis.

    Args:
      target: the kernel's name.
      program: its program.
      axes: the batch axes.
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
        """The shardings of arguments and results, from the first argument whose batch axis is sharded."""
        specs = [getattr(argument.sharding, "spec", None) for argument in arguments]
        batch_specs = [spec[0] for spec, is_mapped in zip(specs, mapped, strict=True) if is_mapped and spec]
        batch_spec = next((spec for spec in batch_specs if spec is not None), None)
        sharded, replicated = NamedSharding(mesh, PartitionSpec(batch_spec)), NamedSharding(mesh, PartitionSpec())
        return [sharded if is_mapped else replicated for is_mapped in mapped], [sharded] * len(program.result_types)

    def infer(mesh: Any, arguments: Sequence[Any], _: Any) -> Any:
        return tuple(shardings(mesh, arguments)[1])

    def partition(mesh: Any, arguments: Sequence[Any], _: Any) -> Any:
        argument_shardings, result_shardings = shardings(mesh, arguments)
        return mesh, call, tuple(result_shardings), tuple(argument_shardings)

    names = (f"{first}{second}" for first, second in itertools.product(string.ascii_lowercase, string.ascii_lowercase))
    other_dimensions: list[str] = []

    def dimensions(rank: int, has_batch: bool) -> str:
        own = [next(names) for _ in range(rank - has_batch)]
        other_dimensions.extend(own)
        return " ".join([_BATCH, *own] if has_batch else own)

    left = [dimensions(operand.ndim, is_mapped) for operand, is_mapped in zip(operands, mapped, strict=True)]
    right = [dimensions(len(axes) + len(kind.shape), True) for kind in program.result_types]
    partitioned = custom_partitioning(call)
    partitioned.def_partition(
        partition=partition,
        infer_sharding_from_operands=infer,
        sharding_rule=f"{', '.join(left)} -> {', '.join(right)}",
        need_replication_factors=tuple(other_dimensions),
    )
    return list(partitioned(*operands))
