"""Motions as single HTML files, which open in any browser without a network or Python."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from artix import Ground, State
from artix.io.common.atomic_file import check_writable, write_atomically
from artix.viewer.html_plots import with_plots
from artix.viewer.motions import Robots
from artix.viewer.nodes import Nodes
from artix.viewer.plots import checked_series
from artix.viewer.scene import Scene, make_scene
from artix.viewer.servers import private_server


def save_html(
    path: str | os.PathLike[str],
    robots: Robots,
    states: State | Mapping[str, State],
    dt: float,
    *,
    ground: Ground | None = None,
    series: Mapping[str, npt.ArrayLike] | None = None,
    max_rate: float = 60.0,
    dark_mode: bool = False,
    **options: Any,
) -> None:
    """Saves a motion as a single HTML file that plays in any browser.

    The file contains everything, including viser's player (0.8 MB), and loads nothing from the network.

    Args:
      path: the file.
      robots: one articulation, whose arrays may have a leading axis [N] of robots, a fleet or an :class:`artix.Scene`.
      states: of one articulation: leaves ``joint_position`` of shape [n] for a still, [T, n] for a motion, [T, N, n]
        for motions of a batch; of N articulations or of a fleet: [N, n] or [T, N, n]; of a scene, by member.
      dt: time from one frame to the next [s].
      ground: planes and height fields to draw; without it, a floor is drawn below the robots.
      series: curves to plot over time below the motion, by name: one curve [T] or several [T, C].
      max_rate: the most frames kept per second of motion [1/s].
      dark_mode: whether the background is dark.
      **options: ``visuals``, ``layout``, ``show``, ``contacts``, ``commands``, ``follow`` and ``title`` of
        :func:`make_scene`.

    Raises:
      ValueError: as for :func:`make_scene`, ``max_rate`` is not positive, or a series is not as long as the motion.
      OSError: the file cannot be written.
      ImportError: viser is not installed.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> viewer.save_html("arm.html", arm, artix.neutral_state(arm), 0.02)  # doctest: +SKIP
    """
    check_writable(path)
    scene = make_scene(robots, states, dt, ground=ground, **options)
    page = scene_html(scene, series=series, max_rate=max_rate, dark_mode=dark_mode)
    write_atomically(path, lambda part: part.write_text(page, encoding="utf-8"))


def scene_html(
    scene: Scene,
    *,
    series: Mapping[str, npt.ArrayLike] | None = None,
    max_rate: float = 60.0,
    dark_mode: bool = False,
) -> str:
    """The HTML that :func:`save_html` writes, for a given scene.

    Args:
      scene: the scene.
      series: curves to plot over time below the scene, by name: one curve [T] or several [T, C].
      max_rate: the most frames kept per second of motion [1/s].
      dark_mode: whether the background is dark.

    Returns:
      The text of an HTML file.

    Raises:
      ValueError: ``max_rate`` is not positive, or a series is not as long as the motion.
      ImportError: viser is not installed.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> page = viewer.scene_html(viewer.make_scene(arm, artix.neutral_state(arm), 0.02))
      >>> "<script" in page, len(page) > 100_000
      (True, True)
    """
    if not max_rate > 0.0:
        raise ValueError(f"max_rate must be positive [1/s]; found {max_rate}")
    curves = checked_series(series or {}, scene.num_frames)
    with private_server(scene.title) as server:
        nodes = Nodes(server, scene, dark_mode=dark_mode)
        recording = server.get_scene_serializer()
        stride = max(1, round(1.0 / (max_rate * scene.dt)))
        for frame in range(0, scene.num_frames, stride):
            nodes.show(frame)
            recording.insert_sleep(stride * scene.dt)
        page = recording.as_html(dark_mode=dark_mode)
    page = page.replace("<title>Viser</title>", f"<title>{html.escape(scene.title)}</title>", 1)
    duration = stride * scene.dt * -(-scene.num_frames // stride)
    return with_plots(page, curves, scene.dt, duration, dark_mode=dark_mode)
