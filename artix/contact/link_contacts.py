"""Contacts between links, of one robot or of several."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.contact.candidates import cores_of_members
from artix.contact.materials import COMBINATIONS, Softness
from artix.contact.pairs import meetings_of
from artix.contact.scene import Scene, ShapePairs, accepts_articulation, scene_of
from artix.contact.selection import Choice, looked_up, lowest
from artix.kinematics.forward import Kinematics, kinematics
from artix.math import struct
from artix.math.arrays import joined
from artix.model.articulation import Articulation
from artix.model.checks import check_count
from artix.model.geometry import Geometries

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
    states, pairs = scene.check_state(state), scene.shape_pairs
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
        _say_budget(most, count, len(pairs.numbers))
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


@functools.cache
def _say_budget(most: int, count: int, num_pairs: int) -> None:
    """Logs, once, that not all points can become contacts."""
    _log.warning(
        "artix: %d points of %d pairs of shapes may touch; max_link_contacts=%d keeps the "
        "nearest, and reports count the touching ones that are left out (omitted)",
        count,
        num_pairs,
        most,
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
