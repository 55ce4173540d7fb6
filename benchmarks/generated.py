"""artix beside Pinocchio's templates and the code that Pinocchio generates, in processor time:
``python -m benchmarks.generated``.

Other load on the machine stretches long calls more than short ones by the clock, but hardly changes
the processor time. The rows take turns; the least counts.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.judge import prepared
from benchmarks.libraries import load
from benchmarks.robots import Robot, benchmark_robots

LIBRARIES = ("artix", "Pinocchio (C++)", "Pinocchio (generated)")
QUANTITIES = ("inverse dynamics", "forward dynamics", "mass matrix")
BATCH, TURNS, SECONDS = 4096, 5, 1.0


def processor_seconds(library: Any) -> float:
    """What this process has used, or the one in which Pinocchio's C++ runs."""
    process = getattr(library, "_process", None)
    if process is None:
        return time.process_time()
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def turn(library: Any, program: Any) -> float:
    """Microseconds of processor time for one state, over calls that take a second."""
    before, begin, calls = processor_seconds(library), time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begin < SECONDS:
        program.value()
        calls += 1
    return 1e6 * (processor_seconds(library) - before) / calls / BATCH


def rows_of(robot: Robot) -> Iterator[str]:
    """A line of the table for each quantity."""
    sides = [load(name, robot, BATCH, float("inf")) for name in LIBRARIES]
    for quantity in QUANTITIES:
        ready = [prepared(*side, quantity, BATCH) for side in sides]
        turns = [
            [turn(side[0], program) for side, (program, _) in zip(sides, ready, strict=True)]
            for _ in range(TURNS)
        ]
        ours, templates, generated = map(min, zip(*turns, strict=True))
        first = [facts.get("compile_seconds", 0.0) for _, facts in ready]
        yield (
            f"| {robot.name} | {quantity} | {ours:.3f} | {templates:.2f} | {generated:.2f} "
            f"| {templates / ours:.1f} | {generated / ours:.1f} | {first[0]:.1f}, {first[2]:.1f} |"
        )


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", nargs="+", default=["quadruped", "humanoid"])
    options = parser.parse_args()
    os.environ["ARTIX_CACHE"] = "0"  # First calls compile.
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(
        "| robot | quantity | artix | templates | generated | templates / artix "
        "| generated / artix | first call of artix, generated [s] |\n|---|---|" + "---:|" * 6
    )
    for robot in benchmark_robots():
        if robot.key in options.robots:
            for row in rows_of(robot):
                print(row, flush=True)


if __name__ == "__main__":
    main()
