"""Compiles scalar programs to kernels: machine code that XLA calls."""

from artix.evaluation.kernels.cpu import build, lanes_of
from artix.evaluation.kernels.linking import load
from artix.evaluation.kernels.machine import KernelError, available, machine_key

__all__ = ["KernelError", "available", "build", "lanes_of", "load", "machine_key"]
