"""``python -m artix`` is the ``artix`` command."""

import sys

from artix.cli import main

if __name__ == "__main__":
    sys.exit(main())
