"""What a terminal may be sent, and what Ctrl-C does."""

from __future__ import annotations

import _thread
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from artix.cli.text import printable


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
    """Sends standard output and errors through :class:`Printable`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # Terminals without Unicode then show "?" instead of a traceback.
    # Warnings and tracebacks look up ``sys.stderr`` when they print, so they are escaped as well.
    with contextlib.redirect_stdout(Printable(sys.stdout)), contextlib.redirect_stderr(Printable(sys.stderr)):
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
        self._before, self._unraisable = signal.getsignal(signal.SIGINT), sys.unraisablehook

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
        """Where Ctrl-C ends the process at once, because nothing has been done that could be lost."""
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
