"""Plain-text tables, numbers for people to read, and failures."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any


class CommandFailure(Exception):
    """What the user asked for cannot be read, computed or saved; the message is for the user."""


#: Characters that command a terminal, and how they are shown.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def printable(text: str, keep: str = "") -> str:
    """Shows control characters as escapes, except those to keep.

    Robots come from strangers: the name of a link must not clear the screen, or look like a line of
    its own.

    Args:
      text: any text.
      keep: control characters that are meant, such as line ends.
    """
    return text.translate({code: escape for code, escape in _CONTROLS.items() if chr(code) not in keep})


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, align: str = "") -> str:
    """Aligns columns under a heading and a rule.

    Args:
      heading: the columns' names.
      rows: the cells, as text.
      align: one letter per column, ``l`` or ``r``; columns beyond its length are aligned to the right.

    Returns:
      The lines of the table, joined.
    """
    align = align.ljust(len(heading), "r")
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[k]) for row in [heading, *rows]) for k in range(len(heading))]

    def line(cells: Sequence[str]) -> str:
        parts = [c.ljust(w) if a == "l" else c.rjust(w) for c, w, a in zip(cells, widths, align, strict=True)]
        return "  " + "  ".join(parts).rstrip()

    return "\n".join([line(heading), "  " + "  ".join("─" * width for width in widths), *map(line, rows)])


def rate(per_second: float) -> str:
    """A rate with three digits and a unit prefix: ``2.35 M``."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if per_second >= factor:
            return f"{per_second / factor:.3g}{unit}"
    return f"{per_second:.3g}"


def quantity(value: float, digits: int = 4) -> str:
    """A number with few digits; ``∞`` for an infinite one, ``0`` for a rounding error."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{0.0 if abs(value) < 1e-12 else value:.{digits}g}"


def counted(number: int, noun: str) -> str:
    """A number and a noun in the singular or plural: ``2 links``, ``1 DOF with friction``, ``no errors``."""
    head, preposition, tail = noun.partition(" with ")
    return f"{number or 'no'} {head}{'' if number == 1 else 's'}{preposition}{tail}"


def installed(package: str) -> str:
    """The installed version of a package."""
    from importlib import metadata  # It takes as long as all else before JAX is imported.

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # For instance, artix run from its source tree.
        return "(not installed)"


def refused(issues: Sequence[Any], message: str) -> int:
    """Prints the issues for which a command gives up, and why; returns its exit code."""
    for issue in issues:
        print(issue, file=sys.stderr)
    print(f"artix: {message}", file=sys.stderr)
    return 1
