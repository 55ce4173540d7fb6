"""The pages of the API reference: every public name of artix, by the room that defines it.

Nothing is listed by hand. Public names (``artix.X``, ``artix.physx.X``, ``artix.kinematics.X``) are
found by inspection, and an object's room is where its code lives.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import types
from collections.abc import Iterator

import artix
from website.markup import as_markdown

#: Commands, and programs to be read as a whole.
NOT_A_NAMESPACE = {"cli", "examples"}

#: Words of titles that are not spelled like the module.
SPELLINGS = {
    "envs": "environments",
    "gpu": "GPU",
    "html": "HTML",
    "ilqr": "iterative LQR",
    "io": "files",
    "jacobians": "Jacobians",
    "kkt": "KKT",
    "lie": "Lie groups",
    "math": "mathematics",
    "mjcf": "MJCF",
    "npz": "NPZ",
    "physx": "PhysX",
    "urdf": "URDF",
    "usd": "USD",
    "xacro": "Xacro",
}


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
    """Namespace, name and object of all functions and classes of artix that its namespaces
    offer.
    """
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
    yield "artix.physx.solver", importlib.import_module("artix.physx.solver")


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
        "Every public function and class, by the part of artix that defines it. Names are as you "
        "write them. The pages have arguments, results, frames, units, errors, examples and "
        "sources. Tests run the examples and compare the digits shown. The examples assume",
        "",
        "```python",
        "import jax",
        "import jax.numpy as jnp",
        "import artix",
        "from artix import envs, inverse_kinematics, optimal_control, viewer",
        "```",
        "",
    ]
    for room, of_room in rooms.items():
        lines += ["", f"## [{_title(room)}]({room}.md)", "", _about(f"artix.{room}"), ""]
        lines += ["| name | what it is |", "|---|---|"]
        for entry in of_room:
            summary = as_markdown(entry.summary, entry.module, published).replace("|", r"\|")
            lines.append(f"| [`{entry.name}`][{entry.home}] | {summary} |")
    return "\n".join(lines) + "\n"


def _page(room: str, of_room: list[Entry]) -> str:
    lines = [f"# {_title(room)}", "", _about(f"artix.{room}"), ""]
    module = None
    for entry in of_room:
        if entry.module != module:
            module = entry.module
            title = _title(module.removeprefix(f"artix.{room}").removeprefix("."))
            lines += [f"## {title}", "", _about(module), ""] if title else []
        short = entry.name.rpartition(".")[2]
        lines += [
            f"::: {entry.home}",
            "    options:",
            f"      heading: {entry.name}",
            f"      toc_label: {short}",
            "",
        ]
    return "\n".join(lines)


def _title(name: str) -> str:
    """The name of a room or a module as a title: ``Mass matrix``, ``MJCF: reader``."""
    words = (
        name.removeprefix("common.").removeprefix("projected.").replace(".", ": ").replace("_", " ")
    )
    words = re.sub(r"\w+", lambda match: SPELLINGS.get(match[0], match[0]), words)
    return words[:1].upper() + words[1:]


def _about(module: str) -> str:
    return as_markdown(_first_paragraph(importlib.import_module(module)), module, ())
