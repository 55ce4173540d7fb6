"""PhysX's enumerations and the arrays that they name, with its names and the values of PhysX 5.6.1.

An entry ``eJOINT_POSITION`` of ``PxArticulationGPUAPIReadType`` is
``ArticulationGPUAPIReadType.JOINT_POSITION`` here. ``PxArticulationAxis`` and
``PxArticulationJointType`` are :class:`artix.Axis` and :class:`artix.JointType`, which have PhysX's
names and values (there is no ``eUNDEFINED``: every joint has a type). A :class:`Field` says where
the array is that an entry names.
"""

from __future__ import annotations

import enum
import functools
import operator
from typing import Any, NamedTuple, TypeVar

import jax

from artix.model.joints import Axis, JointType

ArticulationAxis = Axis
ArticulationJointType = JointType


class ArticulationMotion(enum.IntEnum):
    """``PxArticulationMotion``: freedom of one joint axis; see :func:`~artix.physx.get_motion`.

    Examples:
      >>> from artix import physx
      >>> print([motion.name for motion in physx.ArticulationMotion])
      ['LOCKED', 'LIMITED', 'FREE']
    """

    LOCKED = 0
    LIMITED = 1
    FREE = 2


class ArticulationDriveType(enum.IntEnum):
    """``PxArticulationDriveType``; see :func:`~artix.physx.get_drive_type`.

    Examples:
      >>> from artix import physx
      >>> print([kind.name for kind in physx.ArticulationDriveType])
      ['FORCE', 'ACCELERATION', 'NONE']
    """

    FORCE = 0
    ACCELERATION = 1
    NONE = 2


class ArticulationFlag(enum.IntFlag):
    """``PxArticulationFlag``; see :func:`~artix.physx.set_articulation_flag`.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> print(physx.ArticulationFlag.FIX_BASE in simulation.articulation_flags)
      True
    """

    FIX_BASE = 1
    DRIVE_LIMITS_ARE_FORCES = 2
    """Deprecated in PhysX 5.6.1."""
    DISABLE_SELF_COLLISION = 4


class ArticulationKinematicFlag(enum.IntFlag):
    """``PxArticulationKinematicFlag``: tells :func:`~artix.physx.update_kinematic` what has
    changed.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> moved = physx.update_kinematic(simulation, physx.ArticulationKinematicFlag.POSITION)
      >>> print(moved.state.joint_position)
      [0. 0.]
    """

    POSITION = 1
    VELOCITY = 2


class ArticulationCacheFlag(enum.IntFlag):
    """``PxArticulationCacheFlag``: which fields to copy between an articulation and its cache.

    As in PhysX, ``ALL`` excludes ``FORCE``, targets, link forces and incoming joint forces.

    Examples:
      >>> from artix.physx import ArticulationCacheFlag as Flag
      >>> print(Flag.POSITION | Flag.VELOCITY in Flag.ALL)
      True
    """

    VELOCITY = 1 << 0
    ACCELERATION = 1 << 1
    POSITION = 1 << 2
    FORCE = 1 << 3
    LINK_VELOCITY = 1 << 4
    LINK_ACCELERATION = 1 << 5
    ROOT_TRANSFORM = 1 << 6
    ROOT_VELOCITIES = 1 << 7
    JOINT_SOLVER_FORCES = 1 << 8
    """Removed in PhysX 5.4."""
    SENSOR_FORCES = 1 << 9
    """Removed in PhysX 5.4."""
    LINK_INCOMING_JOINT_FORCE = 1 << 10
    JOINT_TARGET_POSITIONS = 1 << 11
    JOINT_TARGET_VELOCITIES = 1 << 12
    LINK_FORCE = 1 << 13
    LINK_TORQUE = 1 << 14
    ALL = (
        VELOCITY
        | ACCELERATION
        | POSITION
        | LINK_VELOCITY
        | LINK_ACCELERATION
        | ROOT_TRANSFORM
        | ROOT_VELOCITIES
    )


class ArticulationGPUAPIReadType(enum.IntEnum):
    """``PxArticulationGPUAPIReadType``: what :func:`~artix.physx.get_articulation_data` reads.

    Examples:
      >>> from artix.physx import ArticulationGPUAPIReadType as Read
      >>> print(Read.JOINT_POSITION.name, len(Read))
      JOINT_POSITION 19
    """

    JOINT_POSITION = 0
    JOINT_VELOCITY = 1
    JOINT_ACCELERATION = 2
    JOINT_FORCE = 3
    JOINT_TARGET_VELOCITY = 4
    JOINT_TARGET_POSITION = 5
    ROOT_GLOBAL_POSE = 6
    ROOT_LINEAR_VELOCITY = 7
    ROOT_ANGULAR_VELOCITY = 8
    LINK_GLOBAL_POSE = 9
    LINK_LINEAR_VELOCITY = 10
    LINK_ANGULAR_VELOCITY = 11
    LINK_LINEAR_ACCELERATION = 12
    LINK_ANGULAR_ACCELERATION = 13
    LINK_INCOMING_JOINT_FORCE = 14
    FIXED_TENDON = 15
    FIXED_TENDON_JOINT = 16
    SPATIAL_TENDON = 17
    SPATIAL_TENDON_ATTACHMENT = 18


