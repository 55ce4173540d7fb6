"""The response of velocities to impulses, in coordinates that follow the tree.

The inverse of a mass matrix is dense, but its factors are sparse: an impulse on one leg reaches another leg only
through the root. Sweeps therefore carry coordinates of the change of velocity, in which a row reads and writes only
entries between its link and the root. If hard relations or tendons couple everything, the coordinates are the change of
the generalised velocity itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from artix.math import spatial, struct
from artix.math.arrays import matmul
from artix.simulation.implicit.members import joined, side_by_side

Array = jax.Array


class Response(struct.PyTreeNode):
    """The change of the generalised velocity per generalised impulse: ``left diag(weight) left^T``, or a dense matrix.

    A generalised impulse p changes the coordinates by ``diag(weight) left^T p``, and coordinates y change the velocity
    by ``left y``. With a dense matrix, coordinates are the velocity's change itself.
    """

    left: Array | None
    """[nv, nv]; ``None`` if the matrix is dense."""
    weight: Array
    """[nv]; or the dense matrix, [nv, nv]."""

    @classmethod
    def joined(cls, parts: Sequence[Response]) -> Response:
        """The joint response of several articulations, none of which responds to impulses on another."""
        if len(parts) == 1:
            return parts[0]
        sizes = [len(part.weight) for part in parts]
        if any(part.left is None for part in parts):
            return cls(None, side_by_side([part.matrix for part in parts], sizes))
        left = [part.left for part in parts if part.left is not None]
        return cls(side_by_side(left, sizes), joined([part.weight for part in parts]))

    @property
    def matrix(self) -> Array:
        """The response as a matrix, [nv, nv]."""
        return (
            self.weight
            if self.left is None
            else spatial.symmetric_from_upper(matmul(self.left * self.weight, self.left.T))
        )

    @property
    def diagonal(self) -> Array:
        """Diagonal of the matrix, [nv]."""
        if self.left is None:
            return jnp.diagonal(self.weight)
        return jnp.sum(self.left * (self.left * self.weight), axis=1)

    @property
    def effects(self) -> Array:
        """Changes of the coordinates per unit impulse, [nv, nv]."""
        return self.weight.T if self.left is None else self.left * self.weight

    def reading(self, direction: Array) -> Array:
        """Derivatives by the coordinates of velocities along directions [S, nv], [S, nv]."""
        return direction if self.left is None else matmul(direction, self.left)

    def effect(self, direction: Array) -> Array:
        """Changes of the coordinates per unit impulse along directions [S, nv], [S, nv]."""
        return matmul(direction, self.weight.T) if self.left is None else self.reading(direction) * self.weight

    def velocity(self, coordinates: Array) -> Array:
        """The change of the generalised velocity [nv] for coordinates [nv]."""
        return coordinates if self.left is None else matmul(self.left, coordinates)

    def to(self, impulse: Array) -> Array:
        """The change of the generalised velocity due to a generalised impulse [nv]."""
        return self.velocity(self.effect(impulse[None])[0])
