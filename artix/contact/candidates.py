"""Contact candidates: the points through which shapes touch.

A shape's candidates are points of its link, each with a radius: the sphere around the point
touches. For spheres, capsules, boxes and hulls the candidates are exact against a plane, and the
same for every surface. A cylinder has four points on each rim: the first where the rim is nearest
to the surface, the others at quarter turns. It is exact against a plane, rolls smoothly, and stands
on four points. An ellipsoid has its lowest point towards the surface.

A hull of more than eight points has eight candidates: its lowest point towards the surface, and
those that would be the lowest if it were tilted a little in seven directions. They are the corners
on which a face rests, and are found by one pass over all points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import Core
from artix.kinematics.contact_points import contact_frames
from artix.kinematics.forward import Kinematics
from artix.math import spatial
from artix.math.arrays import take
from artix.math.spatial import Transforms
from artix.math.tangents import without_derivatives
from artix.model.articulation import Articulation
from artix.model.geometry import (
    CANDIDATE_PATTERNS,
    SUPPORT_POINTS,
    GeometryStructure,
    GeometryType,
)

Array = jax.Array


#: Shapes whose candidates have no radius.
_POINTED = (GeometryType.BOX, GeometryType.CYLINDER, GeometryType.ELLIPSOID)


class Shapes(NamedTuple):
    """Shapes of an articulation and their poses, with C candidates in all, shape by shape."""

    numbers: tuple[int, ...]
    """Static structure of the shapes."""
    structures: tuple[GeometryStructure, ...]
    owner: np.ndarray
    """Index of the shape of each candidate, [C]."""
    is_round: np.ndarray
    """Whether each candidate has a radius, [C]."""
    size: Array
    """Sizes of the shapes, [3, G]."""
    local: Transforms
    """Poses of the shapes in their links' frames (G items)."""
    rotation: Array
    """Rotation matrices from the shapes' frames to world axes, [3, 3, G]."""
    position: Array
    """Positions relative to the reference point, in world axes, [3, G]."""
    points: Array
    """Points of all hulls of the articulation, in their shapes' frames, [P, 3]."""
    first_points: tuple[int, ...]
    """Index of each shape's first point."""


class Candidates(NamedTuple):
    """C points with radii."""

    link_point: Array
    """Points in their links' frames, [3, C]."""
    position: Array
    """Points relative to the reference point, in world axes, [3, C]."""
    radius: Array
    """[C]."""


def shapes_of(articulation: Articulation, kin: Kinematics, numbers: Sequence[int]) -> Shapes:
    """The shapes with these indices."""
    topology, arrays = articulation.topology, articulation.geometry
    index = np.array(numbers, int)
    structures = tuple(topology.geometries[k] for k in numbers)
    links = topology.geometry_links(numbers)
    local = Transforms.from_poses(arrays.pose).take(index)
    body = topology.link_body[links]
    placed = kin.placements.take(links) @ local
    turn = take(kin.rotation, body)
    position = take(kin.position, body) + spatial.apply(turn, placed.position)
    rotation = spatial.multiply(turn, spatial.rotation_matrix(placed.rotation))
    counts = [one.num_candidates for one in structures]
    first = np.cumsum([0, *(one.num_points for one in topology.geometries)])
    return Shapes(
        tuple(numbers),
        structures,
        np.repeat(np.arange(len(index)), counts),
        np.repeat([one.type not in _POINTED for one in structures], counts).astype(bool),
        take(arrays.size.T, index),
        local,
        rotation,
        position,
        arrays.point,
        tuple(first[index].tolist()),
    )


def cores_of(shapes: Shapes) -> list[Core]:
    """The cores of spheres, capsules, boxes and hulls; of a cylinder, its axis and radius."""
    cores = []
    for k, shape in enumerate(shapes.structures):
        size = shapes.size[:, k]
        zero = jnp.zeros_like(size[0])
        points = None
        if shape.type is GeometryType.BOX:
            half, radius = size, zero
        elif shape.type is GeometryType.HULL:
            first = shapes.first_points[k]
            points = shapes.points[first : first + shape.num_points]
            half, radius = jnp.stack([zero, zero, zero]), size[0]
        else:
            length = zero if shape.type is GeometryType.SPHERE else size[1]
            half, radius = jnp.stack([zero, zero, length]), size[0]
        cores.append(Core(shapes.position[:, k], shapes.rotation[:, :, k], half, radius, points))
    return cores


def candidates_of(shapes: Shapes, normal: Array) -> Candidates:
    """The candidates of shapes for a surface whose normals below the shapes are [3, G], in world
    axes.
    """
    owner = shapes.owner
    offset, radius = _offsets(shapes, normal)
    link_point = take(shapes.local.position, owner) + spatial.rotate(
        take(shapes.local.rotation, owner), offset
    )
    position = take(shapes.position, owner) + spatial.apply(take(shapes.rotation, owner), offset)
    return Candidates(link_point, position, radius)


