"""Joints with several axes, as simpler joints in series with massless links in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from artix.model.joints import IDENTITY_POSE, Axis, Joint, JointType

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
    parts, first = [], 0
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
