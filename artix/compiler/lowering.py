"""What evaluates the operation of a program on each platform, on one device or several: a kernel,
or XLA.

It is decided when JAX lowers the operation, since only then the platform and the devices are known.
"""

from __future__ import annotations

import functools
import itertools
import string
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.custom_partitioning import custom_partitioning
from jax.interpreters import mlir
from jax.sharding import NamedSharding, PartitionSpec

from artix.compiler.batch_axes import (
    MIN_ROBOTS,
    Axes,
    Axis,
    groups_of,
    in_blocks,
    levels_of,
    merge_operands,
    merged,
    split_results,
)
from artix.compiler.compilation import cpu_kernel, has_parts
from artix.compiler.gpu_compilation import KernelCall, gpu_call
from artix.compiler.jax_internals import without_varying_check
from artix.compiler.operation import evaluate, evaluate_by_xla, program_p
from artix.compiler.program import Program


def _lower_by_xla(context: Any, *operands: Any, program: Program, axes: Axes) -> Any:
    """Lowers a program operation by operation, for XLA to compile."""
    if not context.module_context.lowering_parameters.for_export:
        program = program.in_parts
    return lower_on_one_device(
        functools.partial(_evaluate_by_xla, program=program, axes=axes), context, *operands
    )


def _evaluate_by_xla(*operands: Any, program: Program, axes: Axes) -> list[Any]:
    """Evaluates a program by XLA, without empty arrays if it has parts: what is lowered is not
    differentiated.
    """
    without_empty = has_parts(program)
    return evaluate_by_xla(*operands, program=program, axes=axes, without_empty=without_empty)


def lower_on_one_device(function: Any, context: Any, *operands: Any) -> Any:
    """Lowers a function of arrays as on one device, since programs are traced without devices."""
    types = {
        name: [_type_on_one_device(aval) for aval in getattr(context, name)]
        for name in ("avals_in", "avals_out")
    }
    return mlir.lower_fun(function, multiple_results=True)(context.replace(**types), *operands)


def _type_on_one_device(aval: Any) -> Any:
    return jax.core.ShapedArray(aval.shape, aval.dtype)


def _lower_for_cpu(context: Any, *operands: Any, program: Program, axes: Axes) -> Any:
    """Lowers to a kernel if there is one, but not in exports, which must not depend on this
    machine.
    """
    module = context.module_context
    one_device = is_for_one_device(module)
    # Items of a robot stay on its device.
    groups = groups_of(axes, program.num_operand_values, MIN_ROBOTS if one_device else None)
    batches = merged(groups) or (Axis(1, (True,) * len(operands)),)
    kernel = (
        None
        if module.lowering_parameters.for_export
        else cpu_kernel(program, levels_of(batches, len(operands)))
    )
    if kernel is None and not (axes and program.has_kernel and one_device):
        return _lower_by_xla(context, *operands, program=program, axes=axes)
    if one_device and len(groups) < len(axes):
        return lower_on_one_device(
            functools.partial(_evaluate_merged, program, groups), context, *operands
        )
    if kernel is None:
        return lower_on_one_device(
            functools.partial(_evaluate_in_blocks, program, axes), context, *operands
        )
    if not one_device:
        partitioned = functools.partial(
            call_partitioned, lambda _: KernelCall(kernel, {}), program, groups
        )
        return mlir.lower_fun(partitioned, multiple_results=True)(context, *operands)
    if axes:
        return jax.ffi.ffi_lowering(kernel)(context, *operands)
    return mlir.lower_fun(functools.partial(_call_for_one, kernel, program), multiple_results=True)(
        context, *operands
    )


def _evaluate_merged(program: Program, groups: Sequence[Axes], *operands: Any) -> list[Any]:
    """Nested batches as one."""
    with without_varying_check():
        return split_results(
            groups, evaluate(program, merge_operands(groups, operands), merged(groups))
        )


def _evaluate_in_blocks(program: Program, axes: Axes, *operands: Any) -> list[Any]:
    """:func:`evaluate_by_xla` block by block, for programs too large for a kernel."""
    program = program.in_parts

    def of_part(*parts: Any) -> list[Any]:
        size = next(
            x.shape[0] for x, is_mapped in zip(parts, axes[0].mapped, strict=True) if is_mapped
        )
        return _evaluate_by_xla(
            *parts, program=program, axes=(axes[0]._replace(size=size), *axes[1:])
        )

    return in_blocks(of_part, operands, axes[0].mapped)


def _call_for_one(kernel: str, program: Program, *operands: Any) -> list[Any]:
    """Calls a kernel for a batch of one."""
    shapes = [jax.ShapeDtypeStruct((1, *kind.shape), kind.dtype) for kind in program.result_types]
    with without_varying_check():
        results = jax.ffi.ffi_call(kernel, shapes)(
            *(jax.lax.expand_dims(operand, (0,)) for operand in operands)
        )
        return [
            result.reshape(kind.shape)
            for result, kind in zip(results, program.result_types, strict=True)
        ]


def _lower_for_cuda(context: Any, *operands: Any, program: Program, axes: Axes) -> Any:
    """Lowers to a kernel if GPU kernels are on, otherwise to XLA's operations."""
    module, groups = context.module_context, groups_of(axes, program.num_operand_values)
    batches = merged(groups)
    levels = levels_of(batches, len(operands))
    call = None if module.lowering_parameters.for_export else gpu_call(program, levels, batches)
    if call is None:
        return _lower_by_xla(context, *operands, program=program, axes=axes)
    if not is_for_one_device(module):
        # There is a kernel for parts as well, since it is the same but for the number of its
        # blocks.
        call_of = functools.partial(gpu_call, program, levels)
        partitioned = functools.partial(call_partitioned, call_of, program, groups)
        return mlir.lower_fun(partitioned, multiple_results=True)(context, *operands)
    if len(groups) < len(axes):
        return lower_on_one_device(
            functools.partial(_evaluate_merged, program, groups), context, *operands
        )
    return lower_on_one_device(
        functools.partial(call.results, program, batches), context, *operands
    )


def is_for_one_device(module: Any) -> bool:
    """Whether the module being lowered runs on one device, as within ``jax.shard_map``."""
    axis_context = module.axis_context
    if getattr(axis_context, "num_devices", 1) == 1:
        return True
    axes = frozenset(getattr(getattr(axis_context, "mesh", None), "axis_names", ()))
    return getattr(axis_context, "manual_axes", None) == axes


mlir.register_lowering(program_p, _lower_by_xla)
mlir.register_lowering(program_p, _lower_for_cpu, platform="cpu")
mlir.register_lowering(program_p, _lower_for_cuda, platform="cuda")


# Several devices: each computes its part of a batch, without communication. By default XLA, which
# does not know what a kernel does, would gather the whole batch on every device.


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
