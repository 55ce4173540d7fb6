"""The old name of :mod:`artix.compiler`, which works for one more release."""

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    from artix import compiler

    if name not in compiler.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{__name__}.{name} is now artix.compiler.{name}; the old name leaves with the next release",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(compiler, name)
