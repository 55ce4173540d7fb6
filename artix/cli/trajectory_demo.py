"""``artix demo --trajectory-optimization``: a swing-up by gradient descent and a reach by iLQR, timed and drawn."""

from __future__ import annotations

import dataclasses
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import robots
from artix.cli.text import table, writable
from artix.cli.trajectory_plot import save_plot
from artix.examples import ilqr, reach, swing_up

REACHED = 1e-2
"""Largest final distance [m] and angle [rad] of the tool at which the reach has converged."""
UPRIGHT, SLOW = 0.95, 1.0
"""Part of the full height above which the pendulum's tip must stay at the end of a swing-up that has converged, and the
joint speed [rad/s] below which it must end."""


@dataclasses.dataclass(frozen=True)
class SwingUpResult:
    """The swing-up, solved.

    Attributes:
      task: what was asked.
      costs: cost of every start before every iteration, [iterations, starts].
      torques: the best torques, [T, 2].
      states: the states after each step under them.
      heights: heights of the tip above the shoulder in these states [m], [T].
      seconds: what it took, compilation included.
    """

    task: swing_up.SwingUp
    costs: np.ndarray
    torques: np.ndarray
    states: artix.State
    heights: np.ndarray
    seconds: float

    @property
    def lowest_held(self) -> float:
        """Least height of the tip over the last part of the horizon, as a part of the full height."""
        return float(self.heights[self.task.held].min()) / swing_up.FULL_HEIGHT

    @property
    def final_speed(self) -> float:
        """Largest joint speed at the end [rad/s]."""
        return float(np.abs(self.states.joint_velocity[-1]).max())

    @property
    def converged(self) -> bool:
        """Whether the pendulum came up, stayed there and is slow."""
        return self.lowest_held > UPRIGHT and self.final_speed < SLOW


@dataclasses.dataclass(frozen=True)
class ReachResult:
    """The reach, solved.

    Attributes:
      task: what was asked.
      solution: the trajectory and the costs of the iterations.
      errors: the tool's distance [m] and angle [rad] from the target after each step, [T, 2].
      seconds: what it took, compilation included.
    """

    task: reach.Reach
    solution: ilqr.Solution
    errors: np.ndarray
    seconds: float

    @property
    def effort(self) -> np.ndarray:
        """Torques as parts of their limits, [T, n]."""
        return np.asarray(self.solution.forces / self.task.arm.max_joint_force[None])

    @property
    def final_speed(self) -> float:
        """Largest joint speed at the end [rad/s]."""
        return float(np.abs(self.solution.states.joint_velocity[-1]).max())

    @property
    def converged(self) -> bool:
        """Whether the tool arrived at its target, and rests there."""
        return bool(self.errors[-1].max() < REACHED) and self.final_speed < REACHED


def run_trajectory_demo(*, output: str, seed: int) -> int:
    """Runs the demonstration.

    Args:
      output: path of the plot, a PNG file.
      seed: seed of the swing-up's random starts.

    Returns:
      0 if both optimisations converged and the plot was saved, 1 otherwise.
    """
    if not writable(output):
        return 1
    print("Swing-up of the double pendulum: Adam through the simulation, all starts at once ...", flush=True)
    swung = solve_swing_up(seed)
    print(_swing_up_report(swung), flush=True)
    print("\nReach of the seven-axis arm: iLQR on artix.linearize ...", flush=True)
    reached = solve_reach()
    print(_reach_report(reached), flush=True)
    save_plot(swung, reached, output)
    print(f"\nplot saved to {output}; {swung.seconds + reached.seconds:.0f} s in all")
    names = {"the swing-up": swung.converged, "the reach": reached.converged}
    failed = [name for name, converged in names.items() if not converged]
    if failed:
        print(f"artix: did not converge: {', '.join(failed)}; try another --seed", file=sys.stderr)
        return 1
    print("both converged")
    return 0


def solve_swing_up(seed: int = 0) -> SwingUpResult:
    """Solves the swing-up of the built-in double pendulum."""
    begin = time.perf_counter()
    task = swing_up.SwingUp(robots.load("double_pendulum"))
    found = jax.block_until_ready(swing_up.solve(task, seed=seed))
    seconds = time.perf_counter() - begin
    torques = task.torques(found.best)
    states = jax.jit(task.states)(torques)
    heights = task.tips(states)[:, 2]
    return SwingUpResult(task, np.asarray(found.costs), np.asarray(torques), states, np.asarray(heights), seconds)


def solve_reach() -> ReachResult:
    """Solves the reach of the built-in seven-axis arm."""
    begin = time.perf_counter()
    task = reach.Reach(robots.load("arm7"))
    solution = reach.solve(task)
    seconds = time.perf_counter() - begin
    errors = jax.vmap(task.tool_error)(solution.states)
    distances = jnp.stack([jnp.linalg.norm(errors[:, :3], axis=1), jnp.linalg.norm(errors[:, 3:], axis=1)], axis=1)
    return ReachResult(task, solution, np.asarray(distances), seconds)


def _swing_up_report(found: SwingUpResult) -> str:
    task, (iterations, starts) = found.task, found.costs.shape
    held = (
        f"{100 * found.lowest_held:.1f} % of full height or more over the last {task.hold * task.dt * task.steps:g} s"
    )
    peak = np.abs(found.torques).max(axis=0)
    rows = [
        ("tip at the end", f"{100 * found.heights[-1] / swing_up.FULL_HEIGHT:.1f} % of full height, {held}"),
        ("speed at the end", f"{found.final_speed:.2f} rad/s"),
        ("largest torques", f"shoulder {peak[0]:.1f}, elbow {peak[1]:.1f} N m; holding it level takes 19.6 and 4.9"),
        ("cost", f"{np.median(found.costs[0]):.3g} -> {np.nanmin(found.costs[-1]):.3g}, the best of {starts} starts"),
        ("work", f"{iterations} iterations of {starts} x {task.steps} steps in {found.seconds:.1f} s with compilation"),
    ]
    return table(("swing-up", ""), rows, align="ll")


def _reach_report(found: ReachResult) -> str:
    task, costs = found.task, found.solution.costs
    distance, angle = found.errors[-1]
    rows = [
        ("tool at the end", f"{1e3 * distance:.2f} mm and {1e3 * angle:.2f} mrad from its target"),
        ("speed at the end", f"{found.final_speed:.1g} rad/s"),
        ("largest torque", f"{100 * np.abs(found.effort).max():.0f} % of its limit"),
        ("cost", f"{costs[0]:.4g} -> {costs[-1]:.4g}"),
        ("work", f"{len(costs) - 1} iterations of {task.steps} steps in {found.seconds:.1f} s with compilation"),
    ]
    return table(("reach", ""), rows, align="ll")
