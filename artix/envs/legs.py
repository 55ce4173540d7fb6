"""The legs of a robot, found from its description: feet, joints, contact shapes, and a pose that
stands on them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import inverse_kinematics
from artix.editing.to_builder import geometry_at
from artix.io.common.poses import compose, poses_at_zero, rotation_matrix
from artix.model.geometry import CANDIDATE_PATTERNS

#: A leaf of the tree is a foot if it reaches this fraction of the depth of the lowest one below the
#: root.
_DEEP_ENOUGH = 0.8
#: A joint turns about the trunk's y axis if its axis has at least this component along it.
_PITCH = 0.9
#: Radius of the contact sphere of a foot without shapes, relative to the length of its leg.
_RADIUS = 0.05
#: How much of a hull, from below, is its sole.
_SOLE = 0.3
#: How often the feet of a biped are placed below the centre of mass of the pose before.
_ROUNDS = 3


class Leg(NamedTuple):
    """A foot and the joints between it and the trunk."""

    foot: str
    """Name of the foot's link."""
    dofs: tuple[int, ...]
    """The DOFs from the trunk to the foot."""
    pitch: tuple[int, ...]
    """Those that turn about the trunk's y axis: hip, knee and, if there is one, ankle."""
    shape: artix.Geometry
    """The shape with which the foot touches the ground, in the link's axes."""
    shape_source: str
    """Where the shape comes from."""
    hip: np.ndarray
    """The joint of the hip in the trunk's axes while all joints are at zero [m], [3]."""
    knee: np.ndarray
    """The joint of the knee, likewise; the hip's if there is no knee."""
    end: np.ndarray
    """The joint of the ankle, or the centre of a round foot, likewise."""
    contact: np.ndarray
    """The centre of the shape, likewise."""

    @property
    def ankle(self) -> tuple[int, ...]:
        """The DOFs below the knee, if the leg has an ankle."""
        return self.dofs[self.dofs.index(self.pitch[1]) + 1 :] if _has_ankle(self.pitch) else ()

    @property
    def length(self) -> float:
        """Length of the straight leg in the plane of its motion, from the hip to the ankle or the
        round foot [m].
        """
        return _planar(self.hip - self.knee) + _planar(self.knee - self.end)

    @property
    def is_flat(self) -> bool:
        """Whether the foot has a sole that an ankle keeps level, rather than a point of contact."""
        return _has_ankle(self.pitch) and len(shape_points(self.shape)[0]) > 1


def find_feet(articulation: artix.Articulation) -> tuple[str, ...]:
    """Names of the links with which a robot stands, in the order of the tree.

    The last links of the branches that reach lowest while all joints are at zero. On a branch, the
    link of the lowest shape counts; without shapes, the lowest link.

    Args:
      articulation: a floating robot whose root has x forward and z up.

    Raises:
      ValueError: fewer than two are found.
    """
    topology: Any = articulation.topology
    poses = poses_at_zero(articulation)
    lowest = _lowest_points(articulation, poses)
    leaves = sorted(set(range(1, topology.num_bodies)) - set(topology.body_parent))
    feet: dict[int, tuple[float, int]] = {}
    for body in leaves:
        links = [int(link) for link in np.flatnonzero(topology.link_body == body)]
        shapes = [
            (lowest[k], shape.link)
            for k, shape in enumerate(topology.geometries)
            if shape.link in links
        ]
        feet[body] = (
            min(shapes) if shapes else min((round(poses[link, 2], 4), -link) for link in links)
        )
    depth = min((height for height, _ in feet.values()), default=0.0)
    low_links = [
        abs(link) for height, link in feet.values() if depth < 0 and height <= _DEEP_ENOUGH * depth
    ]
    names = tuple(topology.link_names[link] for link in sorted(low_links))
    if len(names) < 2:
        ends = ", ".join(topology.link_names[abs(link)] for _, link in feet.values()) or "none"
        raise ValueError(
            f"{topology.name}: a legged robot stands on two feet or more while its joints are at "
            f"zero; found {', '.join(names) or 'none'} among the ends of its branches: {ends}; "
            "name the links of the feet with feet=, and check that the root has z up"
        )
    return names


def find_legs(
    articulation: artix.Articulation, feet: Sequence[str], radius: float | None = None
) -> tuple[Leg, ...]:
    """The leg of each foot.

    Args:
      articulation: a floating robot whose root has x forward and z up.
      feet: names of the feet: links, or frames or shapes on them.
      radius: radius of the contact sphere of feet without shapes [m]; 5 % of the length of the leg
        if ``None``.

    Raises:
      ValueError: there is no link, frame or shape of a name, or no joint between it and the root.
    """
    return tuple(_leg(articulation, foot, radius) for foot in feet)


