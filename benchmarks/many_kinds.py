"""Fleets of many topologies: first calls, later calls and memory, in a first and in a second
process.

    python -m benchmarks.many_kinds mechanisms 40
    python -m benchmarks.many_kinds legged 100

prints, for mass matrices and for a step (of legged robots on the ground), the seconds until the
first result of a fleet with a member of each kind, in a process without and in one with the kernels
on disk; the seconds after one member was replaced by a robot of a new kind; the time of a call for
40 members of each kind; and the memory of the process.
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
from typing import Any

import jax
import numpy as np

import artix

#: Members of each kind in the measured calls.
MEMBERS = 40
COLUMNS = (
    ("first call [s]", "first"),
    ("its processor time [s]", "first_cpu"),
    ("a new kind [s]", "new_kind"),
    ("its processor time [s]", "new_kind_cpu"),
    ("a call [us per robot]", "call"),
    ("peak memory [MB]", "memory"),
)


def legged_robot(number: int) -> artix.Articulation:
    """A robot of 4 to 8 legs of 2 to 4 joints each, its sizes and masses at random, with a sphere
    at each foot."""
    rng = np.random.default_rng(number)
    legs = 4 + number % 5
    builder = artix.ArticulationBuilder(fixed_base=False, name=f"legged_{number}")
    length, width = rng.uniform(0.5, 0.9), rng.uniform(0.2, 0.4)
    trunk = builder.add_link(
        mass=rng.uniform(5, 15), inertia=rng.uniform(0.1, 0.4, 3) + 0.2, name="trunk"
    )
    for leg in range(legs):
        angle = 2 * np.pi * (leg + 0.5) / legs
        above, place, joints = (
            trunk,
            (length * np.cos(angle), width * np.sin(angle), 0.0),
            int(rng.integers(2, 5)),
        )
        for joint in range(joints):
            reach, name = rng.uniform(0.15, 0.3), f"leg_{leg}_{joint}"
            hinge = artix.Joint.revolute(
                artix.Axis.TWIST if joint == 0 and joints > 2 else artix.Axis.SWING1,
                name=f"{name}_joint",
                parent_pose=(*place, 0, 0, 0, 1),
                drive=artix.Drive(stiffness=60.0, damping=2.0, target=rng.uniform(-0.3, 0.3)),
                limits=[(-1.5, 1.5)],
                armature=0.01,
            )
            above = builder.add_link(
                above,
                hinge,
                mass=rng.uniform(0.3, 1.0),
                com_pose=(0, 0, -reach / 2, 0, 0, 0, 1),
                inertia=(0.004, 0.004, 0.001),
                name=name,
            )
            place = (0.0, 0.0, -reach)
        builder.add_geometry(above, artix.Geometry.sphere(0.03, position=place), f"foot_{leg}")
    return builder.build("float32")


def members_of(name: str, count: int) -> list[artix.Articulation]:
    """Robots of as many topologies: the 40 mechanisms recorded from PhysX, or legged robots."""
    if name == "legged":
        return [legged_robot(number) for number in range(count)]
    from tests.support import physx_mechanisms

    return [physx_mechanisms.build(one).astype("float32") for one in physx_mechanisms.NAMES[:count]]


def function_of(name: str, quantity: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function of a member and its state, with its further arguments."""
    if quantity == "mass matrix":
        return artix.mass_matrix, ()
    if name != "legged":
        return artix.step, (None, 0.005)
    ground = artix.Ground.flat()
    return lambda robot, *arguments: artix.step(artix.Scene(robot, ground=ground), *arguments), (
        None,
        0.005,
    )


def measured(name: str, count: int, quantity: str) -> dict[str, float]:
    """What this process needs, by the keys of ``COLUMNS``."""
    members = members_of(name, count + 1)
    members, new = members[:count], members[-1]
    function, arguments = function_of(name, quantity)
    fleet = artix.Fleet(members)
    state = jax.block_until_ready(fleet.neutral_state())
    found: dict[str, float] = {}
    start, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(fleet.evaluate(function, state, *arguments))
    found["first"], found["first_cpu"] = time.perf_counter() - start, time.process_time() - cpu
    if name == "legged":  # One of the same sizes as another, so that the shapes of the arrays stay.
        start, cpu = time.perf_counter(), time.process_time()
        other = fleet.replace_member(0, new)
        jax.block_until_ready(other.evaluate(function, other.neutral_state(), *arguments))
        found["new_kind"], found["new_kind_cpu"] = (
            time.perf_counter() - start,
            time.process_time() - cpu,
        )
    many = artix.Fleet(members * MEMBERS)
    states = many.random_state(jax.random.key(0))
    times = []
    for _ in range(20):
        start = time.perf_counter()
        jax.block_until_ready(many.evaluate(function, states, *arguments))
        times.append(time.perf_counter() - start)
    found["call"] = 1e6 * min(times[1:]) / len(many)
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def main() -> None:
    """Measures in two processes of each quantity, one after the other, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=("mechanisms", "legged"))
    parser.add_argument("count", type=int)
    parser.add_argument("--quantity", choices=("mass matrix", "step"))
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measured(options.name, options.count, options.quantity)))
        return
    print("| | process |", " | ".join(title for title, _ in COLUMNS), "|")
    for quantity in ("mass matrix", "step") if options.quantity is None else (options.quantity,):
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                **os.environ,
                "JAX_COMPILATION_CACHE_DIR": folder,
                "JAX_PLATFORMS": "cpu",
            }
            command = [
                sys.executable,
                "-m",
                "benchmarks.many_kinds",
                options.name,
                str(options.count),
            ]
            for process in ("first", "second"):
                done = subprocess.run(
                    [*command, "--quantity", quantity, "--worker"],
                    env=environment,
                    check=True,
                    capture_output=True,
                    text=True,
                )
                found = json.loads(done.stdout.splitlines()[-1])
                numbers = (f"{found[key]:.3g}" if key in found else "" for _, key in COLUMNS)
                print(f"| {quantity} | {process} |", " | ".join(numbers), "|", flush=True)


if __name__ == "__main__":
    main()
