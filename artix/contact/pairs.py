"""How far shapes of an articulation are from each other.

Spheres, capsules and boxes are cores (a point, a segment, a box) with a radius around them. The distance of two shapes
is that of the nearest points of their cores, less both radii; it is exact unless a segment enters a box.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.evaluation import quantity
from artix.kinematics.bodies import Placement
from artix.kinematics.solve import Kinematics, kinematics
from artix.math import spatial, struct
from artix.math.arrays import take
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state
from artix.model.geometry import GeometryType
from artix.model.topology import Topology

Array = jax.Array

_KINDS = (GeometryType.SPHERE, GeometryType.CAPSULE, GeometryType.BOX)


class PairDistances(struct.PyTreeNode):
    """How far shapes of an articulation are from each other, P pairs of them, in world axes.

    Attributes:
      distance: between the surfaces, negative for penetration, [P] [m].
      normal: unit vectors from the second shape towards the first, [P, 3].
      point: in the middle between both surfaces, [P, 3] [m].

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


class _Meeting(NamedTuple):
    """The same of one pair; points relative to the reference point."""

    gap: Array
    normal: Array
    point: Array


class _Core(NamedTuple):
    """What a shape is without its radius: a box of which none, one or three edges have a length."""

    center: Array
    rotation: Array
    """To world axes, [3, 3]."""
    half: Array
    """Half of each edge, [3]."""
    radius: Array


@quantity
def geometry_pair_distances(
    articulation: Articulation, state: State, geometry_pairs: Sequence[tuple[str, str]]
) -> PairDistances:
    """How far pairs of shapes are from each other, sensors included: for terminations, costs and self-collisions.

    Between spheres, capsules and boxes, of which a pair has one at most. The distance is exact unless the middle line
    of a capsule enters a box; within a box, it is that to the nearest face. Steps know no contacts between links.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      geometry_pairs: names of shapes that belong to different links, static.

    Returns:
      Distances, normals and points of the pairs, in their order.

    Raises:
      ValueError: a name is unknown, two shapes do not move against each other, there is no distance between their
        kinds, or the articulation is one of a padded fleet.
      TypeError: an array has another dtype than the articulation.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> feet = (("front_left_foot", "front_right_foot"),)
      >>> found = artix.geometry_pair_distances(robot, artix.neutral_state(robot), feet)
      >>> print(found.normal)  # towards the left foot
      [[0. 1. 0.]]
    """
    check_state(articulation, state)
    topology = articulation.topology
    if not isinstance(topology, Topology):
        raise ValueError("the members of a padded fleet have no geometry; take the distances of one articulation")
    pairs, kin = _numbers(topology, geometry_pairs), kinematics(articulation, state)
    if not pairs:
        none = jnp.zeros((0, 3), articulation.dtype)
        return PairDistances(none[:, 0], none, none)
    cores = {number: _core(articulation, kin, number) for pair in pairs for number in pair}
    kinds = topology.geometries
    found = [_meeting(cores[a], cores[b], kinds[a].type, kinds[b].type) for a, b in pairs]
    gap, normal, point = (jnp.stack(parts) for parts in zip(*found, strict=True))
    return PairDistances(gap, normal, point + kin.reference)


