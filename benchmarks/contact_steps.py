"""Steps on level ground beside MuJoCo's, in C and in JAX: ``python -m benchmarks.contact_steps``.

A quadruped on four spheres and a humanoid on two boxes, eight contacts, as their tasks have them:
drives, dry friction, joint limits, steps of 4 ms. MuJoCo takes one Newton iteration (Playground's
setting) on the same model: in C through ``mujoco.rollout`` with a thread for each core, in double
precision, the only one that it has. artix begins with the contacts of the step before, and takes
what the tasks ask for. Rows take turns, so that other load on the machine affects all of them
alike. Take ratios.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import envs
from benchmarks.environments import best_times, mujoco_model


def rows_of(task: str, batch: int) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """What is measured of a task's robot: compiled functions of a batch, and their arguments."""
    from mujoco import mjx

    environment = envs.make(task)
    robot = environment.articulation
    scene = artix.Scene(robot, ground=environment.ground)
    dt, options = environment.physics_dt, environment.solver_options
    control = artix.Control(drive_target=jnp.zeros(robot.topology.num_dofs, robot.dtype))
    start = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(0), batch))
    state, memory = start.articulation_state, start.info["contact_memory"]
    model = mjx.put_model(mujoco_model(environment))
    data = mjx.make_data(model)
    data = data.replace(qpos=data.qpos.at[2].set(state.root_pose[0, 2]))

    def pushed(key: jax.Array) -> Any:
        return data.replace(qvel=0.1 * jax.random.normal(key, data.qvel.shape))

    def on_ground(state: artix.State, memory: Any) -> Any:
        return artix.step(scene, state.replace(contact_memory=memory), control, dt, options)

    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "artix": (on_ground, (state, memory)),
        "artix, no ground": (
            lambda state: artix.step(robot, state, control, dt, options),
            (state,),
        ),
        "MJX": (
            lambda data: mjx.step(model, data),
            (jax.vmap(pushed)(jax.random.split(jax.random.key(1), batch)),),
        ),
    }
    rows = {
        name: (jax.jit(jax.vmap(function)), arguments)
        for name, (function, arguments) in functions.items()
    }
    return rows | {
        "MuJoCo C": (mujoco_step(environment), (mujoco_states(environment, state, batch),))
    }


def mujoco_states(environment: Any, state: artix.State, batch: int) -> np.ndarray:
    """The states from which MJX starts, as MuJoCo packs them."""
    import mujoco

    model = mujoco_model(environment)
    data, rng = mujoco.MjData(model), np.random.default_rng(1)
    packed = np.empty((batch, mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    data.qpos[2] = state.root_pose[0, 2]
    for row in packed:
        data.qvel[:] = 0.1 * rng.standard_normal(model.nv)
        mujoco.mj_getState(model, data, row, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    return packed


def mujoco_step(environment: Any) -> Callable[[np.ndarray], np.ndarray]:
    """A function that steps packed states on all cores."""
    import mujoco
    from mujoco import rollout

    model = mujoco_model(environment)
    data = [mujoco.MjData(model) for _ in range(os.cpu_count() or 1)]
    return lambda states: rollout.rollout(model, data, states, nstep=1, persistent_pool=True)[0]


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=["quadruped_velocity", "humanoid_stand"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument(
        "--without",
        nargs="+",
        default=[],
        help="rows to leave out, such as MJX, which takes minutes",
    )
    options = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, JAX {jax.__version__}, load "
        f"{os.getloadavg()[0]:.1f}"
    )
    print("| task | batch | | us a step of one robot | first call [s] |\n|---|---|---|---|---|")
    for task in options.tasks:
        for batch in options.batches:
            rows = {
                name: row
                for name, row in rows_of(task, batch).items()
                if name not in options.without
            }
            for name, (first, least) in best_times(rows, seconds=4.0).items():
                print(
                    f"| {task} | {batch:,} | {name} | {1e6 * least / batch:.3f} | {first:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
