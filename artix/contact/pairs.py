"""Pairs of shapes: their distances, and the points at which they touch, one with a sphere or an
ellipsoid, two with a capsule, else four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.quantity import one_operation, quantity
from artix.contact.candidates import cores_of_members
from artix.contact.cores import (
    Core,
    Meeting,
    between_points,
    capsule_and_box,
    capsules,
    first_of_largest,
    in_box_frame,
    nearest_of_segments,
    nearest_to_box,
    point_with_box,
)
from artix.contact.cylinder_hull_pairs import cylinder_and_hull
from artix.contact.cylinder_pairs import cylinder_and_box, point_with_cylinder
from artix.contact.ellipsoid_pairs import ellipsoid_and
from artix.contact.hull_pairs import box_meetings, capsule_and_hull, hull_meetings, sphere_and_hull
from artix.contact.scene import Scene, accepts_articulation, num_points, scene_of
from artix.contact.two_cylinders import capsule_and_cylinder, cylinder_and_cylinder
from artix.kinematics.forward import kinematics
from artix.math import struct
from artix.math.arrays import joined
from artix.math.spatial import rotation_matrix
from artix.model.articulation import Articulation
from artix.model.checks import check_vector
from artix.model.geometry import Geometry, GeometryStructure, GeometryType
from artix.model.hull_faces import BOX_FACES, HullFaces
from artix.model.topology import refusal_of

Array = jax.Array

#: What obstacles and fixed bases belong to, in the place of a robot and a body.
_WORLD = (-1, 0)


class PairDistances(struct.PyTreeNode):
    """Distances between P pairs of shapes, in world axes.

    Attributes:
      distance: distances between the surfaces, negative for penetration, [P] [m].
      normal: unit vectors from the second shape towards the first, [P, 3].
      point: midpoints between the surfaces, [P, 3] [m].

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> feet = (("front_left_foot", "front_right_foot"), ("front_left_foot", "rear_left_foot"))
      >>> found = artix.geometry_pair_distances(robot, artix.neutral_state(robot), feet)
      >>> print(found.distance.shape, found.normal.shape, found.point.shape)
      (2,) (2, 3) (2, 3)
    """

    distance: Array
    normal: Array
    point: Array


@one_operation
@accepts_articulation
@quantity
def geometry_pair_distances(
    scene: Articulation | Scene,
    state: Any,
    geometry_pairs: Sequence[tuple[str, str]],
    *,
    obstacles: Mapping[str, Geometry] | None = None,
    obstacle_poses: Mapping[str, Array] | None = None,
) -> PairDistances:
    """Computes distances between pairs of shapes, sensors included, for terminations, costs and
    self-collisions.

    The distance is exact unless the axis of a capsule enters the other shape, and but for a
    thousandth of the smaller distance between a shape's middle and its faces between two boxes or
    hulls. Inside a box or a hull it is the distance to the nearest face; of a cylinder or an
    ellipsoid that overlaps with something else than a sphere, and of two boxes or hulls, it is a
    way out, mostly the shortest.
    These pairs do not collide in steps; for those that do, see :func:`artix.link_contacts`.
    Pinocchio's counterpart is ``computeDistances``.

    Args:
      scene: the scene.
      state: its state; only the configuration matters.
      geometry_pairs: names of shapes that belong to different links, or of a shape and an obstacle,
        static. Shapes of robots with names are called ``"robot/shape"``.
      obstacles: shapes fixed in the world by names of their own, static; the pose of each is in
        world axes.
      obstacle_poses: poses of obstacles that move, by their names, instead of the shapes' own,
        shape [7] each.

    Returns:
      Distances [m], normals and points [m] of the P pairs, in their order and in world axes.

    Raises:
      KeyError: a name is unknown.
      ValueError: two shapes do not move relative to each other, one is a hull of more than 64
        points or of points on a line, or an obstacle has the name of a shape.
      TypeError: an array has another dtype than the articulation.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> feet = (("front_left_foot", "front_right_foot"),)
      >>> found = artix.geometry_pair_distances(robot, artix.neutral_state(robot), feet)
      >>> print(found.normal)  # towards the left foot
      [[0. 1. 0.]]
      >>> scene = artix.Scene({"a": robot, "b": robot})
      >>> state = scene.neutral_state()
      >>> state["b"] = state["b"].replace(root_pose=state["b"].root_pose.at[1].set(0.5))
      >>> feet = (("b/front_right_foot", "a/front_left_foot"),)
      >>> print(artix.geometry_pair_distances(scene, state, feet).normal)
      [[0. 1. 0.]]
    """
    scene = scene_of(scene)
    states = scene.check_state(state)
    fixed = dict(obstacles or {})
    pairs = _numbers(scene, geometry_pairs, fixed)
    if not pairs:
        none = jnp.zeros((0, 3), scene.dtype)
        return PairDistances(none[:, 0], none, none)
    members = scene.articulations
    count = len(scene.geometries)
    kins = [kinematics(*each) for each in zip(members, states, strict=True)]
    reference = kins[0].reference
    cores = cores_of_members(members, kins, np.array(pairs))
    poses = _poses(scene.dtype, fixed, obstacle_poses or {})
    for k, (name, shape) in enumerate(fixed.items()):
        cores[count + k] = _fixed_core(shape, poses[name], reference)
    types = [shape.type for shape in scene.geometries]
    types += [shape.type for shape in fixed.values()]
    faces = [shape.faces for shape in scene.geometries]
    faces += [shape.structure(name, 0).faces for name, shape in fixed.items()]
    nearest = [
        _nearest(cores[a], cores[b], (types[a], types[b]), (faces[a], faces[b])) for a, b in pairs
    ]
    gap, normal, point = (jnp.stack(parts) for parts in zip(*nearest, strict=True))
    return PairDistances(gap, normal, point + reference)


def _numbers(
    scene: Scene, pairs: Sequence[tuple[str, str]], obstacles: Mapping[str, Geometry]
) -> list[tuple[int, int]]:
    """The indices of the shapes of pairs, after checks; obstacles follow the robots' shapes."""
    names = scene.geometry_names
    twice = [name for name in obstacles if name in names]
    if twice:
        whose = f" of {scene.topologies[0].name!r}" if not scene.names else ""
        raise ValueError(f"obstacles: {twice[0]!r} is the name of a shape{whose}; choose another")
    every: list[GeometryStructure | Geometry] = [*scene.geometries, *obstacles.values()]
    places = {name: k for k, name in enumerate((*names, *obstacles))}
    bodies = [*_bodies(scene), *[_WORLD] * len(obstacles)]
    touching = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise ValueError(f"geometry_pairs: a pair is two names of shapes; found {pair!r}")
        for name in pair:
            if name not in places:
                raise KeyError(
                    f"no geometry called {name!r}; choose from: {', '.join(places) or 'none'}"
                )
        a, b = (places[name] for name in pair)
        if bodies[a] == bodies[b]:
            raise ValueError(
                f"geometry_pairs: {pair[0]!r} and {pair[1]!r} do not move relative to each other"
            )
        for name, number in zip(pair, (a, b), strict=True):
            refusal = refusal_of(every[number])
            if refusal:
                raise ValueError(f"geometry_pairs: {name!r} {refusal}")
        touching.append((a, b))
    return touching


