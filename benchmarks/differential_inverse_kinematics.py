"""Differential inverse kinematics of the seven-axis arm at 1 kHz beside mink and pink: time, error,
joint motion.

Usage: ``python -m benchmarks.differential_inverse_kinematics PEERS_PYTHON``, where PEERS_PYTHON is
the Python of an environment with ``pip install "mink[daqp]" pin-pink daqp``. The tool follows a
square of 0.2 m at 0.25 m/s, with the same tasks, costs, gains, damping and limits of position and
speed in all three: once with speeds that suffice, and once with speeds that do not. mink and pink
call DAQP.
"""

import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
URDF = ROOT / "artix" / "robots" / "arm7.urdf"
BENT = np.array([0.0, 0.5, 0.0, 1.4, 0.0, 1.0, 0.0])
DT, SIDE, SPEED, DAMPING = 1e-3, 0.2, 0.25, 1e-6
SPEED_LIMITS = (1.5, 0.6)
COSTS = {"position_cost": 1.0, "orientation_cost": 0.5}
POSTURE_COST = 1e-3


def square() -> np.ndarray:
    """Offsets of the tool along y and z [m], [T, 3]."""
    corners = SIDE * np.array([[0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]]) - [
        0,
        SIDE / 2,
        SIDE / 2,
    ]
    count = round(SIDE / SPEED / DT)
    share = np.arange(count)[:, None] / count
    return np.concatenate(
        [a + share * (b - a) for a, b in itertools.pairwise(corners)] + [corners[-1:]]
    )


def ours(path: Path, limit: float) -> None:
    """Writes the path of the tool, and prints the results of artix."""
    import jax
    import jax.numpy as jnp

    import artix
    from artix import inverse_kinematics

    jax.config.update("jax_enable_x64", True)
    arm = artix.robots.load("arm7").astype("float64")
    state = artix.neutral_state(arm).replace(joint_position=jnp.asarray(BENT))
    home = artix.frame_pose(arm, state, "tool")
    targets = np.asarray(home) + np.pad(square(), ((0, 0), (0, 4)))
    seed = jax.tree.map(lambda leaf: leaf[None], state)
    corner = inverse_kinematics.FrameTask("tool", jnp.asarray(targets[0]))
    start = jax.jit(lambda: inverse_kinematics.solve(arm, [corner], seed).state)()
    np.savez(path, targets=targets, start=start.joint_position)

    def tick(articulation, state, target):
        tasks = [
            inverse_kinematics.FrameTask("tool", target, **COSTS),
            inverse_kinematics.PostureTask(start.joint_position, cost=POSTURE_COST),
        ]
        options = {"max_velocity": limit, "damping": DAMPING}
        return inverse_kinematics.solve_velocity(articulation, state, tasks, DT, **options)

    one = jax.jit(lambda state, target: tick(arm, state, target).state)
    many = jax.jit(jax.vmap(lambda state, target: tick(arm, state, target).state))
    jax.block_until_ready(one(start, jnp.asarray(targets[0])))
    state, positions, times = start, [], []
    for target in targets:
        begin = time.perf_counter(), time.process_time()
        state = one(state, jnp.asarray(target))
        positions.append(np.asarray(state.joint_position))
        times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    show("artix", positions, times, targets)
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * 1024), start)
    goals, times = jnp.asarray(targets[np.linspace(0, len(targets) - 1, 1024).astype(int)]), []
    for _ in range(20):
        begin = time.perf_counter()
        jax.block_until_ready(many(states, goals))
        times.append(time.perf_counter() - begin)
    print(f"artix, 1,024 robots in one call: {min(times) / 1024 * 1e6:.2f} us a robot", flush=True)


def theirs(name: str, path: Path, limit: float) -> None:
    """Prints the results of one of the peers."""
    given = np.load(path)
    tick = {"mink": mink_tick, "pink": pink_tick}[name](given["start"], limit)
    positions, times = [], []
    for target in given["targets"]:
        begin = time.perf_counter(), time.process_time()
        positions.append(tick(target))
        times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    show(name, positions, times, given["targets"])


