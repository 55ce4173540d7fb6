"""Joint types, joint axes, the description of one joint, and joints with several axes as simpler joints in series."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from artix.model.joint_features import Drive, DriveEnvelope, JointFriction
from artix.model.validation import number

IDENTITY_POSE = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


class JointType(enum.IntEnum):
    """How a link moves relative to its parent; names and values are ``PxArticulationJointType``'s, except ``HELICAL``.

    Examples:
      >>> print([kind.name for kind in artix.JointType])
      ['FIX', 'PRISMATIC', 'REVOLUTE', 'REVOLUTE_UNWRAPPED', 'SPHERICAL', 'HELICAL']
    """

    FIX = 0
    PRISMATIC = 1
    REVOLUTE = 2
    """One rotation, which is that of a wheel while nothing counts its turns: no drive stiffness, limit,
    mimic joint or fixed tendon. Its angle is kept within [-2 pi, 2 pi] by steps of 4 pi, as in PhysX."""
    REVOLUTE_UNWRAPPED = 3
    """One rotation, whose angle always counts turns."""
    SPHERICAL = 4
    """One, two or three free rotations; the position is a rotation vector."""
    HELICAL = 6
    """A screw: one rotation, and a translation along its axis by ``pitch`` times the angle; not in PhysX."""


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


_ROTATIONS = (Axis.TWIST, Axis.SWING1, Axis.SWING2)
_TRANSLATIONS = (Axis.X, Axis.Y, Axis.Z)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Joint:
    """The description of the joint between a link and its parent, for :class:`~artix.ArticulationBuilder`.

    The world poses of the two links satisfy ``X_child = X_parent * parent_pose * J(q) * inverse(child_pose)``
    with ``J = translate(q e)`` for a prismatic joint, ``J = rot(e, q)`` for a revolute one and
    ``J = exp(sum_k q_k e_k)`` (a rotation vector) for a spherical one, and ``J = translate(pitch q e) rot(e, q)`` for
    a helical one.

    Attributes:
      type: the kind of joint.
      axes: the free axes of the joint frame, in PhysX's order (twist, swing1, swing2, x, y, z).
      name: the joint's name; ``None`` lets the builder name it after its child link.
      parent_pose: joint frame in the parent's link frame, position [m] and quaternion xyzw, shape [7].
      child_pose: joint frame in the child's link frame, position [m] and quaternion xyzw, shape [7].
      limits: (lower, upper) per axis [rad or m]; ``None`` is unlimited.
      armature: inertia added to each degree of freedom by forward dynamics [kg m^2 or kg].
      max_velocity: largest speed per degree of freedom [rad/s or m/s].
      max_force: largest commanded effort per degree of freedom [N m or N]; drives have a limit of their own.
      drive: spring and damper towards targets.
      friction: friction parameters, or one number for static and dynamic friction alike [N m or N].
      envelope: what the motor can do; replaces the drive's ``max_force``.
      pitch: translation along the axis of a helical joint per angle [m/rad]; zero for all other types.

    ``drive``, ``friction`` and ``envelope`` apply to every free axis, or are sequences with one entry per free axis.

    Raises:
      ValueError: the axes do not suit the joint type, or the pitch is not finite, or not zero for another type.

    Examples:
      >>> half = (0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0)
      >>> hinge = artix.Joint.revolute(artix.Axis.SWING1, child_pose=half, limits=[(-1.0, 1.0)], max_force=20.0)
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
            JointType.PRISMATIC: (_TRANSLATIONS, 1, 1),
            JointType.REVOLUTE: (_ROTATIONS, 1, 1),
            JointType.REVOLUTE_UNWRAPPED: (_ROTATIONS, 1, 1),
            JointType.SPHERICAL: (_ROTATIONS, 1, 3),
            JointType.HELICAL: (_ROTATIONS, 1, 1),
        }
        axes, least, most = allowed[self.type]
        free = self.axes
        if not (least <= len(free) <= most and all(axis in axes for axis in free) and list(free) == sorted(set(free))):
            names = ", ".join(axis.name.lower() for axis in axes) or "no axis"
            count = str(least) if least == most else f"{least} to {most}"
            raise ValueError(
                f"joint {self.name!r}: a {self.type.name.lower()} joint takes {count} free axes out of ({names}), "
                f"each once and in this order; found ({', '.join(axis.name.lower() for axis in free)})"
            )
        pitch = number(self.pitch, f"joint {self.name!r}: pitch")
        if not np.isfinite(pitch) or (pitch != 0.0 and self.type is not JointType.HELICAL):
            rule = "be finite" if self.type is JointType.HELICAL else "be zero: only helical joints have one"
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
    def spherical(cls, axes: Sequence[Axis] = _ROTATIONS, **options) -> Joint:
        """Rotations about one, two or three ``axes``; the position is their rotation vector.

        With two axes, positions and velocities fit together only approximately (see *Spherical joints* in the
        conventions); :meth:`~artix.CompositeJoint.universal` is exact.
        """
        return cls(type=JointType.SPHERICAL, axes=tuple(axes), **options)

    @classmethod
    def helical(cls, axis: Axis = Axis.TWIST, *, pitch: float, **options) -> Joint:
        """A screw about ``axis`` that advances by ``pitch`` per radian [m/rad]; the position is the angle.

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

    :meth:`~artix.ArticulationBuilder.add_link` accepts it in place of a joint and adds a massless link called
    ``<link>:<joint>`` after each joint but the last. Positions and velocities are those of the single joints, so
    translations are along the axes of the parent joint frame. In Pinocchio's planar and free-flyer joints they are
    along the axes of the moving link; the page on the configuration explains the conversion.

    The ready-made joints take ``name``, ``parent_pose`` and ``child_pose`` (the joint frame in each link's frame; the
    two coincide at position zero) and the options of :class:`~artix.Joint`, either for all degrees of freedom or as a
    sequence with one entry for each.

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
                raise TypeError(f"composite joint {self.name!r}: expected joints, found {type(joint).__name__}")

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
    def universal(cls, axes: tuple[Axis, Axis] = (Axis.TWIST, Axis.SWING1), **options: Any) -> CompositeJoint:
        """A rotation about the first axis, then one about the rotated second axis (a Cardan joint)."""
        return _sequence([Joint.revolute(axis) for axis in axes], **options)

    @classmethod
    def spherical_zyx(cls, **options: Any) -> CompositeJoint:
        """Rotations about z, the rotated y and the rotated x (yaw, pitch, roll), singular at a pitch of 90 degrees.

        Pinocchio's ``JointModelSphericalZYX``; :meth:`~artix.Joint.spherical` has no singularity.
        """
        return _sequence([_SWING2, _SWING1, _TWIST], **options)

    @classmethod
    def cylindrical(cls, **options: Any) -> CompositeJoint:
        """A translation along x and a rotation about it."""
        return _sequence([_X, _TWIST], **options)

    @classmethod
    def planar(cls, **options: Any) -> CompositeJoint:
        """Translations along x and y, and a rotation about z: Pinocchio's ``JointModelPlanar``, URDF's ``planar``."""
        return _sequence([_X, _Y, _SWING2], **options)

    @classmethod
    def translation(cls, **options: Any) -> CompositeJoint:
        """Translations along x, y and z, Pinocchio's ``JointModelTranslation``."""
        return _sequence([_X, _Y, _Z], **options)

    @classmethod
    def free(cls, **options: Any) -> CompositeJoint:
        """Translations along x, y and z, then a free rotation: a free-flyer within a tree, URDF's ``floating``."""
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
    """Joints that share one frame at position zero, with the options distributed over their degrees of freedom."""
    count = sum(len(joint.axes) for joint in joints)
    parts = []
    first = 0
    for joint in joints:
        last = first + len(joint.axes)
        joint_options = {key: _part(key, value, slice(first, last), count, name) for key, value in options.items()}
        parts.append(dataclasses.replace(joint, **joint_options))
        first = last
    parts[0] = dataclasses.replace(parts[0], parent_pose=parent_pose)
    parts[-1] = dataclasses.replace(parts[-1], child_pose=child_pose)
    return CompositeJoint(joints=parts, name=name)


def _part(key: str, value: Any, dofs: slice, count: int, name: str | None) -> Any:
    if key not in _PER_DOF:
        raise TypeError(f"composite joint {name!r}: unknown option {key!r}; known options: {', '.join(_PER_DOF)}")
    if not isinstance(value, (Sequence, np.ndarray)):
        return value
    if len(value) != count:
        raise ValueError(
            f"composite joint {name!r}: {key} must have one entry per degree of freedom ({count}); found {len(value)}"
        )
    return value[dofs]
