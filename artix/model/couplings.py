"""Mimic joints, loop joints and tendons: their descriptions for a builder, their static structure,
and their arrays.

A *fixed tendon* (PhysX's ``PxArticulationFixedTendon``) couples joint positions; its length is a
weighted sum of them. A *spatial tendon* (``PxArticulationSpatialTendon``) is a tree of line
segments between points on links.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import jax
import numpy as np
import numpy.typing as npt

from artix.math import struct
from artix.model.joints import IDENTITY_POSE, ROTATIONS, TRANSLATIONS, Axis
from artix.model.validation import check_fields, finite_array, interval, unit_pose

Array = jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class MimicJoint:
    """The relation ``q_follower + gear_ratio q_reference + offset = 0``, PhysX's
    ``PxArticulationMimicJoint``.

    Attributes:
      follower: name of a DOF, or of a joint with one DOF.
      reference: name of the DOF or joint to follow.
      gear_ratio: the negative of the follower's rate divided by the reference's.
      offset: constant term of the relation [rad or m].
      natural_frequency: of a compliant relation [rad/s]; 0 for a hard one.
      damping_ratio: of a compliant relation; 0 for a hard one.

    Raises:
      ValueError: a number is not finite, or negative where it must not be, or the follower is the
        reference.
    """

    follower: str
    reference: str
    gear_ratio: float
    offset: float = 0.0
    natural_frequency: float = 0.0
    damping_ratio: float = 0.0

    def __post_init__(self) -> None:
        where = f"mimic joint {self.follower!r}"
        check_fields(
            self,
            where,
            finite=("gear_ratio", "offset"),
            not_negative=("natural_frequency", "damping_ratio"),
        )
        if self.follower == self.reference:
            raise ValueError(f"{where}: a joint cannot follow itself")
        if (self.natural_frequency > 0) != (self.damping_ratio > 0):
            raise ValueError(
                f"{where}: natural_frequency and damping_ratio must both be positive (compliant) "
                "or both zero (hard)"
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


_LOCKED_AXES = {
    LoopJointType.FIXED: (*ROTATIONS, *TRANSLATIONS),
    LoopJointType.REVOLUTE: (Axis.SWING1, Axis.SWING2, *TRANSLATIONS),
    LoopJointType.SPHERICAL: TRANSLATIONS,
    LoopJointType.PRISMATIC: (*ROTATIONS, Axis.Y, Axis.Z),
    LoopJointType.DISTANCE: (),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopJoint:
    """A joint that closes a loop: it connects two links of the tree, or a link and the world.

    Attributes:
      name: the joint's name.
      link_a: name of one link; ``None`` for the world.
      link_b: name of the other link.
      pose_a: the joint frame in the frame of ``link_a`` or in the world: position [m], quaternion
        xyzw, shape [7].
      pose_b: the joint frame in the frame of ``link_b``, shape [7].
      type: which relative motions are locked.
      locked_axes: the locked axes of the frame on ``link_a``; given for ``D6`` only, implied
        otherwise.
      min_distance: smallest distance between the origins [m], for ``DISTANCE``.
      max_distance: largest distance between the origins [m], for ``DISTANCE``.

    Raises:
      ValueError: a pose or number is malformed, ``locked_axes`` do not suit the type, or both links
        are the same.

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
        if self.type is not LoopJointType.DISTANCE and (
            self.min_distance > 0 or self.max_distance < np.inf
        ):
            raise ValueError(
                f"{where}: only a joint of type 'distance' has min_distance and max_distance"
            )
        if self.link_a == self.link_b:
            raise ValueError(f"{where}: link_a and link_b must differ; both are {self.link_b!r}")
        if (self.type is LoopJointType.D6) != (self.locked_axes is not None):
            raise ValueError(
                f"{where}: locked_axes are given for a joint of type 'd6', and only for it"
            )
        axes = (
            _LOCKED_AXES[self.type]
            if self.locked_axes is None
            else tuple(Axis(axis) for axis in self.locked_axes)
        )
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
    """The numbers of C loop joints: ``pose_a``, ``pose_b`` [C, 7], ``min_distance``,
    ``max_distance`` [C].
    """

    pose_a: Array
    pose_b: Array
    min_distance: Array
    max_distance: Array

    @classmethod
    def of(cls, joints: Sequence[LoopJoint]) -> LoopJoints:
        """NumPy arrays from the descriptors."""
        poses = [
            np.array([getattr(joint, name) for joint in joints], float).reshape(-1, 7)
            for name in ("pose_a", "pose_b")
        ]
        distances = [
            np.array([getattr(joint, name) for joint in joints], float)
            for name in ("min_distance", "max_distance")
        ]
        return cls(*poses, *distances)  # type: ignore[arg-type]


