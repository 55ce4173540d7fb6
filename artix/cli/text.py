"""What a terminal may be sent: plain-text tables, numbers for people to read, failures; and what
Ctrl-C does.
"""

from __future__ import annotations

import _thread
import contextlib
import io
import math
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
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
    return text.translate(
        {code: escape for code, escape in _CONTROLS.items() if chr(code) not in keep}
    )


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, align: str = "") -> str:
    """Aligns columns under a heading and a rule.

    Args:
      heading: the columns' names.
      rows: the cells, as text.
      align: one letter per column, ``l`` or ``r``; columns beyond its length are aligned to the
        right.

    Returns:
      The lines of the table, joined.
    """
    align = align.ljust(len(heading), "r")
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[k]) for row in [heading, *rows]) for k in range(len(heading))]

    def line(cells: Sequence[str]) -> str:
        parts = [
            c.ljust(w) if a == "l" else c.rjust(w)
            for c, w, a in zip(cells, widths, align, strict=True)
        ]
        return "  " + "  ".join(parts).rstrip()

    return "\n".join(
        [line(heading), "  " + "  ".join("─" * width for width in widths), *map(line, rows)]
    )


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
    """A number and a noun in the singular or plural: ``2 links``, ``1 DOF with friction``,
    ``no errors``, ``2 bodies``.
    """
    preposition = next((word for word in (" with ", " beside ") if word in noun), " with ")
    head, preposition, tail = noun.partition(preposition)
    if number != 1:
        head = f"{head[:-1]}ies" if head.endswith("body") else f"{head}s"
    return f"{number or 'no'} {head}{preposition}{tail}"


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


class Printable:
    """A stream on which nothing commands the terminal, whatever is printed.

    Args:
      stream: the stream to write to.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes text, and returns its length before escapes are added."""
        self._stream.write(printable(text, keep="\n\r\t"))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Sends standard output and errors through :class:`Printable`; closed ones take nothing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Terminals without Unicode then show "?" instead of a traceback.
            stream.reconfigure(errors="replace")
    # Warnings and tracebacks look up ``sys.stderr`` when they print, so they are escaped as well.
    with (
        open(os.devnull, "w", encoding="utf-8") as nothing,
        contextlib.redirect_stdout(Printable(sys.stdout or nothing)),
        contextlib.redirect_stderr(Printable(sys.stderr or nothing)),
    ):
        yield


class Interrupts:
    """Ends the command on Ctrl-C, wherever the ``KeyboardInterrupt`` is raised.

    Packages with compiled modules make an ``ImportError`` of it, XLA an error of a callback, and
    JAX's imports may even crash, so nothing is raised in :meth:`importing`. Where Python ignores
    it, as in a callback of the garbage collector, it is raised once more.

    Attributes:
      seen: whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.seen = False
        self._before = signal.getsignal(signal.SIGINT)
        self._unraisable = sys.unraisablehook

    def __enter__(self) -> Interrupts:
        if self._before is signal.default_int_handler:
            with contextlib.suppress(ValueError):  # Not in the main thread.
                signal.signal(signal.SIGINT, self._interrupt)
                sys.unraisablehook = self._again
        return self

    def __exit__(self, *_: object) -> None:
        if signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, self._before)
            sys.unraisablehook = self._unraisable

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """Where Ctrl-C ends the process at once, because nothing has been done that could be
        lost.
        """
        if signal.getsignal(signal.SIGINT) != self._interrupt:
            yield
            return
        signal.signal(signal.SIGINT, _leave)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        signal.default_int_handler(number, frame)

    def _again(self, ignored: sys.UnraisableHookArgs) -> None:
        if isinstance(ignored.exc_value, KeyboardInterrupt):
            # Not from here, where it would be ignored again.
            threading.Timer(0.02, _thread.interrupt_main).start()
        else:
            self._unraisable(ignored)


def _leave(*_: object) -> None:
    os.write(2, b"artix: interrupted\n")
    os._exit(130)
