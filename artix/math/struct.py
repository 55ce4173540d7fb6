"""Frozen dataclasses that are JAX pytrees.

The interface is that of ``flax.struct``, without importing flax, which takes as long as importing all of artix.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Self, dataclass_transform

import jax


def field(*, pytree_node: bool = True, **options: Any) -> Any:
    """A field of a :class:`PyTreeNode`.

    Args:
      pytree_node: whether it holds arrays, or pytrees of them; other fields are static and must be hashable.
      **options: passed to ``dataclasses.field``.
    """
    return dataclasses.field(metadata={"pytree_node": pytree_node}, **options)


@dataclass_transform(field_specifiers=(field,), frozen_default=True)
class PyTreeNode:
    """Makes its subclasses frozen dataclasses and pytrees; class keywords are passed to ``dataclasses.dataclass``."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(frozen=True, **options)(cls)
        is_node = {one.name: one.metadata.get("pytree_node", True) for one in dataclasses.fields(cls)}  # type: ignore[arg-type]
        jax.tree_util.register_dataclass(
            cls, [name for name in is_node if is_node[name]], [name for name in is_node if not is_node[name]]
        )

    def replace(self, **updates: Any) -> Self:
        """Returns a copy with some fields replaced."""
        return dataclasses.replace(self, **updates)  # type: ignore[type-var]
