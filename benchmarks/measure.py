"""Compiling, counting, timing and judging one quantity in several libraries at once."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import jax
import numpy as np

from benchmarks.libraries import Library
from benchmarks.reference import Reference, States

JUDGED_STATES = 32
FEWEST_REPEATS = 3
PATIENCE = 10.0  # seconds after which a slow program gets no further repeats


@dataclasses.dataclass
class Result:
    """One cell of the table.

    Attributes:
      library: the library's name.
      microseconds: time for one robot, the median of the repeats; ``None`` where the library has no such function.
      instructions: number of HLO instructions of the compiled program.
      compile_seconds: time to trace, lower and compile.
      error: largest difference from float64 Pinocchio, relative to the quantity's largest entry.
      failure: why there is no number.
    """

    library: str
    microseconds: float | None = None
    instructions: int | None = None
    compile_seconds: float | None = None
    error: float | None = None
    failure: str | None = None


def compare(
    libraries: list[Library], quantity: str, reference: Reference, states: States, repeats: int
) -> list[Result]:
    """Measures one quantity in all libraries, their runs interleaved so that a noisy machine is unfair to none."""
    results, programs = [], []
    for library in libraries:
        result = Result(library.name)
        results.append(result)
        if quantity not in library.functions:
            result.failure = "not offered"
            continue
        try:
            inputs = library.inputs(states)
            program, result.compile_seconds = _compiled(library.functions[quantity], inputs)
            result.instructions = sum(" = " in line for line in program.as_text().splitlines())
            result.error = _error(library, quantity, program(*inputs), reference, states)
            programs.append((result, program, inputs))
        except Exception as error:  # whatever a peer raises belongs in its cell, not in the way of the others
            result.failure = f"{type(error).__name__}: {error}".splitlines()[0][:100]
    for result, times in zip((entry[0] for entry in programs), _interleaved(programs, repeats), strict=True):
        result.microseconds = 1e6 * float(np.median(times)) / len(states.q)
    return results


def _compiled(function: Any, inputs: tuple[Any, ...]) -> tuple[Any, float]:
    begin = time.perf_counter()
    program = jax.jit(jax.vmap(function)).lower(*inputs).compile()
    return program, time.perf_counter() - begin


def _interleaved(programs: list[tuple[Result, Any, tuple[Any, ...]]], repeats: int) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in programs]
    spent = [0.0] * len(programs)
    for repeat in range(repeats + 1):
        for k, (_, program, inputs) in enumerate(programs):
            if len(times[k]) >= FEWEST_REPEATS and spent[k] > PATIENCE:
                continue
            begin = time.perf_counter()
            jax.block_until_ready(program(*inputs))
            seconds = time.perf_counter() - begin
            spent[k] += seconds
            if repeat:  # the first round only warms up
                times[k].append(seconds)
    return times


def _error(library: Library, quantity: str, value: Any, reference: Reference, states: States) -> float:
    count = min(JUDGED_STATES, len(states.q))
    ours = library.convert(quantity, jax.tree.map(lambda leaf: np.asarray(leaf)[:count], value))
    errors = []
    for k in range(count):
        right = reference.values(states, k, library.coordinates)[quantity]
        if ours[k].shape != right.shape:
            raise ValueError(f"shape {ours[k].shape} instead of {right.shape}")
        errors.append(np.abs(ours[k] - right).max() / np.abs(right).max())
    return float(np.max(errors))
