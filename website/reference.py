"""The pages of the API reference: every public name of artix, by the room in which it is defined.

Nothing is listed by hand. What a user can reach (``artix.X``, ``artix.physx.X``, ``artix.kinematics.X``) is found by
looking, and an object's room is where its code lives.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import types
from collections.abc import Iterator

import artix
from website.markup import as_markdown

#: Commands, and programs to be read as a whole.
NOT_A_NAMESPACE = {"cli", "examples"}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One public function or class.

    Attributes:
      name: as a user writes it, the shortest way first: ``artix.mass_matrix``.
      home: where it is defined: ``artix.dynamics.mass_matrix.mass_matrix``.
      summary: the first line of its docstring.
    """

    name: str
    home: str
    summary: str

    @property
    def module(self) -> str:
        """Where its code lives."""
        return self.home.rpartition(".")[0]

    @property
    def room(self) -> str:
        """The room of that module."""
        return self.module.split(".")[1]


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Every public name once, in the order of modules and names."""
    found: dict[str, Entry] = {}
    for namespace, name, value in public_objects():
        home = f"{value.__module__}.{value.__qualname__}"
        path = f"{namespace}.{name}"
        if home not in found or path.count(".") < found[home].name.count("."):
            found[home] = Entry(path, home, _first_paragraph(value))
    return tuple(sorted(found.values(), key=lambda entry: (entry.module, entry.name)))


def public_objects() -> Iterator[tuple[str, str, type | types.FunctionType]]:
    """Namespace, name and object of all functions and classes of artix that its namespaces offer."""
    for label, module in _namespaces():
        homes = "artix." if hasattr(module, "__all__") else module.__name__
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            is_code = isinstance(value, type | types.FunctionType)
            if is_code and not name.startswith("_") and value.__module__.startswith(homes):
                yield label, name, value


def _namespaces() -> Iterator[tuple[str, types.ModuleType]]:
    yield "artix", artix
    for info in pkgutil.iter_modules(artix.__path__):
        if info.ispkg and info.name not in NOT_A_NAMESPACE:
            yield f"artix.{info.name}", importlib.import_module(f"artix.{info.name}")
    yield "artix.lie", artix.lie


def _first_paragraph(of: types.ModuleType | type | types.FunctionType) -> str:
    return " ".join((inspect.getdoc(of) or "").split("\n\n")[0].split("\n"))


def pages() -> dict[str, str]:
    """The Markdown of the reference by the path of the page, the first page first."""
    rooms: dict[str, list[Entry]] = {}
    for entry in entries():
        rooms.setdefault(entry.room, []).append(entry)
    return {"reference/index.md": _index(rooms)} | {
        f"reference/{room}.md": _page(room, of_room) for room, of_room in rooms.items()
    }


def _index(rooms: dict[str, list[Entry]]) -> str:
    published = {entry.home for of_room in rooms.values() for entry in of_room}
    lines = [
        "# Reference",
        "",
        "Every public function and class, by the room in which it is defined. The names are those that you write; each "
        "room's page has arguments, results, frames, units, errors, an example and the source. Examples are executed "
        "by the tests, which compare the digits shown; they assume",
        "",
        "```python",
        "import jax",
        "import jax.numpy as jnp",
        "import artix",
        "from artix import envs, optimal_control, viewer",
        "```",
        "",
    ]
    for room, of_room in rooms.items():
        lines += ["", f"## [{room}]({room}.md)", "", _about(f"artix.{room}"), "", "| name | what it is |", "|---|---|"]
        for entry in of_room:
            summary = as_markdown(entry.summary, entry.module, published).replace("|", r"\|")
            lines.append(f"| [`{entry.name}`][{entry.home}] | {summary} |")
    return "\n".join(lines) + "\n"


def _page(room: str, of_room: list[Entry]) -> str:
    lines = [f"# {room}", "", _about(f"artix.{room}"), ""]
    module = None
    for entry in of_room:
        if entry.module != module:
            module = entry.module
            lines += [f"## {module.removeprefix(f'artix.{room}.')}", "", _about(module), ""]
        short = entry.name.rpartition(".")[2]
        lines += [f"::: {entry.home}", "    options:", f"      heading: {entry.name}", f"      toc_label: {short}", ""]
    return "\n".join(lines)


def _about(module: str) -> str:
    return as_markdown(_first_paragraph(importlib.import_module(module)), module, ())
