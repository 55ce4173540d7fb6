"""Mimic joints and loop joints: their descriptions for a builder, their static structure, and their arrays."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import jax
import numpy as np
import numpy.typing as npt

from artix.math import struct
from artix.model.joints import IDENTITY_POSE, Axis
from artix.model.validation import check_fields, unit_pose

Array = jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class MimicJoint:
    """The relation ``q_follower + gear_ratio q_reference + offset = 0``, PhysX's ``PxArticulationMimicJoint``.

    Attributes:
      follower: name of a DOF, or of a joint with one DOF.
      reference: name of the DOF or joint to follow.
      gear_ratio: the negative of the follower's rate divided by the reference's.
      offset: constant term of the relation [rad or m].
      natural_frequency: of a compliant relation [rad/s]; 0 for a hard one.
      damping_ratio: of a compliant relation; 0 for a hard one.

    Raises:
      ValueError: a number is not finite, or negative where it must not be, or the follower is the reference.
    """

    follower: str
    reference: str
    gear_ratio: float
    offset: float = 0.0
    natural_frequency: float = 0.0
    damping_ratio: float = 0.0

    def __post_init__(self) -> None:
        where = f"mimic joint {self.follower!r}"
        check_fields(self, where, finite=("gear_ratio", "offset"), not_negative=("natural_frequency", "damping_ratio"))
        if self.follower == self.reference:
            raise ValueError(f"{where}: a joint cannot follow itself")
        if (self.natural_frequency > 0) != (self.damping_ratio > 0):
            raise ValueError(
                f"{where}: natural_frequency and damping_ratio must both be positive (compliant) or both zero (hard)"
            )


class MimicJoints(struct.PyTreeNode):
    """The numbers of all mimic joints, each array [K]; see :class:`MimicJoint`."""

    gear_ratio: Array
    offset: Array
    natural_frequency: Array
    damping_ratio: Array

    @classmethod
    def of(cls, mimics: Sequence[MimicJoint]) -> MimicJoints:
        """NumPy arrays from the descriptors."""
        numbers = [(m.gear_ratio, m.offset, m.natural_frequency, m.damping_ratio) for m in mimics]
        return cls(*np.array(numbers, float).reshape(-1, 4).T)


class LoopJointType(enum.Enum):
    """Which relative motions of its two frames a loop joint locks.

    Examples:
      >>> print([kind.name for kind in artix.LoopJointType])
      ['FIXED', 'REVOLUTE', 'SPHERICAL', 'PRISMATIC', 'DISTANCE', 'D6']
    """

    FIXED = "fixed"
    REVOLUTE = "revolute"
    """Free to rotate about the x axis of the frames, as PhysX's ``PxRevoluteJoint``."""
    SPHERICAL = "spherical"
    PRISMATIC = "prismatic"
    """Free to slide along the x axis of the frames, as PhysX's ``PxPrismaticJoint``."""
    DISTANCE = "distance"
    """Keeps the distance between the two origins within bounds."""
    D6 = "d6"
    """Locks the axes in ``locked_axes``."""


