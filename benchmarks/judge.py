"""Compares the results of a program with Pinocchio in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.libraries.base import Library, Program
from benchmarks.reference import JUDGED_STATES


def prepared(
    library: Library, reference: Any, states: Any, quantity: str, batch: int
) -> tuple[Program, dict[str, float]]:
    """A program of a library, and its facts including the ``error`` of its first results.

    Raises:
      NotImplementedError: the library does not offer the quantity.
    """
    if quantity not in library.quantities:
        raise NotImplementedError("not offered")
    program = library.program(quantity, batch)
    return program, {
        **program.facts,
        "error": _error(library, reference, states, quantity, batch, program.value()),
    }


def _error(
    library: Library, reference: Any, states: Any, quantity: str, batch: int, value: Any
) -> float:
    """The largest difference from Pinocchio, relative to the largest entry of the quantity."""
    import jax

    count = min(JUDGED_STATES, batch)
    ours = library.convert(quantity, jax.tree.map(lambda leaf: np.asarray(leaf)[:count], value))
    errors = []
    for k in range(count):
        right = reference.values(states, k, library.coordinates)[quantity]
        if ours[k].shape != right.shape:
            raise ValueError(f"shape {ours[k].shape} instead of {right.shape}")
        errors.append(np.abs(ours[k] - right).max() / np.abs(right).max())
    return float(np.max(errors))
