"""``python -m benchmarks gpu``: compiles functions for an H100, without one, and reports what XLA
makes of them."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu.ahead_of_time import Compiled, Compiler, MissingWheels

_COLUMNS = (
    *("launches", "moved, MB", "least, MB", "temporaries, MB", "registers", "spilled, B"),
    *("predicted, us", "limit", "XLA, s", "ptxas, s"),
)


def main(arguments: list[str]) -> int:
    """Compiles, prints and writes; returns 1 if wheels are missing."""
    options = _parser().parse_args(arguments)
    try:
        compiler = Compiler(not options.no_assembler)
    except MissingWheels as error:
        print(error, file=sys.stderr)
        return 1
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    print(_line(("library", "robot", "function", "batch", *_COLUMNS)), flush=True)
    for row in _rows(compiler, options):
        rows.append(row)
        print(_line(_cells(row)), flush=True)
        (folder / "gpu.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    (folder / "gpu.md").write_text(table(rows), encoding="utf-8")
    return 0


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    heads = ("library", "robot", "function", "batch", *_COLUMNS)
    rule = ["---"] * 3 + ["---:"] * (len(heads) - 3)
    lines = [heads, tuple(rule), *(_cells(row) for row in rows)]
    return "\n".join(_line(line) for line in lines) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _rows(compiler: Compiler, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    import artix
    from benchmarks.gpu.cases import cases

    switches = {"off": (False,), "on": (True,), "both": (False, True)}[options.kernels]
    for robot in options.robots:
        for batch in options.batch:
            for library in options.libraries:
                try:
                    found = cases(library, robot, batch)
                except ImportError as error:
                    yield {
                        "library": library,
                        "robot": robot,
                        "function": "",
                        "batch": batch,
                        "error": str(error),
                    }
                    continue
                for name in options.functions:
                    for kernels in (
                        switches
                        if library == "artix" and name in found
                        else (False,)[: name in found]
                    ):
                        row = {
                            "library": library + (", kernels" if kernels else ""),
                            "robot": robot,
                            "function": name,
                        }
                        try:
                            with artix.use_kernels(True, gpu=kernels):
                                made = compiler.compile(
                                    found[name].function, found[name].types, batch
                                )
                        except Exception as error:  # a peer's refusal is a row, too
                            yield row | {
                                "batch": batch,
                                "error": f"{type(error).__name__}: {error}"[:200],
                            }
                            continue
                        yield row | {"batch": batch} | dataclasses.asdict(made)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    head = (row["library"], row["robot"], row["function"], f"{row['batch']:,}")
    if "error" in row:
        return (*head, row["error"].splitlines()[0], *("",) * (len(_COLUMNS) - 1))
    made = Compiled(**{field.name: row[field.name] for field in dataclasses.fields(Compiled)})
    sizes = (f"{size / 1e6:.1f}" for size in (made.moved, made.least, made.temporaries))
    rest = ("-" if number is None else f"{number:,}" for number in (made.registers, made.spilled))
    seconds = "-" if made.assemble_seconds is None else f"{made.assemble_seconds:.1f}"
    predicted = (
        ("-", "-")
        if made.predicted_us is None
        else (f"{made.predicted_us:,.0f}", made.limit or "-")
    )
    return (
        *head,
        f"{made.launches:,}",
        *sizes,
        *rest,
        *predicted,
        f"{made.compile_seconds:.1f}",
        seconds,
    )


def _parser() -> argparse.ArgumentParser:
    from benchmarks.gpu.cases import FUNCTIONS, LIBRARIES, ROBOTS

    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__)
    add = parser.add_argument
    add(
        "--robots",
        nargs="+",
        choices=ROBOTS,
        default=ROBOTS,
        metavar="NAME",
        help=f"of {', '.join(ROBOTS)}",
    )
    add(
        "--functions",
        nargs="+",
        choices=FUNCTIONS,
        default=FUNCTIONS,
        metavar="NAME",
        help=", ".join(FUNCTIONS),
    )
    add("--batch", nargs="+", type=int, default=[4096], metavar="N", help="robots (default: 4096)")
    add("--libraries", nargs="+", choices=LIBRARIES[:3], default=["artix"], help="(default: artix)")
    add(
        "--kernels",
        choices=("on", "off", "both"),
        default="both",
        help="artix' own kernels (default: both)",
    )
    add(
        "--no-assembler",
        action="store_true",
        help="do not ask ptxas about registers, which can take minutes",
    )
    add(
        "--output",
        default="benchmark-results",
        metavar="FOLDER",
        help="for gpu.json, gpu.md (default: %(default)s)",
    )
    return parser
