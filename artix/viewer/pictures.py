"""Pictures of a scene: cameras, and triangles shaded for them with NumPy only, without a GPU, a display or a browser.

Light comes from above, with shadows, and the floor fades.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from artix import HeightField, Plane, State
from artix.io.common.atomic_file import check_writable, write_atomically
from artix.viewer.meshes import (
    TriangleMesh,
    compose,
    cone_mesh,
    cylinder_mesh,
    height_field_mesh,
    plane_mesh,
    quaternion_from_z_to,
    rotate,
    sphere_mesh,
    transform,
)
from artix.viewer.scene import Crowd, Robots, Scene, make_scene
from artix.viewer.visuals import Visual

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
    """

    corners: np.ndarray
    normals: np.ndarray
    colors: np.ndarray
    opacities: np.ndarray
    casts: np.ndarray

    @classmethod
    def join(cls, parts: list[Triangles]) -> Triangles:
        """Joins several sets of triangles."""
        if not parts:
            corners = np.zeros((0, 3, 3))
            return cls(corners, corners, corners[:, 0], corners[:, 0], np.zeros(0, bool))
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def select(self, mask: np.ndarray) -> Triangles:
        """The triangles that a mask selects."""
        return Triangles(*(getattr(self, field.name)[mask] for field in dataclasses.fields(self)))


def corner_normals(mesh: TriangleMesh) -> np.ndarray:
    """Normals at the corners of each triangle [F, 3, 3]: means over the triangles of a vertex, weighted by area."""
    corners = mesh.vertices[mesh.faces].astype(float)
    crossed = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    sums = np.zeros((len(mesh.vertices), 3))
    for k in range(3):
        np.add.at(sums, mesh.faces[:, k], crossed)
    return (sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-30))[mesh.faces]


def shade(
    triangles: Triangles, camera: Camera, size: tuple[int, int], *, samples: int = 2, background: np.ndarray | None
) -> np.ndarray:
    """Draws a picture of triangles.

    Args:
      triangles: the triangles.
      camera: the camera.
      size: width and height [pixels].
      samples: samples per pixel along each axis.
      background: the colour behind them, red, green and blue from 0 to 1, shape [3]; transparent when ``None``.

    Returns:
      Red, green, blue and opacity from 0 to 1, shape [height, width, 4].
    """
    fine = (samples * size[0], samples * size[1])
    picture = np.zeros((fine[1], fine[0], 4), np.float32)
    solid = np.all(triangles.opacities > 0.999, axis=1)
    shadows = Shadows.of(triangles.corners[triangles.casts])
    depth = np.full(fine[::-1], np.inf)
    for mask, is_solid in ((solid, True), (~solid, False)):
        if mask.any():
            depth = _draw(picture, depth, triangles.select(mask), shadows, camera, fine, is_solid)
    subpixels = [picture[i::samples, j::samples] for i in range(samples) for j in range(samples)]
    mean = sum(subpixels[1:], start=subpixels[0].astype(float)) / samples**2
    if background is not None:
        mean[..., :3] += (1.0 - mean[..., 3:]) * background
        mean[..., 3] = 1.0
    else:
        mean[..., :3] /= np.maximum(mean[..., 3:], 1e-9)
    return np.clip(mean, 0.0, 1.0)


def _draw(
    picture: np.ndarray,
    depth: np.ndarray,
    shown: Triangles,
    shadows: Shadows | None,
    camera: Camera,
    size: tuple[int, int],
    solid: bool,
) -> np.ndarray:
    """Draws onto a picture with premultiplied opacities. Returns the new depths."""
    projected = camera.project(shown.corners, size)
    ahead = np.all(projected[..., 2] > 1e-3, axis=1)
    shown = shown.select(ahead)
    projected = projected[ahead]
    seen = rasterize(projected, size, perspective=True)
    hit = (seen.triangle >= 0) & (seen.depth < depth)
    index, weights = seen.triangle[hit], seen.weights[hit]
    point = np.einsum("pk,pki->pi", weights, shown.corners.astype(np.float32)[index])
    normal = _unit(np.einsum("pk,pki->pi", weights, shown.normals.astype(np.float32)[index]))
    away = _unit(np.asarray(camera.position, np.float32) - point)
    normal *= np.where(_dot(normal, away) < 0, np.float32(-1), np.float32(1))[:, None]  # Surfaces have two sides.
    lit = 1.0 if shadows is None else shadows.lit(point, normal)
    direct = np.maximum(normal @ LIGHT.astype(np.float32), 0) * lit
    gloss = 0.14 * np.maximum(_dot(normal, _unit(away + LIGHT.astype(np.float32))), 0) ** 40 * lit
    brightness = 0.44 + 0.10 * normal[:, 2] + 0.52 * direct
    color = shown.colors.astype(np.float32)[index] * brightness[:, None] + gloss[:, None]
    opacity = np.einsum("pk,pk->p", weights, shown.opacities.astype(np.float32)[index])[:, None]
    premultiplied = np.concatenate([np.clip(color, 0, 1) * opacity, opacity], axis=1)
    picture[hit] = premultiplied + (1 - opacity) * picture[hit]
    return np.where(hit, seen.depth, depth) if solid else depth


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("pi,pi->p", a, b)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.sqrt(_dot(vectors, vectors)), 1e-12)[:, None]


