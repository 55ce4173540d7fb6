"""The verdict about kernels on a GPU, without a GPU: its programs thread by thread, and stand-ins
for its process."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.cli.gpu import report, use_of_kernels
from artix.compiler import gpu_compilation, gpu_proof, gpu_verdict, lanes
from artix.compiler.batch_axes import groups_of, levels_of, merge_operands, merged, split_results
from artix.compiler.compilation import scalars_of
from artix.compiler.gpu_compilation import of_thread
from artix.compiler.gpu_proof import CASES, Case
from artix.compiler.gpu_verdict import (
    LANES,
    MAX_ULPS,
    Check,
    Gpu,
    Outcome,
    Verdict,
    judge,
    kernels_are_proved,
    obtain_verdict,
    read_verdict,
)
from artix.compiler.kernels import available as cpu_available
from artix.compiler.kernels.gpu_layout import Layout, Mapped
from artix.compiler.kernels.machine import gpu_available
from artix.compiler.operation import program_p
from artix.compiler.scalar_program import Op
from tests.support.gpu_threads import run_threads

pytestmark = pytest.mark.skipif(
    cpu_available() is not None, reason=f"no kernels here: {cpu_available()}"
)
needs_target = pytest.mark.skipif(gpu_available() is not None, reason=str(gpu_available()))

GPU = Gpu("NVIDIA T1", "9.0", "570.1", "0.10.0", "0.10.0", "1.0")
CHECK = Check("values", "float32", 33, 2.0)._asdict()
TIME = {"name": "values", "batch": 65536, "kernel": 1e-5, "xla": 9e-5, "bandwidth_share": 0.5}
RIGHT = Outcome(({"begin": "values"}, {"check": CHECK}, {"time": TIME}, {"end": True}), 0, "")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ARTIX_CACHE", str(folder))
    monkeypatch.delenv("ARTIX_GPU_KERNELS", raising=False)
    monkeypatch.setattr(gpu_verdict, "_of_this_process", {})
    return folder


# --- The programs -------------------------------------------------------------------------------


def by_threads(case: Case, arguments: Sequence[np.ndarray]) -> Any:
    """Evaluates a case with every program run as GPU code, one thread after another."""
    jaxpr, structure = jax.make_jaxpr(case.function, return_shape=True)(*arguments)
    values = dict(zip(jaxpr.jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        if equation.primitive is program_p:
            results = _threads(operands, **equation.params)
        else:
            results = equation.primitive.bind(*operands, **equation.params)
        results = results if equation.primitive.multiple_results else [results]
        values.update(zip(equation.outvars, results, strict=True))
    return jax.tree.unflatten(
        jax.tree.structure(structure), [read(atom) for atom in jaxpr.jaxpr.outvars]
    )


def _threads(operands: Sequence[Any], program: Any, axes: Any) -> list[Any]:
    groups = groups_of(axes, program.num_operand_values)
    single = merged(groups)
    rows = [tuple(axis.mapped[number] for axis in single) for number in range(len(operands))]
    mapped = [Mapped(row[:1] == (True,), row[1:] == (True,)) for row in rows]
    scalars, threads = of_thread(
        scalars_of(program, levels_of(single, len(operands))), len(single) == 1
    )
    layout = Layout(scalars, mapped, len(single) == 2, threads)
    arrays = [np.asarray(x) for x in merge_operands(groups, list(operands))]
    return list(
        split_results(
            groups, [jnp.asarray(x) for x in run_threads(layout, arrays, *(a.size for a in single))]
        )
    )


@pytest.mark.slow
def test_programs_agree_with_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "LEAST", 0)
    monkeypatch.setattr(gpu_proof, "CASES", tuple(case._replace(batches=(1, 33)) for case in CASES))
    begun: list[str] = []
    checks = list(gpu_proof.checks(by_threads, begun.append))
    assert len(begun) == len(checks) == 2 * sum(len(case.dtypes) for case in CASES)
    assert all(check.is_right for check in checks)
    assert max(check.ulps for check in checks) < MAX_ULPS / 4


@pytest.mark.parametrize("name", ["values", "loop until a condition holds"])
def test_a_mutated_kernel_is_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that add where they should multiply turn the verdict to off."""
    case = next(case for case in CASES if case.name == name)._replace(
        batches=(3,), dtypes=("float32",)
    )
    monkeypatch.setattr(gpu_proof, "CASES", (case,))
    (check,) = gpu_proof.checks(by_threads, lambda _: None)
    assert check.is_right
    _mutate(monkeypatch)
    (check,) = gpu_proof.checks(by_threads, lambda _: None)
    assert not check.is_right
    verdict = judge(GPU, Outcome(({"begin": name}, {"check": check._asdict()}), 0, ""), 1.0)
    assert verdict.state == "off" and name in verdict.reason


