"""The JAX primitive that evaluates a batch whose rows have different programs, each writing its
rows of the results.

One kernel evaluates all programs. It reads and writes rows of shared arrays, so nothing is gathered
or copied. Where there is no kernel, and for derivatives and nested batches, an equivalent function
of the same arrays is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

from artix.compiler.compilation import RowProgram, cpu_kernel_of_rows
from artix.compiler.jax_internals import (
    match_varying_axes,
    partition_when_lowered,
    type_like,
    without_varying_check,
)
from artix.compiler.kernels import block_list, row_lanes
from artix.compiler.lowering import is_for_one_device, lower_on_one_device
from artix.compiler.operation import drop_unused_results, tangent_of
from artix.compiler.program import replaced

Array = jax.Array


class RowPrograms:
    """The programs of a batch; compared by identity.

    Args:
      programs: the programs; each row belongs to one.
      otherwise: an equivalent function of all operands that returns a list of results.
      joined: whether all programs have results of the same types, which become rows of the same
        arrays. Otherwise the results of one program follow those of the other.
    """

    def __init__(
        self,
        programs: Sequence[RowProgram],
        otherwise: Callable[..., list[Array]],
        joined: bool = True,
    ) -> None:
        self.programs = tuple(programs)
        self.otherwise = otherwise
        self.joined = joined
        sizes = [len(each.rows) for each in programs]
        kinds = [(sum(sizes), programs[0])] if joined else zip(sizes, programs, strict=True)
        self.result_types = [
            jax.ShapeDtypeStruct((size, *kind.shape), kind.dtype)
            for size, each in kinds
            for kind in each.program.result_types
        ]

    def select(self, results: Sequence[int]) -> RowPrograms:
        """The programs with only some of the results."""

        def otherwise(*operands: Array) -> list[Array]:
            all_results = self.otherwise(*operands)
            return [all_results[index] for index in results]

        selected, before = list[RowProgram](), 0
        for each in self.programs:
            count = len(each.program.result_types)
            indices = [index - before for index in results if before <= index < before + count]
            selected.append(each._replace(program=each.program.select(indices)))
            before += 0 if self.joined else count
        return RowPrograms(selected, otherwise, self.joined)

    @property
    def width(self) -> int:
        """Rows per block of the kernel."""
        programs = [each.program for each in self.programs]
        return row_lanes(
            kind.dtype for each in programs for kind in (*each.argument_types, *each.result_types)
        )


rows_p = Primitive("artix_rows")
rows_p.multiple_results = True


def evaluate_rows(programs: RowPrograms, operands: Sequence[Any]) -> list[Array]:
    """The results of a batch whose rows have different programs."""
    return rows_p.bind(*match_varying_axes(tuple(operands)), programs=programs)


def _result_types(*operands: Any, programs: RowPrograms) -> list[Any]:
    return [type_like(operands, kind.shape, kind.dtype) for kind in programs.result_types]


def _otherwise(*operands: Any, programs: RowPrograms) -> list[Array]:
    with without_varying_check():
        return programs.otherwise(*operands)


def _jvp(
    primals: Sequence[Array], tangents: Sequence[Any], *, programs: RowPrograms
) -> tuple[list[Array], list[Any]]:
    varied = [index for index, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]

    def of_varied(*values: Array) -> list[Array]:
        return programs.otherwise(*replaced(primals, varied, values))

    values, changes = jax.jvp(
        of_varied, [primals[index] for index in varied], [tangents[index] for index in varied]
    )
    return values, list(map(tangent_of, values, changes))


def _transpose(cotangents: Sequence[Any], *operands: Any, programs: RowPrograms) -> list[Any]:
    linear = [index for index, operand in enumerate(operands) if ad.is_undefined_primal(operand)]

    def of_linear(*values: Array) -> list[Array]:
        return programs.otherwise(*replaced(operands, linear, values))

    types = [
        jax.ShapeDtypeStruct(operands[index].aval.shape, operands[index].aval.dtype)
        for index in linear
    ]
    transposed = jax.linear_transpose(of_linear, *types)(
        [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    )
    return replaced([None] * len(operands), linear, transposed)


def _batch(
    operands: Sequence[Array], dims: Sequence[Any], *, programs: RowPrograms
) -> tuple[list[Array], list[int]]:
    results = jax.vmap(programs.otherwise, in_axes=tuple(dims))(*operands)
    return results, [0] * len(results)


def _lower(context: Any, *operands: Any, programs: RowPrograms) -> Any:
    return lower_on_one_device(partial(_otherwise, programs=programs), context, *operands)


def _lower_for_cpu(context: Any, *operands: Any, programs: RowPrograms) -> Any:
    """Lowers to a kernel of all programs if there is one, but not in exports or for arrays on
    several devices.
    """
    module = context.module_context
    if module.lowering_parameters.for_export or not is_for_one_device(module):
        return mlir.lower_fun(programs.otherwise, multiple_results=True)(context, *operands)
    target = cpu_kernel_of_rows(programs.programs, programs.width, programs.joined)
    if target is None:
        return _lower(context, *operands, programs=programs)
    return lower_on_one_device(partial(_call_kernel, target, programs), context, *operands)


def _call_kernel(target: str, programs: RowPrograms, *operands: Any) -> list[Array]:
    # A column, as XLA computes a list of evenly spaced numbers instead of storing it. That counts
    # as arithmetic, and a program with more than a thousand operations starts on another thread,
    # which takes 30 us longer.
    rows = [each.rows.astype(np.int32)[:, None] for each in programs.programs]
    arguments = [operands[index] for each in programs.programs for index in each.operands]
    return list(
        jax.ffi.ffi_call(target, programs.result_types)(
            block_list(rows, programs.width), *rows, *arguments
        )
    )


rows_p.def_impl(_otherwise)
rows_p.def_abstract_eval(_result_types)
ad.primitive_jvps[rows_p] = _jvp
ad.primitive_transposes[rows_p] = _transpose
batching.primitive_batchers[rows_p] = _batch
pe.dce_rules[rows_p] = partial(drop_unused_results, "programs")
partition_when_lowered(rows_p)  # As for the operations that ``otherwise`` may consist of.
mlir.register_lowering(rows_p, _lower)
mlir.register_lowering(rows_p, _lower_for_cpu, platform="cpu")
