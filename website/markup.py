"""Docstrings as Markdown: the roles of Sphinx become links, and what only looks like a link is kept
as it is.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection
from typing import Any

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):`~?([\w.]+)`")


def as_markdown(text: str, where: str, published: Collection[str]) -> str:
    """A docstring with links for roles, indented code for literal blocks, and brackets that make no
    link.

    Args:
      text: the docstring.
      where: the class or module in which its names are looked up first.
      published: where the objects are defined that have an entry to link to.
    """
    text, heading, examples = text.partition("Examples:\n")
    text = _ROLE.sub(lambda match: _link(match[1], where, published), text)
    text = re.sub(r"::(\n\n +\S)", r":\1", text)
    # A shape and a unit side by side, [3] [m], would be Markdown's link to a reference.
    return re.sub(r"(\[[^\]`]*\]\s+)\[", r"\1\\[", text) + heading + examples


def _link(name: str, where: str, published: Collection[str]) -> str:
    home = _home(name, where)
    owner = home and (home if home in published else home.rpartition(".")[0])
    return (
        f"[`{name.removeprefix('artix.')}`][{home}]" if home and owner in published else f"`{name}`"
    )


def _home(name: str, where: str) -> str | None:
    """Where the function, class or method called ``name`` in a class or module is defined; ``None``
    if nowhere.
    """
    parts = where.split(".")
    scopes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    for path in (name, *(f"{scope}.{name}" for scope in scopes)):
        found = _find(path)
        if hasattr(found, "__qualname__"):
            return f"{found.__module__}.{found.__qualname__}"
    return None


def _find(path: str) -> Any:
    """The object at a dotted path, ``None`` if there is none."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found
    return None
