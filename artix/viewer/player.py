"""Motions in a browser (play, pause, scrub, speed, layers, plots of series), and as single HTML files."""

from __future__ import annotations

import html
import os
import threading
import time
import webbrowser
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from artix import Ground, State
from artix.io.common.atomic_file import check_writable, write_atomically
from artix.viewer.motions import Robots
from artix.viewer.nodes import Nodes
from artix.viewer.plots import Plot, checked_series, with_plots
from artix.viewer.scene import LAYERS, Scene, make_scene
from artix.viewer.servers import address, close_server, open_server, private_server, wait_for

SPEEDS = ("0.1x", "0.25x", "0.5x", "1x", "2x", "4x")
#: Rate at which a browser gets new poses [1/s].
REFRESH_RATE = 50.0


class Viewer:
    """A motion shown in a browser; made by :func:`view`.

    As the last value of a notebook cell it is displayed as a recording, as by :func:`save_html`.

    Attributes:
      url: its address for a browser on this machine.
      scene: the scene shown.
      nodes: its viser nodes.
      server: the ``viser.ViserServer``; you can add more to it.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> motion = jax.vmap(lambda key: artix.random_state(arm, key))(jax.random.split(jax.random.key(0), 10))
      >>> shown = viewer.view(arm, motion, 0.5, port=0)
      >>> shown.playing = False
      >>> shown.frame = 3
      >>> shown.close()
    """

    def __init__(self, server: Any, scene: Scene, series: Mapping[str, np.ndarray]) -> None:
        self.server = server
        self.scene = scene
        self._series = series
        self.url = address(server)
        self.nodes = Nodes(server, scene)
        self._closed = threading.Event()
        gui = server.gui
        self._is_playing = gui.add_checkbox("play", scene.num_frames > 1)
        self._speed = gui.add_dropdown("speed", SPEEDS, initial_value="1x")
        last = max(scene.num_frames - 1, 1)
        self._slider = gui.add_slider("frame", min=0, max=last, step=1, initial_value=0)
        self._clock = gui.add_text("time [s]", initial_value="0.000", disabled=True)
        if scene.path is not None:
            self._follows = gui.add_checkbox("follow the robot", True)
            self._follows.on_update(lambda _: self._follow())
        with gui.add_folder("show"):
            add_layers(gui, self.nodes)
        self._plots = [Plot(gui, name, values, scene.dt) for name, values in series.items()]
        self._slider.on_update(lambda _: self._moved())
        if scene.num_frames == 1:
            self._is_playing.disabled = self._slider.disabled = True
        self._thread = threading.Thread(target=self._play, name="artix viewer", daemon=True)
        self._thread.start()

    @property
    def frame(self) -> int:
        """Index of the frame that is shown. Set it to show another."""
        return int(self._slider.value)

    @frame.setter
    def frame(self, number: int) -> None:
        if not 0 <= number < self.scene.num_frames:
            raise ValueError(f"frame must be from 0 to {self.scene.num_frames - 1}; found {number}")
        self._slider.value = int(number)

    @property
    def playing(self) -> bool:
        """Whether the motion is playing. Set it to play or pause."""
        return bool(self._is_playing.value)

    @playing.setter
    def playing(self, value: bool) -> None:
        self._is_playing.value = bool(value)

    def close(self) -> None:
        """Stops the server."""
        self._closed.set()
        self._thread.join(timeout=2.0)
        close_server(self.server)

    def wait(self) -> None:
        """Waits until the process is interrupted (Ctrl-C), and stops the server."""
        wait_for(self._closed, self.close)

    def _moved(self) -> None:
        frame = min(self.frame, self.scene.num_frames - 1)
        self.nodes.show(frame)
        self._clock.value = f"{frame * self.scene.dt:.3f}"
        for plot in self._plots:
            plot.show(frame)

    def _follow(self) -> None:
        self.nodes.follows = self._follows.value
        self._moved()

    def _play(self) -> None:
        """Moves the slider with time. The slider's handler moves everything else."""
        before = time.perf_counter()
        place = 0.0
        while not self._closed.wait(1.0 / REFRESH_RATE):
            clock = time.perf_counter()
            passed, before = clock - before, clock
            if not self.playing:
                place = float(self.frame)
                continue
            if abs(place - self.frame) >= 1.0:  # The user moved the slider.
                place = float(self.frame)
            place = (place + passed * float(self._speed.value[:-1]) / self.scene.dt) % self.scene.num_frames
            if int(place) != self.frame:
                self.frame = int(place)

    def _repr_html_(self) -> str:
        page = html.escape(scene_html(self.scene, series=self._series), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="480" style="border:none"></iframe>'


def view(
    robots: Robots,
    states: State | Mapping[str, State],
    dt: float,
    *,
    ground: Ground | None = None,
    series: Mapping[str, npt.ArrayLike] | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_browser: bool = False,
    **options: Any,
) -> Viewer:
    """Shows a motion in a browser, and in notebooks.

    The panel plays and pauses, jumps to any frame, and sets the speed and the layers shown. The server runs in its own
    threads until :meth:`Viewer.close` or the end of the process.

    Args:
      robots: one articulation, whose arrays may have a leading axis [N] of robots, a fleet or an :class:`artix.Scene`.
      states: of one articulation: leaves ``joint_position`` of shape [n] for a still, [T, n] for a motion, [T, N, n]
        for motions of a batch; of N articulations or of a fleet: [N, n] or [T, N, n]; of a scene, by member.
      dt: time from one frame to the next [s].
      ground: planes and height fields to draw; without it, a floor is drawn below the robots.
      series: curves to plot over time, by name: one curve [T] or several [T, C].
      host: the address to listen on; ``"0.0.0.0"`` accepts other machines.
      port: the port, or 0 for any free one; by default the first free one from 8080.
      open_browser: whether to open the page in a browser on this machine.
      **options: ``visuals``, ``layout``, ``show``, ``contacts``, ``commands``, ``follow`` and ``title`` of
        :func:`make_scene`.

    Returns:
      The viewer; open its ``url``.

    Raises:
      ValueError: as for :func:`make_scene`, or a series is not as long as the motion.
      OSError: the port is in use, or the host is not an address of this machine.
      ImportError: viser is not installed.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> viewer.view(arm, artix.neutral_state(arm), 0.01).wait()  # doctest: +SKIP
    """
    scene = make_scene(robots, states, dt, ground=ground, **options)
    curves = checked_series(series or {}, scene.num_frames)
    shown = Viewer(open_server(host, port, scene.title), scene, curves)
    if open_browser:
        webbrowser.open(shown.url)
    return shown


def add_layers(gui: Any, nodes: Nodes) -> None:
    """Adds a checkbox for each layer, which shows and hides it."""
    for layer, handles in nodes.layers.items():
        _add_layer(gui, layer, handles, layer in nodes.scene.layers or layer not in LAYERS)


def _add_layer(gui: Any, layer: str, handles: list[Any], on: bool) -> None:
    box = gui.add_checkbox(layer.replace("_", " "), on)

    @box.on_update
    def _(_: Any) -> None:
        for handle in handles:
            if layer == "frames":  # These nodes are the parents of the surfaces, so only their axes are hidden.
                handle.show_axes = box.value
            else:
                handle.visible = box.value


# --- single files --------------------------------------------------------------------------------


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
