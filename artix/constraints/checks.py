"""Refuses coefficients and numbers of iterations by name."""

from __future__ import annotations

import numbers

import jax
import numpy as np

Array = jax.Array


def check_proximal(damping: float | Array | None, iterations: int, rows: int) -> None:
    """Raises unless these are a damping and a number of proximal iterations."""
    check_iterations(iterations)
    if damping is not None:
        check_coefficient("damping", damping, rows)


def check_iterations(iterations: int) -> None:
    """Raises unless there is at least one iteration; their number is static."""
    if not isinstance(iterations, int | np.integer):
        raise TypeError(f"iterations: expected a whole number, found {type(iterations).__name__}; it may not be traced")
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1; found {iterations}")


def check_coefficient(name: str, value: float | Array, rows: int | None) -> None:
    """Raises ``ValueError`` unless this is one number or, with ``rows``, one for each; Python numbers not negative."""
    shapes = [()] if rows is None else [(), (rows,)]
    if np.shape(value) not in shapes:
        raise ValueError(f"{name}: expected shape {' or '.join(map(str, shapes))}, found {np.shape(value)}")
    if isinstance(value, numbers.Real) and not value >= 0:
        raise ValueError(f"{name}: expected zero or more, found {value}")