def _leg(articulation: artix.Articulation, name: str, radius: float | None) -> Leg:
    topology: Any = articulation.topology
    link = link_of(topology, name)
    body = int(topology.link_body[link])
    dofs = tuple(int(dof) for dof in np.flatnonzero(topology.dof_moves_body[:, body]))
    if not dofs:
        raise ValueError(
            f"{topology.name}: the foot {name!r} does not move relative to the root; is it a foot?"
        )
    poses = poses_at_zero(articulation)
    lowest = _lowest_points(articulation, poses)
    lateral = _lateral_parts(articulation, poses)
    pitch = tuple(dof for dof in dofs if abs(lateral[dof]) > _PITCH)
    joint = [poses[topology.dof_link[dof], :3] for dof in (pitch or dofs)]
    hip, knee = joint[0], joint[min(1, len(joint) - 1)]
    reach = float(np.linalg.norm(hip - knee) + np.linalg.norm(knee - poses[link, :3]))
    shape, source = _shape(
        articulation, link, poses[link], lowest, reach, radius, _has_ankle(pitch)
    )
    points = shape_points(shape)[0]
    contact = _moved(poses[link], points.mean(axis=0))
    end = joint[2] if _has_ankle(pitch) and len(points) > 1 else contact
    return Leg(topology.link_names[link], dofs, pitch, shape, source, hip, knee, end, contact)


def _shape(
    articulation: artix.Articulation,
    link: int,
    pose: np.ndarray,
    lowest: np.ndarray,
    reach: float,
    radius: float | None,
    has_ankle: bool,
) -> tuple[artix.Geometry, str]:
    """One shape for a foot, and where it comes from.

    Its lowest shape, or the hull of several at that height. Of the hull of a mesh, the sole if the
    leg has an ankle, and a ball at its lower end otherwise.
    """
    topology: Any = articulation.topology
    numbers = [
        k for k, one in enumerate(topology.geometries) if one.link == link and not one.sensor
    ]
    if not numbers:
        ball = artix.Geometry.sphere(_RADIUS * reach if radius is None else radius)
        return ball, "derived" if radius is None else "given"
    bottom = min(lowest[k] for k in numbers)
    lower = [described_shape(articulation, k) for k in numbers if lowest[k] - bottom < 0.02 * reach]
    if len(lower) > 1:
        parts = [shape_points(shape) for shape in lower]
        least = min(size for _, size in parts)
        # A point of a larger ball becomes a lower point of the smallest one.
        down = rotation_matrix(pose[3:]).T @ np.array([0.0, 0.0, -1.0])
        points = np.concatenate([points + (size - least) * down for points, size in parts])
        return dataclasses.replace(
            _sole(points, pose, least), friction=max(one.friction for one in lower)
        ), "file"
    (shape,) = lower
    if shape.type is not artix.GeometryType.HULL:
        return shape, "file"
    points, least = shape_points(shape)
    if not has_ankle:
        size = min(0.5 * float(np.median(np.ptp(points, axis=0))) + least, _RADIUS * reach)
        size = size if radius is None else radius
        turn = rotation_matrix(pose[3:])
        world = points @ turn.T
        low = world[:, 2].min() - least
        middle = world[world[:, 2] <= low + least + _SOLE * np.ptp(world[:, 2])].mean(axis=0)
        ball = artix.Geometry.sphere(
            size, position=(*middle[:2], low + size) @ turn, friction=shape.friction
        )
        return ball, "mesh"
    return dataclasses.replace(_sole(points, pose, least), friction=shape.friction), "mesh"


def _sole(points: np.ndarray, pose: np.ndarray, radius: float) -> artix.Geometry:
    """The corners of the lower part of a foot [P, 3], level while all joints are at zero; at most
    four.
    """
    turn = rotation_matrix(pose[3:])
    world = points @ turn.T
    low = world[:, 2].min()
    sole = world[world[:, 2] <= low + max(_SOLE * np.ptp(world[:, 2]), 1e-6)]
    if len(sole) > 4:
        (low_x, back), (right, front) = sole[:, :2].min(axis=0), sole[:, :2].max(axis=0)
        sole = np.array([(x, y, low) for x in (low_x, right) for y in (back, front)])
    return artix.Geometry.hull(sole @ turn, radius=radius)


def described_shape(articulation: artix.Articulation, number: int) -> artix.Geometry:
    """The description of one of a robot's shapes, by its number."""
    topology: Any = articulation.topology
    arrays = jax.tree.map(lambda leaf: np.asarray(leaf, float), articulation.geometry)
    return geometry_at(topology.geometries, arrays, number)


