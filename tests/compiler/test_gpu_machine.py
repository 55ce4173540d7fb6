"""The model of a GPU that predicts times from the assembler's report."""

from __future__ import annotations

import pytest

from benchmarks.gpu import machine
from benchmarks.gpu.assembler import Kernel, assemble, assembler

SMALL = Kernel(registers=128, spilled=0, stack=0, shared=5_504, instructions=1_900)
LARGE = Kernel(registers=255, spilled=27_200, stack=2_816, shared=10_240, instructions=36_000)


def test_few_robots_leave_three_of_four_schedulers_idle() -> None:
    """A warp on each of 128 multiprocessors takes as long as four on each."""
    one, four = (machine.predict(SMALL, 32 * warps, 0.0) for warps in (128, 4 * 128))
    assert one.issue == four.issue == 1_900
    assert machine.predict(SMALL, 32 * 132 * 5, 0.0).issue == 2 * 1_900


def test_limits() -> None:
    assert machine.warps_of_multiprocessor(SMALL) == 16  # 65,536 registers / (32 * 128)
    assert machine.warps_of_multiprocessor(LARGE) == 8
    assert machine.predict(SMALL, 65_536, 20e6).limit == "memory"
    assert machine.predict(SMALL, 65_536, 20e6).seconds == pytest.approx(2e-6 + 20e6 / 3.35e12)
    few, many = machine.predict(LARGE, 4_096, 1e6), machine.predict(LARGE, 65_536, 1e6)
    # The memory of one warp, 90 kB, fits into the first cache.
    assert few.spill == 27_200 * 32 / 128
    assert many.spill > 16 * few.spill  # That of eight fits into neither cache.
    assert many.limit == "spill"


def test_a_warp_alone_waits_as_measured() -> None:
    """Nsight Compute, quadruped's step of 4,096 robots on an H100: 31,588 instructions of a warp in
    295,000 cycles."""
    step = Kernel(registers=255, spilled=4 * 7_169, stack=3_104, shared=10_240, instructions=31_588)
    cycles = machine.predict(step, 4_096, 1e6)
    assert cycles.limit == "wait"
    assert cycles.wait == pytest.approx(295_000, rel=0.02)


ADD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p)
{
  .reg .b64 %rd<2>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [p];
  ld.global.f32 %f1, [%rd1];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd1], %f2;
  ret;
}
"""


@pytest.mark.skipif(assembler() is None, reason="needs ptxas, of nvidia-cuda-nvcc-cu12")
def test_report_of_the_assembler() -> None:
    report = assemble([ADD], "sm_90")
    assert report is not None
    (kernel,) = report.kernels
    assert kernel.spilled == kernel.stack == kernel.shared == 0
    assert 4 <= kernel.registers <= 16
    assert 5 <= kernel.instructions <= 64
    assert 0 < report.seconds < 10
