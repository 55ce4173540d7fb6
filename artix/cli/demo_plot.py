"""The demonstration's plot: the fleet, the throughput of every quantity, and the identities that were verified."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

import artix
from artix import viewer
from artix.cli.identities import Identity
from artix.cli.measurements import Measurement
from artix.cli.text import rate
from artix.io.common.atomic_file import write_atomically

INK, MUTED, PAPER, GRID = "#1f2933", "#7b8794", "#fbfaf7", "#e4e2dc"
GROUP_COLORS = {"kinematics": "#2e86ab", "dynamics": "#e4572e", "momentum": "#7d4fa8", "energy": "#5b8e3c"}
GHOSTS = 4
GAP, ROOM = 0.2, 2.0  # between neighbours in the row, and the least width for one and its label [m]
AZIMUTH = -0.95  # from where the row is seen: the front, to the right of the robots
DPI = 120
SIZE = (16.0, 9.0)  # inches


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
      output: path of the PNG file.
    """
    figure = Figure(figsize=SIZE, dpi=DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)
    kinds, device = len(set(fleet.topologies)), jax.devices()[0]
    figure.text(0.02, 0.94, "artix", fontsize=30, fontweight="bold", color=INK, va="center")
    count = f"{fleet.num_members:,} robots of {kinds} kinds, one compiled program per quantity, on {device.device_kind}"
    figure.text(0.105, 0.937, count, fontsize=15, color=MUTED, va="center")
    _draw_fleet(figure.add_axes((0.02, 0.565, 0.96, 0.335)), fleet, state)
    _draw_throughput(figure.add_axes((0.13, 0.06, 0.36, 0.37)), measurements, fleet.num_members)
    _draw_identities(figure.add_axes((0.665, 0.06, 0.31, 0.37)), identities)
    write_atomically(output, lambda part: figure.savefig(part, format=part.suffix[1:] or "png", facecolor=PAPER))


# --- the robots -----------------------------------------------------------------------------------------------------


def _draw_fleet(axes: Axes, fleet: artix.Fleet, state: artix.State) -> None:
    """Draws one robot of each kind in its neutral position before some of its relatives, all to one scale."""
    scene, feet = _scene(fleet, state)
    box, (width, height) = axes.get_position(), SIZE
    size = (round(width * box.width * DPI), round(height * box.height * DPI))
    corners = scene.corners()
    camera = viewer.Camera.around(
        corners, azimuth=AZIMUTH, elevation=0.2, aspect=size[0] / size[1], fov=0.25, margin=1.0
    )
    axes.imshow(viewer.draw_scene(scene, size=size, camera=camera), interpolation="none")
    axes.axis("off")
    place: dict[str, Any] = {"xycoords": "data", "textcoords": "offset points", "ha": "center", "va": "top"}
    for crowd, foot in zip(scene.crowds, feet, strict=True):
        topology = next(topology for topology in fleet.topologies if topology.name == crowd.name)
        below = (float(camera.project(foot, size)[0]), size[1])
        colors = [one.color for one in crowd.visuals if one.color is not None]
        accent = max(colors, key=lambda color: max(color) - min(color))  # the most colourful
        name = topology.name.replace("_", " ")
        base = "fixed base" if topology.fixed_base else "floating base"
        detail = f"{topology.num_links} links, {topology.num_dofs} DOFs, {base}"
        axes.annotate(name, below, (0, -2), fontsize=15, fontweight="bold", color=accent, **place)
        axes.annotate(detail, below, (0, -24), fontsize=9.5, color=MUTED, **place)


def _scene(fleet: artix.Fleet, state: artix.State) -> tuple[viewer.Scene, list[np.ndarray]]:
    """The robots in a row across the line of sight, and the middle of each on the floor [3]."""
    members: dict[artix.Topology, list[int]] = {}
    for member, topology in enumerate(fleet.topologies):
        members.setdefault(topology, []).append(member)
    still = fleet.neutral_state()
    # The program that was compiled for the measurement serves here, too.
    neutral, moved = (
        np.asarray(fleet.evaluate(artix.forward_kinematics, still.replace(joint_position=joints)).pose, float)
        for joints in (still.joint_position, 0.3 * state.joint_position)
    )
    across = np.array([-np.sin(AZIMUTH), np.cos(AZIMUTH), 0.0])
    crowds, feet, place = list[viewer.Crowd](), list[np.ndarray](), 0.0
    for number, (topology, relatives) in enumerate(members.items()):
        drawn = [neutral[relatives[0]], *(moved[member] for member in relatives[1 : GHOSTS + 1])]
        visuals = viewer.colored(viewer.visuals_of(fleet.member(relatives[0])), number)
        poses = np.stack(drawn)[None, :, : topology.num_links]
        opacities = np.where(np.arange(len(drawn)) == 0, 1.0, 0.12)
        crowd = viewer.Crowd(topology.name, topology.link_names, visuals, (), poses, opacities)
        points = crowd.corners()[:, 0]  # of each surface and robot
        low = points[..., 2].min() if topology.fixed_base else points[:, 0, :, 2].min()
        along = points @ across
        width = max(float(np.ptp(along)), ROOM)
        shift = (place + 0.5 * (width - np.ptp(along)) - along.min()) * across - [0.0, 0.0, low]
        poses[..., :3] += shift
        crowds.append(crowd)
        feet.append((place + 0.5 * width) * across)
        place += width + GAP
    return viewer.scene_of(crowds), feet


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
