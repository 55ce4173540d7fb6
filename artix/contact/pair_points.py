"""The points at which two shapes touch: one with a sphere or an ellipsoid, two with a capsule, else
four.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import (
    Core,
    Meeting,
    between_points,
    capsule_and_box,
    capsules,
    in_box_frame,
    point_with_box,
)
from artix.contact.cylinder_hull_pairs import cylinder_and_hull
from artix.contact.cylinder_pairs import cylinder_and_box, point_with_cylinder
from artix.contact.ellipsoid_pairs import ellipsoid_and
from artix.contact.hull_pairs import box_meetings, capsule_and_hull, hull_meetings, sphere_and_hull
from artix.contact.shape_pairs import num_points
from artix.contact.two_cylinders import capsule_and_cylinder, cylinder_and_cylinder
from artix.math.arrays import joined
from artix.model.geometry import GeometryType
from artix.model.hull_faces import BOX_FACES, HullFaces

Array = jax.Array

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
    every, order = joined(meetings), np.argsort(places)
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