def _bodies(scene: Scene) -> list[tuple[int, int]]:
    """The body of each shape: the number of its robot, and in it that of the body."""
    return [
        _WORLD
        if tree.fixed_base and not tree.link_body[shape.link]
        else (number, int(tree.link_body[shape.link]))
        for number, tree in enumerate(scene.topologies)
        for shape in tree.geometries
    ]


def _poses(
    dtype: Any, obstacles: Mapping[str, Geometry], moved: Mapping[str, Array]
) -> dict[str, Array]:
    """The pose of each obstacle, [7]."""
    for name, pose in moved.items():
        if name not in obstacles:
            raise KeyError(
                f"obstacle_poses: there is no obstacle {name!r}; choose from: "
                f"{', '.join(obstacles)}"
            )
        check_vector(f"obstacle_poses[{name!r}]", pose, (7,), dtype, "position, quaternion xyzw")
    return {
        name: moved.get(name, jnp.asarray(shape.pose, dtype)) for name, shape in obstacles.items()
    }


def _fixed_core(shape: Geometry, pose: Array, reference: Array) -> Core:
    """The core of a shape with this pose in the world."""
    size = [*shape.size, 0.0, 0.0]
    dtype = pose.dtype
    is_box = shape.type in (GeometryType.BOX, GeometryType.ELLIPSOID)
    half = size[:3] if is_box else [0.0, 0.0, size[1]]
    points = None if shape.points is None else jnp.asarray(shape.points, dtype)
    radius = 0.0 if is_box else size[0]
    turn = rotation_matrix(pose[3:, None])[..., 0]
    return Core(
        pose[:3] - reference, turn, jnp.asarray(half, dtype), jnp.asarray(radius, dtype), points
    )


