"""One tick of model-predictive control of a single robot by the clock, beside one iteration of
Crocoddyl.

Usage: ``python -m benchmarks.ticks CROCODDYL_PYTHON [ROBOT]``, where CROCODDYL_PYTHON is the Python
of an environment with Crocoddyl (``pip install crocoddyl==3.2.1 pin==4.0.0``), and ROBOT is
``arm7``, the built-in arm with seven joints, or ``panda`` of example-robot-data, which has two
fingers as well. Both take one iteration of FDDP over 20 knots, and arrive at the same cost. They
are measured alternately. The last row is ``artix.examples.trot.replan``: the quadruped, 25 knots
with a contact schedule. On a busy machine, run it with the priority that a robot's controller has:
``chrt -f 10 python -m benchmarks.ticks CROCODDYL_PYTHON``.
"""

import functools
import subprocess
import sys
import sysconfig
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

KNOTS, DT, ROUNDS, REPETITIONS = 20, 0.02, 5, 200
TARGET = np.array([0.45, 0.2, 0.5])
#: Weights of the distance from the target, of joint velocities and of torques; of the first two at
#: the end.
WEIGHTS, FINAL = (900.0, 0.01, 4e-4), (3600.0, 0.09)


class Arm(NamedTuple):
    """A robot on a fixed base: its file, the frame of its tool, and where its joints start."""

    urdf: Path
    tool: str
    start: np.ndarray


def arm(name: str) -> Arm:
    """A robot by name."""
    if name == "arm7":
        urdf = Path(__file__).parents[1] / "artix" / "robots" / "arm7.urdf"
        return Arm(urdf, "tool", np.array([0.0, -0.1, 0.0, 1.9, 0.0, 0.8, 0.0]))
    folder = Path(sysconfig.get_paths()["purelib"]) / "cmeel.prefix/share/example-robot-data/robots"
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.7, 0.02, 0.02])
    return Arm(folder / "panda_description/urdf/panda.urdf", "panda_hand_tcp", start)


def ours(one: Arm, dtype: str) -> tuple[Any, tuple[Any, ...]]:
    """A compiled tick, and its arguments: a state, a target and the previous plan."""
    import jax
    import jax.numpy as jnp

    import artix
    from artix import optimal_control

    def residual(knot: optimal_control.Knot, weights: tuple[float, ...]) -> jax.Array:
        missed = optimal_control.frame_position(
            knot.articulation, knot.state, one.tool, knot.parameters
        )
        parts = [
            missed,
            knot.state.joint_velocity,
            *([] if knot.control is None else [knot.control]),
        ]
        return jnp.concatenate(
            [weight**0.5 * part for weight, part in zip(weights, parts, strict=True)]
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of attributes of the file that have no meaning
        robot = artix.load(one.urdf, fixed_base=True).astype(dtype)
    dynamics = optimal_control.discrete_dynamics(robot, DT)
    start = jnp.asarray([*one.start, *np.zeros_like(one.start)], dtype)
    hold = artix.gravity_compensation(robot, dynamics.unpack(start))

    def running(knot: optimal_control.Knot) -> jax.Array:
        return residual(knot, WEIGHTS)

    def final(knot: optimal_control.Knot) -> jax.Array:
        return residual(knot, FINAL)

    target = jnp.asarray(TARGET, dtype)
    problem = optimal_control.Problem(dynamics, start, running, final, parameters=target)

    @jax.jit
    def tick(start: jax.Array, target: jax.Array, states: jax.Array, controls: jax.Array) -> Any:
        moved = problem.replace(start=start, parameters=target)
        options: Any = {"iterations": 1, "damping": 1e-9}
        return optimal_control.solve(moved, controls, states, **options)

    return tick, (
        start,
        problem.parameters,
        jnp.tile(start, (KNOTS + 1, 1)),
        jnp.tile(hold, (KNOTS, 1)),
    )


def trot_tick() -> tuple[Any, tuple[Any, ...]]:
    """A compiled tick of the quadruped in single precision, and its arguments."""
    import jax
    import jax.numpy as jnp

    import artix
    from artix.examples import trot

    robot, gait = artix.robots.load("quadruped"), trot.Gait()
    plan = jax.jit(lambda: trot.first_plan(robot, gait))()
    tick = jax.jit(lambda plan, x, moment: trot.replan(robot, gait, plan, x, moment))
    return tick, (plan, plan.states[1], jnp.asarray(0.02, robot.dtype))


def theirs(one: Arm) -> tuple[Any, tuple[Any, ...]]:
    """Crocoddyl's solver and its guess."""
    import crocoddyl
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(one.urdf))
    state = crocoddyl.StateMultibody(model)
    motors, tool = crocoddyl.ActuationModelFull(state), model.getFrameId(one.tool)

    def knot(weights: tuple[float, ...]) -> Any:
        costs = crocoddyl.CostModelSum(state)
        missed = crocoddyl.ResidualModelFrameTranslation(state, tool, TARGET)
        speeds = crocoddyl.ActivationModelWeightedQuad(np.repeat([0.0, 1.0], model.nv))
        costs.addCost("target", crocoddyl.CostModelResidual(state, missed), weights[0])
        speed = crocoddyl.ResidualModelState(state)
        costs.addCost("speed", crocoddyl.CostModelResidual(state, speeds, speed), weights[1])
        if len(weights) > 2:
            effort = crocoddyl.ResidualModelControl(state)
            costs.addCost("effort", crocoddyl.CostModelResidual(state, effort), weights[2])
        continuous = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, motors, costs)
        # Costs of knots count times the step; that of the end, whose step is zero, as it is.
        return crocoddyl.IntegratedActionModelEuler(continuous, DT if len(weights) > 2 else 0.0)

    start = np.concatenate([one.start, np.zeros(model.nv)])
    scaled = tuple(weight / DT for weight in WEIGHTS)
    shooting = crocoddyl.ShootingProblem(start, [knot(scaled) for _ in range(KNOTS)], knot(FINAL))
    hold = pin.computeGeneralizedGravity(model, model.createData(), one.start)
    return crocoddyl.SolverFDDP(shooting), ([start] * (KNOTS + 1), [hold] * KNOTS, 1, False, 1e-9)


