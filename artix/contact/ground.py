"""The ground: planes, height fields, and several of them together."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax

from artix.contact.height_field import HeightField
from artix.contact.materials import Combination, check_combination
from artix.contact.plane import Plane
from artix.math import struct
from artix.model.checks import check_type

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
        """The ground with every array converted to ``dtype``."""
        return jax.tree.map(lambda leaf: leaf.astype(dtype), self)


def check_ground(ground: Any) -> None:
    """Raises ``TypeError`` for what is no ground, and says how to make one of a bare surface."""
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
