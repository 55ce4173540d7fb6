"""``artix demo --trajectory-optimization``: a swing-up by gradient descent and a reach by iLQR, timed and drawn."""

from __future__ import annotations

import sys

import numpy as np

from artix.cli.names import check_output
from artix.cli.text import table
from artix.cli.trajectory_plot import save_plot
from artix.cli.trajectory_results import ReachResult, SwingUpResult, solve_reach, solve_swing_up
from artix.examples import swing_up


def run_trajectory_demo(*, output: str, seed: int) -> int:
    """Runs the demonstration.

    Args:
      output: path of the plot, a PNG file.
      seed: seed of the swing-up's random starts.

    Returns:
      0 if both optimisations converged, 1 otherwise.

    Raises:
      CommandFailure: the plot's folder does not exist.
    """
    check_output(output)
    print("Swing-up of the double pendulum: Adam through the simulation, all starts at once ...", flush=True)
    swung = solve_swing_up(seed)
    print(_swing_up_report(swung), flush=True)
    print("\nReach of the seven-axis arm: iLQR on artix.linearize ...", flush=True)
    reached = solve_reach()
    print(_reach_report(reached), flush=True)
    save_plot(swung, reached, output)
    print(f"\nplot saved to {output} ({swung.seconds + reached.seconds:.0f} s in total)")
    names = {"the swing-up": swung.converged, "the reach": reached.converged}
    failed = [name for name, converged in names.items() if not converged]
    if failed:
        print(f"artix: did not converge: {', '.join(failed)}; try another --seed", file=sys.stderr)
        return 1
    print("both converged")
    return 0


def _swing_up_report(result: SwingUpResult) -> str:
    task, (iterations, starts) = result.task, result.costs.shape
    held = (
        f"{100 * result.lowest_held:.1f} % of full height or more over the last {task.hold * task.dt * task.steps:g} s"
    )
    peak = np.abs(result.torques).max(axis=0)
    rows = [
        ("tip at the end", f"{100 * result.heights[-1] / swing_up.FULL_HEIGHT:.1f} % of full height, {held}"),
        ("speed at the end", f"{result.final_speed:.2f} rad/s"),
        ("largest torques", f"shoulder {peak[0]:.1f}, elbow {peak[1]:.1f} N m; holding it level takes 19.6 and 4.9"),
        ("cost", f"{np.median(result.costs[0]):.3g} -> {np.nanmin(result.costs[-1]):.3g}, the best of {starts} starts"),
        (
            "work",
            f"{iterations} iterations of {starts} x {task.steps} steps in {result.seconds:.1f} s with compilation",
        ),
    ]
    return table(("swing-up", ""), rows, align="ll")


def _reach_report(result: ReachResult) -> str:
    task, costs = result.task, result.solution.costs
    distance, angle = result.errors[-1]
    rows = [
        ("tool at the end", f"{1e3 * distance:.2f} mm and {1e3 * angle:.2f} mrad from its target"),
        ("speed at the end", f"{result.final_speed:.1g} rad/s"),
        ("largest torque", f"{100 * np.abs(result.effort).max():.0f} % of its limit"),
        ("cost", f"{costs[0]:.4g} -> {costs[-1]:.4g}"),
        ("work", f"{len(costs) - 1} iterations of {task.steps} steps in {result.seconds:.1f} s with compilation"),
    ]
    return table(("reach", ""), rows, align="ll")
