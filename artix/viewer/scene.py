"""Scenes: robots with surfaces on their links, and the ground, with what is drawn over them.

A scene has the poses of all links of all robots in all frames, for still states, motions and
batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

import artix
from artix import Articulation, Fleet, Ground, State
from artix.viewer.meshes import is_level, transform
from artix.viewer.motions import (
    Arrows,
    ContactsToShow,
    Kind,
    Marks,
    Motion,
    Segments,
    command_arrows,
    force_arrows,
    mass_centers,
    support_polygons,
)
from artix.viewer.visuals import Visual, checked_visuals, collision_visuals, visuals_of

#: What the viewer shows: robots of one kind, a fleet, or several articulations in one world.
Robots = Articulation | Fleet | artix.Scene


Layout: TypeAlias = Literal["grid", "overlaid"]
#: The layers of robots that can be shown; the default is ``"visual"``.
LAYERS = ("visual", "collision", "frames", "center_of_mass", "support_polygon")
#: Colours for robots without any, kind by kind.
KIND_COLORS = (
    (0.30, 0.52, 0.75),
    (0.89, 0.34, 0.18),
    (0.91, 0.66, 0.15),
    (0.36, 0.55, 0.24),
    (0.49, 0.31, 0.66),
)


@dataclasses.dataclass(frozen=True)
class Crowd:
    """The robots of one kind.

    Attributes:
      name: name of the kind, unique in a scene.
      link_names: names of the L links.
      visuals: surfaces on the links, all with colours.
      collisions: collision shapes of the links.
      poses: poses of the links in world axes, position [m] and quaternion xyzw, shape [T, K, L, 7].
      opacities: opacity of each robot, shape [K].

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> crowd = viewer.make_scene(arm, artix.neutral_state(arm), 0.02).crowds[0]
      >>> crowd.link_names[0], crowd.poses.shape
      ('base', (1, 1, 9, 7))
    """

    name: str
    link_names: tuple[str, ...]
    visuals: tuple[Visual, ...]
    collisions: tuple[Visual, ...]
    poses: np.ndarray
    opacities: np.ndarray

    def corners(self, frames: Sequence[int] | np.ndarray = (0,)) -> np.ndarray:
        """The corners of the bounding box of each of V surfaces in F frames, in world axes,
        [V, F, K, 8, 3] [m]; without surfaces, the places of the links instead.
        """
        if not self.visuals:
            places = np.moveaxis(self.poses[np.asarray(frames)][..., :3], 2, 0)
            return np.repeat(places[..., None, :], 8, axis=-2)
        corners = list[np.ndarray]()
        for visual in self.visuals:
            ends = visual.mesh.vertices.min(axis=0), visual.mesh.vertices.max(axis=0)
            box = np.array(
                [[ends[k >> axis & 1][axis] for axis in range(3)] for k in range(8)], float
            )
            inside = transform(np.asarray(visual.pose, float), box)
            corners.append(
                transform(self.poses[np.asarray(frames)][:, :, visual.link, None], inside)
            )
        return np.stack(corners)


@dataclasses.dataclass(frozen=True)
class Scene:
    """Robots, and everything that is drawn with them, at T times.

    Attributes:
      crowds: the robots, kind by kind.
      dt: time from one frame to the next [s].
      ground: the ground; ``None`` for a floor that is only drawn.
      floor: height of that floor [m].
      layers: the layers of robots that are shown, out of :data:`LAYERS`.
      arrows: forces and commands.
      segments: lines.
      marks: points.
      size: typical length of one robot [m].
      title: the title of its window.
      path: how far the camera has travelled at each time, shape [T, 3] [m]; ``None`` if it stands
        still.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> motion = jax.vmap(lambda key: artix.random_state(arm, key))(
      ...     jax.random.split(jax.random.key(0), 10)
      ... )
      >>> scene = viewer.make_scene(arm, motion, 0.02, show=("visual", "frames"))
      >>> scene.num_frames, sorted(scene.layers), scene.corners([0]).shape[1:]
      (10, ['frames', 'visual'], (3,))
    """

    crowds: tuple[Crowd, ...]
    dt: float
    ground: Ground | None
    floor: float
    layers: frozenset[str]
    arrows: tuple[Arrows, ...]
    segments: tuple[Segments, ...]
    marks: tuple[Marks, ...]
    size: float
    title: str = "artix"
    path: np.ndarray | None = None

    @property
    def num_frames(self) -> int:
        """Number T of times."""
        return len(self.crowds[0].poses)

    def corners(self, frames: Sequence[int] | None = None) -> np.ndarray:
        """The corners of the bounding boxes of all surfaces in some frames (default: 25 of them),
        [..., 3] [m].
        """
        chosen = (
            np.unique(np.linspace(0, self.num_frames - 1, 25).astype(int))
            if frames is None
            else np.array(frames)
        )
        return np.concatenate([crowd.corners(chosen).reshape(-1, 3) for crowd in self.crowds])


def make_scene(
    robots: Robots,
    states: State | Mapping[str, State],
    dt: float,
    *,
    visuals: Sequence[Visual] | Mapping[str, Sequence[Visual]] | None = None,
    ground: Ground | None = None,
    layout: Layout | None = None,
    show: Collection[str] = ("visual",),
    contacts: ContactsToShow | Mapping[str, ContactsToShow] | None = None,
    commands: npt.ArrayLike | None = None,
    follow: bool | None = None,
    title: str | None = None,
) -> Scene:
    """Builds a scene of robots, their motion, and everything that is drawn with it.

    Args:
      robots: one articulation, whose arrays may have a leading axis [N] of robots, a fleet, or an
        :class:`artix.Scene`, whose robots are drawn where they are, on its ground.
      states: of one articulation: leaves ``joint_position`` of shape [n] for a still, [T, n] for a
        motion, [T, N, n] for motions of a batch; of N articulations or of a fleet: [N, n] or
        [T, N, n]; of a scene, by member: [n] or [T, n].
      dt: time from one frame to the next [s].
      visuals: what to draw, as :func:`load_visuals` reads it; for a fleet, a dictionary by topology
        name, for a scene by member. By default :func:`visuals_of` each robot.
      ground: planes and height fields to draw; the scene's by default. Without any, a floor is
        drawn below the robots.
      layout: ``"grid"`` puts robots side by side, all on the floor where there is no ground.
        ``"overlaid"`` leaves them where they are, the first solid and the others translucent. By
        default a grid; overlaid on ground that is not level.
      show: the layers to show, or a single one, out of :data:`LAYERS`.
      contacts: the ``contacts`` or ``link_contacts`` of each frame, as ``step_and_report`` returns
        them; leaves with leading axes [T], or [T, N] for a batch. Alternatively a pair of arrays,
        points [m] and forces [N] in world axes, of shape [T, K, 3] or [T, N, K, 3]; a fleet whose
        kinds have different numbers of contacts pads them with zeros to a common K. For a scene, a
        dictionary by member. Forces are drawn as arrows; a force equal to the robot's weight is as
        long as the robot.
      commands: commanded velocities, forward and left [m/s] and yaw [rad/s], in axes that turn with
        the heading: shape [T, 3], or [T, N, 3] for a batch, not for a scene. They are drawn as
        arrows above the robots.
      follow: whether the camera of a browser travels with the root of the first robot, over the
        ground and not up and down. By default it does if there is a single robot that travels
        further than its own length.
      title: the title of the browser's window; by default the names of the robots.

    Returns:
      The scene, with T frames in world axes.

    Raises:
      ValueError: states, contacts or commands have other shapes, a state is not finite, ``dt`` is
        not positive, a layer or layout is unknown, or visuals do not fit the robots.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> viewer.make_scene(arm, artix.neutral_state(arm), 0.01).num_frames
      1
    """
    if not (np.isfinite(dt) and dt > 0.0):
        raise ValueError(f"dt must be a positive time [s]; found {dt}")
    show = (show,) if isinstance(show, str) else show
    unknown = sorted(set(show) - set(LAYERS))
    if unknown:
        raise ValueError(f"show: unknown layers {unknown}; choose from: {', '.join(LAYERS)}")
    if layout not in (None, "grid", "overlaid"):
        raise ValueError(f"layout must be 'grid' or 'overlaid'; found {layout!r}")
    if isinstance(robots, artix.Scene):
        ground = robots.ground if ground is None else ground
        if not robots.names:
            (robots,) = robots.articulations
    if isinstance(robots, artix.Scene):
        if layout is not None or commands is not None:
            raise ValueError(
                "layout and commands do not apply to a scene: its members have positions of their "
                "own"
            )
        whole = _scene_of_members(robots, states, dt, visuals, ground, show, contacts)
        return dataclasses.replace(whole, path=_path(whole, follow), title=title or whole.title)
    if isinstance(states, Mapping) or isinstance(contacts, Mapping):
        raise ValueError("states and contacts by name need an artix.Scene")
    motion = Motion.of(robots, states)
    kinds = motion.kinds()
    crowds = [_crowd(kind, visuals, number, kinds[:number]) for number, kind in enumerate(kinds)]
    size = max(map(_extent, crowds))
    offsets = _lay_out(
        kinds, crowds, layout or ("grid" if is_level(ground) else "overlaid"), ground
    )
    arrows = list[Arrows]()
    segments = list[Segments]()
    marks = list[Marks]()
    if contacts is not None:
        arrows.append(force_arrows(motion, contacts, offsets, size))
    if commands is not None:
        arrows += command_arrows(motion, commands, offsets, size)
    if "center_of_mass" in show:
        marks.append(mass_centers(motion, offsets, size))
    if "support_polygon" in show:
        segments.append(support_polygons(motion, ground, offsets))
    scene = scene_of(crowds, dt=float(dt), ground=ground)
    return dataclasses.replace(
        scene,
        layers=frozenset(show),
        arrows=tuple(arrows),
        segments=tuple(segments),
        marks=tuple(marks),
        title=title or scene.title,
        path=_path(scene, follow),
    )


def _scene_of_members(
    world: artix.Scene,
    states: State | Mapping[str, State],
    dt: float,
    visuals: Sequence[Visual] | Mapping[str, Sequence[Visual]] | None,
    ground: Ground | None,
    show: Collection[str],
    contacts: ContactsToShow | Mapping[str, ContactsToShow] | None,
) -> Scene:
    """Several articulations in one world."""
    by_member: dict[str, Any] = {
        "states": states,
        "visuals": visuals or {},
        "contacts": contacts or {},
    }
    for what, members in by_member.items():
        if not isinstance(members, Mapping):
            raise ValueError(
                f"{what} of a scene: expected a dictionary by member, found "
                f"{type(members).__name__}"
            )
        world.members_of(f"{what} of a scene", members, None if what == "states" else lambda: None)
    crowds = list[Crowd]()
    overlays = list[Scene]()
    for number, name in enumerate(world.names):
        robot = world[name]
        drawn = by_member["visuals"].get(name)
        shapes = colored(visuals_of(robot) if drawn is None else drawn, number)
        touch = by_member["contacts"].get(name)
        can_touch = any(not shape.sensor for shape in world.topologies[number].geometries)
        layers = [layer for layer in show if can_touch or layer != "support_polygon"]
        drawing: dict[str, Any] = {
            "visuals": shapes,
            "ground": ground,
            "show": layers,
            "contacts": touch,
        }
        part = make_scene(robot, by_member["states"][name], dt, **drawing)
        if number and part.num_frames != overlays[0].num_frames:
            raise ValueError(
                f"states of {name!r} have {part.num_frames} frames, others {overlays[0].num_frames}"
            )
        crowds.append(dataclasses.replace(part.crowds[0], name=name))
        overlays.append(part)

    def named(kind: str) -> tuple[Any, ...]:
        """The overlays of all members, whose names tell them apart."""
        return tuple(
            dataclasses.replace(one, name=f"{name}_{one.name}")
            for name, part in zip(world.names, overlays, strict=True)
            for one in getattr(part, kind)
        )

    whole = scene_of(crowds, dt=float(dt), ground=ground)
    overlaid = {"arrows": named("arrows"), "segments": named("segments"), "marks": named("marks")}
    return dataclasses.replace(whole, layers=frozenset(show), **overlaid)  # type: ignore[arg-type]  # By name.


def _crowd(
    kind: Kind,
    visuals: Sequence[Visual] | Mapping[str, Sequence[Visual]] | None,
    number: int,
    before: Sequence[Kind],
) -> Crowd:
    """The robots of a kind. Kinds with the same name are numbered."""
    same = sum(other.topology.name == kind.topology.name for other in before)
    name = f"{kind.topology.name}#{same + 1}" if same else kind.topology.name
    shapes = _visuals_of_kind(kind, visuals, number)
    collisions = collision_visuals(kind.articulation)
    return Crowd(
        name,
        kind.topology.link_names,
        shapes,
        collisions,
        kind.poses.copy(),
        np.ones(len(kind.members)),
    )


def scene_of(crowds: Sequence[Crowd], *, dt: float = 1.0, ground: Ground | None = None) -> Scene:
    """Builds a scene of robots with known poses, on a floor below the lowest of them.

    Args:
      crowds: the robots, kind by kind, their visuals with colours (:func:`colored`).
      dt: time from one frame to the next [s].
      ground: planes and height fields to draw.

    Returns:
      The scene, without arrows, lines and points.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> crowds = viewer.make_scene(arm, artix.neutral_state(arm), 0.02).crowds
      >>> scene = viewer.scene_of(crowds, dt=0.1)
      >>> scene.dt, scene.num_frames
      (0.1, 1)
    """
    size = max(_extent(crowd) for crowd in crowds)
    title = ", ".join(crowd.name for crowd in crowds)
    scene = Scene(tuple(crowds), dt, ground, 0.0, frozenset({"visual"}), (), (), (), size, title)
    return dataclasses.replace(scene, floor=float(scene.corners()[:, 2].min()))


def colored(visuals: Sequence[Visual], number: int) -> tuple[Visual, ...]:
    """Gives visuals without a colour the colour of the kind with this index.

    Args:
      visuals: the visuals of one kind of robots.
      number: index of the kind; colours repeat after the last of them.

    Returns:
      The visuals, all with colours.

    Examples:
      >>> from artix import viewer
      >>> ball = viewer.Visual(link=0, mesh=viewer.geometry_mesh(artix.Geometry.sphere(0.1)))
      >>> viewer.colored([ball], 0)[0].color
      (0.3, 0.52, 0.75)
    """
    color = KIND_COLORS[number % len(KIND_COLORS)]
    return tuple(
        dataclasses.replace(one, color=color) if one.color is None else one for one in visuals
    )


def _visuals_of_kind(
    kind: Kind, visuals: Sequence[Visual] | Mapping[str, Sequence[Visual]] | None, number: int
) -> tuple[Visual, ...]:
    chosen = visuals.get(kind.topology.name) if isinstance(visuals, Mapping) else visuals
    shapes = (
        visuals_of(kind.articulation) if chosen is None else checked_visuals(chosen, kind.topology)
    )
    return colored(shapes, number)


def _extent(crowd: Crowd) -> float:
    """The diagonal of a robot's bounding box in the first frame [m]."""
    points = [crowd.poses[0, 0, :, :3]]
    for visual in crowd.visuals:
        inside = transform(np.asarray(visual.pose, float), visual.mesh.vertices[::7].astype(float))
        points.append(transform(crowd.poses[0, 0, visual.link], inside))
    return max(float(np.linalg.norm(np.ptp(np.concatenate(points), axis=0))), 1e-3)