def measured(call: Any) -> np.ndarray:
    """Wall and processor time of each repetition, [repetitions, 2] [ms]."""
    times = []
    for _ in range(REPETITIONS):
        begin = time.perf_counter(), time.process_time()
        call()
        times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    return 1e3 * np.array(times)


def measure_theirs(name: str) -> None:
    """Prints the cost after an iteration, quantiles of wall times and the median CPU time [ms]."""
    solver, guess = theirs(arm(name))
    times = measured(lambda: solver.solve(*guess))
    print(solver.cost, *np.quantile(times[:, 0], [0.5, 0.95]), np.median(times[:, 1]))


def main(python: str, name: str = "arm7") -> None:
    """Prints times of both."""
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    jax.config.update("jax_enable_x64", True)

    def repeat(tick: Any, *arguments: Any) -> None:
        jax.block_until_ready(tick(*arguments))

    rows: dict[str, list[list[float]]] = {
        "artix, float32": [],
        "artix, float64": [],
        "Crocoddyl, float64": [],
        "artix, float32, trot of the quadruped": [],
    }
    compiled = {each: ours(arm(name), each.split()[1]) for each in list(rows)[:2]}
    compiled[list(rows)[3]] = trot_tick()
    for _ in range(ROUNDS):
        for each, (tick, arguments) in compiled.items():
            cost = float(getattr(jax.block_until_ready(tick(*arguments)), "cost", np.nan))
            times = measured(functools.partial(repeat, tick, *arguments))
            quantiles = np.quantile(times[:, 0], [0.5, 0.95])
            rows[each].append([cost, *quantiles, np.median(times[:, 1])])
        command = [python, __file__, "--theirs", name]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows["Crocoddyl, float64"].append([float(each) for each in output.split()])
    print(f"one iteration, {name}, 20 knots [ms] | cost | median | 95 % | median CPU time")
    for each, runs in rows.items():
        cost, *times = np.median(runs, axis=0)
        print(f"{each} | {cost:.9g} | " + " | ".join(f"{time:.3f}" for time in times))


if __name__ == "__main__":
    measure_theirs(sys.argv[2]) if sys.argv[1] == "--theirs" else main(*sys.argv[1:])
