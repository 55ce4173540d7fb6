"""Whether this machine's GPU may run kernels: where it has shown, once, that it computes what the
CPU computes.

When a function is first compiled for a GPU, a process of its own runs
:mod:`artix.compiler.gpu_proof` there, and the verdict is kept in a file that can be read, for all
processes with the same GPU, driver, JAX and compiler of kernels. Whatever happens to that process,
this one goes on: without a verdict XLA evaluates everything.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax

from artix.compiler.disk import cache_folder, is_private, read_private, write_private

_log = logging.getLogger("artix")

#: How long the process may take. Compiling its 70 programs takes 7 s of one core, ahead of time for
#: an H100; the rest is for a busy machine, and for starting JAX and CUDA.
TIME_LIMIT = 60.0

#: The largest error, in units of the last place of a result's largest entry. Both sides round a few
#: hundred operations and elementary functions that are within a few units themselves, so a right
#: kernel stays below, and a wrong index, a missing barrier or a lost row is far above.
MAX_ULPS = 512

#: How the names of programs begin whose threads share a robot.
LANES = "threads of one robot"

ON = "on"
OFF = "off"
#: Nothing is known yet; the next process tries again.
UNDECIDED = "undecided"


class Gpu(NamedTuple):
    """What a verdict is about."""

    name: str
    compute_capability: str
    driver: str
    jax: str
    jaxlib: str
    artix: str
    """The version of artix and a digest of its compiler."""

    @property
    def file(self) -> str:
        """The name of the verdict's file."""
        return f"gpu-{hashlib.sha256(repr(tuple(self)).encode()).hexdigest()[:16]}.json"


class Check(NamedTuple):
    """What a comparison showed."""

    name: str
    dtype: str
    batch: int
    ulps: float
    """The largest error in units of the last place of the result's largest entry."""

    @property
    def is_right(self) -> bool:
        """Whether the results agree."""
        return self.ulps <= MAX_ULPS  # NaN is not.


