"""Height fields: terrain as heights on a regular grid."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.contact.materials import surface_arrays
from artix.math import spatial, struct
from artix.math.arrays import device_array, one_array, take
from artix.math.tangents import without_derivatives
from artix.math.traces import while_loop
from artix.model.validation import finite_array

Array = jax.Array


#: Most rounds in which the point of the nearest cell is made precise.
_ROUNDS = 8
#: How far above the plane of a side another side is, in units of their distance.
_ABOVE = 1e-3


class HeightField(struct.PyTreeNode):
    """Terrain whose height is interpolated bilinearly between grid points, and constant beyond the
    edges.

    Attributes:
      heights: heights above ``origin``, ``heights[i, j]`` at ``x = origin[0] + i spacing[0]`` and
        ``y = origin[1] + j spacing[1]`` [m], [R, C].
      origin: position of ``heights[0, 0] = 0``, in world axes [m], [3].
      spacing: distances between neighbours along x and y [m], [2].
      friction: coefficient of friction, [].
      restitution: ratio of the normal speeds after and before an impact, [].
      stiffness: normal force per penetration of each candidate [N/m], [], ``inf`` for rigid.
      damping: normal force per penetration speed [N s/m], [].

    Examples:
      >>> along = jnp.linspace(0.0, 2.0, 21)
      >>> wave = jnp.broadcast_to(0.1 * jnp.sin(along)[:, None], (21, 11))
      >>> terrain = artix.HeightField.of(wave, spacing=(0.1, 0.1), friction=0.9)
      >>> robot = artix.robots.load("quadruped")
      >>> high = artix.neutral_state(robot).replace(
      ...     root_pose=jnp.array([1.0, 0.5, 0.6, 0.0, 0.0, 0.0, 1.0])
      ... )
      >>> front, _, rear, _ = artix.geometry_distances(
      ...     artix.Scene(robot, ground=artix.Ground((terrain,))), high
      ... )
      >>> print(front < rear)  # uphill, the front feet are closer
      True
    """

    heights: Array
    origin: Array
    spacing: Array
    friction: Array
    restitution: Array
    stiffness: Array
    damping: Array

    @classmethod
    def of(
        cls,
        heights: npt.ArrayLike,
        *,
        spacing: npt.ArrayLike,
        origin: npt.ArrayLike = (0.0, 0.0, 0.0),
        friction: float | Array = 1.0,
        restitution: float | Array = 0.0,
        stiffness: float | Array = np.inf,
        damping: float | Array = 0.0,
        dtype: Any = None,
    ) -> HeightField:
        """Makes a height field. Numbers may be traced; traced ones are not checked.

        Args:
          heights: heights [m], [R, C], at least 2 by 2.
          spacing: distances between neighbours along x and y [m], [2].
          origin: position of ``heights[0, 0] = 0``, in world axes [m], [3].
          friction: coefficient of friction.
          restitution: ratio of the normal speeds after and before an impact, between 0 and 1.
          stiffness: normal force per penetration of each candidate [N/m], ``inf`` for rigid.
          damping: normal force per penetration speed [N s/m].
          dtype: floating-point type of the arrays; JAX's default when ``None``.

        Raises:
          ValueError: a height is NaN or infinite (the message says where), the grid has no cell,
            the spacing is not positive, or a number is out of range.
        """
        dtype = jnp.result_type(float) if dtype is None else dtype
        heights, spacing, origin = one_array(heights), one_array(spacing), one_array(origin)
        shape = np.shape(heights)
        if len(shape) != 2 or min(shape) < 2:
            raise ValueError(
                "height field: heights must have shape [R, C] with R and C at least 2; found "
                f"{shape}"
            )
        if not isinstance(heights, jax.core.Tracer):
            wrong = np.argwhere(~np.isfinite(np.asarray(heights)))
            if len(wrong):
                raise ValueError(
                    f"height field: every height must be finite; {len(wrong)} are not, the first "
                    f"at {tuple(wrong[0].tolist())}; fill gaps of a scan first"
                )
        if not isinstance(spacing, jax.core.Tracer):
            spacing = finite_array(spacing, (2,), "height field: spacing")
            if not np.all(spacing > 0.0):
                raise ValueError(
                    f"height field: the spacing must be positive [m]; found {spacing.tolist()}"
                )
        if not isinstance(origin, jax.core.Tracer):
            origin = finite_array(origin, (3,), "height field: origin")
        material = surface_arrays(
            "height field",
            dtype,
            friction=friction,
            restitution=restitution,
            stiffness=stiffness,
            damping=damping,
        )
        return cls(
            *(device_array(array, dtype) for array in (heights, origin, spacing)), **material
        )

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the arrays of one field, without its material."""
        return {"heights": self.heights.shape[-2:], "origin": (3,), "spacing": (2,)}

    def distances(
        self,
        reference: Array,
        position: Array,
        radius: Array | None = None,
        sides: np.ndarray | None = None,
        ellipsoids: Ellipsoids | None = None,
    ) -> tuple[Array, Array]:
        """Signed distances [K] of the points ``reference`` [3] + ``position`` [3, C], and their
        gradients, [3, K].

        The distance is from the nearest point of the surface, negative below it. For spheres around
        the points, which have ``sides`` (static, [C]), it is sought in all cells within their
        ``radius`` [C], measured horizontally, and within half a cell. After it come the distances
        from the other sides of the groove or pit in which the sphere is, as many as its sides in
        all: from the nearest point above the planes through those before and across their
        gradients, or a large one if there is none. Points without sides touch the surface right
        below them, and have the distance from that cell.

        Some of the points may be the centres of ``ellipsoids``. A linear map makes unit spheres of
        them, and of every cell of the field another bilinear surface, from which the centres have
        distances r. That of an ellipsoid is ``(r - 1) / |grad r|``: zero where it touches, with
        the gradient ``grad r / |grad r|``, which is its normal there. Farther away it is the
        distance to first order, and above level ground exactly.
        """
        place = (reference - self.origin)[:, None] + position
        field, fixed = without_derivatives((self, place))
        sides = np.zeros(place.shape[1], int) if sides is None else sides
        is_round = np.zeros(len(sides), bool) if ellipsoids is None else ellipsoids.are_round
        parts, number, is_other = [], [], []
        for most, bent in sorted(set(zip(sides.tolist(), is_round.tolist(), strict=True))):
            points = np.flatnonzero((sides == most) & (is_round == bent))
            if most == 0:
                parts.append(_cell_below(field, take(fixed, points)))
            else:
                assert radius is not None
                reach = without_derivatives(take(radius, points))
                maps = None
                if bent:
                    assert ellipsoids is not None
                    maps = without_derivatives(take(ellipsoids.maps, points))
                parts += _sides(field, take(fixed, points), reach, most, maps)
            for k in range(max(most, 1)):
                number.append(points)
                is_other.append(np.full(len(points), k > 0))
        order = np.argsort(np.concatenate(number), kind="stable")
        cell, share, exists = (
            take(jnp.concatenate(each, axis=-1), order) for each in zip(*parts, strict=True)
        )
        index, is_outside = np.concatenate(number)[order], np.concatenate(is_other)[order]
        maps = None if ellipsoids is None else take(ellipsoids.maps, index)
        place, patch = take(place, index), self._patch(cell, maps)
        gap, normal = patch.signed_distance(place, patch.refined(place, share), is_outside)
        if maps is not None:
            gradient = spatial.apply_transposed(maps, normal)
            over = jax.lax.rsqrt(spatial.dot(gradient, gradient))
            gap = jnp.where(is_round[index], gap - 1, gap) * over
            normal = gradient * over
        if radius is not None:
            beyond = 4 * (take(radius, index) + jnp.sum(self.spacing))
            gap = jnp.where(exists, gap, gap + beyond)
        return gap, normal

    def heights_below(self, reference: Array, position: Array) -> Array:
        """How far the points ``reference`` [3] + ``position`` [3, C] are above the surface right
        below them, [C].
        """
        place = (reference - self.origin)[:, None] + position
        scaled = place[:2] / self.spacing[:, None]
        cell = jnp.floor(without_derivatives(scaled))
        return self._patch(cell).apart(place, scaled - cell)[2]

    def _patch(self, cell: Array, maps: Array | None = None) -> _Patch:
        """The surface over cells [2, C], measured after maps [3, 3, C], if there are any. Beyond
        the edges there are cells as well, level across the edge.
        """
        rows, columns = self.heights.shape
        i, j = (
            jnp.clip(cell[k], -1, count).astype(jnp.int32)
            for k, count in enumerate((rows, columns))
        )
        # Clipped as integers, so that a position that is not a number reads within the field, too.
        top, bottom = (columns * jnp.clip(i + step, 0, rows - 1) for step in (0, 1))
        near, far = (jnp.clip(j + step, 0, columns - 1) for step in (0, 1))
        corners = jnp.stack([top + near, top + far, bottom + near, bottom + far])
        h00, h01, h10, h11 = (
            self.heights.reshape(-1)
            .at[corners]
            .get(mode="promise_in_bounds", wrap_negative_indices=False)
        )
        return _Patch(
            self.spacing,
            self.spacing[:, None] * cell,
            h00,
            h10 - h00,
            h01 - h00,
            h11 - h10 - h01 + h00,
            maps,
        )


