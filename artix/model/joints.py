"""Joints as a builder takes them: types, axes, drives, friction, and joints of several axes as
joints in series.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from artix.math import struct
from artix.model.validation import check_fields, number

Array = jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drive:
    """A spring and damper towards targets on one joint axis, PhysX's ``PxArticulationDrive``.

    The effort is ``stiffness (target - q) + damping (target_velocity - qd)``, limited to
    ``max_force``; an acceleration drive multiplies it by the inertia that the axis feels.

    Attributes:
      stiffness: spring [N m/rad or N/m; per unit of inertia for an acceleration drive].
      damping: damper [N m s/rad or N s/m; per unit of inertia for an acceleration drive].
      max_force: largest effort [N m or N], ``inf`` for none.
      acceleration: whether the drive is of PhysX's type ``eACCELERATION`` rather than ``eFORCE``.
      target: target position [rad or m].
      target_velocity: target velocity [rad/s or m/s].

    Raises:
      ValueError: a gain or limit is negative, a number is not finite (``max_force`` may be
        infinite).

    Examples:
      >>> servo = artix.Drive(stiffness=100.0, damping=10.0, max_force=50.0, target=0.5)
      >>> joint = artix.Joint.revolute(artix.Axis.SWING1, drive=servo)
      >>> print(joint.drive.stiffness, joint.drive.max_force)
      100.0 50.0
    """

    stiffness: float = 0.0
    damping: float = 0.0
    max_force: float = np.inf
    acceleration: bool = False
    target: float = 0.0
    target_velocity: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, "drive", not_negative=("stiffness", "damping"), bounds=("max_force",))
        check_fields(self, "drive", finite=("target", "target_velocity"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriveEnvelope:
    """What the motor behind a joint axis can do, PhysX's ``PxPerformanceEnvelope``.

    It replaces the drive's ``max_force``: drive and commanded force together stay within
    ``|effort| <= max_effort - velocity_dependent_resistance |qd|`` and the speed within
    ``|qd| <= max_actuator_velocity - speed_effort_gradient |effort|``.

    Attributes:
      max_effort: largest effort [N m or N].
      max_actuator_velocity: largest speed at which the actuator delivers effort [rad/s or m/s],
        ``inf`` for none.
      velocity_dependent_resistance: effort lost per speed [N m s/rad or N s/m].
      speed_effort_gradient: speed lost per effort [rad/s/(N m) or m/s/N].

    Raises:
      ValueError: a number is negative, or anything but ``max_actuator_velocity`` is infinite.

    Examples:
      >>> motor = artix.DriveEnvelope(
      ...     max_effort=30.0, max_actuator_velocity=20.0, velocity_dependent_resistance=0.5
      ... )
      >>> joint = artix.Joint.revolute(envelope=motor)  # 30 N m at rest, 25 N m at 10 rad/s
      >>> print(joint.envelope.max_effort - 10.0 * joint.envelope.velocity_dependent_resistance)
      25.0
    """

    max_effort: float
    max_actuator_velocity: float = np.inf
    velocity_dependent_resistance: float = 0.0
    speed_effort_gradient: float = 0.0

    def __post_init__(self) -> None:
        gradients = ("velocity_dependent_resistance", "speed_effort_gradient")
        check_fields(
            self,
            "envelope",
            not_negative=("max_effort", *gradients),
            bounds=("max_actuator_velocity",),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class JointFriction:
    """Friction on one joint axis, PhysX's ``PxJointFrictionParams``.

    Attributes:
      static: effort up to which the axis sticks [N m or N].
      dynamic: dry friction while the axis moves, at most ``static`` [N m or N].
      viscous: friction per speed while the axis moves [N m s/rad or N s/m].

    Raises:
      ValueError: a number is negative or not finite, or ``dynamic`` exceeds ``static``.

    Examples:
      >>> friction = artix.JointFriction(static=1.0, dynamic=0.8, viscous=0.1)
      >>> joint = artix.Joint.revolute(friction=friction)
      >>> print(joint.friction.static)
      1.0
    """

    static: float = 0.0
    dynamic: float = 0.0
    viscous: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, "friction", not_negative=("static", "dynamic", "viscous"))
        if self.dynamic > self.static:
            raise ValueError(
                f"friction: dynamic friction ({self.dynamic}) must not exceed static friction "
                f"({self.static})"
            )


class Drives(struct.PyTreeNode):
    """The drives of all DOFs, each array [n]; see :class:`Drive`.

    Attributes:
      stiffness: springs, 0 for none.
      damping: dampers, 0 for none.
      max_force: effort limits, ``inf`` for none.
      is_acceleration: 1 for acceleration drives, 0 for force drives, in the articulation's dtype.
      target_position: default target positions, for steps without a target [rad or m].
      target_velocity: default target velocities [rad/s or m/s].
    """

    stiffness: Array
    damping: Array
    max_force: Array
    is_acceleration: Array
    target_position: Array
    target_velocity: Array

    @classmethod
    def of(cls, drives: Sequence[Drive | None]) -> Drives:
        """NumPy arrays from one descriptor per DOF; ``None`` means no drive."""
        table = np.array(
            [dataclasses.astuple(drive or Drive()) for drive in drives], float
        ).reshape(-1, 6)
        return cls(*table.T)


class DriveEnvelopes(struct.PyTreeNode):
    """The performance envelopes of all DOFs, each array [n]; an infinite ``max_effort`` means no
    envelope.
    """

    max_effort: Array
    max_actuator_velocity: Array
    velocity_dependent_resistance: Array
    speed_effort_gradient: Array

    @classmethod
    def of(cls, envelopes: Sequence[DriveEnvelope | None]) -> DriveEnvelopes:
        """NumPy arrays from one descriptor per DOF; ``None`` means no envelope."""
        none = (np.inf, np.inf, 0.0, 0.0)
        rows = [
            none if envelope is None else dataclasses.astuple(envelope) for envelope in envelopes
        ]
        table = np.array(rows, float).reshape(-1, 4)
        return cls(*table.T)


class JointFrictions(struct.PyTreeNode):
    """The friction of all DOFs, each array [n]; see :class:`JointFriction`."""

    static: Array
    dynamic: Array
    viscous: Array

    @classmethod
    def of(cls, frictions: Sequence[JointFriction]) -> JointFrictions:
        """NumPy arrays from one descriptor per DOF."""
        table = np.array([dataclasses.astuple(friction) for friction in frictions], float).reshape(
            -1, 3
        )
        return cls(*table.T)


IDENTITY_POSE = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


class JointType(enum.IntEnum):
    """How a link moves relative to its parent; names and values are ``PxArticulationJointType``'s,
    except ``HELICAL``.

    Examples:
      >>> print([kind.name for kind in artix.JointType])
      ['FIX', 'PRISMATIC', 'REVOLUTE', 'REVOLUTE_UNWRAPPED', 'SPHERICAL', 'HELICAL']
    """

    FIX = 0
    PRISMATIC = 1
    REVOLUTE = 2
    """One rotation, which is that of a wheel while nothing counts its turns: no drive stiffness,
    limit, mimic joint or fixed tendon. Its angle is kept within [-2 pi, 2 pi] by steps of 4 pi, as
    in PhysX."""
    REVOLUTE_UNWRAPPED = 3
    """One rotation, whose angle always counts turns."""
    SPHERICAL = 4
    """One, two or three free rotations; the position is a rotation vector."""
    HELICAL = 6
    """A screw: one rotation, and a translation along its axis by ``pitch`` times the angle; not in
    PhysX."""


class Axis(enum.IntEnum):
    """The axes of a joint frame; names and values follow ``PxArticulationAxis``.

    Examples:
      >>> print([axis.name for axis in artix.Axis])
      ['TWIST', 'SWING1', 'SWING2', 'X', 'Y', 'Z']
      >>> print(artix.robots.load("cart_pole").topology.joint_axes[1])  # the cart slides along x
      (<Axis.X: 3>,)
    """

    TWIST = 0
    SWING1 = 1
    SWING2 = 2
    X = 3
    Y = 4
    Z = 5

    @classmethod
    def _missing_(cls, value: object) -> None:
        choices = ", ".join(f"artix.Axis.{axis.name}" for axis in cls)
        raise ValueError(f"{value!r} is not a valid Axis; choose from {choices}")


#: The axes of a joint frame about which it may rotate, and along which it may slide.
ROTATIONS = (Axis.TWIST, Axis.SWING1, Axis.SWING2)
TRANSLATIONS = (Axis.X, Axis.Y, Axis.Z)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Joint:
    """The description of the joint between a link and its parent, for
    :class:`~artix.ArticulationBuilder`.

    The world poses of the two links satisfy ``X_child = X_parent * parent_pose * J(q) *
    inverse(child_pose)`` with ``J = translate(q e)`` for a prismatic joint, ``J = rot(e, q)`` for a
    revolute one and ``J = exp(sum_k q_k e_k)`` (a rotation vector) for a spherical one, and
    ``J = translate(pitch q e) rot(e, q)`` for a helical one.

    Attributes:
      type: the kind of joint.
      axes: the free axes of the joint frame, in PhysX's order (twist, swing1, swing2, x, y, z).
      name: the joint's name; ``None`` lets the builder name it after its child link.
      parent_pose: joint frame in the parent's link frame, position [m] and quaternion xyzw, shape
        [7].
      child_pose: joint frame in the child's link frame, position [m] and quaternion xyzw, shape
        [7].
      limits: (lower, upper) per axis [rad or m]; ``None`` is unlimited.
      armature: inertia added to each degree of freedom by forward dynamics [kg m^2 or kg].
      max_velocity: largest speed per degree of freedom [rad/s or m/s].
      max_force: largest commanded effort per degree of freedom [N m or N]; drives have a limit of
        their own.
      drive: spring and damper towards targets.
      friction: friction parameters, or one number for static and dynamic friction alike [N m or N].
      envelope: what the motor can do; replaces the drive's ``max_force``.
      pitch: translation along the axis of a helical joint per angle [m/rad]; zero for all other
        types.

    ``drive``, ``friction`` and ``envelope`` apply to every free axis, or are sequences with one
    entry per free axis.

    Raises:
      ValueError: the axes do not suit the joint type, or the pitch is not finite, or not zero for
        another type.

    Examples:
      >>> half = (0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0)
      >>> hinge = artix.Joint.revolute(
      ...     artix.Axis.SWING1, child_pose=half, limits=[(-1.0, 1.0)], max_force=20.0
      ... )
      >>> slide = artix.Joint.prismatic(artix.Axis.X, name="rail")
      >>> ball = artix.Joint.spherical()
      >>> print([len(joint.axes) for joint in (hinge, slide, ball, artix.Joint.fixed())])
      [1, 1, 3, 0]
    """

    type: JointType
    axes: tuple[Axis, ...] = ()
    name: str | None = None
    parent_pose: npt.ArrayLike = IDENTITY_POSE
    child_pose: npt.ArrayLike = IDENTITY_POSE
    limits: Sequence[tuple[float, float] | None] | None = None
    armature: float | Sequence[float] = 0.0
    max_velocity: float | Sequence[float] = np.inf
    max_force: float | Sequence[float] = np.inf
    drive: Drive | Sequence[Drive | None] | None = None
    friction: JointFriction | float | Sequence[JointFriction | float] = 0.0
    envelope: DriveEnvelope | Sequence[DriveEnvelope | None] | None = None
    pitch: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", JointType(self.type))
        object.__setattr__(self, "axes", tuple(Axis(axis) for axis in self.axes))
        allowed = {
            JointType.FIX: ((), 0, 0),
            JointType.PRISMATIC: (TRANSLATIONS, 1, 1),
            JointType.REVOLUTE: (ROTATIONS, 1, 1),
            JointType.REVOLUTE_UNWRAPPED: (ROTATIONS, 1, 1),
            JointType.SPHERICAL: (ROTATIONS, 1, 3),
            JointType.HELICAL: (ROTATIONS, 1, 1),
        }
        axes, least, most = allowed[self.type]
        free = self.axes
        if not (
            least <= len(free) <= most
            and all(axis in axes for axis in free)
            and list(free) == sorted(set(free))
        ):
            names = ", ".join(axis.name.lower() for axis in axes) or "no axis"
            count = str(least) if least == most else f"{least} to {most}"
            raise ValueError(
                f"joint {self.name!r}: a {self.type.name.lower()} joint takes {count} free axes "
                f"out of ({names}), each once and in this order; found "
                f"({', '.join(axis.name.lower() for axis in free)})"
            )
        pitch = number(self.pitch, f"joint {self.name!r}: pitch")
        if not np.isfinite(pitch) or (pitch != 0.0 and self.type is not JointType.HELICAL):
            rule = (
                "be finite"
                if self.type is JointType.HELICAL
                else "be zero: only helical joints have one"
            )
            raise ValueError(f"joint {self.name!r}: pitch must {rule}; found {pitch}")

    @classmethod
    def fixed(cls, **options) -> Joint:
        """A joint without degrees of freedom."""
        return cls(type=JointType.FIX, **options)

    @classmethod
    def revolute(cls, axis: Axis = Axis.TWIST, *, wrapped: bool = True, **options) -> Joint:
        """One rotation about ``axis``; ``wrapped=False`` makes its angle count turns always.

        See *Angles* in the conventions.
        """
        kind = JointType.REVOLUTE if wrapped else JointType.REVOLUTE_UNWRAPPED
        return cls(type=kind, axes=(axis,), **options)

    @classmethod
    def prismatic(cls, axis: Axis = Axis.X, **options) -> Joint:
        """One translation along ``axis``."""
        return cls(type=JointType.PRISMATIC, axes=(axis,), **options)

    @classmethod
    def spherical(cls, axes: Sequence[Axis] = ROTATIONS, **options) -> Joint:
        """Rotations about one, two or three ``axes``; the position is their rotation vector.

        With two axes, positions and velocities fit together only approximately (see *Spherical
        joints* in the conventions); :meth:`~artix.CompositeJoint.universal` is exact.
        """
        return cls(type=JointType.SPHERICAL, axes=tuple(axes), **options)

    @classmethod
    def helical(cls, axis: Axis = Axis.TWIST, *, pitch: float, **options) -> Joint:
        """A screw about ``axis`` that advances by ``pitch`` per radian [m/rad]; the position is the
        angle.

        Pinocchio's ``JointModelHelical``. The angle never wraps.
        """
        return cls(type=JointType.HELICAL, axes=(axis,), pitch=pitch, **options)


#: Joint options that may be given per degree of freedom.
_PER_DOF = ("limits", "armature", "max_velocity", "max_force", "drive", "friction", "envelope")

_X, _Y, _Z = (Joint.prismatic(axis) for axis in (Axis.X, Axis.Y, Axis.Z))
_TWIST, _SWING1, _SWING2 = (Joint.revolute(axis) for axis in (Axis.TWIST, Axis.SWING1, Axis.SWING2))


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompositeJoint:
    """Several joints in series between two links, Pinocchio's ``JointModelComposite``.

    :meth:`~artix.ArticulationBuilder.add_link` accepts it in place of a joint and adds a massless
    link called ``<link>:<joint>`` after each joint but the last. Positions and velocities are those
    of the single joints, so translations are along the axes of the parent joint frame. In
    Pinocchio's planar and free-flyer joints they are along the axes of the moving link; the page on
    the configuration explains the conversion.

    The ready-made joints take ``name``, ``parent_pose`` and ``child_pose`` (the joint frame in each
    link's frame; the two coincide at position zero) and the options of :class:`~artix.Joint`,
    either for all degrees of freedom or as a sequence with one entry for each.

    Attributes:
      joints: the joints, starting at the parent; those without a name are called ``<name>:<axis>``.
      name: name of the composite joint; ``None`` lets the builder name it after its child link.

    Raises:
      ValueError: there is no joint, or an option does not have one entry per degree of freedom.
      TypeError: ``joints`` holds something else, such as another composite joint.

    Examples:
      >>> builder = artix.ArticulationBuilder(fixed_base=True)
      >>> base = builder.add_link(name="floor")
      >>> joint = artix.CompositeJoint.planar(name="drive")
      >>> _ = builder.add_link(base, joint, mass=5.0, inertia=(0.1, 0.1, 0.2), name="cart")
      >>> cart = builder.build()
      >>> print(cart.topology.dof_names)
      ('drive:x', 'drive:y', 'drive:swing2')
      >>> print(jnp.diagonal(artix.mass_matrix(cart, artix.neutral_state(cart))))
      [5.  5.  0.2]
    """

    joints: Sequence[Joint]
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "joints", tuple(self.joints))
        if not self.joints:
            raise ValueError(f"composite joint {self.name!r}: it has no joints; give at least one")
        for joint in self.joints:
            if not isinstance(joint, Joint):
                raise TypeError(
                    f"composite joint {self.name!r}: expected joints, found {type(joint).__name__}"
                )

    def named_joints(self, link: str) -> tuple[Joint, ...]:
        """The joints with names, for a child link called ``link``."""
        name = f"{link}_joint" if self.name is None else self.name
        suffixes = [_suffix(joint) for joint in self.joints]
        if len(set(suffixes)) < len(suffixes):
            suffixes = [str(k) for k in range(len(suffixes))]
        return tuple(
            joint if joint.name is not None else dataclasses.replace(joint, name=f"{name}:{suffix}")
            for joint, suffix in zip(self.joints, suffixes, strict=True)
        )

    @classmethod
    def universal(
        cls, axes: tuple[Axis, Axis] = (Axis.TWIST, Axis.SWING1), **options: Any
    ) -> CompositeJoint:
        """A rotation about the first axis, then one about the rotated second axis (a Cardan
        joint).
        """
        return _sequence([Joint.revolute(axis) for axis in axes], **options)

    @classmethod
    def spherical_zyx(cls, **options: Any) -> CompositeJoint:
        """Rotations about z, the rotated y and the rotated x (yaw, pitch, roll), singular at a
        pitch of 90 degrees.

        Pinocchio's ``JointModelSphericalZYX``; :meth:`~artix.Joint.spherical` has no singularity.
        """
        return _sequence([_SWING2, _SWING1, _TWIST], **options)

    @classmethod
    def cylindrical(cls, **options: Any) -> CompositeJoint:
        """A translation along x and a rotation about it."""
        return _sequence([_X, _TWIST], **options)

    @classmethod
    def planar(cls, **options: Any) -> CompositeJoint:
        """Translations along x and y, and a rotation about z: Pinocchio's ``JointModelPlanar``,
        URDF's ``planar``.
        """
        return _sequence([_X, _Y, _SWING2], **options)

    @classmethod
    def translation(cls, **options: Any) -> CompositeJoint:
        """Translations along x, y and z, Pinocchio's ``JointModelTranslation``."""
        return _sequence([_X, _Y, _Z], **options)

    @classmethod
    def free(cls, **options: Any) -> CompositeJoint:
        """Translations along x, y and z, then a free rotation: a free-flyer within a tree, URDF's
        ``floating``.
        """
        return _sequence([_X, _Y, _Z, Joint.spherical()], **options)


def _suffix(joint: Joint) -> str:
    if joint.type is JointType.SPHERICAL:
        return "rotation"
    return "_".join(axis.name.lower() for axis in joint.axes) or "fixed"


def _sequence(
    joints: Sequence[Joint],
    *,
    name: str | None = None,
    parent_pose: npt.ArrayLike = IDENTITY_POSE,
    child_pose: npt.ArrayLike = IDENTITY_POSE,
    **options: Any,
) -> CompositeJoint:
    """Joints that share one frame at position zero, with the options distributed over their degrees
    of freedom.
    """
    count = sum(len(joint.axes) for joint in joints)
    parts = []
    first = 0
    for joint in joints:
        last = first + len(joint.axes)
        joint_options = {
            key: _part(key, value, slice(first, last), count, name)
            for key, value in options.items()
        }
        parts.append(dataclasses.replace(joint, **joint_options))
        first = last
    parts[0] = dataclasses.replace(parts[0], parent_pose=parent_pose)
    parts[-1] = dataclasses.replace(parts[-1], child_pose=child_pose)
    return CompositeJoint(joints=parts, name=name)


def _part(key: str, value: Any, dofs: slice, count: int, name: str | None) -> Any:
    if key not in _PER_DOF:
        raise TypeError(
            f"composite joint {name!r}: unknown option {key!r}; known options: "
            f"{', '.join(_PER_DOF)}"
        )
    if not isinstance(value, (Sequence, np.ndarray)):
        return value
    if len(value) != count:
        raise ValueError(
            f"composite joint {name!r}: {key} must have one entry per degree of freedom "
            f"({count}); found {len(value)}"
        )
    return value[dofs]
