"""Thousands of broken files: none may hang, crash, use much memory, or raise anything but artix's
own error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="MuJoCo (pip install mujoco) is not installed")


def run(format_name: str, count: int, seed: int) -> None:
    command = [sys.executable, "-m", "tests.support.fuzz", format_name, str(count), str(seed)]
    limit = 120 + 0.2 * count
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit,
        cwd=Path(__file__).parents[2],
    )
    last = [line for line in result.stdout.splitlines() if line.startswith("case")][-1:]
    wrong = [line for line in result.stdout.splitlines() if line.startswith("WRONG")]
    # A negative code is the signal that ended the process: a crash of a parser written in C, in the
    # last case.
    assert result.returncode == 0, (result.returncode, last, wrong[:10], result.stderr[-500:])
    assert f"done: {count} cases" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("format_name", ["urdf", "mjcf"])
def test_mutated_descriptions(format_name):
    run(format_name, 300, seed=0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("format_name", ["urdf", "mjcf"])
def test_ten_thousand_mutated_descriptions(format_name):
    run(format_name, 10_000, seed=1)
