"""Viser: its servers, their ports and their silence on the terminal, and a scene as nodes of one.

Nodes are made once and then moved from frame to frame.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from artix import HeightField
from artix.model.validation import is_index
from artix.viewer.meshes import (
    TriangleMesh,
    height_field_mesh,
    joined,
    quaternion_from_z_to,
    sphere_mesh,
    transform,
)
from artix.viewer.motions import Arrows, Marks, Segments
from artix.viewer.rasterizer import Camera
from artix.viewer.scene import Crowd, Scene
from artix.viewer.visuals import Visual

FIRST_PORT = 8080


def import_viser() -> Any:
    """Imports the package ``viser``.

    Raises:
      ImportError: it is not installed, or too old; the message names the extra that brings it.
    """
    try:
        import viser
    except ImportError as error:
        raise ImportError(
            "the viewer shows scenes with viser: pip install 'artix[viewer]'"
        ) from error
    if int(viser.__version__.partition(".")[0]) < 1:
        raise ImportError(
            f"the viewer needs viser 1.0 or later; found {viser.__version__}: pip install "
            "'artix[viewer]'"
        )
    return viser


def open_server(host: str, port: int | None, title: str) -> Any:
    """Starts a viser server.

    Args:
      host: the address to listen on: ``"127.0.0.1"`` for browsers on this machine only,
        ``"0.0.0.0"`` for all.
      port: the port, or 0 for any free one; by default the first free one from 8080.
      title: the title of the browser's window and of the panel.

    Raises:
      ValueError: the port is not one from 0 to 65535.
      OSError: the port is in use, or the host is not an address of this machine.
      ImportError: viser is not installed.
    """
    viser = import_viser()
    if port is not None and not (is_index(port) and 0 <= port < 2**16):
        raise ValueError(f"port must be from 0 to 65535; found {port!r}")
    _check_host(host)
    if port != 0:
        port = _free_port(host, range(FIRST_PORT, FIRST_PORT + 100) if port is None else (port,))
    with _quiet():
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
    server.gui.configure_theme(show_logo=False, show_share_button=False)
    if hasattr(server.gui, "main_panel"):  # viser 1.1: beside the robots instead of over them
        server.gui.main_panel.dock_right()
    _name_window(server, title)
    return server


def _name_window(server: Any, title: str) -> None:
    """Gives the browser's window a title, for which viser has no public function."""
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        from viser._messages import RunJavascriptMessage

        script = RunJavascriptMessage(f"document.title = {json.dumps(title)};")
        server.gui._websock_interface.queue_message(script)


def close_server(server: Any) -> None:
    """Stops a server and its threads."""
    with _quiet():
        server.stop()


def wait_for(closed: threading.Event, close: Callable[[], None]) -> None:
    """Waits until a server is closed or the process is interrupted (Ctrl-C), and then closes it."""
    try:
        while not closed.wait(0.2):
            pass
    except KeyboardInterrupt:
        pass
    finally:
        close()


@contextlib.contextmanager
def private_server(title: str) -> Iterator[Any]:
    """A server for recordings only, which no browser visits."""
    server = open_server("127.0.0.1", 0, title)
    try:
        yield server
    finally:
        close_server(server)


def address(server: Any) -> str:
    """The URL of a server for browsers on this machine."""
    host = server.get_host()
    return f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{server.get_port()}"


def _check_host(host: str) -> None:
    """Refuses a foreign address, for which viser would wait for ever."""
    with socket.socket() as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            mend = "give 127.0.0.1, or 0.0.0.0 for all addresses of this machine"
            message = f"host {host!r} is not an address of this machine ({error.strerror}); {mend}"
            raise OSError(error.errno, message) from error


