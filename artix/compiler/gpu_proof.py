"""Checks, on a GPU, that kernels compute there what they compute on the CPU.

``python -m artix.compiler.gpu_proof`` runs a fixed set of small programs in a process of its own,
because a faulty kernel can crash a process or leave its device unusable. It prints a line of JSON
before and after each program, so that whoever started it knows how far it came;
:mod:`artix.compiler.gpu_verdict` reads them.

The programs cover what generated code depends on: values, derivatives and transposes; loops with a
known and with an unknown number of passes; loops over the items of a robot, and threads for them;
threads that share a robot; tables, integers and booleans; single and double precision; batches
around the 32 threads of a warp, and large ones; rows that fit into shared memory, fill it and
exceed it; results that alias arguments.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import lanes
from artix.compiler.gpu_verdict import LANES, Check
from artix.compiler.quantity import quantity, use_kernels

Array = jax.Array
Function = Callable[..., Any]

#: Whole and partial warps, and the batches that people train with.
BATCHES = (1, 31, 32, 33, 4096, 65536)
_FEW_BATCHES = (33, 4096)


class Case(NamedTuple):
    """A program and the batches that it is checked with."""

    name: str
    function: Function
    """Of batches of rows, except for the last ``num_shared`` arguments."""
    row_shapes: tuple[tuple[int, ...], ...]
    batches: tuple[int, ...] = _FEW_BATCHES
    dtypes: tuple[str, ...] = ("float32",)
    num_shared: int = 0
    donates: bool = False

    def arguments(self, batch: int, dtype: str) -> list[np.ndarray]:
        """Random rows, which are positive, so that roots and logarithms exist."""
        generator = np.random.default_rng(batch)
        num_rows = len(self.row_shapes) - self.num_shared
        rows = [(batch,) if number < num_rows else () for number in range(len(self.row_shapes))]
        shapes = [(*row, *shape) for row, shape in zip(rows, self.row_shapes, strict=True)]
        return [generator.uniform(0.1, 1.0, shape).astype(dtype) for shape in shapes]


@quantity
def _pose(joints: Array, offset: Array) -> tuple[Array, Array]:
    """The position and a symmetric matrix of a chain of turns about alternating axes."""
    rotation, position = jnp.eye(3, dtype=joints.dtype), jnp.zeros(3, joints.dtype)
    for index in range(joints.shape[0]):
        sine, cosine = jnp.sin(joints[index]), jnp.cos(joints[index])
        turn = jnp.eye(3, dtype=joints.dtype)
        first, second = index % 3, (index + 1) % 3
        turn = turn.at[first, first].set(cosine).at[second, second].set(cosine)
        turn = turn.at[first, second].set(-sine).at[second, first].set(sine)
        rotation = rotation @ turn
        position = position + rotation @ offset
    return position, (rotation * offset) @ rotation.T


@quantity
def _elementary(x: Array) -> Array:
    return jnp.stack(
        [
            jnp.exp(-x),
            jnp.log(x),
            jnp.sqrt(x),
            jnp.arctan2(x, 1 - x),
            jnp.tanh(x),
            1 / x,
            jnp.arccos(x / 2),
        ]
    )


@quantity
def _repeated(x: Array) -> Array:
    """A loop that is too long to be written out, and in which errors do not grow."""

    def advance(_: Any, state: Array) -> Array:
        return state + 0.01 * (
            jnp.stack([state[1], -jnp.sin(state[0]), state[0] * state[2]]) + x - state
        )

    return jax.lax.fori_loop(np.int32(0), np.int32(5000), advance, x)


@quantity
def _root(x: Array) -> tuple[Array, Array]:
    """Newton's method for a square root until it holds, which takes each robot another number of
    steps.
    """

    def is_off(state: tuple[Array, Array]) -> Array:
        return (jnp.abs(state[0] ** 2 - x[0]) > 1e-4 * x[0]) & (state[1] < 60)

    def improve(state: tuple[Array, Array]) -> tuple[Array, Array]:
        return (state[0] + x[0] / state[0]) / 2, state[1] + 1

    return jax.lax.while_loop(is_off, improve, (x[1] * 1e3, jnp.zeros((), x.dtype)))


@quantity
def _looked_up(x: Array, table: Array) -> Array:
    """Entries of a table that all robots share, by computed indices."""
    place = jnp.clip((x * table.shape[0]).astype("int32"), 0, table.shape[0] - 2)
    fraction = x * table.shape[0] - place.astype(x.dtype)
    return table[place] * (1 - fraction) + table[place + 1] * fraction


@quantity
def _counted(x: Array) -> tuple[Array, Array, Array]:
    whole = (x * 100).astype("int32")
    is_small = whole < 50
    return whole * 3 - 2, is_small & (x > 0.3), jnp.where(is_small, x, -x)


@quantity
def _wide(x: Array) -> tuple[Array, Array]:
    """Rows too long for shared memory."""
    return x * 2, x[:5]


@quantity
def _filling(x: Array) -> Array:
    """A row that, with its results, fills most of shared memory."""
    return x[::-1] + x


@quantity
def _swapped(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Results that are arguments, and arguments whose buffers become results."""
    return y, x + y, x


