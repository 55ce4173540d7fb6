"""The Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from benchmarks.libraries import JAX_PEERS, LIBRARIES
from benchmarks.measure import Result
from benchmarks.roofline import Machine

CPP = "Pinocchio (C++)"
GENERATED = "Pinocchio (generated)"

#: How many times faster artix should compile than the JAX peer that compiles fastest.
COMPILE_AIM = 3.0

#: Quantity: how many times faster artix should be than the best JAX peer, and than Pinocchio in C++
#: on all cores.
AIMS = {
    "link poses": (2.0, 0.7),
    "poses and velocities": (2.0, 0.7),
    "dense Jacobian": (4.0, 1.0),
    "mass matrix": (4.0, 1.0),
    "bias force": (4.0, 1.5),
    "inverse dynamics": (4.0, 1.5),
    "forward dynamics": (4.0, 1.0),
    "inverse dynamics derivatives": (6.0, 1.0),
    "forward dynamics derivatives": (6.0, 1.0),
}


class Table:
    """All results of a run, found by robot, quantity, batch and library."""

    def __init__(self, results: Iterable[Result]) -> None:
        self.results = list(results)
        self._found = {(r.robot, r.quantity, r.batch, r.library): r for r in self.results}
        names = _unique(r.library for r in self.results)
        order = tuple(LIBRARIES)
        self.libraries = sorted(
            names, key=lambda name: order.index(name) if name in order else len(order)
        )
        self.batches = sorted(_unique(r.batch for r in self.results))
        self.rows = _unique((r.robot, r.quantity) for r in self.results)
        #: the batch of tables that show only one
        self.batch = max(
            (b for b in self.batches if b <= 4096), default=max(self.batches, default=0)
        )
        self.reasons = _unique(r.failure for r in self.results if r.failure is not None)

    def result(self, robot: str, quantity: str, batch: int, library: str) -> Result | None:
        """One cell, or ``None``."""
        return self._found.get((robot, quantity, batch, library))

    def ratio(self, robot: str, quantity: str, batch: int, peer: str) -> float | None:
        """The peer's time divided by artix's: the median over the repeats in which both ran."""
        ours, theirs = (self.result(robot, quantity, batch, name) for name in ("artix", peer))
        if ours is None or theirs is None or not ours.samples or not theirs.samples:
            return None
        # A slow program has fewer repeats: only the first ones.
        return median(b / a for a, b in zip(ours.samples, theirs.samples, strict=False))

    def best_peer(self, robot: str, quantity: str, batch: int) -> tuple[str, float] | None:
        """The fastest other JAX library and its ratio."""
        ratios = [(name, self.ratio(robot, quantity, batch, name)) for name in JAX_PEERS]
        found = [(name, ratio) for name, ratio in ratios if ratio is not None]
        return min(found, key=lambda pair: pair[1]) if found else None

    def compile_ratio(self, robot: str, quantity: str, batch: int) -> float | None:
        """The compile time of the JAX peer that compiles fastest, divided by artix's."""
        ours = self.result(robot, quantity, batch, "artix")
        peers = [self.result(robot, quantity, batch, name) for name in JAX_PEERS]
        times = [
            peer.compile_seconds for peer in peers if peer is not None and peer.compile_seconds
        ]
        return (
            min(times) / ours.compile_seconds
            if ours is not None and ours.compile_seconds and times
            else None
        )