class Shadows(NamedTuple):
    """What the light sees: a map of depths.

    Attributes:
      depth: the depth behind which each texel has shadow, and a border of two texels without any, [S + 4, S + 4].
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
        moved = point + normal * np.float32(2.5 / self.scale)  # Away from its own surface by more than a texel.
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
        light[near] = sum((self.depth.ravel()[place + k] > depth).astype(np.float32) for k in offsets) / len(offsets)
        return light


# --- rasterising ---------------------------------------------------------------------------------

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


def rasterize(corners: np.ndarray, size: tuple[int, int], *, perspective: bool) -> Fragments:
    """Finds the nearest triangle of each pixel.

    Args:
      corners: corners of N triangles in the picture: x right and y down in pixels, and depth, shape [N, 3, 3]. Leave
        out triangles behind the camera.
      size: width and height of the picture.
      perspective: whether the camera is perspective: then reciprocals of depths are linear in the picture.
    """
    width, height = size
    x, y, z = np.moveaxis(corners, 2, 0)
    low, high = (np.clip(np.rint(edge(y, axis=1)).astype(int), 0, height) for edge in (np.min, np.max))
    planes, is_flat = _barycentric(x, y)
    live = np.flatnonzero(~is_flat & (high > low))
    owner = np.repeat(live, (high - low)[live])
    row = low[owner] + _count(high[live] - low[live])
    # In a row, each coordinate is linear in x, and the pixels where none is negative are successive.
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
        np.minimum.at(depth, pixel, new)
        wins = new == depth[pixel]
        triangle[pixel[wins]] = np.repeat(owner[chunk], number)[wins]
    weights = np.zeros((width * height, 3), np.float32)
    drawn = np.flatnonzero(triangle >= 0)
    of = triangle[drawn]
    place = np.stack([drawn % width + 0.5, drawn // width + 0.5, np.ones(len(drawn))], axis=1)
    weights[drawn] = np.einsum("pki,pi->pk", planes[of], place)
    if perspective:
        weights[drawn] *= depth[drawn, None] / z[of]
    return Fragments(triangle.reshape(height, width), depth.reshape(height, width), weights.reshape(height, width, 3))


def _barycentric(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Barycentric coordinates of triangles as functions of x, y and 1, [N, 3, 3]; whether a triangle has no area."""
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
    return np.split(live, np.flatnonzero(np.diff(np.cumsum(counts[live]) // AT_ONCE)) + 1) if len(live) else []


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
        out = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
        right, up, _ = _camera_axes(out)
        half = np.tan(0.5 * fov)
        far = cloud - middle
        needed = [far @ out + np.abs(far @ right) / (half * aspect), far @ out + np.abs(far @ up) / half]
        distance = margin * max(float(np.max(needed)), 1e-3)
        return cls(tuple((middle + distance * out).tolist()), tuple(middle.tolist()), fov)

    def project(self, points: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Projects points [..., 3] onto a picture of this width and height: x right, y down [pixels], depth [m]."""
        position = np.asarray(self.position, float)
        right, up, back = _camera_axes(position - np.asarray(self.look_at, float))
        seen = points - position
        depth = -(seen @ back)
        scale = 0.5 * size[1] / np.tan(0.5 * self.fov) / np.where(np.abs(depth) > 1e-9, depth, 1e-9)
        return np.stack([0.5 * size[0] + seen @ right * scale, 0.5 * size[1] - seen @ up * scale, depth], axis=-1)


def _camera_axes(back: np.ndarray) -> np.ndarray:
    """Right, up and back of a camera that looks against ``back``, as rows."""
    back = back / np.linalg.norm(back)
    right = np.cross([0.0, 0.0, 1.0], back)
    if np.linalg.norm(right) < 1e-6:  # It looks straight down or up.
        right = np.array([1.0, 0.0, 0.0])
    right = right / np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back])


# --- pictures -------------------------------------------------------------------------------------


FLOOR_COLORS = ((0.99, 0.99, 0.985), (0.92, 0.93, 0.94))
TERRAIN_COLOR = (0.72, 0.70, 0.64)
AXIS_COLORS = ((0.85, 0.2, 0.2), (0.2, 0.65, 0.25), (0.2, 0.35, 0.85))


def render_png(
    path: str | os.PathLike[str],
    robots: Robots,
    states: State | Mapping[str, State],
    *,
    frames: Sequence[int] = (-1,),
    size: tuple[int, int] = (800, 600),
    camera: Camera | None = None,
    background: tuple[float, float, float] | None = (1.0, 1.0, 1.0),
    **options: Any,
) -> None:
    """Saves a picture of robots, without a GPU, a display or a browser.

    Args:
      path: the PNG file.
      robots: as for :func:`make_scene`.
      states: as for :func:`make_scene`.
      frames: indices of the frames to draw, all in one picture: the last one solid, the others translucent.
      size: width and height [pixels].
      camera: the camera; by default one that shows all robots of these frames.
      background: red, green and blue from 0 to 1; transparent when ``None``.
      **options: ``visuals``, ``ground``, ``layout``, ``show``, ``contacts`` and ``commands`` of :func:`make_scene`.

    Raises:
      ValueError: as for :func:`make_scene`, a frame does not exist, or the file's name ends in another format's suffix.
      OSError: the file cannot be written.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> viewer.render_png("/dev/null", arm, artix.neutral_state(arm), size=(40, 30))
    """
    from matplotlib.image import imsave

    if Path(path).suffix.lower() not in ("", ".png"):
        raise ValueError(f"{os.fspath(path)}: pictures are PNG files; let its name end in .png")
    check_writable(path)
    options.setdefault("dt", 1.0)
    scene = make_scene(robots, states, **options)
    image = draw_scene(scene, frames=frames, size=size, camera=camera, background=background)
    write_atomically(path, lambda part: imsave(part, np.ascontiguousarray(image), format="png"))


def draw_scene(
    scene: Scene,
    *,
    frames: Sequence[int] = (-1,),
    size: tuple[int, int] = (800, 600),
    camera: Camera | None = None,
    background: tuple[float, float, float] | None = None,
    floor: bool = True,
    samples: int = 2,
) -> np.ndarray:
    """Draws a picture of a scene as an array; see :func:`render_png`.

    Args:
      scene: the scene.
      frames: indices of the frames to draw, the last one solid and the others translucent.
      size: width and height [pixels].
      camera: the camera; by default one that shows all robots of these frames.
      background: red, green and blue from 0 to 1; transparent when ``None``.
      floor: whether to draw the ground or, in a scene without one, a floor.
      samples: samples per pixel along each axis.

    Returns:
      Red, green, blue and opacity from 0 to 1, shape [height, width, 4].

    Raises:
      ValueError: a frame does not exist, or the size is not two positive numbers.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> scene = viewer.make_scene(arm, artix.neutral_state(arm), 0.02)
      >>> viewer.draw_scene(scene, size=(40, 30)).shape
      (30, 40, 4)
    """
    count = scene.num_frames
    if not frames or not all(-count <= frame < count for frame in frames):
        raise ValueError(f"frames must be numbers from {-count} to {count - 1}; found {list(frames)}")
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"size must be a width and a height of at least one pixel; found {size}")
    chosen = [frame % count for frame in frames]
    view = camera or Camera.around(scene.corners(chosen), aspect=size[0] / size[1])
    parts = list[Triangles]()
    for place, frame in enumerate(chosen):
        parts += _robots(scene, frame, 1.0 if place == len(chosen) - 1 else 0.25)
    parts += _overlays(scene, chosen[-1])
    if floor:
        parts += _ground(scene, chosen)
    paper = None if background is None else np.asarray(background, float)
    return shade(Triangles.join(parts), view, size, samples=samples, background=paper)


def save_video(
    path: str | os.PathLike[str],
    robots: Robots,
    states: State | Mapping[str, State],
    dt: float,
    *,
    fps: float = 25.0,
    size: tuple[int, int] = (480, 368),
    camera: Camera | None = None,
    **options: Any,
) -> None:
    """Saves a video of robots, at the speed of the motion, without a GPU, a display or a browser.

    Args:
      path: the file: ``.gif``, or ``.mp4``, which needs the package imageio-ffmpeg.
      robots: as for :func:`make_scene`.
      states: as for :func:`make_scene`.
      dt: time from one state to the next [s].
      fps: frames per second, at most ``1 / dt``.
      size: width and height [pixels], even numbers for ``.mp4``.
      camera: the camera; by default one that moves with the robots.
      **options: ``visuals``, ``ground``, ``layout``, ``show``, ``contacts`` and ``commands`` of :func:`make_scene`.

    Raises:
      ImportError: imageio-ffmpeg is not installed.
      ValueError: as for :func:`make_scene`, ``fps`` is not positive, the size is odd for ``.mp4``, or the file's name
        ends in another suffix.
      OSError: the file cannot be written.

    Examples:
      >>> import pathlib, tempfile
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> target = artix.neutral_state(arm).replace(joint_position=jnp.full(7, 0.3))
      >>> states = jax.tree.map(lambda a, b: jnp.stack([a, b]), artix.neutral_state(arm), target)
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "wave.gif"
      >>> viewer.save_video(path, arm, states, 0.04, size=(40, 30))
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise ValueError(f"{os.fspath(path)}: videos are GIF or MP4 files; let its name end in .gif or .mp4")
    if not fps > 0:
        raise ValueError(f"fps must be positive; found {fps}")
    if suffix == ".mp4" and any(length % 2 for length in size):
        raise ValueError(f"size must be even for .mp4; found {size}")
    check_writable(path)
    scene = make_scene(robots, states, dt, **options)
    step = max(round(1 / (fps * dt)), 1)
    frames = range(0, scene.num_frames, step)
    floor, first = _ground(scene, frames), scene.corners((0,))
    view = camera or Camera.around(first, aspect=size[0] / size[1], margin=1.4)

    def image(frame: int) -> np.ndarray:
        parts = _robots(scene, frame, 1.0) + _overlays(scene, frame) + floor
        moved = np.mean(scene.corners((frame,)) - first, axis=0) if camera is None else np.zeros(3)
        follows = Camera(np.asarray(view.position) + moved, np.asarray(view.look_at) + moved, view.fov)
        picture = shade(Triangles.join(parts), follows, size, samples=2, background=np.ones(3))
        return np.rint(255 * picture[..., :3]).astype(np.uint8)

    _WRITERS[suffix](path, map(image, frames), size, 1 / (step * dt))


def _write_gif(path: str | os.PathLike[str], images: Iterator[np.ndarray], size: tuple[int, int], fps: float) -> None:
    from PIL import Image

    first, *others = (Image.fromarray(image).quantize(128) for image in images)
    write_atomically(
        path,
        lambda part: first.save(
            part, format="GIF", save_all=True, append_images=others, duration=round(1000 / fps), loop=0
        ),
    )


def _write_mp4(path: str | os.PathLike[str], images: Iterator[np.ndarray], size: tuple[int, int], fps: float) -> None:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise ImportError("MP4 videos need imageio-ffmpeg: pip install 'artix[video]'; GIFs do not") from error

    def write(part: Path) -> None:
        settings = {"fps": fps, "macro_block_size": 2, "output_params": ["-f", "mp4"]}
        video = imageio_ffmpeg.write_frames(str(part), size, **settings)
        video.send(None)
        for image in images:
            video.send(np.ascontiguousarray(image))
        video.close()

    write_atomically(path, write)


_WRITERS = {".gif": _write_gif, ".mp4": _write_mp4}


def _robots(scene: Scene, frame: int, opacity: float) -> list[Triangles]:
    parts = list[Triangles]()
    for crowd in scene.crowds:
        shown = list[Visual]()
        if "visual" in scene.layers:
            shown += crowd.visuals
        if "collision" in scene.layers:
            shown += crowd.collisions
        parts += [_visual(crowd, visual, frame, opacity) for visual in shown]
        if "frames" in scene.layers:
            parts += _axes(crowd, frame, 0.08 * scene.size)
    return parts


def _visual(crowd: Crowd, visual: Visual, frame: int, opacity: float) -> Triangles:
    poses = compose(crowd.poses[frame, :, visual.link], np.asarray(visual.pose, float))
    assert visual.color is not None  # In a scene, all visuals have colours.
    return _place(visual.mesh, poses, visual.color, crowd.opacities * visual.opacity * opacity)


def _place(mesh: TriangleMesh, poses: np.ndarray, color: tuple[float, ...], opacities: np.ndarray | float) -> Triangles:
    """One mesh, placed in several poses [K, 7]."""
    corners, normals = mesh.vertices[mesh.faces].astype(float), corner_normals(mesh)
    world = transform(poses[:, None, None], corners).reshape(-1, 3, 3)
    turned = rotate(poses[:, None, None, 3:], normals).reshape(-1, 3, 3)
    total = len(world)
    opacity = np.repeat(np.broadcast_to(opacities, len(poses)), len(corners))
    return Triangles(
        world, turned, np.tile(np.asarray(color, float), (total, 1)), np.tile(opacity[:, None], (1, 3)), opacity > 0.9
    )


def _axes(crowd: Crowd, frame: int, length: float) -> list[Triangles]:
    """Three bars along the axes of each link."""
    poses = crowd.poses[frame].reshape(-1, 7)
    parts = list[Triangles]()
    for axis, color in enumerate(AXIS_COLORS):
        along = np.eye(3)[axis]
        local = np.concatenate([0.5 * length * along, quaternion_from_z_to(along)])
        parts.append(_place(cylinder_mesh(0.05 * length, 0.5 * length), compose(poses, local), color, 1.0))
    return parts


def _overlays(scene: Scene, frame: int) -> list[Triangles]:
    parts = list[Triangles]()
    for marks in scene.marks:
        centers = marks.centers[frame]
        poses = np.concatenate([centers, np.tile([0.0, 0.0, 0.0, 1.0], (len(centers), 1))], axis=1)
        parts.append(_place(sphere_mesh(marks.radius), poses, marks.color, 1.0))
    radius = 0.012 * scene.size
    for arrows in scene.arrows:
        for start, vector in zip(arrows.starts[frame], arrows.vectors[frame], strict=True):
            length = float(np.linalg.norm(vector))
            if length > 2.0 * radius:
                head = min(5.0 * radius, 0.5 * length)
                parts.append(_rod(start, start + vector * (1.0 - head / length), radius, arrows.color))
                pose = np.concatenate([start + vector * (1.0 - head / length), quaternion_from_z_to(vector)])
                parts.append(_place(cone_mesh(2.2 * radius, head), pose[None], arrows.color, 1.0))
    for segments in scene.segments:
        ends = segments.ends[frame]
        live = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) > 1e-6
        parts += [_rod(start, end, 0.4 * radius, segments.color) for start, end in ends[live]]
    return parts


def _rod(start: np.ndarray, end: np.ndarray, radius: float, color: tuple[float, ...]) -> Triangles:
    pose = np.concatenate([0.5 * (start + end), quaternion_from_z_to(end - start)])
    return _place(cylinder_mesh(radius, 0.5 * float(np.linalg.norm(end - start))), pose[None], color, 1.0)


def _ground(scene: Scene, frames: Sequence[int]) -> list[Triangles]:
    """The ground. Planes, and the floor of a scene without ground, are tiles that fade with distance."""
    corners = scene.corners(frames)
    middle = 0.5 * (corners.min(axis=0) + corners.max(axis=0))
    reach = max(0.5 * float(np.linalg.norm(np.ptp(corners, axis=0)[:2])), 0.5 * scene.size)
    surfaces = (Plane.of(point=(0.0, 0.0, scene.floor - 1e-4)),) if scene.ground is None else scene.ground.surfaces
    return [
        _place(height_field_mesh(one), _AT_ORIGIN, TERRAIN_COLOR, 1.0)
        if isinstance(one, HeightField)
        else _tiles(one, middle, reach)
        for one in surfaces
    ]


_AT_ORIGIN = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])


def _tiles(plane: Plane, middle: np.ndarray, reach: float) -> Triangles:
    count = 40
    wide = 3.0 * reach
    tiles = _place(plane_mesh(plane, middle, wide, count), _AT_ORIGIN, FLOOR_COLORS[0], 1.0)
    number = np.tile(np.arange(count * count), 2)
    dark = (number // count // 2 + number % count // 2) % 2 == 1
    tiles.colors[dark] = FLOOR_COLORS[1]
    center = tiles.corners.reshape(-1, 3).mean(axis=0)
    distance = np.linalg.norm(tiles.corners - center, axis=2)
    tiles.opacities[:] = np.clip(2.0 - 2.0 * distance / wide, 0.0, 0.999)
    tiles.casts[:] = False
    return tiles
