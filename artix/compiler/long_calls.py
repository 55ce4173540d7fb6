"""Calls of functions that call a great many others, for seconds: tracing, scalarising, writing code for LLVM.

Two habits of CPython would multiply their time. It keeps frames in pieces of memory of 16 kB; whenever a call does not
fit into the last piece, it asks the system for another, and gives it back on return. A loop that calls functions at
just such a depth makes two system calls an iteration and takes up to a hundred times as long. And it searches
everything that a program has built for cycles again and again.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: A frame of this many words gets a piece of memory of twice as many, since CPython rounds up to a power of two.
_WORDS = 2**16


def long_call(function: _Function) -> _Function:
    """Decorator: while the function runs, no garbage is collected, and frames of about 2,000 nested calls lie together.

    Args:
      function: any function.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        is_enabled = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if is_enabled:
                gc.enable()

    # The system provides no memory for what is never written.
    code = call.__code__.replace(co_stacksize=_WORDS)
    roomy = types.FunctionType(code, globals(), call.__name__, None, call.__closure__)
    return cast(_Function, functools.wraps(function)(roomy))
