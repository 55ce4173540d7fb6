"""Plots of a run: throughput over the batch; compile time and cost over the number of links of a
chain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Result
from benchmarks.report import Table
from benchmarks.robots import CHAIN_LENGTHS, ROBOTS

#: What is drawn, one panel each.
PANELS = ("mass matrix", "inverse dynamics", "forward dynamics")

_CHAINS = {f"chain-{links}": links for links in CHAIN_LENGTHS}


def draw(table: Table, folder: Path) -> list[Path]:
    """Writes every plot for which there are results.

    Args:
      table: the results, whose robots are keys.
      folder: where the files go.

    Returns:
      The files.
    """
    files = []
    robots = [robot for robot in ROBOTS if any(result.robot == robot for result in table.results)]
    for robot in (robot for robot in robots if robot not in _CHAINS):
        if len({result.batch for result in table.results if result.robot == robot}) < 2:
            continue
        file = folder / f"throughput-{robot}.svg"
        if _panels(table, file, _throughput(robot), "batch", "articulations per second"):
            files.append(file)
    if sum(robot in _CHAINS for robot in robots) > 1:
        by_links: tuple[tuple[str, Callable[[Result], float | None], str], ...] = (
            ("compile-time", lambda result: result.compile_seconds, "seconds to compile"),
            ("cost", lambda result: result.microseconds, "microseconds for one articulation"),
        )
        for name, value, label in by_links:
            file = folder / f"{name}-over-links.svg"
            if _panels(table, file, _over_links(table.batch, value), "links of a chain", label):
                files.append(file)
    return files


def _throughput(robot: str) -> Callable[[Result], tuple[float, float | None] | None]:
    def point(result: Result) -> tuple[float, float | None] | None:
        if result.robot != robot or not result.microseconds:
            return None
        return result.batch, 1e6 / result.microseconds

    return point


def _over_links(
    batch: int, value: Callable[[Result], float | None]
) -> Callable[[Result], tuple[float, float | None] | None]:
    def point(result: Result) -> tuple[float, float | None] | None:
        return (
            (_CHAINS[result.robot], value(result))
            if result.robot in _CHAINS and result.batch == batch
            else None
        )

    return point


def _panels(table: Table, file: Path, point: Callable[[Result], Any], across: str, up: str) -> bool:
    """Draws one panel per quantity and one line per library, on logarithmic axes; returns whether
    it drew any."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(PANELS), 3.6), layout="constrained")
    drawn, measured = False, set()
    for axes, quantity in zip(figure.subplots(1, len(PANELS), sharey=True), PANELS, strict=True):
        for index, library in enumerate(table.libraries):
            chosen = [r for r in table.results if r.quantity == quantity and r.library == library]
            points = sorted((x, y) for x, y in filter(None, map(point, chosen)) if y)
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    "o-",
                    label=library,
                    color=f"C{index}",
                    zorder=3 - index / 10,
                )
                drawn, measured = True, measured | {x for x, _ in points}
        axes.set(title=quantity, xlabel=across, xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    if drawn:
        figure.axes[0].set_ylabel(up)
        for axes in figure.axes:
            axes.set_xticks(sorted(measured), [str(x) for x in sorted(measured)])
            axes.set_xticks([], minor=True)
        handles: dict[str, Any] = {}
        for axes in figure.axes:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize="small")
        figure.savefig(file)
    return drawn
