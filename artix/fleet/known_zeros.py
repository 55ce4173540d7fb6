"""Functions of the members of a kind, with the zeros known that all members have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax
import numpy as np

from artix.compiler.quantity import is_one_operation, is_readable, quantity
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
    return OfMember(_function_of_member, (function, _pattern(kind)), options)


def _pattern(kind: Kind) -> Articulation:
    """An articulation that is zero or infinite only where all members are, and otherwise one."""
    leaves, structure = jax.tree.flatten(kind.articulation)
    return jax.tree.unflatten(structure, list(map(_kept, leaves, kind.differs)))


def _kept(leaf: Any, differs: bool) -> np.ndarray:
    """Zero or infinity where all members have it, and otherwise one; a leaf that differs has an axis of members."""
    ones = np.ones(leaf.shape[differs:], leaf.dtype)
    if ones.dtype.kind != "f" or not is_readable(leaf):
        return ones
    rows = np.asarray(leaf) if differs else np.asarray(leaf)[None]
    is_kept = np.all(rows == rows[0], axis=0) & ((rows[0] == 0) | np.isinf(rows[0]))
    return np.where(is_kept, rows[0], ones)
