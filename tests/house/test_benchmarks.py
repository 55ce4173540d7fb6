"""The benchmark suite: a tiny run of artix and Pinocchio, and the handling of libraries that are
missing or fail."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys

import numpy as np
import pinocchio
import pytest

from benchmarks import guard, roofline
from benchmarks.comparison import MARK, main
from benchmarks.libraries.pinocchio_cpp import tree_text
from benchmarks.libraries.pinocchio_results import DYNAMICS
from benchmarks.measure import Result
from benchmarks.report import Table, report
from benchmarks.robots import Robot, benchmark_robots, chain_urdf
from benchmarks.roofline import Machine
from benchmarks.run import Run
from benchmarks.worker import Failure, Worker

PYTHON = "Pinocchio (Python)"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A run of one robot, one quantity and two batches, the tables in a page."""
    folder = tmp_path_factory.mktemp("benchmarks")
    page = folder / "page.md"
    page.write_text(f"# Before\n\n{MARK}\nold tables\n")
    chosen = [
        "--robot",
        "arm",
        "--quantity",
        "mass matrix",
        "--library",
        "artix",
        PYTHON,
        "--batch",
        "2",
        "8",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(roofline.SIZES, "cpu", (256, 2**22))
        assert main([*chosen, "--repeats", "2", "--output", str(folder), "--page", str(page)]) == 0
    return folder


@pytest.mark.slow
def test_a_tiny_run_measures_and_judges_every_cell(tiny):
    run = Run.read(tiny / "results.json")
    assert {(result.library, result.batch) for result in run.results} == {
        (library, batch) for library in ("artix", PYTHON) for batch in (2, 8)
    }
    for result in run.results:
        assert result.failure is None
        assert result.microseconds > 0
        # artix computes in float32; Pinocchio is its own judge, to rounding.
        assert result.error < (1e-5 if result.library == "artix" else 1e-12)
    ours = next(result for result in run.results if result.library == "artix")
    assert min(ours.compile_seconds, ours.instructions, ours.peak_bytes, ours.operations) > 0
    # Positions of float32 in, the matrix out; what else is in a state XLA may drop.
    assert 2 * 4 * (7 + 49) <= ours.moved_bytes <= 2 * 4 * (13 + 3 * 7 + 49)


@pytest.mark.slow
def test_a_run_is_written_as_tables_and_plots(tiny):
    text = (tiny / "page.md").read_text()
    assert text.startswith("# Before")
    assert "old tables" not in text
    for part in (
        "| mass matrix |",
        "## artix and the roofline",
        "batch 2 / 8",
        "throughput-arm.svg",
    ):
        assert part in text
    assert (tiny / "page" / "throughput-arm.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_peers_that_cannot_say_why():
    fleet = Robot(
        "fleet",
        "fleet",
        "",
        False,
        tuple(robot for robot in benchmark_robots() if robot.key == "arm"),
    )
    with pytest.raises(Failure, match="one topology in a program"):
        Worker(PYTHON, fleet, 2, 60.0, 1e9)
    unreadable = Robot("arm", "arm", "<robot", True)
    with pytest.raises(Failure, match="Error"):
        Worker(PYTHON, unreadable, 2, 60.0, 1e9)


def test_a_quantity_that_is_not_offered_and_a_limit_that_is_passed():
    worker = Worker(PYTHON, Robot("chain", "chain", chain_urdf(4), True), 2, 60.0, 1e9)
    try:
        with pytest.raises(Failure, match="not offered"):
            worker.prepare("step", 2)
        assert worker.prepare("mass matrix", 2)["error"] < 1e-12
        worker._limit = 0.0
        # Or it may answer before it is asked for the answer
        os.kill(worker._process.pid, signal.SIGSTOP)
        with pytest.raises(Failure, match="longer than 0 s"):
            worker.prepare("mass matrix", 2)
    finally:
        worker.close()


def test_the_tree_for_generated_code_is_the_whole_model():
    """A model rebuilt from the text has the same inverse dynamics."""
    model = pinocchio.buildModelFromXML(skew_chain(), pinocchio.JointModelFreeFlyer())
    count, *lines = tree_text(model).splitlines()
    rebuilt = pinocchio.Model()
    for line in lines:
        kind, parent, *words = line.split()
        axis, rotation, position, mass, lever, inertia = np.split(
            np.array(words, float), [3, 12, 15, 16, 19]
        )
        aligned = getattr(pinocchio, kind)
        joint = aligned(axis) if kind == "JointModelRevoluteUnaligned" else aligned()
        placement = pinocchio.SE3(rotation.reshape(3, 3), position)
        added = rebuilt.addJoint(int(parent), joint, placement, f"joint{rebuilt.njoints}")
        body = pinocchio.Inertia(mass.item(), lever, inertia.reshape(3, 3))
        rebuilt.appendBodyToJoint(added, body, pinocchio.SE3.Identity())
    assert int(count) == len(lines) == 5
    q = pinocchio.randomConfiguration(model, -np.ones(model.nq), np.ones(model.nq))
    v, a = np.random.default_rng(0).normal(size=(2, model.nv))
    wanted = pinocchio.rnea(model, model.createData(), q, v, a)
    np.testing.assert_array_equal(pinocchio.rnea(rebuilt, rebuilt.createData(), q, v, a), wanted)
    model.armature[-1] = 0.1
    with pytest.raises(NotImplementedError, match="armature"):
        tree_text(model)


def skew_chain() -> str:
    """A chain of four joints, one of them about an axis between the coordinate axes."""
    return chain_urdf(4).replace('xyz="0 1 0"', 'xyz="0.6 0 0.8"', 1)


@pytest.mark.slow
def test_the_code_that_pinocchio_generates_is_right():
    """Needs a C++ compiler and the wheels with headers; compiles for two minutes, with 3 GB."""
    robot = Robot("chain", "chain", skew_chain(), True)
    try:
        worker = Worker("Pinocchio (generated)", robot, 4, 900.0, 1e9)
    except Failure as failure:
        pytest.skip(str(failure))
    try:
        for quantity in DYNAMICS:
            facts = worker.prepare(quantity, 4)
            assert facts["error"] < 1e-12
            assert facts["compile_seconds"] > 0
    finally:
        worker.close()


def result(library: str, microseconds: float | None, failure: str | None = None) -> Result:
    samples = [] if microseconds is None else [microseconds]
    return Result("arm", "mass matrix", 4096, library, failure=failure, samples=samples)


def test_missing_peers_are_shown_with_their_reasons():
    table = Table(
        [result("artix", 1.0), result("frax", None, "not installed (frax)"), result("MJX", 8.0)]
    )
    text = report(table, None)
    assert "| arm | mass matrix | 1 | fails [1] | 8 | 8.0 (MJX) |\n" in text
    assert "1. not installed (frax)" in text
    assert "8 to 8, aim 4: reached" in text


def test_rows_and_libraries_of_several_batches_are_shown_together():
    small = dataclasses.replace(result("artix", 3.0), batch=64, compile_seconds=0.2)
    large = dataclasses.replace(result("artix", 1.0), compile_seconds=0.5)
    alone = dataclasses.replace(result("artix", 7.0), quantity="step")
    text = report(Table([small, large, result("MJX", 8.0), alone]), None)
    after = text.partition("longest first call, batch 64 / 4096")[2]
    assert after.strip().splitlines() == [
        "| robot | quantity | artix |",
        "|---|---|---:|",
        "| arm | mass matrix | 3 / 1; 0.5 s |",
    ]


def test_a_busy_machine_keeps_the_limits_it_once_reached():
    idle, busy = Machine("cpu", 4e9, 1e8), Machine("cpu", 1e9, 3e8)
    assert busy.at_best(idle) == Machine("cpu", 4e9, 3e8)
    with pytest.raises(ValueError, match="results of gpu cannot be added"):
        busy.at_best(Machine("gpu", 4e9, 1e8))


def test_aims_that_are_not_reached_name_their_robots():
    results = [result("artix", 1.0), result("MJX", 3.0), result("Pinocchio (C++)", 1.5)]
    results[0].compile_seconds, results[1].compile_seconds = 1.0, 2.5
    results[0].instructions = results[1].instructions = 100.0
    text = report(Table(results), None)
    assert "3 to 3, aim 4: **not reached** by arm: 3 | 1.5 to 1.5, aim 1: reached" in text
    assert "2.5 to 2.5, aim 3: **not reached** by arm: 2.5" in text


def test_a_ratio_is_the_median_over_the_repeats_that_both_ran():
    ours, theirs = result("artix", None), result("MJX", None)
    ours.samples, theirs.samples = (
        [1.0, 2.0, 1.0, 1.0],
        [4.0, 9.0, 5.0],
    )  # the machine was slow in the second
    np.testing.assert_allclose(Table([ours, theirs]).ratio("arm", "mass matrix", 4096, "MJX"), 4.5)


def test_the_fraction_of_the_roofline_is_that_of_the_nearer_limit():
    machine = Machine("a machine", operations_per_second=1e9, bytes_per_second=1e8)
    measured = dataclasses.replace(
        result("artix", 10.0), batch=100, operations=2e5, moved_bytes=1e4
    )
    # 200 us against 100 us, of the 1000 us that it takes
    assert machine.bound(measured) == "operations"
    np.testing.assert_allclose(machine.fraction(measured), 0.2)
    assert machine.bound(dataclasses.replace(measured, moved_bytes=4e4)) == "bytes"


def test_the_guard_finds_what_is_slow_or_absent(monkeypatch):
    monkeypatch.setattr(
        guard, "FLOORS", {("arm", "mass matrix", "MJX"): 4.0, ("arm", "mass matrix", "frax"): 2.0}
    )
    fast = Table([result("artix", 1.0), result("MJX", 5.0), result("frax", 3.0)])
    assert guard.broken(fast) == []
    slow = Table(
        [result("artix", 1.0), result("MJX", 3.0), result("frax", None, "not installed (frax)")]
    )
    assert guard.broken(slow) == [
        "arm, mass matrix: MJX takes 3.00 times as long as artix; the floor is 4",
        "arm, mass matrix: no ratio to frax: not installed (frax)",
    ]


def test_without_their_extra_the_benchmarks_say_which_one():
    code = (
        "import sys; sys.modules['pinocchio'] = None; from benchmarks.__main__ import main; "
        "sys.exit(main(['--help']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install -e '.[bench]'" in done.stderr and done.stderr.count("\n") == 1
