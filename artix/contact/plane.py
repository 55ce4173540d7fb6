"""Planes, solid on one side."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.contact.materials import surface_arrays
from artix.math import spatial, struct
from artix.math.arrays import check_floating, device_array, one_array
from artix.model.validation import finite_array

Array = jax.Array


class Plane(struct.PyTreeNode):
    """A half space: all points ``x`` with ``normal . x <= height`` are solid.

    Attributes:
      normal: unit vector out of the solid, in world axes, [3].
      height: distance of the plane from the world's origin along the normal [m], [].
      friction: coefficient of friction, [].
      restitution: ratio of the normal speeds after and before an impact, [].
      stiffness: normal force per penetration of each candidate [N/m], [], ``inf`` for rigid.
      damping: normal force per penetration speed [N s/m], [].

    Examples:
      >>> slope = artix.Plane.of(normal=(0.0, 0.6, 0.8), point=(0.0, 0.0, 1.0), friction=0.5)
      >>> print(slope.normal, slope.height)
      [0.  0.6 0.8] 0.8
    """

    normal: Array
    height: Array
    friction: Array
    restitution: Array
    stiffness: Array
    damping: Array

    @classmethod
    def of(
        cls,
        *,
        normal: npt.ArrayLike = (0.0, 0.0, 1.0),
        point: npt.ArrayLike = (0.0, 0.0, 0.0),
        friction: float | Array = 1.0,
        restitution: float | Array = 0.0,
        stiffness: float | Array = np.inf,
        damping: float | Array = 0.0,
        dtype: Any = None,
    ) -> Plane:
        """Makes a plane through a point. Numbers may be traced; traced ones are not checked.

        Args:
          normal: vector out of the solid, of any nonzero length, in world axes, [3].
          point: a point of the plane [m], [3].
          friction: coefficient of friction.
          restitution: ratio of the normal speeds after and before an impact, between 0 and 1.
          stiffness: normal force per penetration of each candidate [N/m], ``inf`` for rigid.
          damping: normal force per penetration speed [N s/m].
          dtype: floating-point type of the arrays; JAX's default when ``None``.

        Raises:
          ValueError: the normal is zero, a number is out of range, or a shape is wrong.
          TypeError: ``dtype`` is not a floating-point type.
        """
        dtype = jnp.result_type(float) if dtype is None else dtype
        check_floating(dtype)
        normal, point = one_array(normal), one_array(point)
        if not isinstance(normal, jax.core.Tracer):
            direction = finite_array(normal, (3,), "plane: normal")
            if not np.any(direction):
                raise ValueError("plane: the normal must not be zero")
            # Squares of very large and very small numbers overflow.
            normal = np.asarray(direction / np.max(np.abs(direction)))
        if not isinstance(point, jax.core.Tracer):
            point = finite_array(point, (3,), "plane: point")
        xp: Any = np  # What is known is computed without JAX, which would compile each operation.
        if isinstance(normal, jax.core.Tracer) or isinstance(point, jax.core.Tracer):
            xp, normal, point = jnp, device_array(normal, dtype), device_array(point, dtype)
        unit = normal / xp.sqrt(xp.sum(normal * normal))
        material = surface_arrays(
            "plane",
            dtype,
            friction=friction,
            restitution=restitution,
            stiffness=stiffness,
            damping=damping,
        )
        return cls(device_array(unit, dtype), device_array(xp.sum(unit * point), dtype), **material)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the arrays of one plane, without its material."""
        return {"normal": (3,), "height": ()}

    def distances(
        self,
        reference: Array,
        position: Array,
        radius: Array | None = None,
        sides: np.ndarray | None = None,
        ellipsoids: Any = None,
    ) -> tuple[Array, Array]:
        """Signed distances [C] of the points ``reference`` [3] + ``position`` [3, C], and normals
        there, [3, C].

        Height fields need to know the ``radius`` of the spheres around the points, on how many
        ``sides`` they may lie, and which points are the centres of ``ellipsoids``; a plane, towards
        which ellipsoids have their lowest points, does not.
        """
        normal = jnp.broadcast_to(self.normal[:, None], position.shape)
        gap = spatial.dot(normal, position) + (spatial.dot(self.normal, reference) - self.height)
        return gap, normal

    def heights_below(self, reference: Array, position: Array) -> Array:
        """How far the points ``reference`` [3] + ``position`` [3, C] are above the plane right
        below them, [C].
        """
        gap, normal = self.distances(reference, position)
        return gap / jnp.maximum(normal[2], 1e-3)
