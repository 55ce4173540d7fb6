"""Numbers and poses as the text of MJCF's attributes."""

from __future__ import annotations

import numpy as np


def place(pose: np.ndarray) -> dict[str, str]:
    """The attributes ``pos`` and ``quat`` of a pose."""
    return {"pos": numbers(pose[:3]), "quat": numbers(np.roll(pose[3:], 1))}


def numbers(values) -> str:
    """Numbers with all their digits."""
    return " ".join(number(value) for value in np.asarray(values, float))


def number(value) -> str:
    """A number with all its digits, and no minus before a zero."""
    return repr(float(value) + 0.0)
