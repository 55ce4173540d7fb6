"""A model of an H100: the time of a kernel from the assembler's report, see docs/gpu.md.

Every limit of a multiprocessor gives a number of cycles, and the largest counts. The constants are
published ones, but those of fetching and waiting, which Nsight Compute measured for one kernel on
an H100.
"""

from __future__ import annotations

import dataclasses

from benchmarks.gpu.assembler import Kernel

THREADS = 32
#: Of an H100 SXM5.
MULTIPROCESSORS, SCHEDULERS, CLOCK = 132, 4, 1.755e9
REGISTERS, SHARED_BYTES, L1_BYTES, L2_BYTES = 65_536, 233_472, 262_144, 50 * 2**20
#: Bytes a cycle and multiprocessor: of the first cache, and of the second cache and the memory when
#: all use them.
L1_BANDWIDTH, L2_BANDWIDTH = 128.0, 5.5e12 / MULTIPROCESSORS / CLOCK
MEMORY_BANDWIDTH = 3.35e12 / MULTIPROCESSORS / CLOCK
#: Bytes of instructions that a multiprocessor keeps, and cycles for which a warp waits for a line
#: of 128 bytes beyond them: 199,000 for the 505 kB of a quadruped's step.
INSTRUCTION_CACHE, LINE_WAIT = 128 * 1024, 50
#: Cycles for which a warp waits for a word of its own memory: in that step, 65,000 for 7,169 words.
SPILL_WAIT = 9
LAUNCH_SECONDS = 2e-6


@dataclasses.dataclass(frozen=True)
class Cycles:
    """What each limit takes on the busiest multiprocessor.

    Attributes:
      issue: one instruction a cycle and scheduler.
      wait: a warp alone: its instructions, and its waiting for spilled words and for lines of
        instructions.
      spill: the traffic of spilled words.
      memory: arguments and results.
    """

    issue: float
    wait: float
    spill: float
    memory: float

    @property
    def limit(self) -> str:
        """The name of the largest."""
        return max(dataclasses.asdict(self).items(), key=lambda item: item[1])[0]

    @property
    def seconds(self) -> float:
        """The predicted time of a call."""
        return LAUNCH_SECONDS + max(dataclasses.astuple(self)) / CLOCK


def predict(kernel: Kernel, threads: int, moved: float) -> Cycles:
    """Predicts the time of a kernel in which every loop runs once.

    Args:
      kernel: the assembler's report.
      threads: number of threads.
      moved: bytes of arguments and results.
    """
    warps = -(-threads // THREADS)
    on_one = -(-warps // MULTIPROCESSORS)
    resident = min(on_one, warps_of_multiprocessor(kernel))
    turns = -(-on_one // resident)
    spilled = kernel.spilled * THREADS
    words = kernel.spilled / 4
    code = 16 * kernel.instructions
    lines = code / 128 if code > INSTRUCTION_CACHE else 0.0
    in_l1 = resident * THREADS * kernel.stack <= L1_BYTES - resident * kernel.shared
    in_l2 = MULTIPROCESSORS * resident * THREADS * kernel.stack <= L2_BYTES
    bandwidth = L1_BANDWIDTH if in_l1 else L2_BANDWIDTH if in_l2 else MEMORY_BANDWIDTH
    return Cycles(
        issue=kernel.instructions * -(-on_one // SCHEDULERS),
        wait=turns * (kernel.instructions + words * SPILL_WAIT + lines * LINE_WAIT),
        spill=on_one * spilled / bandwidth,
        memory=moved / MULTIPROCESSORS / MEMORY_BANDWIDTH,
    )


def warps_of_multiprocessor(kernel: Kernel) -> int:
    """How many blocks of one warp a multiprocessor runs at the same time."""
    by_registers = REGISTERS // (THREADS * -(-kernel.registers // 8) * 8)
    by_shared = SHARED_BYTES // (kernel.shared + 1024)
    return max(1, min(32, by_registers, by_shared))
