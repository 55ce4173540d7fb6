"""The ground: planes, and several surfaces together, which may be height fields."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.contact.height_field import HeightField
from artix.contact.materials import Combination, check_combination, surface_arrays
from artix.math import spatial, struct
from artix.math.arrays import (
    check_finite,
    check_floating,
    device_array,
    known_values,
    one_array,
)
from artix.model.checks import check_type
from artix.model.geometry import check_known_material
from artix.model.validation import finite_array

Array = jax.Array

#: How far the length of a plane's normal may be from one.
_NORMAL_TOLERANCE = 1e-3


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
          TypeError: ``dtype`` is neither float32 nor, in JAX's x64 mode, float64.
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


Surface: TypeAlias = "Plane | HeightField"


class Ground(struct.PyTreeNode):
    """The ground: fixed surfaces that robots may touch, and rules that combine the coefficients of
    two surfaces.

    Surfaces are independent, so a foot in the corner of two planes has contacts with both. Every
    number is an array that can be replaced, batched (a ground for each robot) and differentiated.

    Attributes:
      surfaces: planes and height fields.
      friction_combination: how to combine the friction of two surfaces: ``max`` as in MuJoCo (the
        default), ``average`` as in PhysX, ``min``, ``multiply``, or only the coefficient of the
        ``robot`` or the ``ground``.
      restitution_combination: the same for restitution.

    Raises:
      ValueError: there is no such way to combine two surfaces.

    Examples:
      >>> level = artix.Ground.flat(friction=0.8)
      >>> slope = artix.Ground(surfaces=(artix.Plane.of(normal=(0.3, 0.0, 1.0)),))
      >>> terrain = artix.HeightField.of(
      ...     jnp.zeros((20, 20)), spacing=(0.1, 0.1), origin=(-1.0, -1.0, 0.0)
      ... )
      >>> both = artix.Ground(
      ...     surfaces=(terrain, artix.Plane.of(normal=(1.0, 0.0, 0.0), point=(-1.0, 0.0, 0.0)))
      ... )
      >>> print(len(level.surfaces), len(both.surfaces), both.friction_combination)
      1 2 max
    """

    surfaces: tuple[Surface, ...]
    friction_combination: Combination = struct.field(pytree_node=False, default="max")
    restitution_combination: Combination = struct.field(pytree_node=False, default="max")

    @classmethod
    def flat(cls, height: float = 0.0, **options: Any) -> Ground:
        """Level ground at this height [m]; ``options`` are those of :meth:`Plane.of`."""
        return cls(surfaces=(Plane.of(point=(0.0, 0.0, height), **options),))

    def __post_init__(self) -> None:
        for name in ("friction_combination", "restitution_combination"):
            check_combination(name, getattr(self, name))

    def astype(self, dtype: Any) -> Ground:
        """The ground with every array in ``dtype``, as :meth:`artix.Articulation.astype`.

        Raises:
          TypeError: ``dtype`` is neither float32 nor, in JAX's x64 mode, float64.
        """
        check_floating(dtype)
        return jax.tree.map(lambda leaf: leaf.astype(dtype), self)


def check_ground(ground: Any) -> None:
    """Raises ``TypeError`` for what is no ground, and says how to make one of a bare surface;
    ``ValueError`` for known numbers that are out of range.
    """
    if isinstance(ground, Plane | HeightField):
        kind = type(ground).__name__
        raise TypeError(
            f"ground: expected artix.Ground, found {kind}; make one of it with "
            "artix.Ground((surface,))"
        )
    check_type("ground", ground, Ground)
    if not isinstance(ground.surfaces, tuple | list):
        kind = type(ground.surfaces).__name__
        raise TypeError(
            f"ground.surfaces: expected a tuple of surfaces, found {kind}; write "
            "artix.Ground((surface,))"
        )
    for k, surface in enumerate(ground.surfaces):
        if not isinstance(surface, Plane | HeightField):
            kind = type(surface).__name__
            raise TypeError(
                f"ground.surfaces[{k}]: expected artix.Plane or artix.HeightField, found {kind}"
            )
    memory = ground.__dict__
    if memory.get("_has_numbers"):  # Steps take microseconds.
        return
    for k, surface in enumerate(ground.surfaces):
        check_known_material(f"ground.surfaces[{k}]", surface)
        if isinstance(surface, Plane):
            _check_known_plane(f"ground.surfaces[{k}]", surface)
    memory["_has_numbers"] = True


def _check_known_plane(where: str, plane: Plane) -> None:
    check_finite(f"{where}.height", plane.height)
    normal = known_values(plane.normal)
    if normal is not None and not np.all(
        np.abs(np.linalg.norm(normal, axis=-1) - 1) < _NORMAL_TOLERANCE
    ):
        raise ValueError(
            f"{where}.normal: expected a vector of length 1; found {normal}; "
            "artix.Plane.of(normal=...) takes any length"
        )
