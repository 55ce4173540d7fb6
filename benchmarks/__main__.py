"""``python -m benchmarks``: artix beside its peers on this machine, see :mod:`benchmarks.comparison`.

``python -m benchmarks gpu`` says what XLA makes of the same functions for an H100, without one, and ``python -m
benchmarks gpu-session`` measures on the GPU that is there.
"""

from __future__ import annotations

import importlib
import sys

_COMMANDS = {"gpu": "benchmarks.gpu.command", "gpu-session": "benchmarks.gpu.session"}


def main(arguments: list[str]) -> int:
    """Runs one of the commands, which need different packages; returns its status."""
    command = _COMMANDS.get(arguments[0]) if arguments else None
    if command is None:
        return importlib.import_module("benchmarks.comparison").main(arguments)
    return importlib.import_module(command).main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
