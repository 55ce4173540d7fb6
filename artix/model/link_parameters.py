"""Parameters of single links as passed to a builder, and the arrays made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from artix.model.joints import Joint
from artix.model.validation import number


@dataclasses.dataclass(frozen=True)
class LinkParameters:
    """The description of one link; ``numbers`` has the keys of ``LINK_NUMBERS``."""

    name: str
    parent: int
    joint: Joint
    mass: float
    com_pose: np.ndarray
    inertia: np.ndarray
    numbers: dict[str, float]


#: Scalars of a link that become arrays [L]: argument of ``add_link``, array, lower bound, whether it may be infinite.
LINK_NUMBERS = {
    "gravity_scale": ("gravity_scale", -np.inf, False),
    "linear_damping": ("link_linear_damping", 0.0, False),
    "angular_damping": ("link_angular_damping", 0.0, False),
    "max_linear_velocity": ("max_link_linear_velocity", 0.0, True),
    "max_angular_velocity": ("max_link_angular_velocity", 0.0, True),
    "cfm_scale": ("link_cfm_scale", 0.0, False),
}


def link_number(argument: str, value: float, where: str) -> float:
    """One of ``LINK_NUMBERS``, checked; raises ``ValueError`` if it is out of range."""
    _, low, infinite = LINK_NUMBERS[argument]
    result = number(value, f"{where}: {argument}")
    if not (result >= low and (infinite or np.isfinite(result))):
        rule = "finite" if low < 0 else "not negative (inf for none)" if infinite else "finite and not negative"
        raise ValueError(f"{where}: {argument} must be {rule}; found {result}")
    return result


def link_parameters(links: Sequence[LinkParameters]) -> dict[str, Any]:
    """The per-link arrays of an articulation, as NumPy arrays."""
    parameters = {name: np.array([link.numbers[key] for link in links]) for key, (name, *_) in LINK_NUMBERS.items()}
    return parameters | {
        "link_mass": np.array([link.mass for link in links]),
        "link_com_pose": np.array([link.com_pose for link in links]),
        "link_inertia": np.array([link.inertia for link in links]),
    }
