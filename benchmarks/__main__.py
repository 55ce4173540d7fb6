"""``python -m benchmarks``: artix beside its peers on this machine, see
:mod:`benchmarks.comparison`.

``python -m benchmarks gpu`` compiles the same functions for an H100, without needing one, and
reports what XLA makes of them; ``gpu-session`` measures on the GPU of this machine.
"""

from __future__ import annotations

import importlib
import sys

_COMMANDS = {
    "gpu": "benchmarks.gpu.command",
    "gpu-session": "benchmarks.gpu.session",
}


def main(arguments: list[str]) -> int:
    """Runs one of the commands and returns its exit status. The commands need different
    packages."""
    command = _COMMANDS.get(arguments[0]) if arguments else None
    name, rest = (command, arguments[1:]) if command else ("benchmarks.comparison", arguments)
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if (error.name or "benchmarks").split(".")[0] in ("benchmarks", "artix"):
            raise
        print(
            f"benchmarks: {error}; install what they need: pip install -e '.[bench]'",
            file=sys.stderr,
        )
        return 1
    return module.main(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
