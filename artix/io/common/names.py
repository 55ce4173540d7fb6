"""Unique names, and short lists of names for messages."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Generates unique names.

    Args:
      taken: names already in use.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def new(self, base: str) -> str:
        """``base``, with ``_2``, ``_3``, ... appended if it is taken."""
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name


def listed(names: Iterable[str], limit: int = 10) -> str:
    """The names separated by commas, for a message; after the first ``limit``, an ellipsis."""
    names = list(names)
    return ", ".join([*names[:limit], *(["..."] if len(names) > limit else [])])