class Ellipsoids(NamedTuple):
    """Ellipsoids among points."""

    are_round: np.ndarray
    """Which points are centres of ellipsoids, static, [C]."""
    maps: Array
    """What maps those to unit spheres, and the identity for the other points, [3, 3, C]."""


class _Patch(NamedTuple):
    """The surface over one cell per point, in shares of the cell from 0 to 1:
    ``h + s a + t b + s t c``.
    """

    spacing: Array
    corner: Array
    """x and y of the cells' first corners, [2, C]."""
    height: Array
    along_x: Array
    along_y: Array
    twist: Array
    maps: Array | None = None
    """Distances are those after these maps, [3, 3, C]."""

    def mapped(self, vector: Array) -> Array:
        """Vectors [3, C] after the maps."""
        return vector if self.maps is None else spatial.apply(self.maps, vector)

    def tangents(self, share: Array) -> tuple[Array, Array]:
        """Derivatives of the mapped surface by the shares [2, C], [3, C] each."""
        (dx, dy), (rise_x, rise_y) = self.spacing, self.rises(share)
        zero = jnp.zeros_like(rise_x)
        along_x = jnp.stack([jnp.broadcast_to(dx, zero.shape), zero, rise_x])
        along_y = jnp.stack([zero, jnp.broadcast_to(dy, zero.shape), rise_y])
        return self.mapped(along_x), self.mapped(along_y)

    def apart(self, place: Array, share: Array) -> Array:
        """From the surface at shares [2, C] to points, [3, C]."""
        s, t = share
        height = self.height + s * self.along_x + t * (self.along_y + s * self.twist)
        flat = place[:2] - self.corner - self.spacing[:, None] * share
        return jnp.concatenate([flat, (place[2] - height)[None]])

    def rises(self, share: Array) -> tuple[Array, Array]:
        """How much the surface rises over the whole cell along x and along y, [C] each."""
        s, t = share
        return self.along_x + t * self.twist, self.along_y + s * self.twist

    def stepped(self, place: Array, share: Array, follows_twist: bool = True) -> Array:
        """A Newton step of the shares towards the nearest points of points [3, C].

        Shares on the edge of a cell stay there if the nearest point is beyond. From the nearest
        point, the step has its derivatives. Far from it, a step that does not follow the twist is
        safer.
        """
        along_x, along_y = self.tangents(share)
        apart = self.mapped(self.apart(place, share))
        push_x, push_y = spatial.dot(along_x, apart), spatial.dot(along_y, apart)
        xx, yy = spatial.dot(along_x, along_x), spatial.dot(along_y, along_y)
        xy = spatial.dot(along_x, along_y)
        zero = jnp.zeros_like(self.twist)
        twist = spatial.dot(self.mapped(jnp.stack([zero, zero, self.twist])), apart)
        bent = xy - twist if follows_twist else xy
        # Where the surface is bent more than a sphere about the point, the nearest point is on an
        # edge.
        bent = jnp.where(bent * bent < 0.99 * xx * yy, bent, xy)
        s, t = share
        free_x = ((s > 0) | (push_x > 0)) & ((s < 1) | (push_x < 0))
        free_y = ((t > 0) | (push_y > 0)) & ((t < 1) | (push_y < 0))
        bent = jnp.where(free_x & free_y, bent, 0)
        over = 1 / (xx * yy - bent * bent)
        step_x = jnp.where(free_x, (yy * push_x - bent * push_y) * over, 0)
        step_y = jnp.where(free_y, (xx * push_y - bent * push_x) * over, 0)
        return share + jnp.stack([step_x, step_y])

    def sought(self, place: Array, share: Array) -> Array:
        """Shares near the nearest point within the cell: a step, and others along edges that it has
        reached.
        """
        for _ in range(3):
            share = _within(self.stepped(place, share, follows_twist=False))
        return share

    def refined(self, place: Array, share: Array) -> Array:
        """Shares one full step nearer to the nearest point within the cell, where that step does
        lead nearer.

        Far above a bent cell it may lead anywhere.
        """
        stepped = _within(self.stepped(place, share))
        before, after = (self.mapped(self.apart(place, each)) for each in (share, stepped))
        small = jnp.finfo(place.dtype).eps * self.spacing[0] * self.spacing[1] * self.stretch
        is_nearer = spatial.dot(after, after) <= 1.001 * spatial.dot(before, before) + small
        return jnp.where(is_nearer, stepped, share)

    @property
    def stretch(self) -> Array | float:
        """About how much the maps increase squares of lengths, [C]."""
        return 1.0 if self.maps is None else jnp.sum(self.maps**2, axis=(0, 1)) / 3

    def mapped_normal(self, share: Array) -> Array:
        """Unit normals of the mapped surface at shares [2, C], [3, C]."""
        if self.maps is None:
            return self.normal(share)
        across = spatial.cross(*self.tangents(share))
        return across * jax.lax.rsqrt(spatial.dot(across, across))

    def normal(self, share: Array) -> Array:
        """Unit normals of the surface at shares [2, C], [3, C]."""
        (dx, dy), (rise_x, rise_y) = self.spacing, self.rises(share)
        slope_x, slope_y = rise_x / dx, rise_y / dy
        up = jax.lax.rsqrt(1 + slope_x * slope_x + slope_y * slope_y)
        return jnp.stack([-slope_x * up, -slope_y * up, up])

    def signed_distance(
        self, place: Array, share: Array, is_outside: np.ndarray
    ) -> tuple[Array, Array]:
        """Distances [C] of points [3, C] from those at shares [2, C], and unit vectors from these
        to the points, both mapped. Points that are lower are inside, but not those known to be
        outside (static, [C]).
        """
        dx, dy = self.spacing
        normal = self.mapped_normal(share)
        beside = self.apart(place, share)
        apart = self.mapped(beside)
        gap = spatial.dot(normal, apart)
        # On a ridge or in a valley, the nearest point's own normal is not the direction to the
        # point.
        aside = apart - gap * normal
        least = jnp.finfo(gap.dtype).eps * jnp.minimum(dx, dy) ** 2 * self.stretch
        is_edge = spatial.dot(aside, aside) > least
        square = jnp.where(is_edge, spatial.dot(apart, apart), jnp.ones_like(gap))
        inverse = jax.lax.rsqrt(square)
        inverse = jnp.where((beside[2] < 0) & ~is_outside, -inverse, inverse)
        return jnp.where(is_edge, square * inverse, gap), jnp.where(
            is_edge, apart * inverse, normal
        )


