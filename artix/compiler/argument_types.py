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

_parameters: dict[type, Examples] = {}
_checks: dict[type, Check] = {}
_contents: dict[type, Content] = {}


def register_parameters(kind: type, examples: Examples) -> None:
    """Lets programs specialise to the arrays of such an object, where it is the first argument.

    Args:
      kind: a pytree, such as the parameters of a robot.
      examples: examples of the arguments that follow it, for :func:`artix.explain`.
    """
    _parameters[kind] = examples


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


def parameter_types() -> tuple[type, ...]:
    """The classes whose arrays are parameters."""
    return tuple(_parameters)


def examples_for(parameters: Any) -> Mapping[str, Callable[[], Any]]:
    """Examples of the arguments that follow these parameters, by name."""
    return _parameters[type(parameters)](parameters)


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
