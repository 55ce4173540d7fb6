"""The rows of the table "Pinocchio to artix", and functions that they share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from artix.math import spatial

RESULT, TEMPORARY, INDEX, DEAD, GETTER, TYPE = (
    "result",
    "temporary",
    "static index",
    "dead",
    "function",
    "type",
)
AXES = ("local", "world_aligned", "world")


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table: members of Pinocchio, the artix call that replaces them, and how the
    two are compared.

    ``artix(articulation, state, x)``, where ``x`` is a dictionary of further inputs, is traced into
    one program with all other rows. ``pinocchio(reference)`` computes the same with Pinocchio, in
    artix's conventions. Both may return lists.
    """

    members: str
    kind: str
    call: str
    convention: str = ""
    artix: Callable[[Any, Any, dict], Any] | None = None
    pinocchio: Callable[[Any], Any] | None = None
    check: str = "Pinocchio"
    tolerance: float = 1e-9
    single_tolerance: float = 1e-4

    @property
    def is_compared(self) -> bool:
        """Whether the row has numbers to compare."""
        return self.artix is not None


def moving(articulation, values):
    """Drops the root's entry if the root is fixed, because Pinocchio has no such body."""
    return values[1:] if articulation.topology.fixed_base else values


def transforms(poses):
    """Homogeneous transforms [..., 3, 4] of poses [..., 7], because the sign of a quaternion is
    arbitrary."""
    flat = poses.reshape(-1, 7).T
    rotation = spatial.rotation_matrix(spatial.normalize(flat[3:]))
    return jnp.moveaxis(jnp.concatenate([rotation, flat[:3, None]], axis=1), -1, 0).reshape(
        *poses.shape[:-1], 3, 4
    )


def transform(placement) -> np.ndarray:
    """The homogeneous transform of a Pinocchio placement."""
    return placement.homogeneous[:3]
