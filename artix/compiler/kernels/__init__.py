"""Compiles scalar programs to kernels: machine code that XLA calls."""

from artix.compiler.kernels.cpu import build, lanes_of, seconds_per_operation
from artix.compiler.kernels.machine import KernelError, available, load, machine_key
from artix.compiler.kernels.rows import (
    LinkedProgram,
    addresses_of,
    block_list,
    build_programs,
    build_rows,
    link_program,
    row_lanes,
)

__all__ = [
    "KernelError",
    "LinkedProgram",
    "addresses_of",
    "available",
    "block_list",
    "build",
    "build_programs",
    "build_rows",
    "lanes_of",
    "link_program",
    "load",
    "machine_key",
    "row_lanes",
    "seconds_per_operation",
]
