"""An extension of Griffe, which reads the docstrings for mkdocstrings."""

from __future__ import annotations

import functools
import re
from typing import Any

import griffe

from website.markup import as_markdown
from website.reference import entries


class Docstrings(griffe.Extension):
    """Turns the docstrings of artix into Markdown before they are rendered, and lists fields that
    have none.
    """

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Of one module, class, function or attribute."""
        if obj.docstring:
            scope = obj if obj.is_class else obj.parent or obj
            obj.docstring.value = as_markdown(obj.docstring.value, scope.path, _published())
        elif (
            obj.is_attribute
            and obj.parent is not None
            and obj.parent.is_class
            and not obj.name.startswith("_")
        ):
            told = obj.parent.docstring.value if obj.parent.docstring else ""
            if not re.search(rf"^\s+{obj.name}:", told.partition("Attributes:")[2], re.MULTILINE):
                obj.docstring = griffe.Docstring("Described with the class.", parent=obj)


@functools.cache
def _published() -> frozenset[str]:
    return frozenset(entry.home for entry in entries())
