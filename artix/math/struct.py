"""Frozen dataclasses that are JAX pytrees.

The interface is as in ``flax.struct``, without importing flax, which takes as long as importing all
of artix.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Self, dataclass_transform

import jax
import jax.export


def field(*, pytree_node: bool = True, **options: Any) -> Any:
    """A field of a :class:`PyTreeNode`.

    Args:
      pytree_node: whether it holds arrays, or pytrees of them; other fields are static and must be
        hashable.
      **options: passed to ``dataclasses.field``.
    """
    return dataclasses.field(metadata={"pytree_node": pytree_node}, **options)


@dataclass_transform(field_specifiers=(field,), frozen_default=True)
class PyTreeNode:
    """Makes its subclasses frozen dataclasses and pytrees; class keywords are passed to
    ``dataclasses.dataclass``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(frozen=True, **options)(cls)
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        is_node = {one.name: one.metadata.get("pytree_node", True) for one in fields}
        static = [name for name in is_node if not is_node[name]]
        jax.tree_util.register_dataclass(cls, [name for name in is_node if is_node[name]], static)
        if not static and cls.__module__.startswith("artix."):
            _make_serializable(cls)

    def replace(self, **updates: Any) -> Self:
        """Returns a copy with some fields replaced; ``TypeError`` if there is no such field."""
        try:
            return dataclasses.replace(self, **updates)  # type: ignore[type-var]
        except TypeError:
            names = [one.name for one in dataclasses.fields(self)]  # type: ignore[arg-type]
            unknown = [name for name in updates if name not in names]
            if not unknown:
                raise
            raise TypeError(
                f"{type(self).__name__}: there is no field {unknown[0]!r}; there are "
                f"{', '.join(names)}"
            ) from None


def _make_serializable(cls: type) -> None:
    """Lets ``jax.export`` write programs that take or return this class, which has nothing but
    arrays.
    """
    with contextlib.suppress(
        ValueError
    ):  # The module was loaded again: the first class has the name.
        jax.export.register_pytree_node_serialization(
            cls,
            serialized_name=f"{cls.__module__}.{cls.__qualname__}",
            serialize_auxdata=lambda _: b"",
            deserialize_auxdata=lambda _: (),
        )
