"""One iteration of iLQR of a trotting quadruped over 50 knots, beside Crocoddyl's, in one run.

Usage: ``python -m benchmarks.trot CROCODDYL_PYTHON``, where CROCODDYL_PYTHON is the Python of an
environment with Crocoddyl. The problem comes from ``tests/optimal_control/record_crocoddyl.py``.
The two are measured alternately. Crocoddyl iterates one robot on one core, so two Crocoddyl
processes run at once to use two cores, as artix does.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import optimal_control
from tests.optimal_control.test_solvers import recorded_trot

ROOT = Path(__file__).parents[1]
KNOTS, ROBOTS, ROUNDS = 50, 16, 5


def iteration():
    """A compiled iteration of 16 robots in float32 from different starts, and its arguments."""
    problem = recorded_trot()[0]
    problem = jax.tree.map(
        lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, problem
    )
    rows = np.array([0] * 10 + [15] * 10)[np.arange(KNOTS + 1) % 20]
    references = jax.tree.map(lambda x: x[rows], problem.references)
    schedule = problem.dynamics.contact_schedule
    schedule = schedule.replace(active=schedule.active[rows[:-1]])
    problem = problem.replace(
        dynamics=problem.dynamics.replace(contact_schedule=schedule), references=references
    )
    robot = problem.dynamics.articulation
    hold = artix.gravity_compensation(robot, problem.parameters["nominal"])[6:]
    starts = problem.start + 0.02 * jax.random.normal(jax.random.key(0), (ROBOTS, 37)) * (
        jnp.arange(37) > 18
    )
    controls = jnp.tile(hold, (ROBOTS, KNOTS, 1))
    states = jnp.repeat(starts[:, None], KNOTS + 1, axis=1)

    def one(start, controls, states):
        return optimal_control.solve(problem.replace(start=start), controls, states, iterations=1)

    arguments = starts.astype(jnp.float32), controls.astype(jnp.float32), states.astype(jnp.float32)
    return jax.jit(jax.vmap(one)).lower(*arguments).compile(), arguments


def main(python: str) -> None:
    compiled, arguments = iteration()
    command = [python, str(ROOT / "tests/optimal_control/record_crocoddyl.py"), "--measure"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ours, theirs = [], []
    for _ in range(ROUNDS):
        for _ in range(20):
            begin = time.perf_counter(), time.process_time()
            found = jax.block_until_ready(compiled(*arguments))
            ours.append(
                (1e3 * (time.perf_counter() - begin[0]), 1e3 * (time.process_time() - begin[1]))
            )
        both = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            for _ in range(2)
        ]
        theirs += [[float(x) for x in each.communicate()[0].split()] for each in both]
    assert np.all(np.isfinite(found.cost))
    print(f"{ROBOTS} robots, {KNOTS} knots, one iteration, least of all repetitions [ms]")
    wall, cpu = np.min(ours, axis=0)
    their_wall, their_cpu = np.min(theirs, axis=0) * [ROBOTS / 2, ROBOTS]
    print(
        f"wall time on two cores: artix {wall:.1f}, Crocoddyl {their_wall:.1f}, "
        f"{their_wall / wall:.1f} times"
    )
    print(
        f"CPU time of all cores:  artix {cpu:.1f}, Crocoddyl {their_cpu:.1f}, "
        f"{their_cpu / cpu:.1f} times"
    )


if __name__ == "__main__":
    main(sys.argv[1])
