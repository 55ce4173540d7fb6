"""Compiles programs for an H100 without one, and analyses the result."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.assembler import assemble, assembler
from benchmarks.gpu.hlo import launches
from benchmarks.gpu.machine import THREADS, predict

_TARGET = Path(__file__).parent / "h100_sxm.txtpb"
WHEELS = ("jax-cuda12-plugin", "jax-cuda12-pjrt", "nvidia-cuda-nvcc-cu12")


class MissingWheels(RuntimeError):
    """Says what must be installed, and how."""


@dataclasses.dataclass
class Compiled:
    """What a compiled program consists of.

    Attributes:
      launches: number of kernel launches, with loops counted as often as they run.
      moved: bytes that the kernels read and write.
      least: bytes of its arguments and results.
      temporaries: bytes of other memory.
      registers, spilled: of the most demanding kernel; ``None`` if the assembler did not report
        them.
      predicted_us: the time of a call on an H100 by :mod:`benchmarks.gpu.machine`, of one kernel
        whose loops run once.
      limit: what limits it there.
      kernels: number of artix kernels.
      lower_seconds, compile_seconds, assemble_seconds: processor time of tracing, of XLA and of the
        assembler.
    """

    launches: int
    moved: int
    least: int
    temporaries: int
    registers: int | None
    spilled: int | None
    predicted_us: float | None
    limit: str | None
    kernels: int
    lower_seconds: float
    compile_seconds: float
    assemble_seconds: float | None


class Compiler:
    """XLA's compiler for an H100. Create it before JAX is used for anything else.

    Args:
      reads_assembly: whether to run the assembler for the registers of the kernels, which can take
        minutes.

    Raises:
      MissingWheels: if XLA's part for CUDA or the assembler is not installed.
    """

    def __init__(self, reads_assembly: bool = True) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="artix-gpu-"))
        flags = (
            f"--xla_dump_to={self._folder} --xla_dump_hlo_module_re=jit_ahead_.* "
            "--xla_dump_emitter_re=ptx"
        )
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
        import jax

        # The plugin needs no driver if only the CPU runs programs.
        jax.config.update("jax_platforms", "cpu")
        self._reads_assembly = reads_assembly
        self._sharding = jax.sharding.SingleDeviceSharding(_device(jax.__version__))

    def compile(self, function: Callable[..., Any], arguments: Any, batch: int) -> Compiled:
        """Compiles a function of a batch, for arguments of these shapes and dtypes."""
        import jax

        shutil.rmtree(self._folder)
        self._folder.mkdir()
        place = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._sharding)  # noqa: E731

        def ahead_of_time(*args: Any) -> Any:
            return function(*args)

        before = time.process_time()
        jitted = jax.jit(ahead_of_time, out_shardings=self._sharding)
        lowered = jitted.trace(*jax.tree.map(place, arguments)).lower(lowering_platforms=("cuda",))
        between = time.process_time()
        compiled = lowered.compile()
        after = time.process_time()
        found, memory = launches(compiled.as_text()), compiled.memory_analysis()
        own = [
            _unescaped(text)
            for text in re.findall(r'kernel_data = "((?:[^"\\]|\\.)*)"', lowered.as_text())
        ]
        others = [file.read_text(encoding="utf-8") for file in self._folder.rglob("*.ptx")]
        # XLA's is empty if it has no kernel
        texts = [*dict.fromkeys(text for text in (*own, *others) if text)]
        report = assemble(texts) if self._reads_assembly else None
        least = memory.argument_size_in_bytes + memory.output_size_in_bytes
        num_launches = sum(launch.times for launch in found)
        cycles = None
        if report is not None and len(own) == num_launches == 1:
            (blocks,) = {int(text) for text in re.findall(r"grid_x = (\d+)", lowered.as_text())}
            cycles = predict(report.kernels[0], THREADS * blocks, least)
        return Compiled(
            launches=num_launches,
            moved=sum(launch.times * launch.bytes for launch in found),
            least=least,
            temporaries=memory.temp_size_in_bytes,
            registers=None
            if report is None
            else max((kernel.registers for kernel in report.kernels), default=0),
            spilled=None
            if report is None
            else max((kernel.spilled for kernel in report.kernels), default=0),
            predicted_us=None if cycles is None else 1e6 * cycles.seconds,
            limit=None if cycles is None else cycles.limit,
            kernels=len(own),
            lower_seconds=between - before,
            compile_seconds=after - between,
            assemble_seconds=None if report is None else report.seconds,
        )


def _device(version: str) -> Any:
    from jax.experimental import topologies

    try:
        if assembler() is None:
            raise RuntimeError("ptxas is not installed")
        target = _TARGET.read_text(encoding="utf-8")
        topology = topologies.get_topology_desc(
            "", platform="cuda", target_config=target, topology="1x1x1"
        )
    except Exception as error:  # whatever a plugin that is not there raises
        line = f"pip install --no-deps {WHEELS[0]}=={version} {WHEELS[1]}=={version} {WHEELS[2]}"
        raise MissingWheels(
            f"cannot compile for an H100: {error}\nThe wheels are {', '.join(WHEELS)}: {line}"
        ) from error
    return topology.devices[0]


def _unescaped(text: str) -> str:
    """A string of MLIR."""
    return re.sub(r'\\([0-9A-Fa-f]{2}|["\\])', lambda found: _character(found.group(1)), text)


def _character(code: str) -> str:
    return code if len(code) == 1 else chr(int(code, 16))
