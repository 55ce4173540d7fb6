"""Builds and caches the kernels of programs for NVIDIA GPUs, and describes their calls to XLA.

XLA accepts a kernel as PTX inside the program that it compiles. This interface is internal and may
change with JAX, which is one reason why each GPU has to prove kernels with each version of JAX, see
:mod:`artix.compiler.gpu_verdict`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from artix.compiler import lanes
from artix.compiler.batch_axes import Axes
from artix.compiler.compilation import (
    REFUSAL,
    files,
    is_identified,
    key_of,
    refuse,
    scalars_of,
)
from artix.compiler.gpu_verdict import kernels_are_proved, lanes_are_refuted
from artix.compiler.jax_internals import without_varying_check
from artix.compiler.kernels import KernelError
from artix.compiler.kernels.gpu import NAME, GpuKernel, build_for_gpu
from artix.compiler.kernels.gpu_layout import THREADS, Mapped
from artix.compiler.kernels.machine import gpu_available, gpu_key
from artix.compiler.program import Program
from artix.compiler.scalar_builder import TooManyOperations
from artix.compiler.scalar_order import fewest_live, live
from artix.compiler.scalar_program import ScalarProgram, UnsupportedOperation

#: Larger programs are left to XLA, and so are those for which the assembler would take longer [s].
_MAX_OPERATIONS, MAX_SECONDS = 300_000, 120.0
#: What takes the assembler longer is announced [s].
_LONG = 10.0

_log = logging.getLogger("artix")
_lock = threading.Lock()


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


def gpu_call(program: Program, levels: tuple[int, ...], axes: Axes) -> KernelCall | None:
    """The call of the kernel for a batch of a program; ``None`` if XLA has to evaluate it.

    Args:
      program: the program.
      levels: levels of its operands, see :class:`~artix.compiler.scalar_program.ScalarProgram`.
      axes: its batch axes.
    """
    sizes = [axis.size for axis in axes]
    empty = 0 in sizes or not any(np.prod(kind.shape) for kind in program.result_types)
    if program.has_gpu_kernel is False or not program.has_kernel or empty:
        return None
    if program.has_gpu_kernel is None and not kernels_are_proved():
        return None
    mapped_axes = [tuple(axis.mapped[index] for axis in axes) for index in range(len(levels))]
    mapped = tuple(
        Mapped(by_axis[:1] == (True,), by_axis[1:] == (True,)) for by_axis in mapped_axes
    )
    kernel = _kernel(program, levels, mapped, len(axes) == 2)
    if kernel is None:
        return None
    rows, items = kernel.sizes(*(*sizes, 1, 1)[:2])
    name = re.sub(r"\W", "_", f"artix_{program.name}")  # as profilers show it
    attributes = _attributes(kernel.ptx.replace(NAME, name), name, kernel.threads(rows))
    return KernelCall("__gpu$xla.gpu.ptx", attributes, (rows, items))


def _attributes(ptx: str, name: str, threads: int) -> dict[str, Any]:
    one = np.int32(1)
    grid = {"grid_x": np.int32(-(-threads // THREADS)), "grid_y": one, "grid_z": one}
    block = {"block_x": np.int32(THREADS), "block_y": one, "block_z": one}
    kernel = {
        "name": name,
        "kernel_type": "ptx",
        "kernel_data": ptx,
        "shared_mem_bytes": np.int32(0),
    }
    return {**kernel, **grid, **block}


def _kernel(
    program: Program, levels: tuple[int, ...], mapped: tuple[Mapped, ...], has_items: bool
) -> GpuKernel | None:
    missing = gpu_available()
    if missing is not None:
        refuse("every function on a GPU", missing)
        return None
    key = (levels, mapped, has_items)
    with _lock:
        if key not in program.gpu_kernels:
            program.gpu_kernels[key] = _read_or_build(program, *key)
        return program.gpu_kernels[key]


def _read_or_build(
    program: Program, levels: tuple[int, ...], mapped: tuple[Mapped, ...], has_items: bool
) -> Any:
    settings = (
        levels,
        mapped,
        has_items,
        MAX_SECONDS,
        lanes_are_refuted(),
        lanes.LEAST,
        lanes.WORTH,
        gpu_key(),
    )
    content = hashlib.sha256(key_of(program, levels) + repr(settings).encode())
    name = f"artix_gpu_{content.hexdigest()[:40]}"
    code = files.read(name)
    if code is None:
        try:
            code = json.dumps(_build(program, levels, mapped, has_items)).encode()
        except (UnsupportedOperation, TooManyOperations, KernelError) as error:
            code = REFUSAL + f"{type(error).__name__}: {error}".encode()
        if is_identified(program, levels):
            files.write(name, code)
    program.scalars.clear()
    if code.startswith(REFUSAL):
        refuse(f"{program.name} on a GPU", code.removeprefix(REFUSAL).decode())
        return None
    return GpuKernel(*json.loads(code))


def _build(
    program: Program, levels: tuple[int, ...], mapped: tuple[Mapped, ...], has_items: bool
) -> GpuKernel:
    whole = scalars_of(program, levels, max_operations=_MAX_OPERATIONS)
    scalars, threads = of_thread(whole, not has_items and not lanes_are_refuted())
    alive = live(scalars)
    seconds = assembly_seconds(scalars.size, alive)
    if seconds > MAX_SECONDS:
        raise KernelError(
            f"{scalars.size:,} operations with {alive:,} scalars live at once would take NVIDIA's "
            f"driver about {seconds:.0f} s to assemble, more than {MAX_SECONDS:.0f}"
        )
    if seconds > _LONG:
        _log.warning(
            "artix: %s: NVIDIA's driver takes about %.0f s to assemble its GPU kernel, and keeps "
            "it for later processes",
            program.name,
            seconds,
        )
    return build_for_gpu(scalars, mapped, has_items, threads)


def of_thread(program: ScalarProgram, may_share: bool) -> tuple[ScalarProgram, int]:
    """What a thread computes of a program, in order, and how many threads share a robot.

    Args:
      program: the program of one robot, or of one item of a robot.
      may_share: whether several threads may.
    """
    scalars, threads = lanes.in_lanes(program) if may_share else (program, 1)
    return fewest_live(scalars), threads


def assembly_seconds(operations: int, alive: int) -> float:
    """Estimates the processor time of the driver's assembler for a kernel [s].

    The formula fits measurements of ``ptxas``, which is the same assembler, see docs/gpu.md.

    Args:
      operations: number of operations, loops counted once.
      alive: most scalars that are live at once.
    """
    return 5.2 * (operations / 28_000) ** 1.46 * (alive / 965) ** 0.375
