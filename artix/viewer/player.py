"""Motions in a browser (play, pause, scrub, speed, layers, plots of series), and as single HTML
files.
"""

from __future__ import annotations

import html
import itertools
import math
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
from artix.viewer.browser import Nodes, address, close_server, open_server, private_server, wait_for
from artix.viewer.scene import LAYERS, Robots, Scene, make_scene

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
      >>> motion = jax.vmap(lambda key: artix.random_state(arm, key))(
      ...     jax.random.split(jax.random.key(0), 10)
      ... )
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
        self._slider.on_update(lambda _: self._show_frame())
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

    def _show_frame(self) -> None:
        frame = min(self.frame, self.scene.num_frames - 1)
        self.nodes.show(frame)
        self._clock.value = f"{frame * self.scene.dt:.3f}"
        for plot in self._plots:
            plot.show(frame)

    def _follow(self) -> None:
        self.nodes.follows = self._follows.value
        self._show_frame()

    def _play(self) -> None:
        """Moves the slider with time. The slider's handler moves everything else."""
        before = time.perf_counter()
        place = 0.0
        while not self._closed.wait(1.0 / REFRESH_RATE):
            clock = time.perf_counter()
            passed = clock - before
            before = clock
            if not self.playing:
                place = float(self.frame)
                continue
            if abs(place - self.frame) >= 1.0:  # The user moved the slider.
                place = float(self.frame)
            place = (
                place + passed * float(self._speed.value[:-1]) / self.scene.dt
            ) % self.scene.num_frames
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

    The panel plays and pauses, jumps to any frame, and sets the speed and the layers shown. The
    server runs in its own threads until :meth:`Viewer.close` or the end of the process.

    Args:
      robots: one articulation, whose arrays may have a leading axis [N] of robots, a fleet or an
        :class:`artix.Scene`.
      states: of one articulation: leaves ``joint_position`` of shape [n] for a still, [T, n] for a
        motion, [T, N, n] for motions of a batch; of N articulations or of a fleet: [N, n] or
        [T, N, n]; of a scene, by member.
      dt: time from one frame to the next [s].
      ground: planes and height fields to draw; without it, a floor is drawn below the robots.
      series: curves to plot over time, by name: one curve [T] or several [T, C].
      host: the address to listen on; ``"0.0.0.0"`` accepts other machines.
      port: the port, or 0 for any free one; by default the first free one from 8080.
      open_browser: whether to open the page in a browser on this machine.
      **options: ``visuals``, ``layout``, ``show``, ``contacts``, ``commands``, ``follow`` and
        ``title`` of :func:`make_scene`.

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
            if (
                layer == "frames"
            ):  # These nodes are the parents of the surfaces, so only their axes are hidden.
                handle.show_axes = box.value
            else:
                handle.visible = box.value