def _feet(joints: Array, trunk: Array) -> list[Array]:
    """Places of four feet, each at the end of a leg of three joints; right legs mirror left
    ones.
    """
    feet = []
    for leg in range(4):
        front, left = (1 if leg < 2 else -1), (1 if leg % 2 else -1)
        roll, pitch, knee = joints[leg]
        thigh, shank = pitch, pitch + knee
        along = 0.4 * jnp.sin(thigh) + 0.3 * jnp.sin(shank)
        down = 0.4 * jnp.cos(thigh) + 0.3 * jnp.cos(shank)
        side = left * 0.1
        across = jnp.cos(roll) * side + jnp.sin(roll) * down
        below = jnp.sin(roll) * side - jnp.cos(roll) * down
        feet.append(jnp.stack([front * 0.3 + along, left * 0.2 + across, below]) + trunk * trunk[0])
    return feet


@quantity
def _legs(joints: Array, trunk: Array) -> tuple[Array, Array]:
    """Equal parts of a robot, which several threads share: sums over them, and what each makes of
    the sum.
    """
    feet = _feet(joints, trunk)
    middle = (feet[0] + feet[1] + feet[2] + feet[3]) / 4
    lowest = jnp.minimum(jnp.minimum(feet[0][2], feet[1][2]), jnp.minimum(feet[2][2], feet[3][2]))
    return middle, jnp.stack([(foot - middle) * (foot[2] - lowest) for foot in feet])


@quantity
def _standing(joints: Array, trunk: Array) -> tuple[Array, Array]:
    """The height at which four springs below the feet carry a weight, by Newton's method until it
    holds.
    """
    feet = _feet(joints, trunk)

    def force(height: Array) -> tuple[Array, Array]:
        pressed = [jnp.exp(-8 * (foot[2] + height)) for foot in feet]
        total = (pressed[0] + pressed[1]) + (pressed[2] + pressed[3])
        return jnp.log(total / 3), -8 * total / total

    def is_off(state: tuple[Array, Array]) -> Array:
        return (jnp.abs(force(state[0])[0]) > 1e-5) & (state[1] < 40)

    def improve(state: tuple[Array, Array]) -> tuple[Array, Array]:
        value, slope = force(state[0])
        return state[0] - (0.6 + 0.4 * trunk[1]) * value / slope, state[1] + 1

    height, count = jax.lax.while_loop(is_off, improve, (trunk[2], jnp.zeros((), trunk.dtype)))
    return height, count


_batched_pose = jax.vmap(_pose)


def _pose_change(joints: Array, offset: Array, direction: Array) -> Any:
    return jax.jvp(lambda q: _batched_pose(q, offset), (joints,), (direction,))[1]


def _pose_gradient(joints: Array, offset: Array) -> Any:
    total: Any = lambda q, r: sum(jnp.sum(jnp.sin(x)) for x in _batched_pose(q, r))  # noqa: E731
    return jax.grad(total, argnums=(0, 1))(joints, offset)


def _pose_jacobian(joints: Array, offset: Array) -> Any:
    """All tangents of a robot, which share its values."""
    return jax.vmap(lambda q, r: jax.jacfwd(_pose)(q, r))(joints, offset)


def _pose_of_items(joints: Array, offsets: Array) -> Any:
    """Several items of each robot."""
    return jax.vmap(jax.vmap(_pose, in_axes=(None, 0)))(joints, offsets)


BOTH = ("float32", "float64")
#: The most important first, since time is limited.
CASES = (
    Case("values", _batched_pose, ((7,), (3,)), BATCHES, BOTH),
    Case("derivative", _pose_change, ((7,), (3,), (7,)), dtypes=BOTH),
    Case("transpose", _pose_gradient, ((7,), (3,)), BATCHES, BOTH),
    Case("loop until a condition holds", jax.vmap(_root), ((3,),), BATCHES, BOTH),
    Case("long loop", jax.vmap(_repeated), ((3,),), dtypes=BOTH),
    Case("loop over items", _pose_jacobian, ((7,), (3,)), BATCHES),
    Case("threads for items", _pose_of_items, ((7,), (5, 3))),
    Case("elementary functions", jax.vmap(_elementary), ((3,),), dtypes=BOTH),
    Case("shared table", jax.vmap(_looked_up, in_axes=(0, None)), ((3,), (41,)), num_shared=1),
    Case("integers and booleans", jax.vmap(_counted), ((5,),)),
    Case("rows beyond shared memory", jax.vmap(_wide), ((300,),)),
    Case("rows that fill shared memory", jax.vmap(_filling), ((180,),)),
    Case("arguments as results", jax.vmap(_swapped), ((3,), (3,)), BATCHES, donates=True),
    # If these fail, each robot has a thread of its own.
    Case(f"{LANES}: values", jax.vmap(_legs), ((4, 3), (3,)), BATCHES, BOTH),
    Case(
        f"{LANES}: loop until a condition holds", jax.vmap(_standing), ((4, 3), (3,)), BATCHES, BOTH
    ),
)
#: Those that are timed against XLA.
TIMED = ("values", "transpose")


