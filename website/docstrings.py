"""An extension of Griffe, which reads the docstrings for mkdocstrings."""

from __future__ import annotations

import functools
from typing import Any

import griffe

from website.markup import as_markdown
from website.reference import entries


class Docstrings(griffe.Extension):
    """Turns the docstrings of artix into Markdown before they are rendered."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Of one module, class, function or attribute."""
        if obj.docstring:
            scope = obj if obj.is_class else obj.parent or obj
            obj.docstring.value = as_markdown(obj.docstring.value, scope.path, _published())


@functools.cache
def _published() -> frozenset[str]:
    return frozenset(entry.home for entry in entries())
