"""Distances between shapes of an articulation."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.contact.candidates import shapes_of
from artix.contact.cores import (
    Core,
    Meeting,
    between_points,
    cores_of,
    in_box_frame,
    nearest_of_segments,
    nearest_to_box,
    point_with_box,
)
from artix.kinematics.forward import kinematics
from artix.math import struct
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state
from artix.model.geometry import GeometryType
from artix.model.geometry_pairs import PAIRED_TYPES
from artix.model.topology import Topology

Array = jax.Array


class PairDistances(struct.PyTreeNode):
    """Distances between P pairs of an articulation's shapes, in world axes.

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


@quantity
def geometry_pair_distances(
    articulation: Articulation, state: State, geometry_pairs: Sequence[tuple[str, str]]
) -> PairDistances:
    """Computes distances between pairs of shapes, sensors included, for terminations, costs and self-collisions.

    Shapes can be spheres, capsules and boxes, with at most one box per pair. The distance is exact unless the axis of a
    capsule enters a box. Inside a box it is the distance to the nearest face. These pairs do not collide in steps; for
    those that do, see :func:`artix.link_contacts`. Pinocchio's counterpart is ``computeDistances``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      geometry_pairs: names of shapes that belong to different links, static.

    Returns:
      Distances [m], normals and points [m] of the P pairs, in their order and in world axes.

    Raises:
      KeyError: a name is unknown.
      ValueError: two shapes do not move relative to each other, or the distance between their types is not
        implemented.
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
    pairs, kin = _numbers(topology, geometry_pairs), kinematics(articulation, state)
    if not pairs:
        none = jnp.zeros((0, 3), articulation.dtype)
        return PairDistances(none[:, 0], none, none)
    numbers = sorted({number for pair in pairs for number in pair})
    cores = dict(zip(numbers, cores_of(shapes_of(articulation, kin, numbers)), strict=True))
    kinds = topology.geometries
    found = [_nearest(cores[a], cores[b], kinds[a].type, kinds[b].type) for a, b in pairs]
    gap, normal, point = (jnp.stack(parts) for parts in zip(*found, strict=True))
    return PairDistances(gap, normal, point + kin.reference)


def _numbers(topology: Topology, pairs: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """The indices of the shapes of pairs, after checks."""
    found = []
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(f"geometry_pairs: a pair is two names of shapes; found {pair!r}")
        a, b = (topology.geometry_index(name) for name in pair)
        kinds = [topology.geometries[k].type for k in (a, b)]
        bodies = [topology.link_body[topology.geometries[k].link] for k in (a, b)]
        if bodies[0] == bodies[1]:
            raise ValueError(f"geometry_pairs: {pair[0]!r} and {pair[1]!r} do not move relative to each other")
        if not all(kind in PAIRED_TYPES for kind in kinds) or kinds.count(GeometryType.BOX) == 2:
            raise ValueError(
                f"geometry_pairs: there is no distance between {pair[0]!r}, a {kinds[0].value}, and {pair[1]!r}, a "
                f"{kinds[1].value}; it is for spheres, capsules, and one box with either: add a capsule to the link, "
                "as a sensor if it must not touch the ground"
            )
        found.append((a, b))
    return found


def _nearest(a: Core, b: Core, kind_a: GeometryType, kind_b: GeometryType) -> Meeting:
    if kind_a is GeometryType.BOX:
        other = _nearest(b, a, kind_b, kind_a)
        return Meeting(other.gap, -other.normal, other.point)
    if kind_b is GeometryType.BOX:
        center, along = in_box_frame(a, b)
        return point_with_box(center + nearest_to_box(center, along, b.half) * along, a.radius, b)
    along_a, along_b = (core.rotation[:, 2] * core.half[2] for core in (a, b))
    s, t = nearest_of_segments(a.center - b.center, along_a, along_b)
    return between_points(a.center + s * along_a, b.center + t * along_b, a.radius, b.radius)
