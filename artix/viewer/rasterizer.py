"""Cameras, and triangles shaded and rasterised for them with NumPy only: no GPU, display or
browser.

Light comes from above, with shadows, and the floor fades.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from artix.viewer.meshes import (
    TriangleMesh,
)

LIGHT = np.array([0.35, -0.45, 0.82]) / np.linalg.norm([0.35, -0.45, 0.82])
SHADOW_MAP = 1024


@dataclasses.dataclass
class Triangles:
    """N triangles in the world.

    Attributes:
      corners: positions of the corners, [N, 3, 3] [m].
      normals: normals at the corners, [N, 3, 3].
      colors: red, green and blue from 0 to 1, [N, 3].
      opacities: opacities at the corners, [N, 3].
      casts: whether each triangle casts shadows, [N].
      body: number of the body that each belongs to, [N]. Of a translucent body, only the nearest
        surface is seen.
    """

    corners: np.ndarray
    normals: np.ndarray
    colors: np.ndarray
    opacities: np.ndarray
    casts: np.ndarray
    body: np.ndarray

    @classmethod
    def join(cls, parts: list[Triangles]) -> Triangles:
        """Joins several sets of triangles."""
        if not parts:
            corners = np.zeros((0, 3, 3))
            none = np.zeros(0, int)
            return cls(corners, corners, corners[:, 0], corners[:, 0], none.astype(bool), none)
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def select(self, mask: np.ndarray) -> Triangles:
        """The triangles that a mask selects."""
        return Triangles(*(getattr(self, field.name)[mask] for field in dataclasses.fields(self)))


def corner_normals(mesh: TriangleMesh) -> np.ndarray:
    """Normals at the corners of each triangle [F, 3, 3]: means over the triangles of a vertex,
    weighted by area.
    """
    corners = mesh.vertices[mesh.faces].astype(float)
    crossed = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    sums = np.zeros((len(mesh.vertices), 3))
    for k in range(3):
        np.add.at(sums, mesh.faces[:, k], crossed)
    return (sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-30))[mesh.faces]


def shade(
    triangles: Triangles,
    camera: Camera,
    size: tuple[int, int],
    *,
    samples: int = 2,
    background: np.ndarray | None,
) -> np.ndarray:
    """Draws a picture of triangles.

    Args:
      triangles: the triangles.
      camera: the camera.
      size: width and height [pixels].
      samples: samples per pixel along each axis.
      background: the colour behind them, red, green and blue from 0 to 1, shape [3]; transparent
        when ``None``.

    Returns:
      Red, green, blue and opacity from 0 to 1, shape [height, width, 4].
    """
    fine = (samples * size[0], samples * size[1])
    # About the point in the middle, since single precision has no digits for far places.
    middle = np.asarray(camera.look_at, float)
    camera = Camera(np.asarray(camera.position, float) - middle, np.zeros(3), camera.fov)
    triangles = dataclasses.replace(triangles, corners=triangles.corners - middle)
    solid = np.all(triangles.opacities > 0.999, axis=1)
    shadows = Shadows.of(triangles.corners[triangles.casts])
    anywhere = np.full(fine[::-1], np.inf)
    behind, nearest = _draw(triangles.select(solid), shadows, camera, fine, anywhere)
    clear = triangles.select(~solid & np.any(triangles.opacities > 0, axis=1))
    picture = _translucent(clear, shadows, camera, fine, nearest)
    picture += (1 - picture[..., 3:]) * behind
    subpixels = [picture[i::samples, j::samples] for i in range(samples) for j in range(samples)]
    mean = sum(subpixels[1:], start=subpixels[0].astype(float)) / samples**2
    if background is not None:
        mean[..., :3] += (1.0 - mean[..., 3:]) * background
        mean[..., 3] = 1.0
    else:
        mean[..., :3] /= np.maximum(mean[..., 3:], 1e-9)
    return np.clip(mean, 0.0, 1.0)


#: How many translucent bodies are seen through one another at most.
MOST_LAYERS = 8


def _translucent(
    shown: Triangles,
    shadows: Shadows | None,
    camera: Camera,
    size: tuple[int, int],
    depth: np.ndarray,
) -> np.ndarray:
    """Draws translucent bodies before something solid of this depth [H, W], from the nearest on:
    premultiplied red, green, blue and opacity, [H, W, 4].
    """
    picture = np.zeros((size[1], size[0], 4), np.float32)
    seen = np.zeros(size[::-1], np.uint64)
    bodies, number = np.unique(shown.body, return_inverse=True)
    shown.body = number.reshape(-1) % 64
    for _ in range(min(len(bodies), MOST_LAYERS)):
        layer, nearest = _draw(shown, shadows, camera, size, depth, seen)
        if not (nearest < depth).any():
            break
        picture += (1 - picture[..., 3:]) * layer
    return picture


def _draw(
    shown: Triangles,
    shadows: Shadows | None,
    camera: Camera,
    size: tuple[int, int],
    depth: np.ndarray,
    past: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draws the nearest triangles.

    Args:
      shown: the triangles.
      shadows: the shadows; ``None`` for none.
      camera: the camera.
      size: width and height of the picture.
      depth: what is not nearer is not drawn, [H, W].
      past: a bit for each body that is not drawn in a pixel, [H, W]; those drawn are added.

    Returns:
      Premultiplied red, green, blue and opacity, [H, W, 4], and the new depths, [H, W].
    """
    picture = np.zeros((size[1], size[0], 4), np.float32)
    projected = camera.project(shown.corners, size)
    ahead = np.all(projected[..., 2] > 1e-3, axis=1)
    shown = shown.select(ahead)
    projected = projected[ahead]
    bits = np.uint64(1) << shown.body.astype(np.uint64) if past is not None else None
    seen = rasterize(projected, size, perspective=True, bits=bits, past=past)
    hit = (seen.triangle >= 0) & (seen.depth < depth)
    index, weights = seen.triangle[hit], seen.weights[hit]
    point = np.einsum("pk,pki->pi", weights, shown.corners.astype(np.float32)[index])
    normal = _unit(np.einsum("pk,pki->pi", weights, shown.normals.astype(np.float32)[index]))
    away = _unit(np.asarray(camera.position, np.float32) - point)
    # Surfaces have two sides.
    normal *= np.where(_dot(normal, away) < 0, np.float32(-1), np.float32(1))[:, None]
    lit = 1.0 if shadows is None else shadows.lit(point, normal)
    direct = np.maximum(normal @ LIGHT.astype(np.float32), 0) * lit
    gloss = 0.14 * np.maximum(_dot(normal, _unit(away + LIGHT.astype(np.float32))), 0) ** 40 * lit
    brightness = 0.44 + 0.10 * normal[:, 2] + 0.52 * direct
    color = shown.colors.astype(np.float32)[index] * brightness[:, None] + gloss[:, None]
    opacity = np.einsum("pk,pk->p", weights, shown.opacities.astype(np.float32)[index])[:, None]
    premultiplied = np.concatenate([np.clip(color, 0, 1) * opacity, opacity], axis=1)
    picture[hit] = premultiplied
    if past is not None and bits is not None:
        past[hit] |= bits[index]
    return picture, np.where(hit, seen.depth, depth)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("pi,pi->p", a, b)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.sqrt(_dot(vectors, vectors)), 1e-12)[:, None]


