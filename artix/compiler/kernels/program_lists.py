"""Scalar programs as lists, and the constant arrays of their kernels."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from artix.compiler.kernels.machine import KernelError
from artix.compiler.scalar_program import KINDS, Kind, Op, ScalarProgram, array_operand

#: LLVM's scalar types in instructions, by kind.
SCALARS = {
    Kind.BOOL: "i1",
    Kind.INT32: "i32",
    Kind.UINT32: "i32",
    Kind.FLOAT32: "float",
    Kind.FLOAT64: "double",
}


class ProgramLists:
    """A scalar program as Python lists, over which loops are faster than over arrays.

    Raises:
      KernelError: an argument or result has entries of a type that kernels do not support.
    """

    def __init__(self, program: ScalarProgram) -> None:
        for dtype in (*(dtype for _, dtype, _ in program.arguments), *program.result_types):
            if dtype not in KINDS:
                raise KernelError(
                    f"kernels support arrays of {', '.join(map(str, KINDS))}, not of {dtype}"
                )
        self.program = program
        self.operations: list[int] = program.operations.tolist()
        self.operands: list[list[int]] = program.operands.tolist()
        self.kinds: list[int] = program.kinds.tolist()
        self.levels: list[int] = program.levels.tolist()
        self.constants: list[float] = program.constants.tolist()
        self.array_sizes = [math.prod(shape) for shape, *_ in program.arguments] + [
            len(x) for x in program.tables
        ]
        sines, cosines = (
            {*(program.operands[program.operations == function, 0] >> 1).tolist()}
            for function in (Op.SIN, Op.COS)
        )
        #: Scalars whose sine and cosine are both computed.
        self.sincos_angles = sines & cosines

    @functools.cached_property
    def stages(self) -> np.ndarray:
        """Those of the program."""
        return self.program.stages

    @property
    def arrays_loaded(self) -> dict[int, int]:
        """The arrays from which entries are loaded, with their levels."""
        levels = [level for *_, level in self.program.arguments] + [0] * len(self.program.tables)
        loads = self.program.operands[self.program.operations == Op.LOAD, 1]
        numbers = {array_operand(number) for number in loads.tolist()}
        return {number: levels[number] for number in sorted(numbers)}

    def scalar(self, number: int) -> str:
        """LLVM's type of a scalar of the program."""
        return SCALARS[Kind(self.kinds[number])]


def table_name(number: int) -> str:
    """The name of a program's table in LLVM IR."""
    return f"@artix_table_{number}"


def tables_of(lists: ProgramLists) -> list[str]:
    """The tables from which a program loads entries; floats are written as integers with the same
    bits.
    """
    count, definitions = len(lists.program.arguments), []
    for array in lists.arrays_loaded:
        if array >= count:
            table = lists.program.tables[array - count]
            bits = 8 * table.itemsize
            definitions.append(
                definition(
                    table_name(array - count), f"i{bits}", table.view(f"i{table.itemsize}").tolist()
                )
            )
    return definitions


def definition(name: str, scalar: str, numbers: Sequence[int]) -> str:
    """A constant array in LLVM IR."""
    entries = ", ".join(f"{scalar} {number}" for number in numbers)
    return f"{name} = internal constant [{len(numbers)} x {scalar}] [{entries}]"
