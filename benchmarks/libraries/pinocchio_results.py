"""Pinocchio's coordinates and the conversion of its results, for both languages."""

from __future__ import annotations

import numpy as np
import pinocchio

from benchmarks.libraries.base import moved_to_centers
from benchmarks.reference import JUDGED_STATES, Reference, States

#: Of these, Pinocchio generates code.
DYNAMICS = (
    "mass matrix",
    "bias force",
    "inverse dynamics",
    "forward dynamics",
    "inverse dynamics derivatives",
    "forward dynamics derivatives",
)
QUANTITIES = ("link poses", "poses and velocities", "dense Jacobian", *DYNAMICS)

#: Of robots with feet.
CONSTRAINED = ("constrained forward dynamics", "constrained forward dynamics derivatives")


class PinocchioResults:
    """Holds the states in Pinocchio's arrays.

    Attributes:
      q, v, acceleration, force: one row per state; the force on the root is zero.
    """

    version = pinocchio.__version__

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.quantities = (*QUANTITIES, *(CONSTRAINED if reference.feet else ()))

    def hold(self, states: States) -> None:
        """Sets the states of all later programs."""
        count = len(states.q)
        self.q = np.stack([self.reference.configuration(states, k) for k in range(count)])
        self.v = np.stack([self.reference.velocity(states, k) for k in range(count)])
        self.acceleration = states.acceleration
        self.force = states.acceleration.copy()
        self.force[:, : self.reference.base] = 0

    def coordinates(
        self, rotation: np.ndarray, twist: np.ndarray, center: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return np.eye(6), np.zeros(6)

    def convert(self, quantity: str, value: np.ndarray) -> np.ndarray:
        """Converts numbers [N, width] in the layout of ``pinocchio_batch.cpp`` to the shapes of the
        reference."""
        reference, count = self.reference, len(value)
        nv, base = reference.model.nv, reference.base
        first = reference.first - 1  # the root's joint is not judged
        if quantity == "mass matrix":
            upper = np.triu(value.reshape(count, nv, nv).swapaxes(1, 2))
            return upper + np.triu(upper, 1).swapaxes(1, 2)
        if quantity.endswith("dynamics derivatives"):
            by = value.reshape(count, 2, nv, nv)[:, :, base:, base:]  # derivative, column, row
            return by.transpose(0, 3, 1, 2)
        if quantity == "dense Jacobian":
            jacobians = value.reshape(count, -1, nv, 6).swapaxes(2, 3)[:, first:]
            return moved_to_centers(jacobians, self._rotations(count), reference.levers)
        if quantity in ("link poses", "poses and velocities"):
            rows = value.reshape(count, reference.model.njoints - 1, -1)[:, first:]
            rotation = rows[..., 3:12].reshape(*rows.shape[:2], 3, 3).swapaxes(2, 3)
            if quantity == "link poses":
                return np.concatenate([rows[..., :3, None], rotation], axis=-1)
            twist = np.concatenate(
                [rotation @ rows[..., 12:15, None], rotation @ rows[..., 15:18, None]], axis=2
            )
            return moved_to_centers(twist, rotation, reference.levers)[..., 0]
        return value

    def _rotations(self, count: int) -> np.ndarray:
        model, data = self.reference.model, self.reference.data
        found = []
        for q in self.q[: min(count, JUDGED_STATES)]:
            pinocchio.forwardKinematics(model, data, q)
            found.append(
                [
                    data.oMi[joint].rotation.copy()
                    for joint in range(self.reference.first, model.njoints)
                ]
            )
        return np.array(found)
