"""The interface of a library, and the part that all JAX libraries share.

``convert`` brings the results of a library to a common shape for the comparison with Pinocchio. It
is not timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.quantities import QUANTITIES
from benchmarks.reference import Reference, States

#: What a program is run for at least in one repeat.
MIN_SECONDS = 20e-3
#: What for before that. The library before has emptied the caches, and the system is still busy
#: with its memory: after 20 ms a quadruped's mass matrix took 0.55 us beside four libraries, after
#: 60 ms 0.31, alone 0.30.
WARM_SECONDS = 60e-3


class Program(Protocol):
    """One quantity of one library for one batch, ready to run.

    Attributes:
      facts: what is known without running it: ``compile_seconds``, ``instructions``,
        ``peak_bytes``, ``operations`` and ``moved_bytes`` (of inputs and outputs), as far as the
        library can say.
    """

    facts: dict[str, float]

    def value(self) -> Any:
        """The results; the leading axis is the batch, or as many of its states as are compared."""

    def seconds(self) -> float:
        """The time of one call: the mean of the calls that fill ``MIN_SECONDS``."""


class Library(Protocol):
    """One robot in one library."""

    version: str
    quantities: tuple[str, ...]

    def program(self, quantity: str, batch: int) -> Program: ...

    def convert(self, quantity: str, value: Any) -> Any: ...

    def coordinates(
        self, rotation: np.ndarray, twist: np.ndarray, center: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]: ...


def mean_seconds(run: Callable[[], float]) -> float:
    """The mean time of the runs that fill ``MIN_SECONDS``, after warm-up runs that fill
    ``WARM_SECONDS``."""
    for least in (WARM_SECONDS, MIN_SECONDS):
        begin, total, runs = time.perf_counter(), 0.0, 0
        while runs == 0 or time.perf_counter() - begin < least:
            total += run()
            runs += 1
    return total / runs


def seconds_of(call: Callable[[], Any]) -> float:
    """The time that one call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


class JaxProgram:
    """A compiled function of a batch."""

    def __init__(
        self, function: Callable[..., Any], inputs: tuple[Any, ...], memory_limit: float
    ) -> None:
        begin = time.perf_counter()
        self._program = jax.jit(function).lower(*inputs).compile()
        self.facts = {"compile_seconds": time.perf_counter() - begin}
        self._inputs = inputs
        self.facts["instructions"] = sum(
            " = " in line for line in self._program.as_text().splitlines()
        )
        memory = self._program.memory_analysis()
        if memory is not None:
            parts = (
                memory.argument_size_in_bytes,
                memory.output_size_in_bytes,
                memory.temp_size_in_bytes,
            )
            self.facts |= {"peak_bytes": float(sum(parts)), "moved_bytes": float(sum(parts[:2]))}
        cost = self._program.cost_analysis()
        if cost:
            self.facts["operations"] = float(cost.get("flops", 0.0))
        if self.facts.get("peak_bytes", 0.0) > memory_limit:
            raise MemoryError(f"needs {self.facts['peak_bytes'] / 2**30:.1f} GiB")

    def value(self) -> Any:
        return jax.device_get(self._program(*self._inputs))

    def seconds(self) -> float:
        return mean_seconds(
            lambda: seconds_of(lambda: jax.block_until_ready(self._program(*self._inputs)))
        )


class JaxLibrary:
    """A robot in a JAX library: one function of one robot for each quantity.

    Attributes:
      functions: by quantity, called with one robot's part of ``inputs``.
    """

    functions: dict[str, Callable[..., Any]]

    def __init__(self, reference: Reference, joint_names: tuple[str, ...]) -> None:
        self.base = reference.base
        self.nv = reference.model.nv
        self.from_reference = [reference.joint_names.index(name) for name in joint_names]
        self.to_reference = [joint_names.index(name) for name in reference.joint_names]
        self.limits = [
            jnp.asarray(part[self.from_reference], jnp.float32) for part in reference.limits
        ]
        self.memory_limit = float("inf")
        self._inputs: tuple[Any, ...] = ()

    @property
    def quantities(self) -> tuple[str, ...]:
        return tuple(self.functions)

    def inputs(self, states: States) -> tuple[Any, ...]:
        """The states as the library's own arrays, with leading axis N."""
        raise NotImplementedError

    def hold(self, states: States) -> None:
        """Sets the states of all later programs."""
        self._inputs = self.inputs(states)

    def program(self, quantity: str, batch: int) -> JaxProgram:
        inputs = jax.tree.map(lambda leaf: leaf[:batch], self._inputs)
        return JaxProgram(jax.vmap(self.functions[quantity]), inputs, self.memory_limit)

    def joint_forces(self, acceleration: jax.Array) -> jax.Array:
        """Forces on the joints alone, which mean the same in all libraries: the numbers of the
        acceleration."""
        return acceleration.at[: self.base].set(0)

    def ordered(self, quantity: str, value: Any) -> np.ndarray:
        """Joint axes of generalised quantities in the reference's order."""
        row = QUANTITIES[quantity]
        base = 0 if row.joints_only else self.base
        return permuted(np.asarray(value, float), row.joint_axes, base, self.to_reference)


def permuted(value: np.ndarray, axes: tuple[int, ...], base: int, order: list[int]) -> np.ndarray:
    """Reorders the joints along ``axes``; the first ``base`` entries stay in place."""
    full = [*range(base), *(base + k for k in order)]
    for axis in axes:
        value = np.take(value, full, axis=axis)
    return value


def matrices(quaternion_xyzw: np.ndarray) -> np.ndarray:
    """Rotation matrices [..., 3, 3] of quaternions [..., 4]."""
    x, y, z, w = np.moveaxis(np.asarray(quaternion_xyzw, float), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def moved_to_centers(motion: np.ndarray, rotation: np.ndarray, lever: np.ndarray) -> np.ndarray:
    """Converts motions in world axes from the origins of links to their centres of mass.

    Args:
      motion: linear then angular, [..., 6, k]: velocities (k = 1) or columns of Jacobians.
      rotation: of the links, [..., 3, 3].
      lever: centres of mass in the links' frames, [..., 3].
    """
    arm = (rotation @ lever[..., None])[..., 0]
    linear = motion[..., :3, :] + np.cross(
        motion[..., 3:, :], arm[..., None], axisa=-2, axisb=-2, axisc=-2
    )
    return np.concatenate([linear, motion[..., 3:, :]], axis=-2)


def derivatives_by_joints(
    function: Callable[[jax.Array, jax.Array], jax.Array], q: jax.Array, v: jax.Array
) -> jax.Array:
    """Derivatives [n, 2, n] of ``function(q, v)`` by both, in forward mode: what a library without
    its own offers."""
    return jnp.stack(jax.jacfwd(function, argnums=(0, 1))(q, v), axis=1)


def sum_gradient(function: Callable[[jax.Array], jax.Array], q: jax.Array) -> jax.Array:
    """Gradient of the sum of ``function(q)``, in reverse mode."""
    return jax.grad(lambda moved: jnp.sum(function(moved)))(q)
