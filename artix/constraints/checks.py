"""Refuses coefficients and numbers of iterations by name."""

from __future__ import annotations

import numbers

import jax
import numpy as np

from artix.model.checks import check_count

Array = jax.Array


def check_proximal(damping: float | Array | None, iterations: int, rows: int) -> None:
    """Raises unless these are a damping and a number of proximal iterations."""
    check_count("iterations", iterations)
    if damping is not None:
        check_coefficient("damping", damping, rows)


def check_coefficient(name: str, value: float | Array, rows: int | None) -> None:
    """Raises ``ValueError`` unless this is one number or, with ``rows``, one for each; Python numbers not negative."""
    shapes = [()] if rows is None else [(), (rows,)]
    if np.shape(value) not in shapes:
        raise ValueError(f"{name}: expected shape {' or '.join(map(str, shapes))}, found {np.shape(value)}")
    if isinstance(value, numbers.Real) and not value >= 0:
        raise ValueError(f"{name}: expected zero or more, found {value}")