# --- single files -------------------------------------------------------------------------------


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

    The file contains everything, including viser's player (0.8 MB), and loads nothing from the
    network.

    Args:
      path: the file.
      robots: one articulation, whose arrays may have a leading axis [N] of robots, a fleet or an
        :class:`artix.Scene`.
      states: of one articulation: leaves ``joint_position`` of shape [n] for a still, [T, n] for a
        motion, [T, N, n] for motions of a batch; of N articulations or of a fleet: [N, n] or
        [T, N, n]; of a scene, by member.
      dt: time from one frame to the next [s].
      ground: planes and height fields to draw; without it, a floor is drawn below the robots.
      series: curves to plot over time below the motion, by name: one curve [T] or several [T, C].
      max_rate: the most frames kept per second of motion [1/s].
      dark_mode: whether the background is dark.
      **options: ``visuals``, ``layout``, ``show``, ``contacts``, ``commands``, ``follow`` and
        ``title`` of :func:`make_scene`.

    Raises:
      ValueError: as for :func:`make_scene`, ``max_rate`` is not positive, or a series is not as
        long as the motion.
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
        stride = max(1, math.ceil(1.0 / (max_rate * scene.dt) - 1e-6))
        for frame in range(0, scene.num_frames, stride):
            nodes.show(frame)
            recording.insert_sleep(stride * scene.dt)
        page = recording.as_html(dark_mode=dark_mode)
    page = page.replace("<title>Viser</title>", f"<title>{html.escape(scene.title)}</title>", 1)
    duration = stride * scene.dt * -(-scene.num_frames // stride)
    return with_plots(page, curves, scene.dt, duration, dark_mode=dark_mode)


COLORS = ("#2e86ab", "#e4572e", "#5b8e3c", "#7d4fa8", "#e8a628", "#3aa6a0", "#c2478d", "#6b705c")
#: With more curves, the panel is slow and the curves are hard to tell apart.
MAX_CURVES = 24
MAX_POINTS = 1000


def checked_series(series: Mapping[str, npt.ArrayLike], num_frames: int) -> dict[str, np.ndarray]:
    """Checks series and returns them as arrays [T, C].

    Raises:
      ValueError: a series has another length than the motion, too many axes or too many curves.
    """
    checked = {}
    for name, curves in series.items():
        values = np.asarray(curves, float)
        if values.ndim not in (1, 2) or len(values) != num_frames:
            raise ValueError(
                f"series {name!r} must have shape [{num_frames}] or [{num_frames}, C]; found "
                f"{values.shape}"
            )
        values = values.reshape(num_frames, -1)
        if not 1 <= values.shape[1] <= MAX_CURVES:
            raise ValueError(
                f"series {name!r} has {values.shape[1]} curves; give from 1 to {MAX_CURVES} of them"
            )
        checked[name] = values
    return checked


def thinned(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Curves with at most :data:`MAX_POINTS` points, which keep their peaks: of each span, the
    least and the largest value in the order in which they occur.

    Args:
      values: the curves, [T, C].

    Returns:
      Frames [P], increasing, and values there [P, C]; finite ones in spans that have any.
    """
    if len(values) <= MAX_POINTS:
        return np.arange(len(values)), values
    edges = np.linspace(0, len(values), MAX_POINTS // 2 + 1).astype(int)
    frames, kept = list[int](), list[np.ndarray]()
    for start, end in itertools.pairwise(edges):
        span = values[start:end]
        is_finite = np.isfinite(span)
        lowest = np.argmin(np.where(is_finite, span, np.inf), axis=0)
        highest = np.argmax(np.where(is_finite, span, -np.inf), axis=0)
        for place in (np.minimum(lowest, highest), np.maximum(lowest, highest)):
            kept.append(np.take_along_axis(span, place[None], axis=0)[0])
        frames += [start, (start + end) // 2]
    return np.array(frames), np.array(kept)


class Plot:
    """A plot of curves; :meth:`show` marks a frame.

    Args:
      gui: viser's panel.
      name: name of the series.
      values: the curves, [T, C].
      dt: time from one frame to the next [s].
    """

    def __init__(self, gui: Any, name: str, values: np.ndarray, dt: float) -> None:
        self._frames, kept = thinned(values)
        self._time = dt * self._frames
        self._curves = kept.T
        finite = kept[np.isfinite(kept)] if np.isfinite(kept).any() else np.zeros(1)
        self._low, self._high = float(finite.min()), float(finite.max())
        margin = 0.05 * (self._high - self._low) or 1.0
        labels = (
            [name] if len(self._curves) == 1 else [f"{name} {k}" for k in range(len(self._curves))]
        )
        lines = [
            {"label": label, "stroke": COLORS[k % len(COLORS)], "width": 1.5}
            for k, label in enumerate(labels)
        ]
        self._handle = gui.add_uplot(
            data=self._data(0),
            series=(
                {"label": "time [s]"},
                *lines,
                {"label": "now", "stroke": "#1f2933", "width": 1},
            ),
            title=name,
            scales={
                "x": {"time": False},
                "y": {"auto": False, "range": (self._low - margin, self._high + margin)},
            },
            legend={"show": 1 < len(self._curves) <= 6},
            aspect=1.7,
        )

    def show(self, frame: int) -> None:
        """Marks a frame with a vertical line."""
        self._handle.data = self._data(frame)

    def _data(self, frame: int) -> tuple[np.ndarray, ...]:
        """The times, the curves, and a vertical line at the frame, whose time occurs twice for that
        purpose.
        """
        place = int(np.searchsorted(self._frames, frame, side="right")) - 1
        twice = np.insert(np.arange(len(self._time)), place, place)
        cursor = np.full(len(twice), np.nan)
        cursor[place : place + 2] = self._low, self._high
        return (self._time[twice], *(curve[twice] for curve in self._curves), cursor)


# --- plots in HTML ------------------------------------------------------------------------------

#: Height of each plot [pixels].
HEIGHT = 96

STYLE = """<style>
html body { display: flex; flex-direction: column; }
html body > #root { flex: 1 1 0; min-height: 0; height: auto; }
#plots { flex: none; max-height: 50%; overflow-y: auto; }
#plots { font: 11px sans-serif; color: INK; background: PAPER; }
#plots figure { position: relative; height: HEIGHTpx; margin: 0; }
#plots figure { border-top: 1px solid #8884; cursor: crosshair; }
#plots .area { position: absolute; inset: 20px 12px 6px 64px; }
#plots svg { position: absolute; width: 100%; height: 100%; overflow: visible; }
#plots path { fill: none; stroke-width: 1.5; vector-effect: non-scaling-stroke; }
#plots .now { position: absolute; top: 0; bottom: 0; left: 0; border-left: 1px solid INK; }
#plots figcaption { position: absolute; top: 4px; left: 64px; }
#plots figcaption span { margin-right: 1.2em; }
#plots .end { position: absolute; right: calc(100% - 58px); white-space: nowrap; }
</style>
"""

SCRIPT = """<script>
(() => {
  const marks = document.querySelectorAll("#plots .now");
  const scrubber = () => document.querySelector("#root [role=slider]");
  const follow = () => {
    const thumb = scrubber();
    if (thumb) {
      const share = thumb.getAttribute("aria-valuenow") / thumb.getAttribute("aria-valuemax");
      for (const mark of marks) mark.style.left = 100 * share + "%";
    }
    requestAnimationFrame(follow);
  };
  follow();
  const press = (event) => {
    const thumb = scrubber();
    if (!thumb || !(event.buttons & 1)) return;
    const area = event.currentTarget.querySelector(".area").getBoundingClientRect();
    const track = thumb.parentElement, box = track.getBoundingClientRect();
    const share = Math.min(Math.max((event.clientX - area.left) / area.width, 0), 1);
    const x = box.left + share * box.width;
    const there = { clientX: x, clientY: box.top + 1, bubbles: true, buttons: 1 };
    for (const kind of ["mousedown", "mousemove", "mouseup"])
      track.dispatchEvent(new MouseEvent(kind, there));
  };
  for (const figure of document.querySelectorAll("#plots figure"))
    for (const kind of ["mousedown", "mousemove"]) figure.addEventListener(kind, press);
})();
</script>
"""


def with_plots(
    page: str, series: Mapping[str, np.ndarray], dt: float, duration: float, *, dark_mode: bool
) -> str:
    """Adds plots below the player to a page of viser.

    Args:
      page: the page.
      series: the curves by name, [T, C].
      dt: time from one value of a curve to the next [s].
      duration: duration of the recording [s].
      dark_mode: whether the background is dark.
    """
    if not series:
        return page
    colors = (
        {"INK": "#c9d1d9", "PAPER": "#141414"}
        if dark_mode
        else {"INK": "#1f2933", "PAPER": "#ffffff"}
    )
    style = STYLE.replace("HEIGHT", str(HEIGHT))
    for word, color in colors.items():
        style = style.replace(word, color)
    figures = "".join(_figure(name, values, dt, duration) for name, values in series.items())
    end = page.rindex("</body>")
    return f'{page[:end]}{style}<div id="plots">{figures}</div>\n{SCRIPT}{page[end:]}'


def _figure(name: str, values: np.ndarray, dt: float, duration: float) -> str:
    frames, kept = thinned(values)
    finite = kept[np.isfinite(kept)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    across = 1000.0 * dt * frames / duration
    down = (
        100.0 * (high - kept) / (high - low)
        if high > low
        else np.where(np.isfinite(kept), 50.0, np.nan)
    )
    labels = [name] if kept.shape[1] == 1 else [f"{name} {k}" for k in range(kept.shape[1])]
    colors = [COLORS[k % len(COLORS)] for k in range(len(labels))]
    paths = "".join(
        f'<path stroke="{color}" d="{_path(across, curve)}"/>'
        for color, curve in zip(colors, down.T, strict=True)
    )
    legend = zip(labels, colors, strict=True) if len(labels) <= 6 else [(name, "inherit")]
    caption = "".join(
        f'<span style="color: {color}">{html.escape(label)}</span>' for label, color in legend
    )
    return (
        f"<figure><figcaption>{caption}</figcaption>"
        f'<span class="end" style="top: 14px">{high:.3g}</span>'
        f'<span class="end" style="bottom: 0">{low:.3g}</span>'
        f'<div class="area"><svg viewBox="0 0 1000 100" preserveAspectRatio="none">{paths}</svg>'
        f'<div class="now"></div></div></figure>\n'
    )


def _path(across: np.ndarray, down: np.ndarray) -> str:
    """A curve as an SVG path, interrupted where it is not finite."""
    words = list[str]()
    pen = "M"
    for x, y in zip(across, down, strict=True):
        if np.isfinite(y):
            words.append(f"{pen}{x:.5g} {y:.4g}")
        pen = "L" if np.isfinite(y) else "M"
    return "".join(words)
