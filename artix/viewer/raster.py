"""Rasterises triangles in NumPy with a depth buffer, without a GPU, a display or a browser."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Number of pairs of triangles and pixels processed at a time, which bounds the memory.
AT_ONCE = 3_000_000


class Fragments(NamedTuple):
    """The triangle and the depth of each pixel of a picture [H, W].

    Attributes:
      triangle: index of the nearest triangle, or -1, [H, W].
      depth: its distance from the camera, or ``inf``, [H, W].
      weights: barycentric coordinates of the pixel in the triangle, [H, W, 3].
    """

    triangle: np.ndarray
    depth: np.ndarray
    weights: np.ndarray


def rasterize(corners: np.ndarray, size: tuple[int, int], *, perspective: bool) -> Fragments:
    """Finds the nearest triangle of each pixel.

    Args:
      corners: corners of N triangles in the picture: x right and y down in pixels, and depth, shape [N, 3, 3]. Leave
        out triangles behind the camera.
      size: width and height of the picture.
      perspective: whether the camera is perspective: then reciprocals of depths are linear in the picture.
    """
    width, height = size
    xy, z = corners[:, :, :2], corners[:, :, 2]
    low = np.clip(np.floor(xy.min(axis=1)).astype(int), 0, [width, height])
    high = np.clip(np.ceil(xy.max(axis=1)).astype(int), 0, [width, height])
    spans = high - low
    (x0, y0), (x1, y1), (x2, y2) = (xy[:, k].T for k in range(3))
    area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
    counts = np.where(np.abs(area) > 1e-9, spans[:, 0] * spans[:, 1], 0)
    found = Fragments(
        np.full(width * height, -1), np.full(width * height, np.inf), np.zeros((width * height, 3), np.float32)
    )
    for chunk in _chunks(counts):
        triangle = np.repeat(chunk, counts[chunk])
        number = np.arange(len(triangle)) - np.repeat(np.cumsum(counts[chunk]) - counts[chunk], counts[chunk])
        column = low[triangle, 0] + number % spans[triangle, 0]
        row = low[triangle, 1] + number // spans[triangle, 0]
        x, y, t = column + 0.5, row + 0.5, triangle
        w1 = ((x - x0[t]) * (y2[t] - y0[t]) - (x2[t] - x0[t]) * (y - y0[t])) / area[t]
        w2 = ((x1[t] - x0[t]) * (y - y0[t]) - (x - x0[t]) * (y1[t] - y0[t])) / area[t]
        w0 = 1.0 - w1 - w2
        inside = (w0 >= 0) & (w1 >= 0) & (w2 >= 0)
        weights = np.stack([w0, w1, w2], axis=1)[inside]
        _keep_nearest(found, t[inside], (row * width + column)[inside], weights, z, perspective)
    return Fragments(
        found.triangle.reshape(height, width),
        found.depth.reshape(height, width),
        found.weights.reshape(height, width, 3),
    )


def _chunks(counts: np.ndarray) -> list[np.ndarray]:
    """Indices of the triangles that cover any pixels, in groups of bounded size."""
    live = np.flatnonzero(counts)
    return np.split(live, np.flatnonzero(np.diff(np.cumsum(counts[live]) // AT_ONCE)) + 1) if len(live) else []


def _keep_nearest(
    found: Fragments, triangle: np.ndarray, pixel: np.ndarray, weights: np.ndarray, z: np.ndarray, perspective: bool
) -> None:
    """Keeps the nearer of old and new fragments in each pixel."""
    if perspective:
        weights = weights / z[triangle]
        depth = 1.0 / weights.sum(axis=1)
        weights = weights * depth[:, None]
    else:
        depth = np.sum(weights * z[triangle], axis=1)
    nearest = found.depth.copy()
    np.minimum.at(nearest, pixel, depth)
    wins = (depth == nearest[pixel]) & (depth < found.depth[pixel])
    won = pixel[wins]
    found.depth[won], found.triangle[won], found.weights[won] = depth[wins], triangle[wins], weights[wins]
