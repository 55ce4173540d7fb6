"""What the assembler of NVIDIA's GPUs says about kernels: registers, and bytes that do not fit into them."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
import subprocess
import tempfile
import time
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Report:
    """Of the kernel that needs most.

    Attributes:
      registers: of a thread.
      spilled: bytes that a thread writes to memory for want of registers, and reads back.
      seconds: that the assembler took, for all kernels.
    """

    registers: int
    spilled: int
    seconds: float


@functools.cache
def assembler() -> Path | None:
    """The program ``ptxas`` of the wheel ``nvidia-cuda-nvcc-cu12``; ``None`` where that is not installed."""
    found = importlib.util.find_spec("nvidia")
    places = list(found.submodule_search_locations or []) if found else []
    files = [Path(place) / "cuda_nvcc/bin/ptxas" for place in places]
    return next((file for file in files if file.is_file()), None)


def assemble(texts: list[str], device: str = "sm_90a", time_limit: float = 300.0) -> Report | None:
    """What the assembler reports about programs in PTX; ``None`` where there is none or it takes too long."""
    program = assembler()
    if program is None:
        return None
    registers = spilled = 0
    seconds = 0.0
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        for text in texts:
            source.write_text(text, encoding="utf-8")
            command = [str(program), f"-arch={device}", "-v", "-o", str(target), str(source)]
            before = time.perf_counter()
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=time_limit)
            except subprocess.TimeoutExpired:
                return None
            if done.returncode:
                raise RuntimeError(f"ptxas refuses a kernel: {done.stderr[:400]}")
            registers = max([registers, *(int(n) for n in re.findall(r"Used (\d+) registers", done.stderr))])
            counts = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
            spilled = max([spilled, *(int(stored) + int(loaded) for stored, loaded in counts)])
            seconds += time.perf_counter() - before
    return Report(registers, spilled, seconds)