def shape_points(shape: artix.Geometry) -> tuple[np.ndarray, float]:
    """The points of a shape in the axes of its link [P, 3], and the radius of the balls about them
    [m].
    """
    if shape.points is not None:
        points, radius = np.asarray(shape.points, float), shape.size[0]
    elif shape.type is artix.GeometryType.ELLIPSOID:
        points, radius = np.concatenate([np.diag(shape.size), -np.diag(shape.size)]), 0.0
    else:
        pattern = CANDIDATE_PATTERNS[shape.type]
        extent = [(*shape.size, 0.0, 0.0)[k] for k in pattern.extent]
        points, radius = (
            pattern.points * np.array(extent),
            shape.size[0] if pattern.have_radius else 0.0,
        )
    return np.stack([_moved(np.asarray(shape.pose, float), point) for point in points]), float(
        radius
    )


def standing_pose(
    articulation: artix.Articulation, legs: Sequence[Leg], extension: float, knees: str | None
) -> tuple[np.ndarray, str]:
    """Joint positions with the feet under the hips and the trunk level.

    By :func:`artix.inverse_kinematics.solve`, from knees that bend either way. The feet of a biped
    are placed so that the centre of mass is above them, of flat ones between the ankle and the
    middle of the sole, towards which it sinks as the ankles give way. Joints outside the legs stay
    as near to zero as their limits allow.

    Args:
      articulation: the robot.
      legs: its legs.
      extension: distance from hip to ankle, or to a round foot, relative to that of the straight
        leg.
      knees: ``"forward"`` or ``"backward"``, where the limits of the joints leave the choice. If
        ``None``, each leg bends as is nearer to zero, and if that is equal, those of bipeds forward
        and others backward.

    Returns:
      The positions [n], and which way the knees point.

    Raises:
      ValueError: there is no such pose.
    """
    topology: Any = articulation.topology
    is_fixed_choice = knees is not None
    knees = knees or ("forward" if len(legs) == 2 else "backward")
    lower, upper = (
        np.asarray(articulation.joint_lower_limit, float),
        np.asarray(articulation.joint_upper_limit, float),
    )
    rest = np.clip(np.zeros(topology.num_dofs), lower, upper)
    if any(len(leg.pitch) < 2 for leg in legs):
        return rest, "none"
    fixed = _with_contact_frames(articulation, legs)
    neutral = artix.neutral_state(fixed)
    frames = [f"contact of {leg.foot}" for leg in legs]
    links = [link_of(topology, leg.foot) for leg in legs]
    at_zero = poses_at_zero(articulation)
    targets = np.stack(
        [
            np.concatenate([leg.contact, at_zero[link, 3:]])
            for leg, link in zip(legs, links, strict=True)
        ]
    )
    is_flat = all(leg.is_flat for leg in legs)
    for target, leg in zip(targets, legs, strict=True):
        target[0] = leg.contact[0] if is_flat else leg.hip[0]
        target[2] += leg.hip[2] - extension * leg.length - leg.end[2]
    bend = math.acos(extension)
    signs = np.sign(_lateral_parts(articulation, at_zero))  # of each DOF that pitches
    seeds = []
    for way in (1, -1):
        seed = rest.copy()
        for leg in legs:
            for dof, angle in zip(leg.pitch, (-bend, 2 * bend, -bend), strict=False):
                seed[dof] = way * signs[dof] * angle
        seeds.append(np.clip(seed, lower, upper))

    cost = 0.3 * legs[0].length if is_flat else 0.0

    def reached(seed: Any, places: Any) -> tuple[inverse_kinematics.Solution, jax.Array]:
        solution = inverse_kinematics.solve(
            fixed,
            [
                inverse_kinematics.FrameTask(frame, places[k], 1.0, cost)
                for k, frame in enumerate(frames)
            ],
            jax.tree.map(lambda leaf: leaf[None], neutral.replace(joint_position=seed)),
            position_tolerance=2e-3 * legs[0].length,
            rotation_tolerance=0.02,
        )
        return solution, artix.center_of_mass(fixed, solution.state)[0]

    places, reach_from = np.stack([targets, targets]), jax.jit(jax.vmap(reached))
    reach, mass = reach_from(
        jnp.asarray(np.stack(seeds), fixed.dtype), jnp.asarray(places, fixed.dtype)
    )
    for _ in range(_ROUNDS if len(legs) == 2 else 0):  # Bent knees move the centre of mass.
        places[:, :, 0] = np.asarray(mass)[:, None] + np.mean([_ahead(leg) for leg in legs])
        reach, mass = reach_from(
            jnp.asarray(np.stack(seeds), fixed.dtype), jnp.asarray(places, fixed.dtype)
        )
    poses = np.round(np.asarray(reach.state.joint_position, float), 4)
    ways = [k for k in ((0, 1) if knees != "backward" else (1, 0)) if reach.solved[k]]
    if not ways:
        raise ValueError(
            f"{topology.name}: no pose has the feet {', '.join(leg.foot for leg in legs)} under "
            f"the hips at {100 * extension:.0f} % of the length of the legs (missed by "
            f"{float(reach.position_error.min()):.3g} m); give default_position=, or another "
            "leg_extension="
        )
    pose = poses[ways[0]].copy()
    if (
        not is_fixed_choice and len(ways) > 1
    ):  # The legs do not depend on each other while the trunk is fixed.
        for leg in legs:
            least = [float(np.abs(poses[way][list(leg.dofs)]).sum()) for way in ways]
            if least[1] < 0.95 * least[0]:
                pose[list(leg.dofs)] = poses[ways[1]][list(leg.dofs)]
    turned = {bool(signs[leg.pitch[1]] * pose[leg.pitch[1]] > 0) for leg in legs}
    return pose, "forward and backward" if len(
        turned
    ) > 1 else "forward" if turned.pop() else "backward"