def _free_port(host: str, ports: range | tuple[int, ...]) -> int:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if len(ports) > 1:
                    continue
                mend = "choose another, or 0 for any free one"
                message = f"port {port} of {host} cannot be used ({error.strerror}); {mend}"
                raise OSError(error.errno, message) from error
            return port
    raise OSError(
        f"no port from {ports[0]} to {ports[-1]} is free; choose another, or 0 for any free one"
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences viser, which prints with rich."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


# --- nodes --------------------------------------------------------------------------------------


#: Poses are rounded to fractions of 1 (or 1 m): 0.03 mm, which halves the size of recordings.
ROUNDING = 2.0**14
#: Brightest surface colour in browsers: with their light, white robots would show no shading.
WHITEST = 0.8
#: Colours of the background from top to bottom: white robots stand out from it.
SKY, DARK_SKY = ((214, 224, 234), (246, 247, 249)), ((24, 27, 31), (46, 51, 58))

#: The node that holds all others. It moves against a robot that is followed.
WORLD = "/world"

Mover = Callable[[int], None]


class Nodes:
    """The nodes of a scene on a viser server.

    Robots are under ``/world/robots/KIND``. For a single robot, ``/world/robots/KIND/LINK`` moves,
    with its surfaces below it as ``visual`` and ``collision``. For several robots, each of these is
    a batch of meshes. Put nodes of your own under ``/world``, too: a robot is followed by moving
    the world and not the camera, which stays yours.

    Args:
      server: a ``viser.ViserServer``.
      scene: the scene.
      dark_mode: whether the background is dark.
    """

    def __init__(self, server: Any, scene: Scene, *, dark_mode: bool = False) -> None:
        self.server = server
        self.scene = scene
        #: Handles by layer, to show and hide them.
        self.layers: dict[str, list[Any]] = {}
        self._movers = list[Mover]()
        self._links: dict[str, list[Any]] = {}
        #: Whether the camera travels with the robot, if the scene says how.
        self.follows = True
        server.scene.set_up_direction("+z")
        self._world = server.scene.add_frame(WORLD, show_axes=False)
        server.scene.set_background_image(
            _gradient(*(DARK_SKY if dark_mode else SKY)), format="png"
        )
        for crowd in scene.crowds:
            (self._one if crowd.poses.shape[1] == 1 else self._many)(crowd)
        self._ground()
        for arrows in scene.arrows:
            self._arrows(arrows)
        for segments in scene.segments:
            self._segments(segments)
        for marks in scene.marks:
            self._marks(marks)
        several = sum(crowd.poses.shape[1] for crowd in scene.crowds) > 1
        stands = scene.num_frames == 1 or scene.path is not None
        margin = 1.0 if several else 1.6 if stands else 1.15
        self._camera(
            Camera.around(
                _seen(scene), aspect=1.3, elevation=0.5 if several else 0.35, margin=margin
            )
        )
        self.show(0)

    def show(self, frame: int) -> None:
        """Shows a frame."""
        with self.server.atomic():
            if self.scene.path is not None:
                self._world.position = _round(
                    -self.scene.path[frame] if self.follows else np.zeros(3)
                )
            for move in self._movers:
                move(frame)

    def place(self, kind: str, poses: np.ndarray) -> None:
        """Moves the links of a single robot.

        Args:
          kind: the name of its crowd.
          poses: of its links in world axes, [L, 7].
        """
        positions, turns = _round(poses[:, :3]), _wxyz(poses)
        with self.server.atomic():
            for node, position, turn in zip(self._links[kind], positions, turns, strict=True):
                node.position, node.wxyz = position, turn

    def handle(self, kind: str, link: str) -> Any:
        """The viser node of a link of a single robot.

        Raises:
          KeyError: there is no such kind or link, or the kind has several robots.
        """
        names = {crowd.name: crowd.link_names for crowd in self.scene.crowds}
        return dict(zip(names[kind], self._links[kind], strict=True))[link]

    # --- robots ----------------------------------------------------------------------------------

    def _one(self, crowd: Crowd) -> None:
        """Adds one robot: a node for each link, with its surfaces below."""
        scene = self.server.scene
        for link, name in enumerate(_node_names(crowd.link_names)):
            path = f"{WORLD}/robots/{crowd.name}/{name}"
            length = 0.08 * self.scene.size
            shown = "frames" in self.scene.layers
            axes = scene.add_frame(
                path, axes_length=length, axes_radius=0.05 * length, show_axes=shown
            )
            self.layers.setdefault("frames", []).append(axes)
            for layer, visuals in (("visual", crowd.visuals), ("collision", crowd.collisions)):
                for k, visual in enumerate(one for one in visuals if one.link == link):
                    self._keep(layer, _add_mesh(scene, f"{path}/{layer}/{k}", visual))
            self._links.setdefault(crowd.name, []).append(axes)
        self._movers.append(lambda frame: self.place(crowd.name, crowd.poses[frame, 0]))

    def _many(self, crowd: Crowd) -> None:
        """Adds several robots: one batch of meshes for each link and colour."""
        names = _node_names(crowd.link_names)
        for layer, visuals in (("visual", crowd.visuals), ("collision", crowd.collisions)):
            groups: dict[tuple, list[Visual]] = {}
            for visual in visuals:
                groups.setdefault((visual.link, visual.color, visual.opacity), []).append(visual)
            for k, ((link, color, opacity), members) in enumerate(groups.items()):
                poses = crowd.poses[:, :, link]
                batch = self.server.scene.add_batched_meshes_simple(
                    f"{WORLD}/robots/{crowd.name}/{names[link]}/{layer}/{k}",
                    *_arrays(joined([_in_link(visual) for visual in members])),
                    batched_wxyzs=_wxyz(poses[0]),
                    batched_positions=_round(poses[0, :, :3]),
                    batched_colors=_linear(_surface_rgb(color)),
                    batched_opacities=None
                    if crowd.opacities.min() >= 1.0
                    else crowd.opacities.astype(np.float32),
                    opacity=None if opacity >= 1.0 else opacity,
                    lod="off",
                )
                self._keep(layer, batch)
                self._movers.append(_batch_mover(batch, poses))

    def _keep(self, layer: str, handle: Any) -> None:
        self.layers.setdefault(layer, []).append(handle)
        handle.visible = layer in self.scene.layers

    # --- everything else -------------------------------------------------------------------------

    def _ground(self) -> None:
        scene = self.server.scene
        ground = self.scene.ground
        if ground is None:
            self.layers["ground"] = [
                _add_grid(scene, f"{WORLD}/ground/0", np.array([0.0, 0.0, 1.0]), self.scene.floor)
            ]
            return
        for k, surface in enumerate(ground.surfaces):
            if isinstance(surface, HeightField):
                mesh = height_field_mesh(surface)
                handle = scene.add_mesh_simple(
                    f"{WORLD}/ground/{k}",
                    *_arrays(mesh),
                    color=(176, 170, 156),
                    flat_shading=True,
                    side="double",
                )
            else:
                handle = _add_grid(
                    scene,
                    f"{WORLD}/ground/{k}",
                    np.asarray(surface.normal, float),
                    float(surface.height),
                )
            self.layers.setdefault("ground", []).append(handle)

    def _arrows(self, arrows: Arrows) -> None:
        radius = 0.012 * self.scene.size
        first = np.stack([arrows.starts[0], arrows.starts[0] + arrows.vectors[0]], axis=1)
        handle = self.server.scene.add_arrows(
            f"{WORLD}/{arrows.name}",
            first,
            _linear(_rgb(arrows.color)),
            shaft_radius=radius,
            head_radius=2.2 * radius,
            head_length=4.0 * radius,
        )
        self.layers[arrows.name] = [handle]

        def move(frame: int) -> None:
            live = np.linalg.norm(arrows.vectors[frame], axis=1) > radius
            ends = np.stack(
                [arrows.starts[frame], arrows.starts[frame] + arrows.vectors[frame]], axis=1
            )
            # Arrows of zero length become a point below the ground, because the size of a batch is
            # fixed.
            ends[~live] = self.scene.floor - 1e3
            ends[~live, 1, 2] += 1e-3
            handle.points = ends.astype(np.float32)

        self._movers.append(move)

    def _segments(self, segments: Segments) -> None:
        handle = self.server.scene.add_line_segments(
            f"{WORLD}/{segments.name}",
            segments.ends[0].astype(np.float32),
            _rgb(segments.color),
            thickness=4.0,
            thickness_units="screen",
        )
        self.layers[segments.name] = [handle]

        def move(frame: int) -> None:
            handle.points = segments.ends[frame].astype(np.float32)

        self._movers.append(move)

    def _marks(self, marks: Marks) -> None:
        identity = np.tile([1.0, 0.0, 0.0, 0.0], (marks.centers.shape[1], 1))
        handle = self.server.scene.add_batched_meshes_simple(
            f"{WORLD}/{marks.name}",
            *_arrays(sphere_mesh(marks.radius)),
            identity,
            marks.centers[0],
            batched_colors=_linear(_rgb(marks.color)),
            lod="off",
        )
        self.layers[marks.name] = [handle]

        def move(frame: int) -> None:
            handle.batched_positions = _round(marks.centers[frame])

        self._movers.append(move)

    def _camera(self, camera: Camera) -> None:
        start = self.server.initial_camera
        start.position, start.look_at = np.asarray(camera.position), np.asarray(camera.look_at)
        start.fov = camera.fov


def _seen(scene: Scene) -> np.ndarray:
    """The corners of the surfaces in some frames as a camera that travels sees them, [..., 3]."""
    if scene.path is None:
        return scene.corners()
    frames = np.unique(np.linspace(0, scene.num_frames - 1, 25).astype(int))
    return np.concatenate([scene.corners([frame]) - scene.path[frame] for frame in frames])


def _add_mesh(scene: Any, path: str, visual: Visual) -> Any:
    pose = np.asarray(visual.pose, float)
    return scene.add_mesh_simple(
        path,
        *_arrays(visual.mesh),
        color=_surface_rgb(visual.color),
        opacity=None if visual.opacity >= 1.0 else visual.opacity,
        wxyz=_wxyz(pose),
        position=pose[:3],
    )


def _add_grid(scene: Any, path: str, normal: np.ndarray, height: float) -> Any:
    return scene.add_grid(
        path,
        infinite_grid=True,
        plane="xy",
        cell_size=0.5,
        section_size=1.0,
        cell_color=(225, 225, 225),
        section_color=(190, 195, 200),
        wxyz=_wxyz(np.concatenate([np.zeros(3), quaternion_from_z_to(normal)])),
        position=normal * (height - 1e-3),
    )


def _batch_mover(batch: Any, poses: np.ndarray) -> Mover:
    def move(frame: int) -> None:
        batch.batched_positions = _round(poses[frame, :, :3])
        batch.batched_wxyzs = _wxyz(poses[frame])

    return move


def _in_link(visual: Visual) -> TriangleMesh:
    """The mesh in its link's frame."""
    vertices = transform(np.asarray(visual.pose, float), visual.mesh.vertices.astype(float))
    return TriangleMesh(vertices, visual.mesh.faces)


def _arrays(mesh: TriangleMesh) -> tuple[np.ndarray, np.ndarray]:
    return mesh.vertices, mesh.faces


def _round(values: np.ndarray) -> np.ndarray:
    return (np.round(values * ROUNDING) / ROUNDING).astype(np.float32)


def _wxyz(poses: np.ndarray) -> np.ndarray:
    """The quaternions of poses [..., 7] as wxyz."""
    return _round(poses[..., [6, 3, 4, 5]])


def _gradient(top: tuple[int, ...], bottom: tuple[int, ...]) -> np.ndarray:
    """A small picture with a gradient between two colours, which browsers stretch, [64, 8, 3]."""
    return np.tile(np.linspace(top, bottom, 64)[:, None], (1, 8, 1)).astype(np.uint8)


def _surface_rgb(color: tuple[float, ...] | None) -> tuple[int, int, int]:
    assert color is not None  # In a scene, all surfaces have colours.
    share = min(1.0, WHITEST / max(*color, WHITEST))
    return _rgb(tuple(share * part for part in color))


def _rgb(color: tuple[float, ...]) -> tuple[int, int, int]:
    red, green, blue = (round(255 * min(max(part, 0.0), 1.0)) for part in color)
    return red, green, blue


def _linear(color: tuple[int, int, int]) -> tuple[int, int, int]:
    """The colour with linear intensity, as viser expects it for instances; meshes need sRGB (IEC
    61966-2-1).
    """
    share = np.asarray(color) / 255.0
    red, green, blue = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return round(255 * red), round(255 * green), round(255 * blue)


def _node_names(link_names: Sequence[str]) -> list[str]:
    """The names of links without the separator of viser's node names, all of them different: a
    second node of a name would replace the first.
    """
    names = list[str]()
    for link_name in link_names:
        name = link_name.replace("/", "_")
        while name in names or (name != link_name and name in link_names):
            name += "_"
        names.append(name)
    return names
