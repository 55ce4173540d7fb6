"""One batch over several processes, as on several hosts: the same numbers, and nothing said that need not be."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow


def _run(folder: Path, processes: int, devices: int) -> list[dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    files = [folder / f"{processes}_{number}.json" for number in range(processes)]
    arguments = [sys.executable, "-m", "tests.support.process"]
    running = [
        subprocess.Popen([*arguments, *map(str, (number, processes, port, devices)), str(file)])
        for number, file in enumerate(files)
    ]
    try:
        assert [process.wait(timeout=600) for process in running] == [0] * processes
    finally:
        for process in running:
            process.kill()
    return [json.loads(file.read_text()) for file in files]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    """Eight devices of one process, of two and of four."""
    folder = tmp_path_factory.mktemp("processes")
    return {processes: _run(folder, processes, 8 // processes) for processes in (1, 2, 4)}


def _whole(run: list[dict[str, Any]], name: str) -> np.ndarray:
    parts = {int(first): rows for process in run for first, rows in process[name]["parts"].items()}
    return np.concatenate([np.asarray(parts[first]) for first in sorted(parts)])


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("name", ["mass matrix", "forward dynamics", "step", "gradient", "training"])
def test_processes_share_a_batch(runs: dict[int, list[dict[str, Any]]], name: str, processes: int) -> None:
    found, wanted = _whole(runs[processes], name), _whole(runs[1], name)
    assert found.shape == wanted.shape
    close = 1e-5 if name == "training" else 1e-12  # learning is in float32
    np.testing.assert_allclose(found, wanted, rtol=close, atol=close)
    if name in ("gradient", "training"):  # by what all robots share: a sum over all of them
        assert {each for process in runs[processes] for each in process[name]["collectives"]} == {"all-reduce"}
        assert np.linalg.norm(found) > 1e-6
    else:
        assert not any(process[name]["collectives"] for process in runs[processes])