def _offsets(shapes: Shapes, normal: Array) -> tuple[Array, Array]:
    """The candidates in the shapes' frames, [3, C], and their radii, [C]."""
    local = spatial.apply_transposed(shapes.rotation, normal)
    down = None
    if any(one.type is GeometryType.CYLINDER for one in shapes.structures):
        down = _steepest(local)
    offsets, radii = [], []
    for k, shape in enumerate(shapes.structures):
        size = shapes.size[:, k]
        if shape.type is GeometryType.HULL:
            every = slice(shapes.first_points[k], shapes.first_points[k] + shape.num_points)
            if shape.num_points > SUPPORT_POINTS:
                offsets.append(_support(shapes.points, every, local[:, k]).T)
            else:
                offsets.append(shapes.points[every].T)
            radii.append(jnp.broadcast_to(size[0], (shape.num_candidates,)))
            continue
        if shape.type is GeometryType.ELLIPSOID:
            offsets.append(_lowest_of_ellipsoid(size, local[:, k])[:, None])
            radii.append(jnp.zeros_like(size[:1]))
            continue
        points, extent, have_radius = CANDIDATE_PATTERNS[shape.type]
        pattern = jnp.asarray(points.T, size.dtype)
        if shape.type is GeometryType.CYLINDER:
            assert down is not None
            x, y = down[:, k, None]
            pattern = jnp.stack(
                [x * pattern[0] - y * pattern[1], y * pattern[0] + x * pattern[1], pattern[2]]
            )
        radius = size[0] if have_radius else jnp.zeros_like(size[0])
        offsets.append(pattern * size[np.array(extent)][:, None])
        radii.append(jnp.broadcast_to(radius, (pattern.shape[1],)))
    return jnp.concatenate(offsets, axis=1), jnp.concatenate(radii)


#: The tilt at which corners of a face count as its extreme points, and the directions of the tilts,
#: [7].
_TILT, _AROUND = 0.1, 2 * np.pi / (SUPPORT_POINTS - 1) * np.arange(SUPPORT_POINTS - 1)


class _Extremes(NamedTuple):
    """The points that are farthest in each direction, of those tried so far."""

    tried: Array
    reach: Array
    number: Array


def _support(points: Array, every: slice, normal: Array) -> Array:
    """The extreme points [8, 3] of a hull, whose points are ``every`` of [P, 3], towards a surface
    with this normal.

    A point that is extreme in several directions counts once. The topmost point, which touches
    nothing, stands in.
    """
    flat = points.reshape(-1)
    known, fixed = without_derivatives((flat, normal))
    first, second, up = contact_frames(fixed[None])[0]
    turns = [(math.cos(angle), math.sin(angle)) for angle in _AROUND.tolist()]
    tilts = [_TILT * (along * first + across * second) for along, across in turns]
    direction = jnp.stack([-up, *(tilt - up for tilt in tilts), up])

    def at(table: Array, number: Array) -> Array:
        index = 3 * number[..., None] + jnp.arange(3, dtype=jnp.int32)
        return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)

    def body(search: _Extremes) -> _Extremes:
        reach = jnp.sum(direction * at(known, search.tried), axis=1)
        farther = reach > search.reach
        return _Extremes(
            search.tried + 1,
            jnp.where(farther, reach, search.reach),
            jnp.where(farther, search.tried, search.number),
        )

    begin = jnp.full((), every.start, jnp.int32)
    start = _Extremes(
        begin,
        jnp.full_like(direction[:, 0], -jnp.inf),
        jnp.full(len(direction), every.start, jnp.int32),
    )
    end = jax.lax.while_loop(lambda search: search.tried < every.stop, body, start)
    lowest, topmost = end.number[:-1], end.number[-1]
    same = (lowest[:, None] == lowest) & np.tri(SUPPORT_POINTS, k=-1, dtype=bool)
    return at(flat, jnp.where(jnp.any(same, axis=1), topmost, lowest))


def _lowest_of_ellipsoid(semi_axes: Array, normal: Array) -> Array:
    """The point ``-A^2 n / |A n|`` [3], ``A = diag(semi_axes)``, of an ellipsoid that is farthest
    against a normal [3].
    """
    stretched = semi_axes * normal
    square = jnp.sum(stretched**2)
    return -semi_axes * stretched * jax.lax.rsqrt(jnp.where(square > 0, square, 1))


def _steepest(normal: Array) -> Array:
    """Unit vectors [2, G], perpendicular to z, towards a surface with normals [3, G] in the shapes'
    frames.

    If z is along the normal up to rounding, any direction will do, and x is returned.
    """
    x, y = -normal[:2]
    square = x * x + y * y
    is_flat = square < jnp.finfo(normal.dtype).eps
    length = jax.lax.rsqrt(jnp.where(is_flat, jnp.ones_like(square), square))
    return jnp.stack(
        [jnp.where(is_flat, jnp.ones_like(x), x * length), jnp.where(is_flat, 0 * y, y * length)]
    )
