"""``python -m benchmarks gpu-session``: measures everything that needs a GPU, the most important
things first.

The verdict about kernels comes first, then artix's kernels, training and memory, then peers, and
last what XLA makes of the same functions, since it takes long to compile them. Each measurement is
written as a line of JSON at once, so an interrupted session keeps its results. A failure is a line,
too, and so is a measurement that does not end. The next one then runs in a new process, because a
faulty kernel leaves the device unusable for the old one.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import jax
import numpy as np

import artix
from artix.compiler.gpu_proof import bandwidth
from artix.compiler.gpu_verdict import Gpu, judge, local_gpu, run_proof
from benchmarks.gpu.cases import Case, cases

#: Robots and functions, the most telling first.
_FIRST = {
    "quadruped": ("step at rest", "step on the ground", "step", "inverse dynamics"),
    "arm7": ("mass matrix", "inverse dynamics"),
    "humanoid": ("step at rest", "step on the ground", "step", "inverse dynamics"),
}
_REST = ("forward dynamics", "gradient of forward dynamics", "mass matrix", "link poses")
PEERS = ("mjx-warp", "mjx", "frax")
_OF_PEERS = ("step at rest", "step")
#: The longest that a measurement may take, and that the last one may take longer than the session
#: [s].
LONGEST, OVERTIME = 150.0, 20.0


class Task(NamedTuple):
    """A measurement."""

    name: dict[str, Any]
    measure: Callable[[], dict[str, Any]]


class Session:
    """The measurements and their shared settings.

    Args:
      is_dry: whether to run everything on a CPU with few robots, as a test.
      peers: what to measure beside artix.
    """

    def __init__(self, is_dry: bool, peers: Sequence[str] = PEERS) -> None:
        self._peers = peers
        self._cpu = jax.devices("cpu")[0]
        self._device = self._cpu if is_dry else jax.devices()[0]
        self._batches = (64, 128) if is_dry else (4096, 65536)
        # A call takes longer than it takes the host to start it.
        self._many = 256 if is_dry else 2**20
        self._first = {"arm7": ("step at rest", "mass matrix")} if is_dry else _FIRST
        self._is_dry = is_dry
        self._repeats = 3 if is_dry else 20
        self._cases: dict[tuple[str, str, int], dict[str, Case]] = {}
        self._compiled: dict[Any, tuple[Any, Any, float]] = {}
        self._expected: dict[tuple[str, int, str], list[np.ndarray]] = {}

    def tasks(self) -> Iterator[Task]:
        """All measurements in order of importance."""
        yield Task({"what": "device"}, self._machine)
        yield Task({"what": "verdict"}, self._verdict)
        small, large = self._batches
        first, *_ = self._first
        for robot, functions in self._first.items():
            yield from self._checks(robot, functions, small)
            for batch in self._batches:
                yield from self._times("artix", robot, functions, batch)
            smooth = tuple(name for name in functions if not name.startswith("step"))
            yield from self._times("artix", robot, smooth, self._many)
        yield Task({"what": "training", "task": self._task}, self._training)
        yield from self._memories(first, small, True)
        for library in self._peers:
            for batch in (large, small):
                yield from self._times(library, first, _OF_PEERS, batch)
        yield from self._times("artix", first, self._first[first], small, kernels=False)
        yield from self._gaps(first, small)
        yield from self._rollouts(first, small, True)
        for robot in self._first:
            yield from self._checks(robot, _REST, small)
            for batch in self._batches:
                yield from self._times("artix", robot, _REST, batch)
        for robot, functions in self._first.items():
            every = (*functions, *_REST)
            for batch in self._batches:
                for library in self._peers:
                    yield from self._times(library, robot, every, batch)
                yield from self._times("artix", robot, every, batch, kernels=False)
        yield from self._memories(first, small, False)
        yield from self._rollouts(first, small, False)

    def _machine(self) -> dict[str, Any]:
        names = ("jax", "jaxlib", "llvmlite", "frax", "mujoco", "mujoco-mjx", "warp-lang")
        return {
            "device": str(self._device.device_kind),
            "versions": {name: _version(name) for name in names},
        }

    def _verdict(self) -> dict[str, Any]:
        """What ``artix gpu`` reports; on a CPU, that the process which checks ends without a
        GPU."""
        gpu = local_gpu()
        if gpu is None and not self._is_dry:
            raise NotImplementedError("the device is no NVIDIA GPU")
        verdict = judge(gpu or Gpu("none", "", "", "", "", ""), run_proof(), 0.0)
        return {
            "state": verdict.state,
            "reason": verdict.reason,
            "checks": verdict.checks,
            "times": verdict.times,
        }

    @property
    def _task(self) -> str:
        return "cart_pole" if self._is_dry else "quadruped_velocity"

    def _training(self) -> dict[str, Any]:
        """Steps of environments a second while PPO learns, after the first two iterations, which
        compile."""
        from artix import envs
        from artix.examples import ppo

        config = (
            ppo.Config(num_envs=8, unroll=2, minibatches=1)
            if self._is_dry
            else ppo.Config(num_envs=4096)
        )
        reports = []
        before = time.perf_counter()
        with artix.use_kernels(True, gpu=True):
            steps = 5 * config.num_envs * config.unroll
            for _, report in ppo.train(
                envs.make(self._task), config, steps=steps, devices=[self._device]
            ):
                reports.append((report["steps"], time.perf_counter() - before))
        (begin, start), (end, stop) = reports[1], reports[-1]
        return {
            "seconds_until_first_result": reports[0][1],
            "steps_per_second": (end - begin) / (stop - start),
        }

    def _case(self, library: str, robot: str, batch: int, function: str) -> Case:
        key = (library, robot, batch)
        if key not in self._cases:
            self._cases[key] = cases(*key)
        if function not in self._cases[key]:
            raise NotImplementedError(f"{library} has no {function}")
        return self._cases[key][function]

    def _made(
        self, library: str, robot: str, batch: int, function: str, kernels: bool
    ) -> tuple[Any, Any, float]:
        """The compiled function, arguments on the device, and the seconds until the first
        result."""
        key = (library, robot, batch, function, kernels)
        if key not in self._compiled:
            case = self._case(library, robot, batch, function)
            with jax.default_device(self._cpu):
                arguments = case.make(jax.random.key(1))
            arguments = jax.device_put(arguments, self._device)
            before = time.perf_counter()
            with artix.use_kernels(True, gpu=kernels):
                compiled = jax.jit(lambda *args: case.function(*args)).lower(*arguments).compile()
            result = jax.block_until_ready(compiled(*arguments))
            seconds = time.perf_counter() - before
            for _ in range(case.repeats):
                arguments = result, *arguments[1:]
                result = compiled(*arguments)
            self._compiled[key] = compiled, jax.block_until_ready(arguments), seconds
        return self._compiled[key]

    def _checks(self, robot: str, functions: tuple[str, ...], batch: int) -> Iterator[Task]:
        """Compares kernels with the same functions on the CPU in single precision."""
        for function in functions:
            name = {
                "what": "error",
                "robot": robot,
                "function": function,
                "kernels": True,
                "batch": batch,
            }
            yield Task(name, functools.partial(self._error, robot, batch, function))

    def _error(self, robot: str, batch: int, function: str) -> dict[str, Any]:
        compiled, arguments, _ = self._made("artix", robot, batch, function, True)
        key = (robot, batch, function)
        if key not in self._expected:
            case = self._case("artix", *key)
            with jax.default_device(self._cpu):
                results = jax.jit(lambda *args: case.function(*args))(
                    *jax.device_put(arguments, self._cpu)
                )
            self._expected[key] = [np.asarray(x, np.float64) for x in jax.tree.leaves(results)]
        found = [np.asarray(x, np.float64) for x in jax.tree.leaves(compiled(*arguments))]
        pairs = zip(found, self._expected[key], strict=True)
        errors = []
        for one, other in pairs:
            errors.append(
                float(np.abs(one - other).max(initial=0) / max(np.abs(other).max(initial=0), 1e-9))
            )
        return {"largest_relative_error": max(errors)}

    def _times(
        self, library: str, robot: str, functions: tuple[str, ...], batch: int, kernels: bool = True
    ) -> Iterator[Task]:
        for function in functions:
            name: dict[str, Any] = {
                "what": "time",
                "library": library,
                "robot": robot,
                "function": function,
            }
            name |= {"kernels": kernels and library == "artix", "batch": batch}
            yield Task(
                name, functools.partial(self._time, library, robot, batch, function, kernels)
            )

    def _time(
        self, library: str, robot: str, batch: int, function: str, kernels: bool
    ) -> dict[str, Any]:
        compiled, arguments, first = self._made(library, robot, batch, function, kernels)
        times = self._timed(compiled, arguments)
        size = sum(x.nbytes for x in jax.tree.leaves((arguments, compiled(*arguments))))
        seconds = 1e-6 * times["us_in_a_row"]
        rates = {
            "robots_per_second": batch / seconds,
            "gigabytes_per_second": 1e-9 * size / seconds,
        }
        return {
            "seconds_until_first_result": first,
            **times,
            **rates,
            "share_of_bandwidth": size / seconds / self._bandwidth,
        }

    @functools.cached_property
    def _bandwidth(self) -> float:
        return bandwidth(self._device)

    def _timed(self, compiled: Any, arguments: Any) -> dict[str, Any]:
        """Times one call that is waited for, and consecutive calls, which hide the work of the
        host."""
        single, many = [], []
        for _ in range(self._repeats):
            before = time.perf_counter()
            jax.block_until_ready(compiled(*arguments))
            single.append(time.perf_counter() - before)
        for _ in range(3):
            before = time.perf_counter()
            for _ in range(self._repeats):
                result = compiled(*arguments)
            jax.block_until_ready(result)
            many.append((time.perf_counter() - before) / self._repeats)
        return {"us_of_a_call": 1e6 * float(np.median(single)), "us_in_a_row": 1e6 * min(many)}

    def _memories(self, robot: str, batch: int, kernels: bool) -> Iterator[Task]:
        """The memory that reverse mode through steps keeps."""
        name: dict[str, Any] = {
            "what": "memory",
            "robot": robot,
            "function": "gradient of ten steps",
            "kernels": kernels,
        }
        yield Task(name | {"batch": batch}, functools.partial(self._memory, robot, batch, kernels))

    def _memory(self, robot: str, batch: int, kernels: bool) -> dict[str, Any]:
        compiled, arguments, first = self._made(
            "artix", robot, batch, "gradient of ten steps", kernels
        )
        found = {"seconds_until_first_result": first, **self._timed(compiled, arguments)}
        memory = compiled.memory_analysis()
        peak = (self._device.memory_stats() or {}).get("peak_bytes_in_use")
        return {
            **found,
            "temporaries": memory and memory.temp_size_in_bytes,
            "peak_of_the_process": peak,
        }

    def _gaps(self, robot: str, batch: int) -> Iterator[Task]:
        """The time of a launch beside its work: calls of the smallest function, for one robot and
        for many."""
        for count in (1, 32, batch):
            name = {
                "what": "launch",
                "robot": robot,
                "function": "link poses",
                "kernels": True,
                "batch": count,
            }
            yield Task(
                name, functools.partial(self._time, "artix", robot, count, "link poses", True)
            )

    def _rollouts(self, robot: str, batch: int, kernels: bool) -> Iterator[Task]:
        """A hundred steps in one program, which JAX repeats in a loop."""
        name = {"what": "hundred steps", "robot": robot, "kernels": kernels, "batch": batch}
        yield Task(name, functools.partial(self._steps, robot, batch, kernels))

    def _steps(self, robot: str, batch: int, kernels: bool) -> dict[str, Any]:
        case = self._case("artix", robot, batch, "step")
        _, arguments, _ = self._made("artix", robot, batch, "step", kernels)

        def steps(state: Any, extra: Any) -> Any:
            return jax.lax.fori_loop(0, 100, lambda _, now: case.function(now, extra), state)

        with artix.use_kernels(True, gpu=kernels):
            compiled = jax.jit(steps).lower(*arguments).compile()
        return self._timed(compiled, arguments)


class Failure(Exception):
    """A measurement failed; its line is written."""


def run(
    session: Session, file: TextIO, until: float, done: set[str], restart: Callable[[], None]
) -> None:
    """Makes the measurements until time runs out, none of them twice.

    Args:
      session: what to measure.
      file: for the results.
      until: when the last measurement begins, in seconds since the epoch.
      done: names of measurements that were made before.
      restart: starts the session again; called, from another thread, if a measurement does not end.

    Raises:
      Failure: a measurement failed.
    """

    def write(task: Task, line: dict[str, Any]) -> None:
        text = json.dumps({"task": task.name} | line)
        print(text, flush=True)
        file.write(text + "\n")
        file.flush()

    def give_up(task: Task, seconds: float) -> None:
        write(task, {"error": f"not done after {seconds:.0f} s"})
        restart()

    for task in session.tasks():
        label = json.dumps(task.name)
        if label in done:
            continue
        done.add(label)
        if time.time() > until:
            return
        before, failure = time.monotonic(), None
        limit = min(LONGEST, until - time.time() + OVERTIME)
        watch = threading.Timer(limit, give_up, (task, limit))
        watch.daemon = True
        watch.start()
        try:
            found = task.measure()
        except (ImportError, NotImplementedError) as reason:
            found = {"skipped": _line_of(reason)}
        except Exception as error:  # one that fails must not end the session
            found, failure = {"error": _line_of(error)}, error
        watch.cancel()
        write(task, found | {"seconds": round(time.monotonic() - before, 3)})
        if failure is not None:
            raise Failure from failure


def _line_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300].replace("\n", " ")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _done(file: Path) -> set[str]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {json.dumps(json.loads(line)["task"]) for line in lines}


def main(arguments: list[str]) -> int:
    """Runs a session; returns 1 if there is no GPU."""
    options = _parser().parse_args(arguments)
    if not options.dry_run and jax.default_backend() != "gpu":
        print(
            "no GPU: jax.default_backend() is",
            jax.default_backend(),
            "(try --dry-run)",
            file=sys.stderr,
        )
        return 1
    file = Path(options.output) / "gpu-session.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    until = options.until or time.time() + 60 * options.minutes

    def restart() -> None:
        again = [*arguments, *(() if options.until else ("--until", str(until)))]
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks", "gpu-session", *again])

    with file.open("a", encoding="utf-8") as lines:
        try:
            run(
                Session(options.dry_run, options.peers),
                lines,
                until,
                _done(file) if options.until else set(),
                restart,
            )
        except Failure:
            restart()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu-session", description=__doc__)
    add = parser.add_argument
    add(
        "--dry-run",
        action="store_true",
        help="the same on a CPU, of one robot: does it run through?",
    )
    add("--minutes", type=float, default=8.0, help="after which nothing new is begun (default: 8)")
    add(
        "--peers",
        nargs="*",
        choices=PEERS,
        default=PEERS,
        metavar="NAME",
        help=f"of {', '.join(PEERS)} (default: all)",
    )
    folder = os.environ.get("OUT", "benchmark-results")
    add(
        "--output",
        default=folder,
        metavar="FOLDER",
        help="for gpu-session.jsonl (default: %(default)s)",
    )
    add("--until", type=float, help=argparse.SUPPRESS)  # of a session that goes on after a failure
    return parser