_ROTATIONS = (Axis.TWIST, Axis.SWING1, Axis.SWING2)
_TRANSLATIONS = (Axis.X, Axis.Y, Axis.Z)
_LOCKED_AXES = {
    LoopJointType.FIXED: (*_ROTATIONS, *_TRANSLATIONS),
    LoopJointType.REVOLUTE: (Axis.SWING1, Axis.SWING2, *_TRANSLATIONS),
    LoopJointType.SPHERICAL: _TRANSLATIONS,
    LoopJointType.PRISMATIC: (*_ROTATIONS, Axis.Y, Axis.Z),
    LoopJointType.DISTANCE: (),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopJoint:
    """A joint that closes a loop: it connects two links of the tree, or a link and the world.

    Attributes:
      name: the joint's name.
      link_a: name of one link; ``None`` for the world.
      link_b: name of the other link.
      pose_a: the joint frame in the frame of ``link_a`` or in the world: position [m], quaternion xyzw, shape [7].
      pose_b: the joint frame in the frame of ``link_b``, shape [7].
      type: which relative motions are locked.
      locked_axes: the locked axes of the frame on ``link_a``; given for ``D6`` only, implied otherwise.
      min_distance: smallest distance between the origins [m], for ``DISTANCE``.
      max_distance: largest distance between the origins [m], for ``DISTANCE``.

    Raises:
      ValueError: a pose or number is malformed, ``locked_axes`` do not suit the type, or both links are the same.

    Examples:
      >>> builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
      >>> tip = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)  # in the frame of the lower rod
      >>> along, kind = [artix.Axis.X], artix.LoopJointType.D6
      >>> rail = artix.LoopJoint(
      ...     name="rail", link_a=None, link_b="lower", pose_b=tip, type=kind, locked_axes=along
      ... )
      >>> builder.add_loop_joint(rail)  # the tip stays below the shoulder
      >>> held = builder.build()
      >>> state = artix.neutral_state(held).replace(joint_velocity=jnp.array([1.0, -2.0]))
      >>> constraints = artix.Constraints.of_loop_joints(held)
      >>> jacobian = artix.constraints.constraint_jacobian(held, state, constraints)
      >>> print(jacobian @ state.joint_velocity)  # so it may move
      [0.]
    """

    name: str
    link_a: str | None
    link_b: str
    pose_a: npt.ArrayLike = IDENTITY_POSE
    pose_b: npt.ArrayLike = IDENTITY_POSE
    type: LoopJointType = LoopJointType.FIXED
    locked_axes: Sequence[Axis] | None = None
    min_distance: float = 0.0
    max_distance: float = np.inf

    def __post_init__(self) -> None:
        where = f"loop joint {self.name!r}"
        object.__setattr__(self, "type", LoopJointType(self.type))
        for field in ("pose_a", "pose_b"):
            object.__setattr__(self, field, unit_pose(getattr(self, field), f"{where}: {field}"))
        check_fields(self, where, not_negative=("min_distance",), bounds=("max_distance",))
        if self.min_distance > self.max_distance:
            raise ValueError(f"{where}: min_distance must not exceed max_distance")
        if self.type is not LoopJointType.DISTANCE and (self.min_distance > 0 or self.max_distance < np.inf):
            raise ValueError(f"{where}: only a joint of type 'distance' has min_distance and max_distance")
        if self.link_a == self.link_b:
            raise ValueError(f"{where}: link_a and link_b must differ; both are {self.link_b!r}")
        if (self.type is LoopJointType.D6) != (self.locked_axes is not None):
            raise ValueError(f"{where}: locked_axes are given for a joint of type 'd6', and only for it")
        axes = _LOCKED_AXES[self.type] if self.locked_axes is None else tuple(Axis(axis) for axis in self.locked_axes)
        if list(axes) != sorted(set(axes)):
            raise ValueError(f"{where}: locked_axes must be in the order of artix.Axis, each once")
        object.__setattr__(self, "locked_axes", axes)


@dataclasses.dataclass(frozen=True)
class LoopJointStructure:
    """The static structure of a loop joint.

    Attributes:
      name: its name.
      type: which relative motions it locks.
      link_a: one link, -1 for the world.
      link_b: the other link.
      locked_axes: the locked axes of the frame on ``link_a``, none for a distance joint.
    """

    name: str
    type: LoopJointType
    link_a: int
    link_b: int
    locked_axes: tuple[Axis, ...]


class LoopJoints(struct.PyTreeNode):
    """The numbers of C loop joints: ``pose_a``, ``pose_b`` [C, 7], ``min_distance``, ``max_distance`` [C]."""

    pose_a: Array
    pose_b: Array
    min_distance: Array
    max_distance: Array

    @classmethod
    def of(cls, joints: Sequence[LoopJoint]) -> LoopJoints:
        """NumPy arrays from the descriptors."""
        poses = [
            np.array([getattr(joint, name) for joint in joints], float).reshape(-1, 7) for name in ("pose_a", "pose_b")
        ]
        distances = [
            np.array([getattr(joint, name) for joint in joints], float) for name in ("min_distance", "max_distance")
        ]
        return cls(*poses, *distances)  # type: ignore[arg-type]
