"""``python -m benchmarks``: artix beside frax and MJX on the same robots and states, in one Markdown table."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import platform
import sys
import time
from typing import Any

import jax
import numpy as np

from benchmarks.libraries import LIBRARIES, QUANTITIES, Library
from benchmarks.measure import Result, compare
from benchmarks.reference import Reference
from benchmarks.robots import Robot, benchmark_robots


def main() -> int:
    """Runs the comparison and prints it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--batch", type=int, default=4096, help="robots per call (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=15, help="timed calls (default: %(default)s)")
    parser.add_argument("--quantity", action="append", choices=QUANTITIES, help="only this quantity; may be repeated")
    parser.add_argument("--robot", default="", help="only robots whose name contains this")
    parser.add_argument("--output", default="benchmark.json", help="where all numbers go (default: %(default)s)")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    print(_heading(options.batch, options.repeats))
    for robot in benchmark_robots():
        if options.robot.lower() in robot.name.lower():
            rows += _robot_rows(robot, options, versions)
    print(f"\n{_legend()}\n\n{_summary(rows)}")
    record = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "device": _device(),
        "batch": options.batch,
        "repeats": options.repeats,
        "versions": {"jax": jax.__version__, "numpy": np.__version__, "python": platform.python_version(), **versions},
        "rows": rows,
    }
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
    print(f"\nall numbers: {options.output}", file=sys.stderr)
    return 0


def _robot_rows(robot: Robot, options: argparse.Namespace, versions: dict[str, str]) -> list[dict[str, Any]]:
    reference = Reference(robot)
    states = reference.random_states(options.batch)
    libraries, missing = _libraries(robot, reference)
    versions.update({library.name: library.version for library in libraries})
    rows = []
    for quantity in options.quantity or QUANTITIES:
        if "constrained" in quantity and not reference.feet:
            continue
        found = {result.library: result for result in compare(libraries, quantity, reference, states, options.repeats)}
        results = [found.get(name) or Result(name, failure=missing[name]) for name, _ in LIBRARIES]
        print(_line(robot, quantity, results), flush=True)
        rows.append({"robot": robot.name, "quantity": quantity, "results": [dataclasses.asdict(r) for r in results]})
    return rows


def _libraries(robot: Robot, reference: Reference) -> tuple[list[Library], dict[str, str]]:
    """The libraries that can be had, and what is wrong with the others."""
    libraries, missing = [], {}
    for name, make in LIBRARIES:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # some greet on import; the table is alone on stdout
                libraries.append(make(robot, reference))
        except ImportError as error:
            missing[name] = f"not installed ({error.name})"
        except Exception as error:  # a reader that refuses a robot must not stop the others
            missing[name] = f"cannot read it: {type(error).__name__}: {error}".splitlines()[0][:100]
    return libraries, missing


# --- text -----------------------------------------------------------------------------------------------------------


def _heading(batch: int, repeats: int) -> str:
    names = [name for name, _ in LIBRARIES]
    columns = ["robot", "quantity", *names, *(f"{name} / artix" for name in names[1:])]
    return (
        f"{_device()}, float32, batch {batch}, median of {repeats} interleaved calls\n\n"
        + "| "
        + " | ".join(columns)
        + " |\n"
        + "|"
        + "|".join(["---"] * 2 + ["---:"] * (len(columns) - 2))
        + "|"
    )


def _line(robot: Robot, quantity: str, results: list[Result]) -> str:
    ratios = [_ratio(result, results[0]) for result in results[1:]]
    shown = [f"**{ratio:.1f}**" if ratio else "-" for ratio in ratios]
    return "| " + " | ".join([robot.name, quantity, *map(_cell, results), *shown]) + " |"


def _cell(result: Result) -> str:
    if result.failure is not None:
        return result.failure.replace("|", "/")
    return f"{result.microseconds:.2f} us, {result.instructions}, {result.compile_seconds:.1f} s, {result.error:.0e}"


def _ratio(peer: Result, artix: Result) -> float | None:
    return peer.microseconds / artix.microseconds if peer.microseconds and artix.microseconds else None


def _legend() -> str:
    return (
        "Cells: microseconds per robot, HLO instructions of the compiled program, seconds to compile, largest relative "
        "error against Pinocchio in float64."
    )


def _summary(rows: list[dict[str, Any]]) -> str:
    """The smallest ratio of each peer in the quantities that everybody wants first."""
    lines = []
    for index, (name, _) in enumerate(LIBRARIES[1:], start=1):
        for quantity in ("mass matrix", "bias force"):
            ratios = []
            for row in rows:
                results = [Result(**result) for result in row["results"]]
                ratio = _ratio(results[index], results[0])
                if row["quantity"] == quantity and ratio:
                    ratios.append(ratio)
            if ratios:
                lines.append(
                    f"- {quantity}: {name} takes {min(ratios):.1f} to {max(ratios):.1f} times as long as artix"
                )
    return "\n".join(lines)


def _device() -> str:
    device = jax.devices()[0]
    return f"{device.device_kind} ({device.platform})"


if __name__ == "__main__":
    sys.exit(main())
