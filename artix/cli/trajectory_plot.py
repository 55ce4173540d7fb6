"""The plot of the trajectory optimisation: both motions as exposures over time, their torques, and the costs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

import artix
from artix.cli.demo_plot import GRID, INK, MUTED, PAPER
from artix.cli.trajectory_results import ReachResult, SwingUpResult
from artix.examples import swing_up

TIME_COLORS = LinearSegmentedColormap.from_list("time", ["#d9d6cc", "#8fb8cc", "#2e86ab", "#7d4fa8", "#e4572e"])
ROBOT_COLORS = ("#e4572e", "#e8a628", "#2e86ab", "#5b8e3c", "#7d4fa8", "#c2478d", "#3aa6a0", "#6b705c")
VIEW = np.array([[0.87, -0.5, 0.0], [0.15, 0.26, 0.954]])  # orthographic, from the front, the left and above
SHOWN = 26
"""Exposures of a motion."""


def save_plot(swung: SwingUpResult, reached: ReachResult, output: str) -> None:
    """Draws both results, a row each, and saves them as a PNG file.

    Args:
      swung: the swing-up.
      reached: the reach.
      output: path of the file.
    """
    figure = Figure(figsize=(16, 9.6), dpi=120, facecolor=PAPER)
    FigureCanvasAgg(figure)
    figure.text(0.02, 0.955, "artix", fontsize=30, fontweight="bold", color=INK, va="center")
    text = "trajectories found with derivatives of the dynamics: through a simulation, and by iLQR"
    figure.text(0.105, 0.952, text, fontsize=15, color=MUTED, va="center")
    left, middle, right = (0.02, 0.29), (0.345, 0.29), (0.715, 0.265)
    _draw_pendulum(figure.add_axes((left[0], 0.49, left[1], 0.365)), swung)
    _draw_torques(figure.add_axes((middle[0], 0.57, middle[1], 0.29)), swung)
    _draw_starts(figure.add_axes((right[0], 0.57, right[1], 0.29)), swung)
    _draw_arm(figure.add_axes((left[0], 0.02, left[1], 0.365)), reached)
    _draw_effort(figure.add_axes((middle[0], 0.09, middle[1], 0.29)), reached)
    _draw_iterations(figure.add_axes((right[0], 0.09, right[1], 0.29)), reached)
    figure.savefig(output, facecolor=PAPER)


# --- the swing-up ---------------------------------------------------------------------------------------------------


def _draw_pendulum(axes: Axes, result: SwingUpResult) -> None:
    task = result.task
    pendulum = task.pendulum
    elbow = jax.vmap(lambda state: artix.frame_pose(pendulum, state, "lower")[:3])(result.states)
    points = np.stack([np.zeros_like(elbow), np.asarray(elbow), np.asarray(task.tips(result.states))], axis=1)
    points = points[:, :, [0, 2]]  # seen along the joints' axes
    _draw_exposures(axes, points)
    reach = 1.04 * swing_up.FULL_HEIGHT
    axes.set_xlim(-1.35 * reach, 1.35 * reach)
    axes.set_ylim(-reach, reach)
    _caption(axes, "Swing-up", f"double pendulum, {task.steps * task.dt:g} s, motors too weak to lift it at once")


def _draw_torques(axes: Axes, result: SwingUpResult) -> None:
    time = result.task.dt * np.arange(1, result.task.steps + 1)
    for k, name in enumerate(("shoulder", "elbow")):
        axes.step(
            time, result.torques[:, k], where="pre", color=ROBOT_COLORS[2 * k], linewidth=2, label=f"{name} torque"
        )
        limit = result.task.torque_limits[k]
        axes.hlines([-limit, limit], 0, time[-1], color=ROBOT_COLORS[2 * k], linewidth=1, linestyle=":")
    axes.set_ylim(-1.55 * max(result.task.torque_limits), 1.2 * max(result.task.torque_limits))
    axes.legend(loc="lower right", frameon=False, fontsize=10, labelcolor=INK, ncols=2)
    _style(axes, "Torques [N m] and height of the tip [m, black]", "time [s]")
    height = axes.twinx()
    height.plot(time, result.heights, color=INK, linewidth=2.5)
    height.set_ylim(-1.55 * swing_up.FULL_HEIGHT, 1.2 * swing_up.FULL_HEIGHT)
    height.set_yticks([-2, -1, 0, 1, 2])
    _bare(height)


def _draw_starts(axes: Axes, result: SwingUpResult) -> None:
    best = int(np.nanargmin(result.costs[-1]))
    for k in range(result.costs.shape[1]):
        chosen = k == best
        color, width = (ROBOT_COLORS[0], 2.5) if chosen else (MUTED, 1.0)
        label = "best start" if chosen else None
        axes.plot(result.costs[:, k], color=color, linewidth=width, alpha=1 if chosen else 0.45, zorder=3, label=label)
    axes.set_yscale("log")
    axes.legend(loc="upper right", frameon=False, fontsize=10, labelcolor=INK)
    _style(axes, f"Cost of {result.costs.shape[1]} starts, {result.seconds:.0f} s in all", "iteration of Adam")


# --- the reach ------------------------------------------------------------------------------------------------------


def _draw_arm(axes: Axes, result: ReachResult) -> None:
    task = result.task
    poses = np.asarray(jax.vmap(lambda state: artix.link_poses(task.arm, state))(result.solution.states))
    points = poses[:, :, :3] @ VIEW.T
    _draw_exposures(axes, points)
    target = VIEW @ np.array(task.target[:3])
    axes.plot(*target, "+", color=INK, markersize=22, markeredgewidth=2, zorder=6)
    axes.annotate("target", target, (14, 8), textcoords="offset points", color=INK, fontsize=11)
    low, high = points.min(axis=(0, 1)), points.max(axis=(0, 1))
    middle, size = 0.5 * (low + high), 0.53 * (high - low).max()
    axes.set_xlim(middle[0] - 1.35 * size, middle[0] + 1.35 * size)
    axes.set_ylim(middle[1] - size, middle[1] + size)
    axes.plot([points[0, 0, 0] - 0.12, points[0, 0, 0] + 0.12], [0, 0], color=INK, linewidth=4, zorder=1)
    detail = f"seven-axis arm, {task.steps * task.dt:g} s, ends {1e3 * result.errors[-1, 0]:.1f} mm off, at rest"
    _caption(axes, "Reach", detail)


def _draw_effort(axes: Axes, result: ReachResult) -> None:
    time = result.task.dt * np.arange(1, result.task.steps + 1)
    topology = result.task.arm.topology
    for k, name in enumerate(topology.dof_names):
        label = name.replace("_", " ")
        axes.step(time, 100 * result.effort[:, k], where="pre", color=ROBOT_COLORS[k], linewidth=1.8, label=label)
    axes.legend(loc="best", frameon=False, fontsize=9, labelcolor=INK, ncols=2)
    _style(axes, "Torques [% of the limit]", "time [s]")


def _draw_iterations(axes: Axes, result: ReachResult) -> None:
    costs = result.solution.costs
    axes.plot(costs, "o-", color=ROBOT_COLORS[0], linewidth=2.5, markersize=7)
    axes.set_yscale("log")
    _style(axes, f"Cost, {result.seconds:.0f} s in all", "iteration of iLQR")


# --- strokes and axes -----------------------------------------------------------------------------------------------


def _draw_exposures(axes: Axes, points: np.ndarray) -> None:
    """Draws a chain of points [T, k, 2] as exposures from light (early) to strong (late), and the path of its end."""
    chosen = np.unique(np.linspace(0, len(points) - 1, SHOWN).round().astype(int))
    for number, moment in enumerate(chosen):
        part = number / (len(chosen) - 1)
        last = moment == chosen[-1]
        style: dict[str, Any] = {"capstyle": "round", "joinstyle": "round", "zorder": 3 + part}
        if last:
            axes.add_collection(LineCollection([points[moment]], colors=INK, linewidths=7.5, **style))
        color, alpha = TIME_COLORS(part), 1.0 if last else 0.2 + 0.45 * part
        axes.add_collection(LineCollection([points[moment]], colors=[color], linewidths=4.5, alpha=alpha, **style))
    joints = points[-1]
    axes.plot(*joints.T, "o", color=PAPER, markeredgecolor=INK, markersize=6, markeredgewidth=1.3, zorder=5)
    end = points[:, -1]
    path = LineCollection(list(np.stack([end[:-1], end[1:]], axis=1)), cmap=TIME_COLORS, linewidths=1.6, zorder=2)
    path.set_array(np.linspace(0, 1, len(end) - 1))
    axes.add_collection(path)
    axes.set_aspect("equal")
    axes.axis("off")


def _caption(axes: Axes, title: str, detail: str) -> None:
    axes.text(0.03, 1.085, title, transform=axes.transAxes, fontsize=15, fontweight="bold", color=INK)
    axes.text(0.03, 1.06, detail, transform=axes.transAxes, fontsize=10.5, color=MUTED, va="top")


def _style(axes: Axes, title: str, along: str) -> None:
    axes.set_facecolor(PAPER)
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=10)
    axes.set_xlabel(along, fontsize=11, color=INK)
    axes.grid(color=GRID, linewidth=1, zorder=0)
    _bare(axes)


def _bare(axes: Axes) -> None:
    axes.tick_params(length=0, which="both", labelcolor=INK)
    for side in axes.spines.values():
        side.set_visible(False)