class ArticulationGPUAPIWriteType(enum.IntEnum):
    """``PxArticulationGPUAPIWriteType``: what :func:`~artix.physx.set_articulation_data` writes.

    Examples:
      >>> from artix.physx import ArticulationGPUAPIWriteType as Write
      >>> print(Write.JOINT_TARGET_POSITION.name, len(Write))
      JOINT_TARGET_POSITION 14
    """

    JOINT_POSITION = 0
    JOINT_VELOCITY = 1
    JOINT_FORCE = 2
    JOINT_TARGET_VELOCITY = 3
    JOINT_TARGET_POSITION = 4
    ROOT_GLOBAL_POSE = 5
    ROOT_LINEAR_VELOCITY = 6
    ROOT_ANGULAR_VELOCITY = 7
    LINK_FORCE = 8
    LINK_TORQUE = 9
    FIXED_TENDON = 10
    FIXED_TENDON_JOINT = 11
    SPATIAL_TENDON = 12
    SPATIAL_TENDON_ATTACHMENT = 13


class ArticulationGPUAPIComputeType(enum.IntEnum):
    """``PxArticulationGPUAPIComputeType``: what :func:`~artix.physx.compute_articulation_data`
    computes.

    PhysX 5.7 removed the three ``GENERALIZED`` and ``CORIOLIS_AND_CENTRIFUGAL_FORCES`` entries and
    renumbered the rest.

    Examples:
      >>> from artix.physx import ArticulationGPUAPIComputeType as Compute
      >>> print(Compute.MASS_MATRICES.name, len(Compute))
      MASS_MATRICES 11
    """

    UPDATE_KINEMATIC = 0
    DENSE_JACOBIANS = 1
    GENERALIZED_MASS_MATRICES = 2
    """Deprecated in PhysX 5.5; for a floating base the joints' inertia with the root left free."""
    GENERALIZED_GRAVITY_FORCES = 3
    """Deprecated in PhysX 5.5."""
    CORIOLIS_AND_CENTRIFUGAL_FORCES = 4
    """Deprecated in PhysX 5.5."""
    MASS_MATRICES = 5
    CORIOLIS_AND_CENTRIFUGAL_COMPENSATION = 6
    GRAVITY_COMPENSATION = 7
    ARTICULATION_COMS_WORLD_FRAME = 8
    ARTICULATION_COMS_ROOT_FRAME = 9
    CENTROIDAL_MOMENTUM_MATRICES = 10


Array = jax.Array

_Type = TypeVar("_Type", bound=enum.IntEnum)
_Flags = TypeVar("_Flags", bound=enum.IntFlag)


def _check_enumeration(kind: type[enum.Enum], name: str, value: Any) -> None:
    if isinstance(value, enum.Enum) and not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__}, found {value!r}")


def of_type(kind: type[_Type], name: str, value: Any) -> _Type:
    """The enumerator, or its number, that an argument of this name stands for.

    Raises:
      TypeError: it belongs to another enumeration, where the same number means something else.
      ValueError: there is no such number.
    """
    _check_enumeration(kind, name, value)
    return kind(value)


def flags_of(kind: type[_Flags], name: str, value: Any) -> _Flags:
    """The flags, or their number, that an argument of this name stands for.

    Raises:
      TypeError: they belong to another enumeration, where the same bits mean something else, or are
        no whole number.
      ValueError: a bit is none of the flags.
    """
    _check_enumeration(kind, name, value)
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected {kind.__name__}, found {value!r}") from None
    every = functools.reduce(operator.or_, map(int, kind))
    if number & ~every:
        raise ValueError(
            f"{name}: {number:#x} has bits that are no {kind.__name__}; there are "
            f"{', '.join(flag.name or '' for flag in kind)}"
        )
    return kind(number)


class Field(NamedTuple):
    """An array in a simulation or a cache, or some of its columns; ``path`` leads to it from
    attribute to attribute.
    """

    path: str
    columns: slice = slice(None)

    def read(self, tree: Any) -> Array:
        """The field of a simulation or a cache."""
        return operator.attrgetter(self.path)(tree)[..., self.columns]

    def write(self, tree: Any, values: Array) -> Any:
        """The simulation or the cache with these values in the field."""
        if self.columns != slice(None):
            values = operator.attrgetter(self.path)(tree).at[..., self.columns].set(values)
        owner, _, name = self.path.rpartition(".")
        if not owner:
            return tree.replace(**{name: values})
        return tree.replace(**{owner: getattr(tree, owner).replace(**{name: values})})


#: Columns of velocities, accelerations and wrenches.
LINEAR = slice(0, 3)
ANGULAR = slice(3, 6)

#: What ``PxArticulationGPUAPIReadType`` and ``PxArticulationGPUAPIWriteType`` name, as far as a
#: simulation stores it.
FIELDS = {
    "JOINT_POSITION": Field("state.joint_position"),
    "JOINT_VELOCITY": Field("state.joint_velocity"),
    "JOINT_ACCELERATION": Field("report.joint_acceleration"),
    "JOINT_FORCE": Field("joint_force"),
    "JOINT_TARGET_VELOCITY": Field("drive_target_velocity"),
    "JOINT_TARGET_POSITION": Field("drive_target"),
    "ROOT_GLOBAL_POSE": Field("state.root_pose"),
    "ROOT_LINEAR_VELOCITY": Field("state.root_velocity", LINEAR),
    "ROOT_ANGULAR_VELOCITY": Field("state.root_velocity", ANGULAR),
    "LINK_LINEAR_ACCELERATION": Field("report.link_acceleration", LINEAR),
    "LINK_ANGULAR_ACCELERATION": Field("report.link_acceleration", ANGULAR),
    "LINK_INCOMING_JOINT_FORCE": Field("report.incoming_joint_force"),
    "LINK_FORCE": Field("external_force", LINEAR),
    "LINK_TORQUE": Field("external_force", ANGULAR),
}
