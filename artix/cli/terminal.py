"""What a terminal may be sent, and what Ctrl-C does."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

#: Characters that command a terminal, but for line ends and tabs, and how they are shown.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\r\t"}


class Printable:
    """A stream that shows control characters as escapes.

    Robots come from strangers. The name of a link must not clear the screen or set the window's title.

    Args:
      stream: the stream to write to.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes text, and returns its length before escapes are added."""
        self._stream.write(text.translate(_ESCAPES))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Sends standard output and errors through :class:`Printable`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # Terminals without Unicode then show "?" instead of a traceback.
    # Warnings and tracebacks look up ``sys.stderr`` when they print, so that they are escaped as well.
    with contextlib.redirect_stdout(Printable(sys.stdout)), contextlib.redirect_stderr(Printable(sys.stderr)):
        yield


class Interrupts:
    """Notices Ctrl-C, even where other code turns the ``KeyboardInterrupt`` into an error of its own.

    Packages with compiled modules make an ``ImportError`` of it, and XLA an error of a callback.

    Attributes:
      seen: whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.seen, self._before = False, signal.getsignal(signal.SIGINT)

    def __enter__(self) -> Interrupts:
        if self._before is signal.default_int_handler:
            with contextlib.suppress(ValueError):  # Not in the main thread.
                signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        signal.default_int_handler(number, frame)
