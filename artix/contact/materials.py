"""Combines the materials of two surfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import device_array
from artix.model.geometry import check_material
from artix.model.validation import number

Array = jax.Array

Combination: TypeAlias = Literal["max", "average", "min", "multiply", "robot", "ground"]
"""Rules that combine coefficients of two surfaces. MuJoCo uses ``max``, PhysX by default
``average``."""

#: Functions of the coefficients of the robot's shapes, [G], and of the ground, [].
COMBINATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "max": jnp.maximum,
    "average": lambda a, b: 0.5 * (a + b),
    "min": jnp.minimum,
    "multiply": lambda a, b: a * b,
    "robot": lambda a, b: a,
    "ground": lambda a, b: jnp.broadcast_to(b, a.shape),
}


#: Those of two shapes, neither of which is the ground, of known numbers. Of two materials of PhysX
#: that name different ones, the later one here holds (``PxCombineMode``).
COMBINATIONS_OF_SHAPES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "average": lambda a, b: 0.5 * (a + b),
    "min": np.minimum,
    "multiply": np.multiply,
    "max": np.maximum,
}


def check_combination(name: str, value: str, choices: Iterable[str] = tuple(COMBINATIONS)) -> None:
    """Raises ``ValueError``, which lists the valid names, unless ``value`` is one of them."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; found {value!r}")


class Softness(NamedTuple):
    """Compliance of a surface: penetration per force [m/N], 0 for a rigid one, and its relaxation
    time [s].
    """

    compliance: Array
    relaxation_time: Array

    @classmethod
    def of(cls, stiffness: Array, damping: Array) -> Softness:
        """From a stiffness [N/m], ``inf`` for a rigid surface, and a damping [N s/m]."""
        soft = stiffness != jnp.inf  # What is NaN is not rigid.
        compliance = jnp.where(
            soft,
            1 / jnp.where(soft, stiffness, jnp.ones_like(stiffness)),
            jnp.zeros_like(stiffness),
        )
        return cls(compliance, damping * compliance)

    def __add__(self, other: object) -> Softness:
        """The softness of two surfaces in contact: springs in series, relaxation times added.

        Castro et al., *An Unconstrained Convex Formulation of Compliant Contact*, IEEE T-RO 2022.
        """
        assert isinstance(other, Softness)
        return Softness(
            self.compliance + other.compliance, self.relaxation_time + other.relaxation_time
        )


#: Valid values that replace traced numbers during the checks.
_HARMLESS = {"friction": 0.0, "restitution": 0.0, "stiffness": 1.0, "damping": 0.0}


def surface_arrays(where: str, dtype: Any, **numbers: Any) -> dict[str, Array]:
    """Friction, restitution, stiffness and damping of a surface as arrays [].

    Args:
      where: name of the surface in error messages.
      dtype: dtype of the arrays.
      **numbers: the four numbers; traced ones are not checked.

    Raises:
      ValueError: a number is out of range.
    """
    known = {
        name: _HARMLESS[name]
        if isinstance(value, jax.core.Tracer)
        else number(value, f"{where}: {name}")
        for name, value in numbers.items()
    }
    check_material(SimpleNamespace(**known), where)
    return {name: device_array(value, dtype) for name, value in numbers.items()}
