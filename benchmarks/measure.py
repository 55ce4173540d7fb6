"""Times one quantity in several libraries at once; the results are the cells of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from benchmarks.worker import Failure, Worker

FEWEST_REPEATS = 3
#: Rounds that only warm up. In the first ones the C library still fetches pages for the results of
#: a new program: a call of 1.2 ms then takes 10 to 30 ms.
WARM_ROUNDS = 3
PATIENCE = 10.0  # seconds after which a slow program gets no further repeats


@dataclasses.dataclass
class Result:
    """One cell.

    Attributes:
      robot, quantity, batch, library: which cell.
      samples: microseconds per articulation, one number for each repeat.
      compile_seconds: time to trace, lower and compile.
      instructions: number of HLO instructions of the compiled program.
      peak_bytes: memory of arguments, results and temporaries.
      operations: floating-point operations of a call, as XLA counts them.
      moved_bytes: bytes of arguments and results of a call.
      error: largest difference from float64 Pinocchio, relative to the quantity's largest entry.
      failure: why there is no number.
    """

    robot: str
    quantity: str
    batch: int
    library: str
    compile_seconds: float | None = None
    instructions: float | None = None
    peak_bytes: float | None = None
    operations: float | None = None
    moved_bytes: float | None = None
    error: float | None = None
    failure: str | None = None
    samples: list[float] = dataclasses.field(default_factory=list)

    @property
    def microseconds(self) -> float | None:
        """The median of the samples."""
        return float(np.median(self.samples)) if self.samples else None


def compare(
    workers: Sequence[Worker], robot: str, quantity: str, batch: int, repeats: int
) -> list[Result]:
    """Measures one quantity in all libraries, with interleaved runs, so that noise affects all of
    them alike."""
    results, ready = [], []
    for worker in workers:
        result = Result(robot, quantity, batch, worker.name)
        results.append(result)
        try:
            facts = worker.prepare(quantity, batch)
            ready.append((worker, result))
        except Failure as failure:
            facts = {"failure": str(failure)}
        for name, fact in facts.items():
            setattr(result, name, fact)
    for (_, result), times in zip(ready, _interleaved(ready, repeats), strict=True):
        if result.failure is None:
            result.samples = [1e6 * seconds / batch for seconds in times]
    return results


def _interleaved(ready: list[tuple[Worker, Result]], repeats: int) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in ready]
    spent = [0.0] * len(ready)
    for repeat in range(repeats + WARM_ROUNDS):
        for k, (worker, result) in enumerate(ready):
            if result.failure is not None or (
                len(times[k]) >= FEWEST_REPEATS and spent[k] > PATIENCE
            ):
                continue
            try:
                seconds = worker.seconds()
            except Failure as failure:
                result.failure = str(failure)
                continue
            spent[k] += seconds
            if repeat >= WARM_ROUNDS:
                times[k].append(seconds)
    return times