def report(table: Table, machine: Machine | None) -> str:
    """All tables of a run, one section each."""
    parts = [_times(table), _aims(table), _programs(table), _errors(table)]
    if len(table.batches) > 1:
        parts.append(_batches(table))
    if machine is not None:
        parts.append(_roofline(table, machine))
    if table.reasons:
        parts.append(
            "## Why numbers are missing\n\n"
            + "\n".join(f"{k}. {r}" for k, r in enumerate(table.reasons, 1))
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _times(table: Table) -> str:
    names = {CPP: "C++ / artix", GENERATED: "generated / artix"}
    compared = {name: head for name, head in names.items() if name in table.libraries}

    def cells(robot: str, quantity: str) -> list[str]:
        found = [table.result(robot, quantity, table.batch, name) for name in table.libraries]
        best = table.best_peer(robot, quantity, table.batch)
        ratios = (table.ratio(robot, quantity, table.batch, name) for name in compared)
        return [
            *(_cell(table, result, _time_and_first_call) for result in found),
            "" if best is None else f"{best[1]:.1f} ({best[0]})",
            *("" if ratio is None else f"{ratio:.1f}" for ratio in ratios),
        ]

    heads = [*table.libraries, "best JAX peer / artix", *compared.values()]
    return (
        f"## Microseconds for one articulation, and seconds of the first call, batch {table.batch}"
        "\n\nThe first call traces and compiles, or generates code and compiles it; Pinocchio's "
        "templates are compiled before.\n\n" + _markdown(heads, cells, table.rows)
    )


def _time_and_first_call(result: Result) -> str:
    time = _short(result.microseconds)
    seconds = result.compile_seconds
    return time if not time or seconds is None else f"{time}; {seconds:.2g} s"


def _aims(table: Table) -> str:
    """For each aim, the smallest and the largest ratio and the robots that miss it."""
    lines = []
    for quantity, (peer_aim, cpp_aim) in AIMS.items():
        peers, cpp, compiling = {}, {}, {}
        for robot in (robot for robot, name in table.rows if name == quantity):
            best = table.best_peer(robot, quantity, table.batch)
            peers[robot] = None if best is None else best[1]
            cpp[robot] = table.ratio(robot, quantity, table.batch, CPP)
            compiling[robot] = table.compile_ratio(robot, quantity, table.batch)
        shown = [
            _aim(*pair) for pair in ((peer_aim, peers), (cpp_aim, cpp), (COMPILE_AIM, compiling))
        ]
        if any(shown):
            lines.append(f"| {quantity} | {' | '.join(shown)} |")
    if not lines:
        return ""
    heads = (
        "quantity",
        "best JAX peer / artix",
        "Pinocchio C++ / artix",
        "compiling: best JAX peer / artix",
    )
    head = f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|"
    return "\n".join([f"## Targets, batch {table.batch}\n", head, *lines])


def _aim(aim: float, found: Mapping[str, float | None]) -> str:
    ratios = {robot: ratio for robot, ratio in found.items() if ratio is not None}
    if not ratios:
        return ""
    missed = [f"{robot}: {ratio:.2g}" for robot, ratio in ratios.items() if ratio < aim]
    verdict = f"**not reached** by {', '.join(missed)}" if missed else "reached"
    return f"{min(ratios.values()):.2g} to {max(ratios.values()):.2g}, aim {aim:g}: {verdict}"


def _programs(table: Table) -> str:
    def show(result: Result) -> str:
        parts = []
        if result.instructions is not None:
            parts.append(f"{result.instructions:.0f}")
        if result.peak_bytes is not None:
            parts.append(f"{result.peak_bytes / 1e6:.3g} MB")
        return ", ".join(parts)

    title = f"## HLO instructions and peak memory, batch {table.batch}"
    return f"{title}\n\n" + _each_library(table, table.batch, show)


def _errors(table: Table) -> str:
    title = "## Largest error against Pinocchio in double precision, relative to the largest entry"
    show: Callable[[Result], str] = lambda r: "" if r.error is None else f"{r.error:.0e}"  # noqa: E731
    return f"{title}\n\n" + _each_library(table, table.batch, show)


def _batches(table: Table) -> str:
    """Rows and libraries measured in several batches."""
    several = {
        (robot, quantity, name)
        for robot, quantity in table.rows
        for name in table.libraries
        if sum(r is not None for r in _of_batches(table, robot, quantity, name)) > 1
    }
    libraries = [name for name in table.libraries if any(key[2] == name for key in several)]
    rows = [row for row in table.rows if any(key[:2] == row for key in several)]

    def cells(robot: str, quantity: str) -> list[str]:
        return [
            _over_batches(table, _of_batches(table, robot, quantity, name)) for name in libraries
        ]

    batches = " / ".join(map(str, table.batches))
    return (
        f"## Microseconds for one articulation, and seconds of the longest first call, batch "
        f"{batches}\n\n" + _markdown(libraries, cells, rows)
    )


def _of_batches(table: Table, robot: str, quantity: str, library: str) -> list[Result | None]:
    return [table.result(robot, quantity, batch, library) for batch in table.batches]


def _over_batches(table: Table, results: Sequence[Result | None]) -> str:
    times = [_cell(table, result, lambda r: _short(r.microseconds)) for result in results]
    first = [r.compile_seconds for r in results if r is not None and r.compile_seconds is not None]
    return " / ".join(times) + (f"; {max(first):.2g} s" if first else "")


def _roofline(table: Table, machine: Machine) -> str:
    def cells(robot: str, quantity: str) -> list[str]:
        result = table.result(robot, quantity, table.batch, "artix")
        fraction = None if result is None else machine.fraction(result)
        if result is None or fraction is None:
            return [""] * 4
        assert result.operations is not None
        assert result.moved_bytes is not None
        per = [value / result.batch for value in (result.operations, result.moved_bytes)]
        return [f"{per[0]:.0f}", f"{per[1]:.0f}", machine.bound(result), f"{100 * fraction:.1f} %"]

    heads = ["operations", "bytes in and out", "bound by", "of the roofline"]
    return (
        f"## artix and the roofline, batch {table.batch}\n\nThis machine multiplies matrices at "
        f"{machine.operations_per_second / 1e9:.0f} GFLOP/s and copies at "
        f"{machine.bytes_per_second / 1e9:.1f} GB/s. Operations and bytes are those of one "
        "articulation; XLA counts the operations of a loop once, so that programs in blocks and "
        "those of deep trees have more, and reach a larger share.\n\n"
        + _markdown(heads, cells, table.rows)
    )


# --- cells --------------------------------------------------------------------------------------


def _each_library(table: Table, batch: int, show: Callable[[Result], str]) -> str:
    def cells(robot: str, quantity: str) -> list[str]:
        return [
            _cell(table, table.result(robot, quantity, batch, name), show)
            for name in table.libraries
        ]

    return _markdown(table.libraries, cells, table.rows)


def _markdown(
    heads: Sequence[str],
    cells: Callable[[str, str], list[str]],
    rows: Sequence[tuple[str, str]],
) -> str:
    lines = ["| robot | quantity | " + " | ".join(heads) + " |", "|---|---|" + "---:|" * len(heads)]
    lines += [
        f"| {robot} | {quantity} | " + " | ".join(cells(robot, quantity)) + " |"
        for robot, quantity in rows
    ]
    return "\n".join(lines)


def _cell(table: Table, result: Result | None, show: Callable[[Result], str]) -> str:
    if result is None:
        return ""
    if result.failure is not None:
        return f"fails [{table.reasons.index(result.failure) + 1}]"
    return show(result)


def _short(microseconds: float | None) -> str:
    if microseconds is None:
        return ""
    return f"{microseconds:.3g}" if microseconds < 1000 else f"{microseconds:.0f}"


def _unique(values: Iterable) -> list:
    return list(dict.fromkeys(values))
