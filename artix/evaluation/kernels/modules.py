"""Modules of a kernel in LLVM IR."""

from __future__ import annotations

from collections.abc import Sequence

from artix.evaluation.kernels.llvm_ir import ElementaryFunctions
from artix.evaluation.kernels.machine import function_attributes


class Module:
    """Functions that LLVM compiles together, with the elementary functions that they call."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        self.elementary = ElementaryFunctions()

    def text(self, functions: Sequence[str]) -> str:
        """The module's text."""
        definitions = "\n".join([*functions, self.elementary.text(self.declarations)])
        signatures = "\n".join(line for line in definitions.splitlines() if line.startswith("define"))
        declarations = [text for name, text in self.declarations.items() if f"@{name}(" not in signatures]
        return "\n".join([*declarations, definitions, function_attributes()])