def _nearest(
    a: Core,
    b: Core,
    kinds: tuple[GeometryType, GeometryType],
    faces: tuple[HullFaces, HullFaces],
) -> Meeting:
    by_points = GeometryType.CYLINDER, GeometryType.HULL, GeometryType.ELLIPSOID
    is_boxes = kinds == (GeometryType.BOX, GeometryType.BOX)
    if is_boxes or any(kind in by_points for kind in kinds):
        # The corners of boxes are those of contacts, which are not the nearest points.
        points = (
            hull_meetings(a, b, BOX_FACES, BOX_FACES)
            if is_boxes
            else points_between(a, b, kinds, faces)
        )
        nearest = first_of_largest(-points.gap)
        return jax.tree.map(
            lambda x: jnp.sum(jnp.where(nearest.reshape(-1, *(1,) * (x.ndim - 1)), x, 0), axis=0),
            points,
        )
    if kinds[0] is GeometryType.BOX:
        other = _nearest(b, a, (kinds[1], kinds[0]), (faces[1], faces[0]))
        return Meeting(other.gap, -other.normal, other.point)
    if kinds[1] is GeometryType.BOX:
        center, along = in_box_frame(a, b)
        return point_with_box(center + nearest_to_box(center, along, b.half) * along, a.radius, b)
    along_a, along_b = (core.rotation[:, 2] * core.half[2] for core in (a, b))
    s, t = nearest_of_segments(a.center - b.center, along_a, along_b)
    return between_points(a.center + s * along_a, b.center + t * along_b, a.radius, b.radius)


# Points

_ORDER = (
    GeometryType.ELLIPSOID,
    GeometryType.SPHERE,
    GeometryType.CAPSULE,
    GeometryType.CYLINDER,
    GeometryType.BOX,
    GeometryType.HULL,
)


def meetings_of(
    pairs: Sequence[tuple[Core, Core]],
    kinds: Sequence[tuple[GeometryType, GeometryType]],
    faces: Sequence[tuple[HullFaces, HullFaces]],
) -> Meeting:
    """The points of all pairs, pair by pair, C in all: gaps [C], normals and points [C, 3].

    Args:
      pairs: the two shapes of each pair.
      kinds: their types.
      faces: their faces, if they are hulls.
    """
    meetings: list[Meeting] = []
    places = np.zeros(0, int)
    counts = [num_points(*kind) for kind in kinds]
    first = np.cumsum([0, *counts])
    # Pairs of the same types share one program under vmap.
    alike = [(kind, faces[k]) for k, kind in enumerate(kinds)]
    for one in dict.fromkeys(alike):
        numbers = [k for k, other in enumerate(alike) if other == one]
        cores = [
            jax.tree.map(lambda *leaves: jnp.stack(leaves), *(pairs[k][side] for k in numbers))
            for side in (0, 1)
        ]
        meet = jax.vmap(lambda a, b, one=one: points_between(a, b, *one))
        meetings.append(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), meet(*cores)))
        places = np.concatenate([places, *(np.arange(first[k], first[k + 1]) for k in numbers)])
    every = joined(meetings)
    order = np.argsort(places)
    return (
        every
        if np.array_equal(order, np.arange(len(order)))
        else jax.tree.map(lambda x: x[order], every)
    )


def points_between(
    a: Core,
    b: Core,
    kinds: tuple[GeometryType, GeometryType],
    faces: tuple[HullFaces, HullFaces],
) -> Meeting:
    """The points of one pair, K in all: gaps [K], normals and points [K, 3]."""
    kind_a, kind_b = kinds
    if _ORDER.index(kind_a) > _ORDER.index(kind_b):
        other = points_between(b, a, (kind_b, kind_a), (faces[1], faces[0]))
        return Meeting(other.gap, -other.normal, other.point)
    if kind_a is GeometryType.ELLIPSOID:
        return ellipsoid_and(a, b, kind_b, BOX_FACES if kind_b is GeometryType.BOX else faces[1])
    if kind_b is GeometryType.HULL:
        if kind_a is GeometryType.SPHERE:
            return sphere_and_hull(a, b, faces[1])
        if kind_a is GeometryType.CAPSULE:
            return capsule_and_hull(a, b, faces[1])
        if kind_a is GeometryType.CYLINDER:
            return cylinder_and_hull(a, b, faces[1])
        return hull_meetings(a, b, BOX_FACES if kind_a is GeometryType.BOX else faces[0], faces[1])
    if kind_a is GeometryType.BOX:
        return box_meetings(a, b)
    if kind_a is GeometryType.CYLINDER:
        is_box = kind_b is GeometryType.BOX
        return cylinder_and_box(a, b) if is_box else cylinder_and_cylinder(a, b)
    if kind_a is GeometryType.CAPSULE:
        if kind_b is GeometryType.CYLINDER:
            return capsule_and_cylinder(a, b)
        return capsule_and_box(a, b) if kind_b is GeometryType.BOX else capsules(a, b)
    if kind_b is GeometryType.BOX:
        meeting = point_with_box(in_box_frame(a, b)[0], a.radius, b)
    elif kind_b is GeometryType.CYLINDER:
        meeting = point_with_cylinder(a.center, a.radius, b)
    else:
        along = b.rotation[:, 2] * b.half[2]
        square = jnp.sum(along**2)
        place = jnp.sum((a.center - b.center) * along) / jnp.where(square > 0, square, 1)
        meeting = between_points(
            a.center, b.center + jnp.clip(place, -1, 1) * along, a.radius, b.radius
        )
    return jax.tree.map(lambda x: x[None], meeting)