class Verdict(NamedTuple):
    """What is known about kernels on a GPU."""

    state: str
    """``"on"``, ``"off"`` or ``"undecided"``."""
    reason: str
    gpu: Gpu
    seconds: float = 0.0
    """How long the process took."""
    checks: tuple[dict[str, Any], ...] = ()
    """See :class:`Check`."""
    times: tuple[dict[str, Any], ...] = ()
    unfinished: str = ""
    """The program during which time ran out."""
    lanes: bool = True
    """Whether threads may share a robot, see :mod:`artix.compiler.lanes`."""

    def to_text(self) -> str:
        """The content of its file."""
        return json.dumps({**self._asdict(), "gpu": self.gpu._asdict()}, indent=1) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Verdict:
        """Reads the content of a file.

        Raises:
          ValueError: it is no verdict.
        """
        try:
            fields = json.loads(text)
            verdict = cls(**{**fields, "gpu": Gpu(**fields["gpu"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a verdict: {error}") from error
        if verdict.state not in (ON, OFF, UNDECIDED):
            raise ValueError(f"not a verdict: state {verdict.state!r}")
        return verdict


def local_gpu() -> Gpu | None:
    """The NVIDIA GPU of this process; ``None`` if there is none."""
    try:
        device = jax.local_devices(backend="cuda")[0]
    except RuntimeError:  # No such backend.
        return None
    return gpu_of(device)


@functools.cache
def gpu_of(device: Any) -> Gpu:
    """What a verdict about a device depends on."""
    driver = _driver() or str(device.client.platform_version)
    capability = str(getattr(device, "compute_capability", "unknown"))
    version = importlib.metadata.version
    return Gpu(
        str(device.device_kind),
        capability,
        driver,
        version("jax"),
        version("jaxlib"),
        _compiler_version(),
    )


def _driver() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"Kernel Module.*?(\d+\.\d+[.\d]*)", text)
    return match[1] if match else None


@functools.cache
def _compiler_version() -> str:
    """Tells versions of the compiler apart, and those of someone who works on it, too."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    try:
        version = importlib.metadata.version("artix")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed"
    return f"{version}, compiler {digest.hexdigest()[:12]}"


# --- The process that checks --------------------------------------------------------------------


class Outcome(NamedTuple):
    """What a process printed, and how it ended."""

    lines: tuple[dict[str, Any], ...]
    code: int | None
    """Its exit code; ``None`` if time ran out."""
    errors: str


Run = Callable[[], Outcome]


def run_proof(time_limit: float = TIME_LIMIT) -> Outcome:
    """Runs the checks in a process of their own."""
    settings = {
        "ARTIX_CACHE": "0",  # Kernels are compiled as a user's would be, and not read.
        "ARTIX_KERNELS": "1",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "JAX_PLATFORMS": "cuda,cpu",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # This process has most of the memory.
    }
    command = [sys.executable, "-m", "artix.compiler.gpu_proof"]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**os.environ, **settings},
        )
        try:
            code = process.wait(time_limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            process.kill()
            process.wait()
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Outcome(tuple(_lines_of(texts[0])), code, texts[1])


def _lines_of(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            content = json.loads(line)
        except ValueError:  # Other libraries print, too, and the last line may be cut off.
            continue
        if isinstance(content, dict):
            yield content


def judge(gpu: Gpu, outcome: Outcome, seconds: float, before: Verdict | None = None) -> Verdict:
    """The verdict that follows from how a process ended.

    Args:
      gpu: what it is about.
      outcome: what the process did.
      seconds: how long it took.
      before: the verdict before, if any.
    """
    checks = tuple(line["check"] for line in outcome.lines if "check" in line)
    times = tuple(line["time"] for line in outcome.lines if "time" in line)
    program = next((line["begin"] for line in reversed(outcome.lines) if "begin" in line), "")

    def verdict(state: str, reason: str, unfinished: str = "") -> Verdict:
        return Verdict(state, reason, gpu, round(seconds, 1), checks, times, unfinished)

    def without_lanes(fault: str) -> Verdict:
        right = sum(not check["name"].startswith(LANES) for check in checks)
        reason = (
            f"{right} comparisons agree with the CPU; threads do not share a robot, because {fault}"
        )
        return verdict(ON, reason)._replace(lanes=False)

    wrong = next((check for check in checks if not Check(**check).is_right), None)
    if wrong is not None:
        where = f"{wrong['name']}, {wrong['dtype']}, batch {wrong['batch']}"
        fault = f"its results are not those of the CPU: {where}, error {wrong['ulps']:.3g} ulps"
        return without_lanes(fault) if wrong["name"].startswith(LANES) else verdict(OFF, fault)
    if outcome.code is None:
        if before is not None and before.unfinished:
            return verdict(
                OFF, f"time ran out twice, the last time during: {program or 'the start'}", program
            )
        return verdict(
            UNDECIDED, f"no time: {seconds:.0f} s were not enough", program or "the start"
        )
    if any("end" in line for line in outcome.lines):
        if times and all(time["kernel"] > time["xla"] for time in times):
            return verdict(OFF, "XLA is faster")
        return verdict(ON, f"{len(checks)} comparisons agree with the CPU")
    last = _last_line(outcome.errors)
    for sign, reason in _NOT_ITS_FAULT:
        if re.search(sign, outcome.errors, re.IGNORECASE):
            return verdict(UNDECIDED, f"{reason}: {last}")
    if outcome.code == -9:
        return verdict(UNDECIDED, "no memory: the process was killed")
    if not program:
        return verdict(UNDECIDED, f"the check did not start: {last or f'exit code {outcome.code}'}")
    ended = f"signal {-outcome.code}" if outcome.code < 0 else last or f"exit code {outcome.code}"
    fault = f"it failed during {program}: {ended}"
    return without_lanes(fault) if program.startswith(LANES) else verdict(OFF, fault)


#: What errors say that has nothing to do with kernels, and what it means.
_NOT_ITS_FAULT = (
    (r"RESOURCE_EXHAUSTED|out of memory|OUT_OF_MEMORY", "no memory"),
    (r"DEVICE_UNAVAILABLE|DEVICES?_?BUSY|busy or unavailable|exclusive", "busy"),
)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


# --- The verdict of this process ----------------------------------------------------------------


def read_verdict(gpu: Gpu) -> Verdict | None:
    """The verdict on file; ``None`` without one, or if the file is damaged or another user could
    have written it.
    """
    folder = cache_folder()
    content = None if folder is None else read_private(folder, gpu.file)
    if content is None:
        return None
    try:
        verdict = Verdict.from_text(content.decode())
    except ValueError:
        return None
    return verdict if verdict.gpu == gpu else None


def obtain_verdict(
    gpu: Gpu, again: bool = False, run: Run = run_proof, logs: bool = True
) -> Verdict:
    """The verdict on file, or else the one of a check, which is then on file.

    One process checks at a time; the others wait for its verdict.

    Args:
      gpu: what it is about.
      again: whether to check even if there is a verdict.
      run: runs the check.
      logs: whether a check is followed by a line in the log.
    """
    verdict = read_verdict(gpu)
    if verdict is not None and verdict.state != UNDECIDED and not again:
        return verdict
    folder = cache_folder()
    if folder is None:
        return Verdict(
            UNDECIDED, "nothing is kept on disk (ARTIX_CACHE=0), so no verdict is either", gpu
        )
    if not sys.executable:
        return Verdict(UNDECIDED, "this Python is embedded and cannot start a process", gpu)
    try:
        with _lock_of(folder) as is_locked:
            if not is_locked:
                return Verdict(
                    UNDECIDED, "busy: another process has been checking for too long", gpu
                )
            verdict = read_verdict(gpu)
            if verdict is not None and verdict.state != UNDECIDED and not again:
                return verdict  # Of the process that we waited for.
            start = time.monotonic()
            outcome = run()
            verdict = judge(gpu, outcome, time.monotonic() - start, None if again else verdict)
            write_private(folder, gpu.file, verdict.to_text().encode())
    except OSError as error:
        return Verdict(UNDECIDED, f"the check could not run: {error}", gpu)
    if logs:
        _log.warning("%s", summary(verdict))
    return verdict


def summary(verdict: Verdict) -> str:
    """One line for the user."""
    use = {
        ON: "kernels are used on it",
        OFF: "XLA evaluates on it",
        UNDECIDED: "XLA evaluates on it for the present",
    }
    ends = (
        f"; checked once, in {verdict.seconds:.0f} s; see: artix gpu"
        if verdict.seconds
        else "; see: artix gpu"
    )
    return f"{verdict.gpu.name}: {use[verdict.state]}, since {verdict.reason}{ends}"


@contextmanager
def _lock_of(folder: Path) -> Iterator[bool]:
    """Whether this process alone may check; false if that takes longer than a check."""
    import fcntl  # JAX has GPUs only where this exists.

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not is_private(folder):
        raise OSError(f"others may write to {folder}")
    with (folder / "gpu.lock").open("a") as file:
        until = time.monotonic() + TIME_LIMIT + 10
        while True:
            try:
                # The system releases it if the process dies.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    yield False
                    return
                time.sleep(0.1)
            else:
                yield True
                return


_thread_lock = threading.Lock()
_of_this_process: dict[Gpu, Verdict] = {}


def verdict_of_process(
    gpu: Callable[[], Gpu | None] = local_gpu, run: Run = run_proof, logs: bool = True
) -> Verdict | None:
    """The verdict that this process goes by, ``None`` without a GPU; see :func:`obtain_verdict`.

    The first call in a machine's life checks the GPU.
    """
    device = gpu()
    if device is None:
        return None
    with _thread_lock:
        if device not in _of_this_process:
            _of_this_process[device] = obtain_verdict(device, run=run, logs=logs)
        return _of_this_process[device]


def kernels_are_proved(gpu: Callable[[], Gpu | None] = local_gpu, run: Run = run_proof) -> bool:
    """Whether kernels are right on this process's GPU."""
    verdict = verdict_of_process(gpu, run)
    return verdict is not None and verdict.state == ON


def lanes_are_refuted() -> bool:
    """Whether it is known that threads must not share a robot on this process's GPU."""
    return any(not verdict.lanes for verdict in _of_this_process.values())
