"""The measured limits of the machine, and how close a program comes (Williams, Waterman and
Patterson, 2009)."""

from __future__ import annotations

import dataclasses
import multiprocessing
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Result

#: By platform: the side of the square matrices that are multiplied, and the bytes of the array that
#: is copied.
SIZES = {"cpu": (2048, 2**28), "gpu": (8192, 2**31)}


@dataclasses.dataclass(frozen=True)
class Machine:
    """What the machine can do.

    Attributes:
      device: what JAX calls it.
      operations_per_second: of a large matrix product in float32 at full precision.
      bytes_per_second: read and written by a copy of a large array.
    """

    device: str
    operations_per_second: float
    bytes_per_second: float

    def at_best(self, other: Machine) -> Machine:
        """The higher limits of two measurements of one machine: other load lowers both.

        Raises:
          ValueError: they are of different devices.
        """
        if self.device != other.device:
            raise ValueError(f"results of {other.device} cannot be added to those of {self.device}")
        return Machine(
            self.device,
            max(self.operations_per_second, other.operations_per_second),
            max(self.bytes_per_second, other.bytes_per_second),
        )

    def least_seconds(self, result: Result) -> float | None:
        """The shortest possible time of a call, given its operations or its arguments and
        results."""
        if not result.operations or not result.moved_bytes:
            return None
        return max(
            result.operations / self.operations_per_second,
            result.moved_bytes / self.bytes_per_second,
        )

    def fraction(self, result: Result) -> float | None:
        """The fraction of the roofline that a program reaches, at most 1."""
        least = self.least_seconds(result)
        if least is None or not result.microseconds:
            return None
        return least / (1e-6 * result.microseconds * result.batch)

    def bound(self, result: Result) -> str:
        """Which of the two limits applies."""
        assert result.operations is not None
        assert result.moved_bytes is not None
        by_operations = result.operations / self.operations_per_second
        return (
            "operations" if by_operations > result.moved_bytes / self.bytes_per_second else "bytes"
        )


def device_name() -> str:
    """What JAX calls the device that everything runs on."""
    device = jax.devices()[0]
    return f"{device.device_kind} ({device.platform})"


def measured_machine(repeats: int = 5) -> Machine:
    """Times a product and a copy and takes the best of the repeats, which is a limit rather than an
    average.

    It runs in a process of its own, like the libraries, with the same memory settings.
    """
    sizes = SIZES.get(jax.devices()[0].platform, SIZES["gpu"])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (*sizes, repeats))


def _measured(side: int, size: int, repeats: int) -> Machine:
    matrix = jnp.asarray(np.random.default_rng(0).normal(size=(side, side)), jnp.float32)
    product = jax.jit(lambda x: jnp.matmul(x, x, precision=jax.lax.Precision.HIGHEST))
    array = jnp.zeros(size // 4, jnp.float32)
    copy = jax.jit(lambda x: x + 1)  # a plain copy would be left out
    operations = 2 * side**3 / _best(lambda: product(matrix), repeats)
    return Machine(device_name(), operations, 2 * size / _best(lambda: copy(array), repeats))


def _best(call: Callable[[], jax.Array], repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - begin)
    return min(times[1:])
