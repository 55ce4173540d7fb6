"""``artix demo --trajectory-optimization``: a swing-up by gradient descent and a reach by iLQR, timed and drawn."""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from artix import robots
from artix.cli.names import check_output, naming
from artix.cli.text import table
from artix.examples import reach, swing_up
from artix.io.common.atomic_file import write_atomically

#: A swing-up has converged if the tip stays above this fraction of the full height, and the joints
#: end slower than this [rad/s].
UPRIGHT, SLOW = 0.95, 1.0
#: A reach has converged at this distance [m], angle [rad] and speed [rad/s] of the tool.
REACHED = 1e-2


class Solved(NamedTuple):
    """A trajectory: what to print and to draw.

    Attributes:
      converged: whether it does what it should.
      rows: results in words.
      curves: what to draw over time, by title: names of the curves and their values [T, C].
      costs: the cost after each iteration, a column for each start.
      dt: length of a step [s].
    """

    converged: bool
    rows: list[tuple[str, str]]
    curves: dict[str, tuple[tuple[str, ...], Any]]
    costs: np.ndarray
    dt: float


def run_trajectory_demo(*, output: str, seed: int) -> int:
    """Runs the demonstration.

    Args:
      output: path of the plot, a PNG file.
      seed: seed of the swing-up's random starts.

    Returns:
      0 if both optimisations converged, 1 otherwise.

    Raises:
      CommandFailure: the plot cannot be written.
    """
    check_output(output)
    begin = time.perf_counter()
    print("Swing-up of the double pendulum: Adam through the simulation, all starts at once ...", flush=True)
    swung = solve_swing_up(seed)
    print(table(("swing-up", ""), swung.rows, align="ll"), flush=True)
    print("\nReach of the seven-axis arm: iLQR on artix.linearize ...", flush=True)
    reached = solve_reach()
    print(table(("reach", ""), reached.rows, align="ll"), flush=True)
    with naming(output):
        save_plot({"swing-up": swung, "reach": reached}, output)
    print(f"\nplot saved to {output} ({time.perf_counter() - begin:.0f} s in total)")
    failed = [name for name, one in (("the swing-up", swung), ("the reach", reached)) if not one.converged]
    if failed:
        print(f"artix: did not converge: {', '.join(failed)}; try another --seed", file=sys.stderr)
        return 1
    print("both converged")
    return 0


def solve_swing_up(seed: int) -> Solved:
    """Swings the built-in double pendulum up."""
    begin = time.perf_counter()
    task = swing_up.SwingUp(robots.load("double_pendulum"))
    shooting = jax.block_until_ready(swing_up.solve(task, seed=seed))
    seconds = time.perf_counter() - begin
    costs, torques = np.asarray(shooting.costs), task.torques(shooting.best)
    states = jax.jit(task.states)(torques)
    height = np.asarray(task.tips(states)[:, 2])
    held = float(height[task.held].min()) / swing_up.FULL_HEIGHT
    speed, peak = float(np.abs(states.joint_velocity[-1]).max()), np.abs(torques).max(axis=0)
    rows = [
        (
            "tip at the end",
            f"{100 * held:.1f} % of full height or more over the last {task.hold * 100:.0f} % of the time",
        ),
        ("speed at the end", f"{speed:.2f} rad/s"),
        ("largest torques", f"shoulder {peak[0]:.1f}, elbow {peak[1]:.1f} N m; holding it level takes 19.6 and 4.9"),
        ("cost", f"{np.median(costs[0]):.3g} -> {np.nanmin(costs[-1]):.3g}, the best of {costs.shape[1]} starts"),
        (
            "work",
            f"{len(costs)} iterations of {costs.shape[1]} x {task.steps} steps in {seconds:.1f} s with compilation",
        ),
    ]
    curves = {"torque [N m]": (("shoulder", "elbow"), torques), "height of the tip [m]": (("tip",), height[:, None])}
    return Solved(held > UPRIGHT and speed < SLOW, rows, curves, costs, task.dt)


def solve_reach() -> Solved:
    """Brings the tool of the built-in seven-axis arm to a target."""
    begin = time.perf_counter()
    task = reach.Reach(robots.load("arm7"))
    solution = reach.solve(task)
    seconds = time.perf_counter() - begin
    costs = np.asarray(solution.costs)
    apart = jax.vmap(task.tool_error)(solution.states).reshape(-1, 2, 3)  # position, then angle
    errors = np.asarray(jnp.linalg.norm(apart, axis=2))
    effort = np.asarray(solution.forces / task.arm.max_joint_force)
    speed = float(np.abs(solution.states.joint_velocity[-1]).max())
    rows = [
        ("tool at the end", f"{1e3 * errors[-1, 0]:.2f} mm and {1e3 * errors[-1, 1]:.2f} mrad from its target"),
        ("speed at the end", f"{speed:.1g} rad/s"),
        ("largest torque", f"{100 * np.abs(effort).max():.0f} % of its limit"),
        ("cost", f"{costs[0]:.4g} -> {costs[-1]:.4g}"),
        ("work", f"{len(costs) - 1} iterations of {task.steps} steps in {seconds:.1f} s with compilation"),
    ]
    curves = {
        "torque [% of the limit]": (task.arm.topology.dof_names, 100 * effort),
        "distance from the target [m], [rad]": (("position", "angle"), errors),
    }
    return Solved(bool(errors[-1].max() < REACHED) and speed < REACHED, rows, curves, costs[:, None], task.dt)


def save_plot(solved: dict[str, Solved], output: str) -> None:
    """Saves a picture of the curves and costs, with a row for each trajectory."""
    figure = Figure(figsize=(16, 9), dpi=100, layout="constrained")
    for row, (name, result) in zip(figure.subplots(len(solved), 3), solved.items(), strict=True):
        for axes, (title, (labels, values)) in zip(row, result.curves.items(), strict=False):
            axes.plot(result.dt * np.arange(1, len(values) + 1), np.asarray(values), label=labels)
            axes.set(title=f"{name}: {title}", xlabel="time [s]")
            axes.legend(frameon=False, fontsize=8)
        row[2].semilogy(result.costs)
        row[2].set(title=f"{name}: cost", xlabel="iteration")
    write_atomically(output, lambda part: figure.savefig(part, format="png"))
