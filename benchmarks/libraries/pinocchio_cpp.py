"""Pinocchio in C++, in double precision: its templates, and the code that it generates for one
model.

Both programs are compiled for this machine from the headers in wheels.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pinocchio

from benchmarks.libraries.base import mean_seconds
from benchmarks.libraries.pinocchio_results import DYNAMICS, PinocchioResults
from benchmarks.reference import FOOT, Reference, States
from benchmarks.robots import Robot

#: The last three are needed to compile Pinocchio's visitors.
FLAGS = (
    *("-std=c++17", "-march=native", "-DNDEBUG", "-pthread", "-w"),
    *(
        "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
        "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
        "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
    ),
)

#: The headers that a program needs: one of them, its folder below the include folder, and the wheel
#: that has them.
_HEADERS = (
    ("pinocchio/multibody.hpp", "", "libpinocchio"),
    ("boost/version.hpp", "", "cmeel-boost"),
    ("Eigen/Core", "eigen3", "cmeel-eigen"),
)
_GENERATOR_HEADERS = (
    ("cppad/cppad.hpp", "", "cmeel-cppad"),
    ("cppad/cg.hpp", "", "cmeel-cppadcodegen"),
)


class PinocchioCpp(PinocchioResults):
    """One model in a process of the compiled program, on as many threads as there are cores."""

    name = "pinocchio_batch"
    headers = _HEADERS
    optimization = "-O3"

    def __init__(self, robot: Robot, reference: Reference) -> None:
        super().__init__(reference)
        self._executable = executable(self.name, self.headers, self.optimization)
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self, states: States) -> None:
        super().hold(states)
        folder = Path(self._folder.name)
        self.save_model(str(folder / "model.txt"))
        with open(folder / "states.bin", "wb") as file:
            np.array([len(self.q)], np.int64).tofile(file)
            for values in (self.q, self.v, self.acceleration, self.force):
                np.ascontiguousarray(values, np.float64).tofile(file)
        files = (str(folder / "model.txt"), str(folder / "states.bin"))
        command = [str(self._executable), *files, str(os.cpu_count()), *self.options()]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def save_model(self, path: str) -> None:
        """Writes the model for the program to read."""
        self.reference.model.saveToText(path)

    def options(self) -> tuple[str, ...]:
        """The program's last arguments."""
        return (*map(str, FOOT), *self.reference.feet)

    def program(self, quantity: str, batch: int) -> CppProgram:
        assert self._process is not None
        return CppProgram(self._process, f"{batch} {quantity}\n".encode())


class PinocchioGenerated(PinocchioCpp):
    """The same with code that CppADCodeGen writes for the model and the machine's C compiler
    compiles.

    The program that writes it is compiled with little optimisation; the code that it writes does
    not depend on that.
    """

    name = "pinocchio_generated"
    optimization = "-O1"
    headers = (*_HEADERS, *_GENERATOR_HEADERS)

    def __init__(self, robot: Robot, reference: Reference) -> None:
        super().__init__(robot, reference)
        self.quantities = DYNAMICS

    def save_model(self, path: str) -> None:
        """Writes its tree: this program cannot read what Pinocchio saves."""
        Path(path).write_text(tree_text(self.reference.model), encoding="utf-8")

    def options(self) -> tuple[str, ...]:
        return (self._folder.name,)

    def program(self, quantity: str, batch: int) -> CppProgram:
        program = super().program(quantity, batch)
        begin = time.perf_counter()
        program.value()  # Generates and compiles the code.
        program.facts["compile_seconds"] = time.perf_counter() - begin
        return program


def tree_text(model: pinocchio.Model) -> str:
    """The joints of a model as ``pinocchio_generated.cpp`` reads them.

    Raises:
      NotImplementedError: the model has armature, which the text does not.
    """
    if np.any(model.armature):
        raise NotImplementedError("no code is generated for a model with armature")
    lines = [str(model.njoints - 1)]
    for k in range(1, model.njoints):
        joint, placement, body = model.joints[k], model.jointPlacements[k], model.inertias[k]
        axis = getattr(joint.extract(), "axis", np.zeros(3))
        parts = (axis, placement.rotation, placement.translation, body.mass, body.lever)
        numbers = np.concatenate([np.ravel(part) for part in (*parts, body.inertia)])
        lines.append(
            " ".join([joint.shortname(), str(model.parents[k]), *map(repr, numbers.tolist())])
        )
    return "\n".join(lines)


class CppProgram:
    """A quantity of a batch, which the process computes on request."""

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
            raise RuntimeError(
                f"Pinocchio answers {b' '.join(answer).decode()!r} to {self._request.decode()!r}"
            )
        width, rows = int(answer[1]), int(answer[2])
        return float(answer[0]), np.frombuffer(stdout.read(8 * width * rows)).reshape(rows, width)


def executable(name: str, headers: tuple[tuple[str, str, str], ...], optimization: str) -> Path:
    """The compiled program, from the user's cache if this machine has already compiled it.

    Args:
      name: of its source, beside this module.
      headers: what it includes, as in ``_HEADERS``.
      optimization: the compiler's option.

    Raises:
      FileNotFoundError: there is no compiler, or headers are missing; the message names the wheel
        that has them.
      subprocess.CalledProcessError: compilation fails.
    """
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise FileNotFoundError("no C++ compiler (g++ or clang++)")
    source = Path(__file__).with_name(f"{name}.cpp")
    includes = [_headers(*header) for header in headers]
    library = includes[1].parent / "lib"
    key = "\n".join(
        [
            source.read_text(),
            source.with_name("batch_server.hpp").read_text(),
            optimization,
            *FLAGS,
            pinocchio.__version__,
            platform.node(),
            compiler,
            *map(str, includes),
        ]
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "artix-benchmarks"
    program = cache / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    if not program.exists():
        print("compiling Pinocchio's C++ algorithms: once, some minutes", file=sys.stderr)
        cache.mkdir(parents=True, exist_ok=True)
        part = program.with_suffix(".part")
        search = [word for folder in includes for word in ("-isystem", str(folder))]
        link = [f"-L{library}", "-lboost_serialization", "-ldl", f"-Wl,-rpath,{library}"]
        subprocess.run(
            [compiler, optimization, *FLAGS, *search, str(source), "-o", str(part), *link],
            check=True,
        )
        part.replace(program)
    return program


def _headers(header: str, below: str, wheel: str) -> Path:
    """The include folder that has ``header``, among those of the installed wheels and the
    system's."""
    folders = [Path(entry) / "cmeel.prefix" / "include" / below for entry in sys.path]
    for folder in [*folders, Path("/usr/local/include") / below, Path("/usr/include") / below]:
        if (folder / header).exists():
            return folder
    raise FileNotFoundError(f"no header {header} (pip install {wheel})")
