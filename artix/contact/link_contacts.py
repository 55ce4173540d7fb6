"""Contacts between links, of one robot or of several: pair by pair, which suits the few of a robot,
or as arrays of all pairs of many shapes.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.quantity import one_operation, quantity, subprogram
from artix.contact.candidates import cores_of, cores_of_members, shapes_of
from artix.contact.cores import Core, Meeting
from artix.contact.materials import COMBINATIONS, Softness
from artix.contact.pairs import meetings_of, points_between
from artix.contact.scene import Scene, ShapePairs, accepts_articulation, scene_of
from artix.contact.selection import Choice, looked_up, lowest
from artix.kinematics.forward import Kinematics, kinematics
from artix.math import struct
from artix.math.arrays import joined
from artix.model.articulation import Articulation, State
from artix.model.checks import check_count
from artix.model.geometry import Geometries, GeometryType
from artix.model.hull_faces import HullFaces

Array = jax.Array

_log = logging.getLogger("artix")


class LinkContacts(struct.PyTreeNode):
    """The K points at which links may touch each other.

    Attributes:
      pair: index of each point's pair in ``scene.geometry_pairs``, which for one robot are
        ``topology.geometry_pairs``, [K], int32.
      point: midpoint between the two surfaces, in world axes, [K, 3] [m].
      normal: unit vectors from the second shape of the pair towards the first, in world axes,
        [K, 3].
      gap: distances, negative for penetration, [K] [m].
      friction: coefficients of friction, [K].
      restitution: ratios of the normal speeds after and before an impact, [K].
      compliance: penetration per force, 0 for rigid contacts, [K] [m/N].
      relaxation_time: damping over stiffness of compliant contacts, [K] [s].
      omitted: number of touching points that were left out, [], int32.
      choice: which candidates of all pairs the points are.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> robot = artix.select_geometry_pairs(robot, [("front_left_foot", "front_right_foot")])
      >>> found = artix.link_contacts(robot, artix.neutral_state(robot))
      >>> print(found.pair, found.normal, found.gap > 0)  # from the right foot to the left
      [0] [[0. 1. 0.]] [ True]
    """

    pair: Array
    point: Array
    normal: Array
    gap: Array
    friction: Array
    restitution: Array
    compliance: Array
    relaxation_time: Array
    omitted: Array
    choice: Choice


@one_operation
@accepts_articulation
@quantity
def link_contacts(
    scene: Articulation | Scene, state: Any, *, max_contacts: int | None = None
) -> LinkContacts:
    """Finds the points at which pairs of shapes touch, or would touch next.

    A pair with a sphere or an ellipsoid has one point, one with a capsule two, other pairs four.
    Distant pairs have large gaps. Points between boxes: Gottschalk, Lin and Manocha, *OBBTree*,
    SIGGRAPH 1996; Ericson, *Real-Time Collision Detection*, 2005, section 4.4.1.

    Args:
      scene: the scene; its pairs are ``scene.geometry_pairs``.
      state: its state; only the configuration matters.
      max_contacts: largest number of points; those with the smallest gaps are kept, in ascending
        order. ``None`` for the scene's ``max_link_contacts``, without which all are kept, pair by
        pair.

    Returns:
      The points, their pairs and materials, and how many touching candidates were left out.

    Raises:
      ValueError: an array has the wrong shape, ``max_contacts`` is less than 1, or there are no
        pairs.
      TypeError: an array has another dtype than the articulation, or ``max_contacts`` is no whole
        number.

    Identity: the smallest gap of a pair is its distance by :func:`artix.geometry_pair_distances`,
    but for two boxes, and for a capsule whose axis enters a box.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> robot = artix.select_geometry_pairs(robot, artix.editing.possible_geometry_pairs(robot))
      >>> found = artix.link_contacts(robot, artix.neutral_state(robot), max_contacts=2)
      >>> print([robot.topology.geometry_pairs[k] for k in found.pair])  # the nearest feet
      [('front_left_foot', 'front_right_foot'), ('rear_left_foot', 'rear_right_foot')]
      >>> robot = artix.robots.load("quadruped")
      >>> feet = [("a/front_left_foot", "b/front_right_foot")]
      >>> scene = artix.Scene({"a": robot, "b": robot}, pairs=feet)
      >>> state = scene.neutral_state()
      >>> state["b"] = state["b"].replace(root_pose=state["b"].root_pose.at[1].set(0.5))
      >>> found = artix.link_contacts(scene, state)  # from b's foot to a's
      >>> print([scene.geometry_pairs[k] for k in found.pair], found.normal)
      [('a/front_left_foot', 'b/front_right_foot')] [[ 0. -1.  0.]]
    """
    scene = scene_of(scene)
    states = scene.check_state(state)
    pairs = scene.shape_pairs
    if not len(pairs):
        whose = ", ".join(repr(tree.name) for tree in scene.topologies)
        has = "has" if len(scene.topologies) == 1 else "have"
        across = ", or pairs= of artix.Scene" if scene.names else ""
        raise ValueError(
            f"{whose} {has} no pairs of shapes; choose some with artix.select_geometry_pairs or "
            f"ArticulationBuilder.add_geometry_pair{across}"
        )
    if max_contacts is None:
        max_contacts = scene.max_link_contacts
    else:
        check_count("max_contacts", max_contacts, hint="; a robot without pairs has none")
    members = scene.articulations
    kins = [kinematics(*each) for each in zip(members, states, strict=True)]
    contacts = contacts_of_pairs(members, kins, pairs, max_contacts, scene.pair_friction)
    return contacts.replace(point=contacts.point + kins[0].reference)


def contacts_of_pairs(
    articulations: Sequence[Articulation],
    kins: Sequence[Kinematics],
    pairs: ShapePairs,
    most: int | None,
    friction: Array | None = None,
) -> LinkContacts:
    """:func:`link_contacts` of known configurations.

    Args:
      articulations: the articulations whose shapes touch each other.
      kins: their kinematics.
      pairs: the pairs of shapes.
      most: largest number of points.
      friction: the coefficients of the pairs, [P]; ``None`` combines those of the shapes.

    Returns:
      The points, relative to the reference point of the first articulation.
    """
    cores = cores_of_members(articulations, kins, pairs.numbers)
    meetings = meetings_of(
        [(cores[int(a)], cores[int(b)]) for a, b in pairs.numbers], pairs.kinds, pairs.faces
    )
    owner = pairs.candidate_pairs
    shape = joined([articulation.geometry for articulation in articulations])
    of_pairs = materials_of(shape, pairs.numbers[:, 0], pairs.numbers[:, 1], pairs, friction)
    material = {name: values[owner] for name, values in of_pairs.items()}
    count = len(owner)
    candidate = jnp.arange(count, dtype=meetings.gap.dtype)
    rows = jnp.concatenate(
        [
            meetings.gap[None],
            meetings.point.T,
            meetings.normal.T,
            jnp.stack(list(material.values())),
            candidate[None],
        ]
    )
    if most is not None and most < count:
        _say_budget(most, count, len(pairs), is_usual=False)
        rows = lowest(rows, most)
    touching = jnp.sum(meetings.gap <= 0, dtype=jnp.int32) - jnp.sum(rows[0] <= 0, dtype=jnp.int32)
    pair = (
        jnp.asarray(owner, jnp.int32)
        if rows.shape[1] == count
        else looked_up(owner, rows[-1], jnp.int32)
    )
    return LinkContacts(
        pair=pair,
        point=rows[1:4].T,
        normal=rows[4:7].T,
        gap=rows[0],
        **dict(zip(material, rows[7:-1], strict=True)),
        omitted=touching,
        choice=Choice(rows[-1], ((rows.shape[1], count),)),
    )


def materials_of(
    shape: Geometries, a: Any, b: Any, pairs: ShapePairs, friction: Array | None
) -> dict[str, Array]:
    """The materials of pairs of shapes with these numbers, [K] each.

    Args:
      shape: the arrays of the shapes.
      a: the first shape of each pair.
      b: the second.
      pairs: how their coefficients combine.
      friction: the coefficients of these pairs, if they do not.
    """
    softness = Softness.of(shape.stiffness, shape.damping)
    combined, restitution = COMBINATIONS[pairs.friction], COMBINATIONS[pairs.restitution]
    if friction is None:
        friction = combined(shape.friction[a], shape.friction[b])
    return {
        "friction": friction,
        "restitution": restitution(shape.restitution[a], shape.restitution[b]),
        "compliance": softness.compliance[a] + softness.compliance[b],
        "relaxation_time": softness.relaxation_time[a] + softness.relaxation_time[b],
    }


# Many shapes: the pairs of a heap grow with the square of its bodies. Their shapes are rows of a
# table, pairs of the same kinds read their rows, and one program of one pair serves them all.

#: Without a budget, as many points as this for each body that shapes belong to: four neighbours
#: below or beside each box, with four points each.
POINTS_OF_BODY = 16


class ShapeTable(NamedTuple):
    """The shapes that may touch each other, row by row."""

    core: Core
    """All cores, relative to one point, without the points of hulls; [G, ...]."""
    points: list[Array | None]
    """Those of each hull."""
    material: Geometries
    """The arrays of the shapes, of which only the materials are used, [G]."""


@subprogram
def shape_cores(
    articulation: Articulation, state: State, numbers: tuple[int, ...]
) -> tuple[Core, list[Array | None], Array]:
    """The cores [G, ...] of some shapes of an articulation, relative to its reference point, the
    points of hulls, and that reference point, [3].
    """
    kin = kinematics(articulation, state)
    cores = cores_of(shapes_of(articulation, kin, numbers))
    bare = [core._replace(points=None) for core in cores]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *bare)
    return stacked, [core.points for core in cores], kin.reference


@subprogram
def _points_between(
    a: Core,
    b: Core,
    kinds: tuple[GeometryType, GeometryType],
    faces: tuple[HullFaces, HullFaces],
) -> Meeting:
    return points_between(a, b, kinds, faces)


def nearest_of_pairs(
    table: ShapeTable,
    pairs: ShapePairs,
    rows: np.ndarray,
    most: int | None,
    num_bodies: int,
    friction: Array | None,
) -> LinkContacts:
    """The nearest points of pairs of shapes, relative to the table's point.

    Args:
      table: the shapes.
      pairs: the pairs.
      rows: the row of each shape of the pairs' articulations in the table.
      most: the largest number of points; ``None`` for a number that grows with the bodies.
      num_bodies: their number.
      friction: the coefficients of the pairs, [P]; ``None`` combines those of the shapes.
    """
    owner = pairs.candidate_pairs
    count = len(owner)
    meetings, order = _meetings(table, pairs, rows)
    gap = meetings.gap[order]
    wanted = POINTS_OF_BODY * num_bodies if most is None else most
    number = jnp.arange(count, dtype=jnp.int32)
    if wanted < count:
        _say_budget(wanted, count, len(pairs), is_usual=most is None)
        _, number = jax.lax.top_k(-jax.lax.stop_gradient(gap), wanted)
    chosen = jnp.asarray(order, jnp.int32)[number]
    kept = jax.tree.map(lambda x: x[chosen], meetings)
    pair = jnp.asarray(owner, jnp.int32)[number]
    touching = jnp.sum(gap <= 0, dtype=jnp.int32) - jnp.sum(kept.gap <= 0, dtype=jnp.int32)
    both = jnp.asarray(rows[pairs.numbers], jnp.int32)[pair]
    friction = None if friction is None else friction[pair]
    return LinkContacts(
        pair=pair,
        point=kept.point,
        normal=kept.normal,
        gap=kept.gap,
        **materials_of(table.material, both[:, 0], both[:, 1], pairs, friction),
        omitted=touching,
        choice=Choice(number.astype(kept.gap.dtype), ((len(kept.gap), count),)),
    )


def _meetings(table: ShapeTable, pairs: ShapePairs, rows: np.ndarray) -> tuple[Meeting, np.ndarray]:
    """The points of all pairs, those of the same kinds together, and the place of each candidate
    among them.
    """
    kinds, faces = pairs.kinds, pairs.faces
    alike: dict[tuple, list[int]] = {}
    for k, kind in enumerate(kinds):
        sizes = tuple(_num_points(table, rows[number]) for number in pairs.numbers[k])
        alike.setdefault((kind, faces[k], sizes), []).append(k)
    parts: list[Meeting] = []
    owners: list[np.ndarray] = []
    for (kind, face, _), numbers in alike.items():
        sides = [_cores(table, rows[pairs.numbers[numbers, side]]) for side in (0, 1)]
        meet = jax.vmap(lambda a, b, kind=kind, face=face: _points_between(a, b, kind, face))
        meeting = meet(*sides)
        owners.append(np.repeat(numbers, meeting.gap.shape[1]))
        parts.append(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), meeting))
    return joined(parts), np.argsort(np.concatenate(owners), kind="stable")


def _num_points(table: ShapeTable, row: int) -> int:
    points = table.points[row]
    return 0 if points is None else len(points)


def _cores(table: ShapeTable, rows: np.ndarray) -> Core:
    """The cores in these rows, which are of one kind."""
    core = jax.tree.map(lambda x: x[rows], table.core)
    points = [table.points[row] for row in rows]
    if points[0] is None:
        return core
    used = list(dict.fromkeys(rows.tolist()))
    every = jnp.stack([table.points[row] for row in used])
    return core._replace(points=every[np.array([used.index(row) for row in rows.tolist()])])


@functools.cache
def _say_budget(most: int, count: int, num_pairs: int, is_usual: bool) -> None:
    """Logs, once, that not all points can become contacts."""
    chosen = f"{POINTS_OF_BODY} for each body" if is_usual else "max_link_contacts"
    _log.warning(
        "artix: %d points of %d pairs of shapes may touch; the nearest %d are contacts (%s), and "
        "reports count the touching ones that are left out (omitted); max_link_contacts of the "
        "scene sets another number",
        count,
        num_pairs,
        most,
        chosen,
    )
