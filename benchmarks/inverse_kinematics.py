"""Inverse kinematics of the seven-axis arm beside mink and pink: targets solved and time, in one
run.

Usage: ``python -m benchmarks.inverse_kinematics PEERS_PYTHON``, where PEERS_PYTHON is the Python of
an environment with ``pip install "mink[daqp]" pin-pink daqp``. All get the same targets, the same
random seeds within the limits, and the same tolerances of 1e-4 m and 1e-3 rad. The peers take
differential steps by a quadratic program with the joint limits, and try one seed after another
until they reach a target. PyRoki is not on PyPI.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
URDF = ROOT / "artix" / "robots" / "arm7.urdf"
TARGETS, SEEDS, ITERATIONS, TOLERANCE = 1000, 16, 40, (1e-4, 1e-3)


def ours(path: Path) -> None:
    """Writes targets and seeds, and prints the results of artix."""
    import jax

    import artix
    from artix import inverse_kinematics

    arm = artix.robots.load("arm7")
    random = jax.vmap(lambda key: artix.random_state(arm, key))
    targets = jax.jit(
        lambda keys: jax.vmap(lambda state: artix.frame_pose(arm, state, "tool"))(random(keys))
    )(jax.random.split(jax.random.key(0), TARGETS))
    seeds = random(jax.random.split(jax.random.key(1), SEEDS))
    np.savez(path, targets=targets, seeds=seeds.joint_position)

    def find(target):
        tasks = [inverse_kinematics.FrameTask("tool", target)]
        return inverse_kinematics.solve(arm, tasks, seeds, iterations=ITERATIONS)

    compiled, times = jax.jit(jax.vmap(find)).lower(targets).compile(), []
    for _ in range(20):
        begin = time.perf_counter(), time.process_time()
        found = jax.block_until_ready(compiled(targets))
        times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    show("artix", np.asarray(found.solved), *np.min(times, axis=0))


def theirs(name: str, path: Path) -> None:
    """Prints the results of one of the peers."""
    given = np.load(path)
    attempt = {"mink": mink_attempt, "pink": pink_attempt}[name]()
    begin, solved = (time.perf_counter(), time.process_time()), []
    for target in given["targets"].astype(float):
        solved.append(any(attempt(target, seed.astype(float)) for seed in given["seeds"]))
    show(name, np.array(solved), time.perf_counter() - begin[0], time.process_time() - begin[1])


def mink_attempt():
    """A function of target and seed that returns whether mink reaches the target from the seed."""
    import mink
    import mujoco

    spec = mujoco.MjSpec.from_file(str(URDF))
    spec.compiler.fusestatic = False
    model = spec.compile()
    configuration = mink.Configuration(model)
    task = mink.FrameTask("tool", "body", position_cost=1.0, orientation_cost=1.0)
    limits = [mink.ConfigurationLimit(model)]

    def attempt(target: np.ndarray, seed: np.ndarray) -> bool:
        rotation = mink.SO3(np.r_[target[6], target[3:6]])
        task.set_target(mink.SE3.from_rotation_and_translation(rotation, target[:3]))
        configuration.update(seed.copy())
        for _ in range(ITERATIONS):
            velocity = mink.solve_ik(
                configuration, [task], 1.0, "daqp", damping=1e-6, limits=limits
            )
            configuration.integrate_inplace(velocity, 1.0)
            if reached(task.compute_error(configuration)):
                return True
        return False

    return attempt


def pink_attempt():
    """The same for pink."""
    import pink
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(URDF))
    data = model.createData()
    task = pink.tasks.FrameTask("tool", position_cost=1.0, orientation_cost=1.0)
    limits = [pink.limits.ConfigurationLimit(model)]

    def attempt(target: np.ndarray, seed: np.ndarray) -> bool:
        task.set_target(pin.XYZQUATToSE3(target))
        configuration = pink.Configuration(
            model, data, np.clip(seed, model.lowerPositionLimit, model.upperPositionLimit)
        )
        for _ in range(ITERATIONS):
            velocity = pink.solve_ik(
                configuration, [task], 1.0, "daqp", damping=1e-6, limits=limits
            )
            configuration.integrate_inplace(velocity, 1.0)
            if reached(task.compute_error(configuration)):
                return True
        return False

    return attempt


def reached(error: np.ndarray) -> bool:
    """Whether the error of a task, position then rotation, is within the tolerances."""
    return bool(
        np.linalg.norm(error[:3]) <= TOLERANCE[0] and np.linalg.norm(error[3:]) <= TOLERANCE[1]
    )


def show(name: str, solved: np.ndarray, wall: float, cpu: float) -> None:
    """Prints a row."""
    print(
        f"{name:<6} {100 * np.mean(solved):5.1f} % of {len(solved)} solved, {wall:.3f} s, CPU "
        f"{cpu:.3f} s",
        flush=True,
    )


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "targets.npz"
        ours(path)
        for name in ("mink", "pink"):
            subprocess.run([python, __file__, name, str(path)], check=True)


if __name__ == "__main__":
    theirs(sys.argv[1], Path(sys.argv[2])) if len(sys.argv) > 2 else main(sys.argv[1])
