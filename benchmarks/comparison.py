"""``python -m benchmarks``: artix beside its peers on the same robots and states, as JSON, Markdown
and plots."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks import guard, memory
from benchmarks.libraries import LIBRARIES
from benchmarks.plots import draw
from benchmarks.quantities import QUANTITIES
from benchmarks.report import Table, report
from benchmarks.robots import ROBOTS
from benchmarks.run import Choice, Run, run

#: ``--quick``: enough to check that everything works.
QUICK = Choice(
    robots=("arm", "quadruped"),
    quantities=("mass matrix", "inverse dynamics", "forward dynamics"),
    libraries=tuple(LIBRARIES),
    batches=(64,),
    repeats=5,
)
FULL = Choice(tuple(ROBOTS), tuple(QUANTITIES), tuple(LIBRARIES), (1, 64, 4096, 32768), repeats=15)
GUARD = Choice(guard.ROBOTS, guard.QUANTITIES, guard.LIBRARIES, (guard.BATCH,), repeats=15)

#: ``--page`` replaces everything below this line.
MARK = "<!-- Below: written by python -m benchmarks --page. -->"


def main(arguments: list[str] | None = None) -> int:
    """Runs the comparison and writes its results; returns 1 if a ratio is below its floor."""
    options = _parser().parse_args(arguments)
    default = GUARD if options.guard else QUICK if options.quick else FULL
    choice = Choice(
        robots=tuple(options.robot or default.robots),
        quantities=tuple(options.quantity or default.quantities),
        libraries=tuple(options.library or default.libraries),
        batches=tuple(sorted(options.batch or default.batches)),
        repeats=options.repeats or default.repeats,
        time_limit=options.time_limit,
        memory_limit=options.memory_limit * 2**30,
    )
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    # Several processes share one GPU
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if not options.small_pages:
        memory.ask_for_huge_pages()
    earlier = [Run.read(Path(file)) for file in options.add]
    made = run(choice, folder / "results.json", earlier)
    _write(made, folder, Path(options.page) if options.page else None)
    if not options.guard:
        return 0
    lines = guard.broken(Table(made.results))
    print("\n".join(["", *(lines or ["guard: every ratio is above its floor"])]))
    return 1 if lines else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add(
        "--robot",
        nargs="+",
        choices=ROBOTS,
        metavar="KEY",
        help=f"of {', '.join(ROBOTS)} (default: all)",
    )
    add(
        "--quantity",
        nargs="+",
        choices=tuple(QUANTITIES),
        metavar="NAME",
        help=f"of {', '.join(QUANTITIES)}",
    )
    add(
        "--library",
        nargs="+",
        choices=tuple(LIBRARIES),
        metavar="NAME",
        help=f"of {', '.join(LIBRARIES)}",
    )
    add(
        "--batch",
        nargs="+",
        type=int,
        metavar="N",
        help="articulations per call (default: 1 64 4096 32768)",
    )
    add("--repeats", type=int, help="timed calls, interleaved; the median counts (default: 15)")
    add("--quick", action="store_true", help="few robots and quantities, batch 64, 5 repeats")
    add(
        "--guard",
        action="store_true",
        help="only compare ratios to their floors; status 1 below one",
    )
    add(
        "--time-limit",
        type=float,
        default=120.0,
        metavar="S",
        help="to compile a program (default: %(default)s s)",
    )
    add(
        "--memory-limit",
        type=float,
        default=_half_of_memory(),
        metavar="GIB",
        help="a program's (default: half of all)",
    )
    add("--small-pages", action="store_true", help="do not ask the C library for huge pages")
    add(
        "--add",
        nargs="+",
        default=[],
        metavar="JSON",
        help="show these earlier results, too, where none are new",
    )
    add(
        "--output",
        default="benchmark-results",
        metavar="FOLDER",
        help="for JSON, tables, plots (default: %(default)s)",
    )
    add(
        "--page",
        metavar="FILE",
        help="write the tables below the mark in this page, the plots beside it",
    )
    return parser


def _half_of_memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**31


def _write(made: Run, folder: Path, page: Path | None) -> None:
    """Writes the tables to standard output, to the folder of the results, and to a page if one is
    given."""
    text = f"{made.heading()}\n\n{report(made.table(), made.machine)}"
    print(text)
    (folder / "report.md").write_text(text, encoding="utf-8")
    draw(Table(made.results), folder)
    print(f"results, tables and plots: {folder}", file=sys.stderr)
    if page is None:
        return
    plots = page.with_suffix("")
    plots.mkdir(exist_ok=True)
    images = [
        f"![{file.stem}]({plots.name}/{file.name})" for file in draw(Table(made.results), plots)
    ]
    above, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise ValueError(f"{page} has no line {MARK!r} below which the tables could go")
    page.write_text("\n\n".join([above + MARK, text.strip(), *images]) + "\n", encoding="utf-8")
