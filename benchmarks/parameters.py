"""What unknown parameters cost: ``python -m benchmarks.parameters quadruped humanoid``.

Each row evaluates a batch of states of a robot that a compiled function closes over, of one that is
its argument, and of as many robots as states, whose parameters all differ; the latter two with
their zeros kept (``artix.keep_zeros``) and as they were loaded. Operations are those of
``artix.explain``, once for all robots and for each. Times are the least processor times of
interleaved calls, as multiples of the known robot's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import artix

QUANTITIES: dict[str, Callable[..., Any]] = {
    "mass matrix": artix.mass_matrix,
    "inverse dynamics": lambda robot, state: artix.inverse_dynamics(robot, state, _ones(robot)),
    "forward dynamics": lambda robot, state: artix.forward_dynamics(robot, state, _ones(robot)),
    "step": lambda robot, state: artix.step(robot, state, None, 0.005),
    "step on the ground": lambda robot, state: artix.step(
        artix.Scene(robot, ground=artix.Ground.flat()), state, None, 0.005
    ),
}
COLUMNS = ("closed over", "argument, kept", "batched, kept", "argument", "batched")


def _ones(robot: artix.Articulation) -> jax.Array:
    return jnp.ones(robot.topology.nv, robot.dtype)


def _operations(function: Callable[..., Any], robot: artix.Articulation, *arguments: Any) -> str:
    costs = artix.explain(function, robot, *arguments).operations
    levels = [sum(cost.operations[level] for cost in costs) for level in (0, 1)]
    return " + ".join(f"{count:,}" for count in levels if count)


def calls(
    function: Callable[..., Any], robot: artix.Articulation, batch: int
) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The compiled functions of the columns, with their arguments."""
    keys = jax.random.split(jax.random.key(0), batch)
    states = jax.vmap(lambda key: artix.random_state(robot, key))(keys)
    known = jax.jit(jax.vmap(lambda state: function(robot, state)))
    shared = jax.jit(jax.vmap(function, in_axes=(None, 0)))
    varied = jax.jit(jax.vmap(function))
    kept = artix.keep_zeros(robot)
    many = [
        jax.tree.map(lambda leaf: jnp.repeat(leaf[None], batch, axis=0), one)
        for one in (kept, robot)
    ]
    arguments = [(states,), (kept, states), (many[0], states), (robot, states), (many[1], states)]
    return dict(
        zip(
            COLUMNS,
            zip((known, shared, varied, shared, varied), arguments, strict=True),
            strict=True,
        )
    )


def seconds(
    measured: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]], rounds: int
) -> dict[str, float]:
    """The least processor time of a call of each, which other processes disturb less than the
    clock."""
    shortest = dict.fromkeys(measured, float("inf"))
    for function, arguments in measured.values():
        jax.block_until_ready(function(*arguments))
    for _ in range(rounds):
        for name, (function, arguments) in measured.items():
            start = time.process_time()
            jax.block_until_ready(function(*arguments))
            shortest[name] = min(shortest[name], time.process_time() - start)
    return shortest


def main() -> None:
    """Prints a table for each robot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("robots", nargs="+")
    parser.add_argument("--quantity", action="append", choices=QUANTITIES)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    for name in options.robots:
        robot = artix.robots.load(name)
        kept, state = artix.keep_zeros(robot), artix.neutral_state(robot)
        print(f"\n| {name} | {' | '.join(COLUMNS)} |\n|---|{'---:|' * len(COLUMNS)}")
        for quantity in options.quantity or QUANTITIES:
            function = QUANTITIES[quantity]
            counts = [_operations(function, robot, state)]
            for one in (kept, robot):
                counts.append(
                    _operations(
                        lambda _, varied, state, f=function: f(varied, state), robot, one, state
                    )
                )
            times = seconds(calls(function, robot, options.batch), options.rounds)
            first = times[COLUMNS[0]]
            cells = [f"{counts[0]}; {1e6 * first / options.batch:.3f} us"]
            for column, count in zip(
                COLUMNS[1:], (counts[1], counts[1], counts[2], counts[2]), strict=True
            ):
                operations = f"{count}; " if "batched" in column else ""
                cells.append(f"{operations}x {times[column] / first:.2f}")
            print(f"| {quantity} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
