"""Height fields: terrain as heights on a regular grid."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.contact.materials import surface_arrays
from artix.math import struct
from artix.math.arrays import device_array, one_array
from artix.model.validation import finite_array

Array = jax.Array


class HeightField(struct.PyTreeNode):
    """Terrain whose height is interpolated bilinearly between grid points, and constant beyond the edges.

    Attributes:
      heights: heights above ``origin``, ``heights[i, j]`` at ``x = origin[0] + i spacing[0]`` and ``y = origin[1] + j
        spacing[1]`` [m], [R, C].
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
      >>> high = artix.neutral_state(robot).replace(root_pose=jnp.array([1.0, 0.5, 0.6, 0.0, 0.0, 0.0, 1.0]))
      >>> front, _, rear, _ = artix.geometry_distances(artix.Scene(robot, ground=artix.Ground((terrain,))), high)
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
          ValueError: a height is NaN or infinite (the message says where), the grid has no cell, the spacing is not
            positive, or a number is out of range.
        """
        dtype = jnp.result_type(float) if dtype is None else dtype
        heights, spacing, origin = one_array(heights), one_array(spacing), one_array(origin)
        shape = np.shape(heights)
        if len(shape) != 2 or min(shape) < 2:
            raise ValueError(f"height field: heights must have shape [R, C] with R and C at least 2; found {shape}")
        if not isinstance(heights, jax.core.Tracer):
            wrong = np.argwhere(~np.isfinite(np.asarray(heights)))
            if len(wrong):
                raise ValueError(
                    f"height field: every height must be finite; {len(wrong)} are not, the first at "
                    f"{tuple(wrong[0].tolist())}; fill gaps of a scan first"
                )
        if not isinstance(spacing, jax.core.Tracer):
            spacing = finite_array(spacing, (2,), "height field: spacing")
            if not np.all(spacing > 0.0):
                raise ValueError(f"height field: the spacing must be positive [m]; found {spacing.tolist()}")
        if not isinstance(origin, jax.core.Tracer):
            origin = finite_array(origin, (3,), "height field: origin")
        material = surface_arrays(
            "height field", dtype, friction=friction, restitution=restitution, stiffness=stiffness, damping=damping
        )
        return cls(*(device_array(array, dtype) for array in (heights, origin, spacing)), **material)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the arrays of one field, without its material."""
        return {"heights": self.heights.shape[-2:], "origin": (3,), "spacing": (2,)}

    def distances(self, reference: Array, position: Array) -> tuple[Array, Array]:
        """Distances [C] of the points ``reference`` [3] + ``position`` [3, C], and normals below them, [3, C].

        The distance is measured to the tangent plane of the surface right below the point. It is exact on level ground
        and slopes; elsewhere it neglects the curvature between that place and the nearest point.
        """
        x, y, z = (reference - self.origin)[:, None] + position
        height, along_x, along_y = self._sample(x, y)
        up = jax.lax.rsqrt(1 + along_x * along_x + along_y * along_y)
        return (z - height) * up, jnp.stack([-along_x * up, -along_y * up, up])

    def _sample(self, x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Heights and slopes along x and y, each [C], at points relative to the origin."""
        rows, columns = self.heights.shape
        i, s, inside_x = _cells(x / self.spacing[0], rows)
        j, t, inside_y = _cells(y / self.spacing[1], columns)
        h00, h01, h10, h11 = _corners(self.heights, i, j)
        near, far = h00 + t * (h01 - h00), h10 + t * (h11 - h10)
        left, right = h00 + s * (h10 - h00), h01 + s * (h11 - h01)
        level = jnp.zeros_like(near)
        along_x = jnp.where(inside_x, far - near, level) / self.spacing[0]
        along_y = jnp.where(inside_y, right - left, level) / self.spacing[1]
        return near + s * (far - near), along_x, along_y


def _cells(place: Array, count: int) -> tuple[Array, Array, Array]:
    """The cell of each place along an axis of ``count`` points, the place in it (0 to 1), and whether it is inside."""
    inside = (place >= 0) & (place <= count - 1)
    kept = jnp.clip(place, 0, count - 1)
    cell = jnp.minimum(jnp.floor(jax.lax.stop_gradient(kept)), count - 2)
    return cell, kept - cell, inside


def _corners(heights: Array, i: Array, j: Array) -> Array:
    """The heights at the four corners of cells (i, j), [4, C]."""
    _, columns = heights.shape
    first = i.astype(jnp.int32) * columns + j.astype(jnp.int32)
    corners = first[None] + jnp.array([[0], [1], [columns], [columns + 1]], jnp.int32)
    return heights.reshape(-1).at[corners].get(mode="promise_in_bounds", wrap_negative_indices=False)
