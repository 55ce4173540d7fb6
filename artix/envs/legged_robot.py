"""A legged robot, and what a task needs to know about it: given, or derived from its
description.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

import artix
from artix.envs import observations, starts, terminations
from artix.envs.legs import (
    Leg,
    described_shape,
    find_feet,
    find_legs,
    shape_points,
    standing_pose,
)
from artix.io.common.poses import poses_at_zero, rotation_matrix
from artix.math.arrays import device_array
from artix.model.checks import as_number

Array = jax.Array

#: A number for all joints, one for each DOF [n], or by the end of the joint's name.
PerJoint: TypeAlias = "float | Sequence[float] | Mapping[str, float] | Array"

#: Distance from hip to ankle in the default pose, relative to the straight leg: of bipeds, and of
#: others.
_EXTENSION = {True: 0.92, False: 0.7}
#: Stiffness of a leg's drives, in units of (weight on one foot) x (length of the leg) per radian.
_STIFFNESS = 2.0
#: Damping over stiffness of a drive [s].
_DAMPING = 0.02
#: Acceleration of a motor without load at its largest torque [rad/s^2], which gives its armature.
_ACCELERATION = 3000.0
#: The largest plausible force of a joint, and the one assumed without, in units of (weight on one
#: foot) x (length).
_MOST_FORCE, _FORCE = 50.0, 3.0
#: Radius of the sensor around a biped's root, relative to its height.
_NEAR_GROUND = 0.3
#: Columns of a table.
_WIDTH = 110
#: Radius of the shanks in pairs of self-collision, relative to the length of the leg.
_SHANK = 0.06


class Assumption(NamedTuple):
    """Something that a task needs to know about a robot."""

    name: str
    value: str
    source: str
    """``"file"``, ``"mesh"``, ``"derived"``, ``"given"`` or ``"convention"``."""


class LeggedRobot(NamedTuple):
    """A robot, and what a task needs to know about it. :meth:`of` derives that from the robot.

    Attributes:
      articulation: the robot, with its drives.
      imu: name of the IMU's frame.
      feet: names of the feet: of their contact shapes, and of a link or frame at each.
      trunk: names of sensor shapes that must not touch the ground.
      default_position: joint positions of the default pose, [n] [rad].
      pose_weight: weights of the joints in the reward term ``pose``, [n].
      height: height of the root in the default pose, with the feet on the ground [m].
      assumptions: what :meth:`of` found and assumed; empty without it.

    Examples:
      >>> from artix import envs
      >>> robot = envs.LeggedRobot.of(artix.robots.load("quadruped"), stiffness=35.0)
      >>> print(robot.feet[0], round(robot.height, 3), robot.imu)
      front_left_foot 0.314 imu
    """

    articulation: artix.Articulation
    imu: str
    feet: tuple[str, ...]
    trunk: tuple[str, ...]
    default_position: Array
    pose_weight: Array
    height: float
    assumptions: tuple[Assumption, ...] = ()

    @classmethod
    def of(
        cls,
        articulation: artix.Articulation,
        feet: Sequence[str] | None = None,
        *,
        foot_radius: float | None = None,
        imu: str | None = None,
        trunk: artix.Geometry | None = None,
        default_position: PerJoint | None = None,
        leg_extension: float | None = None,
        knees: str | None = None,
        height: float | None = None,
        max_force: PerJoint | None = None,
        stiffness: PerJoint | None = None,
        damping: PerJoint | None = None,
        armature: PerJoint | None = None,
        pose_weight: PerJoint | None = None,
        self_collision: bool = False,
    ) -> LeggedRobot:
        """Derives what a task needs to know from a robot with legs. :meth:`table` shows what was
        assumed.

        The root must have x forward and z up, and while all joints are at zero, the legs must point
        downwards. The only shapes that touch the ground are one for each foot; all others leave.
        The trunk gets a sensor, whose contact with the ground is a fall. The feet of the default
        pose are under the hips, and their soles are level.

        Drives and armature are those of the description if it has any. Otherwise the stiffness is
        twice the torque of the weight on one foot at the length of the leg, per radian, for the
        median joint of the legs, and in proportion to the joints' largest forces, but as large for
        the ankles of bipeds, which would tip over; the damping is the stiffness times 20 ms, and
        the armature lets a motor reach 3000 rad/s^2 without load.

        Args:
          articulation: the robot, floating.
          feet: names of the feet: links, or frames or shapes on them; the lowest ends of the
            branches if ``None``.
          foot_radius: radius of feet without shapes [m]; 5 % of the length of the leg if ``None``.
          imu: link or frame of the IMU; the first on the root whose name has ``imu``, or the root.
          trunk: the sensor in the root's axes; the box around the root's shapes, and for bipeds a
            ball, if ``None``.
          default_position: the default pose [rad].
          leg_extension: distance from hip to ankle in the default pose, relative to the straight
            leg; 0.92 for two feet, 0.7 for more.
          knees: ``"forward"`` or ``"backward"``, if the limits of the joints leave the choice; by
            default each leg bends as is nearer to zero, and if that is equal, forward for two feet
            and backward for more.
          height: height of the root in the default pose [m].
          max_force: the largest forces of the drives [N m].
          stiffness: [N m/rad].
          damping: [N m s/rad].
          armature: [kg m^2].
          pose_weight: weights in the reward term ``pose``.
          self_collision: whether the shanks of neighbouring legs collide.

        Returns:
          The robot.

        Raises:
          ValueError: the base is fixed, feet or a pose are not found, the trunk touches the ground
            in the default pose, a name or number does not fit; the message says which argument
            helps.
          TypeError: the articulation is padded or a batch.

        Examples:
          >>> from artix import envs
          >>> pose = {"hip_pitch": 0.9, "knee": -1.8, "": 0.0}
          >>> robot = envs.LeggedRobot.of(
          ...     artix.robots.load("quadruped"), default_position=pose, damping=0.5
          ... )
          >>> print(robot.assumptions[-3])
          Assumption(name='height of the root', value='0.281 m', source='derived')
          >>> envs.make("quadruped_velocity", robot=robot).action_size
          12
        """
        topology: Any = articulation.topology
        _check(articulation)
        notes: list[Assumption] = []
        if isinstance(feet, str) or (feet is not None and len({*feet}) < len(feet)):
            raise ValueError(f"feet: expected the names of different feet; found {feet!r}")
        names = find_feet(articulation) if feet is None else tuple(feet)
        legs = find_legs(articulation, names, foot_radius)
        mass = float(np.sum(articulation.link_mass))
        notes.append(
            Assumption("robot", f"{topology.num_dofs} degrees of freedom, {mass:.4g} kg", "file")
        )
        ranges = np.asarray(articulation.joint_upper_limit) - np.asarray(
            articulation.joint_lower_limit
        )
        if free := [
            name
            for name, width in zip(topology.dof_names, ranges, strict=True)
            if not np.isfinite(width)
        ]:
            notes.append(Assumption("range of joints", f"unlimited for {', '.join(free)}", "file"))
        notes.append(Assumption("forward, up", f"x, z of {topology.link_names[0]!r}", "convention"))
        notes.append(
            Assumption("feet", ", ".join(leg.foot for leg in legs), _source(feet, "derived"))
        )
        contact, source = _described(legs[0].shape), legs[0].shape_source
        if source == "derived":
            contact += "; the file has no shape there (meshes='hull' reads its meshes)"
        notes.append(Assumption("contact of a foot", contact, source))
        where, source = _imu(articulation, imu)
        notes.append(Assumption("IMU", where, source))
        pose, how, source = _default_pose(
            articulation, legs, default_position, leg_extension, knees
        )
        notes.append(Assumption("default pose", how, source))
        robot, note = _drives(articulation, legs, max_force, stiffness, damping, armature)
        notes += note
        robot = _with_shapes(robot, legs, self_collision)
        position = device_array(pose, robot.dtype)
        source = _source(height, "derived")
        height = (
            _height(robot, position)
            if height is None
            else as_number("height", height, positive=True)
        )
        notes.append(Assumption("height of the root", f"{height:.3f} m", source))
        sensor, source = (
            (_around(articulation, legs, height), "derived") if trunk is None else (trunk, "given")
        )
        robot = _with_trunk(robot, sensor)
        notes.append(
            Assumption("trunk", f"{_described(sensor)} on {topology.link_names[0]!r}", source)
        )
        if _trunk_gap(robot, position, height) <= 0:
            raise ValueError(
                f"{topology.name}: the {_described(sensor)} around the trunk touches the ground "
                "in the default pose; give trunk= (a sensor in the axes of the root), "
                "default_position= or height="
            )
        pairs = ", ".join(f"{a} and {b}" for a, b in robot.topology.geometry_pairs) or "none"
        if topology.geometry_pairs:
            pairs += (
                f"; the {len(topology.geometry_pairs)} pairs of shapes of the file are left out"
            )
        notes.append(Assumption("self-collision", pairs, "given" if self_collision else "derived"))
        weights = (
            _pose_weights(topology, legs)
            if pose_weight is None
            else per_joint(articulation, "pose_weight", pose_weight)
        )
        return cls(
            articulation=robot,
            imu=where,
            feet=tuple(leg.foot for leg in legs),
            trunk=("trunk",),
            default_position=position,
            pose_weight=device_array(weights, robot.dtype),
            height=height,
            assumptions=tuple(notes),
        )

    def astype(self, dtype: Any) -> LeggedRobot:
        """The robot with arrays of another floating-point type.

        Examples:
          >>> from artix import envs
          >>> robot = envs.make("quadruped_velocity").robot
          >>> print(robot.astype("float32").default_position.dtype)
          float32
        """
        return self._replace(
            articulation=self.articulation.astype(dtype),
            default_position=self.default_position.astype(dtype),
            pose_weight=self.pose_weight.astype(dtype),
        )

    def table(self) -> str:
        """What :meth:`of` found and assumed, as text: name, where it comes from, and value."""
        rows = [
            ("", "from", "value"),
            *((one.name, one.source, one.value) for one in self.assumptions),
        ]
        name, source = (max(len(row[k]) for row in rows) for k in (0, 1))
        lines = []
        for first, second, value in rows:
            head = f"  {first:<{name}}  {second:<{source}}  "
            lines += textwrap.wrap(
                value, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)
            )
        return "\n".join(lines)


def by_joint(articulation: artix.Articulation, values: Mapping[str, float]) -> Array:
    """A value for each DOF [n], looked up by the end of the joint's name; the first match counts.

    Raises:
      ValueError: there is no value for a joint.

    Examples:
      >>> from artix.envs.legged_robot import by_joint
      >>> by_joint(artix.robots.load("cart_pole"), {"slide": 1.0, "": 2.0}).tolist()
      [1.0, 2.0]
    """
    topology: Any = articulation.topology
    rows = []
    for name in topology.dof_names:
        matches = [value for end, value in values.items() if name.endswith(end)]
        if not matches:
            raise ValueError(
                f"no value for the joint {name!r}; '' stands for all that no other end matches"
            )
        rows.append(matches[0])
    return device_array(rows, articulation.dtype)


def per_joint(articulation: artix.Articulation, what: str, values: PerJoint) -> np.ndarray:
    """A number for each DOF [n] from one number, n of them, or numbers by the ends of the joints'
    names.

    Raises:
      ValueError: there are not n, one is not finite, or none is for a joint.
    """
    topology: Any = articulation.topology
    if isinstance(values, Mapping):
        unknown = [
            end for end in values if not any(name.endswith(end) for name in topology.dof_names)
        ]
        if unknown:
            raise ValueError(
                f"{what}: no joint ends with {unknown[0]!r}; choose from: "
                f"{', '.join(topology.dof_names)}"
            )
        numbers = np.asarray(by_joint(articulation, values), float)
    else:
        numbers = np.asarray(values, float)
        if numbers.shape not in ((), (topology.num_dofs,)):
            raise ValueError(
                f"{what}: expected one number, one for each of the {topology.num_dofs} joints, or "
                f"numbers by the ends of their names; found {numbers.size}"
            )
        numbers = np.broadcast_to(numbers, topology.num_dofs).copy()
    if not np.isfinite(numbers).all():
        raise ValueError(f"{what}: every number must be finite; found {values}")
    return numbers


def _check(articulation: artix.Articulation) -> None:
    topology: Any = articulation.topology
    if not isinstance(topology, artix.Topology) or articulation.link_mass.ndim != 1:
        raise TypeError(
            "a legged robot is one articulation with names, not a padded one or a batch"
        )
    if topology.fixed_base:
        raise ValueError(
            f"{topology.name}: a legged robot is not fixed to the world; load it with "
            "fixed_base=False"
        )
    if not topology.num_dofs:
        raise ValueError(f"{topology.name}: the robot has no joints, and so no legs")
    if not np.sum(np.asarray(articulation.link_mass)) > 0:
        raise ValueError(f"{topology.name}: the robot has no mass; give its links inertias")
    if np.any(np.asarray(articulation.drive.is_acceleration) > 0):
        raise ValueError(
            f"{topology.name}: drives must be of the force type; set drive.is_acceleration to zero"
        )


def _source(value: Any, otherwise: str) -> str:
    return otherwise if value is None else "given"


def _described(shape: artix.Geometry) -> str:
    """A shape in a few words."""
    kind, size = shape.type.value, shape.size
    if kind in ("sphere", "capsule"):
        return f"{kind} of radius {size[0]:.3g} m"
    if kind in ("box", "ellipsoid"):
        return f"{kind} of {' x '.join(f'{2 * edge:.3g}' for edge in size)} m"
    if kind != "hull":
        return f"{kind} of radius {size[0]:.3g} m and length {2 * size[1]:.3g} m"
    points, radius = shape_points(shape)
    edges = " x ".join(f"{edge + 2 * radius:.3g}" for edge in np.ptp(points, axis=0))
    return f"{len(points)} points in {edges} m"


def _imu(articulation: artix.Articulation, imu: str | None) -> tuple[str, str]:
    """The frame of the IMU: given, on the root and with its axes, or the root."""
    topology: Any = articulation.topology
    state = artix.neutral_state(articulation)
    if imu is not None:
        artix.frame_pose(articulation, state, imu)  # Raises KeyError if there is no such frame.
        return imu, "given"
    links = [name for k, name in enumerate(topology.link_names) if topology.link_body[k] == 0]
    frames = [name for name, link in zip(topology.frame_names, topology.frame_links, strict=True)
              if topology.link_body[link] == 0]  # fmt: skip
    for name in (*links, *frames):
        if "imu" in name.lower():
            turn = rotation_matrix(
                np.asarray(artix.frame_pose(articulation, state, name), float)[3:]
            )
            if np.allclose(turn, np.eye(3), atol=0.02):
                return name, "file"
    return topology.link_names[0], "derived"


def _default_pose(
    articulation: artix.Articulation,
    legs: Sequence[Leg],
    position: PerJoint | None,
    extension: float | None,
    knees: str | None,
) -> tuple[np.ndarray, str, str]:
    """The default pose [n], in words, and where it comes from."""
    topology: Any = articulation.topology
    if position is not None:
        pose = per_joint(articulation, "default_position", position)
        return pose, _by_value(topology, pose, "rad"), "given"
    is_biped = len(legs) == 2
    reach = as_number(
        "leg_extension", _EXTENSION[is_biped] if extension is None else extension, 0.2, 0.995
    )
    followers = {follower for follower, _ in topology.mimic_dofs}
    if topology.loop_joints or any(dof in followers for leg in legs for dof in leg.dofs):
        raise ValueError(
            f"{topology.name}: its legs have closed loops or mimic joints; give default_position="
        )
    if knees not in (None, "forward", "backward"):
        raise ValueError(f"knees: expected 'forward' or 'backward'; found {knees!r}")
    pose, bent = standing_pose(articulation, legs, reach, knees)
    if bent == "none":
        return (
            pose,
            "all joints at zero or their nearest limit, because the legs have no knees",
            "derived",
        )
    length = np.mean([leg.length for leg in legs])
    if is_biped and bent == "backward" and legs[0].is_flat:
        bent += " (is the root's x axis forward?)"
    means = f"hip to foot {100 * reach:.0f} % of {length:.3g} m, knees {bent}"
    return (
        pose,
        f"{means}: {_by_value(topology, pose, 'rad', [d for leg in legs for d in leg.dofs])}",
        "derived",
    )


def _drives(
    articulation: artix.Articulation,
    legs: Sequence[Leg],
    max_force: PerJoint | None,
    stiffness: PerJoint | None,
    damping: PerJoint | None,
    armature: PerJoint | None,
) -> tuple[artix.Articulation, list[Assumption]]:
    """The robot with drives and armature, and where they come from."""
    topology: Any = articulation.topology
    drive = articulation.drive
    weight = float(np.sum(articulation.link_mass)) * float(np.linalg.norm(articulation.gravity))
    torque = weight * float(np.mean([leg.length for leg in legs])) / len(legs)
    limit = np.minimum(
        np.asarray(drive.max_force, float), np.asarray(articulation.max_joint_force, float)
    )
    is_passive = (limit == 0) & np.any(limit > 0)
    is_known = ((limit > 0) & (limit < _MOST_FORCE * torque)) | is_passive
    remark = ""
    if not np.all(is_known):
        worst = limit[~is_known].max()
        remark = f"; the file says {'nothing' if worst in (0, math.inf) else f'{worst:.4g} N m'}"
        remark += " for some joints" if is_known.any() else ""
    force, forces = np.where(is_known, limit, _FORCE * torque), "derived" if remark else "file"
    if max_force is not None:
        force, forces, remark = per_joint(articulation, "max_force", max_force), "given", ""
    if not np.any(force > 0):
        raise ValueError(
            f"{topology.name}: max_force must be positive for at least one joint; found {max_force}"
        )
    share = force / max(
        float(np.median(force[sorted({dof for leg in legs for dof in leg.dofs})])), 1e-9
    )

    def chosen(
        name: str, override: PerJoint | None, file: Any, derived: np.ndarray
    ) -> tuple[np.ndarray, str]:
        if override is not None:
            return per_joint(articulation, name, override), "given"
        has_any = bool(np.any(np.asarray(file) > 0))
        return (np.asarray(file, float), "file") if has_any else (derived, "derived")

    proportional = _STIFFNESS * torque * share
    ankles = [dof for leg in legs if len(legs) == 2 for dof in leg.ankle]
    # A softer biped tips over.
    proportional[ankles] = np.maximum(proportional[ankles], _STIFFNESS * torque)
    spring, springs = chosen("stiffness", stiffness, drive.stiffness, proportional)
    damper, dampers = chosen("damping", damping, drive.damping, _DAMPING * spring)
    rotor, rotors = chosen("armature", armature, articulation.armature, force / _ACCELERATION)
    dtype = articulation.dtype
    arrays = {"stiffness": spring, "damping": damper, "max_force": force}
    changed = {name: device_array(value, dtype) for name, value in arrays.items()}
    robot = articulation.replace(
        drive=drive.replace(**changed), armature=device_array(rotor, dtype)
    )
    return robot, [
        Assumption("largest forces", _by_value(topology, force, "N m") + remark, forces),
        Assumption("stiffness", _by_value(topology, spring, "N m/rad"), springs),
        Assumption("damping", _by_value(topology, damper, "N m s/rad"), dampers),
        Assumption("armature", _by_value(topology, rotor, "kg m^2"), rotors),
    ]


def _by_value(
    topology: Any, values: np.ndarray, unit: str, dofs: Sequence[int] | None = None
) -> str:
    """Numbers of joints in a line: ``24.9 (FL_hip_joint and 7 more), 47.7 (FL_calf_joint and 3
    more) N m/rad``.
    """
    groups: dict[str, list[str]] = {}
    for dof in range(len(values)) if dofs is None else sorted(set(dofs)):
        groups.setdefault(f"{values[dof] + 0.0:.3g}", []).append(topology.dof_names[dof])
    if len(groups) == 1:
        return f"{next(iter(groups))} {unit}"
    shown = [
        f"{value} ({names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''})"
        for value, names in groups.items()
    ]
    return f"{', '.join(shown[:6])}{', ...' if len(shown) > 6 else ''} {unit}"


def _with_shapes(
    articulation: artix.Articulation, legs: Sequence[Leg], self_collision: bool
) -> artix.Articulation:
    """The robot with one shape for each foot, and shanks that collide if wanted, instead of its own
    shapes.
    """
    topology: Any = articulation.topology
    builder = artix.builder_from_articulation(artix.select_geometry(articulation, ()))
    for leg in legs:
        builder.add_geometry(leg.foot, leg.shape, name=leg.foot)
    if self_collision:
        poses = poses_at_zero(articulation)
        shanks = []
        for leg in legs:
            link = topology.dof_link[leg.pitch[1] if len(leg.pitch) > 1 else leg.dofs[-1]]
            way = rotation_matrix(poses[link, 3:]).T @ (leg.end - leg.knee)
            shanks.append((f"shank of {leg.foot}", link, _capsule(way, _SHANK * leg.length)))
            builder.add_geometry(topology.link_names[link], shanks[-1][2], name=shanks[-1][0])
        for a, b in _neighbours(legs):
            builder.add_geometry_pair(shanks[a][0], shanks[b][0])
    return builder.build(dtype=articulation.dtype)


def _capsule(way: np.ndarray, radius: float) -> artix.Geometry:
    """A sensor from the origin along ``way``."""
    length = max(float(np.linalg.norm(way)), 1e-6)
    axis = way / length
    turn = np.append(np.cross([0.0, 0.0, 1.0], axis), 1.0 + axis[2])
    if turn[3] < 1e-9:
        turn = np.array([1.0, 0.0, 0.0, 0.0])
    pose = (*(0.5 * way), *(turn / np.linalg.norm(turn)))
    return artix.Geometry.capsule(radius, max(0.5 * length - radius, 0.0), pose=pose, sensor=True)


def _neighbours(legs: Sequence[Leg]) -> list[tuple[int, int]]:
    """Pairs of legs side by side or one behind the other, but not across."""
    middle = np.mean([leg.hip for leg in legs], axis=0)
    is_ahead, is_left = ([leg.hip[k] - middle[k] > -1e-6 for leg in legs] for k in (0, 1))
    count = range(len(legs))
    return [
        (a, b)
        for a in count
        for b in count
        if a < b and (is_ahead[a] == is_ahead[b] or is_left[a] == is_left[b])
    ]


def _around(articulation: artix.Articulation, legs: Sequence[Leg], height: float) -> artix.Geometry:
    """A sensor around the trunk in the root's axes: for bipeds a ball, otherwise the box around its
    shapes or hips.
    """
    topology: Any = articulation.topology
    if len(legs) == 2:
        return artix.Geometry.sphere(_NEAR_GROUND * height, sensor=True)
    poses = poses_at_zero(articulation)
    corners = [np.zeros((0, 3))]
    for k, shape in enumerate(topology.geometries):
        if topology.link_body[shape.link] == 0:
            points, radius = shape_points(described_shape(articulation, k))
            points = points @ rotation_matrix(poses[shape.link, 3:]).T + poses[shape.link, :3]
            corners += [points - radius, points + radius]
    points = np.concatenate(corners)
    if not len(points):
        hips, half = np.stack([leg.hip for leg in legs]), 0.1 * legs[0].length
        up = np.array([0.0, 0.0, half])
        points = np.concatenate([hips - up, hips + up])
    low, high = points.min(axis=0), points.max(axis=0)
    pose = (*(0.5 * (low + high)), 0.0, 0.0, 0.0, 1.0)
    return artix.Geometry.box(0.5 * np.maximum(high - low, 0.02), pose=pose, sensor=True)


def _with_trunk(articulation: artix.Articulation, shape: artix.Geometry) -> artix.Articulation:
    topology: Any = articulation.topology
    return terminations.with_sensor(articulation, topology.link_names[0], shape, "trunk")


def _height(articulation: artix.Articulation, position: Array) -> float:
    """Height of the root with the lowest foot on level ground [m]."""
    level = artix.Ground.flat(dtype=articulation.dtype)
    return float(
        starts.on_ground(articulation, starts.standing(articulation, position, 0.0), level, 0.0)
    )


def _trunk_gap(articulation: artix.Articulation, position: Array, height: float) -> float:
    scene = artix.Scene(articulation, ground=artix.Ground.flat(dtype=articulation.dtype))
    distances = artix.geometry_distances(scene, starts.standing(articulation, position, height))
    return float(distances[observations.geometry_numbers(articulation, ["trunk"])[0]])


def _pose_weights(topology: Any, legs: Sequence[Leg]) -> np.ndarray:
    """Weights for the term ``pose``: joints that a step needs to bend count little."""
    if len(legs) == 2:
        weights = np.full(topology.num_dofs, 0.5)
        for leg in legs:
            weights[list(leg.pitch)] = 0.02
        return weights
    weights = np.ones(topology.num_dofs)
    for leg in legs:
        weights[list(leg.pitch[1:2])] = 0.1
    return weights
