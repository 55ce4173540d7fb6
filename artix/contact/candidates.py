"""Contact candidates: the points through which shapes touch.

A shape's candidates are points of its link, each with a radius: the sphere around the point
touches. For spheres, capsules, boxes and hulls the candidates are exact against a plane, and the
same for every surface. A cylinder has four points on each rim: the first where the rim is nearest
to the surface, the others at quarter turns. It is exact against a plane, rolls smoothly, and stands
on four points. An ellipsoid has its lowest point towards a plane.

A hull of more than eight points has eight candidates: its lowest point towards the surface, and
those that would be the lowest if it were tilted a little in seven directions. They are the corners
on which a face rests, and are found by one pass over all points.

On a height field, the lowest point of a rim is that against the tangent plane below it, which a few
rounds approach. Against any other plane the point would move along the body while it rolls, and
sink in. In a groove a rim touches on several sides: two more points are those that are lowest
elsewhere on it. An ellipsoid is the unit sphere of a mapped field, and touches as spheres do.
Points of a hull are the lowest by their heights above the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.cores import Core
from artix.contact.ground import Plane, Surface
from artix.contact.height_field import Ellipsoids
from artix.kinematics.contact_points import contact_frames
from artix.kinematics.forward import Kinematics
from artix.math import spatial
from artix.math.arrays import identity, take
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
_SIDES = {
    GeometryType.SPHERE: 3,
    GeometryType.CAPSULE: 3,
    GeometryType.HULL: 1,
    GeometryType.ELLIPSOID: 3,
}


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

    @property
    def are_ellipsoids(self) -> np.ndarray:
        """Which shapes are ellipsoids, [G]."""
        return np.array([one.type is GeometryType.ELLIPSOID for one in self.structures], bool)


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


def ellipsoids_of(shapes: Shapes, surface: Surface) -> Ellipsoids | None:
    """The ellipsoids among the candidates for a height field; ``None`` if there are none."""
    owner = shapes.owner
    are_round = shapes.are_ellipsoids[owner]
    if isinstance(surface, Plane) or not np.any(are_round):
        return None
    over = 1 / jnp.where(are_round, take(shapes.size, owner), 1)
    onto = over[:, None] * take(shapes.rotation, owner).swapaxes(0, 1)
    return Ellipsoids(are_round, jnp.where(are_round, onto, identity(3, over.dtype)[:, :, None]))


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
            is_plane = isinstance(surface, Plane)
            below = lowest_of_ellipsoids(size[:, None], normals[k])
            offsets.append(below if is_plane else jnp.zeros_like(below))
            radii.append(jnp.zeros_like(size[:1]))
            continue
        points, extent, have_radius = CANDIDATE_PATTERNS[shape.type]
        pattern = jnp.asarray(points.T, size.dtype)
        if shape.type is GeometryType.CYLINDER:
            x, y = _around_rims(normals[k])
            pattern = jnp.stack([x, y, pattern[2]])
        radius = size[0] if have_radius else jnp.zeros_like(size[0])
        offsets.append(pattern * size[np.array(extent)][:, None])
        radii.append(jnp.broadcast_to(radius, (pattern.shape[1],)))
    return jnp.concatenate(offsets, axis=1), jnp.concatenate(radii)


#: The rims of a cylinder, in the order of its candidates.
_RIMS = (-1.0, 1.0)
#: How much the normals are tilted that are tried first on a height field, and in how many
#: directions.
_SLANTS, _DIRECTIONS = (0.25, 0.5, 1.0), 8
#: How much lower a point must be to be preferred, in units of the shape's size: a coin that lies
#: flat would turn its points from step to step.
_CLEARLY = 0.005
#: How often the tangent plane below the lowest point is taken, and the lowest point against it.
_ROUNDS = 3
#: How far apart the points of a rim on a height field are, in units of its radius.
_APART = 0.4


def _normals(shapes: Shapes, surface: Surface, reference: Array) -> list[Array]:
    """For each shape, the normal of the surface below it, in the shape's frame, [3, 1]. For a
    cylinder, that against which the point of each rim is the lowest, [3, 2], on a height field
    followed by those of the rim's other points, [3, 6].
    """
    are_cylinders = [one.type is GeometryType.CYLINDER for one in shapes.structures]
    ends = [_RIMS if one else (0.0,) for one in are_cylinders]
    owner = np.repeat(np.arange(len(ends)), [len(each) for each in ends])
    origin, rotation = take(shapes.position, owner), take(shapes.rotation, owner)
    radius, half = take(shapes.size[:2], owner)

    def below(position: Array) -> Array:
        return spatial.apply_transposed(rotation, surface.distances(reference, position)[1])

    def on_rim(normal: Array) -> Array:
        return jnp.stack([*(radius * _steepest(normal)), np.concatenate(ends) * half])

    def placed(normal: Array) -> Array:
        return origin + spatial.apply(rotation, on_rim(normal))

    normal = below(origin)
    if isinstance(surface, Plane) or not any(are_cylinders):
        return [normal[:, owner == k] for k in range(len(ends))]
    search = _LowestOfRims(
        on_rim,
        height=lambda normal: surface.heights_below(reference, placed(normal)),
        following=lambda normal: below(placed(normal)),
        length=radius + half,
        apart=_APART * radius,
    )
    tried = search.around(normal)
    first = search.lowest(tried)
    # Without another low point, a rim has those a quarter turn away.
    x, y = _steepest(first)
    aside = jnp.stack([y, -x, jnp.zeros_like(x)])
    others = search.others(tried, first, [aside, -aside])
    every = jnp.stack([first, *others], axis=2)
    return [
        every[:, owner == k].reshape(3, -1) if is_cylinder else normal[:, owner == k]
        for k, is_cylinder in enumerate(are_cylinders)
    ]


class _Tried(NamedTuple):
    """Normals [3, N], the points that are lowest against them, and how high these are, [N]."""

    normal: Array
    point: Array
    height: Array


class _LowestOfRims(NamedTuple):
    """Searches for low points of N rims above a bent surface, by the normals [3, N] against which
    points are the lowest.
    """

    point: Callable[[Array], Array]
    """The points in the shapes' frames that belong to normals, [3, N]."""
    height: Callable[[Array], Array]
    """How high these points are, [N]."""
    following: Callable[[Array], Array]
    """The normals below these points."""
    length: Array
    """Sizes of the cylinders, [N]."""
    apart: Array
    """How far apart points are, [N]."""

    def around(self, normal: Array) -> list[_Tried]:
        """The points of normals below the cylinders, [3, N], and of others around these."""
        first, second, _ = jnp.stack(contact_frames(normal.T)).transpose(1, 2, 0)
        turns = 2 * np.pi / _DIRECTIONS * np.arange(_DIRECTIONS)
        tilts = [
            slant * (along * first + across * second)
            for slant in _SLANTS
            for along, across in zip(np.cos(turns).tolist(), np.sin(turns).tolist(), strict=True)
        ]
        every = [normal, *(normal + tilt for tilt in tilts)]
        return [_Tried(each, self.point(each), self.height(each)) for each in every]

    def lowest(self, tried: list[_Tried]) -> Array:
        """The normals of the lowest points; the first normals that were tried unless others are
        clearly lower.
        """
        best, _, least = tried[0]
        for normal, _, height in tried[1:]:
            is_lower = height < least - _CLEARLY * self.length
            best, least = jnp.where(is_lower, normal, best), jnp.where(is_lower, height, least)
        return self._refined(best, least)

    def others(self, tried: list[_Tried], first: Array, stand_ins: list[Array]) -> list[Array]:
        """The normals of points that are low elsewhere, one after another, or those that stand in
        for them.
        """
        places, normals = [self.point(first)], []
        for stand_in in stand_ins:
            best, least = stand_in, jnp.full_like(self.length, jnp.inf)
            for normal, point, height in tried:
                is_lower = self._is_elsewhere(point, places, self.apart) & (height < least)
                best, least = jnp.where(is_lower, normal, best), jnp.where(is_lower, height, least)
            best = self._refined(best, least)
            is_low = self.height(best) < self.height(stand_in) - _CLEARLY * self.length
            is_other = is_low & self._is_elsewhere(self.point(best), places, 0.5 * self.apart)
            normals.append(jnp.where(is_other, best, stand_in))
            places.append(self.point(normals[-1]))
        return normals

    def _is_elsewhere(self, point: Array, places: list[Array], apart: Array) -> Array:
        """Whether points are as far from all places, [N]."""
        squares = [jnp.sum((point - place) ** 2, axis=0) for place in places]
        return jnp.min(jnp.stack(squares), axis=0) > apart**2

    def _refined(self, best: Array, least: Array) -> Array:
        """The normals below the lowest points, and below those that follow from them, while these
        are lower.
        """
        # At the lowest point, a round changes its height by rounding, and has its derivatives.
        small = float(jnp.finfo(least.dtype).eps) ** 0.5 * self.length
        for _ in range(_ROUNDS):
            beyond = self.following(best)
            reached = self.height(beyond)
            best = jnp.where(reached < least + small, beyond, best)
            least = jnp.minimum(reached, least)
        return best


def _around_rims(normal: Array) -> tuple[Array, Array]:
    """Unit vectors [2, 8] to the points of two rims: for normals [3, 2], the lowest and those at
    quarter turns; for [3, 6], the lowest, another one, the opposite one, and a third one.
    """
    x, y = _steepest(normal).reshape(2, len(_RIMS), -1)
    first = jnp.stack([x[:, 0], y[:, 0]])
    turned = jnp.stack([-first[1], first[0]])
    both = [turned, -turned]
    if x.shape[1] > 1:
        both = [jnp.stack([x[:, k], y[:, k]]) for k in (1, 2)]
    every = jnp.stack([first, both[0], -first, both[1]], axis=2)
    x, y = every.reshape(2, -1)
    return x, y


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


def lowest_of_ellipsoids(semi_axes: Array, normal: Array) -> Array:
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