def _path(scene: Scene, follow: bool | None) -> np.ndarray | None:
    """How far the first robot's root has moved over the ground, [T, 3]; ``None`` if not
    followed.
    """
    way = scene.crowds[0].poses[:, 0, 0, :3] * [1.0, 1.0, 0.0]
    way = way - way[0]
    if follow is None:
        is_alone = sum(crowd.poses.shape[1] for crowd in scene.crowds) == 1
        follow = is_alone and float(np.linalg.norm(way, axis=1).max()) > scene.size
    return way if follow else None


def _reach(crowd: Crowd) -> np.ndarray:
    """The largest distances along x and y that robots reach from their roots, [2] [m]."""
    frames = np.unique(np.linspace(0, len(crowd.poses) - 1, 5).astype(int))
    away = crowd.corners(frames)[..., :2] - crowd.poses[frames][:, :, 0, None, :2]
    return np.abs(away).max(axis=(0, 1, 2, 3), initial=0.01)


def _lowest(crowd: Crowd) -> float:
    """The height of the lowest point of robots of a kind [m]."""
    frames = np.unique(np.linspace(0, len(crowd.poses) - 1, 25).astype(int))
    return float(crowd.corners(frames)[..., 2].min())


def _lay_out(
    kinds: Sequence[Kind], crowds: Sequence[Crowd], layout: Layout, ground: Ground | None
) -> np.ndarray:
    """Moves the robots apart, or lets one stand out among those at its place; returns how each is
    moved, [N, 3].
    """
    count = sum(len(kind.members) for kind in kinds)
    offsets = np.zeros((count, 3))
    opacities = np.ones(count)
    if layout == "overlaid":
        opacities[1:] = 0.3
    elif count > 1:
        offsets = _grid(count, kinds, np.max([_reach(crowd) for crowd in crowds], axis=0))
        if ground is None:
            for kind, crowd in zip(kinds, crowds, strict=True):
                offsets[kind.members, 2] = -_lowest(crowd)
    for crowd, kind in zip(crowds, kinds, strict=True):
        crowd.poses[..., :3] += offsets[kind.members, None]
        crowd.opacities[:] = opacities[kind.members]
    return offsets


def _grid(count: int, kinds: Sequence[Kind], reach: np.ndarray) -> np.ndarray:
    """Where each robot's root is moved so that they stand in rows without touching, [N, 3]."""
    spacing = 2.2 * np.maximum(reach, 0.3 * reach.max())
    columns = int(np.ceil(np.sqrt(count * spacing[0] / spacing[1])))
    number = np.arange(count)
    places = np.stack([-(number // columns), number % columns, np.zeros(count)], axis=1) * [
        *spacing,
        0.0,
    ]
    places -= 0.5 * (places.min(axis=0) + places.max(axis=0))
    for kind in kinds:
        places[kind.members, :2] -= kind.poses[0, :, 0, :2]
    return places
