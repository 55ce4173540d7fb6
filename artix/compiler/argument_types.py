"""What the compiler is told about classes of arguments.

It knows none by itself. The module that defines a class, or one that builds on it, registers how
programs treat its objects. Subclasses do not inherit this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Examples: TypeAlias = Callable[[Any], Mapping[str, Callable[[], Any]]]
"""Examples of the arguments that come with an object: functions that make them, by name."""

Check: TypeAlias = Callable[[str, Any, Callable[..., Any]], None]
"""Raises unless a value may be the argument of this name of this function."""

Content: TypeAlias = Callable[[Any], Any]
"""What identifies a static object in every process, without what this process has cached in it."""

_parameters: dict[type, tuple[Examples, int | None]] = {}
_checks: dict[type, Check] = {}
_contents: dict[type, Content] = {}
_carried = set[type]()


def register_parameters(kind: type, examples: Examples, children: int | None = None) -> None:
    """Lets programs specialise to the arrays of such an object, where it is the first argument.

    Args:
      kind: a pytree, such as the parameters of a robot.
      examples: examples of the arguments that follow it, for :func:`artix.explain`.
      children: how many of its first children are such parameters; ``None`` for all.
    """
    _parameters[kind] = examples, children


def register_check(kind: type, check: Check) -> None:
    """Has every call of a quantity outside a program check arguments of this class.

    Args:
      kind: the class.
      check: is called with the argument, whose arrays JAX may trace.
    """
    _checks[kind] = check


def register_content(kind: type, content: Content) -> None:
    """Has static data of this class replaced by a content, to name programs on disk.

    Args:
      kind: the class.
      content: what identifies an object in every process; it is pickled.
    """
    _contents[kind] = content


def register_carried(kind: type) -> None:
    """Has the arrays of such arguments taken to change from call to call, as what a loop carries.

    Derivatives take them from one array, which a loop stacks at once, with what else a program
    keeps for them.

    Args:
      kind: a pytree, such as the state of a robot.
    """
    _carried.add(kind)


def are_carried(structure: Any) -> list[bool]:
    """Whether each leaf of a pytree of this structure is in an object that loops carry."""
    node = structure.node_data()
    if node is None or node[0] in _carried:
        return [node is not None] * structure.num_leaves
    return [flag for child in structure.children() for flag in are_carried(child)]


def parameter_types() -> tuple[type, ...]:
    """The classes whose arrays are parameters."""
    return tuple(_parameters)


def parameter_children(kind: type | None) -> int | None:
    """How many of the first children of a class hold parameters, ``None`` for all; 0 for other
    classes.
    """
    return _parameters[kind][1] if kind in _parameters else 0


def examples_for(parameters: Any) -> Mapping[str, Callable[[], Any]]:
    """Examples of the arguments that follow these parameters, by name."""
    examples, _ = _parameters[type(parameters)]
    return examples(parameters)


def check_of(value: Any) -> Check | None:
    """The check of such an argument, if there is one."""
    return _checks.get(type(value))


def portable(static: Any) -> Any:
    """Static data without the values that this process has cached in it."""
    content = _contents.get(type(static))
    if content is not None:
        return content(static)
    if isinstance(static, tuple | list):
        return [portable(item) for item in static]
    return static
