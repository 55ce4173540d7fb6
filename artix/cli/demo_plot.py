"""The demonstration's plot: the fleet, the throughput of every quantity, and the identities that were verified."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

import artix
from artix.cli.identities import Identity
from artix.cli.measurements import Measurement
from artix.cli.text import rate

INK, MUTED, PAPER, GRID = "#1f2933", "#7b8794", "#fbfaf7", "#e4e2dc"
ROBOT_COLORS = ("#e4572e", "#e8a628", "#2e86ab", "#5b8e3c", "#7d4fa8", "#c2478d", "#3aa6a0", "#6b705c")
GROUP_COLORS = {"kinematics": "#2e86ab", "dynamics": "#e4572e", "momentum": "#7d4fa8", "energy": "#5b8e3c"}
GHOSTS = 9
VIEW = np.array([[0.87, -0.5, 0.0], [0.15, 0.26, 0.954]])  # orthographic, from the front, the left and above


def save_plot(
    fleet: artix.Fleet,
    state: artix.State,
    measurements: list[Measurement],
    identities: list[Identity],
    output: str,
) -> None:
    """Draws the fleet, the throughput and the identities, and saves them as a PNG file.

    Args:
      fleet: the fleet.
      state: its state, from which the drawing takes its variety.
      measurements: the quantities, as measured.
      identities: the identities, as verified.
      output: path of the file.
    """
    figure = Figure(figsize=(16, 9), dpi=120, facecolor=PAPER)
    FigureCanvasAgg(figure)
    kinds, device = len(set(fleet.topologies)), jax.devices()[0]
    figure.text(0.02, 0.94, "artix", fontsize=30, fontweight="bold", color=INK, va="center")
    count = f"{fleet.num_members:,} robots of {kinds} kinds, one compiled program per quantity, on {device.device_kind}"
    figure.text(0.105, 0.937, count, fontsize=15, color=MUTED, va="center")
    _draw_fleet(figure.add_axes((0.02, 0.565, 0.96, 0.335)), fleet, state)
    _draw_throughput(figure.add_axes((0.13, 0.06, 0.36, 0.37)), measurements, fleet.num_members)
    _draw_identities(figure.add_axes((0.665, 0.06, 0.31, 0.37)), identities)
    figure.savefig(output, facecolor=PAPER)


# --- the robots -----------------------------------------------------------------------------------------------------


def _draw_fleet(axes: Axes, fleet: artix.Fleet, state: artix.State) -> None:
    """Draws one robot of each kind in its neutral position before some of its relatives, all to one scale."""
    poses, centers = _standing_poses(fleet, state)
    members: dict[artix.Topology, list[int]] = {}
    for member, topology in enumerate(fleet.topologies):
        members.setdefault(topology, []).append(member)
    scenes = [_scene(topology, relatives, poses, centers) for topology, relatives in members.items()]
    height = max(np.ptp(points[:, 1]) for _, points in scenes)
    widths = [max(np.ptp(points[:, 0]), 0.55 * height) for _, points in scenes]
    box = axes.get_position()
    total = height * 16 * box.width / (9 * box.height)  # the width that fills the axes at equal scales
    gap = max((total - sum(widths)) / len(scenes), 0.1 * height)
    middle = 0.0
    for number, (topology, (drawings, points)) in enumerate(zip(members, scenes, strict=True)):
        color = ROBOT_COLORS[number % len(ROBOT_COLORS)]
        middle += 0.5 * (widths[number] + gap)
        floor = points[:, 1].min() if topology.fixed_base else drawings[0][:, :, 1].min()
        shift = np.array([middle - 0.5 * (points[:, 0].min() + points[:, 0].max()), -floor])
        for strokes in drawings[1:]:
            axes.add_collection(LineCollection(list(strokes + shift), colors=color, alpha=0.13, linewidths=2, zorder=2))
        _draw_robot(axes, drawings[0] + shift, color)
        _label(axes, middle, topology, color)
        middle += 0.5 * (widths[number] + gap)
    axes.axhline(0, color=GRID, linewidth=1.5, zorder=1)
    axes.set_aspect("equal")
    axes.set_xlim(0, middle)
    axes.set_ylim(-0.03 * height, 1.02 * height)
    axes.axis("off")


def _scene(topology: artix.Topology, relatives: list[int], poses, centers) -> tuple[list[np.ndarray], np.ndarray]:
    """The strokes of one robot and its ghosts, and all their points."""
    drawings = [_strokes(topology, poses[k][member], centers[k][member]) for k, member in _appearances(relatives)]
    return drawings, np.concatenate([strokes.reshape(-1, 2) for strokes in drawings])


def _label(axes: Axes, middle: float, topology: artix.Topology, color: str) -> None:
    base = "fixed base" if topology.fixed_base else "floating base"
    name = topology.name.replace("_", " ")
    detail = f"{topology.num_links} links, {topology.num_dofs} DOFs, {base}"
    place: dict[str, Any] = {"xycoords": "data", "textcoords": "offset points", "ha": "center", "va": "top"}
    axes.annotate(name, (middle, 0), (0, -12), fontsize=15, fontweight="bold", color=color, **place)
    axes.annotate(detail, (middle, 0), (0, -34), fontsize=10.5, color=MUTED, **place)


def _standing_poses(fleet: artix.Fleet, state: artix.State) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Link frames and centres of mass: first in the neutral state, then with the joints moved a little.

    The programs that were compiled for the measurement serve here too.
    """
    neutral = fleet.neutral_state()
    moved = dataclasses.replace(neutral, joint_position=0.3 * state.joint_position)
    both = [np.asarray(fleet.evaluate(artix.forward_kinematics, s).pose, float) for s in (neutral, moved)]
    local = np.asarray(fleet.articulation.link_com_pose, float)[..., :3]
    return both, [poses[..., :3] + _rotate(poses[..., 3:], local) for poses in both]


