"""One tick of model-predictive control of a single arm by the clock, beside one iteration of Crocoddyl.

Usage: ``python -m benchmarks.ticks CROCODDYL_PYTHON``, where CROCODDYL_PYTHON is the Python of an
environment with Crocoddyl (``pip install crocoddyl==3.2.1 pin==4.0.0``). Both take one iteration of
FDDP over 20 knots of the built-in arm with seven joints, and arrive at the same cost. They are
measured alternately. On a busy machine, run it with the priority that a robot's controller has:
``chrt -f 10 python -m benchmarks.ticks CROCODDYL_PYTHON``.
"""

import functools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

URDF = Path(__file__).parents[1] / "artix" / "robots" / "arm7.urdf"
KNOTS, DT, ROUNDS, REPETITIONS = 20, 0.02, 5, 200
START = np.array([0.0, -0.1, 0.0, 1.9, 0.0, 0.8, 0.0])
TARGET = np.array([0.45, 0.2, 0.5])
#: Weights of the distance from the target, of joint velocities and of torques; of the first two at the end.
WEIGHTS, FINAL = (900.0, 0.01, 4e-4), (3600.0, 0.09)


def ours(dtype: str) -> tuple[Any, tuple[Any, ...]]:
    """A compiled tick, and its arguments: a state, a target and the previous plan."""
    import jax
    import jax.numpy as jnp

    import artix
    from artix import optimal_control

    def residual(knot: optimal_control.Knot, weights: tuple[float, ...]) -> jax.Array:
        missed = optimal_control.frame_position(knot.articulation, knot.state, "tool", knot.parameters)
        parts = [
            missed,
            knot.state.joint_velocity,
            *([] if knot.control is None else [knot.control]),
        ]
        return jnp.concatenate([weight**0.5 * part for weight, part in zip(weights, parts, strict=True)])

    robot = artix.robots.load("arm7", dtype=dtype)
    dynamics = optimal_control.discrete_dynamics(robot, DT)
    start = jnp.concatenate([jnp.asarray(START, dtype), jnp.zeros(7, dtype)])
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


def theirs() -> tuple[Any, tuple[Any, ...]]:
    """Crocoddyl's solver and its guess."""
    import crocoddyl
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(URDF))
    state = crocoddyl.StateMultibody(model)
    motors, tool = crocoddyl.ActuationModelFull(state), model.getFrameId("tool")

    def knot(weights: tuple[float, ...]) -> Any:
        costs = crocoddyl.CostModelSum(state)
        missed = crocoddyl.ResidualModelFrameTranslation(state, tool, TARGET)
        speeds = crocoddyl.ActivationModelWeightedQuad(np.repeat([0.0, 1.0], 7))
        costs.addCost("target", crocoddyl.CostModelResidual(state, missed), weights[0])
        speed = crocoddyl.ResidualModelState(state)
        costs.addCost("speed", crocoddyl.CostModelResidual(state, speeds, speed), weights[1])
        if len(weights) > 2:
            effort = crocoddyl.ResidualModelControl(state)
            costs.addCost("effort", crocoddyl.CostModelResidual(state, effort), weights[2])
        continuous = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, motors, costs)
        # Costs of knots count times the step; that of the end, whose step is zero, as it is.
        return crocoddyl.IntegratedActionModelEuler(continuous, DT if len(weights) > 2 else 0.0)

    start = np.concatenate([START, np.zeros(7)])
    scaled = tuple(weight / DT for weight in WEIGHTS)
    shooting = crocoddyl.ShootingProblem(start, [knot(scaled) for _ in range(KNOTS)], knot(FINAL))
    hold = pin.computeGeneralizedGravity(model, model.createData(), START)
    return crocoddyl.SolverFDDP(shooting), ([start] * (KNOTS + 1), [hold] * KNOTS, 1, False, 1e-9)


def measured(call: Any) -> np.ndarray:
    """Wall and processor time of each repetition, [repetitions, 2] [ms]."""
    times = []
    for _ in range(REPETITIONS):
        begin = time.perf_counter(), time.process_time()
        call()
        times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    return 1e3 * np.array(times)


def measure_theirs() -> None:
    """Prints the cost after an iteration, quantiles of wall times and the median CPU time [ms]."""
    solver, guess = theirs()
    times = measured(lambda: solver.solve(*guess))
    print(solver.cost, *np.quantile(times[:, 0], [0.5, 0.95]), np.median(times[:, 1]))


def main(python: str) -> None:
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
    }
    compiled = {name: ours(name.split()[1]) for name in rows if name.startswith("artix")}
    for _ in range(ROUNDS):
        for name, (tick, arguments) in compiled.items():
            cost = float(jax.block_until_ready(tick(*arguments)).cost)
            times = measured(functools.partial(repeat, tick, *arguments))
            rows[name].append([cost, *np.quantile(times[:, 0], [0.5, 0.95]), np.median(times[:, 1])])
        command = [python, __file__, "--theirs"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows["Crocoddyl, float64"].append([float(each) for each in output.split()])
    print("one iteration, one arm, 20 knots [ms] | cost | median | 95 % | median CPU time")
    for name, runs in rows.items():
        cost, *times = np.median(runs, axis=0)
        print(f"{name} | {cost:.9g} | " + " | ".join(f"{each:.3f}" for each in times))


if __name__ == "__main__":
    measure_theirs() if sys.argv[1] == "--theirs" else main(sys.argv[1])
