"""The public names of artix with their parameters, in a file that shows every change.

``python -m tests.support.public_names`` updates the file.
"""

import enum
import inspect
import types
from collections.abc import Iterator
from pathlib import Path

import artix
from artix import envs, identification, inverse_kinematics, optimal_control, viewer
from artix.physx import solver

#: Where a name is public by the room's ``__all__``.
ROOMS = [
    *(
        module
        for _, module in sorted(vars(artix).items())
        if isinstance(module, types.ModuleType) and "__all__" in vars(module)
    ),
    solver,
]
FILE = Path(__file__).parents[1] / "data" / "public_names.txt"
MODULES = (
    artix,
    artix.physx,
    artix.lie,
    artix.robots,
    envs,
    identification,
    inverse_kinematics,
    optimal_control,
    viewer,
)
#: Of these, only what is defined there.
HOMES = {artix.robots: "artix.robots", artix.lie: "artix.math.lie"}


def public_names() -> str:
    """One line for each name of a room, and one for each function, class, attribute and method."""
    rooms = [
        f"{module.__name__}: {name}"
        for module in (artix, *ROOMS)
        for name in sorted(module.__all__)
    ]
    return "".join(
        f"{line}\n" for line in [*rooms, *(line for module in MODULES for line in _module(module))]
    )


def _module(module: types.ModuleType) -> Iterator[str]:
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    for name, value in sorted(own.items()):
        where = f"{module.__name__.replace('.math', '')}.{name}"
        if isinstance(value, type):
            yield from _class(where, value)
        elif isinstance(value, types.FunctionType) and value.__module__.startswith(
            HOMES.get(module, "artix")
        ):
            yield where + _parameters(value)


def _class(where: str, kind: type) -> Iterator[str]:
    if not kind.__module__.startswith("artix"):
        return
    if issubclass(kind, enum.Enum):
        yield f"{where}: {', '.join(kind.__members__)}"
        return
    yield where + _parameters(kind)
    for name in sorted(
        {
            name
            for base in kind.__mro__
            if base.__module__.startswith("artix")
            for name in vars(base)
        }
    ):
        member = inspect.getattr_static(kind, name)
        member = getattr(member, "__func__", member)
        if name.startswith("_"):
            continue
        if isinstance(member, types.FunctionType):
            yield f"{where}.{name}{_parameters(member)}"
        elif isinstance(member, property) or type(member).__name__ == "cached_property":
            yield f"{where}.{name}"


def _parameters(function) -> str:
    """Names and defaults of the parameters. Annotations are left out, as their spelling differs
    between versions."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return "(...)"
    plain = [
        parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


if __name__ == "__main__":
    FILE.write_text(public_names())
    print(f"{FILE.relative_to(Path.cwd())} written")
