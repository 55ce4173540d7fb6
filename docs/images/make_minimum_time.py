"""Makes the picture of *Minimum time*: ``python docs/images/make_minimum_time.py``, from the
root.
"""

from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

import artix
from artix.examples import minimum_time


def main() -> None:
    """Solves the problem, and draws torques and angles."""
    jax.config.update("jax_enable_x64", True)
    solution = minimum_time.solve(artix.robots.load("double_pendulum", dtype="float64"))
    torques, lengths = np.split(np.asarray(solution.controls), [2], axis=1)
    times = np.append(0.0, np.cumsum(lengths))
    figure = Figure(figsize=(8.4, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for k, (name, color) in enumerate((("shoulder", "#3949ab"), ("elbow", "#e07b39"))):
        left.stairs(torques[:, k], times, baseline=None, color=color, linewidth=1.6, label=name)
        right.plot(times, solution.states[:, k], color=color, linewidth=1.6, label=name)
    left.set(xlabel="time [s]", ylabel="torque [N m]", ylim=(-20, 24))
    right.set(xlabel="time [s]", ylabel="angle [rad]")
    left.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    right.legend(frameon=False, fontsize=8, loc="upper left")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    path = Path(__file__).parent / "minimum_time.png"
    figure.savefig(path, dpi=120)
    print(f"{path.name}: {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
