"""Terms by name: functions of named signals, of which rewards, observations and the rest of a task
are made.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

_Value = TypeVar("_Value")


def read_only(terms: Mapping[str, _Value]) -> Mapping[str, _Value]:
    """Terms that cannot be changed in place, which the kernels of a task would not notice."""
    return MappingProxyType(dict(terms))


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The signals that a term needs, which its parameters name."""
    return tuple(inspect.signature(function).parameters)


def call(function: Callable[..., Any], signals: Mapping[str, Any]) -> Any:
    """A term of these signals."""
    return function(**{name: signals[name] for name in parameters_of(function)})


def check_signals(where: str, function: Callable[..., Any], signals: Iterable[str]) -> None:
    """Raises ``ValueError`` if a term needs a signal that the task does not have."""
    known = tuple(signals)
    missing = [name for name in parameters_of(function) if name not in known]
    if missing:
        raise ValueError(
            f"{where} needs {', '.join(missing)}, which this task does not have; it has: "
            f"{', '.join(sorted(known))}"
        )


def check_mapping(what: str, terms: Any, example: str) -> None:
    """Raises ``TypeError`` unless the terms are given by name."""
    if not isinstance(terms, Mapping):
        raise TypeError(f"{what}: expected terms by name, such as {{{example}}}; found {terms!r}")


def pair_of(
    what: str, name: str, term: Any, known: Mapping[str, Any], form: str
) -> tuple[Any, Callable[..., Any]]:
    """The number and the function of a term: a pair of them, or a number for one that is known.

    Raises:
      ValueError: it is a tuple, but no such pair.
    """
    if not isinstance(term, tuple):
        return term, known[name]
    if len(term) != 2 or not callable(term[1]):
        raise ValueError(f"{what}: {name!r} must be {form}; found {term!r}")
    return term[0], term[1]


def check_known(what: str, name: str, known: Iterable[str], alternative: str) -> None:
    """Raises ``ValueError`` with the names that are like it, unless ``name`` is one of those that
    are known.

    Args:
      what: what the terms are of.
      name: the name.
      known: names of terms.
      alternative: how to give a term of one's own.
    """
    names = tuple(known)
    if name in names:
        return
    like = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {like[0]!r}?" if like else f"choose from: {', '.join(names)}"
    raise ValueError(f"{what}: {name!r} is no term; {hint}; one of your own is {alternative}")
