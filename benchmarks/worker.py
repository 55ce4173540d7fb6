"""Runs one library in a process of its own, with its own flags and memory and a time limit for
compilation.

The driver asks with ``Worker``; the other side of the pipe is ``_serve``.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.robots import Robot

#: Programs that may exceed the time limit before a library gives up on a robot.
FORGIVEN = 2


class Failure(Exception):
    """Why there is no number: the error of the library, or the limit it exceeded."""


class Worker:
    """A library that holds one robot's states.

    Args:
      name: the library's.
      robot: the robot.
      batch: number of states to hold.
      time_limit: seconds for preparing a program, after which the process is ended and restarted.
      memory_limit: bytes that a program may need.

    Attributes:
      version: the library's.
    """

    def __init__(
        self, name: str, robot: Robot, batch: int, time_limit: float, memory_limit: float
    ) -> None:
        self.name = name
        self._arguments = (name, robot, batch, memory_limit)
        self._limit = time_limit
        self._exceeded = 0
        self._process: Any = None
        self.version = self._start()

    def prepare(self, quantity: str, batch: int) -> dict[str, float]:
        """Compiles and judges a program: its facts and its ``error``.

        Raises:
          Failure: the library cannot.
        """
        if self._exceeded >= FORGIVEN:
            raise Failure(
                f"given up after {FORGIVEN} programs that took longer than {self._limit:.0f} s"
            )
        if self._process is None:
            self._start()
        return self._ask(("prepare", quantity, batch), self._limit)

    def seconds(self) -> float:
        """The time of one call of the program prepared last."""
        return self._ask(("seconds",), self._limit)

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def _start(self) -> str:
        self._connection, theirs = multiprocessing.Pipe()
        # Forking a process in which JAX runs is not safe.
        self._process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(theirs, *self._arguments)
        )
        self._process.start()
        theirs.close()
        try:
            return self._answer(None)
        except Failure:
            self.close()
            raise

    def _ask(self, question: tuple[Any, ...], limit: float) -> Any:
        self._connection.send(question)
        return self._answer(limit)

    def _answer(self, limit: float | None) -> Any:
        if not self._connection.poll(limit):
            self._exceeded += 1
            self.close()
            raise Failure(f"longer than {limit:.0f} s")
        try:
            kind, content = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self.close()
            raise Failure("its process died, perhaps for want of memory") from None
        if kind == "failure":
            raise Failure(content)
        return content


def _serve(
    connection: Connection, name: str, robot: Robot, batch: int, memory_limit: float
) -> None:
    # Several processes share one GPU
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ["ARTIX_CACHE"] = "0"  # First calls compile, whoever ran the benchmark before.
    from benchmarks.judge import prepared
    from benchmarks.libraries import load

    with contextlib.redirect_stdout(
        sys.stderr
    ):  # some greet on import; the tables are alone on stdout
        try:
            library, reference, states = load(name, robot, batch, memory_limit)
            connection.send(("done", library.version))
        except Exception as error:
            connection.send(("failure", _reason(error)))
            return
        program = None
        while True:
            try:
                question = connection.recv()
            except EOFError:
                return
            try:
                if question[0] == "prepare":
                    program = None  # the memory of the one before
                    program, facts = prepared(library, reference, states, *question[1:])
                    connection.send(("done", facts))
                else:
                    connection.send(("done", program.seconds()))
            except Exception as error:  # Whatever a library raises belongs in its cell.
                connection.send(("failure", _reason(error)))


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"not installed ({error.name})"
    if isinstance(error, NotImplementedError | FileNotFoundError | MemoryError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}".splitlines()[0][:120]
