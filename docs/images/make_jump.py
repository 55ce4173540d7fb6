"""Makes the picture of the jump on *Optimal control*: ``python docs/images/make_jump.py``, from the
root.
"""

from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

from artix.examples import jump


def main() -> None:
    """Solves the jump, and draws the heights of the trunk and of the feet."""
    robot = jump.jumper()
    found = jax.jit(lambda: jump.solve(robot))()
    feet = np.asarray(jump.foot_heights(robot, found.states))
    time = jump.DT * np.arange(len(feet))
    figure = Figure(figsize=(6.4, 2.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(time, found.states[:, 2], label="trunk", color="#3949ab", linewidth=1.6)
    lines = axes.plot(time, feet, color="#e07b39", linewidth=1.2)
    lines[0].set_label("feet, above the ground")
    axes.set(xlabel="time [s]", ylabel="height [m]")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    path = Path(__file__).parent / "jump.png"
    figure.savefig(path, dpi=120)
    print(f"{path.name}: {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
