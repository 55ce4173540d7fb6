"""Functions of the members of a kind, with the zeros known that all members have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from artix.evaluation.quantity import is_one_operation, quantity
from artix.fleet.kinds import Kind
from artix.model.articulation import Articulation
from artix.model.zeros import keep_zeros

Function: TypeAlias = Callable[..., Any]


@quantity
def _function_of_member(
    function: Function, pattern: Articulation, articulation: Articulation, *arguments: Any, **options: Any
) -> Any:
    """A function of one member of a kind, whose zeros are known."""
    return function(keep_zeros(pattern, articulation), *arguments, **options)


@dataclasses.dataclass(frozen=True)
class OfMember:
    """The function of a member of a kind, called with its articulation, its state and so on.

    Attributes:
      function: what is called.
      known: its first arguments, the same for all members.
      options: its keyword arguments.
    """

    function: Function
    known: tuple[Any, ...]
    options: Mapping[str, Any]

    def __call__(self, *arguments: Any) -> Any:
        """The results for a member."""
        return self.function(*self.known, *arguments, **self.options)


def with_known_zeros(kind: Kind, function: Function, options: Mapping[str, Any]) -> OfMember:
    """The function of a member of this kind; of operations, one that makes use of its known zeros."""
    if not any(kind.differs) or not is_one_operation(function):
        return OfMember(function, (), options)
    return OfMember(_function_of_member, (function, kind.pattern), options)