def ulps_between(results: Any, expected: Any) -> float:
    """The largest error in units of the last place; integers and booleans must be equal."""
    largest = 0.0
    for result, reference in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        one, other = np.asarray(result), np.asarray(reference)
        if one.dtype != other.dtype or one.shape != other.shape:
            return float("inf")
        if not np.issubdtype(one.dtype, np.floating):
            error = 0.0 if np.array_equal(one, other) else float("inf")
        else:
            unit = np.finfo(one.dtype).eps * max(
                float(np.abs(other).max(initial=0)), np.finfo(one.dtype).tiny
            )
            error = float(
                np.abs(one.astype("float64") - other.astype("float64")).max(initial=0) / unit
            )
        largest = error if not error <= largest else largest
    return largest


def checks(
    run: Callable[[Case, Sequence[np.ndarray]], Any], begin: Callable[[str], None]
) -> Iterator[Check]:
    """Compares all programs with the CPU.

    Args:
      run: evaluates a case by GPU kernels.
      begin: is told what comes next.
    """
    for case in CASES:
        for dtype in case.dtypes:
            for batch in case.batches:
                begin(f"{case.name}, {dtype}, batch {batch}")
                with jax.enable_x64(dtype == "float64"):
                    arguments = case.arguments(batch, dtype)
                    with jax.default_device(jax.devices("cpu")[0]):
                        expected = jax.jit(case.function)(*arguments)
                    error = ulps_between(run(case, arguments), expected)
                yield Check(case.name, dtype, batch, error)


# --- The process --------------------------------------------------------------------------------


class NoKernel(RuntimeError):
    """XLA was given no kernel where there should be one."""


def _compiled(case: Case, arguments: Sequence[Array], kernels: bool) -> Any:
    donated = tuple(range(len(arguments))) if case.donates and kernels else ()
    # A new function for each setting, because JAX keeps what it traced.
    with use_kernels(True, gpu=kernels):
        lowered = jax.jit(lambda *args: case.function(*args), donate_argnums=donated).lower(
            *arguments
        )
    if kernels != ("gpu.ptx" in lowered.as_text()):
        raise NoKernel(f"{case.name}: XLA was {'not ' if kernels else ''}given a kernel")
    return lowered.compile()


def _seconds(function: Function, arguments: Sequence[Any]) -> float:
    """The shortest time of a call among calls in a row."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(5):
        before = time.perf_counter()
        for _ in range(20):
            result = function(*arguments)
        jax.block_until_ready(result)
        times.append((time.perf_counter() - before) / 20)
    return min(times)


def _time(case: Case, device: Any, bytes_per_second: float) -> dict[str, Any]:
    arguments = jax.device_put(case.arguments(BATCHES[-1], "float32"), device)
    by_kernel = _compiled(case, arguments, True)
    kernel, xla = (
        _seconds(each, arguments) for each in (by_kernel, _compiled(case, arguments, False))
    )
    moved = sum(x.nbytes for x in jax.tree.leaves((arguments, by_kernel(*arguments))))
    share = moved / kernel / bytes_per_second
    return {
        "name": case.name,
        "batch": BATCHES[-1],
        "kernel": kernel,
        "xla": xla,
        "bandwidth_share": share,
    }


def bandwidth(device: Any) -> float:
    """Bytes read and written a second by the simplest program for large arrays."""
    x = jax.device_put(np.ones(2**24, "float32"), device)
    return 2 * x.nbytes / _seconds(jax.jit(lambda y: y + 1).lower(x).compile(), [x])


def _print(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def main() -> int:
    """Checks and times the programs on the first GPU; prints what happens."""
    lanes.LEAST = 0  # Programs this small have no lanes otherwise.
    device = jax.devices("cuda")[0]
    _print(device=str(device.device_kind))

    def run(case: Case, arguments: Sequence[np.ndarray]) -> Any:
        on_device = jax.device_put(list(arguments), device)
        return jax.block_until_ready(_compiled(case, on_device, True)(*on_device))

    for check in checks(run, lambda name: _print(begin=name)):
        _print(check=check._asdict())
        if not check.is_right:  # Anything may follow from it.
            return 0
    _print(begin="times")
    bytes_per_second = bandwidth(device)
    for case in CASES:
        if case.name in TIMED:
            _print(time=_time(case, device, bytes_per_second))
    _print(end=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
