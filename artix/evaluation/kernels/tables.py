"""Constant arrays in the object code of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from artix.evaluation.kernels.llvm_ir import ProgramLists


def table_name(number: int) -> str:
    """The name of a program's table in LLVM IR."""
    return f"@artix_table_{number}"


def tables_of(lists: ProgramLists) -> list[str]:
    """The tables from which a program loads entries; floats are written as integers with the same bits."""
    count, definitions = len(lists.program.arguments), []
    for array in lists.arrays_loaded:
        if array >= count:
            table = lists.program.tables[array - count]
            bits = 8 * table.itemsize
            definitions.append(
                definition(table_name(array - count), f"i{bits}", table.view(f"i{table.itemsize}").tolist())
            )
    return definitions


def definition(name: str, scalar: str, numbers: Sequence[int]) -> str:
    """A constant array in LLVM IR."""
    entries = ", ".join(f"{scalar} {number}" for number in numbers)
    return f"{name} = internal constant [{len(numbers)} x {scalar}] [{entries}]"
