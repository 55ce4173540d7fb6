"""Contact candidates: the points through which shapes touch.

A shape's candidates are points of its link, each with a radius: the sphere around the point
touches. For spheres, capsules, boxes and hulls the candidates are exact against a plane, and the
same for every surface. A cylinder has four points on each rim: the first where the rim is nearest
to the surface, the others at quarter turns. It is exact against a plane, rolls smoothly, and stands
on four points. An ellipsoid has its lowest point towards the surface.

A hull of more than eight points has eight candidates: its lowest point towards the surface, and
those that would be the lowest if it were tilted a little in seven directions. They are the corners
on which a face rests, and are found by one pass over all points.

On a height field, the lowest point of a rim or an ellipsoid is that against the tangent plane below
it, which a few rounds approach. Against any other plane the point would move along the body while
it rolls, and sink in. Points of a hull are the lowest by their heights above the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import Core
from artix.contact.ground import Surface
from artix.contact.plane import Plane
from artix.kinematics.contact_points import contact_frames
from artix.kinematics.forward import Kinematics
from artix.math import spatial
from artix.math.arrays import take
from artix.math.spatial import Transforms
from artix.math.tangents import without_derivatives
from artix.math.traces import while_loop
from artix.model.articulation import Articulation
from artix.model.geometry import (
    CANDIDATE_PATTERNS,
    SUPPORT_POINTS,
    GeometryStructure,
    GeometryType,
)

Array = jax.Array


#: On how many sides of a pit the candidates of a shape may lie; those without a radius touch what
#: is right below them.
_SIDES = {GeometryType.SPHERE: 3, GeometryType.CAPSULE: 3, GeometryType.HULL: 1}


class Shapes(NamedTuple):
    """Shapes of an articulation and their poses, with C candidates in all, shape by shape."""

    numbers: tuple[int, ...]
    """Static structure of the shapes."""
    structures: tuple[GeometryStructure, ...]
    owner: np.ndarray
    """Index of the shape of each candidate, [C]."""
    sides: np.ndarray
    """On how many sides of a pit each candidate may lie, [C]; 0 if it has no radius."""
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
        np.repeat([_SIDES.get(one.type, 0) for one in structures], counts).astype(int),
        take(arrays.size.T, index),
        local,
        rotation,
        position,
        arrays.point,
        tuple(first[index].tolist()),
    )


def cores_of(shapes: Shapes) -> list[Core]:
    """The cores of spheres, capsules, boxes and hulls; of a cylinder, its axis and radius; of an
    ellipsoid, its semi-axes.
    """
    cores = []
    for k, shape in enumerate(shapes.structures):
        size = shapes.size[:, k]
        zero = jnp.zeros_like(size[0])
        points = None
        if shape.type in (GeometryType.BOX, GeometryType.ELLIPSOID):
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


def cores_of_members(
    articulations: Sequence[Articulation], kins: Sequence[Kinematics], numbers: np.ndarray
) -> dict[int, Core]:
    """The cores of shapes by their numbers, which go on from one articulation to the next; relative
    to the reference point of the first articulation.
    """
    cores: dict[int, Core] = {}
    first = 0
    for articulation, kin in zip(articulations, kins, strict=True):
        count = len(articulation.geometry.friction)
        used = np.unique(numbers[(numbers >= first) & (numbers < first + count)])
        if len(used):
            local = cores_of(shapes_of(articulation, kin, (used - first).tolist()))
            if kin is not kins[0]:
                offset = kin.reference - kins[0].reference
                local = [core._replace(center=core.center + offset) for core in local]
            cores |= dict(zip(used.tolist(), local, strict=True))
        first += count
    return cores


def candidates_of(shapes: Shapes, surface: Surface, reference: Array) -> Candidates:
    """The candidates of shapes for a surface; positions are relative to ``reference`` [3]."""
    owner = shapes.owner
    offset, radius = _offsets(shapes, surface, reference)
    link_point = take(shapes.local.position, owner) + spatial.rotate(
        take(shapes.local.rotation, owner), offset
    )
    position = take(shapes.position, owner) + spatial.apply(take(shapes.rotation, owner), offset)
    return Candidates(link_point, position, radius)


def _offsets(shapes: Shapes, surface: Surface, reference: Array) -> tuple[Array, Array]:
    """The candidates in the shapes' frames, [3, C], and their radii, [C]."""
    normals = _normals(shapes, surface, reference)
    offsets, radii = [], []
    for k, shape in enumerate(shapes.structures):
        size = shapes.size[:, k]
        if shape.type is GeometryType.HULL:
            every = slice(shapes.first_points[k], shapes.first_points[k] + shape.num_points)
            if shape.num_points > SUPPORT_POINTS:
                height = _height_of(shapes, k, surface, reference)
                offsets.append(_support(shapes.points, every, normals[k][:, 0], height).T)
            else:
                offsets.append(shapes.points[every].T)
            radii.append(jnp.broadcast_to(size[0], (shape.num_candidates,)))
            continue
        if shape.type is GeometryType.ELLIPSOID:
            offsets.append(_lowest_of_ellipsoids(size[:, None], normals[k]))
            radii.append(jnp.zeros_like(size[:1]))
            continue
        points, extent, have_radius = CANDIDATE_PATTERNS[shape.type]
        pattern = jnp.asarray(points.T, size.dtype)
        if shape.type is GeometryType.CYLINDER:
            x, y = jnp.repeat(_steepest(normals[k]), len(points) // len(_RIMS), axis=1)
            pattern = jnp.stack(
                [x * pattern[0] - y * pattern[1], y * pattern[0] + x * pattern[1], pattern[2]]
            )
        radius = size[0] if have_radius else jnp.zeros_like(size[0])
        offsets.append(pattern * size[np.array(extent)][:, None])
        radii.append(jnp.broadcast_to(radius, (pattern.shape[1],)))
    return jnp.concatenate(offsets, axis=1), jnp.concatenate(radii)


#: The rims of a cylinder, in the order of its candidates.
_RIMS = (-1.0, 1.0)
#: How much the normals are tilted that are tried first on a height field, and in how many
#: directions.
_SLANT, _SLANTS = 0.5, 8
#: How much lower a point must be to be preferred, in units of the shape's size: a coin that lies
#: flat would turn its points from step to step.
_CLEARLY = 0.005
#: How often the tangent plane below the lowest point is taken, and the lowest point against it.
_ROUNDS = 3


def _normals(shapes: Shapes, surface: Surface, reference: Array) -> list[Array]:
    """For each shape, the normals of the surface against which its points are the lowest, in the
    shape's frame, [3, N]: two of a cylinder's rims, one of other shapes.
    """
    kinds = [one.type for one in shapes.structures]
    ends = [_RIMS if kind is GeometryType.CYLINDER else (0.0,) for kind in kinds]
    owner = np.repeat(np.arange(len(kinds)), [len(each) for each in ends])
    is_rim, is_bent = (
        np.array([kinds[k] is kind for k in owner], bool)
        for kind in (GeometryType.CYLINDER, GeometryType.ELLIPSOID)
    )
    origin, rotation = take(shapes.position, owner), take(shapes.rotation, owner)

    def below(position: Array) -> Array:
        return spatial.apply_transposed(rotation, surface.distances(reference, position)[1])

    def lowest(normal: Array) -> Array:
        size = take(shapes.size, owner)
        x, y = size[0] * _steepest(normal)
        on_rim = jnp.stack([x, y, np.concatenate(ends) * size[1]])
        on_bent = jnp.where(is_bent, _lowest_of_ellipsoids(size, normal), 0)
        return origin + spatial.apply(rotation, jnp.where(is_rim, on_rim, on_bent))

    def height(normal: Array) -> Array:
        return surface.heights_below(reference, lowest(normal))

    normal = below(origin)
    if not isinstance(surface, Plane) and np.any(is_rim | is_bent):
        length = jnp.sum(take(shapes.size[:2], owner), axis=0)
        normal = _approached(normal, lambda normal: below(lowest(normal)), height, length)
    return [normal[:, owner == k] for k in range(len(kinds))]


def _approached(
    normal: Array,
    following: Callable[[Array], Array],
    height: Callable[[Array], Array],
    length: Array,
) -> Array:
    """Normals [3, N] whose lowest points are low above a bent surface and have these normals below.

    Args:
      normal: the normals below the shapes, [3, N].
      following: the normals below the lowest points that belong to normals.
      height: how high these points are, [N].
      length: sizes of the shapes, [N].
    """
    first, second, _ = jnp.stack(contact_frames(normal.T)).transpose(1, 2, 0)
    turns = 2 * np.pi / _SLANTS * np.arange(_SLANTS)
    best, least = normal, height(normal)
    for along, across in zip(np.cos(turns).tolist(), np.sin(turns).tolist(), strict=True):
        tilted = normal + _SLANT * (along * first + across * second)
        tried = height(tilted)
        is_lower = tried < least - _CLEARLY * length
        best, least = jnp.where(is_lower, tilted, best), jnp.where(is_lower, tried, least)
    # At the lowest point, a round changes its height by rounding, and has its derivatives.
    small = float(jnp.finfo(length.dtype).eps) ** 0.5 * length
    for _ in range(_ROUNDS):
        beyond = following(best)
        reached = height(beyond)
        best = jnp.where(reached < least + small, beyond, best)
        least = jnp.minimum(reached, least)
    return best


def _height_of(
    shapes: Shapes, k: int, surface: Surface, reference: Array
) -> Callable[[Array], Array] | None:
    """How high points [3] in the frame of the k-th shape are above a field; ``None`` for a plane,
    whose normal says it.
    """
    if isinstance(surface, Plane):
        return None
    origin, rotation = shapes.position[:, k], shapes.rotation[:, :, k]
    origin, rotation, field, fixed = without_derivatives((origin, rotation, surface, reference))

    def height(point: Array) -> Array:
        position = origin + jnp.sum(rotation * point, axis=1)
        return field.heights_below(fixed, position[:, None])[0]

    return height


#: The tilt at which corners of a face count as its extreme points, and the directions of the tilts,
#: [7].
_TILT, _AROUND = 0.1, 2 * np.pi / (SUPPORT_POINTS - 1) * np.arange(SUPPORT_POINTS - 1)


class _Extremes(NamedTuple):
    """The points that are farthest in each direction, of those tried so far."""

    tried: Array
    reach: Array
    number: Array


def _support(
    points: Array, every: slice, normal: Array, height: Callable[[Array], Array] | None
) -> Array:
    """The extreme points [8, 3] of a hull, whose points are ``every`` of [P, 3], towards a surface
    with this normal, above which points have a ``height``; a plane's is that along the normal.

    A point that is extreme in several directions counts once. The topmost point, which touches
    nothing, stands in.
    """
    flat = points.reshape(-1)
    known, fixed = without_derivatives((flat, normal))
    first, second, up = contact_frames(fixed[None])[0]
    turns = [(math.cos(angle), math.sin(angle)) for angle in _AROUND.tolist()]
    tilts = [_TILT * (along * first + across * second) for along, across in turns]
    steep = up if height is None else jnp.zeros_like(up)
    direction = jnp.stack([-steep, *(tilt - steep for tilt in tilts), steep])
    sinks = np.array([-1.0] * SUPPORT_POINTS + [1.0])

    def at(table: Array, number: Array) -> Array:
        index = 3 * number[..., None] + jnp.arange(3, dtype=jnp.int32)
        return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)

    def body(search: _Extremes) -> _Extremes:
        point = at(known, search.tried)
        reach = jnp.sum(direction * point, axis=1)
        if height is not None:
            reach = reach + sinks.astype(reach.dtype) * height(point)
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
    end = while_loop(lambda search: search.tried < every.stop, body, start)
    lowest, topmost = end.number[:-1], end.number[-1]
    same = (lowest[:, None] == lowest) & np.tri(SUPPORT_POINTS, k=-1, dtype=bool)
    return at(flat, jnp.where(jnp.any(same, axis=1), topmost, lowest))


def _lowest_of_ellipsoids(semi_axes: Array, normal: Array) -> Array:
    """The points ``-A^2 n / |A n|``, ``A = diag(semi_axes)``, of ellipsoids that are farthest
    against normals, [3, G].
    """
    stretched = semi_axes * normal
    square = jnp.sum(stretched**2, axis=0)
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
