"""Robots and their states over time, and what can be drawn over them: forces, commands, centres of
mass, support.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import artix
from artix import Articulation, ContactReport, Fleet, Ground, LinkContactReport, State, Topology
from artix.math.arrays import host_arrays
from artix.viewer.meshes import rotate, transform

#: Robots of one topology with more different shapes than these are drawn with those of the first.
MOST_SHAPES = 32


@dataclasses.dataclass(frozen=True)
class Kind:
    """The robots of one topology and with the same shapes.

    Attributes:
      articulation: parameters of the first robot, which define the shapes.
      members: indices of the K robots among all robots, shape [K].
      poses: poses of their links: position [m], quaternion xyzw, shape [T, K, L, 7].
    """

    articulation: Articulation
    members: np.ndarray
    poses: np.ndarray

    @property
    def topology(self) -> Topology:
        """Their static topology."""
        return self.articulation.topology


@dataclasses.dataclass(frozen=True)
class Motion:
    """Robots and their states at T times.

    Attributes:
      robots: one articulation, whose arrays may have a leading axis [N], or a fleet.
      states: every leaf with leading axes [T, N].
    """

    robots: Articulation | Fleet
    states: State

    @classmethod
    def of(cls, robots: Articulation | Fleet, states: State) -> Motion:
        """Makes a motion from states with any of the allowed leading axes.

        Args:
          robots: one articulation, whose arrays may have a leading axis [N] of robots, or a fleet.
          states: of one articulation: leaves ``joint_position`` of shape [n] for a still, [T, n]
            for a motion, [T, N, n] for motions of a batch; of N articulations or of a fleet: [N, n]
            or [T, N, n].

        Raises:
          ValueError: a leaf of the states has a wrong shape, or a state is not finite.
        """
        if isinstance(robots, Fleet):
            return cls(robots, _arrange(states, robots.num_members, robots.num_dofs, "the fleet"))
        topology = robots.topology
        count = len(robots.link_mass) if robots.link_mass.ndim == 2 else None
        return cls(robots, _arrange(states, count, topology.num_dofs, repr(topology.name)))

    @property
    def num_frames(self) -> int:
        """Number T of times."""
        return int(self.states.joint_position.shape[0])

    @property
    def num_robots(self) -> int:
        """Number N of robots."""
        return int(self.states.joint_position.shape[1])

    def evaluate(self, function: Callable[..., Any]) -> Any:
        """Evaluates a function of one articulation and its state for all robots at all times: NumPy
        leaves [T, N, ...].

        Args:
          function: a function such as ``artix.frame_pose``.
        """
        robots = self.robots
        states = jax.tree.map(lambda leaf: jnp.asarray(leaf, robots.dtype), self.states)
        if isinstance(robots, Fleet):  # A fleet's programs take its members at one time.
            frames = [
                jax.tree.map(lambda leaf, t=t: leaf[t], states) for t in range(self.num_frames)
            ]
            results = [host_arrays(robots.evaluate(function, frame)) for frame in frames]
            return jax.tree.map(lambda *leaves: np.stack(leaves), *results)
        over_robots = jax.vmap(function, in_axes=(0 if robots.link_mass.ndim == 2 else None, 0))
        return host_arrays(jax.jit(jax.vmap(over_robots, in_axes=(None, 0)))(robots, states))

    def kinds(self) -> list[Kind]:
        """The robots by topology, with the motion of their links."""
        poses = self.evaluate(artix.frame_pose).astype(float)
        robots = self.robots
        if not isinstance(robots, Fleet):
            if robots.link_mass.ndim == 1:
                return [Kind(robots, np.arange(self.num_robots), poses)]
            return [
                Kind(jax.tree.map(lambda leaf, k=k[0]: leaf[k], robots), k, poses[:, k])
                for k in _with_the_same_shapes(robots)
            ]
        kinds = list[Kind]()
        for articulation, members in zip(robots.articulations, robots.kinds, strict=True):
            links = articulation.topology.num_links
            for k in _with_the_same_shapes(articulation):
                shown = members[k]
                first = robots.member(int(shown[0]))
                kinds.append(Kind(first, shown, poses[:, shown, :links]))
        return kinds


def _with_the_same_shapes(robots: Articulation) -> list[np.ndarray]:
    """The numbers of the robots of a batch that look alike: those with the same places of joints
    and the same shapes.
    """
    drawn = (robots.joint_parent_pose, robots.joint_child_pose, robots.geometry)
    leaves = [np.asarray(leaf) for leaf in host_arrays(jax.tree.leaves(drawn)) if np.ndim(leaf)]
    count = len(robots.link_mass)
    alike: dict[bytes, list[int]] = {}
    for k in range(count):
        alike.setdefault(b"".join(leaf[k].tobytes() for leaf in leaves), []).append(k)
    if len(alike) <= MOST_SHAPES:
        return [np.array(members) for members in alike.values()]
    warnings.warn(
        f"{robots.topology.name}: {count} robots of {len(alike)} different shapes are drawn with "
        f"those of the first; pass at most {MOST_SHAPES} to see their own",
        stacklevel=2,
    )
    return [np.arange(count)]


def _arrange(states: State, count: int | None, width: int, owner: str) -> State:
    """Arranges states as NumPy arrays [T, N, ...].

    Args:
      states: the states from the user.
      count: the number of robots; ``None`` for one articulation with any number of robots.
      width: the number of joint coordinates.
      owner: how messages name the robots.
    """
    if not isinstance(states, State):
        raise ValueError(
            "states must be an artix.State, such as artix.rollout returns; found "
            f"{type(states).__name__}"
        )
    widths = {"root_pose": 7, "root_velocity": 6, "joint_position": width, "joint_velocity": width}
    arrays = {name: np.asarray(getattr(states, name)) for name in widths}
    leading = arrays["joint_position"].shape[:-1]
    for name, array in arrays.items():
        if array.shape != (*leading, widths[name]):
            raise ValueError(
                f"states of {owner}: {name} must have shape [..., {widths[name]}] with the "
                f"leading axes {leading} of joint_position; found {array.shape}"
            )
        if not np.isfinite(array).all():
            frame = np.argwhere(~np.isfinite(array))[0][: len(leading)].tolist()
            raise ValueError(
                f"states of {owner}: {name} is not finite at {frame}; cut the motion there"
            )
    axes = {0: (1, 1), 1: (leading[0], 1) if leading else (), 2: leading}
    if count is not None:
        axes = {1: (1, count), 2: leading}
        if len(leading) not in axes or leading[-1] != count:
            raise ValueError(
                f"states of {owner}: expected leading axes [{count}] or [T, {count}]; found "
                f"{leading}"
            )
    if len(leading) not in axes or 0 in leading:
        raise ValueError(
            f"states of {owner}: expected no leading axes (a still), [T] (a motion) or [T, N] "
            f"(motions of a batch), none of them empty; found {leading}"
        )
    return State(*(array.reshape(*axes[len(leading)], -1) for array in arrays.values()))  # type: ignore[arg-type]  # NumPy's


#: Contacts from the report of a step, or points and forces in world axes.
ContactsToShow: TypeAlias = ContactReport | LinkContactReport | tuple[npt.ArrayLike, npt.ArrayLike]
#: Contact candidates within this distance of the ground support the robot [m].
TOUCHING = 0.005


@dataclasses.dataclass(frozen=True)
class Arrows:
    """Arrows at T times: starts [T, K, 3] [m], vectors [T, K, 3] [m] and a colour."""

    name: str
    starts: np.ndarray
    vectors: np.ndarray
    color: tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Segments:
    """Lines at T times: ends [T, K, 2, 3] [m], equal for absent lines, and a colour."""

    name: str
    ends: np.ndarray
    color: tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Marks:
    """Balls at T times: centres [T, K, 3] [m], radius [m] and a colour."""

    name: str
    centers: np.ndarray
    radius: float
    color: tuple[float, float, float]


def force_arrows(
    motion: Motion, contacts: ContactsToShow, offsets: np.ndarray, size: float
) -> Arrows:
    """Arrows for forces of the ground on the robots. A force equal to the weight is as long as the
    robot.

    Raises:
      ValueError: the leading axes are not the states', or points and forces have different shapes.
    """
    leading = (motion.num_frames, motion.num_robots)
    if isinstance(contacts, ContactReport | LinkContactReport):
        contacts = (contacts.point, contacts.force)
    points, forces = (np.asarray(one, float) for one in contacts)
    if motion.num_robots == 1 and points.ndim == 3:
        points, forces = points[:, None], forces[:, None]
    if motion.num_frames == 1 and points.ndim == 2:
        points, forces = points[None, None], forces[None, None]
    if points.shape[:2] != leading or points.shape[3:] != (3,) or forces.shape != points.shape:
        shapes = " and ".join(str(np.shape(one)) for one in contacts)
        raise ValueError(
            "contacts: point and force must have shape [T, K, 3] or [T, N, K, 3] with T, N = "
            f"{leading} as the states; found {shapes}"
        )
    robots = motion.robots
    kinds = (
        [robots.member(k) for k in range(len(robots))] if isinstance(robots, Fleet) else [robots]
    )
    weights = [
        np.linalg.norm(np.asarray(one.gravity), axis=-1) * np.asarray(one.link_mass).sum(-1)
        for one in kinds
    ]
    scale = 0.8 * size / np.maximum(np.broadcast_to(np.hstack(weights), motion.num_robots), 1e-9)
    shape = (leading[0], -1, 3)
    starts = points + offsets[:, None]
    vectors = scale[:, None, None] * forces
    return Arrows(
        "contact_forces", starts.reshape(shape), vectors.reshape(shape), (0.85, 0.15, 0.2)
    )


def command_arrows(
    motion: Motion, commands: npt.ArrayLike, offsets: np.ndarray, size: float
) -> list[Arrows]:
    """Arrows for commanded velocities above the robots: linear ones horizontally, yaw rates
    vertically.

    Raises:
      ValueError: the commands have another shape.
    """
    wanted = np.asarray(commands, float)
    leading = (motion.num_frames, motion.num_robots)
    if wanted.shape not in ((*leading, 3), (leading[0], 3)) or (
        wanted.ndim == 2 and leading[1] != 1
    ):
        raise ValueError(
            f"commands must have shape [T, N, 3] or, for one robot, [T, 3] with T, N = {leading}; "
            f"found {wanted.shape}"
        )
    wanted = wanted.reshape(*leading, 3)
    roots = np.asarray(motion.states.root_pose, float)
    forward = rotate(roots[..., 3:], np.array([1.0, 0.0, 0.0]))
    angle = np.arctan2(forward[..., 1], forward[..., 0])
    cos, sin = np.cos(angle), np.sin(angle)
    x, y, yaw = np.moveaxis(wanted, -1, 0)
    planar = 0.6 * size * np.stack([cos * x - sin * y, sin * x + cos * y, 0.0 * x], axis=-1)
    upward = 0.6 * size * np.stack([0.0 * yaw, 0.0 * yaw, yaw], axis=-1)
    starts = roots[..., :3] + offsets + [0.0, 0.0, 0.35 * size]
    return [
        Arrows("velocity_commands", starts, planar, (0.2, 0.65, 0.3)),
        Arrows("yaw_commands", starts, upward, (0.2, 0.4, 0.85)),
    ]


def mass_centers(motion: Motion, offsets: np.ndarray, size: float) -> Marks:
    """The centre of mass of each robot."""
    centers = motion.evaluate(artix.center_of_mass) + offsets
    return Marks("center_of_mass", centers, 0.03 * size, (0.95, 0.8, 0.1))


def support_polygons(motion: Motion, ground: Ground | None, offsets: np.ndarray) -> Segments:
    """The convex hull, as seen from above, of the points where each robot touches the ground.

    Raises:
      ValueError: there is no ground, or the robots are a mixed fleet, whose members differ in their
        shapes.
    """
    if ground is None:
        raise ValueError("support polygons need a ground, such as ground=artix.Ground.flat()")
    if isinstance(motion.robots, Fleet) and len(motion.robots.kinds) > 1:
        raise ValueError(
            "support polygons are not available for mixed fleets; show one kind of robot"
        )
    poses, local, gaps = motion.evaluate(partial(_bearing_points, ground=ground))
    points = transform(poses.astype(float), local.astype(float))
    frames, robots, count = gaps.shape
    ends = np.zeros((frames, robots, count, 2, 3))
    for t, n in np.ndindex(frames, robots):
        hull = _hull(points[t, n][gaps[t, n] <= TOUCHING] + offsets[n])
        ends[t, n, :] = hull[0] if len(hull) else 0.0
        ends[t, n, : len(hull), 0] = hull
        ends[t, n, : len(hull), 1] = np.roll(hull, -1, axis=0)
    return Segments("support_polygon", ends.reshape(frames, -1, 2, 3), (0.1, 0.6, 0.35))


def _bearing_points(
    articulation: Articulation, state: State, ground: Ground
) -> tuple[jax.Array, ...]:
    """Contact candidates: poses of their links [K, 7], points in the links' frames [K, 3], and gaps
    [K].
    """
    contacts = artix.ground_contacts(artix.Scene(articulation, ground=ground), state).contacts
    return (
        artix.frame_pose(articulation, state)[jnp.array(contacts.links)],
        contacts.point,
        contacts.gap,
    )


def _hull(points: np.ndarray) -> np.ndarray:
    """The corners of the convex hull of points [P, 3] as seen from above, in order."""
    from scipy.spatial import ConvexHull, QhullError

    if len(points) < 3:
        return points
    try:
        return points[ConvexHull(points[:, :2]).vertices]
    except QhullError:  # The points are collinear.
        order = np.lexsort((points[:, 1], points[:, 0]))
        return points[order[[0, -1]]]
