"""Pictures and videos of a scene, whose robots, ground and overlays become triangles."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
from artix.viewer.rasterizer import Camera, Triangles, corner_normals, shade
from artix.viewer.scene import Crowd, Robots, Scene, make_scene
from artix.viewer.visuals import Visual

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
      frames: indices of the frames to draw, all in one picture: the last one solid, the others
        translucent.
      size: width and height [pixels].
      camera: the camera; by default one that shows all robots of these frames.
      background: red, green and blue from 0 to 1; transparent when ``None``.
      **options: ``visuals``, ``ground``, ``layout``, ``show``, ``contacts`` and ``commands`` of
        :func:`make_scene`.

    Raises:
      ValueError: as for :func:`make_scene`, a frame does not exist, or the file's name ends in
        another format's suffix.
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
        raise ValueError(
            f"frames must be numbers from {-count} to {count - 1}; found {list(frames)}"
        )
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"size must be a width and a height of at least one pixel; found {size}")
    chosen = [frame % count for frame in frames]
    view = camera or Camera.around(scene.corners(chosen), aspect=size[0] / size[1])
    parts = list[Triangles]()
    for place, frame in enumerate(chosen):
        parts += _robots(scene, frame, 1.0 if place == len(chosen) - 1 else 0.25, place)
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
      fps: frames per second, at most ``1 / dt``, and at most 50 of a GIF.
      size: width and height [pixels], even numbers for ``.mp4``.
      camera: the camera; by default one that moves with the robots.
      **options: ``visuals``, ``ground``, ``layout``, ``show``, ``contacts`` and ``commands`` of
        :func:`make_scene`.

    Raises:
      ImportError: imageio-ffmpeg is not installed.
      ValueError: as for :func:`make_scene`, ``fps`` is not positive, the size is odd for ``.mp4``,
        or the file's name ends in another suffix.
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
        raise ValueError(
            f"{os.fspath(path)}: videos are GIF or MP4 files; let its name end in .gif or .mp4"
        )
    if not fps > 0:
        raise ValueError(f"fps must be positive; found {fps}")
    if suffix == ".mp4" and any(length % 2 for length in size):
        raise ValueError(f"size must be even for .mp4; found {size}")
    check_writable(path)
    scene = make_scene(robots, states, dt, **options)
    step = max(round(1 / (fps * dt)), 1)
    if suffix == ".gif":
        step = max(step, math.ceil(_GIF_FRAME / dt - 1e-6))
    frames = range(0, scene.num_frames, step)
    floor, first = _ground(scene, frames), scene.corners((0,))
    view = camera or Camera.around(first, aspect=size[0] / size[1], margin=1.4)

    def image(frame: int) -> np.ndarray:
        parts = _robots(scene, frame, 1.0) + _overlays(scene, frame) + floor
        moved = np.mean(scene.corners((frame,)) - first, axis=0) if camera is None else np.zeros(3)
        follows = Camera(
            np.asarray(view.position) + moved, np.asarray(view.look_at) + moved, view.fov
        )
        picture = shade(Triangles.join(parts), follows, size, samples=2, background=np.ones(3))
        return np.rint(255 * picture[..., :3]).astype(np.uint8)

    _WRITERS[suffix](path, map(image, frames), size, 1 / (step * dt))


#: The shortest time that a frame of a GIF is shown [s]: browsers show a shorter one for 100 ms.
_GIF_FRAME = 0.02


def _write_gif(
    path: str | os.PathLike[str], images: Iterator[np.ndarray], size: tuple[int, int], fps: float
) -> None:
    from PIL import Image

    first, *others = (Image.fromarray(image).quantize(128) for image in images)
    # Times are in units of 10 ms: each frame begins when it should, and is shown up to the next.
    begins = np.rint(100 / fps * np.arange(2 + len(others))).astype(int)
    write_atomically(
        path,
        lambda part: first.save(
            part,
            format="GIF",
            save_all=True,
            append_images=others,
            duration=(10 * np.diff(begins)).tolist(),
            loop=0,
        ),
    )


def _write_mp4(
    path: str | os.PathLike[str], images: Iterator[np.ndarray], size: tuple[int, int], fps: float
) -> None:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise ImportError(
            "MP4 videos need imageio-ffmpeg: pip install 'artix[video]'; GIFs do not"
        ) from error

    def write(part: Path) -> None:
        settings = {"fps": fps, "macro_block_size": 2, "output_params": ["-f", "mp4"]}
        video = imageio_ffmpeg.write_frames(str(part), size, **settings)
        video.send(None)
        for image in images:
            video.send(np.ascontiguousarray(image))
        video.close()

    write_atomically(path, write)


_WRITERS = {".gif": _write_gif, ".mp4": _write_mp4}


def _robots(scene: Scene, frame: int, opacity: float, place: int = 0) -> list[Triangles]:
    """The robots in a frame, the one at this place of those in a picture. Each robot is a body, as
    is each translucent surface.
    """
    parts = list[Triangles]()
    for kind, crowd in enumerate(scene.crowds):
        shown = list[Visual]()
        if "visual" in scene.layers:
            shown += crowd.visuals
        if "collision" in scene.layers:
            shown += crowd.collisions
        first = (place * len(scene.crowds) + kind) * _MOST_BODIES
        for number, visual in enumerate(shown):
            part = _visual(crowd, visual, frame, opacity)
            own = number + 1 if visual.opacity < 1.0 else 0
            part.body += first + own * len(crowd.opacities)
            parts.append(part)
        if "frames" in scene.layers:
            parts += _axes(crowd, frame, 0.08 * scene.size)
    return parts


#: Bodies of the robots of one kind in one frame, at most.
_MOST_BODIES = 10**9


def _visual(crowd: Crowd, visual: Visual, frame: int, opacity: float) -> Triangles:
    poses = compose(crowd.poses[frame, :, visual.link], np.asarray(visual.pose, float))
    assert visual.color is not None  # In a scene, all visuals have colours.
    return _place(visual.mesh, poses, visual.color, crowd.opacities * visual.opacity * opacity)


def _place(
    mesh: TriangleMesh, poses: np.ndarray, color: tuple[float, ...], opacities: np.ndarray | float
) -> Triangles:
    """One mesh, placed in several poses [K, 7], each of which is a body."""
    corners, normals = mesh.vertices[mesh.faces].astype(float), corner_normals(mesh)
    world = transform(poses[:, None, None], corners).reshape(-1, 3, 3)
    turned = rotate(poses[:, None, None, 3:], normals).reshape(-1, 3, 3)
    total = len(world)
    opacity = np.repeat(np.broadcast_to(opacities, len(poses)), len(corners))
    return Triangles(
        world,
        turned,
        np.tile(np.asarray(color, float), (total, 1)),
        np.tile(opacity[:, None], (1, 3)),
        opacity > 0.9,
        np.repeat(np.arange(len(poses)), len(corners)),
    )


def _axes(crowd: Crowd, frame: int, length: float) -> list[Triangles]:
    """Three bars along the axes of each link."""
    poses = crowd.poses[frame].reshape(-1, 7)
    parts = list[Triangles]()
    for axis, color in enumerate(AXIS_COLORS):
        along = np.eye(3)[axis]
        local = np.concatenate([0.5 * length * along, quaternion_from_z_to(along)])
        parts.append(
            _place(cylinder_mesh(0.05 * length, 0.5 * length), compose(poses, local), color, 1.0)
        )
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
                parts.append(
                    _rod(start, start + vector * (1.0 - head / length), radius, arrows.color)
                )
                pose = np.concatenate(
                    [start + vector * (1.0 - head / length), quaternion_from_z_to(vector)]
                )
                parts.append(_place(cone_mesh(2.2 * radius, head), pose[None], arrows.color, 1.0))
    for segments in scene.segments:
        ends = segments.ends[frame]
        live = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) > 1e-6
        parts += [_rod(start, end, 0.4 * radius, segments.color) for start, end in ends[live]]
    return parts


def _rod(start: np.ndarray, end: np.ndarray, radius: float, color: tuple[float, ...]) -> Triangles:
    pose = np.concatenate([0.5 * (start + end), quaternion_from_z_to(end - start)])
    return _place(
        cylinder_mesh(radius, 0.5 * float(np.linalg.norm(end - start))), pose[None], color, 1.0
    )


def _ground(scene: Scene, frames: Sequence[int]) -> list[Triangles]:
    """The ground. Planes, and the floor of a scene without ground, are tiles that fade with
    distance.
    """
    corners = scene.corners(frames)
    middle = 0.5 * (corners.min(axis=0) + corners.max(axis=0))
    reach = max(0.5 * float(np.linalg.norm(np.ptp(corners, axis=0)[:2])), 0.5 * scene.size)
    surfaces = (
        (Plane.of(point=(0.0, 0.0, scene.floor - 1e-4)),)
        if scene.ground is None
        else scene.ground.surfaces
    )
    parts = [
        _place(height_field_mesh(one), _AT_ORIGIN, TERRAIN_COLOR, 1.0)
        if isinstance(one, HeightField)
        else _tiles(one, middle, reach)
        for one in surfaces
    ]
    for number, part in enumerate(parts):
        part.body -= number + 1  # Bodies of robots are not negative.
    return parts


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