def mink_tick(start: np.ndarray, limit: float):
    """A function of the target that takes a tick with mink and returns the joint positions."""
    import mink
    import mujoco

    spec = mujoco.MjSpec.from_file(str(URDF))
    spec.compiler.fusestatic = False
    model = spec.compile()
    configuration = mink.Configuration(model, start.copy())
    frame, posture = (
        mink.FrameTask("tool", "body", **COSTS),
        mink.PostureTask(model, cost=POSTURE_COST),
    )
    posture.set_target(start.copy())
    speeds = {model.joint(k).name: limit for k in range(model.njnt)}
    limits = [mink.ConfigurationLimit(model, gain=0.5), mink.VelocityLimit(model, speeds)]

    def tick(target: np.ndarray) -> np.ndarray:
        rotation = mink.SO3(np.r_[target[6], target[3:6]])
        frame.set_target(mink.SE3.from_rotation_and_translation(rotation, target[:3]))
        velocity = mink.solve_ik(
            configuration, [frame, posture], DT, "daqp", damping=DAMPING, limits=limits
        )
        configuration.integrate_inplace(velocity, DT)
        return configuration.q.copy()

    return tick


def pink_tick(start: np.ndarray, limit: float):
    """The same with pink."""
    import pink
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(URDF))
    model.velocityLimit[:] = limit
    configuration = pink.Configuration(model, model.createData(), start)
    frame, posture = (
        pink.tasks.FrameTask("tool", **COSTS),
        pink.tasks.PostureTask(cost=POSTURE_COST),
    )
    posture.set_target(start)
    limits = [pink.limits.ConfigurationLimit(model), pink.limits.VelocityLimit(model)]

    def tick(target: np.ndarray) -> np.ndarray:
        frame.set_target(pin.XYZQUATToSE3(target))
        velocity = pink.solve_ik(
            configuration, [frame, posture], DT, "daqp", damping=DAMPING, limits=limits
        )
        configuration.integrate_inplace(velocity, DT)
        return configuration.q.copy()

    return tick


def show(name: str, positions: list, times: list, targets: np.ndarray) -> None:
    """Prints a row; the tool's position is that of Pinocchio or, without it, of artix."""
    q, (wall, cpu) = np.array(positions), np.median(times, axis=0)
    error = np.linalg.norm(tool_of(q) - targets[:, :3], axis=1)
    steps = np.diff(q, axis=0)
    print(
        f"{name:<6} {1e6 * wall:5.0f} us a tick (99 %: "
        f"{1e6 * np.percentile(times, 99, axis=0)[0]:.0f}), CPU {1e6 * cpu:.0f}; error rms "
        f"{1e3 * np.sqrt(np.mean(error**2)):.3f}, max {1e3 * error.max():.3f} mm; joints move "
        f"{np.abs(steps).sum():.3f} rad, at most {np.abs(steps).max() / DT:.2f} rad/s, return "
        f"within {1e3 * np.abs(q[-1] - q[0]).max():.2f} mrad",
        flush=True,
    )


def tool_of(q: np.ndarray) -> np.ndarray:
    """Positions of the tool [m], by the library that is there."""
    try:
        import pinocchio as pin
    except ImportError:
        import artix

        arm = artix.robots.load("arm7").astype("float64")
        states = [artix.neutral_state(arm).replace(joint_position=each) for each in q]
        return np.array([artix.frame_pose(arm, state, "tool")[:3] for state in states])
    model = pin.buildModelFromUrdf(str(URDF))
    data, found = model.createData(), []
    for each in q:
        pin.framesForwardKinematics(model, data, each)
        found.append(data.oMf[model.getFrameId("tool")].translation.copy())
    return np.array(found)


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "path.npz"
        for limit in SPEED_LIMITS:
            print(f"at most {limit} rad/s:")
            ours(path, limit)
            for name in ("mink", "pink"):
                subprocess.run([python, __file__, name, str(path), str(limit)], check=True)


if __name__ == "__main__":
    theirs(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])) if len(sys.argv) > 2 else main(
        sys.argv[1]
    )
