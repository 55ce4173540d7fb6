"""Compiles scalar programs to kernels: machine code that XLA calls."""

from artix.evaluation.kernels.cpu import build, lanes_of
from artix.evaluation.kernels.linking import load
from artix.evaluation.kernels.machine import KernelError, available, machine_key
from artix.evaluation.kernels.rows import block_list, build_rows, row_lanes

__all__ = [
    "KernelError",
    "available",
    "block_list",
    "build",
    "build_rows",
    "lanes_of",
    "load",
    "machine_key",
    "row_lanes",
]
