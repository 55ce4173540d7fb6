"""Steps divided into substeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from artix.evaluation.devices import scan
from artix.simulation.common.options import SolverOptions

Array = jax.Array


def in_parts(
    take_step: Callable[[Any, Array], tuple[Any, Any]], state: Any, dt: Array, options: SolverOptions
) -> tuple[Any, Any]:
    """Takes all substeps of a step. Returns the final state and the report of the last substep."""
    part = dt / options.substeps
    if options.substeps == 1:
        return take_step(state, part)
    end, reports = scan(lambda now, _: take_step(now, part), state, length=options.substeps)
    return end, jax.tree.map(lambda each: each[-1], reports)
