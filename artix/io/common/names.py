"""Names that are not taken."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Gives out names that are not taken.

    Args:
      taken: the names that are.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def new(self, wanted: str) -> str:
        """The wanted name, or with ``_2``, ``_3``, ... after it if it is taken."""
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name
