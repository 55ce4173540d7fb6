"""The report of NVIDIA's assembler on kernels: registers, and bytes that do not fit into them."""

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
    """The numbers of the most demanding kernel.

    Attributes:
      registers: registers per thread.
      spilled: bytes that a thread writes to memory for lack of registers, and reads back.
      seconds: time of the assembler for all kernels.
    """

    registers: int
    spilled: int
    seconds: float


@functools.cache
def assembler() -> Path | None:
    """The program ``ptxas`` of the wheel ``nvidia-cuda-nvcc-cu12``; ``None`` if it is not installed."""
    found = importlib.util.find_spec("nvidia")
    places = list(found.submodule_search_locations or []) if found else []
    files = [Path(place) / "cuda_nvcc/bin/ptxas" for place in places]
    return next((file for file in files if file.is_file()), None)


def assemble(texts: list[str], device: str = "sm_90a", time_limit: float = 300.0) -> Report | None:
    """The assembler's report on programs in PTX; ``None`` if there is no assembler or it takes too long."""
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
