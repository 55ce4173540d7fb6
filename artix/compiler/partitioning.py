"""Kernels for batches on several devices: each device computes its part, without communication.

By default XLA, which does not know what a kernel does, would gather the whole batch on every
device.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from artix.compiler.batch_axes import Axes, merge_operands, merged, split_results
from artix.compiler.jax_internals import without_varying_check
from artix.compiler.program import Program


class KernelCall(NamedTuple):
    """The call of a kernel by :mod:`jax.ffi`."""

    target: str
    attributes: dict[str, Any]
    sizes: tuple[int, ...] = ()
    """Integers that the kernel takes as an array before its operands."""

    def results(self, program: Program, batches: Axes, *operands: Any) -> Sequence[Any]:
        """Calls the kernel for batches of a program."""
        batch = tuple(axis.size for axis in batches)
        shapes = [
            jax.ShapeDtypeStruct((*batch, *kind.shape), kind.dtype) for kind in program.result_types
        ]
        with without_varying_check():
            # An array would be a constant of the function, and custom partitioning refuses those.
            sizes = [jax.lax.full((1,), size, np.int32) for size in self.sizes]
            first = [jax.lax.concatenate(sizes, 0)] if sizes else []
            return jax.ffi.ffi_call(self.target, shapes)(*first, *operands, **self.attributes)


def call_partitioned(
    call_of: Callable[[Axes], KernelCall | None],
    program: Program,
    groups: Sequence[Axes],
    *operands: Any,
) -> list[Any]:
    """Calls a kernel on the part of the batches that each device has.

    Every batch of robots may be split; tangents of one robot stay together.

    Args:
      call_of: the kernel for a part, which depends on its batches; ``None`` for one without robots.
      program: its program.
      groups: the batches, see :func:`~artix.compiler.batch_axes.groups_of`.
      operands: the whole arrays.
    """
    axes = [axis for group in groups for axis in group]
    split = len(groups[0]) if groups else 0

    def call(*parts: Any) -> tuple[Any, ...]:
        here = _with_sizes_of(parts, groups)
        batches = merged(here)
        kernel = call_of(batches)
        if kernel is None:
            batch = tuple(axis.size for axis in batches)
            empty = [jnp.zeros((*batch, *kind.shape), kind.dtype) for kind in program.result_types]
            return tuple(split_results(here, empty))
        results = kernel.results(program, batches, *merge_operands(here, parts))
        return tuple(split_results(here, results))

    if not axes:
        return list(call(*operands))

    def shardings(mesh: Any, arguments: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The shardings of arguments and results: each batch as in the first argument in which it
        is sharded.
        """
        specs = [tuple(getattr(argument.sharding, "spec", None) or ()) for argument in arguments]
        of_axes: list[Any] = [None] * len(axes)
        used: set[Any] = set()
        for number, axis in enumerate(axes[:split]):
            for index, spec in enumerate(specs):
                position = sum(outer.mapped[index] for outer in axes[:number])
                if not axis.mapped[index] or len(spec) <= position or spec[position] is None:
                    continue
                names = set(
                    spec[position] if isinstance(spec[position], tuple) else (spec[position],)
                )
                if not names & used:  # A part of the mesh splits one batch.
                    of_axes[number] = spec[position]
                    used |= names
                    break
        of_arguments = [
            NamedSharding(
                mesh,
                PartitionSpec(
                    *(spec for axis, spec in zip(axes, of_axes, strict=True) if axis.mapped[index])
                ),
            )
            for index in range(len(arguments))
        ]
        return of_arguments, [NamedSharding(mesh, PartitionSpec(*of_axes))] * len(
            program.result_types
        )

    def infer(mesh: Any, arguments: Sequence[Any], _: Any) -> Any:
        return tuple(shardings(mesh, arguments)[1])

    def partition(mesh: Any, arguments: Sequence[Any], _: Any) -> Any:
        argument_shardings, result_shardings = shardings(mesh, arguments)
        return mesh, call, tuple(result_shardings), tuple(argument_shardings)

    letters = itertools.product(string.ascii_lowercase, string.ascii_lowercase)
    names = ("".join(pair) for pair in letters)
    batch_names = [next(names) for _ in axes]
    replicated: list[str] = []

    def dimensions(mapped: Sequence[bool], rank: int) -> str:
        rest = [next(names) for _ in range(rank)]
        replicated.extend(rest)
        return " ".join([*itertools.compress(batch_names, mapped), *rest])

    every = [True] * len(axes)
    mapped = [[axis.mapped[index] for axis in axes] for index in range(len(operands))]
    operand_dimensions = [
        dimensions(flags, operand.ndim - sum(flags))
        for operand, flags in zip(operands, mapped, strict=True)
    ]
    result_dimensions = [dimensions(every, len(kind.shape)) for kind in program.result_types]
    partitioned = custom_partitioning(call)
    partitioned.def_partition(
        partition=partition,
        infer_sharding_from_operands=infer,
        sharding_rule=f"{', '.join(operand_dimensions)} -> {', '.join(result_dimensions)}",
        need_replication_factors=(*batch_names[split:], *replicated),
    )
    return list(partitioned(*operands))


def _with_sizes_of(operands: Sequence[Any], groups: Sequence[Axes]) -> list[Axes]:
    """The batches with the sizes that they have in operands."""
    axes = [axis for group in groups for axis in group]
    sizes = []
    for number, axis in enumerate(axes):
        index = axis.mapped.index(True)
        sizes.append(operands[index].shape[sum(outer.mapped[index] for outer in axes[:number])])
    remaining = iter(sizes)
    return [tuple(axis._replace(size=next(remaining)) for axis in group) for group in groups]
