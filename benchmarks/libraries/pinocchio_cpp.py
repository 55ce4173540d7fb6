"""Pinocchio in C++, in double precision: ``pinocchio_batch.cpp`` compiled for this machine from the wheels' headers."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pinocchio

from benchmarks.libraries.base import mean_seconds
from benchmarks.libraries.pinocchio_results import PinocchioResults
from benchmarks.reference import FOOT, Reference, States
from benchmarks.robots import Robot

SOURCE = Path(__file__).with_name("pinocchio_batch.cpp")
#: The last three are needed to compile Pinocchio's visitors.
FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-DNDEBUG", "-pthread", "-w"),
    *(
        "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
        "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
        "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
    ),
)


class PinocchioCpp(PinocchioResults):
    """One model in a process of the compiled program, on as many threads as there are cores."""

    def __init__(self, robot: Robot, reference: Reference) -> None:
        super().__init__(reference)
        self._executable = executable()
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self, states: States) -> None:
        super().hold(states)
        folder = Path(self._folder.name)
        self.reference.model.saveToText(str(folder / "model.txt"))
        with open(folder / "states.bin", "wb") as file:
            np.array([len(self.q)], np.int64).tofile(file)
            for values in (self.q, self.v, self.acceleration, self.force):
                np.ascontiguousarray(values, np.float64).tofile(file)
        files = (str(folder / "model.txt"), str(folder / "states.bin"))
        feet = (*map(str, FOOT), *self.reference.feet)
        command = [str(self._executable), *files, str(os.cpu_count()), *feet]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def program(self, quantity: str, batch: int) -> _CppProgram:
        assert self._process is not None
        return _CppProgram(self._process, f"{batch} {quantity}\n".encode())


class _CppProgram:
    def __init__(self, process: subprocess.Popen[bytes], request: bytes) -> None:
        self.facts: dict[str, float] = {}
        self._process, self._request = process, request

    def value(self) -> np.ndarray:
        return self._run()[1]

    def seconds(self) -> float:
        return mean_seconds(lambda: self._run()[0])

    def _run(self) -> tuple[float, np.ndarray]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(self._request)
        stdin.flush()
        answer = stdout.readline().split()
        if len(answer) != 3:
            raise RuntimeError(f"pinocchio_batch answers {b' '.join(answer).decode()!r} to {self._request.decode()!r}")
        width, rows = int(answer[1]), int(answer[2])
        return float(answer[0]), np.frombuffer(stdout.read(8 * width * rows)).reshape(rows, width)


def executable() -> Path:
    """The compiled program, from the user's cache if this machine has already compiled it.

    Raises:
      FileNotFoundError: there is no compiler, or headers are missing; the message names the wheel that has them.
      subprocess.CalledProcessError: compilation fails.
    """
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise FileNotFoundError("no C++ compiler (g++ or clang++)")
    pinocchio_headers = _headers("pinocchio/multibody.hpp", "", "libpinocchio")
    includes = [pinocchio_headers, _headers("boost/version.hpp", "", "cmeel-boost")]
    includes.append(_headers("Eigen/Core", "eigen3", "cmeel-eigen"))
    library = includes[1].parent / "lib"
    key = "\n".join([SOURCE.read_text(), *FLAGS, pinocchio.__version__, platform.node(), compiler, *map(str, includes)])
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "artix-benchmarks"
    found = cache / f"pinocchio_batch-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    if not found.exists():
        print("compiling Pinocchio's C++ algorithms: once, some minutes", file=sys.stderr)
        cache.mkdir(parents=True, exist_ok=True)
        part = found.with_suffix(".part")
        search = [word for folder in includes for word in ("-isystem", str(folder))]
        link = [f"-L{library}", "-lboost_serialization", f"-Wl,-rpath,{library}"]
        subprocess.run([compiler, *FLAGS, *search, str(SOURCE), "-o", str(part), *link], check=True)
        part.replace(found)
    return found


def _headers(header: str, below: str, wheel: str) -> Path:
    """The include folder that has ``header``, among those of the installed wheels and the system's."""
    folders = [Path(entry) / "cmeel.prefix" / "include" / below for entry in sys.path]
    for folder in [*folders, Path("/usr/local/include") / below, Path("/usr/include") / below]:
        if (folder / header).exists():
            return folder
    raise FileNotFoundError(f"no header {header} (pip install {wheel})")
