"""Shapes and kinds of the operands and results of equations in traced programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from artix.compiler.scalar_builder import ScalarBuilder, Value, kind_of
from artix.compiler.scalar_program import Kind

Rule: TypeAlias = Callable[[ScalarBuilder, Sequence[Value]], list[Value]]
"""Computes the results of an operation, some of whose arguments are unknown."""


def result_of(equation: Any) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, dtype and size of the (first) result."""
    aval = equation.outvars[0].aval
    return aval.shape, aval.dtype, int(np.prod(aval.shape, dtype=int))


def shapes_of(equation: Any) -> tuple[tuple[int, ...], ...]:
    """Shapes of the arguments."""
    return tuple(variable.aval.shape for variable in equation.invars)


def operand_kind(equation: Any, number: int = 0) -> Kind:
    """The kind of an argument's scalars."""
    return kind_of(equation.invars[number].aval.dtype)