class Shadows(NamedTuple):
    """What the light sees: a map of depths.

    Attributes:
      depth: the depth behind which each texel has shadow, and a border of two texels without any,
        [S + 4, S + 4].
      axes: axes of the map as columns, the last one away from the light.
      low: where the map begins [m], shape [2].
      scale: texels per metre.
    """

    depth: np.ndarray
    axes: np.ndarray
    low: np.ndarray
    scale: float

    @classmethod
    def of(cls, corners: np.ndarray) -> Shadows | None:
        """The shadows of triangles with these corners, [N, 3, 3]; ``None`` if there are none."""
        if not len(corners):
            return None
        right = np.cross([0.0, 1.0, 0.0], LIGHT)
        right /= np.linalg.norm(right)
        axes = np.stack([right, np.cross(LIGHT, right), -LIGHT], axis=1)
        seen = corners @ axes
        low, high = seen.min(axis=(0, 1)), seen.max(axis=(0, 1))
        scale = SHADOW_MAP / max(float((high - low)[:2].max()), 1e-9)
        seen[..., :2] = (seen[..., :2] - low[:2]) * scale
        depth = rasterize(seen, (SHADOW_MAP, SHADOW_MAP), perspective=False).depth
        bordered = np.pad(depth.astype(np.float32), 2, constant_values=np.inf)
        return cls(bordered, axes, low[:2], scale)

    def lit(self, point: np.ndarray, normal: np.ndarray) -> np.ndarray:
        """How much light reaches each point, from 0 to 1."""
        # Away from its own surface by more than a texel.
        moved = point + normal * np.float32(2.5 / self.scale)
        x, y, depth = self.axes.T.astype(np.float32) @ moved.T
        x = (x - np.float32(self.low[0])) * self.scale
        y = (y - np.float32(self.low[1])) * self.scale
        middle = SHADOW_MAP / 2
        near = (np.abs(x - middle) < middle + 1) & (np.abs(y - middle) < middle + 1)
        depth = depth[near]
        row = SHADOW_MAP + 4
        place = np.floor(y[near] + 2).astype(int) * row + np.floor(x[near] + 2).astype(int)
        offsets = [row * y + x for y in (-1, 0, 1) for x in (-1, 0, 1)]
        light = np.ones(len(point), np.float32)
        light[near] = sum(
            (self.depth.ravel()[place + k] > depth).astype(np.float32) for k in offsets
        ) / len(offsets)
        return light


