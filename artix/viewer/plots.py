"""Plots of series over time, beside a scene in a browser and below a recording in HTML, with a cursor at its time."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

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
                f"series {name!r} must have shape [{num_frames}] or [{num_frames}, C]; found {values.shape}"
            )
        values = values.reshape(num_frames, -1)
        if not 1 <= values.shape[1] <= MAX_CURVES:
            raise ValueError(f"series {name!r} has {values.shape[1]} curves; give from 1 to {MAX_CURVES} of them")
        checked[name] = values
    return checked


class Plot:
    """A plot of curves; :meth:`show` marks a frame.

    Args:
      gui: viser's panel.
      name: name of the series.
      values: the curves, [T, C].
      dt: time from one frame to the next [s].
    """

    def __init__(self, gui: Any, name: str, values: np.ndarray, dt: float) -> None:
        self._stride = max(1, -(-len(values) // MAX_POINTS))
        kept = values[:: self._stride]
        self._time = dt * self._stride * np.arange(len(kept))
        self._curves = kept.T
        finite = kept[np.isfinite(kept)] if np.isfinite(kept).any() else np.zeros(1)
        self._low, self._high = float(finite.min()), float(finite.max())
        margin = 0.05 * (self._high - self._low) or 1.0
        labels = [name] if len(self._curves) == 1 else [f"{name} {k}" for k in range(len(self._curves))]
        lines = [{"label": label, "stroke": COLORS[k % len(COLORS)], "width": 1.5} for k, label in enumerate(labels)]
        self._handle = gui.add_uplot(
            data=self._data(0),
            series=({"label": "time [s]"}, *lines, {"label": "now", "stroke": "#1f2933", "width": 1}),
            title=name,
            scales={"x": {"time": False}, "y": {"auto": False, "range": (self._low - margin, self._high + margin)}},
            legend={"show": 1 < len(self._curves) <= 6},
            aspect=1.7,
        )

    def show(self, frame: int) -> None:
        """Marks a frame with a vertical line."""
        self._handle.data = self._data(frame)

    def _data(self, frame: int) -> tuple[np.ndarray, ...]:
        """The times, the curves, and a vertical line at the frame, whose time occurs twice for that purpose."""
        place = min(frame // self._stride, len(self._time) - 1)
        twice = np.insert(np.arange(len(self._time)), place, place)
        cursor = np.full(len(twice), np.nan)
        cursor[place : place + 2] = self._low, self._high
        return (self._time[twice], *(curve[twice] for curve in self._curves), cursor)


# --- plots in HTML -------------------------------------------------------------------------------

#: Height of each plot [pixels].
HEIGHT = 96

STYLE = """<style>
html body { display: flex; flex-direction: column; }
html body > #root { flex: 1 1 0; min-height: 0; height: auto; }
#plots { flex: none; max-height: 50%; overflow-y: auto; font: 11px sans-serif; color: INK; background: PAPER; }
#plots figure { position: relative; height: HEIGHTpx; margin: 0; border-top: 1px solid #8884; cursor: crosshair; }
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
    const there = { clientX: box.left + share * box.width, clientY: box.top + 1, bubbles: true, buttons: 1 };
    for (const kind of ["mousedown", "mousemove", "mouseup"]) track.dispatchEvent(new MouseEvent(kind, there));
  };
  for (const figure of document.querySelectorAll("#plots figure"))
    for (const kind of ["mousedown", "mousemove"]) figure.addEventListener(kind, press);
})();
</script>
"""


def with_plots(page: str, series: Mapping[str, np.ndarray], dt: float, duration: float, *, dark_mode: bool) -> str:
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
    colors = {"INK": "#c9d1d9", "PAPER": "#141414"} if dark_mode else {"INK": "#1f2933", "PAPER": "#ffffff"}
    style = STYLE.replace("HEIGHT", str(HEIGHT))
    for word, color in colors.items():
        style = style.replace(word, color)
    figures = "".join(_figure(name, values, dt, duration) for name, values in series.items())
    end = page.rindex("</body>")
    return f'{page[:end]}{style}<div id="plots">{figures}</div>\n{SCRIPT}{page[end:]}'


def _figure(name: str, values: np.ndarray, dt: float, duration: float) -> str:
    stride = max(1, -(-len(values) // MAX_POINTS))
    kept = values[::stride]
    finite = kept[np.isfinite(kept)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    across = 1000.0 * dt * stride * np.arange(len(kept)) / duration
    down = 100.0 * (high - kept) / (high - low) if high > low else np.where(np.isfinite(kept), 50.0, np.nan)
    labels = [name] if kept.shape[1] == 1 else [f"{name} {k}" for k in range(kept.shape[1])]
    colors = [COLORS[k % len(COLORS)] for k in range(len(labels))]
    paths = "".join(
        f'<path stroke="{color}" d="{_path(across, curve)}"/>' for color, curve in zip(colors, down.T, strict=True)
    )
    legend = zip(labels, colors, strict=True) if len(labels) <= 6 else [(name, "inherit")]
    caption = "".join(f'<span style="color: {color}">{html.escape(label)}</span>' for label, color in legend)
    return (
        f"<figure><figcaption>{caption}</figcaption>"
        f'<span class="end" style="top: 14px">{high:.3g}</span><span class="end" style="bottom: 0">{low:.3g}</span>'
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
