"""One run: its robots, quantities, libraries and batches, and the record it writes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from benchmarks import memory
from benchmarks.measure import Result, compare
from benchmarks.quantities import QUANTITIES
from benchmarks.report import Table
from benchmarks.robots import ROBOTS, Robot, benchmark_robots
from benchmarks.roofline import Machine, measured_machine
from benchmarks.worker import Failure, Worker


@dataclasses.dataclass(frozen=True)
class Choice:
    """What a run measures.

    Attributes:
      robots, quantities, libraries: their keys and names.
      batches: articulations per call, ascending.
      repeats: timed calls of each program.
      time_limit: seconds to compile and judge a program.
      memory_limit: bytes that a program may need.
    """

    robots: tuple[str, ...]
    quantities: tuple[str, ...]
    libraries: tuple[str, ...]
    batches: tuple[int, ...]
    repeats: int
    time_limit: float = 120.0
    memory_limit: float = float("inf")


@dataclasses.dataclass
class Run:
    """The record of a run, as stored in the JSON file.

    Attributes:
      machine: the device and its measured limits, the best of the runs that were added.
      cores: of the host.
      repeats: timed calls of each program.
      robots: the tables' names of the robots, by key.
      versions: of the libraries.
      memory: the C library's setting of its pages.
      load: the machine's load averages over a minute, at the beginning and after each row.
      results: all cells.
      date: when it began.
    """

    machine: Machine
    repeats: int
    cores: int
    robots: dict[str, str] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    memory: str = ""
    load: list[float] = dataclasses.field(default_factory=list)
    results: list[Result] = dataclasses.field(default_factory=list)
    date: str = ""

    @classmethod
    def read(cls, file: Path) -> Run:
        """The record of an earlier run."""
        values = json.loads(file.read_text(encoding="utf-8"))
        values["machine"] = Machine(**values["machine"])
        values["results"] = [Result(**result) for result in values["results"]]
        return cls(**values)

    def save(self, file: Path) -> None:
        """Writes the record."""
        file.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")

    def table(self) -> Table:
        """The results by the robots' names in the tables."""
        return Table(
            dataclasses.replace(result, robot=self.robots[result.robot]) for result in self.results
        )

    def heading(self) -> str:
        """Where, when and with which versions it was measured."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        load = sorted(self.load)
        return (
            f"{self.machine.device}, {self.cores} cores, {self.date}, load average {load[0]:.1f} "
            f"to {load[-1]:.1f} (median {load[len(load) // 2]:.1f}). JAX libraries in float32, "
            f"Pinocchio in float64. Medians of {self.repeats} interleaved calls. {self.memory}. "
            f"{versions}."
        )


def run(choice: Choice, file: Path, earlier: Sequence[Run] = ()) -> Run:
    """Measures the choice. The record is written after every row, so an interrupted run is not
    lost.

    Args:
      choice: what to measure.
      file: where the record goes.
      earlier: runs on the same machine, whose results fill the gaps of this one.
    """
    made = Run(
        measured_machine(),
        choice.repeats,
        os.cpu_count() or 1,
        date=time.strftime("%Y-%m-%d %H:%M"),
    )
    made.versions = {"jax": metadata.version("jax"), "python": platform.python_version()}
    made.memory = memory.setting()
    made.load = [os.getloadavg()[0]]
    for other in earlier:
        made.robots |= other.robots
        made.versions = other.versions | made.versions
        made.machine = made.machine.at_best(other.machine)
        made.load += other.load
    new: list[Result] = []
    for robot in benchmark_robots():
        if robot.key not in choice.robots:
            continue
        made.robots[robot.key] = robot.name
        for results in _rows(robot, choice, made.versions):
            new += results
            made.load.append(os.getloadavg()[0])
            made.results = _joined(new, earlier)
            made.save(file)
    made.results = _joined(new, earlier)
    return made


def _rows(robot: Robot, choice: Choice, versions: dict[str, str]) -> Iterator[list[Result]]:
    """The cells of one robot, of all libraries at once for each quantity and batch."""
    workers: list[Worker] = []
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for name in choice.libraries:
            try:
                worker = Worker(
                    name, robot, max(choice.batches), choice.time_limit, choice.memory_limit
                )
            except Failure as failure:
                missing[name] = str(failure)
                continue
            stack.callback(worker.close)
            workers.append(worker)
            versions[name] = worker.version
        for quantity in choice.quantities:
            if QUANTITIES[quantity].robots and robot.key not in QUANTITIES[quantity].robots:
                continue
            for batch in choice.batches:
                found = {
                    result.library: result
                    for result in compare(workers, robot.key, quantity, batch, choice.repeats)
                }
                results = [
                    found.get(name)
                    or Result(robot.key, quantity, batch, name, failure=missing[name])
                    for name in choice.libraries
                ]
                print(_line(results), file=sys.stderr, flush=True)
                yield results


def _line(results: list[Result]) -> str:
    shown = [
        f"{r.library} {r.microseconds:.3g}" if r.microseconds else f"{r.library} fails"
        for r in results
    ]
    return (
        f"{results[0].robot}, {results[0].quantity}, batch {results[0].batch}: {', '.join(shown)} "
        "us"
    )


def _joined(new: list[Result], earlier: Sequence[Run]) -> list[Result]:
    """The results of several runs, with robots in their usual order; the later run wins if two have
    the same cell."""
    cells = {}
    for result in [*(result for other in earlier for result in other.results), *new]:
        cells[result.robot, result.quantity, result.batch, result.library] = result
    orders = [list(ROBOTS), list(QUANTITIES)]
    return sorted(
        cells.values(),
        key=lambda r: (orders[0].index(r.robot), orders[1].index(r.quantity), r.batch),
    )
