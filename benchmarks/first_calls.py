"""First calls: the processor time and memory from a function to its first result, in a process
without kernels on disk, and the time in the next process, which has them.

    python -m benchmarks.first_calls
    python -m benchmarks.first_calls --robot path/to/robot.urdf step gradient_of_step
    python -m benchmarks.first_calls start_of_ppo iteration_of_ppo

prints, for each row, what JAX takes to trace it, what artix takes to trace derivatives and to build
kernels, what XLA takes for the rest, what the call itself takes, what the process needs in memory,
and what all of it takes in a second process. Each row has processes of its own; imports are not
counted. The rows of PPO, which are
printed only if they are named, are the two programs that :func:`artix.examples.ppo.train` compiles
for ``quadruped_velocity``: the robots at their start with untrained networks, and an iteration,
which follows the start in the same process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

import artix
import artix.envs

#: Robots of the batch; kernels are the same for all sizes.
BATCH = 256
_STEP = 0.005
_TASK = "quadruped_velocity"
_Row: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], dict[str, str | bool] | None]


def _robot(name: str) -> artix.Articulation:
    return artix.load(name) if os.path.exists(name) else artix.robots.load(name)


def _advance(robot: artix.Articulation, state: artix.State, force: jax.Array) -> artix.State:
    """One step on level ground."""
    control = artix.Control(joint_force=force[robot.topology.num_base_dofs :])
    return artix.step(artix.Scene(robot, ground=artix.Ground.flat()), state, control, _STEP)


def _distance(robot: artix.Articulation, steps: int) -> Callable[..., jax.Array]:
    """The squared joint positions after some steps."""

    def after(state: artix.State, force: jax.Array) -> jax.Array:
        end, _ = jax.lax.scan(
            lambda state, _: (_advance(robot, state, force), None), state, None, length=steps
        )
        return jnp.sum(end.joint_position**2)

    return after


def functions(robot: artix.Articulation) -> dict[str, Callable[..., Any]]:
    """The rows: functions of the state and of a force on each degree of freedom."""

    def squares(state: artix.State, force: jax.Array) -> jax.Array:
        return jnp.sum(artix.forward_dynamics(robot, state, force) ** 2)

    return {
        "forward_dynamics": lambda state, force: artix.forward_dynamics(robot, state, force),
        "gradient_of_forward_dynamics": jax.grad(squares, argnums=(0, 1)),
        "step": lambda state, force: _advance(robot, state, force),
        "gradient_of_step": jax.grad(_distance(robot, 1), argnums=1),
        "gradient_of_ten_steps": jax.grad(_distance(robot, 10), argnums=1),
    }


def _of_robot(name: str, row: str) -> _Row:
    """The function of a row for a batch, its arguments, and options of XLA."""
    robot = _robot(name)
    states = jax.vmap(lambda key: artix.random_state(robot, key))(
        jax.random.split(jax.random.key(0), BATCH)
    )
    forces = jnp.zeros((BATCH, robot.topology.nv), robot.dtype)
    return jax.vmap(functions(robot)[row]), jax.block_until_ready((states, forces)), None


def _start_of_ppo() -> _Row:
    from artix.examples import actor_critic, ppo

    environment, config = artix.envs.make(_TASK), ppo.Config(num_envs=BATCH)
    return lambda: ppo.start(environment, config, 1), (), actor_critic.options_of_one_run()


def _iteration_of_ppo() -> _Row:
    from artix.examples import ppo

    environment, config = artix.envs.make(_TASK), ppo.Config(num_envs=BATCH)
    training = ppo.started(environment, config, 1)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("devices",))
    return ppo.on_mesh(mesh, environment, config), ppo.placed(mesh, training), None


TRAINING = {"start_of_ppo": _start_of_ppo, "iteration_of_ppo": _iteration_of_ppo}
"""Rows that do not depend on the robot."""


def measure(name: str, row: str) -> dict[str, float]:
    """The seconds of one row, and the peak memory [MB]."""
    function, arguments, options = TRAINING[row]() if row in TRAINING else _of_robot(name, row)
    times = [time.process_time()]
    traced = jax.jit(function).trace(*arguments)
    times.append(time.process_time())
    lowered = traced.lower()
    times.append(time.process_time())
    compiled = lowered.compile(compiler_options=options)
    times.append(time.process_time())
    jax.block_until_ready(compiled(*arguments))
    times.append(time.process_time())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "trace": times[1] - times[0],
        "kernels": times[2] - times[1],
        "XLA": times[3] - times[2],
        "the call": times[4] - times[3],
        "all": times[4] - times[0],
        "memory [MB]": memory,
    }


def main() -> None:
    """Prints the table, or the numbers of one row in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", help="rows of the table; by default all")
    parser.add_argument("--robot", default="quadruped", help="a robot of artix, or a file")
    parser.add_argument("--measure", action="store_true", help="measure the row in this process")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.robot, options.rows[0])))
        return
    print(f"CPU seconds, {options.robot}, batch {BATCH}, load {os.getloadavg()[0]:.1f}")
    rows = options.rows or list(functions(_robot(options.robot)))
    for number, row in enumerate(rows):
        with tempfile.TemporaryDirectory() as cache:
            numbers, again = (_measured(options.robot, row, cache) for _ in range(2))
        numbers["second process"] = again["all"]
        if not number:
            print("|", " | ".join(["", *numbers]), "|\n|---|" + "---:|" * len(numbers))
        print(
            "|",
            " | ".join([row, *(f"{x:.2f}" if x < 100 else f"{x:.0f}" for x in numbers.values())]),
            "|",
            flush=True,
        )


def _measured(robot: str, row: str, cache: str) -> dict[str, float]:
    """The numbers of a row, from a process whose kernels are in the folder ``cache``."""
    command = [sys.executable, "-m", "benchmarks.first_calls", "--measure", "--robot", robot, row]
    environment = os.environ | {"ARTIX_CACHE": cache, "JAX_PLATFORMS": "cpu"}
    output = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout
    return json.loads(output.splitlines()[-1])


if __name__ == "__main__":
    main()
