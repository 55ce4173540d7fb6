"""Pairs of frames that constraints hold together: their links, and the relative motions that are constrained."""

from __future__ import annotations

import dataclasses
import enum
from typing import Literal

import jax
import numpy as np

from artix.math import struct

Array = jax.Array
ConstraintAxes = Literal["local", "world_aligned"]


class AnchorType(enum.Enum):
    """The meaning of an anchor's six rows, three linear, then three angular."""

    POINT = "point"
    """The two origins as material points: velocity and classical acceleration of their separation; no angular rows.

    Pinocchio's ``CONTACT_3D``."""
    WELD = "weld"
    """The relative spatial velocity at the origin of a, and its spatial acceleration. Pinocchio's ``CONTACT_6D``."""
    JOINT = "joint"
    """A loop joint: coordinates of one frame relative to the other, with exact derivatives, so that the free ones may
    move far."""
    DISTANCE = "distance"
    """One row: the distance between the two origins."""


@dataclasses.dataclass(frozen=True)
class AnchorStructure:
    """The static structure of an anchor.

    Attributes:
      link_a: the link of frame a, -1 for the world.
      link_b: the link of frame b, -1 for the world.
      type: the meaning of the rows.
      rows: the constrained rows: numbers 0 .. 5, linear before angular; ``(0,)`` for a distance.
      axes: whether the rows are along the axes of frame a, or of the world.
    """

    link_a: int
    link_b: int
    type: AnchorType
    rows: tuple[int, ...]
    axes: ConstraintAxes = "local"


class Anchors(struct.PyTreeNode):
    """K pairs of frames.

    Attributes:
      structure: the static structure of each.
      pose_a: frames a in their links' frames, or in the world, position and quaternion xyzw, shape [K, 7].
      pose_b: frames b in their links' frames, or in the world, shape [K, 7].
    """

    structure: tuple[AnchorStructure, ...] = struct.field(pytree_node=False)
    pose_a: Array
    pose_b: Array

    @property
    def num_rows(self) -> int:
        """Number of rows of all anchors."""
        return sum(len(anchor.rows) for anchor in self.structure)

    @property
    def row_anchor(self) -> np.ndarray:
        """The anchor that each row belongs to, [R]."""
        return np.repeat(np.arange(len(self.structure)), [len(anchor.rows) for anchor in self.structure])

    @property
    def is_angular(self) -> np.ndarray:
        """Which rows are angular, [R]; the others are linear."""
        return np.array([row >= 3 for anchor in self.structure for row in anchor.rows], bool)

    def has_type(self, kind: AnchorType) -> np.ndarray:
        """Which anchors are of a type, [K]."""
        return np.array([anchor.type is kind for anchor in self.structure])

    @property
    def is_world_aligned(self) -> np.ndarray:
        """Which anchors have rows along the world's axes, [K]."""
        return np.array([anchor.axes == "world_aligned" for anchor in self.structure])

    @property
    def links(self) -> tuple[np.ndarray, np.ndarray]:
        """The links of frames a and of frames b, -1 for the world, [K] each."""
        return np.array([anchor.link_a for anchor in self.structure]), np.array(
            [anchor.link_b for anchor in self.structure]
        )

    @property
    def locked_rotations(self) -> list[tuple[int, ...]]:
        """The rotations 0 .. 2 that each anchor of type ``JOINT`` locks; none for the others."""
        return [
            tuple(row - 3 for row in anchor.rows if row >= 3) if anchor.type is AnchorType.JOINT else ()
            for anchor in self.structure
        ]