def _cell_below(field: HeightField, place: Array) -> tuple[Array, Array, Array]:
    """The cells [2, C] right below points [3, C], shares near their nearest points there, and that
    there are such cells.
    """
    scaled = place[:2] / field.spacing[:, None]
    cell = jnp.floor(scaled)
    share = field._patch(cell).sought(place, scaled - cell)
    return cell, share, jnp.ones(place.shape[1], bool)


def _sides(
    field: HeightField, place: Array, radius: Array, most: int, maps: Array | None
) -> list[tuple[Array, Array, Array]]:
    """The sides of pits in which spheres are, as of :func:`_nearest_cell`: the nearest of all
    points first, then the others; the same of ellipsoids with maps.
    """
    sides: list[tuple[Array, Array, Array]] = []
    planes: list[tuple[Array, Array]] = []
    for k in range(most):
        cell, share, exists = _nearest_cell(field, place, radius, planes, maps)
        sides.append((cell, share, exists))
        if k + 1 < most:
            is_other = np.full(place.shape[1], k > 0)
            patch = field._patch(cell, maps)
            gap, normal = patch.signed_distance(place, share, is_other)
            planes.append((patch.mapped(place) - gap * normal, normal))
    return sides


def _nearest_cell(
    field: HeightField,
    place: Array,
    radius: Array,
    planes: list[tuple[Array, Array]],
    maps: Array | None,
) -> tuple[Array, Array, Array]:
    """The cells [2, C] nearest to points [3, C], of those within the radius or half a cell whose
    nearest points are above planes, which have points and normals, [3, C]; shares there, and
    whether there are such cells.
    """
    scaled, reach = (
        place[:2] / field.spacing[:, None],
        jnp.maximum(radius / field.spacing[:, None], 0.5),
    )
    first, last = jnp.floor(scaled - reach), jnp.floor(scaled + reach)
    counts = last - first + 1
    # Around a sphere that is larger than the whole field, not all cells are tried.
    rows, columns = field.heights.shape
    number = jnp.minimum(jnp.max(counts[0] * counts[1]), (rows + 1) * (columns + 1))
    small = jnp.finfo(place.dtype).eps ** 0.25  # Its square is left after the next step.

    def goes_on(search: _Search) -> Array:
        moves = (search.tried < number + _ROUNDS) & (jnp.max(search.moved) > small)
        return (search.tried < number) | moves

    def body(search: _Search) -> _Search:
        row = jnp.floor((search.tried + 0.5) / counts[1])
        ahead = jnp.stack([row, search.tried - row * counts[1]])
        following = jnp.minimum(first + ahead, last)
        stays = search.tried >= number
        cell = jnp.where(stays, search.cell, following)
        patch = field._patch(cell, maps)
        start = jnp.where(stays, search.share, _within(scaled - following))
        share = patch.sought(place, start)
        apart = patch.apart(place, share)
        along = patch.mapped(apart)
        square = spatial.dot(along, along)
        is_nearer = ~stays & (square < search.square)
        if planes:
            is_nearer = is_nearer & (spatial.dot(patch.normal(share), apart) > 0)
        for point, normal in planes:
            beside = patch.mapped(place - apart) - point
            length = jnp.sqrt(spatial.dot(beside, beside))
            margin = _ABOVE * (length + jnp.min(field.spacing) * jnp.sqrt(patch.stretch))
            is_nearer = is_nearer & (spatial.dot(beside, normal) > margin)
        # What has not been found by then stays away.
        is_nearer = is_nearer | (stays & jnp.isfinite(search.square))
        return _Search(
            search.tried + 1,
            jnp.where(is_nearer, square, search.square),
            jnp.where(is_nearer, cell, search.cell),
            jnp.where(is_nearer, share, search.share),
            jnp.where(is_nearer, jnp.abs(share - start), search.moved),
        )

    zero = jnp.zeros_like(first)
    start = _Search(jnp.zeros_like(number), jnp.full_like(place[0], jnp.inf), first, zero, zero)
    end = while_loop(goes_on, body, start)
    return end.cell, end.share, jnp.isfinite(end.square)


class _Search(NamedTuple):
    """The nearest of the cells tried so far, and then of its points."""

    tried: Array
    square: Array
    """Squared distances of the points, [C]."""
    cell: Array
    share: Array
    moved: Array
    """How far the last round moved each share, [2, C]."""


def _within(share: Array) -> Array:
    return jnp.clip(share, 0, 1)
