"""Numbers as the text of XML attributes."""

from __future__ import annotations

import numpy as np


def numbers(values) -> str:
    """Numbers with all their digits, separated by blanks."""
    return " ".join(number(value) for value in np.asarray(values, float))


def number(value) -> str:
    """A number with all its digits; never ``-0.0``."""
    return repr(float(value) + 0.0)
