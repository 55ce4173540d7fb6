"""Plots of series below a recording in HTML, with a cursor at its time.

The recording is viser's player, which has no plots. The plots know only its scrubber, a slider with accessibility
attributes: they read its time and send it clicks.
"""

from __future__ import annotations

import html
from collections.abc import Mapping

import numpy as np

from artix.viewer.plots import COLORS

#: Height of each plot [pixels].
HEIGHT = 96
#: Most screens show a plot with at most so many pixels.
MAX_POINTS = 1000

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
    words, pen = list[str](), "M"
    for x, y in zip(across, down, strict=True):
        if np.isfinite(y):
            words.append(f"{pen}{x:.5g} {y:.4g}")
        pen = "L" if np.isfinite(y) else "M"
    return "".join(words)
