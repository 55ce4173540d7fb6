"""The report of NVIDIA's assembler on kernels: registers, and bytes that do not fit into them."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
import resource
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Kernel:
    """What the assembler reports of a kernel.

    Attributes:
      registers: registers of a thread.
      spilled: bytes that a thread writes to memory for lack of registers, and reads back.
      stack: bytes of that memory.
      shared: bytes of shared memory of a block.
      instructions: instructions in machine code.
    """

    registers: int
    spilled: int
    stack: int
    shared: int
    instructions: int


@dataclasses.dataclass(frozen=True)
class Report:
    """The assembler's report.

    Attributes:
      kernels: the kernels of all programs.
      seconds: processor time of the assembler.
    """

    kernels: tuple[Kernel, ...]
    seconds: float


@functools.cache
def assembler() -> Path | None:
    """The program ``ptxas`` of the wheel ``nvidia-cuda-nvcc-cu12``; ``None`` if it is not
    installed."""
    found = importlib.util.find_spec("nvidia")
    places = list(found.submodule_search_locations or []) if found else []
    files = [Path(place) / "cuda_nvcc/bin/ptxas" for place in places]
    return next((file for file in files if file.is_file()), None)


def assemble(
    texts: Sequence[str], device: str = "sm_90a", time_limit: float = 1200.0
) -> Report | None:
    """The assembler's report on programs in PTX; ``None`` if there is no assembler or it takes too
    long."""
    reports = [_assemble(text, device, time_limit) for text in texts]
    kernels = list[Kernel]()
    for report in reports:
        if report is None:
            return None
        kernels += report.kernels
    return Report(tuple(kernels), sum(report.seconds for report in reports if report is not None))


@functools.cache  # Batches of all sizes have the same kernels.
def _assemble(text: str, device: str, time_limit: float) -> Report | None:
    program = assembler()
    if program is None:
        return None
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(text, encoding="utf-8")
        command = [str(program), f"-arch={device}", "-v", "-o", str(target), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=time_limit)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode:
            raise RuntimeError(f"ptxas refuses a kernel: {done.stderr[:400]}")
        sizes = _sizes_of_code(target.read_bytes())
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
    return Report(tuple(_kernels(done.stderr, sizes)), seconds)


def _kernels(report: str, sizes: dict[str, int]) -> list[Kernel]:
    """The kernels in a report of ``ptxas -v``, given the bytes of their machine code."""
    kernels = []
    for part in report.split("Compiling entry function ")[1:]:
        name = part.split("'")[1]

        def number(pattern: str, part: str = part) -> int:
            match = re.search(pattern, part)
            return int(match[1]) if match else 0

        spilled = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
        stack, shared = number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes smem")
        kernels.append(
            Kernel(number(r"Used (\d+) registers"), spilled, stack, shared, sizes[name] // 16)
        )
    return kernels


def _sizes_of_code(content: bytes) -> dict[str, int]:
    """Bytes of machine code by kernel: the sections ``.text.NAME`` of an ELF file of 64 bits."""
    (table,) = struct.unpack_from("<Q", content, 40)
    size, count, of_names = struct.unpack_from("<HHH", content, 58)
    sections = [
        struct.unpack_from("<IIQQQQ", content, table + size * number) for number in range(count)
    ]
    names = sections[of_names][4]
    sizes = {}
    for start, _, _, _, _, length in sections:
        name = content[names + start : content.index(b"\0", names + start)].decode()
        if name.startswith(".text."):
            sizes[name.removeprefix(".text.")] = length
    return sizes
