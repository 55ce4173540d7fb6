"""Functions of single arrays that are one program where a user calls them outside ``jax.jit``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function as a whole; within a program that is traced anyway, it leaves no trace of its own.

    Called operation by operation, a function of many small ones spends seconds in its first call and milliseconds in
    the later ones (a Jacobian of SE(3): 11 s and 0.1 s).
    """
    program = jax.jit(function, inline=True)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return program(*args, **kwargs)

    return call