def _numbers(topology: Topology, pairs: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """The numbers of the shapes of pairs, all of which have distances."""
    found = []
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(f"geometry_pairs: a pair has two names of shapes; found {pair!r}")
        a, b = (topology.geometry_index(name) for name in pair)
        kinds = [topology.geometries[k].type for k in (a, b)]
        bodies = [topology.link_body[topology.geometries[k].link] for k in (a, b)]
        if bodies[0] == bodies[1]:
            raise ValueError(f"geometry_pairs: {pair[0]!r} and {pair[1]!r} do not move against each other")
        if not all(kind in _KINDS for kind in kinds) or kinds.count(GeometryType.BOX) == 2:
            raise ValueError(
                f"geometry_pairs: there is no distance between {pair[0]!r}, a {kinds[0].value}, and {pair[1]!r}, a "
                f"{kinds[1].value}; spheres, capsules, and one box with either have one: give the link a capsule for "
                "this purpose, a sensor if it shall not touch the ground"
            )
        found.append((a, b))
    return found


def _core(articulation: Articulation, kin: Kinematics, number: int) -> _Core:
    topology, arrays = articulation.topology, articulation.geometry
    assert isinstance(topology, Topology)
    shape, size = topology.geometries[number], arrays.size[number]
    local = Placement.from_poses(arrays.pose).take(np.array([number]))
    placed = kin.placements.take(np.array([shape.link])) @ local
    body = topology.link_body[np.array([shape.link])]
    turn = take(kin.rotation, body)
    center = take(kin.position, body) + spatial.apply(turn, placed.position)
    rotation = spatial.multiply(turn, spatial.rotation_matrix(placed.rotation))
    zero = jnp.zeros_like(size[0])
    if shape.type is GeometryType.BOX:
        half, radius = size, zero
    else:
        length = size[1] if shape.type is GeometryType.CAPSULE else zero
        half, radius = jnp.stack([zero, zero, length]), size[0]
    return _Core(center[:, 0], rotation[:, :, 0], half, radius)


def _meeting(a: _Core, b: _Core, kind_a: GeometryType, kind_b: GeometryType) -> _Meeting:
    if kind_a is GeometryType.BOX:
        other = _meeting(b, a, kind_b, kind_a)
        return _Meeting(other.gap, -other.normal, other.point)
    if kind_b is GeometryType.BOX:
        return _with_box(a, b)
    along_a, along_b = (core.rotation[:, 2] * core.half[2] for core in (a, b))
    s, t = _nearest_of_segments(a.center - b.center, along_a, along_b)
    apart = a.center + s * along_a - (b.center + t * along_b)
    square = jnp.sum(apart**2)
    # The same place: any direction will do.
    same = square == 0
    length = jnp.sqrt(jnp.where(same, 1, square))
    normal = jnp.where(same, jnp.array([0.0, 0.0, 1.0], apart.dtype), apart / length)
    gap = jnp.where(same, 0, length) - a.radius - b.radius
    return _Meeting(gap, normal, a.center + s * along_a - (a.radius + 0.5 * gap) * normal)


def _nearest_of_segments(apart: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Where, from -1 to 1, segments ``apart + s a`` and ``t b`` are nearest; parallel ones at the middle of a.

    Ericson, *Real-Time Collision Detection*, 2005, section 5.1.9.
    """
    aa, bb, ab, da, db = (jnp.sum(x * y) for x, y in ((a, a), (b, b), (a, b), (a, apart), (b, apart)))
    across = aa * bb - ab * ab
    crosses = across > 10 * jnp.finfo(aa.dtype).eps * aa * bb
    s = jnp.where(crosses, (ab * db - bb * da) / jnp.where(crosses, across, 1), 0)
    s = jnp.clip(s, -1, 1)
    t = jnp.clip((db + s * ab) / jnp.where(bb > 0, bb, 1), -1, 1)
    s = jnp.clip((t * ab - da) / jnp.where(aa > 0, aa, 1), -1, 1)
    return s, t


def _with_box(a: _Core, box: _Core) -> _Meeting:
    """A sphere or capsule and a box."""
    to_box: Callable[[Array], Array] = lambda vector: jnp.sum(box.rotation * vector[:, None], axis=0)  # noqa: E731
    center, along = to_box(a.center - box.center), to_box(a.rotation[:, 2] * a.half[2])
    point = center + _nearest_to_box(center, along, box.half) * along
    outside = point - jnp.clip(point, -box.half, box.half)
    square = jnp.sum(outside**2)
    is_out = square > 0
    length = jnp.sqrt(jnp.where(is_out, square, 1))
    # Within the box, the way out is through the nearest face.
    depth = box.half - jnp.abs(point)
    face = jnp.arange(3) == jnp.argmin(depth)
    inward = jnp.where(face, jnp.where(point < 0, -1, 1), 0).astype(point.dtype)
    normal = jnp.where(is_out, outside / length, inward)
    distance = jnp.where(is_out, length, -jnp.sum(jnp.where(face, depth, 0)))
    gap = distance - a.radius
    middle = point - (a.radius + 0.5 * gap) * normal
    to_world: Callable[[Array], Array] = lambda vector: jnp.sum(box.rotation * vector, axis=1)  # noqa: E731
    return _Meeting(gap, to_world(normal), box.center + to_world(middle))


def _nearest_to_box(center: Array, along: Array, half: Array) -> Array:
    """Where, from -1 to 1, a segment ``center + t along`` is nearest to a box about the origin.

    The derivative of the squared distance by t is piecewise linear and does not fall: its zero is between those two
    places, of its corners and the segment's ends, where it changes its sign.
    """
    moves = along != 0
    step = jnp.where(moves, along, 1)
    corners = jnp.where(moves, (jnp.stack([-half, half]) - center) / step, 0).reshape(-1)
    places = jnp.concatenate([jnp.clip(corners, -1, 1), jnp.array([-1.0, 1.0], center.dtype)])
    at = center + places[:, None] * along
    slope = jnp.sum((at - jnp.clip(at, -half, half)) * along, axis=1)
    below, above = slope <= 0, slope >= 0
    low = jnp.max(jnp.where(below, places, -1))
    high = jnp.min(jnp.where(above, places, 1))
    low_slope = jnp.max(jnp.where(below & (places == low), slope, -jnp.inf))
    high_slope = jnp.min(jnp.where(above & (places == high), slope, jnp.inf))
    rise = high_slope - low_slope
    crosses = jnp.isfinite(rise) & (rise > 0)
    share = jnp.where(crosses, -low_slope / jnp.where(crosses, rise, 1), 0.5)
    return low + share * (high - low)