def _mutate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces one multiplication of the program that GPU threads run by an addition."""
    original = scalars_of

    def mutated(program: Any, *args: Any, **kwargs: Any) -> Any:
        scalars = original(program, *args, **kwargs)
        place = int(np.flatnonzero(scalars.operations == Op.MUL)[-1])
        operations = scalars.operations.copy()
        operations[place] = Op.ADD
        return scalars._replace(operations=operations)

    monkeypatch.setattr(sys.modules[__name__], "scalars_of", mutated)


@needs_target
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_xla_is_given_kernels(case: Case) -> None:
    with jax.enable_x64(case.dtypes[-1] == "float64"), artix.use_kernels(True, gpu=True):
        arguments = case.arguments(5, case.dtypes[-1])
        traced = jax.jit(lambda *args: case.function(*args)).trace(*arguments)
        assert "gpu.ptx" in traced.lower(lowering_platforms=("cuda",)).as_text()


def test_errors_that_must_be_seen() -> None:
    one = np.linspace(0.5, 1, 8, dtype="float32")
    assert gpu_proof.ulps_between(one, one) == 0
    assert gpu_proof.ulps_between(one * (1 + 3e-7), one) < 4
    for wrong in (
        one[::-1],
        one * np.float32("nan"),
        one.astype("float64"),
        one[:4],
        np.append(one[:7], np.inf),
    ):
        assert not Check("values", "float32", 8, gpu_proof.ulps_between(wrong, one)).is_right
    assert gpu_proof.ulps_between(np.array([1, 2]), np.array([1, 3])) == np.inf


# --- What follows from how the process ends -----------------------------------------------------


def outcome(*lines: dict[str, Any], code: int | None = 1, errors: str = "") -> Outcome:
    return Outcome(lines, code, errors)


BEGIN = {"begin": "values, float32, batch 33"}
SHARED = CHECK | {"name": f"{LANES}: values"}


@pytest.mark.parametrize(
    ("ending", "state", "reason"),
    [
        (RIGHT, "on", "1 comparisons agree"),
        (outcome({"check": CHECK | {"ulps": 1e5}}, code=0), "off", "error 1e\\+05 ulps"),
        (outcome({"check": CHECK | {"ulps": float("nan")}}, code=0), "off", "error nan"),
        (
            outcome({"check": CHECK}, {"time": TIME | {"kernel": 1.0}}, {"end": True}, code=0),
            "off",
            "XLA is faster",
        ),
        (outcome(BEGIN, code=-11), "off", "failed during values.*signal 11"),
        (
            outcome(BEGIN, errors="a\nXlaRuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS\n"),
            "off",
            "ILLEGAL_ADDRESS",
        ),
        (outcome(BEGIN, errors="NoKernel: values"), "off", "NoKernel"),
        (outcome(BEGIN, code=None), "undecided", "no time"),
        (outcome(BEGIN, errors="RESOURCE_EXHAUSTED: Out of memory"), "undecided", "no memory"),
        (outcome(BEGIN, code=-9), "undecided", "no memory"),
        (outcome(errors="CUDA_ERROR_DEVICE_UNAVAILABLE"), "undecided", "busy"),
        (
            outcome({"check": SHARED | {"ulps": 1e5}}, code=0),
            "on",
            "0 comparisons.*do not share a robot, because",
        ),
        (
            outcome({"begin": f"{LANES}: values, float32, batch 1"}, code=-11),
            "on",
            "do not share.*signal 11",
        ),
        (
            outcome(errors="ModuleNotFoundError: No module named 'jax'"),
            "undecided",
            "did not start: ModuleNotFound",
        ),
    ],
)
def test_verdicts(ending: Outcome, state: str, reason: str) -> None:
    verdict = judge(GPU, ending, 3.0)
    assert verdict.state == state
    assert re.search(reason, verdict.reason)
    assert Verdict.from_text(verdict.to_text()).state == state
    assert verdict.lanes == (state != "on" or "do not share" not in verdict.reason)
    assert verdict.reason in report(verdict)


def test_time_that_runs_out_twice_is_a_verdict() -> None:
    """A kernel that never ends must not cost every process a minute."""
    first = obtain_verdict(GPU, run=lambda: outcome(BEGIN, code=None))
    assert first.state == "undecided"
    second = obtain_verdict(GPU, run=lambda: outcome(BEGIN, code=None))
    assert second.state == "off" and "twice" in second.reason
    assert obtain_verdict(GPU, run=lambda: pytest.fail("decided")).state == "off"
    assert obtain_verdict(GPU, again=True, run=lambda: RIGHT).state == "on"


# --- The file -----------------------------------------------------------------------------------


def test_a_verdict_is_obtained_once_and_can_be_read(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert obtain_verdict(GPU, run=lambda: RIGHT).state == "on"
    (line,) = caplog.messages
    assert "artix gpu" in line and "NVIDIA T1" in line
    verdict = obtain_verdict(GPU, run=lambda: pytest.fail("there is a verdict"))
    assert len(caplog.messages) == 1
    content = json.loads((cache / GPU.file).read_text())
    assert content["state"] == "on" and content["gpu"]["driver"] == "570.1"
    text = report(verdict)
    assert "570.1" in text and "9.0" in text and "50 %" in text


def test_the_report_says_where_machine_code_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = obtain_verdict(GPU, run=lambda: RIGHT)
    monkeypatch.delenv("CUDA_CACHE_DISABLE", raising=False)
    monkeypatch.setenv("CUDA_CACHE_PATH", "/scratch/nv")
    assert "kept by the driver in /scratch/nv" in report(verdict)
    monkeypatch.setenv("CUDA_CACHE_DISABLE", "1")
    assert "again in every process" in report(verdict)


@pytest.mark.parametrize("field", Gpu._fields)
def test_a_verdict_is_stale_if_anything_changes(field: str) -> None:
    obtain_verdict(GPU, run=lambda: RIGHT)
    assert read_verdict(GPU._replace(**{field: "another"})) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"state": "on"}', "on"])
def test_a_damaged_file_is_not_a_verdict(content: str, cache: Path) -> None:
    obtain_verdict(GPU, run=lambda: RIGHT)
    (cache / GPU.file).write_text(content)
    assert read_verdict(GPU) is None
    assert obtain_verdict(GPU, run=lambda: RIGHT).state == "on"


def test_a_file_of_another_gpu_is_not_a_verdict(cache: Path) -> None:
    obtain_verdict(GPU, run=lambda: RIGHT)
    other = GPU._replace(name="NVIDIA T2")
    os.replace(cache / GPU.file, cache / other.file)
    assert read_verdict(other) is None


@pytest.mark.skipif(os.name != "posix", reason="permissions of files")
def test_a_file_that_others_could_have_written_is_not_read(cache: Path) -> None:
    obtain_verdict(GPU, run=lambda: RIGHT)
    (cache / GPU.file).chmod(0o666)
    assert read_verdict(GPU) is None
    (cache / GPU.file).chmod(0o600)
    cache.chmod(0o777)
    assert read_verdict(GPU) is None
    assert obtain_verdict(GPU, run=lambda: pytest.fail("others may write")).state == "undecided"


def test_without_a_cache_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTIX_CACHE", "0")
    verdict = obtain_verdict(GPU, run=lambda: pytest.fail("cannot be kept"))
    assert verdict.state == "undecided" and "ARTIX_CACHE" in verdict.reason


def _obtain(folder: str, queue: Any) -> None:
    os.environ["ARTIX_CACHE"] = folder

    def run() -> Outcome:
        queue.put("ran")
        time.sleep(0.5)
        return RIGHT

    queue.put(obtain_verdict(GPU, run=run).state)


@pytest.mark.slow
def test_two_processes_check_once(cache: Path) -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_obtain, args=(str(cache), queue)) for _ in range(2)]
    for process in processes:
        process.start()
    results = [queue.get(timeout=60) for _ in range(3)]
    for process in processes:
        process.join(60)
    assert sorted(results) == ["on", "on", "ran"]


# --- The process itself -------------------------------------------------------------------------


def child(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Starts this code in place of the check."""
    popen = subprocess.Popen

    def start(command: Sequence[str], **options: Any) -> Any:
        assert list(command) == [sys.executable, "-m", "artix.compiler.gpu_proof"]
        environment = options["env"]
        assert (
            environment["ARTIX_CACHE"] == "0"
            and environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
        )
        return popen([sys.executable, "-c", code], **options)

    monkeypatch.setattr(gpu_verdict.subprocess, "Popen", start)