# --- tendons ------------------------------------------------------------------------------------


_TENDON_GAINS = ("stiffness", "damping", "limit_stiffness")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TendonJoint:
    """One joint axis on a fixed tendon, PhysX's ``PxArticulationTendonJoint``.

    Attributes:
      dof: name of the DOF, or of a joint with one DOF.
      coefficient: change of the tendon's length per joint position, [m/rad] for a rotation, [1] for
        a translation.
      recip_coefficient: joint effort per share of the tendon's force (see :class:`FixedTendon`);
        equal to ``coefficient`` if the forces are to conserve energy.
      parent: index, in the tendon's list, of the tendon joint on the parent link; -1 for those next
        to the root link.

    Raises:
      ValueError: a coefficient is not finite.

    Examples:
      >>> # a pulley of 2 cm
      >>> joint = artix.TendonJoint(dof="elbow", coefficient=0.02, recip_coefficient=0.02)
      >>> print(joint.parent)  # next to the root link
      -1
    """

    dof: str
    coefficient: float
    recip_coefficient: float
    parent: int = -1

    def __post_init__(self) -> None:
        check_fields(
            self, f"tendon joint on {self.dof!r}", finite=("coefficient", "recip_coefficient")
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedTendon:
    """A tendon of length ``l = offset + sum_i coefficient_i q_i``, PhysX's
    ``PxArticulationFixedTendon``.

    As in PhysX, its K joints share the tension: the effort at joint i is
    ``recip_coefficient_i / K`` times ``-stiffness (l - rest_length) - damping l' -
    limit_stiffness excess``. For a tendon that pulls at each joint with the whole tension, as
    MuJoCo's, multiply the three gains by K.

    Attributes:
      name: the tendon's name.
      joints: its joints, a tree that follows the links, parents first. One with coefficients of
        zero counts among the K.
      stiffness: spring towards ``rest_length`` [N/m].
      damping: damper of the length [N s/m].
      limit_stiffness: spring that pulls the length back into ``limits`` [N/m].
      offset: added to the length [m].
      rest_length: length at which the spring exerts no force [m].
      limits: (lower, upper) length [m]; ``None`` is unlimited.
      root_link: name of the link that takes the reaction; ``None`` for the parent link of the first
        joints.

    Raises:
      ValueError: a gain is negative, a number is not finite, or the joints do not list parents
        first.

    Examples:
      >>> shoulder = artix.TendonJoint(dof="shoulder", coefficient=1.0, recip_coefficient=1.0)
      >>> elbow = artix.TendonJoint(dof="elbow", coefficient=-0.5, recip_coefficient=-0.5, parent=0)
      >>> belt = artix.FixedTendon(name="belt", joints=[shoulder, elbow], stiffness=100.0)
      >>> builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
      >>> builder.add_fixed_tendon(belt)
      >>> print(builder.build().topology.fixed_tendons[0].name)
      belt
    """

    name: str
    joints: Sequence[TendonJoint]
    stiffness: float = 0.0
    damping: float = 0.0
    limit_stiffness: float = 0.0
    offset: float = 0.0
    rest_length: float = 0.0
    limits: tuple[float, float] | None = None
    root_link: str | None = None

    def __post_init__(self) -> None:
        where = f"fixed tendon {self.name!r}"
        check_fields(self, where, not_negative=_TENDON_GAINS, finite=("offset", "rest_length"))
        interval(self.limits, where)
        object.__setattr__(self, "joints", tuple(self.joints))
        if not self.joints:
            raise ValueError(f"{where}: it has no joint; give at least one TendonJoint")
        for index, joint in enumerate(self.joints):
            if not -1 <= joint.parent < index:
                raise ValueError(
                    f"{where}: parent {joint.parent} of joint {index} must be -1 or the index of "
                    "a joint before it"
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attachment:
    """A point on a link through which a spatial tendon runs, PhysX's ``PxArticulationAttachment``.

    Attributes:
      link: name of the link.
      position: the point in the link's frame [m], shape [3].
      parent: index, in the tendon's list, of the parent attachment; -1 for the first, the tendon's
        root.
      coefficient: factor on the length of the segment to the parent; for the root, on the tendon's
        offset.
      rest_length: for a leaf, the length of the path from the root at which it exerts no force [m];
        else ``None``.
      limits: for a leaf, (lower, upper) length of that path [m]; ``None`` is unlimited.
      name: the attachment's name.

    Raises:
      ValueError: a number is not finite, or the limits are out of order.

    Examples:
      >>> above = artix.Attachment(link="upper", position=(0.1, 0.0, -0.8))
      >>> below = artix.Attachment(
      ...     link="lower", position=(0.1, 0.0, -0.2), parent=0, rest_length=0.3
      ... )
      >>> print(above.parent, below.parent)  # the tendon begins at the first
      -1 0
    """

    link: str
    position: npt.ArrayLike
    parent: int = -1
    coefficient: float = 1.0
    rest_length: float | None = None
    limits: tuple[float, float] | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        where = f"attachment on link {self.link!r}"
        object.__setattr__(
            self,
            "position",
            tuple(finite_array(self.position, (3,), f"{where}: position").tolist()),
        )
        check_fields(
            self,
            where,
            finite=("coefficient",) if self.rest_length is None else ("coefficient", "rest_length"),
        )
        interval(self.limits, where)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpatialTendon:
    """A tree of segments between points on links, pulling at its root and its leaves.

    Every path from the root to a leaf has the length
    ``offset coefficient_root + sum coefficient_i |segment_i|``. PhysX's
    ``PxArticulationSpatialTendon``.

    Attributes:
      name: the tendon's name.
      attachments: its points, parents first; the first is the root, those without children are the
        leaves.
      stiffness: spring towards each leaf's ``rest_length`` [N/m].
      damping: damper of the paths' lengths [N s/m].
      limit_stiffness: spring that pulls the lengths back into the leaves' limits [N/m].
      offset: added to the length of every path [m].

    Raises:
      ValueError: a gain is negative, a number is not finite, the attachments are not a tree with
        parents first, a leaf has no rest length, or another attachment has one, or limits.

    Examples:
      >>> above = artix.Attachment(link="upper", position=(0.1, 0.0, -0.8))
      >>> below = artix.Attachment(
      ...     link="lower", position=(0.1, 0.0, -0.2), parent=0, rest_length=0.3
      ... )
      >>> builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
      >>> muscle = artix.SpatialTendon(name="muscle", attachments=[above, below], stiffness=500.0)
      >>> builder.add_spatial_tendon(muscle)
      >>> pendulum = builder.build()
      >>> rates = artix.vector_field(0.0, artix.neutral_state(pendulum), (pendulum, None))
      >>> print(rates.joint_velocity[1] < 0)  # 0.1 m too long, it bends the elbow
      True
    """

    name: str
    attachments: Sequence[Attachment]
    stiffness: float = 0.0
    damping: float = 0.0
    limit_stiffness: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        where = f"spatial tendon {self.name!r}"
        check_fields(self, where, not_negative=_TENDON_GAINS, finite=("offset",))
        object.__setattr__(self, "attachments", tuple(self.attachments))
        if len(self.attachments) < 2:
            raise ValueError(
                f"{where}: it needs a root and at least one leaf; found {len(self.attachments)} "
                "attachments"
            )
        parents = [attachment.parent for attachment in self.attachments]
        places = [
            f"{where}: attachment {k} on link {point.link!r}"
            for k, point in enumerate(self.attachments)
        ]
        for index, (place, parent) in enumerate(zip(places, parents, strict=True)):
            if (parent < 0) != (index == 0) or not -1 <= parent < index:
                raise ValueError(
                    f"{place}: parent {parent} must be -1 for the root, which comes first, and "
                    "the index of one before it for every other"
                )
        for index, (place, point) in enumerate(zip(places, self.attachments, strict=True)):
            if index in parents and (point.rest_length is not None or point.limits is not None):
                raise ValueError(
                    f"{place}: only leaves have a rest_length and limits; this one has children"
                )
            if index not in parents and point.rest_length is None:
                raise ValueError(f"{place}: a leaf needs a rest_length [m]")


@dataclasses.dataclass(frozen=True)
class FixedTendonStructure:
    """The static structure of a fixed tendon.

    Attributes:
      name: its name.
      root_link: the link that takes the reaction.
      dofs: the DOF of each tendon joint.
      parents: the parent of each tendon joint, -1 for those next to the root link.
    """

    name: str
    root_link: int
    dofs: tuple[int, ...]
    parents: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class SpatialTendonStructure:
    """The static structure of a spatial tendon.

    Attributes:
      name: its name.
      links: the link of each attachment.
      parents: the parent of each attachment, -1 for the root, which comes first.
      attachment_names: the attachments' names; ``None`` for those without a name.
    """

    name: str
    links: tuple[int, ...]
    parents: tuple[int, ...]
    attachment_names: tuple[str | None, ...]

    @property
    def leaves(self) -> tuple[int, ...]:
        """The attachments without children."""
        return tuple(index for index in range(len(self.parents)) if index not in self.parents)

    def path(self, attachment: int) -> tuple[int, ...]:
        """The attachments from this one up to the root, excluding the root."""
        above = []
        while attachment > 0:
            above.append(attachment)
            attachment = self.parents[attachment]
        return tuple(above)


class FixedTendons(struct.PyTreeNode):
    """The numbers of T fixed tendons with J tendon joints in all, tendon after tendon; see
    :class:`FixedTendon`.

    ``coefficient`` and ``recip_coefficient`` have shape [J], all others [T]; missing limits are
    infinite.
    """

    stiffness: Array
    damping: Array
    limit_stiffness: Array
    offset: Array
    rest_length: Array
    lower_limit: Array
    upper_limit: Array
    coefficient: Array
    recip_coefficient: Array

    @classmethod
    def of(cls, tendons: Sequence[FixedTendon]) -> FixedTendons:
        """NumPy arrays from the descriptors."""
        limits = np.array(
            [interval(tendon.limits, tendon.name) for tendon in tendons], float
        ).reshape(-1, 2)
        joints = [joint for tendon in tendons for joint in tendon.joints]
        return cls(
            **{name: _column(tendons, name) for name in (*_TENDON_GAINS, "offset", "rest_length")},
            lower_limit=limits[:, 0],  # type: ignore[arg-type]
            upper_limit=limits[:, 1],  # type: ignore[arg-type]
            coefficient=_column(joints, "coefficient"),
            recip_coefficient=_column(joints, "recip_coefficient"),
        )


class SpatialTendons(struct.PyTreeNode):
    """The numbers of T spatial tendons with A attachments in all, tendon after tendon; see
    :class:`SpatialTendon`.

    ``stiffness``, ``damping``, ``limit_stiffness`` and ``offset`` have shape [T], ``position``
    [A, 3], the others [A]. The rest length is zero and the limits are infinite where an attachment
    has none.
    """

    stiffness: Array
    damping: Array
    limit_stiffness: Array
    offset: Array
    position: Array
    coefficient: Array
    rest_length: Array
    lower_limit: Array
    upper_limit: Array

    @classmethod
    def of(cls, tendons: Sequence[SpatialTendon]) -> SpatialTendons:
        """NumPy arrays from the descriptors."""
        points = [attachment for tendon in tendons for attachment in tendon.attachments]
        limits = np.array([interval(point.limits, point.link) for point in points], float).reshape(
            -1, 2
        )
        rest = [0.0 if point.rest_length is None else point.rest_length for point in points]
        return cls(
            **{name: _column(tendons, name) for name in (*_TENDON_GAINS, "offset")},
            position=np.array([point.position for point in points], float).reshape(-1, 3),  # type: ignore[arg-type]
            coefficient=_column(points, "coefficient"),
            rest_length=np.array(rest, float),  # type: ignore[arg-type]
            lower_limit=limits[:, 0],  # type: ignore[arg-type]
            upper_limit=limits[:, 1],  # type: ignore[arg-type]
        )


def _column(descriptors: Sequence, name: str):
    return np.array([getattr(descriptor, name) for descriptor in descriptors], float)
