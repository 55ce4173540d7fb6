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


def check_coefficient(name: str, value: float | Array, rows: int | None, most: float = np.inf) -> None:
    """Raises ``ValueError`` unless this is one number or, with ``rows``, one each; Python numbers within 0 .. most."""
    shapes = [()] if rows is None else [(), (rows,)]
    if np.shape(value) not in shapes:
        raise ValueError(f"{name}: expected shape {' or '.join(map(str, shapes))}, found {np.shape(value)}")
    if isinstance(value, numbers.Real) and not 0 <= value <= most:
        expected = "zero or more" if most == np.inf else f"a number between 0 and {most:g}"
        raise ValueError(f"{name}: expected {expected}, found {value}")
