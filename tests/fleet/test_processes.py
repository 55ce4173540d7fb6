"""One batch over several processes, as on several hosts: the same numbers, and no superfluous
messages."""

from __future__ import annotations

import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def _run(folder: Path, processes: int, devices: int) -> list[dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    files = [folder / f"{processes}_{number}.json" for number in range(processes)]
    arguments = [sys.executable, "-m", "tests.support.process"]
    # All runs have the same kernels: the first one keeps them for the others.
    environment = {**os.environ, "ARTIX_CACHE": str(folder / "kernels")}
    running = [
        subprocess.Popen(
            [*arguments, *map(str, (number, processes, port, devices)), str(file)], env=environment
        )
        for number, file in enumerate(files)
    ]
    try:
        assert [process.wait(timeout=600) for process in running] == [0] * processes
    finally:
        for process in running:
            process.kill()
    return [json.loads(file.read_text()) for file in files]


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[dict[str, Any]]]:
    """Eight devices of as many processes as one asks for."""
    folder = tmp_path_factory.mktemp("processes")
    return functools.cache(lambda processes: _run(folder, processes, 8 // processes))


def _whole(run: list[dict[str, Any]], name: str) -> np.ndarray:
    parts = {int(first): rows for process in run for first, rows in process[name]["parts"].items()}
    return np.concatenate([np.asarray(parts[first]) for first in sorted(parts)])


@pytest.mark.parametrize(
    "processes",
    [pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize(
    "name", ["mass matrix", "forward dynamics", "step", "gradient", "training", "fleet"]
)
def test_processes_share_a_batch(
    run_of: Callable[[int], list[dict[str, Any]]], name: str, processes: int
) -> None:
    wanted, run = _whole(run_of(1), name), run_of(processes)
    found = _whole(run, name)
    assert found.shape == wanted.shape
    close = 1e-5 if name == "training" else 1e-12  # learning is in float32
    np.testing.assert_allclose(found, wanted, rtol=close, atol=close)
    if name in ("gradient", "training"):  # by what all robots share: a sum over all of them
        assert {each for process in run for each in process[name]["collectives"]} == {"all-reduce"}
        assert np.linalg.norm(found) > 1e-6
    else:
        assert not any(process[name]["collectives"] for process in run)


@pytest.mark.slow
def test_members_on_other_hosts_are_refused(run_of: Callable[[int], list[dict[str, Any]]]) -> None:
    assert [process["member elsewhere"] for process in run_of(1)] == [""]
    assert all(
        "lies on devices of other processes" in process["member elsewhere"] for process in run_of(2)
    )
