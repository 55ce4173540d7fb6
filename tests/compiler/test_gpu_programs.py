"""What XLA makes of artix for an H100, with kernels: ceilings of launches, bytes and memory. No GPU
is needed.

The programs are compiled by ``python -m benchmarks gpu`` in processes of their own, as XLA must be
told beforehand.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.assembler import assembler
from benchmarks.gpu.hlo import launches

ROOT = Path(__file__).parents[2]

#: Robot, function, batch: most launches, most bytes moved over least, most bytes that a thread
#: spills, longest time of the assembler [s].
CEILINGS: dict[tuple[str, str, int], tuple[int, float, int, float]] = {
    ("quadruped", "link poses", 4096): (1, 1.1, 0, 1),
    ("quadruped", "mass matrix", 4096): (1, 1.1, 0, 1),
    ("quadruped", "inverse dynamics", 4096): (1, 1.1, 0, 1),
    ("quadruped", "forward dynamics", 4096): (1, 1.1, 2_500, 1),
    ("quadruped", "step", 4096): (1, 1.1, 30_000, 10),
    ("quadruped", "step on the ground", 4096): (1, 1.1, 55_000, 18),
    ("quadruped", "step of 8 substeps", 4096): (1, 1.1, 30_000, 12),
    ("humanoid", "link poses", 4096): (1, 1.1, 0, 1),
    ("humanoid", "mass matrix", 4096): (1, 1.1, 0, 2),
    ("humanoid", "inverse dynamics", 4096): (1, 1.1, 0, 2),
    ("humanoid", "forward dynamics", 4096): (1, 1.1, 14_000, 3),
    ("humanoid", "step", 4096): (1, 1.1, 100_000, 40),
    ("humanoid", "step on the ground", 4096): (1, 1.1, 180_000, 90),
}


def compiled(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "gpu",
        "--kernels",
        "on",
        "--output",
        str(folder),
        *arguments,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    if done.returncode == 1 and "wheels are" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    rows = json.loads((folder / "gpu.json").read_text())
    assert not [row for row in rows if "error" in row]
    return rows


needs_assembler = pytest.mark.skipif(
    assembler() is None, reason="needs ptxas, of nvidia-cuda-nvcc-cu12"
)


@pytest.mark.exhaustive
@needs_assembler
def test_programs_are_one_kernel(tmp_path: Path) -> None:
    names = sorted({name for _, name, _ in CEILINGS})
    rows = compiled(tmp_path, "--robots", "quadruped", "humanoid", "--functions", *names)
    found = {(row["robot"], row["function"], row["batch"]): row for row in rows}
    broken = []
    for key, ceilings in CEILINGS.items():
        row = found[key]
        numbers = (
            row["launches"],
            row["moved"] / row["least"],
            row["spilled"],
            row["assemble_seconds"],
        )
        if any(number > most for number, most in zip(numbers, ceilings, strict=True)):
            broken.append((key, numbers))
    assert not broken


@pytest.mark.exhaustive
@needs_assembler
def test_reverse_mode_keeps_little(tmp_path: Path) -> None:
    arguments = (
        "--robots",
        "arm7",
        "quadruped",
        "--functions",
        "gradient of ten steps",
        "--no-assembler",
    )
    for row in compiled(tmp_path, *arguments):
        assert row["temporaries"] <= 16e6
        assert row["launches"] <= 400


SPLIT = """
import jax, numpy as np
jax.config.update("jax_platforms", "cpu")
from jax.experimental import topologies
import artix
from artix.compiler.gpu_proof import CASES
target = open("benchmarks/gpu/h100_sxm.txtpb").read()
devices = topologies.get_topology_desc("", platform="cuda", topology="1x2x1", target_config=target).devices
split = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(devices), ("b",)), jax.sharding.PartitionSpec("b"))
case = CASES[0]
types = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=split) for x in case.arguments(66, "float32")]
with artix.use_kernels(True, gpu=True):
    lowered = jax.jit(lambda *x: case.function(*x), out_shardings=split).trace(*types).lower(lowering_platforms=("cuda",))
print(lowered.compile().as_text())
"""


@pytest.mark.exhaustive
@needs_assembler
def test_a_batch_on_two_gpus_is_a_kernel_on_each() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SPLIT]
    text = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout
    assert text.count("__gpu$xla.gpu.ptx") == 1
    assert "s32[2]{0} constant({33, 1})" in text
    assert not any(
        word in text for word in ("all-gather", "all-reduce", "collective-permute", "all-to-all")
    )


PROGRAM = """HloModule jit_f, entry_computation_layout={()->f32[4]{0}}

%fused (param_0: f32[64,4], param_1: s32[]) -> f32[4] {
  %param_0 = f32[64,4]{1,0} parameter(0)
  %param_1 = s32[] parameter(1)
  %slice.1 = f32[1,4]{1,0} slice(%param_0), slice={[0:1], [0:4]}
  %bitcast.1 = f32[4]{0} bitcast(%slice.1)
  ROOT %add.1 = f32[4]{0} add(%bitcast.1, %bitcast.1)
}

%body (arg: (f32[4], s32[])) -> (f32[4], s32[]) {
  %arg = (f32[4]{0}, s32[]) parameter(0)
  %gte.0 = f32[4]{0} get-tuple-element(%arg), index=0
  %gte.1 = s32[] get-tuple-element(%arg), index=1
  %call.1 = f32[4]{0} custom-call(%gte.0), custom_call_target="kernel"
  ROOT %tuple.1 = (f32[4]{0}, s32[]) tuple(%call.1, %gte.1)
}

ENTRY %main (x: f32[64,4], k: s32[]) -> f32[4] {
  %x = f32[64,4]{1,0} parameter(0)
  %k = s32[] parameter(1)
  %fusion.1 = f32[4]{0} fusion(%x, %k), kind=kLoop, calls=%fused
  %tuple.2 = (f32[4]{0}, s32[]) tuple(%fusion.1, %k)
  %while.1 = (f32[4]{0}, s32[]) while(%tuple.2), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"7"}}
  ROOT %gte.2 = f32[4]{0} get-tuple-element(%while.1), index=0
}
"""


def test_launches_of_a_program() -> None:
    fusion, call = launches(PROGRAM)
    assert (fusion.kind, fusion.times, fusion.bytes) == (
        "fusion",
        1,
        16 + 16,
    )  # of x one row, of k nothing
    assert (call.kind, call.times, call.bytes) == ("custom-call kernel", 7, 32)


@pytest.mark.slow
def test_missing_wheels_are_named(tmp_path: Path) -> None:
    if assembler() is not None:
        pytest.skip("they are here")
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks", "gpu", "--output", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert all(
        name in done.stderr
        for name in ("jax-cuda12-plugin", "jax-cuda12-pjrt", "nvidia-cuda-nvcc-cu12")
    )
