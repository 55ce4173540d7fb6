"""Identifies link masses by gradient descent on several hosts, with checkpoints to restart from.

Every host runs the same command, which names the first host's address and the host's own number::

    python -m artix.examples.many_hosts --coordinator host0:1234 --num-hosts 4 --host 0
    --checkpoints /shared/masses

Under SLURM, JAX finds the three options by itself; pass ``--slurm`` instead. With none of them, the
devices of this host are used. ``--checkpoints`` is a folder that all hosts see. Every ten
iterations they save their progress there, including the robots' states as they lie on the devices.
If a host dies, JAX stops the others; the same command then continues all of them from the last
checkpoint and finds the same masses.

The robots swing under random torques and measure their accelerations. None of that leaves its host:
hosts only exchange the sum of the gradients, one number for each link.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import artix

Array = jax.Array
DT = 0.01


class Progress(NamedTuple):
    """What a checkpoint holds."""

    log_scale: Array
    """Logarithms of the ratios of estimated to guessed masses, the same on all devices, [L]."""
    optimizer: optax.OptState
    states: artix.State
    """The states of the N robots, divided among the devices."""
    iteration: Array


def train(
    robot: artix.Articulation, mesh: Mesh, folder: Path | None, *, num_robots: int, iterations: int
) -> Array:
    """Identifies the masses of a robot's links from a guess that is wrong by half.

    Args:
      robot: the robot with its true masses, which only the measurements use.
      mesh: a mesh with one axis, whose number of devices divides ``num_robots``.
      folder: where all hosts keep checkpoints; ``None`` for no checkpoints.
      num_robots: number N of robots on all devices together.
      iterations: total number of gradient steps, including those before a restart.

    Returns:
      The estimated masses [kg], [L].
    """
    split = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
    everywhere = NamedSharding(mesh, PartitionSpec())
    optimizer = optax.adam(0.03)
    start = jax.jit(functools.partial(_start, robot, optimizer, num_robots))
    sharding = jax.tree.map(lambda _: everywhere, jax.eval_shape(start))
    sharding = sharding._replace(states=jax.tree.map(lambda _: split, sharding.states))
    progress = jax.jit(start, out_shardings=sharding)()
    advancing = functools.partial(_advance, robot, optimizer)
    advance = jax.jit(advancing, out_shardings=(sharding, everywhere), donate_argnums=0)

    checkpoints = (
        None if folder is None else ocp.CheckpointManager(folder.absolute(), options=_CHECKPOINTS)
    )
    if checkpoints is not None and checkpoints.latest_step() is not None:
        progress = checkpoints.restore(
            checkpoints.latest_step(), args=ocp.args.StandardRestore(progress)
        )
        _say(f"continued after iteration {int(progress.iteration)}")
    while int(progress.iteration) < iterations:
        progress, error = advance(progress)
        done = int(progress.iteration)
        if checkpoints is not None:
            checkpoints.save(done, args=ocp.args.StandardSave(progress))
        if done % 20 == 0:
            _say(f"iteration {done:4d}: error of accelerations {float(error):.2e}")
    if checkpoints is not None:
        checkpoints.close()
    return _masses(robot, progress.log_scale)


_CHECKPOINTS = ocp.CheckpointManagerOptions(save_interval_steps=10, max_to_keep=2)


def _start(
    robot: artix.Articulation, optimizer: optax.GradientTransformation, num_robots: int
) -> Progress:
    states = jax.vmap(lambda key: artix.random_state(robot, key))(
        jax.random.split(jax.random.key(0), num_robots)
    )
    log_scale = jnp.zeros_like(robot.link_mass)
    return Progress(log_scale, optimizer.init(log_scale), states, jnp.zeros((), jnp.int32))


def _advance(
    robot: artix.Articulation, optimizer: optax.GradientTransformation, progress: Progress
) -> tuple[Progress, Array]:
    """One gradient step on what all robots measure now, then one step of all robots."""
    key = jax.random.fold_in(jax.random.key(1), progress.iteration)
    force = 0.5 * jax.random.normal(key, progress.states.joint_velocity.shape, robot.dtype)

    def error(log_scale: Array) -> Array:
        guess = robot.replace(link_mass=_masses(robot, log_scale))

        def of_one(state: artix.State, tau: Array) -> Array:
            measured = artix.forward_dynamics(robot, state, tau)
            return jnp.mean(
                (artix.forward_dynamics(guess, state, tau) - measured) ** 2 / (1 + measured**2)
            )

        return jnp.mean(jax.vmap(of_one)(progress.states, force))

    value, gradient = jax.value_and_grad(error)(progress.log_scale)
    update, memory = optimizer.update(gradient, progress.optimizer)
    control = artix.Control(joint_force=force)
    states = jax.vmap(lambda state, one: artix.step(robot, state, one, DT))(
        progress.states, control
    )
    return Progress(progress.log_scale + update, memory, states, progress.iteration + 1), value


def _masses(robot: artix.Articulation, log_scale: Array) -> Array:
    """The masses; the guess is half as heavy again as the truth."""
    return 1.5 * robot.link_mass * jnp.exp(log_scale)


def _say(text: str) -> None:
    if jax.process_index() == 0:
        print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--coordinator", help="address and port of the first host")
    parser.add_argument("--num-hosts", type=int, default=1)
    parser.add_argument("--host", type=int, default=0, help="which one this is, from 0")
    parser.add_argument("--slurm", action="store_true", help="let JAX find the three above")
    parser.add_argument("--checkpoints", type=Path, help="a folder that all hosts see")
    parser.add_argument("--robots", type=int, default=4096)
    parser.add_argument("--iterations", type=int, default=200)
    options = parser.parse_args(arguments)
    if options.coordinator or options.slurm:
        # For hosts without accelerators
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if options.slurm:
        jax.distributed.initialize()
    elif options.coordinator:
        jax.distributed.initialize(options.coordinator, options.num_hosts, options.host)
    if options.robots % jax.device_count():
        parser.error(
            f"--robots {options.robots} must be a multiple of the {jax.device_count()} devices"
        )
    robot = artix.robots.load("double_pendulum")
    mesh = Mesh(np.array(jax.devices()), ("robots",))
    masses = train(
        robot, mesh, options.checkpoints, num_robots=options.robots, iterations=options.iterations
    )
    _say(
        f"masses found {np.round(np.asarray(masses), 4)}, true "
        f"{np.round(np.asarray(robot.link_mass), 4)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
