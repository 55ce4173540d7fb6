"""Identification on several hosts, one of which dies: the others stop, and all continue from the
last checkpoint."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import artix
from artix.examples import many_hosts


@pytest.mark.slow
def test_masses_are_found() -> None:
    robot = artix.robots.load("double_pendulum", dtype="float64")
    mesh = Mesh(np.array(jax.devices("cpu")), ("robots",))
    with jax.numpy_dtype_promotion("standard"):  # optax mixes its counter with floats
        masses = many_hosts.train(robot, mesh, None, num_robots=64, iterations=150)
    np.testing.assert_allclose(masses, robot.link_mass, atol=1e-3)


def _start(folder: Path, output: Path, host: int, port: int) -> subprocess.Popen[bytes]:
    hosts = ["--coordinator", f"localhost:{port}", "--num-hosts", "2", "--host", str(host)]
    command = [
        sys.executable,
        "-m",
        "artix.examples.many_hosts",
        *hosts,
        "--robots",
        "64",
        "--iterations",
        "60",
    ]
    settings = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    with output.open("wb") as out:
        return subprocess.Popen(
            [*command, "--checkpoints", str(folder)], stdout=out, env=os.environ | settings
        )


def _two(folder: Path, outputs: Path) -> list[subprocess.Popen[bytes]]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return [_start(folder, outputs / f"{host}.txt", host, port) for host in range(2)]


@pytest.mark.exhaustive
def test_a_host_that_dies_costs_what_came_after_the_last_checkpoint(tmp_path: Path) -> None:
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    running = _two(broken, tmp_path)
    try:
        limit = time.monotonic() + 300
        while not (broken / "20").is_dir() and time.monotonic() < limit:
            time.sleep(0.05)
        running[1].kill()
        running[1].wait()
        time.sleep(2)
        assert "masses found" not in (tmp_path / "0.txt").read_text()  # it does not go on alone
    finally:
        for process in running:  # JAX gives up by itself after its heartbeat's timeout
            process.kill()
            process.wait()

    assert [process.wait(300) for process in _two(broken, tmp_path)] == [0, 0]
    continued = (tmp_path / "0.txt").read_text()
    assert int(re.search(r"continued after iteration (\d+)", continued)[1]) >= 20
    assert [process.wait(300) for process in _two(whole, tmp_path)] == [0, 0]
    uninterrupted = (tmp_path / "0.txt").read_text()
    assert continued.splitlines()[-2:] == uninterrupted.splitlines()[-2:]
    assert "masses found" in continued
