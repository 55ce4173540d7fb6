"""The picture of the page on inverse kinematics: ``python docs/images/make_arm_square.py``."""

import re
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import artix

PAGE = Path(__file__).parents[1] / "inverse_kinematics.md"


def main() -> None:
    """Runs the page up to the square, and draws what it leaves."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    for block in blocks[:3]:  # up to the square
        exec(block, names)
    error, velocity, square = (np.asarray(names[each]) for each in ("error", "velocity", "square"))
    turn = artix.lie.so3_log(names["home"][3:])
    reached = square[:, :3] + np.stack([_rotated(np.asarray(turn), e) for e in error[:, :3]])
    time = np.arange(len(square)) * 1e-3
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    axes[0].plot(square[:, 1], square[:, 2], color="0.7", linewidth=5, label="target")
    axes[0].plot(reached[:, 1], reached[:, 2], linewidth=1.2, label="tool")
    axes[0].set(xlabel="y [m]", ylabel="z [m]", aspect="equal")
    axes[0].legend(loc="center", frameon=False)
    lines = axes[1].plot(time, velocity, linewidth=1)
    axes[1].set(xlabel="time [s]", ylabel="joint velocity [rad/s]")
    axes[1].legend(
        lines,
        range(1, 8),
        ncols=1,
        loc="center left",
        bbox_to_anchor=(1, 0.5),
        frameon=False,
        title="joint",
    )
    axes[2].plot(time, 1e3 * np.linalg.norm(error[:, :3], axis=1), linewidth=1)
    axes[2].set(xlabel="time [s]", ylabel="error of the tool [mm]", ylim=(0, None))
    figure.savefig(Path(__file__).parent / "arm_square.png", dpi=110)


def _rotated(turn: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A vector turned by a rotation vector (Rodrigues)."""
    angle = np.linalg.norm(turn)
    if angle == 0:
        return vector
    k = turn / angle
    return (
        vector * np.cos(angle)
        + np.cross(k, vector) * np.sin(angle)
        + k * (k @ vector) * (1 - np.cos(angle))
    )


if __name__ == "__main__":
    main()
