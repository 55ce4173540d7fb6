"""Formats numbers for XML attributes."""

from __future__ import annotations

import numpy as np


def numbers(values) -> str:
    """Numbers at full precision, separated by spaces."""
    return " ".join(number(value) for value in np.asarray(values, float))


def number(value) -> str:
    """A number at full precision; never ``-0.0``."""
    return repr(float(value) + 0.0)