def test_a_process_that_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    child(
        monkeypatch,
        'import os; print(\'{"begin": "values"}\', flush=True); os.kill(os.getpid(), 11)',
    )
    ending = gpu_verdict.run_proof()
    assert ending.code == -11
    assert judge(GPU, ending, 1.0).state == "off"


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    child(
        monkeypatch,
        'import time; print(\'{"begin": "values"}\\nnoise\\n{"cut\', flush=True); time.sleep(100)',
    )
    ending = gpu_verdict.run_proof(time_limit=2.0)
    assert ending.code is None and ending.lines == ({"begin": "values"},)


@pytest.mark.slow
def test_a_process_without_a_gpu_decides_nothing() -> None:
    ending = gpu_verdict.run_proof()
    verdict = judge(GPU, ending, 1.0)
    assert verdict.state == "undecided", verdict


# --- What is lowered ----------------------------------------------------------------------------


def lowered() -> str:
    pose = gpu_proof.CASES[0]
    function = jax.jit(lambda *args: pose.function(*args))
    return (
        function.trace(*pose.arguments(5, "float32")).lower(lowering_platforms=("cuda",)).as_text()
    )


@needs_target
@pytest.mark.parametrize(
    ("ending", "has_kernel"), [(RIGHT, True), (outcome(BEGIN, code=-11), False)]
)
def test_the_verdict_decides_what_is_lowered(
    ending: Outcome, has_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def run() -> Outcome:
        calls.append(1)
        return ending

    def proved() -> bool:
        return kernels_are_proved(gpu=lambda: GPU, run=run)

    monkeypatch.setattr(gpu_compilation, "kernels_are_proved", proved)
    assert ("gpu.ptx" in lowered()) == has_kernel
    assert ("gpu.ptx" in lowered()) == has_kernel
    assert len(calls) == 1


@needs_target
def test_the_environment_overrules_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_compilation, "kernels_are_proved", lambda: pytest.fail("not asked"))
    monkeypatch.setenv("ARTIX_GPU_KERNELS", "1")
    assert "gpu.ptx" in lowered()
    monkeypatch.setenv("ARTIX_GPU_KERNELS", "0")
    assert "gpu.ptx" not in lowered()


def test_no_gpu_is_no_question() -> None:
    assert not kernels_are_proved(gpu=lambda: None, run=lambda: pytest.fail("no GPU"))


@pytest.mark.parametrize("ending", [RIGHT, outcome(BEGIN, code=None)])
def test_a_command_says_the_verdict_once(
    ending: Outcome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It prints the line, the log is silent, and what it lowers then asks no more, even if nothing
    is decided."""
    runs = []

    def run() -> Outcome:
        runs.append(1)
        return ending

    asked = functools.partial(gpu_verdict.verdict_of_process, lambda: GPU, run)
    monkeypatch.setattr("artix.cli.gpu.verdict_of_process", asked)
    line = use_of_kernels()
    assert line is not None and "NVIDIA T1" in line
    assert kernels_are_proved(lambda: GPU, run) == (ending is RIGHT)
    assert len(runs) == 1 and not caplog.messages
    monkeypatch.setenv("ARTIX_GPU_KERNELS", "0")
    assert use_of_kernels() == "GPU kernels are off, because ARTIX_GPU_KERNELS is 0"
