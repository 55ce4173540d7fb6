"""Plots of series over time beside a scene, with a cursor at its time."""

from __future__ import annotations

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
    found = {}
    for name, given in series.items():
        values = np.asarray(given, float)
        if values.ndim not in (1, 2) or len(values) != num_frames:
            raise ValueError(
                f"series {name!r} must have shape [{num_frames}] or [{num_frames}, C]; found {values.shape}"
            )
        values = values.reshape(num_frames, -1)
        if not 1 <= values.shape[1] <= MAX_CURVES:
            raise ValueError(f"series {name!r} has {values.shape[1]} curves; give from 1 to {MAX_CURVES} of them")
        found[name] = values
    return found


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
        now = np.full(len(twice), np.nan)
        now[place : place + 2] = self._low, self._high
        return (self._time[twice], *(curve[twice] for curve in self._curves), now)