def _ahead(leg: Leg) -> float:
    """How far the contact of a biped's foot is in front of the centre of mass in its default pose
    [m].
    """
    return 0.5 * float(leg.contact[0] - leg.end[0]) if leg.is_flat else 0.0


def _with_contact_frames(
    articulation: artix.Articulation, legs: Sequence[Leg]
) -> artix.Articulation:
    """The robot with its root fixed, without shapes, and with a frame at the centre of each contact
    shape.
    """
    builder = artix.builder_from_articulation(artix.select_geometry(articulation, ()))
    for leg in legs:
        middle = shape_points(leg.shape)[0].mean(axis=0)
        builder.add_frame(f"contact of {leg.foot}", leg.foot, (*middle, 0.0, 0.0, 0.0, 1.0))
    floating = builder.build(dtype=articulation.dtype)
    topology: Any = floating.topology
    return floating.replace(topology=dataclasses.replace(topology, fixed_base=True))


def _lowest_points(articulation: artix.Articulation, poses: np.ndarray) -> np.ndarray:
    """Height of the lowest point of each shape where links have these poses [m], [G]."""
    lowest = []
    for number, one in enumerate(articulation.topology.geometries):
        shape, pose = described_shape(articulation, number), poses[one.link]
        frame = compose(pose, np.asarray(shape.pose, float))
        up = rotation_matrix(frame[3:])[2]
        if shape.type is artix.GeometryType.ELLIPSOID:
            lowest.append(frame[2] - np.linalg.norm(up * shape.size))
        elif shape.type is artix.GeometryType.CYLINDER:
            radius, half = shape.size
            lowest.append(frame[2] - radius * np.hypot(up[0], up[1]) - half * abs(up[2]))
        else:
            points, radius = shape_points(shape)
            lowest.append(pose[2] + (points @ rotation_matrix(pose[3:])[2]).min() - radius)
    return np.array(lowest)


def _lateral_parts(articulation: artix.Articulation, poses: np.ndarray) -> np.ndarray:
    """Component along the trunk's y of the axis about which each DOF turns, [n], where all joints
    are at zero and links have these poses. It is zero for DOFs that slide.
    """
    topology: Any = articulation.topology
    in_link = np.asarray(articulation.joint_child_pose, float)
    parts = []
    for link, axis, slides in zip(
        topology.dof_link, topology.dof_axis, topology.dof_is_linear, strict=True
    ):
        joint = compose(poses[link], in_link[link])
        parts.append(0.0 if slides else rotation_matrix(joint[3:])[1, axis])
    return np.array(parts)


def link_of(topology: Any, name: str) -> int:
    """The link of a foot: of that name, or with a frame or a shape of that name."""
    shapes = {shape.name: shape.link for shape in topology.geometries}
    frames = dict(zip(topology.frame_names, topology.frame_links, strict=True))
    known = {**shapes, **frames, **{link: k for k, link in enumerate(topology.link_names)}}
    if name not in known:
        links = ", ".join(topology.link_names)
        raise ValueError(
            f"{topology.name}: no link called {name!r} for a foot; choose from: {links}"
        )
    return int(known[name])


def _moved(pose: np.ndarray, point: np.ndarray) -> np.ndarray:
    return pose[:3] + rotation_matrix(pose[3:]) @ point


def _has_ankle(pitch: Sequence[int]) -> bool:
    return len(pitch) > 2


def _planar(way: np.ndarray) -> float:
    return float(np.hypot(way[0], way[2]))
