"""Makes the picture of plans against the clock: ``python docs/images/make_ticks.py``, from the
root.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from artix.examples import real_time


def main() -> None:
    """Draws how long plans took, and how far the tool was from its target in three ways."""
    runs = real_time.comparison()
    real_time.report(runs)
    figure = Figure(figsize=(8.4, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    ticks = 1e3 * next(iter(runs.values())).ticks
    left.plot(real_time.PERIOD * np.arange(len(ticks)), ticks, ".", color="#3949ab", markersize=4)
    left.set(xlabel="time [s]", ylabel="a plan takes [ms]", ylim=(0, None))
    for (name, run), color in zip(runs.items(), ("#3949ab", "#43a047", "#e07b39"), strict=True):
        time = real_time.COMMAND * np.arange(1, len(run.errors) + 1)
        right.semilogy(time, 1e3 * run.errors, label=name, color=color, linewidth=1.2)
    right.set(xlabel="time [s]", ylabel="tool to target [mm]", ylim=(0.1, 3000))
    right.legend(frameon=False, fontsize=8, loc="upper left")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    path = Path(__file__).parent / "ticks.png"
    figure.savefig(path, dpi=120)
    print(f"{path.name}: {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
