"""The points at which many shapes touch, as arrays of all pairs.

:mod:`artix.contact.link_contacts` writes out every pair, which suits the few of a robot. The pairs
of a heap grow with the square of its bodies. Here the shapes are rows of a table, pairs of the same
kinds read their rows, and one program of one pair serves them all. The nearest points are contacts.
"""

from __future__ import annotations

import functools
import logging
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.quantity import subprogram
from artix.contact.candidates import cores_of, shapes_of
from artix.contact.cores import Core, Meeting
from artix.contact.link_contacts import LinkContacts, materials_of
from artix.contact.pairs import points_between
from artix.contact.scene import ShapePairs
from artix.contact.selection import Choice
from artix.kinematics.forward import kinematics
from artix.math.arrays import joined
from artix.model.articulation import Articulation, State
from artix.model.geometry import Geometries, GeometryType
from artix.model.hull_faces import HullFaces

Array = jax.Array

_log = logging.getLogger("artix")

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
        _say_budget(wanted, count, len(pairs), most is None)
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
        found = meet(*sides)
        owners.append(np.repeat(numbers, found.gap.shape[1]))
        parts.append(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), found))
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