#: Number of fragments processed at a time, which bounds the memory.
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


def rasterize(
    corners: np.ndarray,
    size: tuple[int, int],
    *,
    perspective: bool,
    bits: np.ndarray | None = None,
    past: np.ndarray | None = None,
) -> Fragments:
    """Finds the nearest triangle of each pixel.

    Args:
      corners: corners of N triangles in the picture: x right and y down in pixels, and depth, shape
        [N, 3, 3]. Leave out triangles behind the camera.
      size: width and height of the picture.
      perspective: whether the camera is perspective: then reciprocals of depths are linear in the
        picture.
      bits: a bit for each triangle, [N], and
      past: those bits whose triangles are left out of a pixel, [H, W]; ``None`` for no such thing.
    """
    width, height = size
    x, y, z = np.moveaxis(corners, 2, 0)
    low, high = (
        np.clip(np.rint(edge(y, axis=1)).astype(int), 0, height) for edge in (np.min, np.max)
    )
    planes, is_flat = _barycentric(x, y)
    live = np.flatnonzero(~is_flat & (high > low))
    owner = np.repeat(live, (high - low)[live])
    row = low[owner] + _count(high[live] - low[live])
    # In a row, each coordinate is linear in x, and the pixels where none is negative are
    # successive.
    slope = planes[owner, :, 0]
    start = planes[owner, :, 1] * (row + 0.5)[:, None] + planes[owner, :, 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = -start / slope
    first = np.where(slope > 0, zero, -np.inf).max(axis=1, initial=-np.inf)
    last = np.where(slope < 0, zero, np.inf).min(axis=1, initial=np.inf)
    first, end = (np.ceil(np.clip(edge - 0.5, 0, width)).astype(int) for edge in (first, last))
    counts = np.maximum(end - first, 0)
    counts[np.any((slope == 0) & (start < 0), axis=1)] = 0
    depths = (1.0 / z if perspective else z)[owner]
    along = np.sum(slope * depths, axis=1)
    at_zero = np.sum(start * depths, axis=1)
    triangle = np.full(width * height, -1)
    depth = np.full(width * height, np.inf)
    for chunk in _chunks(counts):
        number = counts[chunk]
        column = np.repeat(first[chunk], number) + _count(number)
        pixel = np.repeat(row[chunk] * width, number) + column
        new = np.repeat(along[chunk], number) * (column + 0.5) + np.repeat(at_zero[chunk], number)
        new = 1.0 / new if perspective else new
        if bits is not None and past is not None:
            is_past = np.repeat(bits[owner[chunk]], number) & past.ravel()[pixel] != 0
            new = np.where(is_past, np.inf, new)
        np.minimum.at(depth, pixel, new)
        wins = (new == depth[pixel]) & (new < np.inf)
        triangle[pixel[wins]] = np.repeat(owner[chunk], number)[wins]
    weights = np.zeros((width * height, 3), np.float32)
    drawn = np.flatnonzero(triangle >= 0)
    of = triangle[drawn]
    place = np.stack([drawn % width + 0.5, drawn // width + 0.5, np.ones(len(drawn))], axis=1)
    weights[drawn] = np.einsum("pki,pi->pk", planes[of], place)
    if perspective:
        weights[drawn] *= depth[drawn, None] / z[of]
    return Fragments(
        triangle.reshape(height, width),
        depth.reshape(height, width),
        weights.reshape(height, width, 3),
    )


def _barycentric(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Barycentric coordinates of triangles as functions of x, y and 1, [N, 3, 3]; whether a
    triangle has no area.
    """
    (x0, x1, x2), (y0, y1, y2) = x.T, y.T
    area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
    is_flat = np.abs(area) <= 1e-9
    area = np.where(is_flat, 1.0, area)
    slopes = np.array([[y1 - y2, x2 - x1], [y2 - y0, x0 - x2], [y0 - y1, x1 - x0]]) / area
    # The coordinate of a corner is zero at the next one.
    constants = -(slopes[:, 0] * np.stack([x1, x2, x0]) + slopes[:, 1] * np.stack([y1, y2, y0]))
    return np.concatenate([slopes, constants[:, None]], axis=1).transpose(2, 0, 1), is_flat


def _count(numbers: np.ndarray) -> np.ndarray:
    """Counts from zero to each number: [2, 3] becomes [0, 1, 0, 1, 2]."""
    return np.arange(numbers.sum()) - np.repeat(np.cumsum(numbers) - numbers, numbers)


def _chunks(counts: np.ndarray) -> list[np.ndarray]:
    """Indices of the rows of triangles that have any pixels, in groups of bounded size."""
    live = np.flatnonzero(counts)
    return (
        np.split(live, np.flatnonzero(np.diff(np.cumsum(counts[live]) // AT_ONCE)) + 1)
        if len(live)
        else []
    )


@dataclasses.dataclass(frozen=True)
class Camera:
    """A camera that looks at a point, with z up in its pictures.

    Attributes:
      position: its position in world axes [m], shape [3].
      look_at: the point at the centre of the picture, in world axes [m], shape [3].
      fov: the angle that the picture's height spans [rad].

    Examples:
      >>> from artix import viewer
      >>> camera = viewer.Camera(position=(3.0, 0.0, 1.0), look_at=(0.0, 0.0, 1.0))
      >>> camera.project(jnp.array([0.0, 0.0, 1.0]), (800, 600)).tolist()
      [400.0, 300.0, 3.0]
    """

    position: npt.ArrayLike
    look_at: npt.ArrayLike
    fov: float = 0.6

    @classmethod
    def around(
        cls,
        points: npt.ArrayLike,
        *,
        azimuth: float = -0.9,
        elevation: float = 0.35,
        aspect: float = 4 / 3,
        fov: float = 0.6,
        margin: float = 1.12,
    ) -> Camera:
        """Places a camera so that all given points are in the picture.

        Args:
          points: points in world axes [m], shape [..., 3].
          azimuth: direction from the points to the camera: angle from x about z [rad].
          elevation: angle of the camera above the horizon [rad].
          aspect: the picture's width over its height.
          fov: the angle that the picture's height spans [rad].
          margin: factor on the smallest distance that suffices.
        """
        cloud = np.asarray(points, float).reshape(-1, 3)
        middle = 0.5 * (cloud.min(axis=0) + cloud.max(axis=0))
        out = np.array(
            [
                np.cos(elevation) * np.cos(azimuth),
                np.cos(elevation) * np.sin(azimuth),
                np.sin(elevation),
            ]
        )
        right, up, _ = _camera_axes(out)
        half = np.tan(0.5 * fov)
        far = cloud - middle
        needed = [
            far @ out + np.abs(far @ right) / (half * aspect),
            far @ out + np.abs(far @ up) / half,
        ]
        distance = margin * max(float(np.max(needed)), 1e-3)
        return cls(tuple((middle + distance * out).tolist()), tuple(middle.tolist()), fov)

    def project(self, points: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Projects points [..., 3] onto a picture of this width and height: x right, y down
        [pixels], depth [m].
        """
        position = np.asarray(self.position, float)
        right, up, back = _camera_axes(position - np.asarray(self.look_at, float))
        seen = points - position
        depth = -(seen @ back)
        scale = 0.5 * size[1] / np.tan(0.5 * self.fov) / np.where(np.abs(depth) > 1e-9, depth, 1e-9)
        return np.stack(
            [0.5 * size[0] + seen @ right * scale, 0.5 * size[1] - seen @ up * scale, depth],
            axis=-1,
        )


def _camera_axes(back: np.ndarray) -> np.ndarray:
    """Right, up and back of a camera that looks against ``back``, as rows."""
    back = back / np.linalg.norm(back)
    right = np.cross([0.0, 0.0, 1.0], back)
    if np.linalg.norm(right) < 1e-6:  # It looks straight down or up.
        right = np.array([1.0, 0.0, 0.0])
    right = right / np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back])