def _appearances(relatives: list[int]) -> list[tuple[int, int]]:
    """The robot to draw in full and its ghosts, as (neutral 0 or moved 1, member)."""
    return [(0, relatives[0])] + [(1, member) for member in relatives[1 : GHOSTS + 1]]


def _strokes(topology: artix.Topology, poses: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Lines in the plane of view from each link's frame to its children's; a leaf's line passes its centre of mass."""
    origin, leaves = poses[:, :3], set(range(topology.num_links)) - set(topology.parent)
    pairs = [(origin[topology.parent[link]], origin[link]) for link in range(1, topology.num_links)]
    pairs += [(origin[link], 2 * centers[link] - origin[link]) for link in sorted(leaves)]
    return np.array(pairs) @ VIEW.T


def _draw_robot(axes: Axes, strokes: np.ndarray, color: str) -> None:
    axes.add_collection(LineCollection(list(strokes), colors=INK, linewidths=7.5, capstyle="round", zorder=3))
    axes.add_collection(LineCollection(list(strokes), colors=color, linewidths=4.5, capstyle="round", zorder=4))
    joints = strokes[:, 0]
    axes.plot(
        joints[:, 0], joints[:, 1], "o", color=PAPER, markeredgecolor=INK, markersize=6, markeredgewidth=1.3, zorder=5
    )


def _rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    turn, real = quaternion[..., :3], quaternion[..., 3:]
    return vector + 2 * np.cross(turn, np.cross(turn, vector) + real * vector)


# --- the numbers ----------------------------------------------------------------------------------------------------


def _draw_throughput(axes: Axes, measurements: list[Measurement], members: int) -> None:
    rates = [members / measurement.seconds for measurement in measurements]
    places = np.arange(len(measurements))[::-1]
    colors = [GROUP_COLORS[measurement.quantity.group] for measurement in measurements]
    axes.barh(places, rates, color=colors, height=0.68, zorder=2)
    for place, value, measurement in zip(places, rates, measurements, strict=True):
        label = f" {rate(value)}/s   {1e6 * measurement.seconds / members:.2f} µs"
        axes.text(value, place, label, va="center", ha="left", fontsize=10.5, color=INK)
    _style(axes, "Throughput: robots per second, and time for each", places, [m.quantity.name for m in measurements])
    axes.set_xlim(0, 1.32 * max(rates))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: rate(value)))


def _draw_identities(axes: Axes, identities: list[Identity]) -> None:
    shown = [identity for identity in identities if not identity.lower]
    places = np.arange(len(shown))[::-1]
    floor = 1e-9
    for place, identity in zip(places, shown, strict=True):
        color = GROUP_COLORS["energy"] if identity.holds else GROUP_COLORS["dynamics"]
        value = max(identity.value, floor) if np.isfinite(identity.value) else 1.0
        axes.plot([floor, value], [place, place], color=color, linewidth=2, alpha=0.45, zorder=2)
        axes.plot(value, place, "o", color=color, markersize=9, zorder=3)
        axes.plot(identity.bound, place, "|", color=INK, markersize=15, markeredgewidth=2, zorder=3)
    axes.set_xscale("log")
    axes.set_xlim(floor, 1e-3)
    title = "Identities: worst residual (dot) and bound (bar)"
    _style(axes, title, places, [identity.formula for identity in shown])


def _style(axes: Axes, title: str, places: Any, names: list[str]) -> None:
    axes.set_facecolor(PAPER)
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=10)
    axes.set_yticks(places, names, fontsize=11, color=INK)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.grid(axis="x", color=GRID, linewidth=1, zorder=0)
    axes.tick_params(length=0, labelcolor=INK)
    for side in axes.spines.values():
        side.set_visible(False)
