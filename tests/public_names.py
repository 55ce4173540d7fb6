"""What artix offers: every public name with its parameters, in a file that shows each change.

``python -m tests.public_names`` writes the file anew.
"""

import enum
import inspect
import types
from collections.abc import Iterator
from pathlib import Path

import artix

FILE = Path(__file__).parent / "data" / "public_names.txt"
MODULES = (artix, artix.physx, artix.lie, artix.robots)
#: Of these, only what is defined there.
HOMES = {artix.robots: "artix.robots"}


def public_names() -> str:
    """One line for each function, class, attribute and method."""
    return "".join(f"{line}\n" for module in MODULES for line in _module(module))


def _module(module: types.ModuleType) -> Iterator[str]:
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    for name, value in sorted(own.items()):
        where = f"{module.__name__.replace('.math', '')}.{name}"
        if isinstance(value, type):
            yield from _class(where, value)
        elif isinstance(value, types.FunctionType) and value.__module__.startswith(HOMES.get(module, "artix")):
            yield where + _parameters(value)


def _class(where: str, kind: type) -> Iterator[str]:
    if not kind.__module__.startswith("artix"):
        return
    if issubclass(kind, enum.Enum):
        yield f"{where}: {', '.join(kind.__members__)}"
        return
    yield where + _parameters(kind)
    for name in sorted({name for base in kind.__mro__ if base.__module__.startswith("artix") for name in vars(base)}):
        member = inspect.getattr_static(kind, name)
        member = getattr(member, "__func__", member)
        if name.startswith("_"):
            continue
        if isinstance(member, types.FunctionType):
            yield f"{where}.{name}{_parameters(member)}"
        elif isinstance(member, property) or type(member).__name__ == "cached_property":
            yield f"{where}.{name}"


def _parameters(function) -> str:
    """Names and defaults of the parameters, without annotations, whose spelling differs between versions."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return "(...)"
    plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


if __name__ == "__main__":
    FILE.write_text(public_names())
    print(f"{FILE.relative_to(Path.cwd())} written")
